//! What was acknowledged and cannot be read stops a start, which names it; what never was is cut.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use rondo::node::{NodeStartError, replay};
use rondo::service::NodePort;
use rondo::store::Store;
use rondo_core::control::{Record, Recovery};
use rondo_core::dispatcher;
use rondo_core::ids::{DatasetId, Lsn};
use rondo_core::journal::GroupHeader;
use rondo_proto::frame;
use tokio::time::timeout;

use super::calls::{job, job_names, register};
use super::world::{Life, World, eventually, for_each_store};

for_each_store!(
    a_missing_definition_stops_a_start,
    a_shortened_definition_stops_a_start,
    a_damaged_snapshot_stops_a_start,
    a_group_with_another_number_of_records_stops_a_start,
);

/// The error of a start that finds something acknowledged damaged.
fn refused(world: &World) -> NodeStartError {
    match Life::try_begin(world) {
        Ok(_) => panic!("it started"),
        Err(error) => {
            assert!(error.is_damage(), "{error}");
            error
        }
    }
}

fn create_jobs(life: &Life, count: usize) {
    for n in 0..count {
        life.run(job(&life.node, &format!("job {n}"))).unwrap();
    }
}

/// The record that creates a job of this number: the first record registers the dataset.
const fn record_of(number: u64) -> u64 {
    number + 2
}

