//! MANIFEST: which snapshot counts, and where the journal goes on behind it.

use std::path::Path;

use bytes::Bytes;
use rondo_core::ids::Lsn;
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::{StoreError, small_file};

/// The file's name.
pub(super) const NAME: &str = "MANIFEST";
const FORMAT: u32 = 1;
/// What stands before the checksum on the second line.
const CHECKSUM: &str = "crc32c ";

/// Which snapshot counts, and where the journal goes on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The last record in the snapshot that counts; none before the first snapshot.
    pub snapshot: Option<Lsn>,
    /// The first record to apply from the journal.
    pub journal_first: Lsn,
}

/// The first line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    format: u32,
    snapshot: Option<u64>,
    journal_first: u64,
}

/// What is read of the first line whatever the format.
#[derive(Deserialize)]
struct AnyLine {
    format: u32,
}

/// The manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is missing, or not what was written: nobody can say any more which snapshot counts.
    #[error("{path} is damaged: {reason}; restore the directory from a copy")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A later release wrote it.
    #[error(
        "{path} has format {found}, this release reads format {FORMAT}: use the release that wrote it, or a \
         later one"
    )]
    LaterRelease {
        /// The file.
        path: String,
        /// The format that stands in it.
        found: u32,
    },
    /// The system does not let us read it.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

impl Manifest {
    /// What a new data directory has.
    pub const NEW: Self = Self { snapshot: None, journal_first: Lsn::new(1) };

    /// Reads the manifest of the data directory `dir`.
    ///
    /// # Errors
    /// When it is missing or damaged, saying in what way.
    pub async fn read(disk: &dyn Disk, dir: &Path) -> Result<Self, ManifestError> {
        let path = dir.join(NAME);
        let found = small_file::read(disk, &path).await?;
        let path = path.display().to_string();
        match found.map(|bytes| parse(&bytes)) {
            Some(Ok(Ok(manifest))) => Ok(manifest),
            Some(Ok(Err(Later { format: found }))) => {
                Err(ManifestError::LaterRelease { path, found })
            }
            Some(Err(reason)) => Err(ManifestError::Damaged { path, reason }),
            None => Err(ManifestError::Damaged { path, reason: "there is none".into() }),
        }
    }

    /// Makes this the manifest of the data directory `dir`. Durable on return; after a crash the
    /// old one or this one is there.
    ///
    /// # Errors
    /// When the file cannot be replaced.
    pub async fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
        let text = self.text().map_err(|error| StoreError::new("cannot write", dir, &error))?;
        small_file::replace(disk, dir, NAME, Bytes::from(text)).await
    }

    fn text(&self) -> Result<String, serde_json::Error> {
        let snapshot = self.snapshot.map(Lsn::get);
        let line = Line { format: FORMAT, snapshot, journal_first: self.journal_first.get() };
        let line = serde_json::to_string(&line)?;
        let checksum = crc32c::crc32c(line.as_bytes());
        Ok(format!("{line}\n{CHECKSUM}{checksum:08x}\n"))
    }
}

/// The manifest is of this format, which a later release has.
#[derive(Debug, PartialEq, Eq)]
struct Later {
    format: u32,
}

/// The manifest that a file holds, or why the file is damaged.
fn parse(bytes: &[u8]) -> Result<Result<Manifest, Later>, String> {
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let (line, checksum) = text.split_once('\n').ok_or("it has no second line")?;
    let found = checksum.trim_end().strip_prefix(CHECKSUM).ok_or("it has no checksum")?;
    let expected = format!("{:08x}", crc32c::crc32c(line.as_bytes()));
    if found != expected {
        return Err(format!("its checksum is {found}, expected {expected}"));
    }
    let AnyLine { format } = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if format > FORMAT {
        return Ok(Err(Later { format }));
    }
    if format != FORMAT {
        return Err(format!("its format is {format}, this release reads format {FORMAT}"));
    }
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let (snapshot, journal_first) = (line.snapshot.map(Lsn::new), Lsn::new(line.journal_first));
    Ok(Ok(Manifest { snapshot, journal_first }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: Manifest =
        Manifest { snapshot: Some(Lsn::new(41)), journal_first: Lsn::new(42) };

    #[test]
    fn what_is_written_is_read() {
        for manifest in [Manifest::NEW, EXAMPLE] {
            assert_eq!(parse(manifest.text().unwrap().as_bytes()), Ok(Ok(manifest)));
        }
    }

    #[test]
    fn format_1_stays_readable() {
        let text = "{\"format\":1,\"snapshot\":41,\"journal_first\":42}\ncrc32c b656d228\n";
        assert_eq!(parse(text.as_bytes()), Ok(Ok(EXAMPLE)));
    }

    #[test]
    fn damage_is_noticed() {
        let text = EXAMPLE.text().unwrap().into_bytes();
        // The line's end behind the checksum means nothing.
        for bit in 0..(text.len() - 1) * 8 {
            let mut damaged = text.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&damaged).is_err(), "bit {bit}");
        }
        for len in 0..text.len() - 1 {
            assert!(parse(&text[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_later_format_is_named() {
        let line = "{\"format\":2,\"something\":\"else\"}";
        let text = format!("{line}\ncrc32c {:08x}\n", crc32c::crc32c(line.as_bytes()));
        assert_eq!(parse(text.as_bytes()), Ok(Err(Later { format: 2 })));
    }
}
