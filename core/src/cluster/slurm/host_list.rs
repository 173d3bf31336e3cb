//! Slurm's host lists: `rack[0-1]n[08-11],login`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::error::{Error, Fault, quoted};
use crate::limits::{
    CLUSTER_TASKS_MAX, HOST_DIGITS_MAX, HOST_LIST_BYTES_MAX, HOST_RANGE_MAX, NAME_BYTES_MAX,
};

/// The hosts of a list, in its order, repeated ones repeated. Of several groups the last runs fastest.
///
/// # Errors
/// MALFORMED for what is no host list; TOO_LARGE for a range of more than [`HOST_RANGE_MAX`] hosts and a list
/// of more than [`CLUSTER_TASKS_MAX`] hosts or [`HOST_LIST_BYTES_MAX`] bytes, before anything is expanded.
pub fn host_list(about: &str, text: &str) -> Result<Vec<String>, Error> {
    let mut items = Vec::new();
    let mut hosts = 0_usize;
    let mut bytes = 0_usize;
    for item in split(about, text)? {
        let item = Item::of(about, item)?;
        hosts = hosts.saturating_add(item.hosts());
        bytes = bytes.saturating_add(item.hosts().saturating_mul(item.name_bytes_max()));
        if hosts > CLUSTER_TASKS_MAX || bytes > HOST_LIST_BYTES_MAX {
            let text = format!(
                "{} has {hosts} hosts or more; at most {CLUSTER_TASKS_MAX} hosts, and \
                 {HOST_LIST_BYTES_MAX} bytes of names, are expanded",
                quoted(text)
            );
            return Err(Error::new(Fault::TooLarge, about, text));
        }
        items.push(item);
    }
    let mut names = Vec::with_capacity(hosts);
    for item in &items {
        item.expand(0, &mut String::new(), &mut names);
    }
    Ok(names)
}

/// Items between commas that stand in no brackets; empty ones are left out.
fn split<'a>(about: &str, text: &'a str) -> Result<Vec<&'a str>, Error> {
    let mut items = Vec::new();
    let mut begin = 0;
    let mut is_open = false;
    for (at, sign) in text.char_indices() {
        match sign {
            '[' if is_open => {
                return Err(Error::malformed(about, text, "has brackets within brackets"));
            }
            ']' if !is_open => {
                return Err(Error::malformed(about, text, "has a ']' without a '['"));
            }
            '[' => is_open = true,
            ']' => is_open = false,
            ',' if !is_open => {
                items.push(text.get(begin..at).unwrap_or_default());
                begin = at + 1;
            }
            _ => {}
        }
    }
    if is_open {
        return Err(Error::malformed(about, text, "has a '[' without a ']'"));
    }
    items.push(text.get(begin..).unwrap_or_default());
    items.retain(|item| !item.is_empty());
    Ok(items)
}

struct Item<'a> {
    pieces: Vec<Piece<'a>>,
}

enum Piece<'a> {
    Literal(&'a str),
    Group(Vec<Range>),
}

struct Range {
    low: u64,
    high: u64,
    width: usize,
}

impl<'a> Item<'a> {
    fn of(about: &str, text: &'a str) -> Result<Self, Error> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (literal, group) = match rest.split_once('[') {
                None => (rest, None),
                Some((literal, after)) => (literal, after.split_once(']')),
            };
            let is_plain = |sign: char| sign.is_ascii_alphanumeric() || ".-_".contains(sign);
            if let Some(stray) = literal.chars().find(|sign| !is_plain(*sign)) {
                let wanted = format!(
                    "has {stray:?} in a name: letters, digits, '.', '-' and '_' of ASCII are allowed"
                );
                return Err(Error::malformed(about, text, &wanted));
            }
            if !literal.is_empty() {
                pieces.push(Piece::Literal(literal));
            }
            rest = "";
            if let Some((ranges, after)) = group {
                let ranges = ranges.split(',').map(|range| Range::of(about, text, range));
                pieces.push(Piece::Group(ranges.collect::<Result<_, _>>()?));
                rest = after;
            }
        }
        let item = Self { pieces };
        if item.name_bytes_max() > NAME_BYTES_MAX || item.pieces.len() > NAME_BYTES_MAX {
            let wanted = format!("makes names of more than {NAME_BYTES_MAX} bytes");
            return Err(Error::malformed(about, text, &wanted));
        }
        Ok(item)
    }

    fn hosts(&self) -> usize {
        self.pieces.iter().fold(1, |hosts, piece| hosts.saturating_mul(piece.choices()))
    }

    fn name_bytes_max(&self) -> usize {
        self.pieces.iter().map(Piece::bytes_max).sum()
    }

    /// Adds each name that begins with `prefix` and goes on with the pieces from `at` on.
    fn expand(&self, at: usize, prefix: &mut String, names: &mut Vec<String>) {
        let groups = self.pieces.iter().skip(at);
        let length = prefix.len();
        for (offset, piece) in groups.enumerate() {
            match piece {
                Piece::Literal(text) => prefix.push_str(text),
                Piece::Group(ranges) => {
                    let before = prefix.len();
                    for Range { low, high, width } in ranges {
                        for number in *low..=*high {
                            prefix.push_str(&format!("{number:0width$}"));
                            self.expand(at + offset + 1, prefix, names);
                            prefix.truncate(before);
                        }
                    }
                    prefix.truncate(length);
                    return;
                }
            }
        }
        names.push(prefix.clone());
        prefix.truncate(length);
    }
}

impl Piece<'_> {
    fn choices(&self) -> usize {
        match self {
            Self::Literal(_) => 1,
            Self::Group(ranges) => ranges
                .iter()
                .map(|range| usize::try_from(range.high - range.low + 1).unwrap_or(usize::MAX))
                .fold(0, usize::saturating_add),
        }
    }

    fn bytes_max(&self) -> usize {
        match self {
            Self::Literal(text) => text.len(),
            Self::Group(ranges) => {
                let width = |range: &Range| range.width.max(range.high.to_string().len());
                ranges.iter().map(width).max().unwrap_or_default()
            }
        }
    }
}

impl Range {
    fn of(about: &str, item: &str, text: &str) -> Result<Self, Error> {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let range = Self {
            low: number(about, item, low)?,
            high: number(about, item, high)?,
            width: low.len(),
        };
        if range.low > range.high {
            let wanted = format!("has the range {}, which runs backwards", quoted(text));
            return Err(Error::malformed(about, item, &wanted));
        }
        let hosts = range.high - range.low + 1;
        if hosts > HOST_RANGE_MAX {
            let text = format!(
                "{} has the range {} of {hosts} hosts, more than the {HOST_RANGE_MAX} allowed",
                quoted(item),
                quoted(text)
            );
            return Err(Error::new(Fault::TooLarge, about, text));
        }
        Ok(range)
    }
}

fn number(about: &str, item: &str, digits: &str) -> Result<u64, Error> {
    let is_plain = !digits.is_empty()
        && digits.len() <= HOST_DIGITS_MAX
        && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain).ok_or_else(|| {
        let wanted = format!(
            "has {} in brackets where a number of 1 to {HOST_DIGITS_MAX} digits should be",
            quoted(digits)
        );
        Error::malformed(about, item, &wanted)
    })
}
