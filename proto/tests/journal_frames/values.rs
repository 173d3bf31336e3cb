//! Any record and any part of a snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rondo_core::control::{Part, Record};
use rondo_core::dispatcher::{self as core, Part as DispatcherPart, Record as DispatcherRecord};
use rondo_core::ids::{ClientId, DatasetId, Digest, IterationId, JobId, Lsn, TaskId, WorkerId};
use rondo_core::status::Code;
use rondo_core::time::Time;

use crate::splits::{
    by_split, by_split_record, iteration_splits, places, saved_split, task_splits,
};

macro_rules! numbered {
    ($($name:ident: $id:ident),*) => {
        $(pub(super) fn $name() -> impl Strategy<Value = $id> {
            any::<i64>().prop_map($id::new)
        })*
    };
}

numbered!(client: ClientId, iteration: IterationId, job: JobId, task: TaskId, worker: WorkerId);

pub(super) fn time() -> impl Strategy<Value = Time> {
    any::<u64>().prop_map(Time::from_nanos)
}

pub(super) fn lsn() -> impl Strategy<Value = Lsn> {
    any::<u64>().prop_map(Lsn::new)
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,12}"
}

pub(super) fn shared() -> impl Strategy<Value = Arc<str>> {
    text().prop_map(Arc::from)
}

fn dataset_id() -> impl Strategy<Value = DatasetId> {
    text().prop_map(DatasetId::new)
}

pub(super) fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

pub(super) fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 32]>().prop_map(Digest::new)
}

fn definition() -> impl Strategy<Value = core::Definition> {
    (digest(), any::<u64>(), option::of(bytes()))
        .prop_map(|(digest, size_bytes, inline)| core::Definition { digest, size_bytes, inline })
}

fn source() -> impl Strategy<Value = core::SplitSource> {
    (any::<i64>(), any::<i64>(), any::<i64>()).prop_map(|(start, stop, step)| core::SplitSource {
        start,
        stop,
        step,
    })
}

pub(super) fn code() -> impl Strategy<Value = Code> {
    prop::sample::select(vec![
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
    ])
}

fn plan() -> impl Strategy<Value = core::SplitPlan> {
    prop_oneof![
        vec(source(), 0..3).prop_map(core::SplitPlan::Splittable),
        (code(), text())
            .prop_map(|(code, message)| core::SplitPlan::Unsplittable { code, message }),
    ]
}

fn compression() -> impl Strategy<Value = core::Compression> {
    use core::Compression::{ForcedSnappy, Off, Snappy, Unspecified};
    prop::sample::select(vec![Unspecified, Off, Snappy, ForcedSnappy])
}

fn metadata() -> impl Strategy<Value = core::DatasetMetadata> {
    (bytes(), digest(), compression(), any::<i64>()).prop_map(
        |(encoded, structure, compression, cardinality)| core::DatasetMetadata {
            encoded,
            structure,
            compression,
            cardinality,
        },
    )
}

fn transfer_server() -> impl Strategy<Value = core::TransferServer> {
    (text(), text(), bytes(), any::<bool>(), any::<bool>()).prop_map(
        |(protocol, address, compatibility_info, at_creation, at_read)| core::TransferServer {
            protocol,
            address,
            compatibility_info,
            fall_back_to_grpc_at_client_creation_time: at_creation,
            fall_back_to_grpc_at_get_element_time: at_read,
        },
    )
}

fn profile() -> impl Strategy<Value = core::WorkerProfile> {
    (any::<i64>(), vec(text(), 0..3), vec(transfer_server(), 0..3)).prop_map(
        |(uid, tags, servers)| core::WorkerProfile {
            uid,
            tags: tags.into(),
            transfer_servers: servers.into(),
        },
    )
}

fn sharding() -> impl Strategy<Value = core::ShardingPolicy> {
    use core::ShardingPolicy::{Data, Dynamic, File, FileOrData, Hint, Off};
    prop::sample::select(vec![Off, Dynamic, File, Data, FileOrData, Hint])
}

fn target() -> impl Strategy<Value = core::TargetWorkers> {
    use core::TargetWorkers::{Any, Auto, Local, Unspecified};
    prop::sample::select(vec![Unspecified, Auto, Any, Local])
}

fn departed() -> impl Strategy<Value = BTreeMap<ClientId, core::DepartedReader>> {
    let reader = (iteration(), any::<i64>(), vec(saved_split(), 0..4), lsn()).prop_map(
        |(iteration, repetition, splits, left)| core::DepartedReader {
            iteration,
            repetition,
            splits,
            left,
        },
    );
    prop::collection::btree_map(client(), reader, 0..3)
}

