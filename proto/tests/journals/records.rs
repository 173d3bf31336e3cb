//! The records of the golden journal, in its order.

use bytes::Bytes;
use rondo_core::control;
use rondo_core::coordination::{
    BarrierKey, Dialect, Fault, Kept, Opening, Participants, Record as CoordinationRecord,
};
use rondo_core::dispatcher::{
    Compression, Record, Repetitions, ShardingPolicy, SplitProgress, TargetWorkers,
};
use rondo_core::status::Code;

use super::values::*;

/// The records of the dispatcher.
pub(super) fn dispatcher() -> Vec<control::Record> {
    let groups =
        [datasets_and_workers(), jobs(), iterations(), lost_and_freed(), reading(), versions()];
    groups.into_iter().flatten().map(control::Record::Dispatcher).collect()
}

fn datasets_and_workers() -> Vec<Record> {
    vec![
        Record::RegisterDataset {
            id: dataset("first"),
            definition: definition_inline(),
            plan: splittable(),
            metadata: metadata(Compression::Off, -2),
            at: at(1002),
        },
        Record::RegisterDataset {
            id: dataset("second"),
            definition: definition_blob(),
            plan: unsplittable(),
            metadata: metadata(Compression::ForcedSnappy, 7),
            at: at(1003),
        },
        Record::DecideCompression { id: dataset("first"), disabled: true },
        Record::RegisterWorker { id: worker(11), address: "worker:1".into(), profile: profile() },
        Record::UpdateWorker { id: worker(12), profile: profile() },
    ]
}

fn create_job(
    sharding: ShardingPolicy,
    target_workers: TargetWorkers,
    consumers: Option<i64>,
    [use_cross_trainer_cache, anonymous]: [bool; 2],
) -> Record {
    Record::CreateJob {
        id: job(5000),
        name: "job".into(),
        dataset: dataset("dataset"),
        sharding,
        consumers,
        use_cross_trainer_cache,
        target_workers,
        anonymous,
        at: at(1001),
    }
}

fn jobs() -> Vec<Record> {
    use ShardingPolicy::{Data, Dynamic, File, FileOrData, Hint, Off};
    use TargetWorkers::{Any, Auto, Local, Unspecified};
    vec![
        create_job(Off, Local, Some(4), [false, true]),
        create_job(Dynamic, Any, None, [true, false]),
        create_job(File, Auto, Some(0), [true, true]),
        create_job(Data, Unspecified, None, [false, false]),
        create_job(FileOrData, Unspecified, None, [false, false]),
        create_job(Hint, Unspecified, None, [false, false]),
    ]
}

fn iterations() -> Vec<Record> {
    let produce = |source, repetition, finished, task| Record::ProduceSplit {
        iteration: iteration(2000),
        source,
        repetition,
        finished,
        task,
    };
    vec![
        Record::CreateIteration {
            id: iteration(2000),
            job: job(5000),
            repetition: 6,
            sources: sources(),
        },
        Record::CreateTask { id: task(4000), iteration: iteration(2000), worker: worker(11) },
        Record::CreatePendingTask {
            id: task(4001),
            iteration: iteration(2000),
            worker: worker(12),
            target_round: 17,
        },
        Record::AcquireClient { id: client(3000), iteration: iteration(2000), at: at(1004) },
        Record::ReleaseClient { id: client(3000), at: at(1005) },
        produce(1, 6, false, Some(task(4000))),
        produce(2, 7, true, None),
        Record::RejectRound { iteration: iteration(2000), target_round: 18 },
        Record::AcceptRound { iteration: iteration(2000), client: client(3000) },
        Record::FinishTask { id: task(4000) },
        Record::RemoveTask { id: task(4001), again: false },
        Record::CollectIteration { id: iteration(2000), at: at(1006) },
    ]
}