/// Flips a bit where `text` stands in a file.
fn damage(file: &Path, text: &str) {
    let mut bytes = fs::read(file).unwrap();
    let mut windows = bytes.windows(text.len());
    let at = windows.position(|window| window == text.as_bytes()).unwrap();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

fn segment(world: &World, first: u64) -> PathBuf {
    world.path.join(format!("journal/{first:020}.seg"))
}

#[test]
fn a_damaged_record_in_the_open_segment_is_named() {
    for number in [0, 4, 8, 9] {
        let (world, _) = World::faulty();
        let life = Life::begin(&world);
        create_jobs(&life, 10);
        life.stop();
        damage(&segment(&world, 1), &format!("job {number}"));
        let record = record_of(number);
        let error = refused(&world).to_string();
        assert!(error.contains(&format!("record {record} is damaged at ")), "{error}");
        assert!(error.contains(&segment(&world, 1).display().to_string()), "{error}");
    }
}

#[test]
fn a_damaged_record_in_a_closed_segment_is_named() {
    let (mut world, disk) = World::faulty();
    world.store.segment_bytes_max = 1 << 10;
    *disk.faults.full_for.lock().unwrap() = Some(".snap");
    let life = Life::begin(&world);
    create_jobs(&life, 40);
    life.crash();
    assert!(fs::read_dir(world.path.join("journal")).unwrap().count() > 1);
    damage(&segment(&world, 1), "job 3");
    let error = refused(&world).to_string();
    assert!(error.contains("record 5 is damaged at "), "{error}");
    assert!(error.contains(&segment(&world, 1).display().to_string()), "{error}");
    // And once the operator has put it right:
    damage(&segment(&world, 1), "kob 3");
    let life = Life::begin(&world);
    assert_eq!(life.run(job_names(&life.node)).len(), 40);
}

/// The groups in a segment.
fn headers(world: &World, first: u64) -> Vec<GroupHeader> {
    let stretches = frame::scan(&fs::read(segment(world, first)).unwrap().into());
    stretches.into_iter().map(|stretch| stretch.frame.unwrap().0).collect()
}

/// As after a restart of the machine: nothing but the journal itself says how far it was durable.
fn forget_era(world: &World) {
    fs::remove_file(world.path.join("ACKNOWLEDGED")).unwrap();
}

/// Creates so many jobs, and waits until the journal says of the last one that it is durable.
fn create_jobs_and_rest(world: &World, count: u64) {
    let life = Life::begin(world);
    create_jobs(&life, count as usize);
    let mark = |header: &GroupHeader| header.count == 0 && header.durable_upto.get() == count + 1;
    let is_marked = || headers(world, 1).last().is_some_and(mark);
    life.run(eventually("a mark", is_marked));
    life.crash();
}

#[test]
fn a_mark_alone_proves_that_the_last_record_was_acknowledged() {
    let (world, _) = World::faulty();
    create_jobs_and_rest(&world, 3);
    forget_era(&world);
    damage(&segment(&world, 1), "job 2");
    let error = refused(&world).to_string();
    assert!(error.contains("record 4 is damaged at "), "{error}");
    assert!(error.contains("durable up to record 4"), "{error}");
}

#[test]
fn each_group_says_what_was_acknowledged_before_it() {
    let (world, _) = World::faulty();
    create_jobs_and_rest(&world, 9);
    let found = headers(&world, 1);
    let groups: Vec<_> = found.iter().filter(|header| header.count > 0).collect();
    assert_eq!(groups.len(), 10);
    for header in groups {
        assert_eq!(header.durable_upto.get(), header.first.get() - 1, "{header:?}");
    }
}

/// Leaves a journal of several segments; says which record each begins with.
fn several_segments() -> (World, Vec<u64>) {
    let (mut world, disk) = World::faulty();
    world.store.segment_bytes_max = 1 << 10;
    *disk.faults.full_for.lock().unwrap() = Some(".snap");
    let life = Life::begin(&world);
    create_jobs(&life, 40);
    life.crash();
    forget_era(&world);
    let names = fs::read_dir(world.path.join("journal")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut firsts: Vec<u64> = names.map(|name| name[..20].parse().unwrap()).collect();
    firsts.sort_unstable();
    assert!(firsts.len() > 2, "{firsts:?}");
    (world, firsts)
}

#[test]
fn the_name_of_an_empty_segment_proves_that_all_before_it_was_acknowledged() {
    let (world, firsts) = several_segments();
    for first in &firsts[1..] {
        fs::write(segment(&world, *first), b"").unwrap();
    }
    let last = firsts[1] - 1;
    damage(&segment(&world, 1), &format!("job {}", last - record_of(0)));
    for first in &firsts[2..] {
        fs::remove_file(segment(&world, *first)).unwrap();
    }
    let error = refused(&world).to_string();
    assert!(error.contains(&format!("record {last} is damaged at ")), "{error}");
    assert!(error.contains(&format!("durable up to record {last}")), "{error}");
}

#[test]
fn a_segment_under_the_name_of_another_record_stops_a_start() {
    let (world, firsts) = several_segments();
    let (before, after) = (firsts[1] - 1, firsts[1] + 1);
    for name in [before, after] {
        fs::rename(segment(&world, firsts[1]), segment(&world, name)).unwrap();
        let error = refused(&world).to_string();
        let (stands, should) = (firsts[1], name);
        let text = format!("record {stands} at {}", segment(&world, name).display());
        assert!(error.contains(&text), "{error}");
        assert!(error.contains(&format!("stands where record {should} should")), "{error}");
        fs::rename(segment(&world, name), segment(&world, firsts[1])).unwrap();
    }
    let life = Life::begin(&world);
    assert_eq!(life.run(job_names(&life.node)).len(), 40);
}

#[test]
fn a_lost_closed_segment_is_noticed() {
    let (mut world, disk) = World::faulty();
    world.store.segment_bytes_max = 1 << 10;
    *disk.faults.full_for.lock().unwrap() = Some(".snap");
    let life = Life::begin(&world);
    create_jobs(&life, 40);
    life.crash();
    fs::remove_file(segment(&world, 1)).unwrap();
    let error = refused(&world).to_string();
    assert!(error.contains("record 1 is damaged"), "{error}");
}

/// Leaves a record in the journal that nobody was told of.
fn leave_unfinished(world: &World, disk: &super::faulty_disk::FaultyDisk) {
    let life = Life::begin(world);
    create_jobs(&life, 3);
    disk.faults.sync_hangs_for.send_replace(Some(""));
    let unfinished = job(&life.node, "unfinished");
    let limited = async { timeout(Duration::from_millis(100), unfinished).await };
    assert!(life.run(limited).is_err());
    life.crash();
    disk.faults.sync_hangs_for.send_replace(None);
}

#[test]
fn an_unfinished_write_is_cut_and_said() {
    let (world, disk) = World::faulty();
    leave_unfinished(&world, &disk);
    damage(&segment(&world, 1), "unfinished");
    let copy = world.path.join("copy");
    fs::copy(segment(&world, 1), &copy).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cut = runtime.block_on(async {
        let directory = world.open().await;
        let mut store = directory.open_journal(&world.store).await.unwrap();
        replay(&mut *store, Recovery::new(), None).await.unwrap().cut.unwrap()
    });
    assert!(cut.contains("unfinished write of record 5 cut at "), "{cut}");
    assert!(cut.contains(&segment(&world, 1).display().to_string()), "{cut}");
    // A node finds it anew, cuts it, and goes on.
    fs::rename(copy, segment(&world, 1)).unwrap();
    let life = Life::begin(&world);
    create_jobs(&life, 5);
    life.crash();
    let life = Life::begin(&world);
    let names = life.run(job_names(&life.node));
    assert_eq!(names, ["job 0", "job 1", "job 2", "job 3", "job 4"]);
}

#[test]
fn a_record_answered_from_after_a_restart_is_acknowledged() {
    let (world, disk) = World::faulty();
    leave_unfinished(&world, &disk);
    let life = Life::begin(&world);
    life.run(job(&life.node, "unfinished")).unwrap();
    assert_eq!(life.node.journal_status().durable_lsn, 5);
    life.stop();
    damage(&segment(&world, 1), "unfinished");
    let error = refused(&world).to_string();
    assert!(error.contains("record 5 is damaged at "), "{error}");
}

/// A dataset whose definition is a file of its own; says where.
fn large_definition(world: &World) -> PathBuf {
    let life = Life::begin(world);
    let bytes = Bytes::from(vec![7; 100_000]);
    let name = rondo::store::blobs::digest(&bytes).to_string();
    life.run(register(&life.node, "large", bytes, 3)).unwrap();
    life.stop();
    world.path.join("blobs").join(&name[..2]).join(name)
}

fn a_missing_definition_stops_a_start(world: World) {
    let file = large_definition(&world);
    fs::remove_file(&file).unwrap();
    let error = refused(&world).to_string();
    let digest = file.file_name().unwrap().to_string_lossy().into_owned();
    assert!(error.contains("dataset large") && error.contains(&digest), "{error}");
}

fn a_shortened_definition_stops_a_start(world: World) {
    let file = large_definition(&world);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[1..]).unwrap();
    let error = refused(&world).to_string();
    assert!(error.contains(&file.display().to_string()), "{error}");
    fs::write(&file, &bytes).unwrap();
    Life::begin(&world);
}

fn a_damaged_snapshot_stops_a_start(mut world: World) {
    world.store.segment_bytes_max = 1 << 10;
    let life = Life::begin(&world);
    create_jobs(&life, 60);
    life.run(async {
        let node = &life.node;
        eventually("a snapshot", || node.journal_status().snapshot_lsn > 0).await;
    });
    life.stop();
    let file = snapshot_that_counts(&world);
    let good = fs::read(&file).unwrap();
    for at in (0..good.len()).step_by(good.len() / 20) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        fs::write(&file, bytes).unwrap();
        let error = refused(&world).to_string();
        assert!(error.contains(&file.display().to_string()), "byte {at}: {error}");
    }
    fs::remove_file(&file).unwrap();
    let error = refused(&world).to_string();
    assert!(error.contains(&file.display().to_string()), "{error}");
    fs::write(&file, good).unwrap();
    let life = Life::begin(&world);
    assert_eq!(life.run(job_names(&life.node)).len(), 60);
}

