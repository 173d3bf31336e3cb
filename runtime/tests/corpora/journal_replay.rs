//! Any journal: replayed to what its records make, with nothing left out that was durable and
//! nothing made up, or refused and left as it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rondo::node::{ReplayError, Replayed, replay};
use rondo::store::{Disk, SegmentStore, Store, StoreConfig};
use rondo_core::control::{
    self, Durability, Effect, Effects, Input, Node, Record, Recovered, Recovery,
};
use rondo_core::dispatcher::{self, Config, WorkerHeartbeat};
use rondo_core::ids::{CallId, Lsn};
use rondo_core::invariant;
use rondo_core::journal::{GroupHeader, Noted};
use rondo_core::time::Time;
use rondo_proto::frame::{decode, decode_records, encode, encode_records};

use crate::journal_pieces::{Journal, Written};
use crate::model_disk::{Left, ModelDisk};
use crate::started::{block_on, check_recovered};

const DIRECTORY: &str = "/journal";
/// The model disk keeps what is set aside in memory.
const PREALLOCATED_BYTES: u64 = 512;

/// Checks one input. True when the journal holds records and is accepted.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let journal = Journal::by(bytes);
    let acknowledged = Some(Lsn::new(journal.acknowledged.into())).filter(|lsn| *lsn > Lsn::NONE);
    let segments = journal.written();
    let disk = block_on(disk_with(&segments));
    let found = block_on(frames(&disk));
    check_sound(&segments, &found);
    match start(&disk, acknowledged) {
        Err(error) => {
            check_refused(&disk, acknowledged, &segments, &error);
            false
        }
        Ok(replayed) => {
            let good: Vec<Group> = found.into_iter().flatten().flatten().collect();
            let records = chain(&good, acknowledged);
            check_nothing_lost(&segments, &good, acknowledged, replayed.recovered.applied);
            check_nothing_invented(&records, &replayed.recovered);
            check_goes_on(&disk, &replayed.recovered);
            !records.is_empty()
        }
    }
}

/// A frame as it was found.
struct Group {
    header: GroupHeader,
    frame: Bytes,
    payload: Bytes,
}

async fn disk_with(segments: &[Written]) -> ModelDisk {
    let disk = ModelDisk::new();
    disk.create_dir(Path::new(DIRECTORY)).await.unwrap();
    for segment in segments {
        let file = disk.create(&path(segment.first)).await.unwrap();
        file.write_at(0, Bytes::copy_from_slice(&segment.bytes)).await.unwrap();
    }
    disk
}

fn path(segment: Lsn) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{:020}.seg", segment.get()))
}

async fn open(disk: &ModelDisk) -> SegmentStore {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = StoreConfig { preallocate_bytes: PREALLOCATED_BYTES, ..StoreConfig::default() };
    SegmentStore::open(disk, Path::new(DIRECTORY), &config).await.unwrap()
}

fn start(disk: &ModelDisk, acknowledged: Option<Lsn>) -> Result<Replayed, ReplayError> {
    block_on(async {
        let mut store = open(disk).await;
        replay(&mut store, Recovery::new(), acknowledged.map(Noted::Exactly)).await
    })
}

/// What the store finds in each segment; `None` stands for damage.
async fn frames(disk: &ModelDisk) -> Vec<Vec<Option<Group>>> {
    let store = open(disk).await;
    let mut all = Vec::new();
    for segment in store.segments() {
        let found = store.read(segment.first).await.unwrap();
        all.push(found.into_iter().map(|found| found.frame.ok().map(group)).collect());
    }
    all
}

fn group(frame: Bytes) -> Group {
    let (header, payload) = decode(&frame).expect("the store says it is good");
    assert_eq!(encode(&header, &payload).unwrap(), frame, "an envelope is read differently");
    Group { header, frame, payload }
}

/// Frames that nothing happened to, nor to anything before them, are found as they were written.
fn check_sound(segments: &[Written], found: &[Vec<Option<Group>>]) {
    assert_eq!(segments.len(), found.len());
    for (segment, found) in segments.iter().zip(found) {
        let mut good = found.iter().flatten();
        for frame in segment.sound() {
            let found = good.next().map(|group| &group.frame);
            assert_eq!(found, Some(frame), "another frame is found");
        }
    }
}

