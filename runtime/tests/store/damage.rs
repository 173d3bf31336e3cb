//! What every store must notice when bytes were lost or changed, and what recovery makes of it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo::store::{AppendError, Disk, SledStore, Store, StoreError, StoreKind};
use rondo_core::ids::Lsn;
use rondo_core::journal::RecoverError;

use super::world::{
    World, all_frames, append_all, for_each_store, good_frames, group, recover, unsure_group,
};

/// How long a database that was dropped may stay locked.
const LET_GO_PATIENCE: Duration = Duration::from_secs(10);

for_each_store!(
    a_damaged_middle_is_reported_and_the_rest_found,
    a_damaged_acknowledged_record_stops_recovery,
    an_unfinished_end_is_cut_and_appending_goes_on,
    a_lost_closed_segment_stops_recovery,
);

/// Changes one bit of the payload of the frame of record `lsn` in segment 1, the store being
/// closed. Its frames have one record each.
fn flip_bit(world: &World, frames: &[Bytes], lsn: u64) {
    match world.kind {
        StoreKind::Segment => {
            let before = frames[..lsn as usize - 1].iter();
            let offset: usize = before.map(|frame| frame.len().next_multiple_of(8)).sum();
            let mut bytes = fs::read(world.path(1)).unwrap();
            bytes[offset + 50] ^= 4;
            fs::write(world.path(1), bytes).unwrap();
        }
        StoreKind::Sled => with_sled(world, |db| {
            let (key, value) = db.scan_prefix(lsn.to_be_bytes()).next().unwrap().unwrap();
            let mut value = value.to_vec();
            value[50] ^= 4;
            db.insert(key, value).unwrap();
        }),
    }
}

/// Does something to the database of segment 1, the store being closed.
fn with_sled(world: &World, work: impl FnOnce(&::sled::Db)) {
    let db = open_once_let_go(&::sled::Config::new().path(world.path(1)).flush_every_ms(None));
    work(&db);
    db.flush().unwrap();
}

/// Opens a database that was dropped a moment ago: sled's own threads may hold its lock a while
/// longer, which the store waits for as well.
fn open_once_let_go(config: &::sled::Config) -> ::sled::Db {
    let began = Instant::now();
    loop {
        match config.open() {
            Err(::sled::Error::Io(error))
                if error.to_string().contains("could not acquire lock")
                    && began.elapsed() < LET_GO_PATIENCE =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            other => return other.unwrap(),
        }
    }
}

async fn a_damaged_middle_is_reported_and_the_rest_found(world: World) {
    let frames: Vec<_> = (1..=5).map(|lsn| group(lsn, 1, b"some payload")).collect();
    let mut store = world.open().await;
    append_all(&mut *store, 1, &frames).await;
    store.sync().await.unwrap();
    drop(store);
    flip_bit(&world, &frames, 3);
    let store = world.open().await;
    let found = store.read(Lsn::new(1)).await.unwrap();
    assert_eq!(found.len(), 5);
    for (n, found) in found.iter().enumerate() {
        if n == 2 {
            assert!(found.frame.as_ref().unwrap_err().contains("payload checksum"), "{found:?}");
            assert!(found.place.contains(&world.path(1).display().to_string()));
        } else {
            assert_eq!(found.frame.as_ref(), Ok(&frames[n]));
        }
    }
}

async fn a_damaged_acknowledged_record_stops_recovery(world: World) {
    let frames: Vec<_> = (1..=4).map(|lsn| group(lsn, 1, b"some payload")).collect();
    let mut store = world.open().await;
    append_all(&mut *store, 1, &frames).await;
    store.sync().await.unwrap();
    drop(store);
    flip_bit(&world, &frames, 2);
    let mut store = world.open().await;
    let RecoverError::Damaged { lsn, .. } = recover(&*store).await.unwrap_err() else {
        panic!("not taken for damage");
    };
    assert_eq!(lsn, Lsn::new(2));
    // What the operator may do about it.
    store.truncate(lsn).await.unwrap();
    assert_eq!(recover(&*store).await.unwrap().next, lsn);
    drop(store);
    assert_eq!(good_frames(&*world.open().await).await, frames[..1]);
}

