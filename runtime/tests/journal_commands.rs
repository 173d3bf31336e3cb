//! `rondo journal` of the real binary on directories made, and damaged, here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg(not(madsim))]

use std::path::Path;
use std::process::Command;

use rondo::store::{DataDirectory, RealDisk, StoreConfig, StoreKind, Wanted};
use rondo_core::control::Record;
use rondo_core::dispatcher::{self, WorkerProfile};
use rondo_core::ids::{Lsn, WorkerId};
use rondo_core::journal::GroupHeader;
use rondo_proto::frame;

async fn open(path: &Path) -> DataDirectory {
    let wanted = Wanted { store: Some(StoreKind::Segment), release: "test".into(), pid: 42 };
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

/// Runs `rondo journal` and returns its exit status and all it printed.
fn journal(action: &str, dir: &Path, more: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rondo"));
    let output = command.args(["journal", action]).arg(dir).args(more).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

/// Flips one bit of the journal, in the first place where `text` stands.
fn damage(dir: &Path, text: &str) {
    let journal = std::fs::read_dir(dir.join("journal")).unwrap();
    let mut files = journal.map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|it| it == "seg")).unwrap();
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