/// A process without descriptors can say nothing about the files.
#[test]
fn a_start_without_descriptors_is_no_damage() {
    let (mut world, disk) = World::faulty();
    world.store.segment_bytes_max = 1 << 10;
    let life = Life::begin(&world);
    create_jobs(&life, 60);
    life.run(async {
        let node = &life.node;
        eventually("a snapshot", || node.journal_status().snapshot_lsn > 0).await;
    });
    life.stop();
    for part in ["MANIFEST", ".snap", ".seg", "ACKNOWLEDGED"] {
        *disk.faults.no_descriptors.lock().unwrap() = Some(part);
        let Err(error) = Life::try_begin(&world) else { panic!("it started without {part}") };
        assert!(!error.is_damage(), "{error}");
        assert!(error.to_string().contains("os error 24"), "{error}");
    }
    *disk.faults.no_descriptors.lock().unwrap() = None;
    let life = Life::begin(&world);
    assert_eq!(life.run(job_names(&life.node)).len(), 60);
}

fn snapshot_that_counts(world: &World) -> PathBuf {
    let manifest = fs::read_to_string(world.path.join("MANIFEST")).unwrap();
    let (_, rest) = manifest.split_once("\"snapshot\":").unwrap();
    let lsn: u64 = rest.split(',').next().unwrap().parse().unwrap();
    world.path.join(format!("snapshots/{lsn:020}.snap"))
}

fn decide(dataset: &str) -> Record {
    Record::Dispatcher(dispatcher::Record::DecideCompression {
        id: DatasetId::new(dataset),
        disabled: true,
    })
}

async fn append(store: &mut dyn Store, first: u64, count: u64, records: &[Record]) {
    let header = GroupHeader { first: Lsn::new(first), count, durable_upto: Lsn::new(first - 1) };
    let bytes = frame::encode(&header, &frame::encode_records(records)).unwrap();
    store.append(header.first, bytes).await.unwrap();
}

fn a_group_with_another_number_of_records_stops_a_start(world: World) {
    let life = Life::begin(&world);
    life.run(register(&life.node, "data", Bytes::from_static(b"graph"), 3)).unwrap();
    life.stop();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let directory = world.open().await;
        let mut store = directory.open_journal(&world.store).await.unwrap();
        append(&mut *store, 2, 2, &[decide("data")]).await;
        store.sync().await.unwrap();
    });
    drop(runtime);
    // As after a restart of the machine: else what nobody was told of is cut unread.
    fs::remove_file(world.path.join("ACKNOWLEDGED")).unwrap();
    let error = refused(&world).to_string();
    assert!(
        error.contains("record 2 at ") && error.contains("1 records, 2 by its header"),
        "{error}"
    );
}
