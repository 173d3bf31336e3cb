//! Who may use a data directory, and what is made of one that is not as expected.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rondo::store::{
    DataDirectory, DirectoryError, Manifest, RealDisk, StoreConfig, StoreKind, Wanted,
};
use rondo_core::ids::Lsn;

use super::faulty_disk::FaultyDisk;
use super::world::{append_all, good_frames, group};

fn wanted(store: Option<StoreKind>) -> Wanted {
    Wanted { store, release: "rondo of a test".into(), pid: 4321 }
}

async fn open(path: &Path, store: Option<StoreKind>) -> Result<DataDirectory, DirectoryError> {
    DataDirectory::open(RealDisk::shared(), path, &wanted(store)).await
}

async fn refusal(path: &Path, store: Option<StoreKind>) -> (DirectoryError, String) {
    let error = open(path, store).await.err().unwrap();
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    (error, text)
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_new_directory_is_laid_out() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let directory = open(&path, None).await.unwrap();
    assert_eq!(directory.kind(), StoreKind::Sled);
    assert_eq!(directory.manifest().await.unwrap(), Manifest::NEW);
    let expected = ["FORMAT", "MANIFEST", "blobs", "journal", "rondo.lock", "snapshots"];
    assert_eq!(names(&path), expected);
    let format = fs::read_to_string(path.join("FORMAT")).unwrap();
    let expected = r#"{"format":1,"store":"sled","created_by":"rondo of a test"}"#;
    assert_eq!(format.trim_end(), expected);
}

#[tokio::test]
async fn a_journal_is_found_again_whatever_its_kind() {
    for kind in [StoreKind::Sled, StoreKind::Segment] {
        let data = tempfile::tempdir().unwrap();
        let frame = group(1, 1, b"one");
        let directory = open(data.path(), Some(kind)).await.unwrap();
        let mut journal = directory.open_journal(&StoreConfig::default()).await.unwrap();
        append_all(&mut *journal, 1, std::slice::from_ref(&frame)).await;
        journal.sync().await.unwrap();
        drop((journal, directory));
        let directory = open(data.path(), None).await.unwrap();
        assert_eq!(directory.kind(), kind);
        let journal = directory.open_journal(&StoreConfig::default()).await.unwrap();
        assert_eq!(good_frames(&*journal).await, [frame]);
    }
}

#[tokio::test]
async fn a_second_server_is_told_of_the_first() {
    let data = tempfile::tempdir().unwrap();
    let first = open(data.path(), None).await.unwrap();
    let (error, text) = refusal(data.path(), None).await;
    assert!(matches!(error, DirectoryError::Locked { .. }));
    assert!(text.contains("pid 4321"), "{text}");
    drop(first);
    open(data.path(), None).await.unwrap();
}

#[tokio::test]
async fn another_kind_of_store_is_refused() {
    let data = tempfile::tempdir().unwrap();
    drop(open(data.path(), Some(StoreKind::Segment)).await.unwrap());
    let (error, text) = refusal(data.path(), Some(StoreKind::Sled)).await;
    assert!(matches!(error, DirectoryError::OtherStore { .. }));
    assert!(text.contains("\"segment\"") && text.contains("\"sled\""), "{text}");
}

#[tokio::test]
async fn a_foreign_directory_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    for n in 0..9 {
        fs::write(data.path().join(format!("thesis{n}.tex")), b"years of work").unwrap();
    }
    let before = names(data.path());
    let (error, text) = refusal(data.path(), None).await;
    assert!(matches!(error, DirectoryError::Foreign { .. }));
    assert!(text.contains("thesis0.tex") && text.contains("more"), "{text}");
    assert_eq!(names(data.path()), before);
}

#[tokio::test]
async fn a_file_systems_own_directory_does_not_count() {
    let data = tempfile::tempdir().unwrap();
    fs::create_dir(data.path().join("lost+found")).unwrap();
    open(data.path(), None).await.unwrap();
}

#[tokio::test]
async fn a_file_is_no_data_directory() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("file");
    fs::write(&path, b"").unwrap();
    assert!(matches!(refusal(&path, None).await.0, DirectoryError::NotADirectory { .. }));
    let path = data.path().join("missing").join("data");
    assert!(matches!(refusal(&path, None).await.0, DirectoryError::NoParent { .. }));
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::over(RealDisk::shared());
    disk.faults.read_only.store(true, Ordering::SeqCst);
    let opened = DataDirectory::open(Arc::new(disk), data.path(), &wanted(None)).await;
    let error = opened.err().unwrap();
    assert!(matches!(error, DirectoryError::Unwritable { .. }), "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[tokio::test]
async fn a_later_format_is_refused() {
    let data = tempfile::tempdir().unwrap();
    drop(open(data.path(), None).await.unwrap());
    fs::write(data.path().join("FORMAT"), br#"{"format":2,"engine":"new"}"#).unwrap();
    let (error, text) = refusal(data.path(), None).await;
    assert!(matches!(error, DirectoryError::Newer { found: 2, .. }));
    assert!(text.contains("format 2") && text.contains("format 1"), "{text}");
}

#[tokio::test]
async fn an_unreadable_format_is_damage() {
    let data = tempfile::tempdir().unwrap();
    drop(open(data.path(), None).await.unwrap());
    for text in ["", "{", r#"{"format":1,"store":"paper","created_by":"x"}"#] {
        fs::write(data.path().join("FORMAT"), text).unwrap();
        let (error, _) = refusal(data.path(), None).await;
        assert!(matches!(error, DirectoryError::Damaged { .. }), "{error}");
    }
}

#[tokio::test]
async fn an_interrupted_creation_is_taken_up_again() {
    let data = tempfile::tempdir().unwrap();
    for name in ["journal", "snapshots"] {
        fs::create_dir(data.path().join(name)).unwrap();
    }
    for name in ["rondo.lock", "MANIFEST", "FORMAT.new"] {
        fs::write(data.path().join(name), b"half").unwrap();
    }
    let directory = open(data.path(), None).await.unwrap();
    assert_eq!(directory.manifest().await.unwrap(), Manifest::NEW);
}

#[tokio::test]
async fn a_lost_format_does_not_start_a_new_journal_over_the_old() {
    let data = tempfile::tempdir().unwrap();
    let directory = open(data.path(), None).await.unwrap();
    let mut journal = directory.open_journal(&StoreConfig::default()).await.unwrap();
    append_all(&mut *journal, 1, &[group(1, 1, b"one")]).await;
    drop((journal, directory));
    fs::remove_file(data.path().join("FORMAT")).unwrap();
    let (error, text) = refusal(data.path(), None).await;
    assert!(matches!(error, DirectoryError::Damaged { .. }));
    assert!(text.contains("FORMAT is missing"), "{text}");
}

#[tokio::test]
async fn the_manifest_is_replaced_as_a_whole() {
    let data = tempfile::tempdir().unwrap();
    let directory = open(data.path(), None).await.unwrap();
    let manifest = Manifest { snapshot: Some(Lsn::new(41)), journal_first: Lsn::new(42) };
    // Left by a crash while it was written.
    fs::write(data.path().join("MANIFEST.new"), b"half").unwrap();
    manifest.write(&**directory.disk(), data.path()).await.unwrap();
    assert_eq!(directory.manifest().await.unwrap(), manifest);
    fs::remove_file(data.path().join("MANIFEST")).unwrap();
    let error = directory.manifest().await.unwrap_err();
    assert!(error.to_string().contains("there is none"), "{error}");
}
