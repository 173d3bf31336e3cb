//! Blobs come back as they were, or not at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use rondo::store::blobs::{Blob, BlobError, Blobs, FileBlobs, MemoryBlobs, digest};
use rondo::store::{Disk, RealDisk, StoreConfig};
use rondo_core::ids::Digest;

use super::faulty_disk::FaultyDisk;
use super::model_disk::{Left, ModelDisk};

fn config() -> StoreConfig {
    StoreConfig { free_space_reserve_bytes: 0, blob_bytes_max: 1 << 20, ..StoreConfig::default() }
}

async fn files(disk: Arc<dyn Disk>, dir: &Path) -> FileBlobs {
    FileBlobs::open(disk, dir, &config()).await.unwrap()
}

fn path(dir: &Path, digest: Digest) -> PathBuf {
    let name = digest.to_string();
    dir.join(&name[..2]).join(name)
}

async fn keeps_what_it_is_given(blobs: &dyn Blobs) {
    let values: Vec<_> = (0..40).map(|n| Bytes::from(vec![n as u8; n * 1000])).collect();
    for value in values.iter().chain(&values) {
        blobs.put(Blob::of(value.clone())).await.unwrap();
    }
    for value in &values {
        assert_eq!(blobs.get(digest(value)).await.unwrap().as_ref(), Some(value));
    }
    let mut expected: Vec<_> = values.iter().map(|v| (digest(v), v.len() as u64)).collect();
    expected.sort();
    assert_eq!(blobs.list().await.unwrap(), expected);
    assert_eq!(blobs.get(digest(b"never kept")).await.unwrap(), None);
    let gone = digest(&values[7]);
    blobs.remove(gone).await.unwrap();
    blobs.remove(gone).await.unwrap();
    assert_eq!(blobs.get(gone).await.unwrap(), None);
    assert_eq!(blobs.list().await.unwrap().len(), 39);
}

#[tokio::test]
async fn files_keep_what_they_are_given() {
    let dir = tempfile::tempdir().unwrap();
    keeps_what_it_is_given(&files(RealDisk::shared(), dir.path()).await).await;
    let again = files(RealDisk::shared(), dir.path()).await;
    assert_eq!(again.list().await.unwrap().len(), 39);
}

#[tokio::test]
async fn memory_keeps_what_it_is_given() {
    keeps_what_it_is_given(&MemoryBlobs::new(1 << 20)).await;
}

/// The digest of nothing, from BLAKE3's published test vectors.
#[test]
fn digests_are_blake3() {
    let expected = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    assert_eq!(digest(b"").to_string(), expected);
}

#[tokio::test]
async fn a_damaged_file_is_named_and_can_be_mended() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = files(RealDisk::shared(), dir.path()).await;
    let value = Bytes::from_static(b"a value");
    let id = digest(&value);
    blobs.put(Blob::of(value.clone())).await.unwrap();
    for damaged in [&b"A value"[..], b"a", b"a value and more"] {
        fs::write(path(dir.path(), id), damaged).unwrap();
        let error = blobs.get(id).await.unwrap_err();
        assert!(error.to_string().contains(&path(dir.path(), id).display().to_string()));
        assert!(matches!(error, BlobError::Damaged { expected, .. } if expected == id));
    }
    // Of another length, so it is written anew.
    blobs.put(Blob::of(value.clone())).await.unwrap();
    assert_eq!(blobs.get(id).await.unwrap(), Some(value));
}

#[tokio::test]
async fn one_that_is_kept_is_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::over(RealDisk::shared()));
    let blobs = files(Arc::clone(&disk) as Arc<dyn Disk>, dir.path()).await;
    let value = Bytes::from_static(b"a value");
    blobs.put(Blob::of(value.clone())).await.unwrap();
    disk.faults.writes_left.store(0, Ordering::SeqCst);
    blobs.put(Blob::of(value)).await.unwrap();
}

/// A sync that follows a failed one may say nothing although the name is lost.
#[tokio::test]
async fn one_whose_name_could_not_be_synced_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::over(RealDisk::shared()));
    let blobs = files(Arc::clone(&disk) as Arc<dyn Disk>, dir.path()).await;
    let value = Bytes::from_static(b"a value");
    let put = || blobs.put(Blob::of(value.clone()));
    put().await.unwrap();
    blobs.remove(digest(&value)).await.unwrap();
    disk.faults.dir_sync_fails.store(true, Ordering::SeqCst);
    assert!(matches!(put().await, Err(BlobError::Failed(_))));
    disk.faults.dir_sync_fails.store(false, Ordering::SeqCst);
    disk.faults.writes_left.store(0, Ordering::SeqCst);
    assert!(put().await.is_err(), "the file that is there was believed");
    disk.faults.writes_left.store(u64::MAX, Ordering::SeqCst);
    put().await.unwrap();
    assert_eq!(blobs.get(digest(&value)).await.unwrap(), Some(value));
}

