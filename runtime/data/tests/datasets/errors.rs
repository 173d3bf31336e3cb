//! What is wrong with files and pipelines is said so that one finds it.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Field;
use arrow::record_batch::RecordBatch;

use rondo_core::status::Code;
use rondo_data::{
    ColumnType, Condition, DataError, Limits, Made, Operand, Patience, Pipeline, Stores, Test,
    elements, plan,
};

use super::world::{World, framed, numbered, numbers};

/// The text says all of these, and the code is this one.
fn says(error: &DataError, code: Code, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.code(), code, "{text}");
    assert_eq!(error.status().message, text);
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}

#[tokio::test]
async fn files_that_are_not_there() {
    let world = World::new();
    let error = world.refusal(&Pipeline::parquet(world.files("nothing.parquet"))).await;
    says(&error, Code::NotFound, &["nothing.parquet", "does not exist"]);
    let error = world.refusal(&Pipeline::parquet(world.files("*.parquet"))).await;
    says(&error, Code::NotFound, &["no file fits", "*.parquet"]);
    let error = world.refusal(&Pipeline::parquet(Vec::<String>::new())).await;
    says(&error, Code::InvalidArgument, &["names no files"]);
    let error = world.refusal(&Pipeline::text(["memory:///nothing.txt"])).await;
    says(&error, Code::NotFound, &["memory:///nothing.txt", "does not exist"]);
    let error = world.refusal(&Pipeline::text(["ftp://host/a.txt"])).await;
    says(&error, Code::Internal, &["ftp://host/a.txt", "s3, gs, az, http"]);
}

#[tokio::test]
async fn a_file_that_goes_away_or_changes_after_it_was_planned() {
    let world = World::new();
    let path = world.parquet("a.parquet", &numbered(0..50), 10);
    let dataset = world.plan(&Pipeline::parquet(world.files("a.parquet"))).await;
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(7);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(later).unwrap();
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    says(&error, Code::FailedPrecondition, &["a.parquet", "has changed", "it was version", "now"]);
    file.set_len(100).unwrap();
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    says(&error, Code::FailedPrecondition, &["a.parquet", "of 100 bytes"]);
    std::fs::remove_file(&path).unwrap();
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    says(&error, Code::NotFound, &["a.parquet", "does not exist"]);
}

#[tokio::test]
async fn a_corrupt_parquet_footer() {
    let world = World::new();
    let path = world.parquet("a.parquet", &numbered(0..50), 10);
    let good = std::fs::read(&path).unwrap();
    let pipeline = Pipeline::parquet(world.files("a.parquet"));
    let at = format!("byte {}", good.len() - 8);
    for (what, bytes) in [
        ("no magic", [&good[..good.len() - 4], b"NOPE"].concat()),
        ("cut", good[..good.len() - 20].to_vec()),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = world.refusal(&pipeline).await;
        says(&error, Code::DataLoss, &["a.parquet is corrupt at byte "]);
        assert!(what != "no magic" || error.to_string().contains(&at), "{error}");
    }
    // Whatever is broken in the footer: an error, or a footer that says the same.
    for place in good.len() - 1000..good.len() {
        let mut bad = good.clone();
        bad[place] ^= 0x41;
        std::fs::write(&path, bad).unwrap();
        if let Err(error) = plan(&pipeline, &world.stores).await {
            assert!(error.to_string().contains("a.parquet"), "byte {place}: {error}");
        }
    }
}

#[tokio::test]
async fn corrupt_parquet_pages_are_an_error_or_counted() {
    let world = World::new();
    let path = world.parquet("a.parquet", &numbered(0..1000), 100);
    let mut bytes = std::fs::read(&path).unwrap();
    // Somewhere in the pages of the fifth row group.
    let place = bytes.len() * 45 / 100;
    bytes[place..place + 200].fill(0xFF);
    std::fs::write(&path, bytes).unwrap();
    let pipeline = Pipeline::parquet(world.files("a.parquet")).with_split_records(100);
    let dataset = world.plan(&pipeline).await;
    let mut bad = Vec::new();
    for split in 0..10 {
        match world.try_read(&dataset, split, 0).await {
            Ok(records) => {
                assert_eq!(numbers(&records), numbers(&numbered(split * 100..split * 100 + 100)))
            }
            Err(error) => {
                says(&error, Code::DataLoss, &["a.parquet is corrupt at row "]);
                bad.push(split);
            }
        }
    }
    assert!(!bad.is_empty() && bad.len() <= 2, "{bad:?}");
    let dataset = world.plan(&pipeline.skipping_corrupt()).await;
    let mut reader = dataset.read_split(&world.stores, bad[0], 0, 1000);
    let batch = reader.next().await.unwrap().unwrap();
    assert_eq!(batch.skipped.len(), 1, "{batch:?}");
    assert!(batch.skipped[0].contains("a.parquet is corrupt at row "), "{:?}", batch.skipped);
    assert_eq!((dataset.cardinality(), dataset.records_per_pass()), (-2, None));
}

