//! Every refusal that clients depend on: the right status and text from the real binary, which
//! harms nobody else by it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use bytes::Bytes;
use prost::Message;
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use rondo_proto::tf::data::{
    GetOrCreateJobRequest, GetOrCreateJobResponse, MaybeRemoveTaskRequest, MaybeRemoveTaskResponse,
    ProcessingModeDef, TargetWorkers,
};
use rondo_tests::bed::{Bed, assert_refused, path, register};
use rondo_tests::dispatcher::job;
use rondo_tests::graph;
use rondo_tests::server::{Options, Server};
use tonic::Code;

const DYNAMIC: ShardingPolicy = ShardingPolicy::Dynamic;

// What TensorFlow's own tests look for.

#[test]
fn a_client_of_before_a_restart_without_fault_tolerance_is_unknown() {
    let mut bed = Bed::with(&Options::store("segment").flag("--fault-tolerant=false"));
    bed.server.kill();
    bed.server.start_again();
    let result = bed.server.dispatcher().heartbeat(bed.client);
    assert_refused(result, Code::NotFound, "Unknown iteration client id");
}

#[test]
fn an_unknown_client_is_not_found() {
    let bed = Bed::start();
    assert_refused(bed.dispatcher.heartbeat(-1), Code::NotFound, "-1");
    assert_refused(
        bed.dispatcher.heartbeat(bed.client + 1),
        Code::NotFound,
        &(bed.client + 1).to_string(),
    );
    assert_refused(bed.dispatcher.release(77), Code::NotFound, "77");
}

#[test]
fn a_job_name_is_bound_to_its_parameters() {
    let mut bed = Bed::start();
    let ask = |request: &GetOrCreateJobRequest| {
        bed.dispatcher.call::<_, GetOrCreateJobResponse>("GetOrCreateJob", request)
    };
    let dataset = register(&bed.dispatcher, None, graph::range(0, 9, 1)).unwrap();
    let test = job(&dataset, Some("test"), DYNAMIC);
    let cached = GetOrCreateJobRequest {
        use_cross_trainer_cache: true,
        ..job(&dataset, Some("cached"), DYNAMIC)
    };
    let id = ask(&test).unwrap().job_id;
    ask(&cached).unwrap();
    let start = "but found an existing job with different parameters: ";
    let local = TargetWorkers::Local.into();
    let off = Some(ProcessingModeDef { sharding_policy: ShardingPolicy::Off.into() });
    for (other, difference) in [
        (
            GetOrCreateJobRequest { processing_mode_def: off, ..test.clone() },
            "Existing processing mode: <",
        ),
        (
            GetOrCreateJobRequest { target_workers: local, ..test.clone() },
            "Existing target workers: <AUTO>; got <LOCAL>",
        ),
        (
            GetOrCreateJobRequest { use_cross_trainer_cache: true, ..test.clone() },
            "Existing cross-trainer cache: <disabled>; got <enabled>",
        ),
        (
            GetOrCreateJobRequest { use_cross_trainer_cache: false, ..cached },
            "Existing cross-trainer cache: <enabled>; got <disabled>",
        ),
    ] {
        let name = other.job_name();
        let text = format!("Tried to create job with name {name}, {start}{difference}");
        assert_refused(ask(&other), Code::InvalidArgument, &text);
    }
    // Another dataset is no difference: every `distribute()` registers one of its own.
    let same = GetOrCreateJobRequest { dataset_id: "another".into(), ..test };
    assert_eq!(ask(&same).unwrap().job_id, id);
    bed.assert_unharmed();
}

#[test]
fn an_unknown_policy_is_internal() {
    let bed = Bed::start();
    let mode = Some(ProcessingModeDef { sharding_policy: 99 });
    let request = GetOrCreateJobRequest { processing_mode_def: mode, ..job("1000", None, DYNAMIC) };
    let result = bed.dispatcher.call::<_, GetOrCreateJobResponse>("GetOrCreateJob", &request);
    assert_refused(result, Code::Internal, "99");
}