/// Its name may have been lost with the former process's last sync.
#[tokio::test]
async fn one_of_a_former_process_whose_name_could_not_be_synced_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let value = Bytes::from_static(b"a value");
    let former = files(RealDisk::shared(), dir.path()).await;
    former.put(Blob::of(value.clone())).await.unwrap();
    let disk = Arc::new(FaultyDisk::over(RealDisk::shared()));
    let blobs = files(Arc::clone(&disk) as Arc<dyn Disk>, dir.path()).await;
    let put = || blobs.put(Blob::of(value.clone()));
    disk.faults.dir_sync_fails.store(true, Ordering::SeqCst);
    assert!(put().await.is_err());
    disk.faults.dir_sync_fails.store(false, Ordering::SeqCst);
    disk.faults.writes_left.store(0, Ordering::SeqCst);
    assert!(put().await.is_err(), "the file that is there was believed");
}

/// As the keeper of blobs does after a failed put: what cannot be removed is not believed either.
#[tokio::test]
async fn one_that_could_be_neither_synced_nor_removed_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::over(RealDisk::shared()));
    let blobs = files(Arc::clone(&disk) as Arc<dyn Disk>, dir.path()).await;
    let value = Bytes::from_static(b"a value");
    let put = || blobs.put(Blob::of(value.clone()));
    // Its directory is there.
    put().await.unwrap();
    blobs.remove(digest(&value)).await.unwrap();
    disk.faults.dir_sync_fails.store(true, Ordering::SeqCst);
    assert!(put().await.is_err());
    let name = digest(&value).to_string().leak();
    *disk.faults.no_removal.lock().unwrap() = Some(name);
    assert!(blobs.remove(digest(&value)).await.is_err());
    disk.faults.dir_sync_fails.store(false, Ordering::SeqCst);
    disk.faults.writes_left.store(0, Ordering::SeqCst);
    assert!(put().await.is_err(), "the file that is there was believed");
}

/// A former process may have died before its failed sync told.
#[tokio::test]
async fn an_empty_directory_of_a_former_process_is_created_anew() {
    let dir = Path::new("/blobs");
    let disk = ModelDisk::new();
    disk.create_dir(dir).await.unwrap();
    disk.sync_dir(Path::new("/")).await.unwrap();
    let value = Bytes::from_static(b"a value");
    let former = files(Arc::new(disk.clone()), dir).await;
    disk.fail_all_syncs_of_dirs();
    assert!(former.put(Blob::of(value.clone())).await.is_err());
    let disk = disk.after_the_cut(Left::Everything);
    let blobs = files(Arc::new(disk.clone()), dir).await;
    blobs.put(Blob::of(value.clone())).await.unwrap();
    let after = files(Arc::new(disk.after_the_cut(Left::Synced)), dir).await;
    assert_eq!(after.get(digest(&value)).await.unwrap(), Some(value));
}

/// Values whose blobs share two directories.
fn crowded() -> Vec<Bytes> {
    let all = (0_u32..).map(|n| Bytes::from(n.to_le_bytes().to_vec()));
    all.filter(|value| digest(value).as_bytes()[0] < 2).take(8).collect()
}

/// Puts each value, some at the same time, and gives up waiting for some. Returns those that were kept.
async fn put_at_once(blobs: &FileBlobs, values: &[Bytes], seed: u64) -> Vec<Bytes> {
    let mut puts = tokio::task::JoinSet::new();
    for (value, n) in values.iter().zip(1_u64..) {
        let (put, value) = (blobs.put(Blob::of(value.clone())), value.clone());
        let (delay, patience) = (seed * n % 5, seed / 5 * n % 60);
        puts.spawn(async move {
            for _ in 0..delay {
                tokio::task::yield_now().await;
            }
            let gives_up = async {
                for _ in 0..patience + 10 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! { biased; put = put => put.is_ok().then_some(value), () = gives_up => None }
        });
    }
    puts.join_all().await.into_iter().flatten().collect()
}

#[tokio::test]
async fn what_was_put_outlives_a_power_cut_although_syncs_of_directories_failed() {
    let (values, dir) = (crowded(), Path::new("/blobs"));
    let (mut kept_in_all, mut refused_in_all) = (0, 0);
    for seed in 0..300 {
        let disk = ModelDisk::new();
        disk.create_dir(dir).await.unwrap();
        disk.sync_dir(Path::new("/")).await.unwrap();
        let blobs = files(Arc::new(disk.clone()), dir).await;
        disk.fail_syncs_of_dirs(seed);
        let mut kept = Vec::new();
        for round in 0..3 {
            kept.extend(put_at_once(&blobs, &values, seed + round).await);
        }
        let after = files(Arc::new(disk.after_the_cut(Left::Synced)), dir).await;
        for value in &kept {
            let found = after.get(digest(value)).await.unwrap();
            assert_eq!(found.as_ref(), Some(value), "seed {seed}: a kept blob is lost");
        }
        kept_in_all += kept.len();
        refused_in_all += 3 * values.len() - kept.len();
    }
    assert!(kept_in_all > 1000 && refused_in_all > 1000, "{kept_in_all}, {refused_in_all}");
}

#[tokio::test]
async fn many_may_keep_the_same_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = files(RealDisk::shared(), dir.path()).await;
    let value = Bytes::from(vec![5; 100_000]);
    let mut puts = tokio::task::JoinSet::new();
    for _ in 0..16 {
        puts.spawn(blobs.put(Blob::of(value.clone())));
    }
    while let Some(put) = puts.join_next().await {
        put.unwrap().unwrap();
    }
    assert_eq!(blobs.get(digest(&value)).await.unwrap(), Some(value));
}