fn tfrecords(count: usize) -> Vec<u8> {
    framed((0..count).map(|number| format!("record {number:4}")))
}

/// A record of [`tfrecords`] with its length and checksums.
const FRAME: usize = 27;

async fn lines(world: &World, pipeline: &Pipeline) -> Result<(usize, Vec<String>), DataError> {
    let dataset = plan(pipeline, &world.stores).await?;
    let (mut count, mut skipped) = (0, Vec::new());
    for split in 0..dataset.splits() {
        let mut reader = dataset.read_split(&world.stores, split as i64, 0, 4);
        while let Some(batch) = reader.next().await? {
            count += batch.records.num_rows();
            skipped.extend(batch.skipped);
        }
    }
    Ok((count, skipped))
}

#[tokio::test]
async fn tfrecord_checksums_and_truncation() {
    let world = World::new();
    let pipeline = Pipeline::tfrecord(world.files("a.tfrecord")).with_split_records(8);
    let skipping = pipeline.clone().skipping_corrupt();
    let path = world.path("a.tfrecord");
    let good = tfrecords(20);
    assert_eq!(good.len(), 20 * FRAME);

    let mut content = good.clone();
    content[10 * FRAME + 15] ^= 1;
    std::fs::write(&path, content).unwrap();
    let error = lines(&world, &pipeline).await.unwrap_err();
    says(
        &error,
        Code::DataLoss,
        &["a.tfrecord is corrupt at byte 282", "content has the checksum"],
    );
    let (count, skipped) = lines(&world, &skipping).await.unwrap();
    assert_eq!((count, skipped.len()), (19, 1));
    assert!(skipped[0].contains("a.tfrecord is corrupt at byte 282"), "{skipped:?}");

    let mut length = good.clone();
    length[10 * FRAME + 2] ^= 1;
    std::fs::write(&path, length).unwrap();
    let error = lines(&world, &pipeline).await.unwrap_err();
    says(&error, Code::DataLoss, &["a.tfrecord is corrupt at byte 270", "length has the checksum"]);
    let (count, skipped) = lines(&world, &skipping).await.unwrap();
    assert_eq!((count, skipped.len()), (10, 1), "nothing can be found behind it");
    assert!(skipped[0].contains("a.tfrecord is corrupt at byte 270"), "{skipped:?}");

    std::fs::write(&path, &good[..15 * FRAME + 20]).unwrap();
    let error = lines(&world, &pipeline).await.unwrap_err();
    says(&error, Code::DataLoss, &["a.tfrecord is corrupt at byte 405", "ends within a record"]);
    let (count, skipped) = lines(&world, &skipping).await.unwrap();
    assert_eq!((count, skipped.len()), (15, 1));
}

#[tokio::test]
async fn compressed_files_that_are_cut_or_no_such_files() {
    let world = World::new();
    let files = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let good = std::fs::read(files.join("gzip.tfrecord.gz")).unwrap();
    std::fs::write(world.path("a.gz"), &good[..good.len() / 2]).unwrap();
    let error = world.refusal(&Pipeline::tfrecord(world.files("a.gz"))).await;
    says(&error, Code::DataLoss, &["a.gz is corrupt at byte", "before they are complete"]);
    std::fs::write(world.path("b.gz"), "this is no gzip at all").unwrap();
    let error = world.refusal(&Pipeline::text(world.files("b.gz"))).await;
    says(&error, Code::DataLoss, &["b.gz is corrupt at byte 0", "it is no gzip"]);
}