async fn an_unfinished_end_is_cut_and_appending_goes_on(world: World) {
    let frames: Vec<_> = (1..=4).map(|lsn| unsure_group(lsn, &[9; 10_000])).collect();
    let mut store = world.open().await;
    append_all(&mut *store, 1, &frames).await;
    store.sync().await.unwrap();
    drop(store);
    // A crash kept the fourth group and only part of the third.
    flip_bit(&world, &frames, 3);
    let mut store = world.open().await;
    let end = recover(&*store).await.unwrap();
    assert_eq!(end.next, Lsn::new(3));
    assert!(end.cut.unwrap().contains("record 3"));
    store.truncate(end.next).await.unwrap();
    assert_eq!(good_frames(&*store).await, frames[..2]);
    let new = group(3, 1, b"new");
    append_all(&mut *store, 3, std::slice::from_ref(&new)).await;
    store.sync().await.unwrap();
    drop(store);
    let expected = [&frames[..2], &[new]].concat();
    assert_eq!(good_frames(&*world.open().await).await, expected);
}

async fn a_lost_closed_segment_stops_recovery(world: World) {
    let mut store = world.open().await;
    for lsn in 1..=3 {
        append_all(&mut *store, lsn, &[unsure_group(lsn, b"x")]).await;
        store.rotate(Lsn::new(lsn + 1)).await.unwrap();
    }
    drop(store);
    match fs::remove_file(world.path(2)) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            fs::remove_dir_all(world.path(2)).unwrap();
        }
        other => other.unwrap(),
    }
    let error = recover(&*world.open().await).await.unwrap_err();
    assert!(matches!(error, RecoverError::Damaged { lsn, .. } if lsn == Lsn::new(2)), "{error}");
}

#[tokio::test]
async fn a_file_cut_anywhere_in_its_last_frame_keeps_the_others() {
    let world = World::new(StoreKind::Segment);
    let frames: Vec<_> = (1..=3).map(|lsn| group(lsn, 1, b"thirteen byte")).collect();
    let mut store = world.open().await;
    append_all(&mut *store, 1, &frames).await;
    store.rotate(Lsn::new(4)).await.unwrap();
    drop(store);
    let whole = fs::read(world.path(1)).unwrap();
    let len = frames[0].len();
    for kept in 0..len {
        fs::write(world.path(1), &whole[..2 * len.next_multiple_of(8) + kept]).unwrap();
        let mut store = world.open().await;
        let found = all_frames(&*store).await;
        assert_eq!(found[..2], [Ok(frames[0].clone()), Ok(frames[1].clone())]);
        assert_eq!(found.len(), if kept == 0 { 2 } else { 3 }, "{kept}");
        assert!(found[2..].iter().all(Result::is_err));
        assert_eq!(recover(&*store).await.unwrap().next, Lsn::new(3), "{kept}");
        store.truncate(Lsn::new(3)).await.unwrap();
        append_all(&mut *store, 3, &frames[2..]).await;
        assert_eq!(good_frames(&*store).await, frames);
    }
}

#[tokio::test]
async fn any_bit_of_a_segment_file_costs_one_frame_at_most() {
    let world = World::new(StoreKind::Segment);
    let frames: Vec<_> = (1..=3).map(|lsn| group(lsn, 1, b"sixteen bytes ok")).collect();
    let mut store = world.open().await;
    append_all(&mut *store, 1, &frames).await;
    store.rotate(Lsn::new(4)).await.unwrap();
    drop(store);
    let whole = fs::read(world.path(1)).unwrap();
    let len = frames[0].len();
    for bit in (0..whole.len() * 8).step_by(3) {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(world.path(1), damaged).unwrap();
        let found = all_frames(&*world.open().await).await;
        for (n, found) in found.iter().enumerate() {
            let expected = if n == bit / 8 / len { None } else { Some(&frames[n]) };
            assert_eq!(found.as_ref().ok(), expected, "bit {bit}");
        }
        assert_eq!(found.len(), 3, "bit {bit}");
    }
}

/// Bits that are flipped in sled's files, one at a time.
const SLED_FLIPS: u64 = 60;
/// sled writes its log in segments of this size, in bytes.
const SLED_SEGMENT_BYTES: usize = 512 << 10;