#[test]
fn a_dataset_id_is_bound_to_its_structure() {
    let mut bed = Bed::start();
    let dispatcher = &bed.dispatcher;
    let graph = graph::range(0, 9, 1);
    let metadata = graph::metadata(Compression::Snappy, 9);
    dispatcher.register(Some("mine"), graph.clone(), &metadata).unwrap();
    assert_eq!(dispatcher.register(Some("mine"), graph.clone(), &metadata).unwrap(), "mine");
    let text = "Datasets with the same ID should have the same structure";
    let mut others =
        vec![graph::metadata(Compression::Off, 9), graph::metadata(Compression::Snappy, 10)];
    let float = Bytes::from_static(b"\x8a\x02\x04\x12\x00\x18\x01");
    others
        .push(rondo_proto::tf::data::DataServiceMetadata { element_spec: Some(float), ..metadata });
    for other in others {
        assert_refused(
            dispatcher.register(Some("mine"), graph.clone(), &other),
            Code::InvalidArgument,
            text,
        );
    }
    assert_eq!(dispatcher.metadata("mine").unwrap(), metadata.encode_to_vec());
    bed.assert_unharmed();
}

#[test]
fn an_unknown_dataset_is_not_found() {
    let bed = Bed::start();
    assert_refused(
        bed.dispatcher.metadata("nobody's"),
        Code::NotFound,
        "Dataset id nobody's not found",
    );
    assert_refused(bed.dispatcher.definition("nobody's"), Code::NotFound, "nobody's");
    assert_refused(
        bed.dispatcher.disable_compression("nobody's", true),
        Code::NotFound,
        "nobody's",
    );
}

#[test]
fn an_unlisted_worker_is_refused() {
    let server = Server::start(&Options::store("segment").flag("--worker-addresses=a:1,b:%port%"));
    let dispatcher = server.dispatcher();
    for text in [
        "The worker's address is not configured",
        "other workers are already running at the configured host",
    ] {
        assert_refused(dispatcher.worker_heartbeat("c:1", &[]), Code::FailedPrecondition, text);
    }
    dispatcher.worker_heartbeat("a:1", &[]).unwrap();
    dispatcher.worker_heartbeat("b:7", &[]).unwrap();
    let taken = "other workers are already running at the configured host";
    assert_refused(dispatcher.worker_heartbeat("b:8", &[]), Code::FailedPrecondition, taken);
    dispatcher.worker_heartbeat("b:7", &[]).unwrap();
    assert!(dispatcher.is_serving().unwrap());
}

#[test]
fn static_sharding_wants_listed_workers() {
    let bed = Bed::start();
    let dataset = register(&bed.dispatcher, None, graph::range(0, 9, 1)).unwrap();
    for policy in [
        ShardingPolicy::File,
        ShardingPolicy::Data,
        ShardingPolicy::FileOrData,
        ShardingPolicy::Hint,
    ] {
        let job = bed.dispatcher.job(&dataset, None, policy).unwrap();
        let text = "Worker innocent:1 is not in the workers list.";
        assert_refused(bed.dispatcher.iteration(job, 0), Code::NotFound, text);
    }
}

#[test]
fn what_cannot_be_split_is_refused_when_splits_are_wanted() {
    let mut bed = Bed::start();
    for (op, text) in [
        ("SnapshotDatasetV2", "Splitting is not implemented for snapshot datasets"),
        (
            "DataServiceDatasetV4",
            "Cannot create split providers for dataset of type DataServiceDataset",
        ),
        ("SqlDataset", "Cannot create split providers for dataset of type SqlDataset"),
    ] {
        let dataset = register(&bed.dispatcher, None, graph::source(op)).unwrap();
        let dynamic = bed.dispatcher.job(&dataset, None, DYNAMIC).unwrap();
        assert_refused(bed.dispatcher.iteration(dynamic, 0), Code::Unimplemented, text);
        let off = bed.dispatcher.job(&dataset, None, ShardingPolicy::Off).unwrap();
        bed.dispatcher.iteration(off, 0).unwrap();
    }
    bed.assert_unharmed();
}

#[test]
fn a_collected_iteration_ends_its_clients() {
    let options = Options::store("segment")
        .flag("--job-gc-check-interval=20ms")
        .flag("--job-gc-timeout=20ms")
        .flag("--client-timeout=200ms")
        .flag("--gc-dynamic-sharding-jobs=true");
    let server = Server::start(&options);
    let dispatcher = server.dispatcher();
    dispatcher.worker_heartbeat("worker:1", &[]).unwrap();
    let dataset = register(&dispatcher, None, graph::range(0, 9, 1)).unwrap();
    let job = dispatcher.job(&dataset, Some("short"), DYNAMIC).unwrap();
    let client = dispatcher.iteration(job, 0).unwrap();
    let iteration = dispatcher.heartbeat(client).unwrap().task_info[0].iteration_id;
    dispatcher.release(client).unwrap();
    let collected = || {
        let picture = dispatcher.status().unwrap().dispatcher.unwrap();
        picture.iterations.iter().all(|found| found.id != iteration || found.state == "collected")
    };
    while !collected() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // Its workers are told off by their heartbeats; until then they get no splits.
    match dispatcher.split(iteration, 0, 0) {
        Ok(split) => assert_eq!(split, None),
        Err(status) => assert_eq!(status.code(), Code::NotFound, "{status}"),
    }
    let again = dispatcher.iteration(job, 0).unwrap();
    let fresh = dispatcher.heartbeat(again).unwrap();
    assert!(
        fresh.task_info[0].iteration_id > iteration,
        "the name leads to the collected iteration"
    );
}

