//! What every store must do while nothing goes wrong.

use bytes::Bytes;
use rondo::store::{AppendError, Store};
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame::encode;

use super::world::{World, all_frames, append_all, for_each_store, good_frames, group};

for_each_store!(
    frames_come_back_in_order_after_reopening,
    a_new_journal_is_empty,
    big_frames_come_back,
    marks_between_groups_come_back,
    segments_follow_each_other,
    rotating_an_empty_segment_does_nothing,
    closed_segments_can_be_removed,
    the_open_segment_cannot_be_removed,
    truncating_drops_later_records_for_good,
    truncating_at_a_segments_start_drops_it,
    truncating_everything_starts_anew,
    truncating_inside_a_group_is_refused,
    frames_out_of_order_are_refused,
    bytes_that_are_no_frame_are_refused,
    syncs_overlap_appends,
    a_closed_segment_can_be_read_while_others_are_appended,
    a_sync_outlives_its_store,
);

fn groups(first: u64, count: u64) -> Vec<Bytes> {
    (first..first + count).map(|lsn| group(lsn, 1, format!("record {lsn}").as_bytes())).collect()
}

fn firsts(store: &dyn Store) -> Vec<u64> {
    store.segments().iter().map(|segment| segment.first.get()).collect()
}

async fn frames_come_back_in_order_after_reopening(world: World) {
    let frames = groups(1, 300);
    let mut store = world.open().await;
    append_all(&mut *store, 1, &frames).await;
    store.sync().await.unwrap();
    assert_eq!(good_frames(&*store).await, frames);
    drop(store);
    let mut store = world.open().await;
    assert_eq!(good_frames(&*store).await, frames);
    let more = groups(301, 5);
    append_all(&mut *store, 301, &more).await;
    store.sync().await.unwrap();
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, [frames, more].concat());
}

async fn a_new_journal_is_empty(world: World) {
    let mut store = world.open().await;
    assert!(store.segments().is_empty());
    store.sync().await.unwrap();
    store.rotate(Lsn::new(1)).await.unwrap();
    store.truncate(Lsn::new(1)).await.unwrap();
    assert!(good_frames(&*store).await.is_empty());
    assert!(store.read(Lsn::new(77)).await.is_err());
}

async fn big_frames_come_back(world: World) {
    let sizes = [1, 47, 4000, 4001, 100_000, 8 << 20, 0, 3];
    let payload = |size: usize| (0..size).map(|n| (n % 251) as u8).collect::<Vec<_>>();
    let frames: Vec<_> =
        (1..).zip(sizes).map(|(lsn, size)| group(lsn, 1, &payload(size))).collect();
    let mut store = world.open().await;
    append_all(&mut *store, 1, &frames).await;
    store.sync().await.unwrap();
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, frames);
}

async fn marks_between_groups_come_back(world: World) {
    // Marks and the group behind them begin with the same record.
    let mark = |durable: u64| {
        let header = GroupHeader { first: Lsn::new(2), count: 0, durable_upto: Lsn::new(durable) };
        encode(&header, b"").unwrap()
    };
    let frames = [group(1, 1, b"one"), mark(0), mark(1), group(2, 1, b"two")];
    let mut store = world.open().await;
    for (lsn, frame) in [1, 2, 2, 2].into_iter().zip(&frames) {
        store.append(Lsn::new(lsn), frame.clone()).await.unwrap();
    }
    store.sync().await.unwrap();
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, frames);
}

async fn segments_follow_each_other(world: World) {
    let frames = groups(1, 9);
    let mut store = world.open().await;
    for n in 0..3 {
        append_all(&mut *store, 1 + 3 * n, &frames[3 * n as usize..][..3]).await;
        store.rotate(Lsn::new(4 + 3 * n)).await.unwrap();
    }
    assert_eq!(firsts(&*store), [1, 4, 7, 10]);
    assert!(store.segments()[..3].iter().all(|segment| segment.size_bytes > 3 * 48));
    assert_eq!(good_frames(&*store).await, frames);
    drop(store);
    let store = world.open().await;
    // The last one had no frame, so it had not come into being.
    assert_eq!(firsts(&*store), [1, 4, 7]);
    assert_eq!(good_frames(&*store).await, frames);
    assert_eq!(store.read(Lsn::new(4)).await.unwrap().len(), 3);
}

async fn rotating_an_empty_segment_does_nothing(world: World) {
    let mut store = world.open().await;
    append_all(&mut *store, 1, &groups(1, 1)).await;
    store.rotate(Lsn::new(2)).await.unwrap();
    store.rotate(Lsn::new(2)).await.unwrap();
    assert_eq!(firsts(&*store), [1, 2]);
    append_all(&mut *store, 2, &groups(2, 1)).await;
    assert_eq!(firsts(&*store), [1, 2]);
    assert_eq!(good_frames(&*store).await, groups(1, 2));
}

async fn closed_segments_can_be_removed(world: World) {
    let mut store = world.open().await;
    for lsn in 1..=3 {
        append_all(&mut *store, lsn, &groups(lsn, 1)).await;
        store.rotate(Lsn::new(lsn + 1)).await.unwrap();
    }
    store.remove(Lsn::new(1)).await.unwrap();
    store.remove(Lsn::new(2)).await.unwrap();
    assert_eq!(firsts(&*store), [3, 4]);
    assert!(!world.path(1).exists() && !world.path(2).exists() && world.path(3).exists());
    drop(store);
    let store = world.open().await;
    assert_eq!(good_frames(&*store).await, groups(3, 1));
}

