//! Queries and answers as bytes (RFC 1035, RFC 2782).

use std::collections::BTreeSet;

use rondo_core::cluster::Service;

const SRV: u16 = 33;
const ALIAS: u16 = 5;
const INTERNET: u16 = 1;
/// Longest name, in bytes as sent.
const NAME_BYTES_MAX: usize = 255;
/// How often another name is looked up within one answer.
const ALIASES_MAX: usize = 16;

pub(super) fn query(number: u16, name: &str) -> Result<Vec<u8>, String> {
    let mut query = Vec::from(number.to_be_bytes());
    // Recursion is wanted; one question.
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let begin = query.len();
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length));
        query.push(length.ok_or_else(|| format!("{label:?} is no label: 1 to 63 bytes are"))?);
        query.extend(label.as_bytes());
    }
    query.push(0);
    if query.len() - begin > NAME_BYTES_MAX {
        return Err(format!("the name is longer than {NAME_BYTES_MAX} bytes"));
    }
    query.extend([SRV.to_be_bytes(), INTERNET.to_be_bytes()].concat());
    Ok(query)
}

/// Whether the answer did not fit.
pub(super) fn is_cut(answer: &[u8]) -> bool {
    answer.get(2).is_some_and(|flags| flags & 2 != 0)
}

/// Whether this is an answer, with the query's number and question. A server that could not read the
/// question may leave it out.
pub(super) fn answers(query: &[u8], answer: &[u8]) -> bool {
    let is_reply = answer.get(2).is_some_and(|flags| flags & 0x80 != 0);
    let code = answer.get(3).map_or(0, |flags| flags & 15);
    let question = query.get(12..).unwrap_or_default();
    let is_asked = match u16_at(answer, 4) {
        Some(0) => code != 0,
        Some(1) => answer
            .get(12..12 + question.len())
            .is_some_and(|echoed| echoed.eq_ignore_ascii_case(question)),
        _ => false,
    };
    is_reply && is_asked && answer.get(..2) == query.get(..2)
}

/// A record of an answer.
struct Entry {
    owner: String,
    kind: u16,
    data: usize,
}

/// Reads an answer: the records of the name that was asked for, and of those that it is another name for.
/// None if there is no such name.
pub(super) fn read(query: &[u8], answer: &[u8]) -> Result<Vec<Service>, String> {
    let cut = || "the answer is cut short".to_owned();
    if !answers(query, answer) {
        return Err("the answer is none to the question".to_owned());
    }
    match answer.get(3).map(|flags| flags & 15).ok_or_else(cut)? {
        0 => {}
        3 => return Ok(Vec::new()),
        code => return Err(format!("the name server answers with code {code}")),
    }
    let mut at = 12;
    for _ in 0..u16_at(answer, 4).ok_or_else(cut)? {
        at = behind_name(answer, at).ok_or_else(cut)? + 4;
    }
    let mut entries = Vec::new();
    for _ in 0..u16_at(answer, 6).ok_or_else(cut)? {
        let head = behind_name(answer, at).ok_or_else(cut)?;
        let owner = name_at(answer, at).ok_or_else(cut)?.to_ascii_lowercase();
        let data = head + 10;
        at = data + usize::from(u16_at(answer, head + 8).ok_or_else(cut)?);
        if answer.len() < at {
            return Err(cut());
        }
        if u16_at(answer, head + 2) == Some(INTERNET) {
            entries.push(Entry { owner, kind: u16_at(answer, head).ok_or_else(cut)?, data });
        }
    }
    let names = names_of(query, answer, &entries).ok_or_else(cut)?;
    let asked = entries.iter().filter(|entry| entry.kind == SRV && names.contains(&entry.owner));
    asked.map(|entry| service(answer, entry.data).ok_or_else(cut)).collect()
}

/// The name that was asked for, and those that it is another name for.
fn names_of(query: &[u8], answer: &[u8], entries: &[Entry]) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::from([name_at(query, 12)?.to_ascii_lowercase()]);
    for _ in 0..ALIASES_MAX {
        let known = names.len();
        for entry in entries.iter().filter(|it| it.kind == ALIAS) {
            if names.contains(&entry.owner) {
                names.insert(name_at(answer, entry.data)?.to_ascii_lowercase());
            }
        }
        if names.len() == known {
            break;
        }
    }
    Some(names)
}

fn service(answer: &[u8], at: usize) -> Option<Service> {
    Some(Service {
        priority: u16_at(answer, at)?,
        weight: u16_at(answer, at + 2)?,
        port: u16_at(answer, at + 4)?,
        target: name_at(answer, at + 6)?,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Where a name ends: behind its last label, or behind a pointer.
fn behind_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length if length < 64 => at += 1 + usize::from(length),
            _ => return Some(at + 2),
        }
    }
}

