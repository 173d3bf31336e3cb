//! The bytes of a file, decompressed, from a place on.

use bytes::{Buf, Bytes, BytesMut};

use super::decompress::Decompressor;
use crate::error::DataError;
use crate::pipeline::Compression;
use crate::stores::StoredFile;

/// How a file is compressed, as its name or the pipeline says.
pub(super) fn compression_of(compression: Compression, location: &str) -> Compression {
    let ends = |ending: &str| location.to_ascii_lowercase().ends_with(ending);
    match compression {
        Compression::ByName if ends(".gz") || ends(".tgz") => Compression::Gzip,
        Compression::ByName if ends(".zz") => Compression::Zlib,
        Compression::ByName if ends(".zst") => Compression::Zstd,
        Compression::ByName => Compression::None,
        other => other,
    }
}

/// Bytes of a file, and how far they have come.
pub(super) struct Feed {
    file: StoredFile,
    /// Bytes that were fetched and not consumed.
    buffer: Bytes,
    /// Where the buffer begins, in the decompressed file.
    position: u64,
    /// Where to stop, in the decompressed file.
    end: u64,
    is_at_end: bool,
    /// The longest record that was asked for, in bytes.
    longest: u64,
    packed: Option<Packed>,
}

/// A compressed file.
struct Packed {
    decompressor: Decompressor,
    /// Compressed bytes that were fetched and not decompressed.
    rest: Bytes,
    /// Where they begin.
    position: u64,
    /// The error that the decompressor gave behind the bytes that it decompressed.
    broken: Option<DataError>,
}

impl Feed {
    /// The bytes between these places of the decompressed file; `None` for its end.
    pub(super) fn new(
        file: StoredFile,
        compression: Compression,
        from: u64,
        to: Option<u64>,
    ) -> Result<Self, DataError> {
        let decompressor = Decompressor::of(compression)
            .map_err(|error| DataError::internal(format!("{}: {error}", file.location)))?;
        let packed = decompressor.map(|decompressor| Packed {
            decompressor,
            rest: Bytes::new(),
            position: 0,
            broken: None,
        });
        // A compressed file is read from its beginning.
        let position = if packed.is_some() { 0 } else { from };
        let end = match &packed {
            Some(_) => to.unwrap_or(u64::MAX),
            None => to.unwrap_or(file.size).min(file.size),
        };
        let buffer = Bytes::new();
        let (longest, is_at_end) = (1, position >= end);
        Ok(Self { file, buffer, position, end, is_at_end, longest, packed })
    }

    pub(super) const fn file(&self) -> &StoredFile {
        &self.file
    }

    /// What is to be read next.
    pub(super) const fn buffer(&self) -> &Bytes {
        &self.buffer
    }

    /// Where the buffer begins.
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Whether nothing comes behind the buffer.
    pub(super) const fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// What errors count places in.
    pub(super) const fn unit(&self) -> &'static str {
        if self.packed.is_some() { "decompressed byte" } else { "byte" }
    }

    /// Takes bytes from the front of the buffer.
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.buffer.len());
        self.buffer.advance(count);
        self.position = self.position.saturating_add(count as u64);
    }

    /// Makes the buffer longer, to at least so many bytes if there are as many. What is in front of
    /// broken bytes comes before their error.
    pub(super) async fn refill(&mut self, wanted: usize) -> Result<(), DataError> {
        let there = self.buffer.len() as u64;
        let mut wanted = (wanted as u64).max(there + 1);
        let bound = self.file.limits().record_bytes;
        // Who does not know a record's length asks for twice what is there: the record may be shorter.
        if there < bound && wanted <= there.saturating_mul(2) {
            wanted = wanted.min(bound);
        }
        if wanted > bound {
            return Err(DataError::Bound {
                what: format!(
                    "{}, a record at {} {}",
                    self.file.location,
                    self.unit(),
                    self.position
                ),
                found: wanted,
                bound,
                setting: "record_bytes",
            });
        }
        self.longest = self.longest.max(wanted);
        // Of long records as many as fit, if the next ones are as long: their rests are fetched again.
        let chunk = self.file.limits().chunk_bytes;
        let rest = chunk.checked_rem(self.longest).filter(|rest| *rest < chunk).unwrap_or(0);
        let wanted = wanted.max(chunk.saturating_sub(rest));
        if self.packed.is_some() {
            return self.unpack(wanted).await;
        }
        // What is left of the buffer is fetched again: that is less than to copy all of the rest.
        let to = self.position.saturating_add(wanted).min(self.end);
        self.buffer = self.file.range(self.position..to).await?;
        self.is_at_end = to >= self.end;
        Ok(())
    }

    async fn unpack(&mut self, wanted: u64) -> Result<(), DataError> {
        let room = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(room);
        let mut buffer = BytesMut::from(self.buffer.as_ref());
        let Some(packed) = &mut self.packed else {
            return Ok(());
        };
        while buffer.len() < wanted && !self.is_at_end && packed.broken.is_none() {
            if packed.rest.is_empty() {
                let to = packed.position.saturating_add(self.file.limits().chunk_bytes);
                packed.rest = self.file.range(packed.position..to).await?;
            }
            let is_last = packed.rest.is_empty();
            let taken = match packed.decompressor.step(&packed.rest, &mut buffer) {
                Ok(taken) => taken,
                Err(what) => {
                    packed.broken = Some(self.file.corrupt(packed.position, what));
                    break;
                }
            };
            packed.rest = packed.rest.slice(taken..);
            packed.position = packed.position.saturating_add(taken as u64);
            self.is_at_end = is_last;
        }
        if let Some(error) = &packed.broken
            && buffer.len() == self.buffer.len()
        {
            return Err(error.clone());
        }
        if buffer.len() >= room {
            buffer.truncate(room);
            self.is_at_end = true;
        }
        self.buffer = buffer.freeze();
        Ok(())
    }

    /// Goes to a place behind, without keeping what is before it.
    pub(super) async fn seek(&mut self, to: u64) -> Result<(), DataError> {
        while self.position < to {
            let ahead = usize::try_from(to.saturating_sub(self.position)).unwrap_or(usize::MAX);
            if self.buffer.is_empty() {
                if self.is_at_end {
                    let what = "the file ends before it";
                    return Err(self.file.corrupt_in(self.unit(), to, what));
                }
                self.refill(1).await?;
            }
            self.consume(ahead);
        }
        Ok(())
    }
}
