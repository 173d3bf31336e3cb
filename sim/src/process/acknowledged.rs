//! How far the journal has been acknowledged: a small file, written before answers leave and never
//! synced. It counts as long as the power has not gone since.

use rondo_core::ids::Lsn;

use crate::disk::Disk;

const PATH: &str = "acknowledged";
const BYTES: usize = 20;

/// Notes that answers up to a record may leave.
pub fn note(disk: &mut Disk, upto: Lsn) {
    let file = disk.open(PATH).or_else(|_| {
        let created = disk.create(PATH);
        disk.sync_dir("");
        created
    });
    let Ok(file) = file else {
        return;
    };
    // Room for it is there from the beginning; without, it says less than it could.
    let _ = disk.write_at(file, 0, &text(disk.era(), upto));
}

/// What was noted, if that can be relied on.
pub fn read(disk: &Disk) -> Option<Lsn> {
    let bytes = disk.read(disk.open(PATH).ok()?);
    let (_, rest) = bytes.split_first_chunk::<8>()?;
    let (upto, _) = rest.split_first_chunk::<8>()?;
    let upto = Lsn::new(u64::from_le_bytes(*upto));
    (bytes == text(disk.era(), upto)).then_some(upto)
}

fn text(era: u64, upto: Lsn) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.extend_from_slice(&era.to_le_bytes());
    bytes.extend_from_slice(&upto.get().to_le_bytes());
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}
