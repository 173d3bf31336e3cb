//! A process that has no descriptors left for a while, in a process of its own: the limit is the process'.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is a failed test")]

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use rondo_core::status::Code;
use rondo_data::{Pipeline, Shard, Stores, plan};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn numbers(records: &RecordBatch) -> Vec<i64> {
    records.column(0).as_primitive::<Int64Type>().values().to_vec()
}

/// The reader gives each record once: before the limit, below it and behind it.
macro_rules! read_through_a_limit {
    ($reader:expr, $before:expr) => {{
        let mut reader = $reader;
        let mut found: Vec<i64> = Vec::new();
        let before: usize = $before;
        while found.len() < before {
            found.extend(numbers(&reader.next().await.unwrap().unwrap().records));
        }
        let usual = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..usual }).unwrap();
        let mut errors = Vec::new();
        while errors.len() < 3 {
            match reader.next().await {
                Ok(Some(batch)) => found.extend(numbers(&batch.records)),
                Ok(None) => break,
                Err(error) => errors.push(error),
            }
        }
        setrlimit(Resource::Nofile, usual).unwrap();
        assert_eq!(errors.len(), 3, "no file can be opened");
        for error in errors {
            assert_eq!(error.code(), Code::Unavailable, "{error}");
            assert!(error.to_string().contains("cannot be read now"), "{error}");
        }
        while let Some(batch) = reader.next().await.unwrap() {
            found.extend(numbers(&batch.records));
        }
        assert_eq!(found, [1, 2, 3, 4, 5]);
    }};
}

#[tokio::test]
async fn reading_goes_on_once_there_are_descriptors_again() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("1.csv", "number\n1\n2\n3\n"), ("2.csv", "number\n4\n5\n")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let stores = Stores::from_env();
    let files = folder.path().join("*.csv");
    let pipeline = Pipeline::csv([files.to_str().unwrap()]);
    let one = plan(&pipeline, &stores).await.unwrap();
    assert_eq!(one.splits(), 1);
    read_through_a_limit!(one.read_split(&stores, 0, 0, 1), 1);
    read_through_a_limit!(one.read_split(&stores, 0, 0, 0), 0);
    read_through_a_limit!(one.read_all(&stores, Shard::Off), 0);
    let several = plan(&pipeline.with_split_records(3), &stores).await.unwrap();
    assert_eq!(several.splits(), 2);
    read_through_a_limit!(several.read_all(&stores, Shard::Off), 1);
}
