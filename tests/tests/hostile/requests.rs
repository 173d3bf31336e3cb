//! What hostile requests get: the right status and a text that names what is wrong, from a server
//! that stays well and harms nobody else.

use bytes::Bytes;
use prost::Message;
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use rondo_proto::tf::data::{
    ClientHeartbeatRequest, ClientHeartbeatResponse, GetOrCreateJobRequest, GetOrCreateJobResponse,
    GetOrRegisterDatasetRequest, GetOrRegisterDatasetResponse, WorkerHeartbeatRequest,
    WorkerHeartbeatResponse,
};
use rondo_tests::bed::{Bed, assert_refused, path, register};
use rondo_tests::dispatcher::job;
use rondo_tests::graph;
use rondo_tests::server::Options;
use tonic::Code;

const DYNAMIC: ShardingPolicy = ShardingPolicy::Dynamic;

/// The command asks for none of these; another client may.
#[test]
fn a_name_that_is_empty_is_refused_and_harms_nobody() {
    let mut bed = Bed::start();
    for (method, field, what) in [
        ("DeleteJob", "DeleteJobRequest.name", "a job"),
        ("DeleteDataset", "DeleteDatasetRequest.dataset_id", "a dataset"),
        ("RemoveWorker", "RemoveWorkerRequest.address", "a worker"),
        ("SavePosition", "SavePositionRequest.name", "a position"),
        ("RestorePosition", "RestorePositionRequest.name", "a position"),
        ("DeletePosition", "DeletePositionRequest.name", "a position"),
    ] {
        let result = bed.dispatcher.bytes(&format!("/rondo.v1.Admin/{method}"), Bytes::new());
        let text = format!("{field} is empty; it must name {what}");
        assert_refused(result, Code::InvalidArgument, &text);
    }
    bed.assert_unharmed();
}

#[test]
fn numbers_out_of_range_are_named() {
    let mut bed = Bed::start();
    for source in [-1, 1, i64::MAX, i64::MIN] {
        let result = bed.dispatcher.split(bed.iteration, 0, source);
        assert_refused(result, Code::InvalidArgument, &source.to_string());
    }
    assert_refused(bed.dispatcher.split(bed.iteration, -5, 0), Code::InvalidArgument, "-5");
    let job = bed.dispatcher.job("1000", Some("innocent"), DYNAMIC).unwrap();
    assert_refused(bed.dispatcher.iteration(job, -2), Code::InvalidArgument, "-2");
    for consumers in [0, -3, i64::MAX] {
        let request = GetOrCreateJobRequest { num_consumers: Some(consumers), ..rondo_job() };
        let result = bed.dispatcher.call::<_, GetOrCreateJobResponse>("GetOrCreateJob", &request);
        assert_refused(result, Code::InvalidArgument, &consumers.to_string());
    }
    let heartbeat = ClientHeartbeatRequest {
        iteration_client_id: bed.client,
        current_round: Some(i64::MIN),
        blocked_round: Some(i64::MAX),
        target_processing_time_nsec: f64::NAN,
    };
    // Whatever it is answered, it must not hurt.
    drop(bed.dispatcher.call::<_, ClientHeartbeatResponse>("ClientHeartbeat", &heartbeat));
    bed.assert_unharmed();
}

fn rondo_job() -> GetOrCreateJobRequest {
    job("1000", None, DYNAMIC)
}

#[test]
fn missing_fields_are_named() {
    let mut bed = Bed::start();
    let whole = GetOrRegisterDatasetRequest {
        dataset: Some(graph::range(0, 9, 1)),
        metadata: Some(graph::metadata(Compression::Off, 9).encode_to_vec().into()),
        dataset_id: None,
        replaces: false,
    };
    let ask = |request: &GetOrRegisterDatasetRequest| {
        bed.dispatcher.call::<_, GetOrRegisterDatasetResponse>("GetOrRegisterDataset", request)
    };
    ask(&whole).unwrap();
    let without = GetOrRegisterDatasetRequest { dataset: None, ..whole };
    assert_refused(ask(&without), Code::InvalidArgument, "dataset");
    let nameless = WorkerHeartbeatRequest::default();
    let result = bed.dispatcher.call::<_, WorkerHeartbeatResponse>("WorkerHeartbeat", &nameless);
    assert_refused(result, Code::InvalidArgument, "worker_address");
    bed.assert_unharmed();
}

const METHODS: [&str; 15] = [
    "GetVersion",
    "GetOrRegisterDataset",
    "GetDataServiceMetadata",
    "GetDataServiceConfig",
    "DisableCompressionAtRuntime",
    "GetOrCreateJob",
    "GetOrCreateIteration",
    "ClientHeartbeat",
    "ReleaseIterationClient",
    "WorkerHeartbeat",
    "WorkerUpdate",
    "GetDatasetDef",
    "GetSplit",
    "MaybeRemoveTask",
    "GetWorkers",
];

