//! A reader's side of the wire: the server reads in its requests what they mean, and whatever bytes
//! peers answer with, they are a checked value or a refusal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use rondo_core::dispatcher::{
    self, GetOrCreateJob, Group, HoldSplits, ShardingPolicy, TargetWorkers,
};
use rondo_core::ids::{ClientId, DatasetId, JobId, TaskId};
use rondo_core::limits::NAME_BYTES_MAX;
use rondo_core::reader::{
    Answer, FetchElement, Member, ReadSplit, Request, SplitProgress, SplitsAnswer,
};
use rondo_core::status::Code;
use rondo_proto::admin;
use rondo_proto::convert::{
    ConsumerRound, Decoded, GetElement, HOLD_SPLITS_PATH, Method, VERSION_TO_READ_PATH,
    WorkerMethod, WorkerRequest, decode_definition_answer, decode_hold, decode_metadata_answer,
    decode_position_request, decode_reader_answer, decode_records, decode_registered,
    decode_request, decode_version_answer, decode_version_request, decode_worker_request,
    encode_fetch, encode_get_definition, encode_get_metadata, encode_metadata, encode_read_split,
    encode_reader_request, encode_register, encode_restoration, encode_version_reply,
    encode_version_request,
};
use rondo_proto::tf::data as wire;

const CLIENT: ClientId = ClientId::new(3000);

fn job() -> GetOrCreateJob {
    GetOrCreateJob {
        dataset: DatasetId::new("quakes"),
        same_dataset: true,
        sharding: ShardingPolicy::Dynamic,
        name: Some("train".into()),
        consumers: Some(3),
        use_cross_trainer_cache: false,
        target_workers: TargetWorkers::Any,
    }
}

