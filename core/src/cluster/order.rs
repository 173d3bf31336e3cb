//! The order of names as people count: `p-2` before `p-10`; and the number at a name's end.

use core::cmp::Ordering;

/// Compares names, runs of digits as numbers.
pub(super) fn natural(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left, right);
    loop {
        let (left_text, left_rest) = cut(left, |sign| !sign.is_ascii_digit());
        let (right_text, right_rest) = cut(right, |sign| !sign.is_ascii_digit());
        let (left_digits, left_rest) = cut(left_rest, |sign| sign.is_ascii_digit());
        let (right_digits, right_rest) = cut(right_rest, |sign| sign.is_ascii_digit());
        let order = left_text
            .cmp(right_text)
            .then_with(|| number(left_digits).cmp(&number(right_digits)))
            .then_with(|| left_digits.cmp(right_digits));
        if order != Ordering::Equal || (left_rest.is_empty() && right_rest.is_empty()) {
            return order.then_with(|| left_rest.cmp(right_rest));
        }
        (left, right) = (left_rest, right_rest);
    }
}

/// The number after the last `-` of a host's name, its domain left out: 3 of `job-3.svc`.
pub(super) fn ordinal(name: &str) -> Option<u32> {
    let host = name.split('.').next()?;
    let digits = host.rsplit_once('-')?.1;
    let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}

/// Numbers of any length compare by length and then as texts.
fn number(digits: &str) -> (usize, &str) {
    let digits = digits.trim_start_matches('0');
    (digits.len(), digits)
}

fn cut(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|sign| !belongs(sign)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}
