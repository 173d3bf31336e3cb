//! Whatever was acknowledged is there after a restart, orderly or not.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use rondo::node::RunningNode;
use rondo::service::NodePort;
use rondo::store::StoreKind;
use rondo::store::blobs::digest;
use rondo_core::dispatcher::Report;
use rondo_core::ids::IterationId;

use super::calls::{
    client_heartbeat, job, job_names, join, register, report, split, worker_heartbeat,
};
use super::world::{Life, World, for_each_store};

for_each_store!(
    everything_acknowledged_survives_a_stop,
    everything_acknowledged_survives_a_crash,
    many_lives_leave_one_history,
    definitions_kept_as_files_are_counted_after_a_restart,
);

fn large() -> Bytes {
    (0..100_000_u32).map(|n| (n % 251) as u8).collect()
}

/// Something of every kind; says what the node says of it.
async fn fill(node: &RunningNode) -> Report {
    register(node, "data", Bytes::from_static(b"small"), 5).await.unwrap();
    register(node, "large", large(), 3).await.unwrap();
    for n in 0..3 {
        let address = format!("worker{n}:5000");
        worker_heartbeat(node, &address, Vec::new()).await.unwrap();
    }
    let first = job(node, "first").await.unwrap();
    let client = join(node, first).await.unwrap();
    join(node, first).await.unwrap();
    job(node, "second").await.unwrap();
    let iteration = client_heartbeat(node, client).await.unwrap().tasks[0].iteration;
    for n in 0..3 {
        assert_eq!(split(node, iteration).await.unwrap(), Some(n));
    }
    report(node).await.unwrap()
}

fn check(life: &Life, before: &Report) {
    life.run(async {
        let node = &*life.node;
        assert_eq!(report(node).await.unwrap(), *before);
        assert_eq!(before.datasets.len(), 2);
        assert_eq!(node.get_blob(digest(&large())).await.unwrap(), large());
        // Splits go on where they stood, and jobs keep their ids.
        let iteration = IterationId::new(before.iterations[0].id);
        assert_eq!(split(node, iteration).await.unwrap(), Some(3));
        assert_eq!(job(node, "second").await.unwrap().get(), before.jobs[1].id);
    });
}

fn everything_acknowledged_survives_a_stop(world: World) {
    let life = Life::begin(&world);
    let before = life.run(fill(&life.node));
    life.stop();
    check(&Life::begin(&world), &before);
}

fn everything_acknowledged_survives_a_crash(world: World) {
    let life = Life::begin(&world);
    let before = life.run(fill(&life.node));
    life.crash();
    check(&Life::begin(&world), &before);
}

fn many_lives_leave_one_history(world: World) {
    let mut names = Vec::new();
    for n in 0..8 {
        let life = Life::begin(&world);
        assert_eq!(life.run(job_names(&life.node)), names);
        let name = format!("job {n}");
        life.run(job(&life.node, &name)).unwrap();
        names.push(name);
        match n % 2 {
            0 => life.crash(),
            _ => life.stop(),
        }
    }
}

fn definitions_kept_as_files_are_counted_after_a_restart(world: World) {
    let life = Life::begin(&world);
    life.run(register(&life.node, "large", large(), 3)).unwrap();
    assert_eq!(life.node.journal_status().blobs, 1);
    life.stop();
    assert_eq!(Life::begin(&world).node.journal_status().blobs, 1);
}

/// The directory of a segment comes before its first frame, and a kill may fall between the two.
#[test]
fn a_segment_that_was_never_written_to_does_not_hold_the_node_up() {
    let mut world = World::new(StoreKind::Sled);
    // Less than an empty database takes: the segment is large enough to be closed, but empty.
    world.store.segment_bytes_max = 1;
    Life::begin(&world).stop();
    let empty = world.path.join("journal").join(format!("{:020}.sled", 1));
    drop(::sled::open(empty).unwrap());
    let (answered, answer) = mpsc::channel();
    thread::spawn(move || {
        let life = Life::begin(&world);
        let reports = life.run(async {
            let first = report(&life.node).await;
            [first, report(&life.node).await]
        });
        answered.send(reports).unwrap();
        life.stop();
    });
    // A node that turns in circles would not even hear a timeout of its own.
    for report in answer.recv_timeout(Duration::from_secs(20)).expect("an answer") {
        report.unwrap();
    }
}