async fn the_open_segment_cannot_be_removed(world: World) {
    let mut store = world.open().await;
    append_all(&mut *store, 1, &groups(1, 1)).await;
    let error = store.remove(Lsn::new(1)).await.unwrap_err();
    assert!(error.to_string().contains("no closed segment"), "{error}");
    assert!(store.remove(Lsn::new(9)).await.is_err());
    assert_eq!(good_frames(&*store).await, groups(1, 1));
}

async fn truncating_drops_later_records_for_good(world: World) {
    let mut store = world.open().await;
    append_all(&mut *store, 1, &groups(1, 3)).await;
    store.rotate(Lsn::new(4)).await.unwrap();
    append_all(&mut *store, 4, &groups(4, 2)).await;
    store.sync().await.unwrap();
    store.truncate(Lsn::new(3)).await.unwrap();
    assert_eq!(firsts(&*store), [1]);
    let other = group(3, 1, b"another third record");
    append_all(&mut *store, 3, std::slice::from_ref(&other)).await;
    store.sync().await.unwrap();
    let expected = [groups(1, 2), vec![other]].concat();
    assert_eq!(good_frames(&*store).await, expected);
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, expected);
}

async fn truncating_at_a_segments_start_drops_it(world: World) {
    let mut store = world.open().await;
    append_all(&mut *store, 1, &groups(1, 3)).await;
    store.rotate(Lsn::new(4)).await.unwrap();
    append_all(&mut *store, 4, &groups(4, 2)).await;
    store.truncate(Lsn::new(4)).await.unwrap();
    append_all(&mut *store, 4, &groups(4, 1)).await;
    store.sync().await.unwrap();
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, groups(1, 4));
}

async fn truncating_everything_starts_anew(world: World) {
    let mut store = world.open().await;
    append_all(&mut *store, 5, &groups(5, 3)).await;
    store.truncate(Lsn::new(5)).await.unwrap();
    assert!(good_frames(&*store).await.is_empty());
    append_all(&mut *store, 5, &groups(5, 1)).await;
    store.sync().await.unwrap();
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, groups(5, 1));
}

async fn truncating_inside_a_group_is_refused(world: World) {
    let mut store = world.open().await;
    let frame = group(1, 5, b"five records");
    store.append(Lsn::new(1), frame.clone()).await.unwrap();
    store.sync().await.unwrap();
    let error = store.truncate(Lsn::new(3)).await.unwrap_err();
    assert!(error.to_string().contains("records 1 to 5"), "{error}");
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, [frame]);
}

async fn refused(store: &mut dyn Store, first: u64, frame: Bytes, reason: &str) {
    let before = all_frames(store).await;
    match store.append(Lsn::new(first), frame).await {
        Err(AppendError::Failed(error)) => {
            assert!(error.to_string().contains(reason), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(all_frames(store).await, before);
}

async fn frames_out_of_order_are_refused(world: World) {
    let mut store = world.open().await;
    store.append(Lsn::new(1), group(1, 5, b"five records")).await.unwrap();
    refused(&mut *store, 5, group(5, 1, b"again"), "record 6 comes next").await;
    drop(store);
    let mut store = world.open().await;
    refused(&mut *store, 5, group(5, 1, b"again"), "record 6 comes next").await;
    store.append(Lsn::new(6), group(6, 1, b"next")).await.unwrap();
}

async fn bytes_that_are_no_frame_are_refused(world: World) {
    let mut store = world.open().await;
    store.append(Lsn::new(1), group(1, 1, b"one")).await.unwrap();
    refused(&mut *store, 2, Bytes::from_static(b"something"), "cut short").await;
    refused(&mut *store, 2, group(3, 1, b"x"), "its header says record 3").await;
    let two = [group(2, 1, b"x"), group(3, 1, b"y")].concat();
    refused(&mut *store, 2, two.into(), "by its header").await;
}

async fn syncs_overlap_appends(world: World) {
    let mut store = world.open().await;
    let mut syncs = tokio::task::JoinSet::new();
    for lsn in 1..=100 {
        append_all(&mut *store, lsn, &groups(lsn, 1)).await;
        syncs.spawn(store.sync());
    }
    while let Some(synced) = syncs.join_next().await {
        synced.unwrap().unwrap();
    }
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, groups(1, 100));
}

async fn a_closed_segment_can_be_read_while_others_are_appended(world: World) {
    let mut store = world.open().await;
    append_all(&mut *store, 1, &groups(1, 50)).await;
    store.rotate(Lsn::new(51)).await.unwrap();
    let readers: Vec<_> = (0..3).map(|_| tokio::spawn(store.read(Lsn::new(1)))).collect();
    append_all(&mut *store, 51, &groups(51, 50)).await;
    store.rotate(Lsn::new(101)).await.unwrap();
    for reader in readers {
        assert_eq!(reader.await.unwrap().unwrap().len(), 50);
    }
    assert_eq!(good_frames(&*store).await, groups(1, 100));
}

async fn a_sync_outlives_its_store(world: World) {
    let mut store = world.open().await;
    append_all(&mut *store, 1, &groups(1, 1)).await;
    let sync = store.sync();
    drop(store);
    sync.await.unwrap();
    assert_eq!(good_frames(&*world.open().await).await, groups(1, 1));
}
