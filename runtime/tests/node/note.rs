//! The note of acknowledged records: what nobody was told of is cut, and never anything else.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, ShardingPolicy, TargetWorkers};
use rondo_core::ids::{DatasetId, JobId, Lsn};
use rondo_core::journal::GroupHeader;
use rondo_core::time::Time;
use rondo_proto::frame;

use super::calls::{job, job_names};
use super::model_disk::ModelDisk;
use super::world::{Life, World, eventually, for_each_store};

for_each_store!(
    what_nobody_was_told_of_is_cut,
    the_note_counts_through_another_mount,
    a_copy_of_the_directory_keeps_every_record,
    an_older_note_does_not_count,
    a_newer_note_stops_a_start,
    a_copy_that_ends_before_its_note_does_not_start,
    what_the_operator_gives_up_stops_no_start,
    giving_up_what_is_not_there_loses_nothing,
);

/// Leaves three jobs that were acknowledged and one that nobody was told of.
fn leave_one_untold(world: &World) {
    let life = Life::begin(world);
    for name in ["a", "b", "c"] {
        life.run(job(&life.node, name)).unwrap();
    }
    life.stop();
    in_directory(world, async |directory| {
        let mut store = directory.open_journal(&world.store).await.unwrap();
        let header = GroupHeader { first: Lsn::new(5), count: 1, durable_upto: Lsn::new(4) };
        let bytes = frame::encode(&header, &frame::encode_records(&[untold()])).unwrap();
        store.append(header.first, bytes).await.unwrap();
    });
}

fn untold() -> Record {
    Record::Dispatcher(dispatcher::Record::CreateJob {
        id: JobId::new(9000),
        name: "untold".into(),
        dataset: DatasetId::new("data"),
        sharding: ShardingPolicy::Off,
        consumers: None,
        use_cross_trainer_cache: false,
        target_workers: TargetWorkers::Auto,
        anonymous: false,
        at: Time::ZERO,
    })
}

fn in_directory(world: &World, work: impl AsyncFnOnce(rondo::store::DataDirectory)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { work(world.open().await).await });
}

/// Notes that records up to this one are acknowledged.
fn note(world: &World, upto: u64) {
    in_directory(world, async |directory| {
        let (acknowledged, _) = directory.acknowledged().await.unwrap();
        acknowledged.note(Lsn::new(upto)).await.unwrap();
    });
}

fn jobs(world: &World) -> Vec<String> {
    let life = Life::begin(world);
    life.run(job_names(&life.node))
}

/// What `rondo journal verify` prints of a directory.
fn verified(directory: &Path) -> String {
    let rondo = env!("CARGO_BIN_EXE_rondo");
    said(&Command::new(rondo).args(["journal", "verify"]).arg(directory).output().unwrap())
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).unwrap()
}

fn what_nobody_was_told_of_is_cut(world: World) {
    leave_one_untold(&world);
    let said = verified(&world.path);
    assert!(said.contains("records from 5 on cut: nobody was ever told of them"), "{said}");
    assert_eq!(jobs(&world), ["a", "b", "c"]);
}

/// A container that is started again sees the same directory through another mount.
fn the_note_counts_through_another_mount(world: World) {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-ec", script]);
        command.arg(env!("CARGO_BIN_EXE_rondo")).arg(&world.path);
        command.output()
    };
    match unshare("mount --bind \"$1\" \"$1\" 2>/dev/null || mount --bind /tmp /tmp") {
        Ok(tried) if tried.status.success() => {}
        tried => {
            let is_required = std::env::var_os("RONDO_MOUNTS_REQUIRED").is_some();
            assert!(!is_required, "RONDO_MOUNTS_REQUIRED is set, but there is none: {tried:?}");
            let _ =
                writeln!(std::io::stderr(), "skipped: no mount namespace of our own: {tried:?}");
            return;
        }
    }
    leave_one_untold(&world);
    let output =
        unshare("mount --bind \"$1\" \"$1\" && exec \"$0\" journal verify \"$1\"").unwrap();
    let said = said(&output);
    assert!(said.contains("records from 5 on cut: nobody was ever told of them"), "{said}");
}

/// Nobody knows what was acknowledged by the time of the copy.
fn a_copy_of_the_directory_keeps_every_record(mut world: World) {
    leave_one_untold(&world);
    world.path = copy_of(&world);
    let said = verified(&world.path);
    assert!(said.contains("records up to 5"), "{said}");
    assert_eq!(jobs(&world), ["a", "b", "c", "untold"]);
}