#[tokio::test]
async fn without_space_nothing_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::over(RealDisk::shared()));
    let blobs = files(Arc::clone(&disk) as Arc<dyn Disk>, dir.path()).await;
    let value = Bytes::from(vec![5; 10_000]);
    let full = |put: Result<(), BlobError>| assert!(matches!(put, Err(BlobError::Full { .. })));
    disk.faults.writes_left.store(5000, Ordering::SeqCst);
    full(blobs.put(Blob::of(value.clone())).await);
    disk.faults.writes_left.store(u64::MAX, Ordering::SeqCst);
    disk.faults.free_space.store(9999, Ordering::SeqCst);
    full(blobs.put(Blob::of(value.clone())).await);
    assert_eq!(blobs.get(digest(&value)).await.unwrap(), None);
    disk.faults.free_space.store(u64::MAX, Ordering::SeqCst);
    blobs.put(Blob::of(value.clone())).await.unwrap();
    let memory = MemoryBlobs::new(9_999);
    full(memory.put(Blob::of(value)).await);
}

#[tokio::test]
async fn blobs_have_a_bound() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = files(RealDisk::shared(), dir.path()).await;
    let value = Bytes::from(vec![5; (1 << 20) + 1]);
    let error = blobs.put(Blob::of(value.clone())).await.unwrap_err();
    assert!(matches!(error, BlobError::TooLarge { .. }));
    assert!(error.to_string().contains("1048577 bytes, at most 1048576"), "{error}");
}

#[tokio::test]
async fn unfinished_files_are_cleared_away() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("unfinished")).unwrap();
    fs::write(dir.path().join("unfinished").join("0"), b"half").unwrap();
    let blobs = files(RealDisk::shared(), dir.path()).await;
    blobs.put(Blob::of(Bytes::from_static(b"x"))).await.unwrap();
    assert!(fs::read_dir(dir.path().join("unfinished")).unwrap().next().is_none());
}

/// A put that fails removes its unfinished file and so gives the space back.
#[tokio::test]
async fn what_could_not_be_written_is_cleared_away() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::over(RealDisk::shared()));
    let blobs = files(Arc::clone(&disk) as Arc<dyn Disk>, dir.path()).await;
    disk.faults.writes_left.store(5000, Ordering::SeqCst);
    blobs.put(Blob::of(Bytes::from(vec![5; 10_000]))).await.unwrap_err();
    assert!(fs::read_dir(dir.path().join("unfinished")).unwrap().next().is_none());
}

#[tokio::test]
async fn the_reserve_is_left_to_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::over(RealDisk::shared()));
    let config = StoreConfig { free_space_reserve_bytes: 5000, ..config() };
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let blobs = FileBlobs::open(shared, dir.path(), &config).await.unwrap();
    let value = Bytes::from(vec![5; 10_000]);
    disk.faults.free_space.store(14_999, Ordering::SeqCst);
    let full = blobs.put(Blob::of(value.clone())).await;
    assert!(matches!(full, Err(BlobError::Full { .. })));
    disk.faults.free_space.store(15_000, Ordering::SeqCst);
    blobs.put(Blob::of(value)).await.unwrap();
}

#[tokio::test]
async fn as_much_as_the_bounds_allow_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = files(RealDisk::shared(), dir.path()).await;
    let value = Bytes::from(vec![5; 1 << 20]);
    blobs.put(Blob::of(value.clone())).await.unwrap();
    assert_eq!(blobs.get(digest(&value)).await.unwrap(), Some(value.clone()));
    let memory = MemoryBlobs::new(1 << 20);
    for _ in 0..2 {
        memory.put(Blob::of(value.clone())).await.unwrap();
    }
}

#[tokio::test]
async fn a_directory_that_could_not_be_made_is_made_for_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::over(RealDisk::shared()));
    let blobs = files(Arc::clone(&disk) as Arc<dyn Disk>, dir.path()).await;
    let value = Bytes::from_static(b"a value");
    disk.faults.read_only.store(true, Ordering::SeqCst);
    blobs.put(Blob::of(value.clone())).await.unwrap_err();
    disk.faults.read_only.store(false, Ordering::SeqCst);
    blobs.put(Blob::of(value.clone())).await.unwrap();
    assert_eq!(blobs.get(digest(&value)).await.unwrap(), Some(value));
}