/// What the dispatcher reads in a request.
fn read(request: &Request) -> dispatcher::Request {
    let (path, message) = encode_reader_request(&job(), request);
    match decode_request(Method::from_path(path).unwrap(), &message).unwrap() {
        Decoded::Request(request) => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_dispatcher_reads_what_is_meant() {
    assert_eq!(read(&Request::CreateJob), dispatcher::Request::GetOrCreateJob(job()));
    assert_eq!(
        read(&Request::CreateIteration { job: JobId::new(5000), repetition: 2 }),
        dispatcher::Request::GetOrCreateIteration { job: JobId::new(5000), repetition: 2 }
    );
    let (current_round, blocked_round) = (Some(0), Some(7));
    assert_eq!(
        read(&Request::Heartbeat { client: CLIENT, current_round, blocked_round }),
        dispatcher::Request::ClientHeartbeat(dispatcher::ClientHeartbeat {
            client: CLIENT,
            current_round,
            blocked_round,
            target_processing_time_ns: 0,
        })
    );
    let task = TaskId::new(4000);
    assert_eq!(
        read(&Request::RemoveTask { task, consumer: 1, round: 9 }),
        dispatcher::Request::MaybeRemoveTask { task, consumer_index: 1, round: 9 }
    );
    assert_eq!(
        read(&Request::Release { client: CLIENT }),
        dispatcher::Request::ReleaseClient { client: CLIENT }
    );
}

#[test]
fn holding_splits_is_read_as_it_is_meant() {
    for (group, meant) in
        [(None, Group::ALL), (Some(Member { index: 1, size: 3 }), Group { index: 1, size: 3 })]
    {
        let progress = vec![SplitProgress { place: 4, records: 7, is_finished: true }];
        let request = Request::HoldSplits { client: CLIENT, hold: 5, progress, group };
        let (path, message) = encode_reader_request(&job(), &request);
        assert_eq!(path, HOLD_SPLITS_PATH);
        let progress = vec![dispatcher::SplitProgress { place: 4, records: 7, finished: true }];
        let meant = HoldSplits { client: CLIENT, hold: 5, progress, group: meant };
        assert_eq!(decode_hold(&message), Ok(meant));
    }
}

#[test]
fn workers_read_what_is_meant() {
    let read = ReadSplit { task: TaskId::new(4000), split: -3, skip: 9, batch_records: 2 };
    let message = admin::ReadSplitRequest::decode(encode_read_split(&read)).unwrap();
    let meant = admin::ReadSplitRequest { task_id: 4000, split: -3, skip: 9, batch_records: 2 };
    assert_eq!(message, meant);
    let fetch = FetchElement {
        task: TaskId::new(4000),
        round: Some((1, 8)),
        skipped_previous_round: true,
        allow_skip: true,
    };
    let (path, message) = encode_fetch(&fetch);
    let method = WorkerMethod::from_path(path).unwrap();
    let meant = WorkerRequest::GetElement(GetElement {
        task: TaskId::new(4000),
        round: Some(ConsumerRound { consumer: 1, round: 8 }),
        skipped_previous_round: true,
        allow_skip: true,
        trainer: String::new(),
    });
    assert_eq!(decode_worker_request(method, &message), Ok(meant));
}

#[test]
fn what_is_registered_comes_back() {
    let metadata = rondo_proto::convert::RegisteredMetadata {
        element_spec: Bytes::from_static(b"\x8a\x02\x00"),
        compression: dispatcher::Compression::Snappy,
        cardinality: -2,
    };
    let encoded = encode_metadata(&metadata);
    let (path, message) =
        encode_register(Some("quakes"), Bytes::from_static(b"def"), encoded.clone(), true);
    assert_eq!(path, Method::GetOrRegisterDataset.path());
    let request = wire::GetOrRegisterDatasetRequest::decode(message).unwrap();
    assert_eq!((request.dataset_id.as_deref(), request.replaces), (Some("quakes"), true));
    let answer = wire::GetDataServiceMetadataResponse { metadata: Some(encoded) };
    assert_eq!(decode_metadata_answer(&answer.encode_to_vec().into()), Ok(metadata));
    for (path, message) in [encode_get_metadata("quakes"), encode_get_definition("quakes")] {
        decode_request(Method::from_path(path).unwrap(), &message).unwrap();
    }
    assert_eq!(decode_definition_answer(&Bytes::new()).unwrap_err().code, Code::Internal);
}

#[test]
fn a_reader_goes_back_to_a_position_with_the_job_that_it_wants() {
    let job = job();
    let (path, message) = encode_restoration("best", &job);
    let asked = dispatcher::Request::RestorePosition {
        name: "best".into(),
        job: "train".into(),
        wanted: Some(Box::new(job)),
    };
    assert_eq!(decode_position_request(path, &message), Ok(Some(asked)));
}

#[test]
fn the_version_to_read_is_asked_for_and_told() {
    for job in [None, Some("train")] {
        let (path, message) = encode_version_request("quakes", job, Some("best"));
        assert_eq!(path, VERSION_TO_READ_PATH);
        let asked = dispatcher::Request::GetVersionToRead {
            dataset: DatasetId::new("quakes"),
            job: job.map(Into::into),
            position: Some("best".into()),
        };
        assert_eq!(decode_version_request(&message), Ok(asked));
    }
    let version = DatasetId::new("quakes@2");
    let answer = encode_version_reply(&dispatcher::Reply::Dataset(version.clone())).unwrap();
    assert_eq!(decode_version_answer(&answer), Ok(version));
    assert_eq!(encode_version_reply(&dispatcher::Reply::JobDeleted), None);
    let broken = Bytes::from_static(b"\xff");
    assert_eq!(decode_version_request(&broken).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(decode_version_answer(&broken).unwrap_err().code, Code::Internal);
    let (_, long) = encode_version_request(&"n".repeat(NAME_BYTES_MAX + 1), None, None);
    assert_eq!(decode_version_request(&long).unwrap_err().code, Code::InvalidArgument);
    let (_, long) = encode_version_request("quakes", None, Some(&"n".repeat(NAME_BYTES_MAX + 1)));
    assert_eq!(decode_version_request(&long).unwrap_err().code, Code::InvalidArgument);
}

fn heartbeat(task: wire::TaskInfo) -> Result<Answer, String> {
    let request = Request::Heartbeat { client: CLIENT, current_round: None, blocked_round: None };
    let answer = wire::ClientHeartbeatResponse { task_info: vec![task], ..Default::default() };
    decode_reader_answer(&request, &answer.encode_to_vec().into()).map_err(|status| {
        assert_eq!(status.code, Code::Internal);
        status.message
    })
}

#[test]
fn tasks_are_told_with_where_their_workers_serve_what() {
    let server = wire::DataTransferServerInfo {
        protocol: "rondo".into(),
        address: "a:2".into(),
        ..Default::default()
    };
    let task = wire::TaskInfo {
        worker_address: "a:1".into(),
        task_id: 4000,
        starting_round: 3,
        transfer_servers: vec![server],
        ..Default::default()
    };
    let Ok(Answer::Heartbeat(told)) = heartbeat(task.clone()) else {
        panic!("a task is told");
    };
    assert_eq!(told.tasks.len(), 1);
    assert_eq!((told.tasks[0].id, told.tasks[0].starting_round), (TaskId::new(4000), 3));
    assert_eq!(told.tasks[0].servers, [("rondo".into(), "a:2".into())]);
    let long = wire::TaskInfo { worker_address: "x".repeat(NAME_BYTES_MAX + 1), ..task };
    let refusal = heartbeat(long).unwrap_err();
    assert!(refusal.contains("worker_address is 4097 bytes long"), "{refusal}");
}

fn records(change: impl FnOnce(&mut admin::ReadSplitResponse)) -> Result<u64, String> {
    let mut message = admin::ReadSplitResponse {
        first: 3,
        count: 2,
        records: Bytes::from_static(b"ab"),
        ..Default::default()
    };
    change(&mut message);
    let decoded = decode_records(message.encode_to_vec(), 20_000);
    decoded.map(|records| records.count).map_err(|status| status.message)
}

#[test]
fn records_that_contradict_themselves_are_refused() {
    assert_eq!(records(|_| {}), Ok(2));
    for (wrong, said) in [
        (records(|it| it.first = u64::MAX), "2 records from 18446744073709551615 on"),
        (records(|it| it.records = Bytes::new()), "2 records take 0 bytes"),
        (records(|it| it.count = 0), "0 records take 2 bytes"),
        (records(|it| it.records = vec![0; 20_000].into()), "at most 20000 are allowed"),
        (records(|it| it.skipped = vec![admin::Skipped::default(); 5000]), "5000 items"),
    ] {
        let refusal = wrong.unwrap_err();
        assert!(refusal.contains(said), "{said}: {refusal}");
    }
}

#[test]
fn splits_out_of_order_are_refused() {
    let request =
        Request::HoldSplits { client: CLIENT, hold: 1, progress: Vec::new(), group: None };
    let answer = |places: &[u64]| {
        let split = |place: &u64| admin::HeldSplit { place: *place, ..Default::default() };
        let splits = places.iter().map(split).collect();
        let message = admin::HoldSplitsResponse { splits, ..Default::default() };
        decode_reader_answer(&request, &message.encode_to_vec().into())
    };
    assert!(matches!(
        answer(&[1, 4]),
        Ok(Answer::Splits(SplitsAnswer { splits, is_finished: false, .. })) if splits.len() == 2
    ));
    for places in [&[4, 1][..], &[4, 4], &vec![0; 2000]] {
        assert_eq!(answer(places).unwrap_err().code, Code::Internal);
    }
}

proptest! {
    #[test]
    fn whatever_peers_answer_nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        let requests = [
            Request::CreateJob,
            Request::CreateIteration { job: JobId::new(1), repetition: 0 },
            Request::Heartbeat { client: CLIENT, current_round: None, blocked_round: None },
            Request::HoldSplits { client: CLIENT, hold: 1, progress: Vec::new(), group: None },
            Request::RemoveTask { task: TaskId::new(1), consumer: 0, round: 0 },
            Request::Release { client: CLIENT },
        ];
        let refusals = requests.iter().filter_map(|it| decode_reader_answer(it, &bytes).err());
        let more = [
            decode_registered(&bytes).err(),
            decode_metadata_answer(&bytes).err(),
            decode_definition_answer(&bytes).err(),
            decode_records(&bytes, 100).err().filter(|status| status.code != Code::ResourceExhausted),
        ];
        for refusal in refusals.chain(more.into_iter().flatten()) {
            prop_assert_eq!(refusal.code, Code::Internal);
        }
    }
}
