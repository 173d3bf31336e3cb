//! `rondo journal` of the real binary on directories made, and damaged, here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg(not(madsim))]

use std::path::{Path, PathBuf};
use std::process::Command;

use rondo::store::{DataDirectory, RealDisk, StoreConfig, StoreKind, Wanted};
use rondo_core::control::Record;
use rondo_core::dispatcher::{self, WorkerProfile};
use rondo_core::ids::{Lsn, WorkerId};
use rondo_core::journal::GroupHeader;
use rondo_proto::frame;

async fn open(path: &Path) -> DataDirectory {
    open_of(StoreKind::Segment, path).await
}

async fn open_of(store: StoreKind, path: &Path) -> DataDirectory {
    let wanted = Wanted { store: Some(store), release: "test".into(), pid: 42 };
    DataDirectory::open(RealDisk::shared(), path, &wanted).await.unwrap()
}

fn worker(number: i64) -> Record {
    Record::Dispatcher(dispatcher::Record::RegisterWorker {
        id: WorkerId::new(number),
        address: format!("worker-{number}:1").into(),
        profile: WorkerProfile { uid: 7, tags: [].into(), transfer_servers: [].into() },
    })
}

/// A directory whose journal has three groups of one worker each, the last one known to be durable
/// by a mark behind it.
async fn three_workers() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(&dir.path().join("data")).await;
    let mut store = directory.open_journal(&StoreConfig::default()).await.unwrap();
    for number in 1..=3 {
        let first = Lsn::new(number);
        let header = GroupHeader { first, count: 1, durable_upto: Lsn::new(number - 1) };
        let payload = frame::encode_records(&[worker(i64::try_from(number).unwrap())]);
        store.append(first, frame::encode(&header, &payload).unwrap()).await.unwrap();
    }
    let mark = GroupHeader { first: Lsn::new(4), count: 0, durable_upto: Lsn::new(3) };
    store.append(Lsn::new(4), frame::encode(&mark, &[]).unwrap()).await.unwrap();
    store.sync().await.unwrap();
    dir
}

/// A directory whose journal ends with a record of a kind that no release has so far.
async fn a_record_of_a_later_release() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let directory = open(&dir.path().join("data")).await;
    let mut store = directory.open_journal(&StoreConfig::default()).await.unwrap();
    // An entry of machine 1, kind 99.
    let mut later = frame::encode_records(&[worker(1)]);
    later.extend([0x0a, 0x05, 0x0a, 0x03, 0x9a, 0x06, 0x00]);
    let header = GroupHeader { first: Lsn::new(1), count: 2, durable_upto: Lsn::new(0) };
    store.append(header.first, frame::encode(&header, &later).unwrap()).await.unwrap();
    store.sync().await.unwrap();
    dir
}

/// A directory of this store whose journal ends with a group in a format that no release has so far.
async fn a_group_of_a_later_format(store: StoreKind) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let directory = open_of(store, &dir.path().join("data")).await;
    let mut store = directory.open_journal(&StoreConfig::default()).await.unwrap();
    for (first, version) in [(1_u32, frame::VERSION), (2, frame::VERSION + 1)] {
        let (number, first) = (i64::from(first), Lsn::new(u64::from(first)));
        let header = GroupHeader { first, count: 1, durable_upto: Lsn::NONE };
        let group = frame::encode(&header, &frame::encode_records(&[worker(number)])).unwrap();
        store.append(first, of_format(version, &group)).await.unwrap();
    }
    store.sync().await.unwrap();
    dir
}

/// The frame with another format version, and the header's checksum of that.
fn of_format(version: u32, frame: &[u8]) -> bytes::Bytes {
    let mut frame = frame.to_vec();
    frame[8..12].copy_from_slice(&version.to_le_bytes());
    checksum_header(&mut frame);
    frame.into()
}