/// A directory of a sled segment with these frames and a snapshot of sled's own, and nobody that uses it.
async fn sled_segment(frames: &[Bytes]) -> World {
    let world = World::new(StoreKind::Sled);
    let mut store = world.open().await;
    append_all(&mut *store, 1, frames).await;
    store.sync().await.unwrap();
    drop(store);
    // sled writes its snapshot when it opens its log.
    with_sled(&world, |_| {});
    world
}

/// The files of segment 1 that hold what sled reads back.
fn sled_files(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.path(1)).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let is_read = |path: &PathBuf| name(path) == "db" || name(path).starts_with("snap.");
    let mut files: Vec<_> = entries.filter(is_read).collect();
    files.sort();
    files
}

/// A world whose segment 1 is a copy, with the file `name` as it is given.
fn copied(world: &World, name: &Path, bytes: &[u8]) -> World {
    let copy = World::new(StoreKind::Sled);
    fs::create_dir(copy.path(1)).unwrap();
    for entry in fs::read_dir(world.path(1)).unwrap() {
        let entry = entry.unwrap();
        let to = copy.path(1).join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(to).unwrap();
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
    fs::write(copy.path(1).join(name), bytes).unwrap();
    copy
}

/// The frames that a store finds, damaged ones included, or why it finds none.
async fn found_in(world: &World) -> Result<Vec<Result<Bytes, String>>, StoreError> {
    let disk = Arc::clone(&world.disk) as Arc<dyn Disk>;
    let store = SledStore::open(disk, world.dir.path(), &world.config).await?;
    let mut all = Vec::new();
    for segment in store.segments() {
        all.extend(store.read(segment.first).await?.into_iter().map(|found| found.frame));
    }
    Ok(all)
}

/// sled may notice or not; recovery does, by the note and the numbers of the records. No bit ends the thread
/// that reads, and none makes another frame.
#[tokio::test]
async fn any_bit_of_sleds_files_is_told_as_damage_or_costs_frames() {
    let frames: Vec<_> = (1..=20).map(|lsn| group(lsn, 1, &[lsn as u8; 3000])).collect();
    let world = sled_segment(&frames).await;
    let files = sled_files(&world);
    assert!(files.len() > 1, "a log and a snapshot: {files:?}");
    let (mut state, mut damaged) = (1_u64, 0);
    for flip in 0..SLED_FLIPS {
        let file = &files[flip as usize % files.len()];
        let mut bytes = fs::read(file).unwrap();
        // The log is padded up to a multiple of its segments' size.
        let written = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bit = (state >> 20) % (written * 8);
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        let name = Path::new(file.file_name().unwrap());
        let copy = copied(&world, name, &bytes);
        let what = format!("flip {flip}: bit {bit} of {}", name.display());
        match found_in(&copy).await {
            Ok(found) => {
                let good: Vec<_> = found.iter().filter_map(|frame| frame.as_ref().ok()).collect();
                assert!(good.iter().all(|frame| frames.contains(frame)), "{what}");
                damaged += usize::from(good.len() < frames.len());
            }
            Err(error) => {
                assert!(error.is_damage, "{what}: {error}");
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0, "no bit made a difference");
}

/// sled panics when it finds a segment of its log twice, as after a write that went to the wrong place.
#[tokio::test]
async fn what_sled_panics_over_is_damage() {
    let frames: Vec<_> = (1..=3).map(|lsn| group(lsn, 1, b"some payload")).collect();
    let world = sled_segment(&frames).await;
    let mut bytes = fs::read(world.path(1).join("db")).unwrap();
    bytes.resize(SLED_SEGMENT_BYTES, 0);
    let twice = [&bytes[..], &bytes[..]].concat();
    let copy = copied(&world, Path::new("db"), &twice);
    let error = found_in(&copy).await.unwrap_err();
    assert!(error.is_damage, "{error}");
    assert!(error.to_string().contains("restore the data directory from a copy"), "{error}");
    // A closed segment is read by another thread.
    drop(::sled::Config::new().path(copy.path(4)).flush_every_ms(None).open().unwrap());
    let store = copy.open().await;
    let error = store.read(Lsn::new(1)).await.unwrap_err();
    assert!(error.is_damage, "{error}");
}

#[tokio::test]
async fn a_sled_frame_without_one_of_its_pieces_is_reported() {
    let world = World::new(StoreKind::Sled);
    let frames: Vec<_> = (1..=3).map(|lsn| group(lsn, 1, &[lsn as u8; 20_000])).collect();
    for lost in 0..6 {
        let mut store = world.open().await;
        store.truncate(Lsn::new(1)).await.unwrap();
        append_all(&mut *store, 1, &frames).await;
        store.sync().await.unwrap();
        drop(store);
        with_sled(&world, |db| {
            let keys: Vec<_> = db.scan_prefix(2_u64.to_be_bytes()).keys().flatten().collect();
            assert_eq!(keys.len(), 6);
            db.remove(&keys[lost]).unwrap();
        });
        let found = all_frames(&*world.open().await).await;
        assert_eq!(found.len(), 3, "piece {lost}");
        assert_eq!((&found[0], &found[2]), (&Ok(frames[0].clone()), &Ok(frames[2].clone())));
        assert!(found[1].is_err(), "piece {lost}");
    }
}

#[tokio::test]
async fn what_creating_copying_or_removing_a_sled_segment_left_behind_is_cleared_away() {
    let world = World::new(StoreKind::Sled);
    let left = ["new", "gone", "copy"].map(|what| format!("00000000000000000007.sled-{what}"));
    let left = left.each_ref().map(String::as_str);
    for name in left {
        fs::create_dir(world.dir.path().join(name)).unwrap();
        fs::write(world.dir.path().join(name).join("db"), b"half").unwrap();
    }
    let store = world.open().await;
    assert!(store.segments().is_empty());
    assert!(left.iter().all(|name| !world.dir.path().join(name).exists()));
}

#[tokio::test]
async fn sled_writes_to_the_file_that_is_synced() {
    let world = World::new(StoreKind::Sled);
    let mut store = world.open().await;
    let payload = b"a payload not found anywhere else";
    append_all(&mut *store, 1, &[group(1, 1, payload)]).await;
    store.sync().await.unwrap();
    let log = fs::read(world.path(1).join("db")).unwrap();
    assert!(log.windows(payload.len()).any(|window| window == payload));
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_believed() {
    let world = World::new(StoreKind::Segment);
    let mut store = world.open().await;
    append_all(&mut *store, 1, &[group(1, 1, b"one")]).await;
    store.sync().await.unwrap();
    append_all(&mut *store, 2, &[group(2, 1, b"two")]).await;
    let begun_before = store.sync();
    world.disk.faults.sync_fails.store(true, Ordering::SeqCst);
    let error = store.sync().await.unwrap_err();
    assert!(error.to_string().contains("the disk does not answer"), "{error}");
    world.disk.faults.sync_fails.store(false, Ordering::SeqCst);
    assert!(begun_before.await.is_err());
    assert!(store.sync().await.unwrap_err().to_string().contains("failed before"));
    let refused = store.append(Lsn::new(3), group(3, 1, b"three")).await;
    assert!(matches!(refused, Err(AppendError::Failed(_))));
    assert!(store.rotate(Lsn::new(3)).await.is_err());
}

/// Its own bytes may be on the disk; those of the sync that failed are in doubt, and may be before them.
#[tokio::test]
async fn a_sync_that_ends_well_after_another_one_failed_is_not_believed() {
    let world = World::new(StoreKind::Segment);
    let faults = &world.disk.faults;
    let mut store = world.open().await;
    append_all(&mut *store, 1, &[group(1, 1, b"one")]).await;
    faults.sync_hangs_for.send_replace(Some(".seg"));
    let mut under_way = store.sync();
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut under_way).await.is_err());
    faults.sync_hangs_for.send_replace(None);
    faults.sync_fails.store(true, Ordering::SeqCst);
    assert!(store.sync().await.unwrap_err().to_string().contains("the disk does not answer"));
    faults.sync_fails.store(false, Ordering::SeqCst);
    let error = under_way.await.unwrap_err().to_string();
    assert!(error.contains("it failed before"), "{error}");
}