#[tokio::test]
async fn tar_files_that_are_cut_or_no_such_files() {
    let world = World::new();
    let files = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let good = std::fs::read(files.join("gnu.tar")).unwrap();
    std::fs::write(world.path("a.tar"), &good[..good.len() / 5 * 2 + 700]).unwrap();
    let error = world.refusal(&Pipeline::webdataset(world.files("a.tar"))).await;
    says(&error, Code::DataLoss, &["a.tar is corrupt at byte", "the file ends within"]);
    std::fs::write(world.path("b.tar"), "no tar ".repeat(100)).unwrap();
    let error = world.refusal(&Pipeline::webdataset(world.files("b.tar"))).await;
    says(&error, Code::DataLoss, &["b.tar is corrupt at byte 0", "no header"]);
}

#[tokio::test]
async fn text_that_does_not_fit_its_columns() {
    let world = World::new();
    let mut text = String::from("number\n");
    (0..2000).for_each(|number| text.push_str(&format!("{number}\n")));
    let at = text.len();
    text.push_str("many\n7\n");
    std::fs::write(world.path("a.csv"), &text).unwrap();
    let pipeline = Pipeline::csv(world.files("a.csv"));
    let error = lines(&world, &pipeline).await.unwrap_err();
    let place = format!("a.csv is corrupt at byte {at}: ");
    says(&error, Code::DataLoss, &[&place, "'many'", "Int64", "`columns`"]);
    let (count, skipped) = lines(&world, &pipeline.skipping_corrupt()).await.unwrap();
    assert_eq!((count, skipped.len()), (2001, 1));

    std::fs::write(world.path("b.csv"), "a,b\n1,2\n3\n").unwrap();
    let error = lines(&world, &Pipeline::csv(world.files("b.csv"))).await.unwrap_err();
    says(&error, Code::DataLoss, &["b.csv is corrupt at byte"]);

    std::fs::write(world.path("a.jsonl"), "{\"a\": 1}\n{\"a\": 2} {}\n").unwrap();
    let error = lines(&world, &Pipeline::json_lines(world.files("a.jsonl"))).await.unwrap_err();
    says(&error, Code::DataLoss, &["a.jsonl is corrupt at byte 9"]);
    let mut text = "{\"a\": 1}\n".repeat(1000);
    text.push_str("{\"b\": 1}\n");
    std::fs::write(world.path("b.jsonl"), text).unwrap();
    let error = lines(&world, &Pipeline::json_lines(world.files("b.jsonl"))).await.unwrap_err();
    says(&error, Code::DataLoss, &["b.jsonl is corrupt at byte 9000", "b"]);

    std::fs::write(world.path("a.txt"), b"good\nb\xFFd\n").unwrap();
    let error = lines(&world, &Pipeline::text(world.files("a.txt"))).await.unwrap_err();
    says(&error, Code::DataLoss, &["a.txt is corrupt at byte 5", "no UTF-8"]);
}

#[tokio::test]
async fn files_with_other_columns() {
    let world = World::new();
    world.parquet("a.parquet", &numbered(0..5), 10);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let other = RecordBatch::try_from_iter([("other", column.clone())]).unwrap();
    world.parquet("b.parquet", &other, 10);
    let error = world.refusal(&Pipeline::parquet(world.files("*.parquet"))).await;
    says(
        &error,
        Code::FailedPrecondition,
        &["b.parquet has other columns than", "a.parquet", "\"other\""],
    );
    let halves = RecordBatch::try_from_iter([
        ("number", column.clone()),
        ("half", column.clone()),
        ("name", column),
    ]);
    world.parquet("b.parquet", &halves.unwrap(), 10);
    let error = world.refusal(&Pipeline::parquet(world.files("*.parquet"))).await;
    says(&error, Code::FailedPrecondition, &["b.parquet", "\"half\" is of type Int64", "Float64"]);
    std::fs::write(world.path("a.csv"), "a,b\n1,2\n").unwrap();
    std::fs::write(world.path("b.csv"), "a,c\n1,2\n").unwrap();
    let error = world.refusal(&Pipeline::csv(world.files("*.csv"))).await;
    says(&error, Code::FailedPrecondition, &["b.csv", "\"c\"", "\"b\""]);
}

