//! Snapshot files come back whole or not at all.

use std::fs;

use bytes::Bytes;
use rondo::store::snapshot::{self, SnapshotError, SnapshotReader, SnapshotWriter};
use rondo::store::{Disk, RealDisk};
use rondo_core::ids::Lsn;
use tempfile::TempDir;

use super::faulty_disk::FaultyDisk;

const LSN: Lsn = Lsn::new(77);
const PART_BYTES_MAX: usize = 4 << 20;

async fn write(dir: &TempDir, parts: &[Bytes]) {
    let disk = RealDisk::shared();
    let writer = SnapshotWriter::create(disk, dir.path(), LSN, PART_BYTES_MAX).await;
    let mut writer = writer.unwrap();
    for part in parts {
        writer.part(part).await.unwrap();
    }
    assert!(snapshot::list(&RealDisk, dir.path()).await.unwrap().is_empty());
    writer.finish().await.unwrap();
}

async fn read(dir: &TempDir) -> Result<Vec<Bytes>, SnapshotError> {
    read_from(&RealDisk, dir).await
}

async fn read_from(disk: &dyn Disk, dir: &TempDir) -> Result<Vec<Bytes>, SnapshotError> {
    let mut reader = SnapshotReader::open(disk, dir.path(), LSN, PART_BYTES_MAX).await?;
    let mut parts = Vec::new();
    while let Some(part) = reader.part().await? {
        parts.push(part);
    }
    assert_eq!(reader.part().await?, None);
    Ok(parts)
}

fn small_parts() -> Vec<Bytes> {
    [&b"one"[..], b"", b"three", b"four"].map(Bytes::from_static).to_vec()
}

#[tokio::test]
async fn parts_come_back_in_order() {
    let big = |n: u8, size: usize| Bytes::from(vec![n; size]);
    let many = (0..2000).map(|n| big(n as u8, n)).collect();
    let large = vec![big(1, PART_BYTES_MAX), big(2, 1), big(3, (1 << 20) - 8), big(4, 3 << 20)];
    for parts in [vec![], small_parts(), many, large] {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, &parts).await;
        assert_eq!(read(&dir).await.unwrap(), parts);
        assert_eq!(snapshot::list(&RealDisk, dir.path()).await.unwrap(), [LSN]);
    }
}

/// Snapshots of version 1 exist: these bytes must be readable in every later release.
#[tokio::test]
async fn version_1_stays_readable() {
    let text = "89526f6e646f530a 01000000 4d00000000000000 efb1df3b
        03000000 a60ecb49 6f6e65 00000000 c74b6748
        ffffffff 0200000000000000 2480c005f5ec6a1dd7b136c9b388d8a86531b91ecffdef2a009ae0dd61a1cde7 923ed750";
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let bytes: Vec<u8> = digits.chunks(2).map(byte).collect();
    let dir = tempfile::tempdir().unwrap();
    fs::write(snapshot::path(dir.path(), LSN), &bytes).unwrap();
    assert_eq!(read(&dir).await.unwrap(), [Bytes::from_static(b"one"), Bytes::new()]);
    let again = tempfile::tempdir().unwrap();
    write(&again, &[Bytes::from_static(b"one"), Bytes::new()]).await;
    assert_eq!(fs::read(snapshot::path(again.path(), LSN)).unwrap(), bytes);
}

#[tokio::test]
async fn every_bit_flip_and_every_cut_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &small_parts()).await;
    let path = snapshot::path(dir.path(), LSN);
    let whole = fs::read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, damaged).unwrap();
        assert!(read(&dir).await.is_err(), "bit {bit}");
    }
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(read(&dir).await.is_err(), "{len} bytes");
    }
    fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    assert!(read(&dir).await.unwrap_err().to_string().contains("follows"));
}

