//! The journal stays short: snapshots are taken while calls are answered, and segments go.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rondo::node::RunningNode;
use rondo::service::NodePort;
use rondo_core::dispatcher::Report;
use tokio::task::JoinSet;

use super::calls::{job, report, worker_heartbeat};
use super::faulty_disk::FaultyDisk;
use super::world::{Life, World, eventually, for_each_store};

for_each_store!(
    the_journal_is_compacted_while_calls_are_answered,
    a_restart_continues_behind_a_snapshot,
);

const SEGMENT_BYTES: u64 = 8 << 10;

fn small_segments(world: &mut World) {
    world.store.segment_bytes_max = SEGMENT_BYTES;
    world.store.preallocate_bytes = 4 << 10;
}

/// Asserts that the next process has what this one reported.
fn assert_outlived(life: Life, world: &World, before: &Report) {
    life.crash();
    let life = Life::begin(world);
    assert_eq!(life.run(report(&life.node)).unwrap(), *before);
}

/// Creates this many jobs, a few at a time; all are answered.
async fn create_jobs(node: &Arc<RunningNode>, prefix: &'static str, count: usize) {
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let node = Arc::clone(node);
        callers.spawn(async move {
            for n in 0..count / 8 {
                job(&node, &format!("{prefix} {caller} {n}")).await.unwrap();
            }
        });
    }
    callers.join_all().await;
}

fn the_journal_is_compacted_while_calls_are_answered(mut world: World) {
    small_segments(&mut world);
    let life = Life::begin(&world);
    let before = life.run(async {
        let node = &life.node;
        create_jobs(node, "job", 3000).await;
        eventually("a snapshot of most of it", || node.journal_status().snapshot_lsn > 1000).await;
        let status = node.journal_status();
        assert_eq!(status.durable_lsn, 3001);
        eventually("no first segment", || !has_segment(&world, 1)).await;
        report(node).await.unwrap()
    });
    life.crash();
    let snapshots = std::fs::read_dir(world.path.join("snapshots")).unwrap().count();
    // The crash may have come when the next one was there already.
    assert!((1..=2).contains(&snapshots), "{snapshots} snapshots");
    let life = Life::begin(&world);
    assert_eq!(life.run(report(&life.node)).unwrap(), before);
}

fn has_segment(world: &World, first: u64) -> bool {
    let journal = std::fs::read_dir(world.path.join("journal")).unwrap();
    let start = format!("{first:020}.");
    journal
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .any(|name| name.starts_with(&start))
}

fn a_restart_continues_behind_a_snapshot(mut world: World) {
    small_segments(&mut world);
    for n in 0..4_usize {
        let life = Life::begin(&world);
        let before = life.run(async {
            let node = &life.node;
            let prefix = ["first", "second", "third", "fourth"][n];
            create_jobs(node, prefix, 400).await;
            eventually("a snapshot", || node.journal_status().snapshot_lsn > 0).await;
            report(node).await.unwrap()
        });
        assert_eq!(before.jobs.len(), 400 * (n + 1));
        match n % 2 {
            0 => life.crash(),
            _ => life.stop(),
        }
        let life = Life::begin(&world);
        assert!(life.node.journal_status().snapshot_lsn > 0);
        assert_eq!(life.run(report(&life.node)).unwrap(), before);
        life.stop();
    }
}

fn full_for_snapshots(disk: &FaultyDisk, full: bool) {
    *disk.faults.full_for.lock().unwrap() = full.then_some(".snap");
}

#[test]
fn a_snapshot_without_room_costs_nothing_and_is_tried_again() {
    let (mut world, disk) = World::faulty();
    small_segments(&mut world);
    world.node.compaction_retry = Duration::from_millis(50);
    let life = Life::begin(&world);
    let (before, snapshot) = life.run(async {
        let node = &life.node;
        create_jobs(node, "before", 800).await;
        eventually("a first snapshot", || node.journal_status().snapshot_lsn > 0).await;
        full_for_snapshots(&disk, true);
        // A snapshot under way may have been written before.
        tokio::time::sleep(Duration::from_millis(200)).await;
        create_jobs(node, "without", 800).await;
        let is_clear = || unfinished(&world) == 0;
        eventually("what was written in vain takes up no room", is_clear).await;
        let snapshot = node.journal_status().snapshot_lsn;
        (report(node).await.unwrap(), snapshot)
    });
    life.crash();
    let life = Life::begin(&world);
    assert_eq!(life.run(report(&life.node)).unwrap(), before);
    assert_eq!(life.node.journal_status().snapshot_lsn, snapshot);
    life.run(async {
        let node = &life.node;
        create_jobs(node, "still without", 800).await;
        full_for_snapshots(&disk, false);
        tokio::time::sleep(Duration::from_millis(100)).await;
        // Any update is occasion enough, far from filling a segment.
        job(node, "occasion").await.unwrap();
        eventually("a snapshot of most of it", || {
            node.journal_status().snapshot_lsn > snapshot + 1000
        })
        .await;
    });
    let before = life.run(report(&life.node)).unwrap();
    assert_outlived(life, &world, &before);
}