#[tokio::test]
async fn a_store_that_nobody_serves() {
    let patience = Patience {
        retries: 1,
        request: std::time::Duration::from_millis(400),
        store: std::time::Duration::from_millis(1500),
    };
    let stores = Stores::new(Limits::default(), patience, []);
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/a.parquet");
    let began = std::time::Instant::now();
    let error = plan(&Pipeline::parquet([&url]), &stores).await.unwrap_err();
    says(&error, Code::Unavailable, &[&url, "cannot be read now"]);
    assert!(began.elapsed() < std::time::Duration::from_secs(10));
    tokio::time::sleep(std::time::Duration::from_millis(1600)).await;
    let error = plan(&Pipeline::parquet([&url]), &stores).await.unwrap_err();
    says(&error, Code::Internal, &[&url, "cannot be read"]);
    // An old failure is none of today's.
    tokio::time::sleep(std::time::Duration::from_millis(3100)).await;
    let error = plan(&Pipeline::parquet([&url]), &stores).await.unwrap_err();
    says(&error, Code::Unavailable, &[&url, "cannot be read now"]);
}

#[tokio::test]
async fn files_of_another_form_are_called_so() {
    let world = World::new();
    std::fs::write(world.path("a.csv"), b"number,name\n1,one\n").unwrap();
    std::fs::write(world.path("b.gz"), [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3]).unwrap();
    std::fs::write(world.path("empty"), b"").unwrap();
    for (name, words) in [
        ("a.csv", &["is no Parquet file", "it begins as text: \"number,name"][..]),
        ("b.gz", &["is no Parquet file", "it begins as a gzip file"]),
    ] {
        let error = plan(&Pipeline::parquet(world.files(name)), &world.stores).await.unwrap_err();
        says(&error, Code::InvalidArgument, words);
    }
    let arrow = Pipeline::arrow(world.files("a.csv"));
    let error = plan(&arrow, &world.stores).await.unwrap_err();
    says(&error, Code::InvalidArgument, &["is no Arrow IPC file", "it begins as text"]);
    let empty = plan(&Pipeline::parquet(world.files("empty")), &world.stores).await.unwrap_err();
    says(&empty, Code::InvalidArgument, &["is no Parquet file", "it is empty"]);
}

#[test]
fn pipelines_of_newer_versions_and_with_unknown_words() {
    let newer = "version: 2\nsource: {range: {end: 3}}\nsomething: new\n";
    let error = Pipeline::from_yaml(newer).unwrap_err();
    says(&error, Code::FailedPrecondition, &["the pipeline is of version 2", "up to 1"]);
    let error = Pipeline::from_json(r#"{"version": 2, "sauce": {}}"#).unwrap_err();
    says(&error, Code::FailedPrecondition, &["the pipeline is of version 2"]);
    let mut pipeline = Pipeline::range(0, 3);
    pipeline.version = 7;
    let error = Pipeline::from_bytes(&pipeline.to_bytes()).unwrap_err();
    says(&error, Code::FailedPrecondition, &["the pipeline is of version 7"]);

    for (yaml, words) in [
        ("source: {range: {end: 3}}\nspeed: high\n", &["speed"][..]),
        ("source: {range: {end: 3, stop: 4}}\n", &["stop"]),
        ("source: {excel: {files: [a]}}\n", &["excel", "parquet"]),
        ("source: {range: {end: 3}}\noperations: [{sort: a}]\n", &["sort"]),
        ("source: {range: {end: many}}\n", &["many"]),
        (
            "source: {range: {end: 3}}\noperations: [{filter: {column: a}}]\n",
            &["exactly one of", "at_least"],
        ),
        (
            "source: {range: {end: 3}}\noperations: [{filter: {column: a, is: 1, below: 2}}]\n",
            &["exactly one of"],
        ),
        ("source: {range: {end: 3}}\noperations: [{map: {column: a}}]\n", &["rename", "length"]),
        ("- no\n- map\n", &[]),
    ] {
        let error = Pipeline::from_yaml(yaml).unwrap_err();
        says(&error, Code::InvalidArgument, words);
    }
}

#[tokio::test]
async fn operations_that_do_not_fit() {
    let world = World::new();
    world.parquet("a.parquet", &numbered(0..50), 10);
    let of = || Pipeline::parquet(world.files("a.parquet"));
    let above = |column: &str, value: f64| Condition::column(column, Test::Above(value.into()));
    let column = |name: &str| Operand::Column(name.to_owned());
    let sum = |left, right| Made::Arithmetic { operator: rondo_data::Arithmetic::Add, left, right };
    for (pipeline, words) in [
        (of().filter(above("size", 1.0)), &["filter names the column \"size\"", "\"number\""][..]),
        (of().select(["half", "width"]), &["select names the column \"width\"", "\"half\""]),
        (of().filter(above("name", 1.0)), &["column \"name\"", "1 is no value of its type Utf8"]),
        (of().map("x", sum(column("name"), Operand::Integer(1))), &["\"name\"", "numbers"]),
        (of().fill_null("number", "none"), &["\"number\"", "\"none\" is no value"]),
        (of().batch(0, true), &["batch has a size of 0"]),
        (of().batch(2, true).batch(3, true), &["a second batch"]),
        (of().batch(2, true).filter(above("half", 1.0)), &["filter cannot stand there"]),
        (of().shuffle(1, 0), &["a buffer of 0"]),
        (of().repeat(2).shuffle(1, 10), &["shuffle cannot stand there"]),
        (of().shard(3, 3), &["shard has an index that is not below"]),
        (Pipeline::range(5, 5).repeat_endlessly(), &["repeats no records"]),
    ] {
        says(&world.refusal(&pipeline).await, Code::InvalidArgument, words);
    }
}

#[tokio::test]
async fn values_that_do_not_fit_are_named_by_column_and_row() {
    let world = World::new();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(300)]));
    world.parquet("a.parquet", &RecordBatch::try_from_iter([("a", column)]).unwrap(), 10);
    let of = || Pipeline::parquet(world.files("a.parquet"));
    let dataset = world.plan(&of()).await;
    let records = world.read(&dataset, 0, 0).await;
    for is_batched in [false, true] {
        let error = elements(&records, is_batched).unwrap_err();
        says(&error, Code::InvalidArgument, &["column \"a\", row 2", "null", "fill_null"]);
    }
    let filled = world.plan(&of().fill_null("a", 0)).await;
    assert_eq!(elements(&world.read(&filled, 0, 0).await, false).unwrap().len(), 4);

    let narrow = Made::Cast { column: "a".to_owned(), to: ColumnType::Int8 };
    let dataset = world.plan(&of().map("a", narrow)).await;
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    says(&error, Code::InvalidArgument, &["column \"a\", row 3", "300"]);
    let (operator, left) = (rondo_data::Arithmetic::Divide, Operand::Integer(7));
    let right = Operand::Column("a".to_owned());
    let quotient = Made::Arithmetic { operator, left, right };
    let dataset = world.plan(&of().fill_null("a", 0).map("b", quotient)).await;
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    says(&error, Code::InvalidArgument, &["column \"a\", row 2", "ivide by zero"]);
}

