//! Values that several records and parts hold, as `v1/write.py` has them.

use std::array;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::coordination::{AliveAnswer, Fault, Stamp, Value};
use rondo_core::dispatcher::{
    Compression, DatasetMetadata, Definition, RepetitionRange, Repetitions, SavedRepetition,
    SavedSource, SavedSplit, SourcePosition, SplitPlan, SplitSource, TransferServer, WorkerProfile,
};
use rondo_core::ids::{
    ClientId, DatasetId, Digest, Incarnation, IterationId, JobId, Lsn, NamespaceId, RelayId,
    Revision, ServiceIncarnation, TaskId, TaskIndex, WorkerId,
};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

macro_rules! numbers {
    ($($name:ident($of:ty) -> $id:ident;)*) => {
        $(pub(super) fn $name(number: $of) -> $id {
            $id::new(number)
        })*
    };
}

numbers! {
    job(i64) -> JobId;
    iteration(i64) -> IterationId;
    client(i64) -> ClientId;
    task(i64) -> TaskId;
    worker(i64) -> WorkerId;
    lsn(u64) -> Lsn;
    namespace(u32) -> NamespaceId;
    index(i32) -> TaskIndex;
    incarnation(u64) -> Incarnation;
    life(u64) -> ServiceIncarnation;
    revision(u64) -> Revision;
    relay(u64) -> RelayId;
}

pub(super) fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

pub(super) fn span(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

pub(super) fn dataset(id: &str) -> DatasetId {
    DatasetId::new(id.to_owned())
}

fn digest(first: u8) -> Digest {
    Digest::new(array::from_fn(|at| first + u8::try_from(at).unwrap()))
}

pub(super) fn definition_inline() -> Definition {
    let inline = Some(Bytes::from_static(b"graph"));
    Definition { digest: digest(1), size_bytes: 5, inline }
}

pub(super) fn definition_blob() -> Definition {
    Definition { digest: digest(2), size_bytes: 70_000, inline: None }
}

pub(super) fn sources() -> Vec<SplitSource> {
    vec![
        SplitSource { start: 9, stop: -4, step: -3 },
        SplitSource { start: -70, stop: 300, step: 2 },
    ]
}

pub(super) fn splittable() -> SplitPlan {
    SplitPlan::Splittable(sources())
}

pub(super) fn unsplittable() -> SplitPlan {
    SplitPlan::Unsplittable { code: Code::Unimplemented, message: "no splits".into() }
}

pub(super) fn metadata(compression: Compression, cardinality: i64) -> DatasetMetadata {
    let encoded = Bytes::from_static(b"metadata");
    DatasetMetadata { encoded, structure: digest(3), compression, cardinality }
}

pub(super) fn profile() -> WorkerProfile {
    let grpc = TransferServer {
        protocol: "grpc".into(),
        address: "host:1".into(),
        compatibility_info: Bytes::from_static(b"info"),
        fall_back_to_grpc_at_client_creation_time: true,
        fall_back_to_grpc_at_get_element_time: false,
    };
    let local = TransferServer {
        protocol: "local".into(),
        address: "host:2".into(),
        compatibility_info: Bytes::from_static(b"more"),
        fall_back_to_grpc_at_client_creation_time: false,
        fall_back_to_grpc_at_get_element_time: true,
    };
    WorkerProfile {
        uid: -8,
        tags: ["tag a".to_owned(), "tag b".to_owned()].into(),
        transfer_servers: [grpc, local].into(),
    }
}

pub(super) fn ranges() -> Repetitions {
    let ranges = [(1, 4), (8, 9)].map(|(first, last)| RepetitionRange { first, last });
    Repetitions::of(ranges.to_vec())
}

pub(super) fn saved_splits() -> Vec<SavedSplit> {
    vec![SavedSplit { place: 31, records: 32 }, SavedSplit { place: 33, records: 0 }]
}

/// The same, by place.
pub(super) fn places() -> BTreeMap<u64, u64> {
    BTreeMap::from([(31, 32), (33, 0)])
}

pub(super) fn saved_repetition() -> SavedRepetition {
    let sources = [(2, 41), (0, 42)];
    let sources = sources.map(|(repetition, index)| SavedSource { repetition, index });
    SavedRepetition { repetition: 6, sources: sources.to_vec(), splits: saved_splits() }
}

pub(super) fn positions() -> Vec<SourcePosition> {
    let [down, up] = sources().try_into().unwrap();
    vec![
        SourcePosition { source: down, repetition: 3, index: 2 },
        SourcePosition { source: up, repetition: 5, index: 0 },
    ]
}

pub(super) fn fault() -> Fault {
    Fault {
        code: Code::FailedPrecondition,
        message: "task 3 failed".into(),
        reported: true,
        source: Some(index(3)),
    }
}

pub(super) fn shared_fault() -> Arc<Fault> {
    Arc::new(fault())
}

pub(super) fn fault_of_nobody() -> Fault {
    Fault { code: Code::Unavailable, message: "all failed".into(), reported: false, source: None }
}

pub(super) fn stamp() -> Stamp {
    Stamp { relay: relay(71), sequence: 72, acknowledged: 70 }
}

pub(super) fn alive_answer() -> AliveAnswer {
    let alive = [(index(3), Incarnation::new(61)), (index(4), Incarnation::new(64))];
    let other = Stamp { relay: relay(79), sequence: 74, acknowledged: 70 };
    AliveAnswer { tasks: alive.into(), stamps: vec![stamp(), other] }
}

pub(super) fn inline() -> Value {
    Value::Inline(Bytes::from_static(b"value"))
}

pub(super) fn blob() -> Value {
    Value::Blob { digest: digest(4), size_bytes: 80_000 }
}