/// A server without descriptors or memory can say nothing about a snapshot.
#[tokio::test]
async fn what_the_system_does_not_let_us_read_is_not_called_damaged() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &small_parts()).await;
    let disk = FaultyDisk::over(RealDisk::shared());
    let path = snapshot::path(dir.path(), LSN).display().to_string();
    *disk.faults.no_descriptors.lock().unwrap() = Some(".snap");
    let error = read_from(&disk, &dir).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Failed(_)), "{error}");
    assert!(error.to_string().contains(&path), "{error}");
    *disk.faults.no_descriptors.lock().unwrap() = None;
    let (eio, enomem) = (5, 12);
    *disk.faults.reads_fail.lock().unwrap() = Some(enomem);
    let error = read_from(&disk, &dir).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Failed(_)), "{error}");
    // The disk cannot give back what was written.
    *disk.faults.reads_fail.lock().unwrap() = Some(eio);
    let error = read_from(&disk, &dir).await.unwrap_err();
    assert!(matches!(error, SnapshotError::Damaged { .. }), "{error}");
    *disk.faults.reads_fail.lock().unwrap() = None;
    assert_eq!(read_from(&disk, &dir).await.unwrap(), small_parts());
}

#[tokio::test]
async fn damage_is_named_by_file_offset_and_part() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &small_parts()).await;
    let path = snapshot::path(dir.path(), LSN);
    let mut damaged = fs::read(&path).unwrap();
    // Header 24; "one" 8 + 3; the empty part 8; then the length and checksum of "three".
    let third = 24 + 11 + 8;
    damaged[third + 8] ^= 1;
    fs::write(&path, damaged).unwrap();
    let error = read(&dir).await.unwrap_err();
    let place = format!("damaged at offset {third} (part 2)");
    assert!(error.to_string().contains(&place), "{error}");
    assert!(error.to_string().contains(&*path.display().to_string()), "{error}");
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[tokio::test]
async fn parts_swapped_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[Bytes::from_static(b"abc"), Bytes::from_static(b"xyz")]).await;
    let path = snapshot::path(dir.path(), LSN);
    let mut bytes = fs::read(&path).unwrap();
    let (first, second) = (24..35, 35..46);
    let swapped = [&bytes[second.clone()], &bytes[first.clone()]].concat();
    bytes[first.start..second.end].copy_from_slice(&swapped);
    fs::write(&path, bytes).unwrap();
    assert!(read(&dir).await.unwrap_err().to_string().contains("hash over all parts"));
}

#[tokio::test]
async fn a_snapshot_under_another_name_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &small_parts()).await;
    let other = Lsn::new(78);
    fs::rename(snapshot::path(dir.path(), LSN), snapshot::path(dir.path(), other)).unwrap();
    let opened = SnapshotReader::open(&RealDisk, dir.path(), other, PART_BYTES_MAX).await;
    let error = opened.err().unwrap();
    assert!(error.to_string().contains("record 77, by its name 78"), "{error}");
}

#[tokio::test]
async fn parts_have_a_bound() {
    let dir = tempfile::tempdir().unwrap();
    let created = SnapshotWriter::create(RealDisk::shared(), dir.path(), LSN, 10).await;
    let mut writer = created.unwrap();
    let error = writer.part(&[0; 11]).await.unwrap_err();
    assert!(error.to_string().contains("11 bytes, at most 10"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[Bytes::from(vec![0; 11])]).await;
    let mut reader = SnapshotReader::open(&RealDisk, dir.path(), LSN, 10).await.unwrap();
    assert!(reader.part().await.unwrap_err().to_string().contains("11 bytes, at most 10"));
}

#[tokio::test]
async fn what_an_interrupted_one_left_is_no_hindrance() {
    let dir = tempfile::tempdir().unwrap();
    let path = snapshot::path(dir.path(), LSN);
    let unfinished = format!("{}.new", path.display());
    fs::write(&unfinished, b"half of a snapshot, longer than the whole one").unwrap();
    write(&dir, &[]).await;
    assert!(read(&dir).await.unwrap().is_empty());
    snapshot::remove(&RealDisk, dir.path(), LSN).await.unwrap();
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
}
