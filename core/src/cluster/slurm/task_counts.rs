//! Slurm's counts of tasks on each host: `2(x3),1`.

use alloc::format;
use alloc::vec::Vec;

use super::super::error::{Error, Fault, quoted};
use crate::limits::CLUSTER_TASKS_MAX;

/// The counts of a list, repeats written out.
///
/// # Errors
/// MALFORMED for what is no such list, the empty text included; TOO_LARGE for more than
/// [`CLUSTER_TASKS_MAX`] hosts.
pub fn task_counts(about: &str, text: &str) -> Result<Vec<u32>, Error> {
    let mut counts = Vec::new();
    for item in text.split(',') {
        let (count, repeat) = match item.split_once("(x") {
            None => (item, None),
            Some((count, rest)) => (count, Some(rest.strip_suffix(')').unwrap_or_default())),
        };
        let repeat = repeat.map_or(Some(1), number);
        let (Some(count), Some(repeat @ 1..)) = (number(count), repeat) else {
            let wanted = format!(
                "has {} where a count, or a count and its repeats such as 2(x3), should be",
                quoted(item)
            );
            return Err(Error::malformed(about, text, &wanted));
        };
        let repeat = usize::try_from(repeat).unwrap_or(usize::MAX);
        if repeat > CLUSTER_TASKS_MAX.saturating_sub(counts.len()) {
            let text = format!(
                "{} counts tasks of more than the {CLUSTER_TASKS_MAX} hosts allowed",
                quoted(text)
            );
            return Err(Error::new(Fault::TooLarge, about, text));
        }
        counts.extend(core::iter::repeat_n(count, repeat));
    }
    Ok(counts)
}

fn number(digits: &str) -> Option<u32> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}