#[test]
fn a_snapshot_counts_even_if_the_one_before_cannot_be_removed() {
    let (mut world, disk) = World::faulty();
    small_segments(&mut world);
    *disk.faults.no_removal.lock().unwrap() = Some(".snap");
    let life = Life::begin(&world);
    let before = life.run(async {
        let node = &life.node;
        create_jobs(node, "first", 800).await;
        eventually("a snapshot", || node.journal_status().snapshot_lsn > 0).await;
        create_jobs(node, "second", 800).await;
        eventually("another", || node.journal_status().snapshot_lsn > 800).await;
        eventually("no first segment", || !has_segment(&world, 1)).await;
        report(node).await.unwrap()
    });
    assert_outlived(life, &world, &before);
}

/// Cutting a file may need space or memory.
#[test]
fn a_segment_that_cannot_be_cut_is_closed_later() {
    let (mut world, disk) = World::faulty();
    small_segments(&mut world);
    world.node.compaction_retry = Duration::from_millis(50);
    let life = Life::begin(&world);
    let before = life.run(async {
        let node = &life.node;
        disk.faults.no_cuts.store(true, Ordering::SeqCst);
        create_jobs(node, "uncut", 800).await;
        let status = node.journal_status();
        assert_eq!((status.segments, status.snapshot_lsn, &*status.state), (1, 0, "ok"));
        disk.faults.no_cuts.store(false, Ordering::SeqCst);
        // Nobody asks for anything meanwhile.
        eventually("a snapshot", || node.journal_status().snapshot_lsn > 0).await;
        report(node).await.unwrap()
    });
    assert_outlived(life, &world, &before);
}

/// A segment that stays takes up space, and nothing depends on it.
#[test]
fn a_segment_that_cannot_be_removed_goes_later() {
    let (mut world, disk) = World::faulty();
    small_segments(&mut world);
    world.node.compaction_retry = Duration::from_millis(50);
    *disk.faults.no_removal.lock().unwrap() = Some(".seg");
    let life = Life::begin(&world);
    let before = life.run(async {
        let node = &life.node;
        create_jobs(node, "first", 800).await;
        eventually("a snapshot", || node.journal_status().snapshot_lsn > 0).await;
        create_jobs(node, "with all segments", 800).await;
        assert_eq!(node.journal_status().state, "ok");
        assert!(has_segment(&world, 1));
        *disk.faults.no_removal.lock().unwrap() = None;
        // Nobody asks for anything meanwhile.
        eventually("no first segment", || !has_segment(&world, 1)).await;
        report(node).await.unwrap()
    });
    assert_outlived(life, &world, &before);
}

