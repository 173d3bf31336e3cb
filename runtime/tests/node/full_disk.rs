//! Without room on the disk updates are refused and the rest goes on; with room all is well again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rondo::node::RunningNode;
use rondo::service::NodePort;
use rondo_core::control::Health;
use rondo_core::ids::{ClientId, IterationId};
use rondo_core::status::{Code, Status};

use super::calls::{
    client_heartbeat, job, job_names, join, register, report, split, worker_heartbeat,
};
use super::faulty_disk::FaultyDisk;
use super::world::{Life, World};

/// How the disk gets full.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// Space cannot be set aside.
    NoSpace,
    /// Writes fail, as on a copy-on-write file system.
    NoWrites,
    /// What is free is kept in reserve.
    Reserve,
}

/// What is kept in reserve, in bytes.
const RESERVE_BYTES: u64 = 1 << 20;

impl Cause {
    fn set(self, disk: &FaultyDisk, full: bool) {
        let faults = &disk.faults;
        let (bytes, room) = match self {
            Self::NoSpace => (&faults.space_left, u64::MAX),
            Self::NoWrites => (&faults.writes_left, u64::MAX),
            // So little that the store asks again soon.
            Self::Reserve => (&faults.free_space, RESERVE_BYTES + (32 << 10)),
        };
        bytes.store(if full { 0 } else { room }, Ordering::SeqCst);
    }
}

async fn fill(node: &RunningNode) -> (ClientId, IterationId) {
    register(node, "data", bytes::Bytes::from_static(b"small"), 1000).await.unwrap();
    worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
    let id = job(node, "before").await.unwrap();
    let client = join(node, id).await.unwrap();
    let tasks = client_heartbeat(node, client).await.unwrap().tasks;
    (client, tasks[0].iteration)
}

/// Makes updates until one is refused; says which were acknowledged, and the refusal.
async fn update_until_refused(node: &RunningNode, prefix: &str) -> (Vec<String>, Status) {
    let mut acknowledged = Vec::new();
    for n in 0..10_000 {
        let name = format!("{prefix} {n}");
        match job(node, &name).await {
            Ok(_) => acknowledged.push(name),
            Err(status) => return (acknowledged, status),
        }
    }
    panic!("never refused");
}

