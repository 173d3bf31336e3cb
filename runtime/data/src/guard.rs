//! Decoders of others' formats, kept from taking the process with them.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a decoder gives. Some of them panic at bytes that are not what they should be: then that is
/// what is wrong with the bytes.
pub(crate) fn guarded<T, E: ToString>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("it cannot be decoded: {}", text.unwrap_or("for no reason that is known")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let none: [u8; 0] = [];
        let place = none.len() + 3;
        let found = guarded(|| Ok::<u8, String>(none[place]));
        assert!(found.unwrap_err().contains("index out of bounds"));
        assert_eq!(guarded(|| Err::<u8, _>("wrong")), Err("wrong".to_owned()));
        assert_eq!(guarded(|| Ok::<_, String>(7)), Ok(7));
    }
}
