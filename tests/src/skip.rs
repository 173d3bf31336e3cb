//! Tests that this machine cannot run.

use std::env;
use std::io::Write;

/// Says which tests are skipped and why, also where they pass and their output is not shown.
///
/// # Panics
/// When the environment variable `required_by` is set: then what they need must be there.
pub fn skip(what: &str, reason: &str, required_by: &str) {
    let is_required = env::var_os(required_by).is_some_and(|set| !set.is_empty());
    assert!(!is_required, "{what} is required here ({required_by}) and cannot be had: {reason}");
    // `println!` would be captured with all that passed tests say.
    let _ = writeln!(std::io::stderr(), "skipped: {what} cannot be had: {reason}");
}

#[cfg(test)]
mod tests {
    use super::skip;

    #[test]
    fn a_required_test_fails_instead() {
        skip("the moon", "it is far away", "RONDO_MOON_REQUIRED");
        // `PATH` is always set.
        let failed = std::panic::catch_unwind(|| skip("the moon", "it is far away", "PATH"));
        let text = *failed.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("the moon is required here (PATH)"), "{text}");
    }
}