/// A name, its pointers followed. Each has to point further back than the last, so that none leads round.
fn name_at(bytes: &[u8], mut at: usize) -> Option<String> {
    let mut name = String::new();
    let mut begin = at;
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some(name),
            1..64 => {
                let label = bytes.get(at + 1..at + 1 + length)?;
                if !name.is_empty() {
                    name.push('.');
                }
                name.push_str(std::str::from_utf8(label).ok()?);
                if name.len() > NAME_BYTES_MAX {
                    return None;
                }
                at += 1 + length;
            }
            192.. => {
                at = usize::from(u16_at(bytes, at)? & 0x3fff);
                if at >= begin {
                    return None;
                }
                begin = at;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An answer to a question: its flags, and records that point at the question's name.
    pub(in super::super) fn answer(
        query: &[u8],
        flags: [u8; 2],
        services: &[(u16, &str)],
    ) -> Vec<u8> {
        let mut out = [&query[..2], &flags, &query[4..6]].concat();
        out.extend(u16::try_from(services.len()).unwrap().to_be_bytes());
        out.extend([0, 0, 0, 0]);
        out.extend(&query[12..]);
        for (port, host) in services {
            let host_bytes = u8::try_from(host.len()).unwrap();
            // Name, type, class, seconds to live; then length, priority, weight, port, host and the domain
            // behind the two labels of the question.
            out.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 5, 0, 9 + host_bytes, 0, 7, 0, 8]);
            out.extend(port.to_be_bytes());
            out.push(host_bytes);
            out.extend(host.as_bytes());
            out.extend([0xc0, 12 + 4 + 5]);
        }
        out
    }

    pub(in super::super) const NAME: &str = "_tf._tcp.train";

    pub(in super::super) fn named(target: &str, port: u16) -> Service {
        Service { priority: 7, weight: 8, target: target.into(), port }
    }

    #[test]
    fn records_are_read_with_their_pointers() {
        let query = query(7, NAME).unwrap();
        let full = answer(&query, [0x81, 0x80], &[(1, "a"), (2, "b")]);
        let found = read(&query, &full).unwrap();
        assert_eq!(found, [named("a.train", 1), named("b.train", 2)]);
        for length in 0..full.len() {
            assert!(read(&query, &full[..length]).is_err(), "cut to {length} bytes");
        }
        assert_eq!(read(&query, &answer(&query, [0x81, 0x83], &[])), Ok(Vec::new()));
        assert!(read(&query, &answer(&query, [0x81, 0x82], &[])).unwrap_err().contains("code 2"));
    }

    /// One record: owner as bytes, type, data.
    fn record(owner: &[u8], kind: u16, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len()).unwrap().to_be_bytes();
        [owner, &kind.to_be_bytes(), &[0, 1, 0, 0, 0, 5], &length, data].concat()
    }

    #[test]
    fn only_records_of_the_name_and_of_what_it_is_another_name_for_count() {
        let query = query(7, NAME).unwrap();
        let service = |port: u8| [&[0, 7, 0, 8, 0, port][..], b"\x01a\x00"].concat();
        let records = [
            // Of somebody else's name; of the alias, whose own record follows; the alias.
            record(b"\x05other\x00", 33, &service(1)),
            record(b"\x04real\x00", 33, &service(2)),
            record(&[0xc0, 12], 5, b"\x04REAL\x00"),
        ];
        let mut bytes = answer(&query, [0x81, 0x80], &[]);
        bytes[7] = 3;
        bytes.extend(records.concat());
        assert_eq!(read(&query, &bytes), Ok(vec![named("a", 2)]));
        // An answer to another question is none.
        let other = super::query(7, "_tf._tcp.other").unwrap();
        assert!(read(&other, &bytes).is_err());
    }

    #[test]
    fn a_name_that_leads_round_is_none() {
        let query = query(7, NAME).unwrap();
        let mut bytes = answer(&query, [0x81, 0x80], &[(1, "a")]);
        let pointer = bytes.len() - 2;
        bytes[pointer + 1] = u8::try_from(pointer - 2).unwrap();
        assert!(read(&query, &bytes).is_err());
    }

    #[test]
    fn names_that_cannot_be_asked_for_are_refused() {
        let long =
            ["x".repeat(60) + &".abc".repeat(60), "x".repeat(64), "a..b".into(), String::new()];
        for name in long {
            assert!(query(1, &name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(flags: [u8; 2], rest: Vec<u8>) {
            let query = query(7, NAME).unwrap();
            let bytes = [&query[..2], &flags, rest.as_slice()].concat();
            // It ends, and finds no more than the bytes can hold.
            let found = read(&query, &bytes).unwrap_or_default();
            prop_assert!(found.len() * 10 <= bytes.len());
        }
    }
}