/// A journal that is refused is refused each time, in words, and left as it is.
fn check_refused(
    disk: &ModelDisk,
    acknowledged: Option<Lsn>,
    segments: &[Written],
    error: &ReplayError,
) {
    assert!(error.is_damage() != error.is_of_later_release(), "one of both: {error}");
    let text = error.to_string();
    assert!(text.contains("record"), "{text}");
    let again = start(disk, acknowledged).expect_err("refused once, accepted then");
    assert_eq!(again.to_string(), text);
    for segment in segments {
        let left = block_on(async {
            let file = disk.open(&path(segment.first)).await.unwrap();
            file.read_at(0, usize::MAX).await.unwrap()
        });
        assert_eq!(left, segment.bytes, "a refused start changed the journal");
    }
}

/// The records that follow each other from the first one on, groups read one by one. A group of
/// which nobody was told does not count, nor one that says it holds none.
fn chain(good: &[Group], acknowledged: Option<Lsn>) -> Vec<Record> {
    let mut records = Vec::new();
    for Group { header, payload, .. } in good {
        let told = acknowledged.is_none_or(|upto| header.first <= upto);
        if header.first.get() == records.len() as u64 + 1 && header.count > 0 && told {
            let held = decode_records(payload).expect("it was replayed");
            assert_eq!(decode_records(&encode_records(&held)).as_ref(), Ok(&held));
            assert_eq!(held.len() as u64, header.count, "a group holds what its header says");
            records.extend(held);
        }
    }
    records
}

/// Whatever says that something was durable is believed.
fn check_nothing_lost(
    segments: &[Written],
    good: &[Group],
    acknowledged: Option<Lsn>,
    applied: Lsn,
) {
    if let Some(upto) = acknowledged {
        assert!(applied >= upto, "{upto} was acknowledged, {applied} is left");
        return;
    }
    for group in good {
        let durable = group.header.durable_upto;
        assert!(applied >= durable, "{durable} was durable, {applied} is left");
    }
    for segment in segments {
        let before = segment.first.get().saturating_sub(1);
        assert!(applied.get() >= before, "a segment begins with {}", segment.first);
    }
}

fn check_nothing_invented(records: &[Record], recovered: &Recovered) {
    let mut expected = Recovery::new();
    for (lsn, record) in (1..).zip(records) {
        expected.apply(Lsn::new(lsn), record).unwrap();
    }
    let parts = expected.parts();
    assert_eq!(expected.finish(), *recovered, "the state is not what the records make");
    check_recovered(recovered, parts);
}

/// The next start finds the same; what is written then is found by the one after it.
fn check_goes_on(disk: &ModelDisk, recovered: &Recovered) {
    let disk = disk.after_the_cut(Left::Everything);
    let again = start(&disk, told_of(recovered)).expect("accepted once, refused then");
    assert_eq!(again.recovered, *recovered, "another state at the next start");
    if invariant::check_state(&recovered.dispatcher).is_err() {
        return;
    }
    let (records, written) = one_more_worker(recovered);
    block_on(append(&disk, recovered.applied, &records));
    let third = start(&disk, told_of(&written)).expect("what was written is refused");
    assert_eq!(third.recovered, written, "another state than the one that was left");
    assert_eq!(third.cut, None, "something stands before what was written");
}

fn told_of(recovered: &Recovered) -> Option<Lsn> {
    Some(recovered.applied).filter(|lsn| *lsn > Lsn::NONE)
}

/// What a node that starts from this state writes when a worker registers, and its state then.
fn one_more_worker(recovered: &Recovered) -> (Vec<Record>, Recovered) {
    let now = Time::from_millis(1_000_000);
    let mut node = Node::start(Durability::Journal, Config::default(), recovered.clone(), now);
    let request = dispatcher::Request::WorkerHeartbeat(WorkerHeartbeat {
        address: "one more:1".into(),
        current_tasks: Vec::new(),
        tags: Vec::new(),
        uid: 1,
        transfer_servers: Vec::new(),
    });
    let request = control::Request::Dispatcher(request);
    let mut effects = Effects::new();
    node.step(now, Input::Request { call: CallId::new(1), request, entropy: 0 }, &mut effects);
    let records = effects.drain().filter_map(|effect| match effect {
        Effect::Append { record, .. } => Some(record),
        _ => None,
    });
    (records.collect(), node.recovered())
}

async fn append(disk: &ModelDisk, behind: Lsn, records: &[Record]) {
    let first = behind.next();
    let header = GroupHeader { first, count: records.len() as u64, durable_upto: behind };
    let frame = encode(&header, &encode_records(records)).unwrap();
    let mut store = open(disk).await;
    store.truncate(first).await.unwrap();
    store.append(first, frame).await.unwrap();
    store.sync().await.unwrap();
}
