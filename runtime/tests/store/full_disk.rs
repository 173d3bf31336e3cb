//! What every store must do when space runs out, and when there is space again.

use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rondo::store::{AppendError, Store, StoreKind};
use rondo_core::ids::Lsn;

use super::world::{World, append_all, for_each_store, good_frames, group};

/// Longer than an answer about the free space is believed.
const A_WHILE: Duration = Duration::from_millis(150);
/// Larger than the space that a segment file sets aside, in bytes.
const LARGE_BYTES: usize = 100_000;

for_each_store!(
    the_reserve_is_kept_free,
    the_reserve_is_kept_free_of_what_others_write,
    an_unknown_free_space_ends_no_store,
);

async fn is_full(store: &mut dyn Store, lsn: u64, payload: &[u8]) -> String {
    match store.append(Lsn::new(lsn), group(lsn, 1, payload)).await {
        Err(AppendError::Full { detail, .. }) => detail,
        other => panic!("{other:?}"),
    }
}

async fn the_reserve_is_kept_free(mut world: World) {
    world.config.free_space_reserve_bytes = 50 << 20;
    let mut store = world.open().await;
    world.disk.faults.free_space.store(49 << 20, Ordering::SeqCst);
    let detail = is_full(&mut *store, 1, b"one").await;
    let expected = format!("{} bytes are kept in reserve", 50 << 20);
    assert!(detail.contains(&expected.replace(" bytes", "")), "{detail}");
    assert!(good_frames(&*store).await.is_empty());
    world.disk.faults.free_space.store(60 << 20, Ordering::SeqCst);
    let frame = group(1, 1, b"one");
    append_all(&mut *store, 1, std::slice::from_ref(&frame)).await;
    store.sync().await.unwrap();
    // More than fits above the reserve.
    let detail = is_full(&mut *store, 2, &vec![1; 12 << 20]).await;
    assert!(detail.contains("free"), "{detail}");
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, [frame]);
}

/// Others fill the disk while the store writes little.
async fn the_reserve_is_kept_free_of_what_others_write(world: World) {
    let mut store = world.open().await;
    let frames = [group(1, 1, b"one"), group(2, 1, &[7; LARGE_BYTES])];
    append_all(&mut *store, 1, &frames[..1]).await;
    world.disk.faults.free_space.store(0, Ordering::SeqCst);
    tokio::time::sleep(A_WHILE).await;
    is_full(&mut *store, 2, &[7; LARGE_BYTES]).await;
    store.sync().await.unwrap();
    world.disk.faults.free_space.store(u64::MAX, Ordering::SeqCst);
    append_all(&mut *store, 2, &frames[1..]).await;
    store.sync().await.unwrap();
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, frames);
}

async fn an_unknown_free_space_ends_no_store(world: World) {
    let mut store = world.open().await;
    let frames = [1, 2, 3].map(|lsn| group(lsn, 1, &[lsn as u8; LARGE_BYTES]));
    let fails = |number: Option<i32>| {
        *world.disk.faults.free_space_fails.lock().unwrap() = number;
    };
    let (eio, enomem) = (5, 12);
    // Before the first answer nothing is known.
    fails(Some(eio));
    let refused = store.append(Lsn::new(1), frames[0].clone()).await;
    assert!(matches!(refused, Err(AppendError::Later { .. })), "{refused:?}");
    fails(None);
    append_all(&mut *store, 1, &frames[..1]).await;
    tokio::time::sleep(A_WHILE).await;
    fails(Some(enomem));
    let refused = store.append(Lsn::new(2), frames[1].clone()).await;
    assert!(matches!(refused, Err(AppendError::Later { .. })), "{refused:?}");
    // What does not pass tells nothing of the space: the last answer is kept.
    fails(Some(eio));
    append_all(&mut *store, 2, &frames[1..2]).await;
    fails(None);
    append_all(&mut *store, 3, &frames[2..]).await;
    store.sync().await.unwrap();
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, frames);
}

#[tokio::test]
async fn appends_that_find_no_space_leave_nothing_behind() {
    let world = World::new(StoreKind::Segment);
    let payload = vec![0xab; 10_000];
    for space_left in (0..200_000).step_by(17_003) {
        let mut store = world.open().await;
        store.truncate(Lsn::new(1)).await.unwrap();
        world.disk.faults.space_left.store(space_left, Ordering::SeqCst);
        let mut frames = Vec::new();
        loop {
            let lsn = frames.len() as u64 + 1;
            let frame = group(lsn, 1, &payload);
            match store.append(Lsn::new(lsn), frame.clone()).await {
                Ok(()) => frames.push(frame),
                Err(AppendError::Full { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(frames.len() as u64 * 10_048 <= space_left);
        store.sync().await.unwrap();
        world.disk.faults.space_left.store(u64::MAX, Ordering::SeqCst);
        let again = group(frames.len() as u64 + 1, 1, &payload);
        append_all(&mut *store, frames.len() as u64 + 1, std::slice::from_ref(&again)).await;
        frames.push(again);
        store.sync().await.unwrap();
        drop(store);
        assert_eq!(good_frames(&*world.open().await).await, frames, "{space_left}");
    }
}

#[tokio::test]
async fn a_write_that_runs_out_of_space_half_way_is_taken_back() {
    let world = World::new(StoreKind::Segment);
    let mut store = world.open().await;
    append_all(&mut *store, 1, &[group(1, 1, b"one")]).await;
    for writes_left in [0, 1, 48, 49, 9_000] {
        world.disk.faults.writes_left.store(writes_left, Ordering::SeqCst);
        is_full(&mut *store, 2, &[3; 10_000]).await;
        assert_eq!(good_frames(&*store).await, [group(1, 1, b"one")]);
    }
    store.sync().await.unwrap();
    // A crash now finds no trace of it.
    let bytes = fs::read(world.path(1)).unwrap();
    assert!(bytes[56..].iter().all(|byte| *byte == 0));
    world.disk.faults.writes_left.store(u64::MAX, Ordering::SeqCst);
    append_all(&mut *store, 2, &[group(2, 1, b"two")]).await;
    assert_eq!(good_frames(&*store).await, [group(1, 1, b"one"), group(2, 1, b"two")]);
}

/// Some file systems need space even to cut a file.
#[tokio::test]
async fn a_write_that_cannot_be_taken_back_at_once_is_taken_back_later() {
    let world = World::new(StoreKind::Segment);
    let mut store = world.open().await;
    append_all(&mut *store, 1, &[group(1, 1, b"one")]).await;
    world.disk.faults.writes_left.store(9_000, Ordering::SeqCst);
    world.disk.faults.no_cuts.store(true, Ordering::SeqCst);
    is_full(&mut *store, 2, &[3; 10_000]).await;
    world.disk.faults.writes_left.store(u64::MAX, Ordering::SeqCst);
    // Not over what the first try left behind.
    is_full(&mut *store, 2, b"two").await;
    store.sync().await.unwrap();
    world.disk.faults.no_cuts.store(false, Ordering::SeqCst);
    append_all(&mut *store, 2, &[group(2, 1, b"two")]).await;
    store.rotate(Lsn::new(3)).await.unwrap();
    assert_eq!(good_frames(&*store).await, [group(1, 1, b"one"), group(2, 1, b"two")]);
}