#[tokio::test]
async fn bounds_are_named_when_they_are_reached() {
    let limits = Limits { record_bytes: 1000, chunk_bytes: 100, ..Limits::default() };
    let world = World { stores: Stores::new(limits, Patience::default(), []), ..World::new() };
    std::fs::write(world.path("a.txt"), format!("short\n{}\n", "long".repeat(1000))).unwrap();
    let error = world.refusal(&Pipeline::text(world.files("a.txt"))).await;
    says(&error, Code::ResourceExhausted, &["a.txt", "record at byte 6", "record_bytes", "1000"]);

    let error = world.refusal(&Pipeline::range(0, i64::MAX).with_split_records(1)).await;
    says(&error, Code::ResourceExhausted, &["splits", "split_records"]);

    let limits = Limits { memory_bytes: 5000, ..Limits::default() };
    let world = World { stores: Stores::new(limits, Patience::default(), []), ..World::new() };
    std::fs::write(world.path("a.txt"), "a line of text\n".repeat(300)).unwrap();
    let pipeline = Pipeline::text(world.files("a.txt")).shuffle(1, 200).with_split_bytes(1000);
    let dataset = world.plan(&pipeline).await;
    assert!(world.try_read(&dataset, 0, 0).await.is_ok());
    let pipeline = Pipeline::text(world.files("a.txt")).shuffle(1, 300);
    let dataset = world.plan(&pipeline).await;
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    says(&error, Code::ResourceExhausted, &["shuffle draws 300", "memory_bytes", "5000"]);
}

#[tokio::test]
async fn splits_that_are_not_there_and_datasets_that_have_none() {
    let world = World::new();
    let dataset = world.plan(&Pipeline::range(0, 10).repeat(2)).await;
    for split in [-1, 2, i64::MAX] {
        let error = world.try_read(&dataset, split, 0).await.unwrap_err();
        says(
            &error,
            Code::InvalidArgument,
            &[&format!("no split {split}"), "1 in each of 2 passes"],
        );
    }
    let dataset = world.plan(&Pipeline::range(0, 10).shuffle(1, 5).take(3)).await;
    let why = dataset.unsplittable().unwrap();
    assert!(why.contains("`take` needs the whole stream") && why.contains("DYNAMIC"), "{why}");
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    says(&error, Code::FailedPrecondition, &["`take` needs the whole stream"]);
}