/// An older image of the disk has synced records, and a note that was not synced by then.
fn an_older_note_does_not_count(world: World) {
    leave_one_untold(&world);
    note(&world, 3);
    let said = verified(&world.path);
    assert!(said.contains("note: the note of acknowledged records says 3"), "{said}");
    assert!(said.contains("durable up to record 4"), "{said}");
    assert!(said.contains("does not count; every record is kept"), "{said}");
    assert!(said.contains("all is well: records up to 5"), "{said}");
    assert_eq!(jobs(&world), ["a", "b", "c", "untold"]);
}

/// Older segments came back, and the note of later ones stayed.
fn a_newer_note_stops_a_start(world: World) {
    leave_one_untold(&world);
    note(&world, 7);
    let said = verified(&world.path);
    assert!(said.contains("record 6 is damaged"), "{said}");
    let Err(error) = Life::try_begin(&world) else { panic!("it started") };
    assert!(error.is_damage(), "{error}");
    assert!(error.to_string().contains("durable up to record 7"), "{error}");
}

/// Whatever was acknowledged after the note was: a journal that ends before the note has lost something.
fn a_copy_that_ends_before_its_note_does_not_start(mut world: World) {
    leave_one_untold(&world);
    note(&world, 7);
    world.path = copy_of(&world);
    let said = verified(&world.path);
    assert!(said.contains("record 6 is damaged") && said.contains("up to record 7"), "{said}");
    let Err(error) = Life::try_begin(&world) else { panic!("it started") };
    assert!(error.is_damage() && error.to_string().contains("durable up to record 7"), "{error}");
}

/// The remedy that the refusal names works at once, and in a copy.
fn what_the_operator_gives_up_stops_no_start(mut world: World) {
    leave_one_untold(&world);
    note(&world, 7);
    let copy = copy_of(&world);
    for path in [world.path.clone(), copy] {
        let rondo = env!("CARGO_BIN_EXE_rondo");
        let cut = ["journal", "compact", "--cut-before", "4"];
        let cut = said(&Command::new(rondo).args(cut).arg(&path).output().unwrap());
        assert!(cut.contains("snapshot of records up to 3 written"), "{cut}");
        let said = verified(&path);
        assert!(said.contains("all is well: records up to 3"), "{said}");
        world.path = path;
        assert_eq!(jobs(&world), ["a", "b"]);
    }
}

fn giving_up_what_is_not_there_loses_nothing(world: World) {
    leave_one_untold(&world);
    note(&world, 4);
    let rondo = env!("CARGO_BIN_EXE_rondo");
    let cut = ["journal", "compact", "--cut-before", "50"];
    let cut = said(&Command::new(rondo).args(cut).arg(&world.path).output().unwrap());
    assert!(cut.contains("snapshot of records up to 4 written"), "{cut}");
    let said = verified(&world.path);
    assert!(said.contains("all is well: records up to 4"), "{said}");
    assert_eq!(jobs(&world), ["a", "b", "c"]);
}

fn copy_of(world: &World) -> PathBuf {
    let copy = world.path.with_file_name("copy");
    let copied = Command::new("cp").arg("-a").args([&world.path, &copy]).status().unwrap();
    assert!(copied.success());
    copy
}

/// Where the system tells no era, nothing that was noted is exact, and nothing is forgotten either.
#[test]
fn a_note_without_an_era_stays_and_is_not_exact() {
    let (world, disk) = World::faulty();
    leave_one_untold(&world);
    note(&world, 7);
    disk.faults.no_era.store(true, Ordering::SeqCst);
    let refused = || match Life::try_begin(&world) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it started"),
    };
    assert!(refused().contains("durable up to record 7"));
    // A process that was refused leaves it as it is.
    assert!(refused().contains("durable up to record 7"));
    note(&world, 4);
    assert_eq!(
        jobs(&world),
        ["a", "b", "c", "untold"],
        "nobody knows that it was not acknowledged"
    );
    // A later life does not take it for exact.
    note(&world, 4);
    disk.faults.no_era.store(false, Ordering::SeqCst);
    assert_eq!(jobs(&world), ["a", "b", "c", "untold"]);
}

/// So that an older image has the note of all that was acknowledged more than a second before.
#[test]
fn the_note_is_on_the_disk_within_a_second() {
    let disk = ModelDisk::new();
    let world = World::model(&disk);
    let life = Life::begin(&world);
    life.run(job(&life.node, "a")).unwrap();
    let is_synced = || disk.is_synced(&world.path.join("ACKNOWLEDGED"));
    assert!(!is_synced(), "a call waits for the note to be synced");
    life.run(eventually("a synced note", is_synced));
    life.run(job(&life.node, "b")).unwrap();
    assert!(!is_synced());
    life.run(async { tokio::time::sleep(Duration::from_millis(1500)).await });
    assert!(is_synced(), "the second note");
}
