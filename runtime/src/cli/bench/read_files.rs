//! The files that readers are measured with: TFRecord files of records of one size.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Records of one size, divided over files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Records in all.
    pub(super) records: u64,
    /// Bytes of each.
    pub(super) record_bytes: usize,
    /// Files they are divided over.
    pub(super) files: u64,
}

impl Shape {
    /// Writes the files into `folder`. The records' bytes are different ones, and hardly compress.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(super) fn write(&self, folder: &Path, name: &str) -> std::io::Result<Vec<PathBuf>> {
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let mut paths = Vec::new();
        for number in 0..self.files {
            let path = folder.join(format!("{name}-{number:03}.tfrecord"));
            let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
            let (from, to) = (self.share(number), self.share(number.saturating_add(1)));
            let mut record = vec![0; self.record_bytes];
            for _ in from..to {
                noise.fill(&mut record);
                write_record(&mut file, &record)?;
            }
            file.flush()?;
            paths.push(path);
        }
        Ok(paths)
    }

    /// Records before this file.
    fn share(&self, file: u64) -> u64 {
        self.records.saturating_mul(file).checked_div(self.files).unwrap_or(self.records)
    }
}

/// One record in TFRecord's framing: its length and its bytes, each with a checksum.
fn write_record(file: &mut impl Write, record: &[u8]) -> std::io::Result<()> {
    let length = (record.len() as u64).to_le_bytes();
    file.write_all(&length)?;
    file.write_all(&masked(crc32c::crc32c(&length)))?;
    file.write_all(record)?;
    file.write_all(&masked(crc32c::crc32c(record)))
}

/// A checksum as TFRecord writes it.
fn masked(checksum: u32) -> [u8; 4] {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// Bytes that look random (xorshift64*).
struct Noise(u64);

impl Noise {
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            let word = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
            chunk.iter_mut().zip(word).for_each(|(byte, noise)| *byte = noise);
        }
    }
}
