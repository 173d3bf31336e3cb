//! Rust readers read what TensorFlow registered and TensorFlow's workers serve.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

use std::time::Duration;

use rondo::reader::{Builder, Content, Reader, ShardingPolicy};
use rondo_core::element::{Element, Values};
use rondo_tests::server::{Options, Server};
use rondo_tests::tensorflow::{self, Worker};

const WORKERS: usize = 2;
const ELEMENTS: i64 = 300;
/// A read that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, workers, and what is registered; what each test reads is its own job.
struct Bed {
    server: Server,
    _workers: Vec<Worker>,
}

fn bed() -> Option<Bed> {
    let python = tensorflow::python()?;
    let server = Server::start(&Options::store("segment"));
    let workers = Worker::start(python, &server.address(), WORKERS);
    let arguments =
        [format!("--dispatcher={}", server.address()), format!("--elements={ELEMENTS}")];
    tensorflow::run_to_success(python, "register_datasets.py", &arguments);
    Some(Bed { server, _workers: workers })
}

impl Bed {
    fn reader(&self, dataset: &str, job: &str, policy: ShardingPolicy) -> Builder {
        Reader::builder(&self.server.address()).dataset(dataset).job(job).sharding(policy)
    }
}

/// The values of a component of eight bytes.
fn numbers(element: &Element, component: usize) -> Vec<i64> {
    let Values::Fixed(bytes) = element.components[component].values() else {
        panic!("{element:?}");
    };
    bytes.chunks(8).map(|value| i64::from_le_bytes(value.try_into().unwrap())).collect()
}

/// Reads up to so many elements.
async fn read(reader: &mut Reader, at_most: usize) -> Vec<Element> {
    let mut elements = Vec::new();
    while elements.len() < at_most {
        let next = tokio::time::timeout(PATIENCE, reader.next()).await.expect("it hangs");
        match next {
            None => break,
            Some(Ok(delivery)) => match delivery.content {
                Content::Element(element) => elements.push(element),
                other => panic!("{other:?}"),
            },
            Some(Err(status)) => panic!("{status}"),
        }
    }
    elements
}

/// Checks a row against how it was made, and returns its number.
fn number_of(row: &Element) -> i64 {
    // Keys in order: number, pair.0, pair.1, text.
    assert_eq!(row.components.len(), 4, "{row:?}");
    let number = numbers(row, 0)[0];
    assert_eq!(numbers(row, 1), [number, number + 1]);
    let half = (number as f32 / 2.0).to_le_bytes();
    assert_eq!(*row.components[2].values(), Values::Fixed(half.to_vec().into()));
    let text: Vec<_> = row.components[3].each_string().collect();
    assert_eq!(text, [number.to_string()]);
    number
}

async fn rows(bed: &Bed, dataset: &str, policy: ShardingPolicy) -> Vec<i64> {
    let job = format!("{dataset}-{}", policy.name());
    let mut reader = bed.reader(dataset, &job, policy).open().await.unwrap();
    assert!(!reader.is_by_split(), "the dataset is TensorFlow's");
    let spec = reader.element_spec().unwrap().expect("it was registered");
    let paths: Vec<_> = spec.components().into_iter().map(|component| component.path).collect();
    assert_eq!(paths, ["number", "pair.0", "pair.1", "text"]);
    let rows = read(&mut reader, usize::MAX).await;
    let report = reader.progress().await.report;
    assert_eq!((report.counts.records, report.counts.skipped), (rows.len() as u64, 0));
    reader.close().await.unwrap();
    let mut numbers: Vec<i64> = rows.iter().map(number_of).collect();
    numbers.sort_unstable();
    numbers
}

async fn in_rounds(bed: &Bed, rounds: usize) {
    let consumer = |index| {
        let builder = bed.reader("groups", "rounds", ShardingPolicy::Off).consumer(index, 2);
        async move {
            let mut reader = builder.open().await.unwrap();
            let read = read(&mut reader, rounds).await;
            reader.close().await.unwrap();
            read.iter().map(|element| numbers(element, 0)[0]).collect::<Vec<i64>>()
        }
    };
    let (first, second) = tokio::join!(consumer(0), consumer(1));
    assert_eq!((first.len(), second.len()), (rounds, rounds));
    for (round, (first, second)) in first.iter().zip(&second).enumerate() {
        assert_eq!((first / 2, second - first), (second / 2, 1), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_policy_compression_and_rounds() {
    let Some(bed) = tokio::task::block_in_place(bed) else {
        return;
    };
    let once: Vec<i64> = (0..ELEMENTS).collect();
    let by_each: Vec<i64> = once.iter().flat_map(|number| [*number; WORKERS]).collect();
    for dataset in ["plain", "snappy"] {
        assert_eq!(rows(&bed, dataset, ShardingPolicy::Dynamic).await, once, "{dataset}");
        assert_eq!(rows(&bed, dataset, ShardingPolicy::Off).await, by_each, "{dataset}");
    }
    in_rounds(&bed, 60).await;
    tokio::task::block_in_place(|| drop(bed));
}
