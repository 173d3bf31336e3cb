//! `rondo worker` as others see it: its names and tags, its refusals, and the records of a split.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use prost::Message;
use rondo::transport::{Client, Transport};
use rondo_core::element::Values;
use rondo_core::status::{Code, Status};
use rondo_data::{Pipeline, from_ipc};
use rondo_proto::admin::{ReadSplitRequest, ReadSplitResponse};
use rondo_proto::convert::{ElementAnswer, READ_SPLIT_PATH, decode_element_answer};
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use rondo_proto::tf::data::{GetElementRequest, GetElementResponse, TaskInfo};
use rondo_tests::datasets::register;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::server::{self, Options, Server};
use rondo_tests::worker::Worker;

const GET_ELEMENT: &str = "/tensorflow.data.WorkerService/GetElement";

/// The tasks of a fresh iteration over `numbers`.
fn tasks(server: &Server, policy: ShardingPolicy) -> Vec<TaskInfo> {
    let dispatcher = server.dispatcher();
    let numbers = Pipeline { split_records: Some(100), ..Pipeline::range(0, 1000) };
    let dataset = register(&dispatcher, "numbers", &numbers, Compression::Off);
    let job = dispatcher.job(&dataset, None, policy).unwrap();
    let client = dispatcher.iteration(job, 0).unwrap();
    dispatcher.heartbeat(client).unwrap().task_info
}

/// The values of a split behind the first `skip`.
fn read_split(worker: &str, task_id: i64, split: i64, skip: u64) -> Result<Vec<i64>, Status> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let request = ReadSplitRequest { task_id, split, skip, batch_records: 7 };
        let message = request.encode_to_vec().into();
        let mut stream = Client::new().streaming(worker, READ_SPLIT_PATH, message);
        let (mut values, mut is_over) = (Vec::new(), false);
        while let Some(answer) = stream.next().await? {
            let answer = ReadSplitResponse::decode(answer).unwrap();
            assert!(!is_over, "nothing comes behind the last");
            assert_eq!(answer.first, skip + values.len() as u64);
            assert!(answer.count <= 7 && (answer.count > 0 || answer.last), "{answer:?}");
            is_over = answer.last;
            if answer.count > 0 {
                let records = from_ipc(&answer.records).unwrap();
                assert_eq!(records.num_rows() as u64, answer.count);
                values.extend(rows(&records));
            }
        }
        assert!(is_over, "a stream that ends without an error has said so");
        Ok(values)
    })
}

fn rows(records: &arrow::record_batch::RecordBatch) -> Vec<i64> {
    use arrow::array::AsArray;
    records.column(0).as_primitive::<arrow::datatypes::Int64Type>().values().to_vec()
}

#[test]
fn consumers_learn_of_its_tags_and_of_both_ways_to_read() {
    let server = Server::start(&Options::store("segment"));
    let worker = Worker::start(&server.address(), &["--tag=gpu", "--tag=zone-b"]);
    let [task] = &tasks(&server, ShardingPolicy::Dynamic)[..] else { panic!("one worker") };
    assert_eq!(task.worker_address, worker.address());
    assert_eq!(task.worker_tags, ["gpu", "zone-b"]);
    let ways: Vec<_> = task.transfer_servers.iter().map(|it| it.protocol.as_str()).collect();
    assert_eq!(ways, ["grpc", "rondo"]);
    assert!(task.transfer_servers.iter().all(|it| it.address == worker.address()));
}