/// A column `p` of structs with these two fields, itself or in a list.
fn pairs(names: [&str; 2], is_list: bool) -> RecordBatch {
    let number = |number| Arc::new(Int64Array::from(vec![number])) as ArrayRef;
    let field = |name| Arc::new(Field::new(name, arrow::datatypes::DataType::Int64, false));
    let fields = names.iter().zip(1..).map(|(name, value)| (field(*name), number(value)));
    let pair = StructArray::from(fields.collect::<Vec<_>>());
    let column: ArrayRef = if is_list {
        let item = Arc::new(Field::new("item", pair.data_type().clone(), false));
        let offsets = OffsetBuffer::from_lengths([1]);
        Arc::new(ListArray::new(item, offsets, Arc::new(pair), None))
    } else {
        Arc::new(pair)
    };
    RecordBatch::try_from_iter([("p", column)]).unwrap()
}

#[tokio::test]
async fn fields_of_other_names_within_a_column_are_other_columns() {
    for is_list in [false, true] {
        let world = World::new();
        world.parquet("a.parquet", &pairs(["x", "y"], is_list), 10);
        world.parquet("b.parquet", &pairs(["y", "z"], is_list), 10);
        let error = world.refusal(&Pipeline::parquet(world.files("*.parquet"))).await;
        let words = ["b.parquet has other columns than", "a.parquet", "\"p\" is of type", "\"z\""];
        says(&error, Code::FailedPrecondition, &words);
        // The order of the fields does not matter: each goes to its own name.
        world.parquet("b.parquet", &pairs(["y", "x"], is_list), 10);
        let dataset = world.plan(&Pipeline::parquet(world.files("*.parquet"))).await;
        let read = world.read(&dataset, 0, 0).await;
        let column = &read["p"];
        let pairs = if is_list { column.as_list::<i32>().values() } else { column };
        let x = pairs.as_struct()["x"].as_primitive::<arrow::datatypes::Int64Type>();
        assert_eq!(x.values().to_vec(), [1, 2]);
    }
    let world = World::new();
    std::fs::write(world.path("a.jsonl"), "{\"p\": {\"x\": 1, \"y\": 2}}\n").unwrap();
    std::fs::write(world.path("b.jsonl"), "{\"p\": {\"y\": 1, \"z\": 2}}\n").unwrap();
    let error = world.refusal(&Pipeline::json_lines(world.files("*.jsonl"))).await;
    let words = ["b.jsonl has other columns than", "a.jsonl", "\"p\" is of type", "\"z\""];
    says(&error, Code::FailedPrecondition, &words);
}

/// A text in the compression that a file's name says.
fn compressed(name: &str, text: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::default();
    let write = |encoder: &mut dyn Write| encoder.write_all(text).unwrap();
    if name.ends_with(".gz") {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        write(&mut encoder);
        return encoder.finish().unwrap();
    }
    if name.ends_with(".zz") {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
        write(&mut encoder);
        return encoder.finish().unwrap();
    }
    zstd::encode_all(text, 3).unwrap()
}

/// The file breaks far behind what is fetched at once, and behind its own length in compressed bytes.
#[tokio::test]
async fn of_a_compressed_text_that_is_cut_all_whole_lines_are_read_and_the_rest_is_told() {
    let limits = Limits { chunk_bytes: 4096, ..Limits::default() };
    let world = World { stores: Stores::new(limits, Patience::default(), []), ..World::new() };
    let text: String = (1..=60_000).map(|line| format!("{line}\n")).collect();
    for name in ["a.gz", "a.zz", "a.zst"] {
        let whole = compressed(name, text.as_bytes());
        std::fs::write(world.path(name), &whole[..whole.len() * 9 / 10]).unwrap();
        let pipeline = Pipeline::text(world.files(name)).skipping_corrupt();
        let dataset = world.plan(&pipeline).await;
        let (mut found, mut skipped) = (Vec::new(), Vec::new());
        for split in 0..dataset.splits() {
            let mut reader = dataset.read_split(&world.stores, split as i64, 0, 1000);
            while let Some(batch) = reader.next().await.unwrap() {
                let lines = batch.records["line"].as_string::<i32>();
                found.extend(lines.iter().flatten().map(str::to_owned));
                skipped.extend(batch.skipped);
            }
        }
        let end: usize = found.iter().map(|line| line.len() + 1).sum();
        assert!(end > whole.len() && found.len() > 40_000, "{name}: {} lines", found.len());
        assert!(found.iter().zip(1..).all(|(line, wanted)| *line == wanted.to_string()), "{name}");
        assert_eq!(skipped.len(), 1, "{name}: {skipped:?}");
        assert!(skipped[0].contains("before they are complete"), "{name}: {skipped:?}");
        let error = world.refusal(&Pipeline::text(world.files(name))).await;
        says(&error, Code::DataLoss, &[name, "before they are complete"]);
    }
}

