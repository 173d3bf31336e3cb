//! What every store must do while the process may open no more files, and when it may again.

use std::process::Command;

use rondo::store::{AppendError, StoreKind};
use rondo_core::ids::Lsn;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::world::{World, append_all, good_frames, group};

/// The limit holds for a whole process, so the test below has one of its own.
#[test]
fn a_frame_of_a_new_segment_is_taken_later() {
    let name = "descriptors::in_a_process_of_its_own";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", name, "--ignored", "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "leaves its process without descriptors; the test above starts it"]
async fn in_a_process_of_its_own() {
    for kind in [StoreKind::Segment, StoreKind::Sled] {
        let world = World::new(kind);
        let mut store = world.open().await;
        let frames = [group(1, 1, b"one"), group(2, 1, b"two")];
        append_all(&mut *store, 1, &frames[..1]).await;
        store.rotate(Lsn::new(2)).await.unwrap();
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: limit.maximum }).unwrap();
        let refused = store.append(Lsn::new(2), frames[1].clone()).await;
        let synced = store.sync().await;
        setrlimit(Resource::Nofile, limit).unwrap();
        let detail = match refused {
            Err(AppendError::Later { detail }) => detail,
            other => panic!("{kind}: {other:?}"),
        };
        assert!(detail.contains("the server may open no more files"), "{kind}: {detail}");
        assert!(detail.contains(&world.path(2).display().to_string()), "{kind}: {detail}");
        synced.unwrap();
        append_all(&mut *store, 2, &frames[1..]).await;
        store.sync().await.unwrap();
        drop(store);
        assert_eq!(good_frames(&*world.open().await).await, frames, "{kind}");
    }
}

/// The name is gone, and the directory cannot be opened to make that durable.
#[tokio::test]
async fn a_removal_that_failed_half_way_can_be_tried_again() {
    let world = World::new(StoreKind::Segment);
    let mut store = world.open().await;
    append_all(&mut *store, 1, &[group(1, 1, b"one")]).await;
    store.rotate(Lsn::new(2)).await.unwrap();
    append_all(&mut *store, 2, &[group(2, 1, b"two")]).await;
    *world.disk.faults.no_descriptors.lock().unwrap() = Some("");
    store.remove(Lsn::new(1)).await.unwrap_err();
    assert!(!world.path(1).exists());
    assert_eq!(store.segments().len(), 2);
    *world.disk.faults.no_descriptors.lock().unwrap() = None;
    store.remove(Lsn::new(1)).await.unwrap();
    assert_eq!(store.segments().len(), 1);
    append_all(&mut *store, 3, &[group(3, 1, b"three")]).await;
    store.sync().await.unwrap();
}