fn parameters() -> impl Strategy<Value = core::JobParameters> {
    (sharding(), any::<bool>(), target()).prop_map(
        |(sharding, use_cross_trainer_cache, target_workers)| core::JobParameters {
            sharding,
            use_cross_trainer_cache,
            target_workers,
        },
    )
}

fn job_value() -> impl Strategy<Value = core::Job> {
    let options = (option::of(any::<i64>()), any::<bool>(), target(), lsn());
    let known = (repetitions(), repetitions(), option::of(job()));
    let uses = (any::<bool>(), time(), time(), known, departed());
    (job(), shared(), dataset_id(), sharding(), options, uses).prop_map(
        |(id, name, dataset, sharding, (consumers, cache, target_workers, changed), uses)| {
            core::Job {
                anonymous: uses.0,
                asked: uses.1,
                idle_since: uses.2,
                finished: uses.3.0,
                abandoned: uses.3.1,
                first_id: uses.3.2,
                departed: uses.4,
                id,
                name,
                dataset,
                sharding,
                consumers,
                use_cross_trainer_cache: cache,
                target_workers,
                changed,
            }
        },
    )
}

fn creating(job: core::Job) -> DispatcherRecord {
    DispatcherRecord::CreateJob {
        id: job.id,
        name: job.name,
        dataset: job.dataset,
        sharding: job.sharding,
        consumers: job.consumers,
        use_cross_trainer_cache: job.use_cross_trainer_cache,
        target_workers: job.target_workers,
        anonymous: job.anonymous,
        at: job.asked,
    }
}

fn big_record() -> impl Strategy<Value = DispatcherRecord> {
    use DispatcherRecord as R;
    prop_oneof![
        (dataset_id(), definition(), plan(), metadata(), time()).prop_map(
            |(id, definition, plan, metadata, at)| R::RegisterDataset {
                id,
                definition,
                plan,
                metadata,
                at
            }
        ),
        (dataset_id(), any::<bool>())
            .prop_map(|(id, disabled)| R::DecideCompression { id, disabled }),
        (worker(), shared(), profile()).prop_map(|(id, address, profile)| R::RegisterWorker {
            id,
            address,
            profile
        }),
        (worker(), profile()).prop_map(|(id, profile)| R::UpdateWorker { id, profile }),
        job_value().prop_map(creating),
        (iteration(), job(), any::<i64>(), vec(source(), 0..3)).prop_map(
            |(id, job, repetition, sources)| R::CreateIteration { id, job, repetition, sources }
        ),
    ]
}

fn small_record() -> impl Strategy<Value = DispatcherRecord> {
    use DispatcherRecord as R;
    prop_oneof![
        (task(), iteration(), worker()).prop_map(|(id, iteration, worker)| R::CreateTask {
            id,
            iteration,
            worker
        }),
        (task(), iteration(), worker(), any::<i64>()).prop_map(
            |(id, iteration, worker, target_round)| R::CreatePendingTask {
                id,
                iteration,
                worker,
                target_round
            }
        ),
        (client(), iteration(), time()).prop_map(|(id, iteration, at)| R::AcquireClient {
            id,
            iteration,
            at
        }),
        (client(), time()).prop_map(|(id, at)| R::ReleaseClient { id, at }),
        (iteration(), any::<u32>(), any::<i64>(), any::<bool>(), option::of(task())).prop_map(
            |(iteration, source, repetition, finished, task)| R::ProduceSplit {
                iteration,
                source,
                repetition,
                finished,
                task
            }
        ),
        (iteration(), any::<u32>(), any::<i64>(), option::of(task())).prop_map(
            |(iteration, source, repetition, task)| R::RepeatSplit {
                iteration,
                source,
                repetition,
                task
            }
        ),
        (iteration(), any::<i64>())
            .prop_map(|(iteration, target_round)| R::RejectRound { iteration, target_round }),
        (iteration(), client())
            .prop_map(|(iteration, client)| R::AcceptRound { iteration, client }),
        task().prop_map(|id| R::FinishTask { id }),
        (task(), any::<bool>()).prop_map(|(id, again)| R::RemoveTask { id, again }),
        (iteration(), time()).prop_map(|(id, at)| R::CollectIteration { id, at }),
        (worker(), any::<bool>()).prop_map(|(id, again)| R::LoseWorker { id, again }),
        (worker(), any::<bool>()).prop_map(|(id, reborn)| R::ReturnWorker { id, reborn }),
        (worker(), any::<bool>()).prop_map(|(worker, again)| R::RestartTasks { worker, again }),
    ]
}