async fn wait_until_serving(node: &RunningNode) {
    let start = Instant::now();
    while node.health() != Health::Serving {
        // The node tries every second; the machine may be busy.
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", node.health());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn check_refusal(node: &RunningNode, status: &Status, world: &World) {
    check_reason(node, status, world, "no space for ");
}

/// Checks that a refusal and the node's health say what is lacking, and where.
fn check_reason(node: &RunningNode, status: &Status, world: &World, lacking: &str) {
    assert_eq!(status.code, Code::Unavailable);
    let journal = world.path.join("journal");
    let Health::RefusingUpdates(reason) = node.health() else {
        panic!("{:?}", node.health());
    };
    for text in [&status.message[..], &reason] {
        assert!(text.contains(lacking), "{text}");
        assert!(!text.contains("no space for 0 bytes"), "{text}");
        assert!(text.contains(&journal.display().to_string()), "{text}");
    }
    let state = node.journal_status().state;
    assert!(state.starts_with(&format!("refusing writes: {lacking}")), "{state}");
}

fn updates_are_refused_and_go_on_by_themselves(cause: Cause) {
    let (mut world, disk) = World::faulty();
    world.store.preallocate_bytes = 1 << 10;
    world.store.free_space_reserve_bytes = RESERVE_BYTES;
    cause.set(&disk, false);
    let life = Life::begin(&world);
    let (names, reported) = life.run(async {
        let node = &*life.node;
        let (client, iteration) = fill(node).await;
        cause.set(&disk, true);
        let (mut names, status) = update_until_refused(node, "first").await;
        check_refusal(node, &status, &world);
        for n in 0..20 {
            // Reads and unchanged heartbeats go on, updates do not.
            worker_heartbeat(node, "worker:1", client_tasks(node, client).await).await.unwrap();
            assert_eq!(report(node).await.unwrap().workers.len(), 1);
            let refused = split(node, iteration).await.unwrap_err();
            assert_eq!(refused.code, Code::Unavailable, "{n}");
            let status = job(node, "refused").await.unwrap_err();
            check_refusal(node, &status, &world);
        }
        cause.set(&disk, false);
        wait_until_serving(node).await;
        for n in 0..10 {
            assert_eq!(
                split(node, iteration).await.unwrap(),
                Some(n),
                "a refused split is not lost"
            );
            let name = format!("second {n}");
            job(node, &name).await.unwrap();
            names.push(name);
        }
        (names, report(node).await.unwrap())
    });
    let twice = |name: &&String| reported.jobs.iter().filter(|job| job.name == **name).count() != 1;
    assert_eq!(names.iter().find(twice), None);
    life.crash();
    let life = Life::begin(&world);
    assert_eq!(life.run(report(&life.node)).unwrap(), reported);
}

async fn client_tasks(node: &RunningNode, client: ClientId) -> Vec<rondo_core::ids::TaskId> {
    let tasks = client_heartbeat(node, client).await.unwrap().tasks;
    tasks.iter().map(|task| task.task).collect()
}

#[test]
fn without_space_to_set_aside() {
    updates_are_refused_and_go_on_by_themselves(Cause::NoSpace);
}

#[test]
fn without_space_to_write() {
    updates_are_refused_and_go_on_by_themselves(Cause::NoWrites);
}

#[test]
fn with_the_reserve_alone() {
    updates_are_refused_and_go_on_by_themselves(Cause::Reserve);
}

#[test]
fn a_split_that_was_chosen_when_the_disk_was_full_comes_when_there_is_room() {
    let (mut world, disk) = World::faulty();
    world.store.preallocate_bytes = 1 << 10;
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        let (_, iteration) = fill(node).await;
        Cause::NoSpace.set(&disk, true);
        // Until the space that was set aside is used up.
        let mut splits = Vec::new();
        let waiting = loop {
            let mut asked = Box::pin(split(node, iteration));
            match tokio::time::timeout(Duration::from_millis(200), &mut asked).await {
                Ok(split) => splits.push(split.unwrap()),
                Err(_) => break asked,
            }
        };
        assert!(matches!(node.health(), Health::RefusingUpdates(_)), "{:?}", node.health());
        assert_eq!(split(node, iteration).await.unwrap_err().code, Code::Unavailable);
        Cause::NoSpace.set(&disk, false);
        splits.push(waiting.await.unwrap());
        splits.push(split(node, iteration).await.unwrap());
        let all: Vec<Option<i64>> = (0..).take(splits.len()).map(Some).collect();
        assert_eq!(splits, all, "each split once");
    });
}

#[test]
fn a_full_disk_survives_a_crash_and_a_restart() {
    let (mut world, disk) = World::faulty();
    world.store.preallocate_bytes = 1 << 10;
    let mut acknowledged = Vec::new();
    for n in 0..4 {
        let life = Life::begin(&world);
        Cause::NoWrites.set(&disk, false);
        life.run(async {
            let name = format!("room {n}");
            job(&life.node, &name).await.unwrap();
            acknowledged.push(name);
            Cause::NoWrites.set(&disk, true);
            let (names, _) = update_until_refused(&life.node, &format!("full {n}")).await;
            acknowledged.extend(names);
        });
        match n % 2 {
            0 => life.crash(),
            _ => life.stop(),
        }
    }
    Cause::NoWrites.set(&disk, false);
    let life = Life::begin(&world);
    let names = life.run(job_names(&life.node));
    assert!(acknowledged.iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn without_room_for_a_new_segment() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        *disk.faults.no_new.lock().unwrap() = Some(".seg");
        let (_, status) = update_until_refused(node, "first").await;
        check_refusal(node, &status, &world);
        *disk.faults.no_new.lock().unwrap() = None;
        wait_until_serving(node).await;
        job(node, "second").await.unwrap();
    });
}

/// The process has no descriptor for files and directories with `part` in their names, and has some later.
fn descriptors_are_lacking_for(part: &'static str) {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        *disk.faults.no_descriptors.lock().unwrap() = Some(part);
        let (_, status) = update_until_refused(node, "first").await;
        check_reason(node, &status, &world, "the server may open no more files");
        // Longer than the pause between two tries.
        tokio::time::sleep(Duration::from_millis(1200)).await;
        let status = job(node, "refused").await.unwrap_err();
        check_reason(node, &status, &world, "the server may open no more files");
        *disk.faults.no_descriptors.lock().unwrap() = None;
        wait_until_serving(node).await;
        job(node, "second").await.unwrap();
    });
    assert_outlived_by_the_second(life, &world);
}

