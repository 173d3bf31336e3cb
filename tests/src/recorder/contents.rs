//! What a file or a directory holds, and how that changes.

use std::collections::BTreeMap;

use crate::random::Random;

/// What a file or a directory holds.
#[derive(Clone, Debug)]
pub(super) enum Contents {
    File(Vec<u8>),
    Dir(BTreeMap<String, usize>),
}

/// A change of a file or a directory.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Lengthen(u64),
    Add(String, usize),
    Remove(String),
    Rename(String, String),
}

/// The beginning of a write, or what of it is on whole sectors that were written before others.
pub(super) fn tear(place: u64, bytes: &[u8], at_sectors: bool, random: &mut Random) -> Change {
    let end = random.below(bytes.len() as u64 + 1);
    let end = match at_sectors {
        true => end.saturating_sub((place + end) % SECTOR_BYTES),
        false => end,
    };
    let end = usize::try_from(end).expect("it is within the bytes");
    Change::Write(place, bytes[..end].to_vec())
}

/// What a disk writes whole or not at all, in bytes.
const SECTOR_BYTES: u64 = 512;

impl Contents {
    /// Makes a change.
    pub(super) fn apply(&mut self, change: &Change) {
        match (self, change) {
            (Self::File(file), Change::Write(place, bytes)) => {
                let place = usize::try_from(*place).expect("files fit into memory");
                let end = place + bytes.len();
                if bytes.is_empty() {
                    return;
                }
                file.resize(file.len().max(end), 0);
                file[place..end].copy_from_slice(bytes);
            }
            (Self::File(file), Change::SetLen(len)) => {
                file.resize(usize::try_from(*len).expect("files fit into memory"), 0);
            }
            (Self::File(file), Change::Lengthen(len)) => {
                let len = usize::try_from(*len).expect("files fit into memory");
                file.resize(file.len().max(len), 0);
            }
            (Self::Dir(names), Change::Add(name, node)) => drop(names.insert(name.clone(), *node)),
            (Self::Dir(names), Change::Remove(name)) => drop(names.remove(name)),
            (Self::Dir(names), Change::Rename(from, to)) => {
                // A name that a power cut took is not there to be changed.
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
            (contents, change) => panic!("{change:?} of {contents:?}"),
        }
    }
}