#[test]
fn slots_are_workers_of_their_own() {
    let server = Server::start(&Options::store("segment"));
    let worker = Worker::start(&server.address(), &["--slots=3"]);
    let dispatcher = server.dispatcher();
    let named = || -> BTreeSet<String> {
        let picture = dispatcher.status().unwrap().dispatcher.unwrap();
        picture.workers.into_iter().map(|worker| worker.address).collect()
    };
    for _ in 0..500 {
        if named().len() == 3 {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    let named = named();
    assert_eq!(named.len(), 3, "{named:?}");
    assert!(named.contains(&worker.address()));
}

#[test]
fn a_split_is_read_from_any_record_on() {
    let server = Server::start(&Options::store("segment"));
    let worker = Worker::start(&server.address(), &[]);
    let task = tasks(&server, ShardingPolicy::Dynamic)[0].task_id;
    for (split, skip) in [(0, 0), (3, 0), (3, 50), (9, 99), (9, 100)] {
        let wanted: Vec<i64> = (split * 100 + skip..split * 100 + 100).collect();
        let skip = skip.try_into().unwrap();
        assert_eq!(read_split(&worker.address(), task, split, skip), Ok(wanted));
    }
    let beyond = read_split(&worker.address(), task, 10, 0).unwrap_err();
    assert_eq!(beyond.code, Code::InvalidArgument, "{beyond}");
    let unknown = read_split(&worker.address(), task + 100, 0, 0).unwrap_err();
    assert_eq!(unknown.code, Code::Unavailable, "{unknown}");
}

#[test]
fn elements_come_once_and_the_end_every_time() {
    let server = Server::start(&Options::store("segment"));
    let worker = Worker::start(&server.address(), &[]);
    let task_id = tasks(&server, ShardingPolicy::Off)[0].task_id;
    let consumer = Dispatcher::connect(&worker.address());
    let request = GetElementRequest { task_id, ..Default::default() };
    let get = || consumer.method::<_, GetElementResponse>(GET_ELEMENT, &request).unwrap();
    for _ in 0..1000 {
        let answer = get();
        assert!(answer.element.is_some() && !answer.end_of_sequence, "{answer:?}");
    }
    for _ in 0..3 {
        assert!(get().end_of_sequence);
    }
    let unknown = GetElementRequest { task_id: task_id + 100, ..Default::default() };
    let refused = consumer.method::<_, GetElementResponse>(GET_ELEMENT, &unknown).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    drop(worker);
}

/// All values that a consumer gets from a task.
fn read_all(task: &TaskInfo) -> Vec<i64> {
    let consumer = Dispatcher::connect(&task.worker_address);
    let request = GetElementRequest { task_id: task.task_id, ..Default::default() };
    let mut values = Vec::new();
    loop {
        let answer = consumer.bytes(GET_ELEMENT, request.encode_to_vec().into()).unwrap();
        match decode_element_answer(&answer, 1 << 20).unwrap() {
            ElementAnswer::Element(element) => {
                let Values::Fixed(bytes) = element.components[0].values() else { panic!() };
                values.push(i64::from_le_bytes(bytes.as_ref().try_into().unwrap()));
            }
            ElementAnswer::End => return values,
            ElementAnswer::Skip => {}
        }
    }
}

#[test]
fn splits_of_a_worker_that_is_back_at_once_are_not_forgotten() {
    let server = Server::start(&Options::store("segment").flag("--reissue-lost-splits"));
    let mut worker = Worker::start(&server.address(), &[]);
    let task = tasks(&server, ShardingPolicy::Dynamic).remove(0);
    let consumer = Dispatcher::connect(&task.worker_address);
    let request = GetElementRequest { task_id: task.task_id, ..Default::default() };
    // By now it has taken splits, of which others know nothing.
    let answer: GetElementResponse = consumer.method(GET_ELEMENT, &request).unwrap();
    assert!(answer.element.is_some());
    worker.kill();
    worker.start_again();
    let mut values = read_all(&task);
    values.sort_unstable();
    assert_eq!(values, (0..1000).collect::<Vec<_>>());
}

#[test]
fn workers_in_a_list_divide_the_elements() {
    let places = "--worker-addresses=127.0.0.1:%port%,127.0.0.1:%port%";
    let server = Server::start(&Options::store("segment").flag(places));
    let _workers = [1, 2].map(|_| Worker::start(&server.address(), &[]));
    let tasks = tasks(&server, ShardingPolicy::Data);
    assert_eq!(tasks.len(), 2);
    let mut shares: Vec<Vec<i64>> = tasks.iter().map(read_all).collect();
    shares.sort();
    let every_other = |first: i64| (first..1000).step_by(2).collect::<Vec<_>>();
    assert_eq!(shares, [every_other(0), every_other(1)]);
}

#[test]
fn a_refused_worker_says_why() {
    let server = Server::start(&Options::store("segment").flag("--worker-addresses=elsewhere:1"));
    let dispatcher = format!("--server={}", server.address());
    let ended = server::run(&["worker", &dispatcher]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    assert!(ended.log.contains("not configured"), "{}", ended.log);
}

#[test]
fn a_worker_whose_dispatcher_goes_says_so_and_when_it_is_back() {
    let mut server = Server::start(&Options::store("segment"));
    let address = server.address();
    let worker = Worker::start(&address, &[]);
    let says = |what: &str| {
        let until = Instant::now() + Duration::from_secs(60);
        while !worker.log().contains(what) {
            assert!(Instant::now() < until, "no {what:?} in {}", worker.log());
            sleep(Duration::from_millis(20));
        }
    };
    server.kill();
    says("the dispatcher is away");
    let names_it = format!("dispatcher=\"{address}\"");
    assert!(worker.log().contains(&names_it), "{}", worker.log());
    server.start_again();
    says("the dispatcher is there");
}

#[test]
fn wrong_settings_are_named() {
    let wrong: [(&[&str], &str); 5] = [
        (&[], "--server"),
        (&["--server=a:1", "--tag="], "--tag"),
        (&["--server=a:1", "--slots=2", "--address=b:2"], "%port%"),
        (&["--server=a:1", "--address=b"], "--address"),
        (&["--server=a:1", "--listen=0.0.0.0:0", "--insecure"], "--address"),
    ];
    for (flags, named) in wrong {
        let ended = server::run(&[&["worker"], flags].concat());
        assert_eq!(ended.status.code(), Some(2), "{flags:?}: {}", ended.log);
        assert!(ended.log.contains(named), "{flags:?}: {}", ended.log);
    }
}