/// Asserts that the next process has the job that was made when all was well again.
fn assert_outlived_by_the_second(life: Life, world: &World) {
    life.crash();
    let life = Life::begin(world);
    assert!(life.run(job_names(&life.node)).contains(&"second".to_owned()));
}

#[test]
fn without_descriptors_for_a_new_segment() {
    descriptors_are_lacking_for(".seg");
}

#[test]
fn without_descriptors_for_the_directory_of_a_new_segment() {
    descriptors_are_lacking_for("journal");
}

/// What a failed attempt created may stay: there is no memory to remove it, say.
#[test]
fn without_descriptors_and_without_means_to_remove_what_was_created() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        *disk.faults.no_descriptors.lock().unwrap() = Some("journal");
        *disk.faults.no_removal.lock().unwrap() = Some(".seg");
        update_until_refused(node, "first").await;
        *disk.faults.no_descriptors.lock().unwrap() = None;
        *disk.faults.no_removal.lock().unwrap() = None;
        wait_until_serving(node).await;
        job(node, "second").await.unwrap();
    });
    assert_outlived_by_the_second(life, &world);
}

#[test]
fn without_memory_to_write_the_journal() {
    let (mut world, disk) = World::faulty();
    world.store.preallocate_bytes = 1 << 10;
    let life = Life::begin(&world);
    let kept = life.run(async {
        let node = &*life.node;
        job(node, "before").await.unwrap();
        *disk.faults.no_memory.lock().unwrap() = Some(".seg");
        let (_, status) = update_until_refused(node, "first").await;
        check_reason(node, &status, &world, "the system refuses this at present");
        *disk.faults.no_memory.lock().unwrap() = None;
        wait_until_serving(node).await;
        job(node, "second").await.unwrap();
        job_names(node).await
    });
    assert!(["before", "second"].iter().all(|name| kept.iter().any(|kept| kept == name)));
    life.crash();
    let life = Life::begin(&world);
    assert_eq!(life.run(job_names(&life.node)), kept);
}

/// The records are durable then, and only their replies are missing: they leave later.
#[test]
fn without_memory_to_write_the_note_replies_wait() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let node = Arc::clone(&life.node);
        job(&node, "before").await.unwrap();
        *disk.faults.no_memory.lock().unwrap() = Some("ACKNOWLEDGED");
        let call = tokio::spawn(async move { job(&node, "waits").await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!call.is_finished());
        assert_eq!(life.node.health(), Health::Serving);
        *disk.faults.no_memory.lock().unwrap() = None;
        call.await.unwrap().unwrap();
    });
    life.crash();
    let life = Life::begin(&world);
    assert_eq!(life.run(job_names(&life.node)), ["before", "waits"]);
}

/// A mark is the first frame of a new segment when the node comes to rest behind a closed one.
#[test]
fn a_mark_without_descriptors_is_left_out() {
    let (mut world, disk) = World::faulty();
    world.store.segment_bytes_max = 2 << 10;
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        job(node, "before").await.unwrap();
        *disk.faults.no_descriptors.lock().unwrap() = Some(".seg");
        // Its segment is open, and is closed behind it.
        job(node, &"n".repeat(3000)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(node.health(), Health::Serving);
        *disk.faults.no_descriptors.lock().unwrap() = None;
        job(node, "after").await.unwrap();
    });
}

/// A full disk of a kind that needs space even to cut a file.
#[test]
fn without_space_to_write_or_to_cut() {
    let (mut world, disk) = World::faulty();
    world.store.preallocate_bytes = 1 << 10;
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        job(node, "before").await.unwrap();
        disk.faults.no_cuts.store(true, Ordering::SeqCst);
        Cause::NoWrites.set(&disk, true);
        let (_, status) = update_until_refused(node, "first").await;
        check_refusal(node, &status, &world);
        Cause::NoWrites.set(&disk, false);
        disk.faults.no_cuts.store(false, Ordering::SeqCst);
        wait_until_serving(node).await;
        job(node, "second").await.unwrap();
    });
    assert_outlived_by_the_second(life, &world);
}