fn lost_and_freed() -> Vec<Record> {
    let repeat =
        |task| Record::RepeatSplit { iteration: iteration(2000), source: 1, repetition: 6, task };
    vec![
        Record::LoseWorker { id: worker(11), again: true },
        Record::ReturnWorker { id: worker(11), reborn: true },
        Record::RestartTasks { worker: worker(11), again: true },
        repeat(Some(task(4000))),
        repeat(None),
        Record::FreeIteration { id: iteration(2000), at: at(1007) },
        Record::FreeJob { id: job(5000), at: at(1008) },
        Record::FreeDataset { id: dataset("first") },
        Record::UseJob { id: job(5000), at: at(1009) },
        Record::UseDataset { id: dataset("second"), at: at(1010) },
        Record::CreateFinishedIteration { id: iteration(2001), job: job(5000), repetition: 6 },
    ]
}

fn reading() -> Vec<Record> {
    let progress = |place, records, finished| SplitProgress { place, records, finished };
    let wait = |place, task| Record::HandOutWaiting { iteration: iteration(2000), place, task };
    let take_back = |place, task| Record::TakeBackSplit {
        iteration: iteration(2000),
        source: 3,
        repetition: 6,
        place,
        task,
    };
    vec![
        Record::ResumeIteration {
            id: iteration(2002),
            job: job(5000),
            repetition: 6,
            sources: positions(),
            waiting: saved_splits(),
        },
        Record::SavePosition {
            name: "best".into(),
            job: "job".into(),
            at: at(1011),
            finished: ranges(),
            abandoned: Repetitions::default(),
            reading: vec![saved_repetition()],
        },
        Record::RestorePosition { name: "best".into(), job: "job".into(), at: at(1012) },
        Record::DeletePosition { name: "best".into() },
        Record::HoldSplits {
            client: client(3000),
            progress: vec![progress(21, 22, true), progress(23, 24, false)],
            taken: vec![25, 300],
            group_size: 2,
        },
        wait(26, Some(task(4000))),
        wait(27, None),
        Record::FinishIteration { id: iteration(2000) },
        take_back(28, Some(task(4000))),
        take_back(29, None),
        Record::RemoveTask { id: task(4001), again: true },
        Record::RetireJob { id: job(5001), at: at(1013) },
        Record::AbandonIteration { id: iteration(2003), at: at(1014) },
        Record::FreeWorker { id: worker(13) },
        Record::DeleteJob { name: "job".into(), at: at(1015) },
        Record::SavePosition {
            name: "given up".into(),
            job: "job".into(),
            at: at(1016),
            finished: Repetitions::default(),
            abandoned: ranges(),
            reading: Vec::new(),
        },
        Record::RaiseIds { above: 700_000 },
    ]
}

/// The records of the coordination service.
pub(super) fn coordination() -> Vec<control::Record> {
    let groups = [lives_and_tasks(), faults(), barriers(), keys(), relays(), codes(), alive()];
    groups.into_iter().flatten().map(control::Record::Coordination).collect()
}

fn lives_and_tasks() -> Vec<CoordinationRecord> {
    use CoordinationRecord as R;
    vec![
        R::BeginLife {
            namespace: namespace(1),
            name: "trainers".into(),
            incarnation: life(51),
            tasks: Some(8),
            at: at(2001),
        },
        R::BeginLife {
            namespace: namespace(2),
            name: "others".into(),
            incarnation: life(52),
            tasks: None,
            at: at(2002),
        },
        R::LearnSize { namespace: namespace(2), tasks: 16 },
        R::RegisterTask {
            namespace: namespace(4),
            task: index(3),
            incarnation: incarnation(61),
            recoverable: true,
            dialect: Dialect::Rondo,
            at: at(2003),
        },
        R::ConnectTask {
            namespace: namespace(1),
            task: index(3),
            incarnation: incarnation(61),
            recoverable: true,
            dialect: Dialect::Rondo,
            at: at(2004),
        },
        R::ConnectTask {
            namespace: namespace(1),
            task: index(-1),
            incarnation: incarnation(62),
            recoverable: false,
            dialect: Dialect::T,
            at: at(2005),
        },
        R::DisconnectTask { namespace: namespace(1), task: index(3), at: at(2006) },
    ]
}