/// Each is written whole, so one for each small segment would write the same over and over.
#[test]
fn snapshots_of_much_are_not_taken_for_little() {
    let (mut world, disk) = World::faulty();
    small_segments(&mut world);
    // So that all that were ever taken can be counted.
    *disk.faults.no_removal.lock().unwrap() = Some(".snap");
    let life = Life::begin(&world);
    life.run(async {
        for chunk in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
            create_jobs(&life.node, chunk, 400).await;
            // One is taken at a time, and they take a while.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    life.stop();
    let files = std::fs::read_dir(world.path.join("snapshots")).unwrap();
    let files = files
        .map(|file| file.unwrap())
        .filter(|file| file.file_name().to_string_lossy().ends_with(".snap"));
    let sizes: Vec<u64> = files.map(|file| file.metadata().unwrap().len()).collect();
    let (total, largest) = (sizes.iter().sum::<u64>(), *sizes.iter().max().unwrap());
    assert!(largest > 8 * SEGMENT_BYTES, "{sizes:?} bytes are not much");
    assert!(total < 7 * largest, "{sizes:?} bytes");
}

/// Unfinished snapshots.
fn unfinished(world: &World) -> usize {
    let files = std::fs::read_dir(world.path.join("snapshots")).unwrap();
    files
        .filter(|file| {
            let name = file.as_ref().unwrap().file_name();
            name.to_string_lossy().ends_with(".new")
        })
        .count()
}

#[test]
fn what_a_crash_left_of_a_snapshot_is_cleared_away() {
    let (mut world, _) = World::faulty();
    small_segments(&mut world);
    Life::begin(&world).stop();
    let left = world.path.join("snapshots/00000000000000000007.snap.new");
    std::fs::write(&left, b"half of it").unwrap();
    Life::begin(&world).stop();
    assert!(!left.exists());
}

/// A full disk is emptied by a snapshot: the segments behind it go.
#[test]
fn a_snapshot_makes_room_on_a_full_disk() {
    let (mut world, disk) = World::faulty();
    world.node.compaction_retry = Duration::from_millis(500);
    let life = Life::begin(&world);
    life.run(async {
        let node = &life.node;
        let large = "n".repeat(4000);
        for n in 0..300 {
            job(node, &format!("{large}{n}")).await.unwrap();
        }
        assert_eq!(node.journal_status().snapshot_lsn, 0);
        disk.faults.space_left.store(0, Ordering::SeqCst);
        // At first there is no room for a snapshot either.
        full_for_snapshots(&disk, true);
        let mut refused = false;
        for n in 300..400 {
            refused |= job(node, &format!("{large}{n}")).await.is_err();
        }
        assert!(refused);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(node.journal_status().snapshot_lsn, 0);
        full_for_snapshots(&disk, false);
        // What a snapshot gives back is not told to this disk; that one is taken is enough.
        eventually("a snapshot", || node.journal_status().snapshot_lsn >= 300).await;
        eventually("no first segment", || !has_segment(&world, 1)).await;
        disk.faults.space_left.store(u64::MAX, Ordering::SeqCst);
        eventually("room", || node.journal_status().state == "ok").await;
    });
}

#[test]
fn a_stopped_node_takes_no_snapshot_any_more() {
    let (mut world, disk) = World::faulty();
    small_segments(&mut world);
    let life = Life::begin(&world);
    life.run(async {
        let node = &life.node;
        // The snapshot is written, and waits for the disk to count.
        disk.faults.sync_hangs_for.send_replace(Some("MANIFEST"));
        create_jobs(node, "job", 800).await;
        node.shutdown().await.unwrap();
        let snapshots = || std::fs::read_dir(world.path.join("snapshots")).unwrap().count();
        assert!(snapshots() > 0, "no snapshot was under way");
        // Whoever takes the directory over is alone in it, and takes no snapshot of so little.
        world.store.segment_bytes_max = 1 << 30;
        let again = world.start().await.unwrap();
        let state = report(&again).await.unwrap();
        disk.faults.sync_hangs_for.send_replace(None);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let manifest = std::fs::read_to_string(world.path.join("MANIFEST")).unwrap();
        assert!(manifest.contains("\"snapshot\":null"), "{manifest}");
        assert_eq!(state.jobs.len(), 800);
    });
}

#[test]
fn the_journals_size_is_what_it_takes() {
    let (world, _) = World::faulty();
    let life = Life::begin(&world);
    for n in 0..50 {
        life.run(job(&life.node, &format!("job {n}"))).unwrap();
    }
    let said = life.node.journal_status().size_bytes;
    life.crash();
    // A start measures.
    let measured = Life::begin(&world).node.journal_status().size_bytes;
    assert!(said.abs_diff(measured) < measured / 10, "{said} said, {measured} measured");
}

#[test]
fn a_segment_that_takes_long_to_close_holds_up_nobody_who_needs_no_disk() {
    let (mut world, disk) = World::faulty();
    small_segments(&mut world);
    let life = Life::begin(&world);
    life.run(async {
        let node = &life.node;
        worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        disk.faults.sync_hangs_for.send_replace(Some(".seg"));
        let jobs = {
            let node = Arc::clone(node);
            tokio::spawn(async move { create_many_at_once(&node, 600).await })
        };
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            // One that waited for the disk would wait for ever.
            worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        }
        assert!(!jobs.is_finished());
        disk.faults.sync_hangs_for.send_replace(None);
        jobs.await.unwrap();
    });
    let before = life.run(report(&life.node)).unwrap();
    assert_eq!(before.jobs.len(), 600);
    assert_outlived(life, &world, &before);
}

/// Creates jobs, each by a caller of its own, some milliseconds apart.
async fn create_many_at_once(node: &Arc<RunningNode>, count: usize) {
    let mut callers = JoinSet::new();
    for n in 0..count {
        let node = Arc::clone(node);
        callers.spawn(async move {
            tokio::time::sleep(Duration::from_millis(n as u64 / 10)).await;
            job(&node, &format!("job {n}")).await.unwrap();
        });
    }
    callers.join_all().await;
}
