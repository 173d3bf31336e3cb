//! Any bytes as a file of any format, or a good file with some of its bytes changed: planned and
//! read the same in every way, or refused by its name.

use std::sync::LazyLock;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use rondo_core::status::Code;
use rondo_data::{DataError, Dataset, Limits, Patience, Pipeline, Shard, Stores, plan};
use tokio::runtime::{Builder, Runtime};

use crate::good_files::{FORMATS, Format, compressed};

/// Longest text of an error, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// Splits that are read one by one; all of them are when the whole is.
const SPLITS_MAX: i64 = 32;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().unwrap());

/// Checks one input: its first byte says which format, and whether the rest are changes to a good
/// file or a file; the second how large splits are. True when some records could be read.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let [kind, split, rest @ ..] = bytes else { return false };
    let format = &FORMATS[usize::from(kind / 2) % FORMATS.len()];
    let file = match kind % 2 {
        0 => compressed(format.file, rest),
        _ => changed(compressed(format.file, &(format.good)()), rest),
    };
    RUNTIME.block_on(check_file(format, file, u64::from(split % 16) + 1))
}

/// The file with one byte changed for every four: where (two of them), how, and whether it ends there.
fn changed(mut file: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.as_chunks::<4>().0 {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % file.len().max(1);
        if let Some(byte) = file.get_mut(place) {
            *byte ^= change[2];
        }
        if change[3] == 255 {
            file.truncate(place);
        }
    }
    file
}

async fn check_file(format: &Format, file: Vec<u8>, split_records: u64) -> bool {
    let limits = Limits { memory_bytes: 64 << 20, record_bytes: 1 << 20, ..Limits::default() };
    let stores = Stores::new(limits, Patience::default(), []);
    stores.memory().put(&Path::from(format.file), PutPayload::from(file)).await.unwrap();
    let pipeline = (format.pipeline)([format!("memory:///{}", format.file)]);
    let pipeline = pipeline.with_split_records(split_records);
    let records = check_reading(format, &pipeline, &stores).await;
    // What is corrupt is passed over, if the file has any records at all.
    let skipping = pipeline.skipping_corrupt();
    if let Ok(dataset) = plan(&skipping, &stores).await {
        let (found, error) = whole(&dataset, &stores).await;
        if let Some(error) = error {
            assert_ne!(error.code(), Code::DataLoss, "{error}");
        } else {
            assert!(found.num_rows() >= records, "{} of {records}", found.num_rows());
        }
    }
    records > 0
}

/// Plans and reads; how many records there are before the first error.
async fn check_reading(format: &Format, pipeline: &Pipeline, stores: &Stores) -> usize {
    let planned = plan(pipeline, stores).await;
    let again = plan(pipeline, stores).await;
    let dataset = match planned {
        Ok(dataset) => dataset,
        Err(error) => {
            check_error(format, &error);
            assert_eq!(again.unwrap_err(), error, "refused in two ways");
            return 0;
        }
    };
    let definition = dataset.to_definition().unwrap();
    assert_eq!(again.unwrap().to_definition().unwrap(), definition, "planned in two ways");
    let told = Dataset::from_definition(&definition).unwrap().unwrap();
    let (all, error) = whole(&dataset, stores).await;
    if let Some(error) = &error {
        check_error(format, error);
    }
    let mut first = 0;
    for split in 0..i64::try_from(dataset.splits()).unwrap().min(SPLITS_MAX) {
        let (found, failed) = read(&told, stores, split, 0, 7).await;
        let common = found.num_rows().min(all.num_rows() - first);
        assert_eq!(found.slice(0, common), all.slice(first, common), "split {split}");
        check_same_split(&dataset, stores, split, &found, failed.as_ref()).await;
        if failed.is_some() {
            assert!(error.is_some(), "split {split} fails and the whole does not");
            break;
        }
        assert!(error.is_some() || common == found.num_rows(), "split {split} has more records");
        first += common;
    }
    all.num_rows()
}

/// In other batches, and from a record on, a split holds the same.
async fn check_same_split(
    dataset: &Dataset,
    stores: &Stores,
    split: i64,
    found: &RecordBatch,
    failed: Option<&DataError>,
) {
    let (rows, from) = (found.num_rows(), found.num_rows() / 2);
    let (more, error) = read(dataset, stores, split, 0, 3).await;
    let common = rows.min(more.num_rows());
    assert_eq!(more.slice(0, common), found.slice(0, common), "in other batches");
    assert_eq!(code(error.as_ref()), code(failed), "in other batches: {error:?}, {failed:?}");
    let (rest, error) = read(dataset, stores, split, from as u64, 5).await;
    let common = rest.num_rows().min(rows - from);
    assert_eq!(rest.slice(0, common), found.slice(from, common), "from record {from} on");
    assert_eq!(code(error.as_ref()), code(failed), "from record {from} on: {error:?}, {failed:?}");
    assert!(failed.is_some() || (more.num_rows(), rest.num_rows()) == (rows, rows - from));
}

/// What kind of error. Which row is named depends on how far its reader had come.
fn code(error: Option<&DataError>) -> Option<Code> {
    error.map(DataError::code)
}

fn check_error(format: &Format, error: &DataError) {
    let text = error.to_string();
    assert!(text.len() <= TEXT_BYTES_MAX, "{} bytes: {text:.200}", text.len());
    assert!(text.contains(format.file) || text.contains("no columns"), "which file? {text}");
    let expected =
        [Code::DataLoss, Code::FailedPrecondition, Code::InvalidArgument, Code::ResourceExhausted];
    assert!(expected.contains(&error.code()), "{:?}: {text}", error.code());
}

async fn read(
    dataset: &Dataset,
    stores: &Stores,
    split: i64,
    skip: u64,
    most: usize,
) -> (RecordBatch, Option<DataError>) {
    let mut reader = dataset.read_split(stores, split, skip, most);
    let (mut batches, mut next) = (Vec::new(), skip);
    let error = loop {
        match reader.next().await {
            Ok(Some(batch)) => {
                assert_eq!(batch.first, next, "batches follow each other");
                assert!(batch.records.num_rows() <= most);
                next += batch.records.num_rows() as u64;
                batches.push(batch.records);
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    (concat_batches(&dataset.schema(), &batches).unwrap(), error)
}

/// All records, as one who reads all of them gets them.
async fn whole(dataset: &Dataset, stores: &Stores) -> (RecordBatch, Option<DataError>) {
    let mut reader = dataset.read_all(stores, Shard::Off);
    let mut batches = Vec::new();
    let error = loop {
        match reader.next().await {
            Ok(Some(batch)) => batches.push(batch.records),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    (concat_batches(&dataset.schema(), &batches).unwrap(), error)
}