fn freeing_record() -> impl Strategy<Value = DispatcherRecord> {
    use DispatcherRecord as R;
    prop_oneof![
        (iteration(), time()).prop_map(|(id, at)| R::FreeIteration { id, at }),
        (job(), time()).prop_map(|(id, at)| R::FreeJob { id, at }),
        (job(), time()).prop_map(|(id, at)| R::RetireJob { id, at }),
        (iteration(), time()).prop_map(|(id, at)| R::AbandonIteration { id, at }),
        worker().prop_map(|id| R::FreeWorker { id }),
        (shared(), time()).prop_map(|(name, at)| R::DeleteJob { name, at }),
        any::<i64>().prop_map(|above| R::RaiseIds { above }),
        (dataset_id(), dataset_id(), definition(), plan(), metadata(), time()).prop_map(
            |(name, id, definition, plan, metadata, at)| R::ReplaceDataset {
                name,
                id,
                at,
                definition,
                plan,
                metadata,
            }
        ),
        dataset_id().prop_map(|id| R::FreeDataset { id }),
        (job(), time()).prop_map(|(id, at)| R::UseJob { id, at }),
        (dataset_id(), time()).prop_map(|(id, at)| R::UseDataset { id, at }),
        (iteration(), job(), any::<i64>()).prop_map(|(id, job, repetition)| {
            R::CreateFinishedIteration { id, job, repetition }
        }),
    ]
}

fn position_record() -> impl Strategy<Value = DispatcherRecord> {
    use DispatcherRecord as R;
    prop_oneof![
        (iteration(), job(), any::<i64>(), vec(position(), 0..3), vec(saved_split(), 0..3))
            .prop_map(|(id, job, repetition, sources, waiting)| R::ResumeIteration {
                id,
                job,
                repetition,
                sources,
                waiting
            }),
        position_value().prop_map(|position| R::SavePosition {
            name: position.name,
            job: position.job,
            at: position.saved,
            finished: position.finished,
            abandoned: position.abandoned,
            reading: position.reading,
        }),
        (shared(), shared(), time()).prop_map(|(name, job, at)| R::RestorePosition {
            name,
            job,
            at
        }),
        shared().prop_map(|name| R::DeletePosition { name }),
    ]
}

fn repetitions() -> impl Strategy<Value = core::Repetitions> {
    let range = (any::<i64>(), 0_i64..9).prop_map(|(first, more)| core::RepetitionRange {
        first,
        last: first.saturating_add(more),
    });
    vec(range, 0..4).prop_map(core::Repetitions::of)
}

fn saved_repetition() -> impl Strategy<Value = core::SavedRepetition> {
    let source = (any::<i64>(), any::<u64>())
        .prop_map(|(repetition, index)| core::SavedSource { repetition, index });
    (any::<i64>(), vec(source, 0..3), vec(saved_split(), 0..3)).prop_map(
        |(repetition, sources, splits)| core::SavedRepetition { repetition, sources, splits },
    )
}

fn position_value() -> impl Strategy<Value = core::Position> {
    let reading = vec(saved_repetition(), 0..3);
    let named = (shared(), shared());
    let read = (option::of(dataset_id()), option::of(digest()));
    let ended = (repetitions(), repetitions());
    (named, read, time(), ended, reading, lsn()).prop_map(
        |((name, job), (dataset, definition), saved, (finished, abandoned), reading, changed)| {
            core::Position {
                name,
                job,
                dataset,
                definition,
                saved,
                finished,
                abandoned,
                reading,
                changed,
            }
        },
    )
}

pub(crate) fn record() -> impl Strategy<Value = Record> {
    let small = prop_oneof![small_record(), by_split_record()];
    prop_oneof![big_record(), small, freeing_record(), position_record()]
        .prop_map(Record::Dispatcher)
}

fn counters() -> impl Strategy<Value = core::Counters> {
    (any::<i64>(), worker(), job(), iteration(), client(), task()).prop_map(
        |(dataset, worker, job, iteration, client, task)| core::Counters {
            dataset,
            worker,
            job,
            iteration,
            client,
            task,
        },
    )
}