fn faults() -> Vec<CoordinationRecord> {
    use CoordinationRecord as R;
    let namespace = namespace(1);
    vec![
        R::FailTask { namespace, task: index(3), fault: fault(), at: at(2007) },
        R::FailAllTasks { namespace, fault: fault_of_nobody(), at: at(2008) },
        R::NotePolling { namespace },
        R::StickError { namespace, fault: fault() },
        R::OfferDevices { namespace, task: index(3), devices: Bytes::from_static(b"devices") },
    ]
}

fn barriers() -> Vec<CoordinationRecord> {
    use CoordinationRecord as R;
    let namespace = namespace(1);
    let epoch = || BarrierKey::Named("epoch".into());
    let some = Participants::Some([3, 4, 6].map(index).into());
    vec![
        R::ArriveAtBarrier {
            namespace,
            barrier: epoch(),
            counter: 5,
            task: index(3),
            stamp: Some(stamp()),
            opening: Some(Opening { participants: some, timeout: span(60_000) }),
            at: at(2009),
        },
        R::ArriveAtBarrier {
            namespace,
            barrier: BarrierKey::Devices,
            counter: -6,
            task: index(4),
            stamp: None,
            opening: None,
            at: at(2010),
        },
        R::ArriveAtBarrier {
            namespace,
            barrier: BarrierKey::Register,
            counter: 7,
            task: index(5),
            stamp: None,
            opening: Some(Opening { participants: Participants::All, timeout: span(61) }),
            at: at(2011),
        },
        R::LeaveBarrier { namespace, barrier: epoch(), task: index(4) },
        R::EndBarrier {
            namespace,
            barrier: BarrierKey::Shutdown,
            counter: 5,
            fault: Some(fault()),
            at: at(2012),
        },
        R::EndBarrier { namespace, barrier: epoch(), counter: 5, fault: None, at: at(2013) },
    ]
}

fn keys() -> Vec<CoordinationRecord> {
    use CoordinationRecord as R;
    let namespace = namespace(1);
    vec![
        R::PutKey { namespace, key: "a/b".into(), value: inline(), lease: Some(index(0)) },
        R::PutKey { namespace, key: "a/c".into(), value: blob(), lease: None },
        R::DeleteKey { namespace, key: "a/b".into() },
        R::EndLeases { namespace, task: index(3) },
    ]
}

fn relays() -> Vec<CoordinationRecord> {
    use CoordinationRecord as R;
    let namespace = namespace(1);
    let kept = [
        Kept::Put(revision(81)),
        Kept::Deleted(revision(82)),
        Kept::Incremented { value: Bytes::from_static(b"9"), revision: revision(83) },
        Kept::Barrier { counter: 5, fault: Some(fault()) },
        Kept::Barrier { counter: 6, fault: None },
        Kept::Done,
    ];
    let keep = |(sequence, kept)| R::KeepResult {
        namespace,
        relay: relay(71),
        sequence,
        acknowledged: 72,
        kept,
    };
    let forget = R::ForgetRelays { namespace, relays: vec![relay(71), relay(79)] };
    (73..).zip(kept).map(keep).chain([forget]).collect()
}

/// Every status code, from 1 to 16.
fn codes() -> Vec<CoordinationRecord> {
    let codes = [
        Code::Cancelled,
        Code::Unknown,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
        Code::Unauthenticated,
    ];
    let stick = |code| CoordinationRecord::StickError {
        namespace: namespace(3),
        fault: Fault { code, message: "code".into(), reported: false, source: None },
    };
    codes.map(stick).to_vec()
}

fn alive() -> Vec<CoordinationRecord> {
    vec![CoordinationRecord::AnswerAlive { namespace: namespace(1), answer: alive_answer() }]
}

fn versions() -> Vec<Record> {
    vec![Record::ReplaceDataset {
        name: dataset("first"),
        id: dataset("first@3"),
        at: at(1017),
        definition: definition_inline(),
        plan: splittable(),
        metadata: metadata(Compression::Off, -2),
    }]
}
