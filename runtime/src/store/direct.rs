//! Long writes past the page cache.
//!
//! What is written once, synced at once and not read soon gains nothing from the page cache, and
//! finding pages for it costs more than the write. A file system that has no such way, or none for
//! this file, gets the bytes through its cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Devices take memory, places in files and lengths at multiples of this many bytes: some at
/// smaller ones, none at larger ones.
const ALIGNMENT: usize = 4096;
/// Shorter writes go through the page cache, in bytes.
const DIRECT_BYTES_MIN: usize = 64 << 10;
/// Bytes copied to aligned memory and written at once.
const PIECE_BYTES: usize = 1 << 20;

/// Writes `bytes` to the beginning of a file that is empty. Not durable on return.
///
/// # Errors
/// As the system says; some of the bytes may have been written then.
pub(super) fn write_all(file: &File, bytes: &[u8]) -> io::Result<()> {
    let written = if bytes.len() < DIRECT_BYTES_MIN { 0 } else { write_direct(file, bytes)? };
    // What does not fill a block, or all of it where there is no way past the cache.
    file.write_all_at(bytes.get(written..).unwrap_or_default(), written as u64)
}

/// Writes as many whole blocks of `bytes` as can be; says how many bytes they are.
fn write_direct(file: &File, bytes: &[u8]) -> io::Result<usize> {
    let Ok(flags) = fcntl_getfl(file) else {
        return Ok(0);
    };
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return Ok(0);
    }
    let written = write_blocks(file, bytes);
    fcntl_setfl(file, flags)?;
    written
}

fn write_blocks(file: &File, bytes: &[u8]) -> io::Result<usize> {
    let mut memory: Vec<u8> =
        Vec::with_capacity(bytes.len().min(PIECE_BYTES).saturating_add(ALIGNMENT));
    let begin = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let mut written = 0;
    let blocks = bytes.len() - bytes.len() % ALIGNMENT;
    for piece in bytes.get(..blocks).unwrap_or_default().chunks(PIECE_BYTES) {
        memory.clear();
        memory.resize(begin, 0);
        memory.extend_from_slice(piece);
        match file.write_all_at(memory.get(begin..).unwrap_or_default(), written as u64) {
            Ok(()) => written += piece.len(),
            // Not on this file system, or not at this alignment.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n / 7 % 251) as u8).collect()
    }

    #[test]
    fn every_length_comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let around = |len: usize| [len - 1, len, len + 1];
        let lens = [around(ALIGNMENT), around(DIRECT_BYTES_MIN), around(PIECE_BYTES)].concat();
        for len in lens.into_iter().chain([0, 1, 3 * PIECE_BYTES + 5000]) {
            let path = dir.path().join(len.to_string());
            let file = File::create_new(&path).unwrap();
            write_all(&file, &bytes(len)).unwrap();
            assert!(std::fs::read(&path).unwrap() == bytes(len), "{len} bytes");
            assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::DIRECT));
        }
    }

    /// Writing blocks from memory that is not aligned fails on a device, as does writing to where
    /// nothing can be written; only the former may be tried another way.
    #[test]
    fn a_refused_write_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"").unwrap();
        let read_only = File::open(&path).unwrap();
        assert!(write_all(&read_only, &bytes(2 * DIRECT_BYTES_MIN)).is_err());
    }

    /// `/dev/full` refuses as a full disk does.
    #[test]
    fn a_full_disk_is_named() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let error = write_all(&full, &bytes(2 * DIRECT_BYTES_MIN)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
