//! The order of names as people count: `p-2` before `p-10`; and the number at a name's end.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
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
    numbered(name).map(|(_, number)| number)
}

/// The indices of tasks that have these names: the numbers at the names' ends where all names have one and
/// belong to one set, else the names' order.
pub(super) fn indices<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Vec<u32> {
    let in_order = (0..).take(names.len()).collect();
    ordinals(names).unwrap_or(in_order)
}

/// The numbers at the ends of these names. `None` if the rest of the names differs, a number comes twice, or
/// a name spells an address (`10-244-1-5`, `ip-10-0-3-1`, `fd00--5`).
fn ordinals<'a>(names: impl Iterator<Item = &'a str>) -> Option<Vec<u32>> {
    let mut found: Vec<u32> = Vec::new();
    let mut set = None;
    for name in names {
        let (own, number) = numbered(name)?;
        if is_address_like(name) || *set.get_or_insert(own) != own {
            return None;
        }
        found.push(number);
    }
    let distinct: BTreeSet<&u32> = found.iter().collect();
    (distinct.len() == found.len()).then_some(found)
}

/// Digits that an ordinal has at most. A longer number is part of a random name.
const ORDINAL_DIGITS_MAX: usize = 4;

/// Splits a host's name at its last `-`, the domain left out: the text before it, and the number after it.
fn numbered(name: &str) -> Option<(&str, u32)> {
    let host = name.split('.').next()?;
    let (set, digits) = host.rsplit_once('-')?;
    let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_short = digits.trim_start_matches('0').len() <= ORDINAL_DIGITS_MAX;
    digits.parse().ok().filter(|_| is_plain && is_short).map(|number| (set, number))
}

/// Whether a host is named by an address, `-` for each `.` or `:` of it, alone or after `ip-`.
fn is_address_like(name: &str) -> bool {
    let host = name.split('.').next().unwrap_or_default();
    let groups: Vec<&str> = host.split('-').collect();
    let is_byte = |group: &&str| group.parse::<u8>().is_ok();
    let bytes = groups.strip_prefix(&["ip"]).unwrap_or(&groups);
    let is_v4 = bytes.len() == 4 && bytes.iter().all(is_byte);
    let is_hex =
        |group: &&str| group.len() <= 4 && group.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_shortened = host.contains("--") || groups.len() == 8;
    is_v4 || (is_shortened && groups.iter().all(is_hex))
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
