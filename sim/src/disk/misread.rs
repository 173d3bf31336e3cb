//! Reads that bring other bytes than those that were asked for. Like any damage it is laid over the
//! true bytes: it stays until they are written anew, or it is lifted.

use super::file::FileId;
use super::{Disk, Named};
use crate::rng::Stream;

const SECTOR_BYTES: usize = 512;

/// What a read brings instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misread {
    /// What another sector holds.
    Elsewhere,
    /// What the sector held before its end, or all of it, was written.
    Earlier,
}

impl Disk {
    /// From here on a sector of a file whose path begins with `under` reads wrong; which one is
    /// decided by `stream`. Says where, or nothing when all bytes are the same.
    pub fn misread(
        &mut self,
        under: &str,
        how: Misread,
        stream: &mut Stream,
    ) -> Option<(String, usize)> {
        let (path, id, at) = self.some_sector(under, stream)?;
        let right = self.sector(id, at);
        let mut wrong = match how {
            Misread::Elsewhere => {
                let (_, id, at) = self.some_sector("", stream)?;
                self.sector(id, at)
            }
            Misread::Earlier => {
                let kept = usize::try_from(stream.below(right.len() as u64)).ok()?;
                right.get(..kept).unwrap_or_default().to_vec()
            }
        };
        wrong.resize(right.len(), 0);
        if wrong == right {
            return None;
        }
        let flips = &mut self.file_mut(id).ok()?.flips;
        for (place, (right, wrong)) in (at..).zip(right.iter().zip(&wrong)) {
            *flips.entry(place).or_insert(0) ^= right ^ wrong;
        }
        Some((path, at))
    }

    fn some_sector(&self, under: &str, stream: &mut Stream) -> Option<(String, FileId, usize)> {
        let inside = self.names.iter().filter(|(path, _)| path.starts_with(under));
        let files = inside.filter_map(|(path, named)| match named {
            Named::File(id) if self.size_bytes(*id) > 0 => Some((path, *id)),
            _ => None,
        });
        let files: Vec<(&String, FileId)> = files.collect();
        let (path, id) = stream.pick(&files)?;
        let sectors = self.size_bytes(*id).div_ceil(SECTOR_BYTES as u64);
        let sector = usize::try_from(stream.below(sectors)).ok()?;
        Some(((*path).clone(), *id, sector.saturating_mul(SECTOR_BYTES)))
    }

    fn sector(&self, id: FileId, at: usize) -> Vec<u8> {
        self.read_at(id, at as u64, SECTOR_BYTES)
    }
}
