//! Requests to workers.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::ShardingPolicy;
use rondo_core::ids::TaskId;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{
    ConsumerRound, ElementAnswer, GetElement, TaskDefinition, WorkerMethod, WorkerRequest,
    decode_element_answer, decode_worker_request, encode_end, encode_nothing, encode_skip,
    encode_worker_request,
};
use rondo_proto::tf::data as wire;

fn decode(method: WorkerMethod, message: &impl Message) -> Result<WorkerRequest, Status> {
    decode_worker_request(method, &message.encode_to_vec().into())
}

fn refused(method: WorkerMethod, message: &impl Message, code: Code) -> String {
    let status = decode(method, message).unwrap_err();
    assert_eq!(status.code, code, "{status}");
    status.message
}

fn task() -> wire::TaskDef {
    wire::TaskDef {
        dataset: Some(wire::task_def::Dataset::DatasetDef(Bytes::from_static(b"\x0a\0"))),
        dataset_id: "1000".into(),
        task_id: 7,
        worker_address: "localhost:1".into(),
        ..Default::default()
    }
}

fn refused_task(task: wire::TaskDef, code: Code) -> String {
    refused(WorkerMethod::ProcessTask, &wire::ProcessTaskRequest { task: Some(task) }, code)
}

#[test]
fn recorded_tasks_return_as_they_came() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/ProcessTask.txt");
    let text = std::fs::read_to_string(folder).unwrap();
    for line in text.lines().filter_map(|line| line.strip_prefix("> ")) {
        let bytes = crate::unhex(&line.into());
        let request = decode_worker_request(WorkerMethod::ProcessTask, &bytes).unwrap();
        assert_eq!(encode_worker_request(&request), (WorkerMethod::ProcessTask.path(), bytes));
    }
}

#[test]
fn a_static_shard_of_a_definition_at_hand() {
    let mode = wire::ProcessingModeDef { sharding_policy: 2 };
    let task = wire::TaskDef {
        processing_mode_def: Some(mode),
        num_workers: 3,
        worker_index: 2,
        ..task()
    };
    let request = wire::ProcessTaskRequest { task: Some(task) };
    let WorkerRequest::ProcessTask(found) = decode(WorkerMethod::ProcessTask, &request).unwrap()
    else {
        panic!("another request");
    };
    assert_eq!(found.definition, TaskDefinition::Inline(Bytes::from_static(b"\x0a\0")));
    assert_eq!((found.sharding, found.workers, found.worker_index), (ShardingPolicy::File, 3, 2));
}

#[test]
fn wrong_tasks_are_refused_by_field() {
    let invalid = |task| refused_task(task, Code::InvalidArgument);
    let mode = Some(wire::ProcessingModeDef { sharding_policy: 3 });
    for (task, right) in [
        (wire::TaskDef { dataset: None, ..task() }, "TaskDef.dataset is missing"),
        (
            wire::TaskDef { worker_address: String::new(), ..task() },
            "TaskDef.worker_address is empty",
        ),
        (wire::TaskDef { num_consumers: Some(0), ..task() }, "TaskDef.num_consumers is 0"),
        (wire::TaskDef { num_split_providers: -1, ..task() }, "TaskDef.num_split_providers is -1"),
        (wire::TaskDef { processing_mode_def: mode, ..task() }, "TaskDef.num_workers is 0"),
        (wire::TaskDef { num_workers: 2, worker_index: 2, ..task() }, "TaskDef.worker_index is 2"),
    ] {
        let text = invalid(task);
        assert!(text.starts_with(right), "{text}");
    }
    let mode = Some(wire::ProcessingModeDef { sharding_policy: 9 });
    refused_task(wire::TaskDef { processing_mode_def: mode, ..task() }, Code::Internal);
    let nothing = wire::ProcessTaskRequest { task: None };
    let text = refused(WorkerMethod::ProcessTask, &nothing, Code::InvalidArgument);
    assert_eq!(text, "ProcessTaskRequest.task is missing; it must be a TaskDef");
}

#[test]
fn requests_for_elements_return_as_they_left() {
    let plain = GetElement {
        task: TaskId::new(7),
        round: None,
        skipped_previous_round: false,
        allow_skip: true,
        trainer: "trainer".into(),
    };
    let round = Some(ConsumerRound { consumer: 0, round: 0 });
    let coordinated = GetElement { round, skipped_previous_round: true, ..plain.clone() };
    for request in [plain, coordinated].map(WorkerRequest::GetElement) {
        let (path, bytes) = encode_worker_request(&request);
        assert_eq!(path, "/tensorflow.data.WorkerService/GetElement");
        assert_eq!(decode_worker_request(WorkerMethod::GetElement, &bytes), Ok(request));
    }
    for request in [WorkerRequest::GetWorkerTasks, WorkerRequest::GetSnapshotTaskProgresses] {
        let (path, bytes) = encode_worker_request(&request);
        let method = WorkerMethod::from_path(path).unwrap();
        assert_eq!(decode_worker_request(method, &bytes), Ok(request));
    }
}

#[test]
fn wrong_rounds_are_refused() {
    let request = |consumer_index, round_index| wire::GetElementRequest {
        consumer_index,
        round_index,
        ..Default::default()
    };
    for (consumer, round, code, right) in [
        (Some(-1), Some(0), Code::FailedPrecondition, "GetElementRequest.consumer_index is -1;"),
        (Some(0), Some(-5), Code::FailedPrecondition, "GetElementRequest.round_index is -5;"),
        (Some(0), None, Code::InvalidArgument, "GetElementRequest.round_index is absent;"),
        (None, Some(0), Code::InvalidArgument, "GetElementRequest.consumer_index is absent;"),
    ] {
        let text = refused(WorkerMethod::GetElement, &request(consumer, round), code);
        assert!(text.starts_with(right), "{text}");
    }
    let trainer_id = "x".repeat(5000);
    let long = wire::GetElementRequest { trainer_id, ..Default::default() };
    let text = refused(WorkerMethod::GetElement, &long, Code::InvalidArgument);
    assert!(text.starts_with("GetElementRequest.trainer_id is 5000 bytes long"), "{text}");
    let long = vec![0; (4 << 20) + 1];
    let status = decode_worker_request(WorkerMethod::GetElement, &long.into()).unwrap_err();
    assert_eq!(status.code, Code::ResourceExhausted);
}

#[test]
fn ends_are_two_bytes_and_may_be_told_again() {
    assert_eq!(encode_end(), [0x10, 1][..]);
    assert_eq!(decode_element_answer(&encode_end(), 10), Ok(ElementAnswer::End));
    assert_eq!(decode_element_answer(&encode_skip(), 10), Ok(ElementAnswer::Skip));
    wire::ProcessTaskResponse::decode(encode_nothing()).unwrap();
    let progress = wire::GetSnapshotTaskProgressesResponse::decode(encode_nothing()).unwrap();
    assert!(progress.snapshot_task_progresses.is_empty());
}
