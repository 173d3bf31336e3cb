//! Tar files with a record in each run of members whose names agree up to the first dot.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::Range;

use tar::{Archive, Entry, EntryType, Header};

use super::Cut;

/// Members stand at multiples of this.
const BLOCK_BYTES: usize = 512;
/// The extended headers of a sparse member have keys that begin so, and this key names the member.
const SPARSE_KEY: &[u8] = b"GNU.sparse.";
const SPARSE_NAME_KEY: &[u8] = b"GNU.sparse.name";

/// The next member.
enum Next {
    /// A member of so many bytes with its headers; what it belongs to, if it is part of a record.
    Member {
        length: usize,
        key: Option<String>,
    },
    More {
        wanted: usize,
    },
    /// Two empty blocks, or the end of the file.
    End,
    Corrupt {
        at: usize,
        what: String,
    },
}

pub(super) fn cut(bytes: &[u8], is_at_end: bool) -> Cut {
    let (mut length, mut of) = (0_usize, None);
    loop {
        let rest = bytes.get(length..).unwrap_or_default();
        match next(rest, is_at_end) {
            Next::Member { key, .. } if of.is_some() && key.is_some() && key != of => {
                return Cut::Record { length, content: 0..length };
            }
            Next::Member { length: more, key } => {
                of = of.or(key);
                length = length.saturating_add(more);
            }
            Next::More { wanted } => return Cut::More { wanted: length.saturating_add(wanted) },
            Next::End if of.is_some() => return Cut::Record { length, content: 0..length },
            Next::End if length > 0 => return Cut::Pass { length },
            Next::End => return Cut::End,
            Next::Corrupt { .. } if of.is_some() && length > 0 && key_of(rest) != of => {
                // The record before it is whole, as far as one can know.
                return Cut::Record { length, content: 0..length };
            }
            Next::Corrupt { at, what } => {
                return Cut::Corrupt { at: length.saturating_add(at), what, next: None };
            }
        }
    }
}

/// The member at the beginning of these bytes, with the headers that lengthen its name.
fn next(bytes: &[u8], is_at_end: bool) -> Next {
    let mut length = 0_usize;
    loop {
        let rest = bytes.get(length..).unwrap_or_default();
        let Some(block) = rest.first_chunk::<BLOCK_BYTES>() else {
            return match (is_at_end, rest.is_empty() && length == 0) {
                (false, _) => Next::More { wanted: length.saturating_add(BLOCK_BYTES) },
                (true, true) => Next::End,
                (true, false) => {
                    let what = "the file ends within the header of a member".to_owned();
                    Next::Corrupt { at: length, what }
                }
            };
        };
        if block.iter().all(|byte| *byte == 0) {
            return Next::End;
        }
        let size = match size(block) {
            Ok(size) => size,
            Err(what) => return Next::Corrupt { at: length, what },
        };
        let end = length.saturating_add(BLOCK_BYTES).saturating_add(size);
        let padded = end.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(usize::MAX);
        if bytes.len() < end || (bytes.len() < padded && !is_at_end) {
            if !is_at_end {
                return Next::More { wanted: padded };
            }
            let found = bytes.len().saturating_sub(length).saturating_sub(BLOCK_BYTES);
            let what = format!("the file ends within a member: {found} of {size} bytes");
            return Next::Corrupt { at: length, what };
        }
        let at = length;
        length = padded.min(bytes.len());
        if lengthens(block) {
            continue;
        }
        let whole = bytes.get(..length).unwrap_or(bytes);
        return match members(whole) {
            Ok(found) => {
                let key =
                    found.first().and_then(|it| split(&it.name)).map(|(key, _)| key.to_owned());
                Next::Member { length, key }
            }
            Err(what) => Next::Corrupt { at, what },
        };
    }
}

/// The name of the record to which the headers of the first member assign it. The member need not be whole.
fn key_of(bytes: &[u8]) -> Option<String> {
    let mut archive = Archive::new(bytes);
    let mut entry = archive.entries().ok()?.next()?.ok()?;
    let own = |entry: &Entry<'_, &[u8]>| String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let name = sparse_name(&mut entry).unwrap_or_else(|| own(&entry));
    split(&name).map(|(key, _)| key.to_owned())
}