fn checksum_header(frame: &mut [u8]) {
    let checked = frame::FRAME_HEADER_BYTES - 4;
    let checksum = crc32c::crc32c(&frame[..checked]);
    frame[checked..checked + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Has the header of the last frame say that it is longer than any of this release.
fn lengthen(dir: &Path) {
    let file = segment(dir);
    let mut bytes = std::fs::read(&file).unwrap();
    let last =
        bytes.windows(frame::MAGIC.len()).rposition(|window| window == frame::MAGIC).unwrap();
    let length = u32::try_from(frame::PAYLOAD_BYTES_MAX).unwrap() + 1;
    bytes[last + 12..last + 16].copy_from_slice(&length.to_le_bytes());
    checksum_header(&mut bytes[last..]);
    std::fs::write(&file, bytes).unwrap();
}

/// The file of the only segment.
fn segment(dir: &Path) -> PathBuf {
    let journal = std::fs::read_dir(dir.join("journal")).unwrap();
    let mut files = journal.map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|it| it == "seg")).unwrap()
}

/// Runs a command of the binary and returns its exit status and all it printed.
fn rondo(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rondo"));
    let output = command.args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// Checks that every command that reads the whole directory ends with 4 and says this, and calls nothing
/// damaged.
fn is_of_a_later_release(data: &Path, said: &str) {
    let (dir, given) = (data.to_str().unwrap(), format!("--data={}", data.display()));
    let commands = [
        &["journal", "verify", dir][..],
        &["journal", "compact", dir],
        &["serve", "--port=0", &given],
    ];
    for command in commands {
        let (status, text) = rondo(command);
        assert_eq!(status, 4, "{command:?}: {text}");
        assert!(text.contains(said), "{command:?}: {text}");
        assert!(!text.to_lowercase().contains("damage"), "{command:?}: {text}");
    }
}

/// Runs `rondo journal` and returns its exit status and all it printed.
fn journal(action: &str, dir: &Path, more: &[&str]) -> (i32, String) {
    rondo(&[&["journal", action, dir.to_str().unwrap()], more].concat())
}

/// Flips one bit of the journal, in the first place where `text` stands.
fn damage(dir: &Path, text: &str) {
    let file = segment(dir);
    let mut bytes = std::fs::read(&file).unwrap();
    let place = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    bytes[place] ^= 1;
    std::fs::write(&file, bytes).unwrap();
}

#[tokio::test]
async fn a_sound_journal_is_verified_and_shown() {
    let dir = three_workers().await;
    let data = dir.path().join("data");
    let (status, text) = journal("verify", &data, &[]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("records up to 3"), "{text}");
    let (status, text) =
        journal("inspect", &data, &["--records", "--from=2", "--limit=1", "--wide"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("Segments (1)") && text.contains("Records (2)"), "{text}");
    assert!(text.contains("worker-2:1") && !text.contains("worker-3:1"), "{text}");
}

#[tokio::test]
async fn a_lost_acknowledged_record_exits_with_6_and_is_named() {
    let dir = three_workers().await;
    let data = dir.path().join("data");
    damage(&data, "worker-2");
    let (status, text) = journal("verify", &data, &[]);
    assert_eq!(status, 6, "{text}");
    assert!(text.contains("record 2 is damaged"), "{text}");
    let (status, text) = journal("inspect", &data, &["--records", "--wide"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("DAMAGED"), "{text}");
}

/// What a later release wrote is whole: no command calls it damaged, and each says which release to use.
#[tokio::test]
async fn a_record_of_a_later_release_exits_with_4_and_is_not_called_damaged() {
    let dir = a_record_of_a_later_release().await;
    let data = dir.path().join("data");
    let said = "kind 1.99 at index 1 is not known to this release: use the release that wrote it";
    is_of_a_later_release(&data, said);
    let data = data.to_str().unwrap();
    let (status, text) = rondo(&["journal", "inspect", data, "--records", "--wide"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("OF A LATER RELEASE: kind 1.99"), "{text}");
    // The record before it in its group is shown.
    assert!(text.contains("worker-1:1"), "{text}");
    assert!(!text.contains("DAMAGED:"), "{text}");
}

/// Nobody was told of the last group, as far as an old release knows. It must not cut it for that.
#[tokio::test]
async fn a_group_of_a_later_format_stops_a_start_and_stays() {
    use StoreKind::{Segment, Sled};
    for (store, is_longer) in [(Segment, false), (Segment, true), (Sled, false)] {
        let dir = a_group_of_a_later_format(store).await;
        let data = dir.path().join("data");
        if is_longer {
            lengthen(&data);
        }
        let said =
            "format version is 2, this release reads versions 1 to 1: use the release that wrote";
        is_of_a_later_release(&data, said);
        let data = data.to_str().unwrap();
        let (status, text) = rondo(&["journal", "inspect", data, "--records", "--wide"]);
        assert_eq!(status, 0, "{text}");
        assert!(text.contains("worker-1:1"), "{store:?}: {text}");
        assert!(text.contains("OF A LATER RELEASE: format version is 2"), "{store:?}: {text}");
        assert!(!text.contains("DAMAGED:"), "{store:?}: {text}");
    }
}

/// The damage counts, and whoever would cut the journal before it is told what else would go.
#[tokio::test]
async fn damage_beside_a_group_of_a_later_format_exits_with_6() {
    let dir = three_workers().await;
    let data = dir.path().join("data");
    let mut store = open(&data).await.open_journal(&StoreConfig::default()).await.unwrap();
    let header = GroupHeader { first: Lsn::new(4), count: 1, durable_upto: Lsn::new(3) };
    let group = frame::encode(&header, &frame::encode_records(&[worker(4)])).unwrap();
    store.append(header.first, of_format(frame::VERSION + 1, &group)).await.unwrap();
    store.sync().await.unwrap();
    drop(store);
    damage(&data, "worker-2");
    let (status, text) = journal("verify", &data, &[]);
    assert_eq!(status, 6, "{text}");
    assert!(text.contains("record 2 is damaged"), "{text}");
    assert!(text.contains("was written by a later release (format version is 2"), "{text}");
}

/// So it is with the manifest.
#[tokio::test]
async fn a_manifest_of_a_later_format_exits_with_4() {
    let dir = three_workers().await;
    let data = dir.path().join("data");
    let line = "{\"format\":2,\"snapshot\":null,\"journal_first\":1}";
    let checksum = crc32c::crc32c(line.as_bytes());
    std::fs::write(data.join("MANIFEST"), format!("{line}\ncrc32c {checksum:08x}\n")).unwrap();
    is_of_a_later_release(&data, "has format 2, this release reads format 1");
}

/// And with the snapshot.
#[tokio::test]
async fn a_snapshot_of_a_later_format_exits_with_4() {
    let dir = three_workers().await;
    let data = dir.path().join("data");
    let (status, text) = journal("compact", &data, &[]);
    assert_eq!(status, 0, "{text}");
    let snapshots = std::fs::read_dir(data.join("snapshots")).unwrap();
    let paths = snapshots.map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let [path] = &paths[..] else { panic!("{paths:?}") };
    // The version stands behind 8 bytes of magic, and the header's checksum behind 20.
    let mut snapshot = std::fs::read(path).unwrap();
    snapshot[8..12].copy_from_slice(&7_u32.to_le_bytes());
    let checksum = crc32c::crc32c(&snapshot[..20]);
    snapshot[20..24].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(path, &snapshot).unwrap();
    let said = "has format version 7, this release reads version 1: use the release that wrote it";
    is_of_a_later_release(&data, said);
    assert!(std::fs::read(path).unwrap() == snapshot, "it was changed");
}

/// Who looks for a late record must learn what could not be read before it.
#[tokio::test]
async fn no_choice_of_records_hides_what_cannot_be_read() {
    let dir = a_record_of_a_later_release().await;
    let data = dir.path().join("data");
    let (status, text) = journal("inspect", &data, &["--records", "--wide", "--from=9"]);
    assert_eq!(status, 0, "{text}");
    assert!(!text.contains("worker-1:1"), "{text}");
    assert!(text.contains("OF A LATER RELEASE: kind 1.99"), "{text}");
}

#[tokio::test]
async fn a_directory_that_is_none_exits_with_4_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("missing")] {
        let (status, text) = journal("verify", &path, &[]);
        assert_eq!(status, 4, "{text}");
        assert!(text.contains(&path.display().to_string()), "{text}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_directory_in_use_exits_with_5() {
    let dir = three_workers().await;
    let data = dir.path().join("data");
    let _used = open(&data).await;
    let (status, text) = journal("inspect", &data, &[]);
    assert_eq!(status, 5, "{text}");
    assert!(text.contains("42"), "{text}");
}
