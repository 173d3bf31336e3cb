//! The computer loses power after any operation of its disk: what was acknowledged is there.

use super::calls::{job, job_names};
use super::model_disk::{Left, ModelDisk};
use super::world::{Life, World};

/// What is left of the disk after the first end, for each.
const LEFT: [Left; 5] =
    [Left::Everything, Left::Synced, Left::Some(1), Left::Some(2), Left::Some(3)];

fn world(disk: &ModelDisk) -> World {
    let mut world = World::model(disk);
    // A snapshot every few calls.
    world.store.segment_bytes_max = 1 << 10;
    world.store.preallocate_bytes = 256;
    world
}

/// Creates jobs one after the other until the disk stops; says which were acknowledged.
fn create_jobs(life: &Life, disk: &ModelDisk, from: usize, count: usize) -> Vec<String> {
    let mut names = Vec::new();
    life.run(async {
        for n in from..from + count {
            let name = format!("job {n}");
            tokio::select! {
                biased;
                id = job(&life.node, &name) => {
                    id.unwrap();
                    names.push(name);
                }
                () = disk.stopped() => return,
            }
        }
    });
    names
}

/// The jobs that a node finds; all that were acknowledged, and perhaps the one after them.
fn check_recovered(world: &World, acknowledged: &[String], what: &str) -> (Life, Vec<String>) {
    let life = Life::try_begin(world).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = life.run(job_names(&life.node));
    assert!(found.starts_with(acknowledged), "{what}: {found:?}, not {acknowledged:?}");
    assert!(found.len() <= acknowledged.len() + 1, "{what}: {found:?}");
    (life, found)
}

#[test]
fn nothing_acknowledged_is_lost_whenever_the_power_goes() {
    let jobs = 40;
    let whole = ModelDisk::new();
    let life = Life::begin(&world(&whole));
    let set_up = whole.operations();
    assert_eq!(create_jobs(&life, &whole, 0, jobs).len(), jobs);
    life.stop();
    for stop in set_up..whole.operations() {
        let disk = ModelDisk::new();
        let life = Life::begin(&world(&disk));
        disk.stop_after(stop);
        let acknowledged = create_jobs(&life, &disk, 0, jobs);
        life.crash();
        for left in LEFT {
            let what = format!("stopped after {stop} operations, {left:?} left");
            survives_twice(&disk.after_the_cut(left), &acknowledged, &what);
        }
    }
}

/// Whatever a restarted node answers with is acknowledged too, and nothing may take that back.
fn survives_twice(disk: &ModelDisk, acknowledged: &[String], what: &str) {
    let (life, mut found) = check_recovered(&world(disk), acknowledged, what);
    for name in &found {
        life.run(job(&life.node, name)).unwrap();
    }
    life.crash();
    let again = disk.after_the_cut(Left::Synced);
    let what = format!("{what}, then the power went again");
    let (life, _) = check_recovered(&world(&again), &found, &what);
    found.extend(create_jobs(&life, &again, 100, 30));
    life.stop();
    let last = again.after_the_cut(Left::Everything);
    check_recovered(&world(&last), &found, &what).0.crash();
}