fn dataset() -> impl Strategy<Value = core::Dataset> {
    let rest = (option::of(any::<bool>()), time(), lsn());
    (dataset_id(), definition(), plan(), metadata(), rest).prop_map(
        |(id, definition, plan, metadata, (compression_disabled, used, changed))| core::Dataset {
            used,
            id,
            definition,
            plan,
            metadata,
            compression_disabled,
            changed,
        },
    )
}

fn versions() -> impl Strategy<Value = core::DatasetVersions> {
    let later = proptest::collection::btree_set(dataset_id(), 0..4);
    (dataset_id(), dataset_id(), later).prop_map(|(name, current, later)| core::DatasetVersions {
        name,
        current,
        later,
    })
}

fn worker_value() -> impl Strategy<Value = core::Worker> {
    let rest = (any::<bool>(), lsn());
    (worker(), shared(), profile(), rest).prop_map(|(id, address, profile, (lost, changed))| {
        core::Worker { id, address, profile, tasks: BTreeSet::new(), lost, changed }
    })
}

fn position() -> impl Strategy<Value = core::SourcePosition> {
    (source(), any::<i64>(), any::<u64>())
        .prop_map(|(source, repetition, index)| core::SourcePosition { source, repetition, index })
}

fn pending() -> impl Strategy<Value = core::PendingTask> {
    let ready = prop::collection::btree_set(client(), 0..4);
    (task(), any::<i64>(), any::<u32>(), ready).prop_map(|(task, target_round, failures, ready)| {
        core::PendingTask { task, target_round, failures, ready }
    })
}

fn iteration_value() -> impl Strategy<Value = core::Iteration> {
    let named = (iteration(), job(), any::<i64>());
    let lists = (vec(position(), 0..3), vec(task(), 0..4), vec(pending(), 0..3));
    let flags = (option::of(time()), any::<bool>(), any::<bool>());
    (named, lists, flags, (lsn(), lsn()), (iteration_splits(), by_split())).prop_map(
        |(named, lists, flags, (changed, splits_changed), (splits, by_split))| core::Iteration {
            id: named.0,
            job: named.1,
            repetition: named.2,
            sources: lists.0,
            tasks: lists.1,
            pending: lists.2.into(),
            clients: BTreeSet::new(),
            last_release: flags.0,
            finished: flags.1,
            collected: flags.2,
            changed,
            splits_changed,
            splits,
            by_split,
        },
    )
}

fn client_value() -> impl Strategy<Value = core::Client> {
    (client(), iteration(), time(), lsn(), places(), any::<bool>()).prop_map(
        |(id, iteration, acquired, changed, splits, has_held)| core::Client {
            id,
            iteration,
            acquired,
            splits,
            has_held,
            changed,
        },
    )
}

fn task_value() -> impl Strategy<Value = core::Task> {
    let rest = (any::<i64>(), any::<bool>(), task_splits());
    (task(), iteration(), worker(), rest).prop_map(
        |(id, iteration, worker, (starting_round, finished, splits))| core::Task {
            id,
            iteration,
            worker,
            starting_round,
            finished,
            splits,
        },
    )
}

pub(crate) fn part() -> impl Strategy<Value = Part> {
    let ids = (option::of(job()), option::of(job()));
    use DispatcherPart as P;
    prop_oneof![
        counters().prop_map(P::Counters),
        dataset().prop_map(P::Dataset),
        versions().prop_map(P::DatasetVersions),
        worker_value().prop_map(P::Worker),
        job_value().prop_map(P::Job),
        iteration_value().prop_map(P::Iteration),
        client_value().prop_map(P::Client),
        task_value().prop_map(P::Task),
        position_value().prop_map(P::Position),
        position_value().prop_map(|position| {
            P::Restoration(core::Restoration {
                job: position.job,
                position: position.name,
                dataset: position.dataset,
                definition: position.definition,
                finished: position.finished,
                abandoned: position.abandoned,
                waiting: position.reading,
                changed: position.changed,
            })
        }),
        (position_value(), option::of(parameters()), ids).prop_map(
            |(position, parameters, ids)| {
                P::RetiredJob(core::RetiredJob {
                    name: position.name,
                    id: ids.0,
                    first_id: ids.1,
                    dataset: position.dataset,
                    definition: position.definition,
                    parameters,
                    finished: position.finished,
                    abandoned: position.abandoned,
                    changed: position.changed,
                })
            }
        ),
    ]
    .prop_map(Part::Dispatcher)
}
