//! Any snapshot and any manifest: read as they were written, or refused with the place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rondo::node::{CompactionError, Snapshots};
use rondo::store::snapshot::{self, SnapshotReader, SnapshotWriter};
use rondo::store::{DataDirectory, Disk, Manifest, StoreConfig, StoreKind, Wanted};
use rondo_core::control::Recovery;
use rondo_core::ids::Lsn;
use rondo_proto::frame::{decode_part, encode_part};

use crate::model_disk::ModelDisk;
use crate::started::{block_on, check_recovered};

const LSN: Lsn = Lsn::new(41);
const PART_BYTES_MAX: usize = 1 << 16;
/// More than that is only slow.
const PARTS_MAX: usize = 64;

/// Checks one input: its first byte says what the rest is. True when it is accepted.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Some((kind, rest)) = bytes.split_first() else {
        return false;
    };
    block_on(async {
        match kind % 5 {
            0 => check_manifest(rest.to_vec()).await,
            1 => {
                let checksum = format!("\ncrc32c {:08x}\n", crc32c::crc32c(rest));
                check_manifest([rest, checksum.as_bytes()].concat()).await
            }
            2 => check_file(rest).await,
            3 => check_damage(rest).await,
            _ => check_parts(&parts_of(rest)).await,
        }
    })
}

/// An empty data directory.
async fn directory() -> (ModelDisk, DataDirectory) {
    let disk = ModelDisk::new();
    let kind = Some(StoreKind::Segment);
    let wanted = Wanted { store: kind, release: "rondo".into(), pid: 1 };
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let directory = DataDirectory::open(shared, Path::new("/data"), &wanted).await.unwrap();
    (disk, directory)
}

async fn check_manifest(bytes: Vec<u8>) -> bool {
    let (disk, directory) = directory().await;
    put(&disk, &directory.path().join("MANIFEST"), &bytes).await;
    match directory.manifest().await {
        Err(error) => {
            assert!(error.to_string().contains("MANIFEST"), "{error}");
            false
        }
        Ok(manifest) => {
            manifest.write(&disk, directory.path()).await.unwrap();
            assert_eq!(directory.manifest().await.unwrap(), manifest);
            true
        }
    }
}

async fn put(disk: &ModelDisk, path: &Path, bytes: &[u8]) {
    let file = match disk.open(path).await {
        Ok(file) => file,
        Err(_) => disk.create(path).await.unwrap(),
    };
    file.set_len(0).await.unwrap();
    file.write_at(0, Bytes::copy_from_slice(bytes)).await.unwrap();
}

async fn get(disk: &ModelDisk, path: &Path) -> Bytes {
    disk.open(path).await.unwrap().read_at(0, usize::MAX).await.unwrap()
}

/// Parts one behind the other, each behind its length.
fn parts_of(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>()
        && parts.len() < PARTS_MAX
    {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (part, behind) = rest.split_at(length);
        parts.push(part);
        bytes = behind;
    }
    parts
}

/// Where the snapshot lies.
fn place(directory: &DataDirectory) -> PathBuf {
    snapshot::path(&directory.snapshots(), LSN)
}

async fn write(disk: &ModelDisk, directory: &DataDirectory, parts: &[&[u8]]) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let files = directory.snapshots();
    let mut writer = SnapshotWriter::create(shared, &files, LSN, PART_BYTES_MAX).await.unwrap();
    for part in parts {
        writer.part(part).await.unwrap();
    }
    writer.finish().await.unwrap();
}

/// The parts of the snapshot; `None` when it is refused, which names the file.
async fn read(disk: &ModelDisk, directory: &DataDirectory) -> Option<Vec<Bytes>> {
    let mut parts = Vec::new();
    let reading = async {
        let files = directory.snapshots();
        let mut reader = SnapshotReader::open(disk, &files, LSN, PART_BYTES_MAX).await?;
        while let Some(part) = reader.part().await? {
            parts.push(part);
        }
        Ok::<_, snapshot::SnapshotError>(())
    };
    match reading.await {
        Ok(()) => Some(parts),
        Err(error) => {
            let file = place(directory).display().to_string();
            assert!(error.to_string().contains(&file), "{error}");
            None
        }
    }
}

/// Any bytes as a snapshot's file.
async fn check_file(bytes: &[u8]) -> bool {
    let (disk, directory) = directory().await;
    put(&disk, &place(&directory), bytes).await;
    let Some(parts) = read(&disk, &directory).await else {
        return false;
    };
    let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
    disk.remove_file(&place(&directory)).await.unwrap();
    write(&disk, &directory, &parts).await;
    assert_eq!(get(&disk, &place(&directory)).await, bytes, "not as it would be written");
    true
}

/// A whole file with one bit changed, or without its end, or with more behind it.
async fn check_damage(bytes: &[u8]) -> bool {
    let Some(([kind, low, high], rest)) = bytes.split_first_chunk::<3>() else {
        return false;
    };
    let (disk, directory) = directory().await;
    let parts = parts_of(rest);
    write(&disk, &directory, &parts).await;
    assert_eq!(read(&disk, &directory).await.as_deref(), Some(&owned(&parts)[..]));
    let mut file = get(&disk, &place(&directory)).await.to_vec();
    let at = usize::from(u16::from_le_bytes([*low, *high])) % file.len();
    match kind {
        0..128 => file[at] ^= 1 << (kind % 8),
        128..192 => file.truncate(at),
        _ => file.extend(&bytes[..=at % 3]),
    }
    put(&disk, &place(&directory), &file).await;
    assert_eq!(read(&disk, &directory).await, None, "damage at {at} of {} unseen", file.len());
    true
}

fn owned(parts: &[&[u8]]) -> Vec<Bytes> {
    parts.iter().map(|part| Bytes::copy_from_slice(part)).collect()
}

/// Parts that arrive as they were written.
async fn check_parts(parts: &[&[u8]]) -> bool {
    let (disk, directory) = directory().await;
    write(&disk, &directory, parts).await;
    let manifest = Manifest { snapshot: Some(LSN), journal_first: LSN.next() };
    manifest.write(&disk, directory.path()).await.unwrap();
    let snapshots = Snapshots::of(&directory, &StoreConfig::default());
    match snapshots.load().await {
        Err(error) => {
            check_refused(parts, &error);
            false
        }
        Ok(loaded) => {
            check_loaded(parts, loaded);
            true
        }
    }
}

/// The part that is named is the first one that cannot be taken.
fn check_refused(parts: &[&[u8]], error: &CompactionError) {
    let mut before = Recovery::new();
    let mut taken = parts.iter().map(|part| {
        let part = decode_part(part).ok();
        part.is_some_and(|part| before.restore(part).is_ok())
    });
    let first = taken.position(|taken| !taken);
    let number = match error {
        CompactionError::Undecodable { number, .. } | CompactionError::Unfit { number, .. } => {
            Some(*number as usize)
        }
        _ => None,
    };
    assert_eq!(number, first, "{error}");
    assert!(error.is_damage() != error.is_of_later_release(), "one of both: {error}");
    assert!(error.to_string().contains("part"), "{error}");
}

fn check_loaded(parts: &[&[u8]], loaded: Recovery) {
    let mut expected = Recovery::new();
    for part in parts {
        let part = decode_part(part).expect("it was loaded");
        assert_eq!(decode_part(&encode_part(&part)).as_ref(), Ok(&part));
        expected.restore(part).unwrap();
    }
    expected.restored_upto(LSN);
    assert_eq!(loaded, expected, "not what the parts make");
    let parts = loaded.parts();
    check_recovered(&loaded.finish(), parts);
}
