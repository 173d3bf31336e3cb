//! How far the journal has been acknowledged: a small file, written before answers leave and never
//! synced. It is exact as long as the power has not gone since.

use rondo_core::ids::Lsn;
use rondo_core::journal::Noted;

use crate::disk::{Disk, FileId};

const PATH: &str = "acknowledged";
const BYTES: usize = 20;

/// Notes that answers up to a record may leave.
pub(super) fn note(disk: &mut Disk, upto: Lsn) {
    note_in(disk, disk.era(), upto);
}

/// Leaves a note, and syncs it, as somebody does who puts a directory right, or wrong. It is of the time
/// since the power went last if it is exact.
pub fn put(disk: &mut Disk, noted: Noted) {
    let put = match noted {
        Noted::Exactly(upto) => note_in(disk, disk.era(), upto),
        Noted::AtLeast(upto) => note_in(disk, disk.era().wrapping_sub(1), upto),
    };
    if let Some(file) = put {
        disk.sync_end(file, disk.sync_begin(file));
    }
}

fn note_in(disk: &mut Disk, era: u64, upto: Lsn) -> Option<FileId> {
    let file = disk.open(PATH).or_else(|_| {
        let created = disk.create(PATH);
        disk.sync_dir("");
        created
    });
    let file = file.ok()?;
    // Room for it is there from the beginning; without, it says less than it could.
    let _ = disk.write_at(file, 0, &text(era, upto));
    Some(file)
}

/// What was noted.
pub fn read(disk: &Disk) -> Option<Noted> {
    let bytes = disk.read(disk.open(PATH).ok()?);
    let (_, rest) = bytes.split_first_chunk::<8>()?;
    let (upto, _) = rest.split_first_chunk::<8>()?;
    let upto = Lsn::new(u64::from_le_bytes(*upto));
    let (era, _) = bytes.split_first_chunk::<8>()?;
    let era = u64::from_le_bytes(*era);
    (bytes == text(era, upto)).then_some(match era == disk.era() {
        true => Noted::Exactly(upto),
        false => Noted::AtLeast(upto),
    })
}

fn text(era: u64, upto: Lsn) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend_from_slice(&era.to_le_bytes());
    bytes.extend_from_slice(&upto.get().to_le_bytes());
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}