#[test]
fn bytes_that_are_no_message_are_invalid() {
    let mut bed = Bed::start();
    for method in METHODS {
        for bytes in
            [&b"\xff\xff\xff\xff"[..], b"\x0a\xff\xff\xff\xff\x0f", b"\x08", b"\x0a\x05abc"]
        {
            let result = bed.dispatcher.bytes(&path(method), Bytes::from_static(bytes));
            // Requests without fields may skip over anything that looks like unknown ones.
            match result {
                Ok(_) => assert!(
                    ["GetVersion", "GetDataServiceConfig", "GetWorkers"].contains(&method),
                    "{method}"
                ),
                Err(status) => {
                    assert_eq!(status.code(), Code::InvalidArgument, "{method}: {status}")
                }
            }
        }
    }
    bed.assert_unharmed();
}

#[test]
fn unknown_methods_and_services_are_unimplemented() {
    let mut bed = Bed::start();
    for path in ["/tensorflow.data.DispatcherService/Nothing", "/nobody.Service/GetSplit"] {
        let code = bed.dispatcher.bytes(path, Bytes::new()).unwrap_err().code();
        assert_eq!(code, Code::Unimplemented, "{path}");
    }
    bed.assert_unharmed();
}

#[test]
fn a_graph_that_is_none_is_refused_or_cannot_be_split() {
    let mut bed = Bed::start();
    // A graph of garbage, one nested without end, and a DatasetDef without a graph.
    let nested = (0..2000).fold(vec![0x0a, 0x00], |inner, _| {
        let mut outer = vec![0x0a];
        prost::encoding::encode_varint(u64::try_from(inner.len()).unwrap(), &mut outer);
        outer.extend(inner);
        outer
    });
    for definition in [vec![0xff; 64], nested, vec![], b"\x0a\x04\x0a\x02\x0a\xff".to_vec()] {
        match register(&bed.dispatcher, None, definition.into()) {
            Err(status) => assert_eq!(status.code(), Code::InvalidArgument, "{status}"),
            Ok(dataset) => {
                let job = bed.dispatcher.job(&dataset, None, DYNAMIC).unwrap();
                let status = bed.dispatcher.iteration(job, 0).unwrap_err();
                let finals = [Code::Unimplemented, Code::InvalidArgument, Code::NotFound];
                assert!(finals.contains(&status.code()), "{status}");
                assert!(status.message().contains("dataset"), "{status}");
            }
        }
    }
    bed.assert_unharmed();
}

#[test]
fn a_graph_of_100_mb_is_kept_and_given_back() {
    let mut bed = Bed::start();
    let graph = graph::slices(100 << 20);
    let dataset = register(&bed.dispatcher, Some("large"), graph.clone()).unwrap();
    assert!(bed.dispatcher.definition(&dataset).unwrap() == graph, "another graph came back");
    bed.assert_unharmed();
    bed.server.kill();
    bed.server.start_again();
    bed.dispatcher = bed.server.dispatcher();
    assert!(
        bed.dispatcher.definition(&dataset).unwrap() == graph,
        "another graph came back after a restart"
    );
    bed.assert_unharmed();
}

#[test]
fn a_request_above_the_bound_is_refused_with_the_bound() {
    let mut bed = Bed::with(&Options::store("segment").flag("--message-size-max=1048576"));
    let result = register(&bed.dispatcher, None, graph::slices(2 << 20));
    assert_refused(result, Code::ResourceExhausted, "1048576");
    register(&bed.dispatcher, None, graph::slices(1 << 19)).unwrap();
    bed.assert_unharmed();
}

#[test]
fn giant_names_are_refused_by_length() {
    let mut bed = Bed::start();
    let giant = "x".repeat(1 << 20);
    let graph = graph::range(0, 9, 1);
    let dispatcher = &bed.dispatcher;
    for result in [
        register(dispatcher, Some(&giant), graph).map(drop),
        dispatcher.job(&giant, None, DYNAMIC).map(drop),
        dispatcher.job("1000", Some(&giant), DYNAMIC).map(drop),
        dispatcher.worker_heartbeat(&giant, &[]).map(drop),
    ] {
        let status = result.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(
            status.message().len() < 1000,
            "the text repeats the giant: {} bytes",
            status.message().len()
        );
        assert!(status.message().contains("4096"), "{status}");
    }
    bed.assert_unharmed();
}

#[test]
fn odd_dataset_ids_name_no_files() {
    let mut bed = Bed::start();
    for id in ["../../escape", "/etc/passwd", "a/b", "", " ", "\u{1F980}", "nul\0l"] {
        match register(&bed.dispatcher, Some(id), graph::slices(100_000)) {
            Ok(given) => assert!(!bed.dispatcher.definition(&given).unwrap().is_empty(), "{id:?}"),
            Err(status) => assert_eq!(status.code(), Code::InvalidArgument, "{id:?}: {status}"),
        }
    }
    let outside = bed.server.data().parent().unwrap().join("escape");
    assert!(
        !outside.exists()
            && !bed.server.data().parent().unwrap().parent().unwrap().join("escape").exists()
    );
    bed.assert_unharmed();
}

#[test]
fn a_heartbeat_of_many_tasks_is_bounded() {
    let mut bed = Bed::start();
    let tasks: Vec<i64> = (0..1_000_000).collect();
    let status = bed.dispatcher.worker_heartbeat("crowd:1", &tasks).unwrap_err();
    assert!([Code::InvalidArgument, Code::ResourceExhausted].contains(&status.code()), "{status}");
    assert!(status.message().contains("65536"), "{status}");
    bed.assert_unharmed();
}