/// How a tar file has a member without its holes.
#[derive(Clone, Copy, Debug)]
enum Sparse {
    /// A type of its own, with up to four pieces in the header.
    Gnu,
    /// The same, with more pieces in a block behind the header.
    GnuExtended,
    /// A map before the content.
    Pax,
}

/// A tar file with `s/a.txt`, and `s/a.bin` without its holes.
fn sparse_tar(how: Sparse) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(4);
    builder.append_data(&mut header, "s/a.txt", &b"text"[..]).unwrap();
    let octal =
        |number: usize| -> [u8; 12] { format!("{number:011o}\0").as_bytes().try_into().unwrap() };
    if let Sparse::Pax = how {
        let keys = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0")];
        let names = [("GNU.sparse.name", "s/a.bin"), ("GNU.sparse.realsize", "8192")];
        let all = keys.into_iter().chain(names).map(|(key, value)| (key, value.as_bytes()));
        builder.append_pax_extensions(all).unwrap();
        let mut header = tar::Header::new_ustar();
        let mut content = b"1\n4096\n4\n".to_vec();
        content.resize(512, 0);
        content.extend(b"data");
        header.set_size(content.len() as u64);
        let name = "s/GNUSparseFile.0/a.bin";
        builder.append_data(&mut header, name, content.as_slice()).unwrap();
        return builder.into_inner().unwrap();
    }
    let pieces = if let Sparse::Gnu = how { 1 } else { 6 };
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_size(pieces * 512);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.realsize = octal(pieces as usize * 4096 + 512);
    gnu.isextended = [u8::from(pieces > 4)];
    let mut rest = tar::GnuExtSparseHeader::new();
    let places = gnu.sparse.iter_mut().chain(&mut rest.sparse);
    for (piece, place) in (1..=pieces as usize).zip(places) {
        (place.offset, place.numbytes) = (octal(piece * 4096), octal(512));
    }
    let mut content = if pieces > 4 { rest.as_bytes().to_vec() } else { Vec::new() };
    content.resize(content.len() + pieces as usize * 512, b'x');
    builder.append_data(&mut header, "s/a.bin", content.as_slice()).unwrap();
    builder.into_inner().unwrap()
}