#[test]
fn snapshots_are_not_offered() {
    let mut bed = Bed::start();
    for method in ["Snapshot", "GetSnapshotSplit", "GetSnapshotStreams"] {
        let result = bed.dispatcher.bytes(&path(method), Bytes::new());
        assert_refused(result, Code::Unimplemented, "napshot");
    }
    bed.assert_unharmed();
}

// Requests in the wrong state.

#[test]
fn splits_belong_to_dynamic_iterations() {
    let mut bed = Bed::start();
    let dispatcher = &bed.dispatcher;
    assert_refused(dispatcher.split(9999, 0, 0), Code::NotFound, "9999");
    let dataset = register(dispatcher, None, graph::range(0, 9, 1)).unwrap();
    let job = dispatcher.job(&dataset, None, ShardingPolicy::Off).unwrap();
    let client = dispatcher.iteration(job, 0).unwrap();
    let iteration = dispatcher.heartbeat(client).unwrap().task_info[0].iteration_id;
    let code = dispatcher.split(iteration, 0, 0).unwrap_err().code();
    assert_eq!(code, Code::FailedPrecondition);
    bed.assert_unharmed();
}

#[test]
fn a_task_is_given_up_only_in_coordinated_reads() {
    let mut bed = Bed::start();
    let task_id = bed.dispatcher.heartbeat(bed.client).unwrap().task_info[0].task_id;
    let request = MaybeRemoveTaskRequest { task_id, consumer_index: 0, round: 0 };
    let result = bed.dispatcher.call::<_, MaybeRemoveTaskResponse>("MaybeRemoveTask", &request);
    assert_eq!(result.unwrap_err().code(), Code::FailedPrecondition);
    let unknown = MaybeRemoveTaskRequest { task_id: 9999, ..request };
    let result = bed.dispatcher.call::<_, MaybeRemoveTaskResponse>("MaybeRemoveTask", &unknown);
    assert!(result.unwrap().removed);
    bed.assert_unharmed();
}

#[test]
fn a_vote_for_any_round_without_the_others_is_to_be_repeated() {
    const ANY_ROUND: i64 = i64::MAX;
    let mut bed = Bed::with(&Options::store("segment").flag("--removal-timeout=200ms"));
    let dispatcher = &bed.dispatcher;
    let dataset = register(dispatcher, None, graph::range(0, 9, 1)).unwrap();
    let request = GetOrCreateJobRequest {
        num_consumers: Some(2),
        ..job(&dataset, None, ShardingPolicy::Off)
    };
    let job: GetOrCreateJobResponse = dispatcher.call("GetOrCreateJob", &request).unwrap();
    let client = dispatcher.iteration(job.job_id, 0).unwrap();
    let task_id = dispatcher.heartbeat(client).unwrap().task_info[0].task_id;
    let vote = |round| {
        let request = MaybeRemoveTaskRequest { task_id, consumer_index: 0, round };
        dispatcher.call::<_, MaybeRemoveTaskResponse>("MaybeRemoveTask", &request)
    };
    assert_refused(vote(ANY_ROUND), Code::Unavailable, "not all consumers asked");
    assert!(!vote(3).unwrap().removed, "a vote for one round is answered as TensorFlow does");
    bed.assert_unharmed();
}

#[test]
fn an_unknown_task_in_an_update_does_not_poison_the_rest() {
    let bed = Bed::start();
    let task = bed.dispatcher.heartbeat(bed.client).unwrap().task_info[0].task_id;
    bed.dispatcher.finish("innocent:1", &[99_999, -1, task]).unwrap();
    assert!(bed.dispatcher.heartbeat(bed.client).unwrap().iteration_finished);
}

#[test]
fn an_unknown_job_is_not_found() {
    let bed = Bed::start();
    for job in [0, -1, i64::MIN, i64::MAX] {
        assert_refused(bed.dispatcher.iteration(job, 0), Code::NotFound, &job.to_string());
    }
}
