//! Sets of tasks as people read them: `0-3,7`.

use alloc::string::String;
use core::fmt::Write;

use crate::ids::TaskIndex;

/// Ascending tasks as ranges.
pub(super) fn ranges(tasks: impl IntoIterator<Item = TaskIndex>) -> String {
    let mut text = String::new();
    let mut run: Option<(i32, i32)> = None;
    for task in tasks.into_iter().map(TaskIndex::get) {
        run = match run {
            Some((first, last)) if last.checked_add(1) == Some(task) => Some((first, task)),
            other => {
                write_run(&mut text, other);
                Some((task, task))
            }
        };
    }
    write_run(&mut text, run);
    text
}

fn write_run(text: &mut String, run: Option<(i32, i32)>) {
    let Some((first, last)) = run else {
        return;
    };
    let comma = if text.is_empty() { "" } else { "," };
    // Writing to a string cannot fail.
    let _ = match first == last {
        true => write!(text, "{comma}{first}"),
        false => write!(text, "{comma}{first}-{last}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined() {
        let of = |tasks: &[i32]| ranges(tasks.iter().copied().map(TaskIndex::new));
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[4]), "4");
        assert_eq!(of(&[0, 1, 2, 3, 7]), "0-3,7");
        assert_eq!(of(&[1, 3, 4]), "1,3-4");
        assert_eq!(of(&[i32::MAX - 1, i32::MAX]), "2147483646-2147483647");
    }
}