/// A tar file with members of these names, each with a few bytes.
fn tar_of(names: &[&str]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        builder.append_data(&mut header, name, &b"text"[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

#[tokio::test]
async fn half_a_sample_of_a_tar_file_is_none() {
    let world = World::new();
    let whole = tar_of(&["r/a.txt", "r/a.bin", "s/a.txt", "s/a.bin"]);
    // The blocks of a header and of its content: of the last member, the content is missing.
    let cut = whole[..7 * 512 + 2].to_vec();
    let before = &whole[..4 * 512];
    let sparse = [Sparse::Gnu, Sparse::GnuExtended, Sparse::Pax];
    let sparse = sparse.map(|how| [before, &sparse_tar(how)].concat());
    for file in sparse.into_iter().chain([cut]) {
        std::fs::write(world.path("a.tar"), file).unwrap();
        let pipeline = Pipeline::webdataset(world.files("a.tar")).skipping_corrupt();
        let dataset = world.plan(&pipeline).await;
        let mut reader = dataset.read_split(&world.stores, 0, 0, 1000);
        let (mut found, mut skipped) = (Vec::new(), Vec::new());
        while let Some(batch) = reader.next().await.unwrap() {
            let keys = batch.records["__key__"].as_string::<i32>();
            found.extend(keys.iter().flatten().map(str::to_owned));
            skipped.extend(batch.skipped);
        }
        assert_eq!((found, skipped.len()), (vec!["r/a".to_owned()], 1), "{skipped:?}");
    }
}

#[tokio::test]
async fn a_sparse_member_of_a_tar_file_is_an_error_that_names_it() {
    let world = World::new();
    for (how, at) in [(Sparse::Gnu, 1024), (Sparse::GnuExtended, 1024), (Sparse::Pax, 2048)] {
        std::fs::write(world.path("a.tar"), sparse_tar(how)).unwrap();
        let error = world.refusal(&Pipeline::webdataset(world.files("a.tar"))).await;
        let place = format!("a.tar is corrupt at byte {at}: ");
        let words = [&place, "\"s/a.bin\"", "sparse", "without `-S`"];
        says(&error, Code::DataLoss, &words);
    }
}

#[tokio::test]
async fn a_field_that_only_one_file_has_null_in_is_another_column() {
    let write = |world: &World, name: &str, is_nullable: bool| {
        let x: ArrayRef = Arc::new(Int64Array::from(vec![is_nullable.then_some(1), Some(2)]));
        let x = if is_nullable { x } else { Arc::new(Int64Array::from(vec![1, 2])) };
        let y: ArrayRef = Arc::new(Int64Array::from(vec![3, 4]));
        let field = |name, is_nullable| {
            Arc::new(Field::new(name, arrow::datatypes::DataType::Int64, is_nullable))
        };
        let pair = StructArray::from(vec![(field("x", is_nullable), x), (field("y", false), y)]);
        let column: ArrayRef = Arc::new(pair);
        world.parquet(name, &RecordBatch::try_from_iter([("p", column)]).unwrap(), 10);
    };
    for is_first in [false, true] {
        let world = World::new();
        write(&world, "a.parquet", is_first);
        write(&world, "b.parquet", !is_first);
        let error = world.refusal(&Pipeline::parquet(world.files("*.parquet"))).await;
        let words = ["b.parquet has other columns than", "a.parquet", "\"p\" is of type"];
        says(&error, Code::FailedPrecondition, &words);
    }
}

#[tokio::test]
async fn the_place_in_a_compressed_file_is_of_the_bytes_that_it_says() {
    let limits = Limits { chunk_bytes: 4096, ..Limits::default() };
    let world = World { stores: Stores::new(limits, Patience::default(), []), ..World::new() };
    let mut text: String = (0..60_000).map(|number| format!("{number}\n")).collect();
    let at = text.len();
    text.push_str("many\n7\n");
    for name in ["a.gz", "a.zz", "a.zst"] {
        let whole = compressed(name, text.as_bytes());
        std::fs::write(world.path(name), &whole).unwrap();
        let mut pipeline = Pipeline::csv(world.files(name));
        if let rondo_data::Source::Csv(source) = &mut pipeline.source {
            source.header = false;
        }
        let error = lines(&world, &pipeline).await.unwrap_err();
        let place = format!("{name} is corrupt at decompressed byte {at}: ");
        says(&error, Code::DataLoss, &[&place, "'many'"]);
        let cut = whole.len() / 2;
        std::fs::write(world.path(name), &whole[..cut]).unwrap();
        let error = world.refusal(&pipeline).await;
        let place = format!("{name} is corrupt at byte {cut}: ");
        says(&error, Code::DataLoss, &[&place, "before they are complete"]);
    }
}

#[tokio::test]
async fn a_record_is_read_up_to_its_bound_wherever_it_begins() {
    let limits = Limits { chunk_bytes: 100, record_bytes: 1000, ..Limits::default() };
    let world = World { stores: Stores::new(limits, Patience::default(), []), ..World::new() };
    for before in [1, 50, 99, 750] {
        for length in [499, 700, 900, 999] {
            let text = format!("{}\n{}\n", "a".repeat(before), "b".repeat(length));
            std::fs::write(world.path("a.txt"), text).unwrap();
            let dataset = world.plan(&Pipeline::text(world.files("a.txt"))).await;
            let found = world.read(&dataset, 0, 0).await;
            let lines = found["line"].as_string::<i32>();
            assert_eq!((lines.value(0).len(), lines.value(1).len()), (before, length));
        }
        let text = format!("{}\n{}\n", "a".repeat(before), "b".repeat(1000));
        std::fs::write(world.path("a.txt"), text).unwrap();
        let error = world.refusal(&Pipeline::text(world.files("a.txt"))).await;
        says(&error, Code::ResourceExhausted, &["a.txt", "record_bytes", "1000"]);
    }
}