/// The bytes of a member behind its header, if the header's checksum is right.
fn size(block: &[u8; BLOCK_BYTES]) -> Result<usize, String> {
    let header = Header::from_byte_slice(block);
    let sum = |(place, byte): (usize, &u8)| {
        // The checksum's own bytes count as spaces.
        if (148..156).contains(&place) { u32::from(b' ') } else { u32::from(*byte) }
    };
    let found: u32 = block.iter().enumerate().map(sum).sum();
    match header.cksum() {
        Ok(wanted) if wanted == found => {}
        Ok(wanted) => return Err(format!("a header has the checksum {found}, not {wanted}")),
        Err(error) => return Err(format!("what stands there is no header: {error}")),
    }
    let size = header.entry_size().map_err(|error| error.to_string())?;
    usize::try_from(size).map_err(|_| format!("a member has {size} bytes"))
}

/// Whether a header only says something of the member behind it.
fn lengthens(block: &[u8; BLOCK_BYTES]) -> bool {
    matches!(
        Header::from_byte_slice(block).entry_type(),
        EntryType::GNULongName
            | EntryType::GNULongLink
            | EntryType::XHeader
            | EntryType::XGlobalHeader
    )
}

/// A file in a tar file.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) content: Range<usize>,
}

/// The files in these bytes of a tar file.
pub(crate) fn members(bytes: &[u8]) -> Result<Vec<Member>, String> {
    let mut archive = Archive::new(bytes);
    let mut found = Vec::new();
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let mut entry = entry.map_err(|error| error.to_string())?;
        if let Some(name) = sparse_name(&mut entry) {
            return Err(format!(
                "the member {name:?} is sparse: it is stored without its holes, and such members cannot be \
                 read; make the file anew with `tar` without `-S` (`--sparse`)"
            ));
        }
        if !matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous) {
            continue;
        }
        let name = String::from_utf8(entry.path_bytes().into_owned());
        let name = name.map_err(|error| format!("a member's name is no Unicode: {error}"))?;
        let from = usize::try_from(entry.raw_file_position()).unwrap_or(usize::MAX);
        let length = usize::try_from(entry.size()).unwrap_or(usize::MAX);
        let content = from..from.saturating_add(length);
        if bytes.get(content.clone()).is_none() || entry.read(&mut [0]).is_err() {
            return Err(format!("the member {name:?} is not whole"));
        }
        found.push(Member { name, content });
    }
    Ok(found)
}

/// The name of a member that is stored without its holes, in one of the two ways that there are: as a type of
/// its own, or with a map of them before its content. None if it is stored as it is.
fn sparse_name(entry: &mut Entry<'_, &[u8]>) -> Option<String> {
    let mut is_sparse = entry.header().entry_type() == EntryType::GNUSparse;
    let mut name = None;
    for extension in entry.pax_extensions().ok().flatten().into_iter().flatten().flatten() {
        is_sparse |= extension.key_bytes().starts_with(SPARSE_KEY);
        if extension.key_bytes() == SPARSE_NAME_KEY {
            name = Some(String::from_utf8_lossy(extension.value_bytes()).into_owned());
        }
    }
    let own = || String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    is_sparse.then(|| name.unwrap_or_else(own))
}

/// The name of the record to which a member belongs, and the column in which it stands; nothing if
/// there is no dot in its name, or nothing before it.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    let base = name.rfind('/').map_or(0, |slash| slash.saturating_add(1));
    let dot = name.get(base..)?.find('.').filter(|dot| *dot > 0)?.saturating_add(base);
    Some((name.get(..dot)?, name.get(dot.saturating_add(1)..)?))
}

/// The columns that a record has, beside its name.
pub(crate) fn extensions(record: &[u8]) -> Result<BTreeSet<String>, String> {
    let members = members(record)?;
    let column = |member: &Member| Some(split(&member.name)?.1.to_lowercase());
    Ok(members.iter().filter_map(column).collect())
}
