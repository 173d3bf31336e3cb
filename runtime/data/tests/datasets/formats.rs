//! Files that other programs wrote (`tests/files/generate.py`) are read as they meant them.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType,
};
use arrow::record_batch::RecordBatch;
use parquet::data_type::{Int32Type as ParquetInt32, Int96, Int96Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rondo_data::{Column, ColumnType, Compression, Pipeline, Source, TfrecordSource, elements};

use super::world::{World, framed, numbers};

fn file(name: &str) -> [String; 1] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name);
    [path.to_str().unwrap().to_owned()]
}

/// All records, read by split, and once more from the middle of each split on.
async fn all(pipeline: &Pipeline) -> RecordBatch {
    let world = World::new();
    let dataset = world.plan(pipeline).await;
    let splits = world.read_splits(&dataset, 1).await;
    for (split, records) in splits.iter().enumerate() {
        let half = records.num_rows() / 2;
        let rest = world.read(&dataset, split as i64, half as u64).await;
        assert_eq!(rest, records.slice(half, records.num_rows() - half), "split {split}");
    }
    assert_eq!(dataset.files().count(), 1);
    concat_batches(&dataset.schema(), &splits).unwrap()
}

fn strings(records: &RecordBatch, column: &str) -> Vec<Option<String>> {
    let column = records.column_by_name(column).unwrap();
    let column = arrow::compute::cast(column, &DataType::Utf8).unwrap();
    column.as_string::<i32>().iter().map(|text| text.map(ToOwned::to_owned)).collect()
}

fn texts(count: usize) -> Vec<Option<String>> {
    (0..count).map(|number| (number % 7 != 3).then(|| format!("text {number}"))).collect()
}

/// What `generate.py` puts into Parquet and Arrow files.
fn check_table(records: &RecordBatch, file: &str) {
    assert_eq!(numbers(records), (0..100).collect::<Vec<_>>(), "{file}");
    let fractions = records["fraction"].as_primitive::<Float64Type>();
    assert!(fractions.values().iter().zip(0..).all(|(it, number)| *it == f64::from(number) / 4.0));
    assert_eq!(strings(records, "text"), texts(100), "{file}");
    let kinds = (0..100).map(|number| Some(format!("kind {}", number % 3)));
    assert_eq!(records["kind"].data_type(), &DataType::Utf8, "dictionaries become their values");
    assert_eq!(strings(records, "kind"), kinds.collect::<Vec<_>>(), "{file}");
    let pairs = records["pair"].as_fixed_size_list();
    let pair = pairs.value(99);
    assert_eq!(pair.as_primitive::<Int32Type>().values(), &[99, -99], "{file}");
    let list = records["list"].as_list::<i32>().value(99);
    assert_eq!(list.as_primitive::<Int16Type>().values(), &[0, 1, 2], "{file}");
}

#[tokio::test]
async fn parquet_of_pyarrow_in_every_compression() {
    for name in ["snappy", "zstd", "gzip", "lz4", "brotli", "indexed"] {
        let name = format!("{name}.parquet");
        for records in [30, 17, 1000] {
            let pipeline = Pipeline::parquet(file(&name)).with_split_records(records);
            check_table(&all(&pipeline).await, &name);
        }
    }
}

#[tokio::test]
async fn arrow_files_of_pyarrow() {
    for name in ["plain.arrow", "lz4.arrow"] {
        for records in [30, 17, 1000] {
            let pipeline = Pipeline::arrow(file(name)).with_split_records(records);
            check_table(&all(&pipeline).await, name);
        }
    }
}

#[tokio::test]
async fn lists_and_pairs_become_tensors() {
    let world = World::new();
    let pipeline = Pipeline::parquet(file("snappy.parquet")).select(["pair", "list", "number"]);
    let dataset = world.plan(&pipeline).await;
    let records = world.read(&dataset, 0, 0).await;
    let found = elements(&records, false).unwrap();
    let [list, number, pair] = &found[7].components[..] else { panic!("{found:?}") };
    assert_eq!((list.shape().sizes(), pair.shape().sizes()), (&[3][..], &[2][..]));
    assert_eq!(number.shape().sizes(), &[0_u64; 0]);
    let refused = elements(&records, true).unwrap_err().to_string();
    assert!(refused.contains("column \"list\", row 1 of its batch: a list of 1"), "{refused}");
    let pairs = records.project(&[0]).unwrap();
    let batch = elements(&pairs, true).unwrap();
    assert_eq!(batch[0].components[0].shape().sizes(), [100, 2]);
}

fn examples(name: &str) -> Pipeline {
    let column = |name, kind, shape: &[u64], list| Column {
        name: String::from(name),
        kind,
        shape: shape.to_vec(),
        list,
    };
    Pipeline::of(Source::Tfrecord(TfrecordSource {
        files: file(name).to_vec(),
        compression: Compression::ByName,
        example: vec![
            column("number", ColumnType::Int64, &[], false),
            column("pair", ColumnType::Float32, &[2], false),
            column("list", ColumnType::Int64, &[], true),
            column("text", ColumnType::String, &[], false),
        ],
    }))
}

#[tokio::test]
async fn examples_of_tensorflow_as_typed_columns() {
    for name in ["plain.tfrecord", "gzip.tfrecord.gz", "zlib.tfrecord.zz"] {
        let records = all(&examples(name).with_split_records(23)).await;
        assert_eq!(numbers(&records), (0..100).collect::<Vec<_>>(), "{name}");
        assert_eq!(strings(&records, "text"), texts(100), "{name}");
        let pair = records["pair"].as_fixed_size_list().value(99);
        assert_eq!(pair.as_primitive::<Float32Type>().values(), &[24.75, -24.75], "{name}");
        let list = records["list"].as_list::<i32>().value(98);
        assert_eq!(list.as_primitive::<Int64Type>().values(), &[0, 1], "{name}");
    }
}

#[tokio::test]
async fn records_of_tensorflow_as_bytes() {
    let plain = all(&Pipeline::tfrecord(file("plain.tfrecord")).with_split_records(23)).await;
    assert_eq!((plain.num_rows(), plain.num_columns()), (100, 1));
    for name in ["gzip.tfrecord.gz", "zlib.tfrecord.zz"] {
        assert_eq!(all(&Pipeline::tfrecord(file(name))).await, plain, "{name}");
    }
    let world = World::new();
    let pipeline = Pipeline::tfrecord(file("plain.tfrecord")).with_split_records(23);
    assert_eq!(world.plan(&pipeline).await.splits(), 5);
    let pipeline = Pipeline::tfrecord(file("plain.tfrecord")).with_split_bytes(1000);
    assert_eq!(world.plan(&pipeline).await.splits(), 9, "8997 bytes");
}

#[tokio::test]
async fn samples_of_webdataset() {
    let records = all(&Pipeline::webdataset(file("samples.tar")).with_split_records(6)).await;
    let keys = (0..20).map(|number| Some(format!("sample{number:03}")));
    assert_eq!(strings(&records, "__key__"), keys.collect::<Vec<_>>());
    assert_eq!(strings(&records, "txt"), texts(20));
    let json = strings(&records, "json")[4].clone().unwrap();
    assert!(json.contains("\"text 4\""), "{json}");
}

#[tokio::test]
async fn tar_members_with_long_names() {
    for name in ["gnu.tar", "pax.tar"] {
        let records = all(&Pipeline::webdataset(file(name)).with_split_records(2)).await;
        let keys = strings(&records, "__key__");
        assert_eq!(keys.len(), 5, "{name}");
        assert!(keys[4].as_ref().unwrap().ends_with("a-long-folder-name/sample-4"), "{keys:?}");
        assert_eq!(strings(&records, "a.txt")[4].as_deref(), Some("4 a.txt"), "{name}");
        assert_eq!(strings(&records, "b")[0].as_deref(), Some("0 b"), "{name}");
    }
}

#[tokio::test]
async fn json_lines_plain_and_compressed() {
    for name in ["lines.jsonl", "lines.jsonl.gz", "lines.jsonl.zst"] {
        let records = all(&Pipeline::json_lines(file(name)).with_split_records(11)).await;
        let found = records["number"].as_primitive::<Int64Type>();
        assert_eq!(found.values().to_vec(), (0..50).collect::<Vec<_>>(), "{name}");
        assert_eq!(strings(&records, "text"), texts(50), "{name}");
    }
}

#[tokio::test]
async fn csv_with_quotes_missing_values_and_windows_line_ends() {
    let world = World::new();
    let text = "number,name,half\r\n0,\"a, b\",0.5\r\n1,\"two\r\nlines\",\r\n2,,1\r\n";
    std::fs::write(world.path("a.csv"), text).unwrap();
    std::fs::write(world.path("b.csv"), "number,name,half\n3,\"say \"\"x\"\"\",7").unwrap();
    for split_records in [1, 2, 100] {
        let pipeline = Pipeline::csv(world.files("*.csv")).with_split_records(split_records);
        let dataset = world.plan(&pipeline).await;
        assert_eq!(dataset.splits(), [4, 2, 1][split_records.min(3) as usize - 1]);
        let splits = world.read_splits(&dataset, 1).await;
        let records = concat_batches(&dataset.schema(), &splits).unwrap();
        assert_eq!(numbers(&records), [0, 1, 2, 3]);
        let names = strings(&records, "name");
        let wanted = [Some("a, b"), Some("two\r\nlines"), None, Some("say \"x\"")];
        assert_eq!(names.iter().map(Option::as_deref).collect::<Vec<_>>(), wanted);
        let halves = records["half"].as_primitive::<Float64Type>();
        assert_eq!(halves.iter().collect::<Vec<_>>(), [Some(0.5), None, Some(1.0), Some(7.0)]);
    }
}

#[tokio::test]
async fn lines_of_text_however_they_end() {
    let world = World::new();
    std::fs::write(world.path("a.txt"), "eins\r\n\nzwei\ndrei ohne Ende").unwrap();
    for split_records in [1, 3, 9] {
        let pipeline = Pipeline::text(world.files("a.txt")).with_split_records(split_records);
        let dataset = world.plan(&pipeline).await;
        let splits = world.read_splits(&dataset, 1).await;
        let records = concat_batches(&dataset.schema(), &splits).unwrap();
        let lines = strings(&records, "line");
        let lines: Vec<&str> = lines.iter().flatten().map(String::as_str).collect();
        assert_eq!(lines, ["eins", "", "zwei", "drei ohne Ende"]);
    }
}

#[tokio::test]
async fn records_longer_than_what_is_fetched_at_once() {
    let limits = rondo_data::Limits { chunk_bytes: 64, ..rondo_data::Limits::default() };
    let stores = rondo_data::Stores::new(limits, rondo_data::Patience::default(), []);
    let world = World { stores, ..World::new() };
    let lines: Vec<String> = (0..40).map(|number| "x".repeat(number * 7)).collect();
    std::fs::write(world.path("a.txt"), lines.join("\n") + "\n").unwrap();
    for split_bytes in [1, 500, 1 << 20] {
        let pipeline = Pipeline::text(world.files("a.txt")).with_split_bytes(split_bytes);
        let dataset = world.plan(&pipeline).await;
        let splits = world.read_splits(&dataset, 1).await;
        let records = concat_batches(&dataset.schema(), &splits).unwrap();
        let found = strings(&records, "line");
        assert!(found.iter().flatten().eq(lines.iter()), "splits of {split_bytes} bytes");
    }
}

#[tokio::test]
async fn long_records_stay_where_they_lie_and_short_ones_are_put_together() {
    let limits = rondo_data::Limits { chunk_bytes: 200, ..rondo_data::Limits::default() };
    let stores = rondo_data::Stores::new(limits, rondo_data::Patience::default(), []);
    let world = World { stores, ..World::new() };
    let lengths = [3, 7, 40, 39, 41, 500, 0, 1, 200, 40, 12, 12, 12, 90, 1000, 5];
    let contents: Vec<Vec<u8>> =
        (0..).zip(lengths).map(|(byte, length)| vec![byte; length]).collect();
    std::fs::write(world.path("a.tfrecord"), framed(&contents)).unwrap();
    for pipeline in [
        Pipeline::tfrecord(world.files("a.tfrecord")),
        Pipeline::tfrecord(world.files("a.tfrecord")).shuffle(1, 4),
    ] {
        let dataset = world.plan(&pipeline).await;
        let whole = world.read(&dataset, 0, 0).await;
        let all: Vec<&[u8]> = whole["record"].as_binary::<i32>().iter().flatten().collect();
        let mut sorted = all.clone();
        sorted.sort_unstable_by_key(|record| contents.iter().position(|it| it == record));
        assert!(sorted.iter().copied().eq(contents.iter().map(Vec::as_slice)), "{pipeline:?}");
        for skip in 0..=all.len() {
            let rest = world.read(&dataset, 0, skip as u64).await;
            let rest = rest["record"].as_binary::<i32>();
            assert!(rest.iter().flatten().eq(all[skip..].iter().copied()), "from {skip} on");
        }
    }
    let dataset = world.plan(&Pipeline::tfrecord(world.files("a.tfrecord"))).await;
    let mut reader = dataset.read_split(&world.stores, 0, 0, 100);
    let mut rows = Vec::new();
    while let Some(batch) = reader.next().await.unwrap() {
        rows.push(batch.records.num_rows());
    }
    assert_eq!(rows, [2, 1, 1, 1, 1, 2, 1, 1, 3, 1, 1, 1], "those of 40 bytes and more are alone");
}

/// The Julian days of 1970-01-01, 9999-12-31 and 0001-01-01.
const EPOCH: u32 = 2_440_588;
const LAST_DAY: u32 = 5_373_484;
const FIRST_DAY: u32 = 1_721_426;

/// A time of Parquet's old type: a day, and nanoseconds behind its beginning.
fn time(day: u32, nanos: u64) -> Int96 {
    let mut time = Int96::new();
    time.set_data(nanos as u32, (nanos >> 32) as u32, day);
    time
}

/// Columns of such times: one each row, one in a group that may be null, and one in lists of two.
fn write_times(path: &Path, times: &[Int96], grouped: &[Option<Int96>], listed: &[Int96]) {
    let schema = "message m {
        required int96 t;
        optional group g { required int96 u; }
        required group l (LIST) { repeated group list { required int96 element; } }
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let levels: Vec<i16> = grouped.iter().map(|time| i16::from(time.is_some())).collect();
    let present: Vec<Int96> = grouped.iter().flatten().copied().collect();
    let (all, repeated) = (vec![1; listed.len()], [0, 1].repeat(listed.len() / 2));
    for (times, definition, repetition) in [
        (times, None, None),
        (present.as_slice(), Some(levels.as_slice()), None),
        (listed, Some(all.as_slice()), Some(repeated.as_slice())),
    ] {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int96Type>().write_batch(times, definition, repetition).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

#[tokio::test]
async fn times_of_ninety_six_bits_are_exact_or_an_error_that_names_them() {
    let world = World::new();
    let path = world.path("a.parquet");
    let good = time(EPOCH - 1, 86_399_999_999_999);
    // The last nanosecond that 64 bits count, and the first one that they do not.
    let (end, nanos) = (EPOCH + 106_751, 85_636_854_775_807);
    let (last, beyond) = (time(end, nanos), time(end, nanos + 1));
    let of = |t, g, l| write_times(&path, &[good, good, t], &[None, Some(good), g], &[l; 6]);
    let pipeline = Pipeline::parquet(world.files("a.parquet")).with_split_records(2);
    of(last, None, good);
    let read = all(&pipeline).await;
    let found = read["t"].as_primitive::<TimestampNanosecondType>().values().to_vec();
    assert_eq!(found, [-1, -1, i64::MAX]);
    let lists = read["l"].as_list::<i32>().values();
    assert_eq!(lists.as_primitive::<TimestampNanosecondType>().values().to_vec(), [-1; 6]);
    let wide = time(LAST_DAY, 0);
    for (times, row, column, text) in [
        ((wide, None, good), 2, "\"t\"", "9999-12-31T00:00:00"),
        ((time(FIRST_DAY, 1), None, good), 2, "\"t\"", "0001-01-01T00:00:00"),
        ((beyond, None, good), 2, "\"t\"", "2262-04-11T23:47:16"),
        ((good, Some(wide), good), 2, "\"g\"", "9999-12-31T00:00:00"),
        ((good, None, wide), 0, "\"l\"", "9999-12-31T00:00:00"),
    ] {
        of(times.0, times.1, times.2);
        let dataset = world.plan(&pipeline).await;
        let error = world.try_read(&dataset, row / 2, 0).await.unwrap_err().to_string();
        let place = format!("a.parquet is corrupt at row {row}: column {column}");
        for word in [&place, text, "INT96", "Timestamp(ns)", "TIMESTAMP_MICROS"] {
            assert!(error.contains(word), "{error:?} does not say {word:?}");
        }
    }
}

#[tokio::test]
async fn times_of_ninety_six_bits_in_a_map_are_exact_or_an_error_too() {
    let world = World::new();
    let schema = "message m {
        required group m (MAP) { repeated group key_value { required int32 key; required int96 value; } }
        required int96 t;
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let write = |mapped: [Int96; 2], alone: Int96| {
        let file = std::fs::File::create(world.path("a.parquet")).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema.clone(), Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let (definition, repetition) = (Some(&[1, 1][..]), Some(&[0, 1][..]));
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ParquetInt32>().write_batch(&[1, 2], definition, repetition).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int96Type>().write_batch(&mapped, definition, repetition).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int96Type>().write_batch(&[alone], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
    };
    let (good, wide) = (time(EPOCH, 5), time(LAST_DAY, 0));
    let pipeline = Pipeline::parquet(world.files("a.parquet"));
    write([good; 2], good);
    let read = world.read(&world.plan(&pipeline).await, 0, 0).await;
    let mapped = read["m"].as_map().values().clone();
    assert_eq!(mapped.as_primitive::<TimestampNanosecondType>().values().to_vec(), [5, 5]);
    for (mapped, alone, column) in [([good, wide], good, "\"m\""), ([good; 2], wide, "\"t\"")] {
        write(mapped, alone);
        let dataset = world.plan(&pipeline).await;
        let error = world.try_read(&dataset, 0, 0).await.unwrap_err().to_string();
        let place = format!("a.parquet is corrupt at row 0: column {column}");
        assert!(error.contains(&place) && error.contains("9999-12-31"), "{error}");
    }
}

#[tokio::test]
async fn the_row_of_a_time_that_does_not_fit_is_its_own() {
    let world = World::new();
    let (good, wide) = (time(EPOCH, 0), time(LAST_DAY, 0));
    for row in 0..3 {
        let mut times = [good; 3];
        times[row] = wide;
        write_times(&world.path("a.parquet"), &times, &[None; 3], &[good; 6]);
        let dataset = world.plan(&Pipeline::parquet(world.files("a.parquet"))).await;
        let error = world.try_read(&dataset, 0, 0).await.unwrap_err().to_string();
        assert!(error.contains(&format!("corrupt at row {row}: column \"t\"")), "{error}");
    }
}

#[tokio::test]
async fn a_dot_in_a_folders_name_ends_no_name_of_a_sample() {
    let world = World::new();
    let mut builder = tar::Builder::new(Vec::new());
    for name in ["v1.0/one.txt", "v1.0/two.txt", "v1.0/two.seg.png"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(name.len() as u64);
        builder.append_data(&mut header, name, name.as_bytes()).unwrap();
    }
    std::fs::write(world.path("a.tar"), builder.into_inner().unwrap()).unwrap();
    let records = all(&Pipeline::webdataset(world.files("a.tar"))).await;
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(strings(&records, "__key__"), [some("v1.0/one"), some("v1.0/two")]);
    assert_eq!(strings(&records, "txt"), [some("v1.0/one.txt"), some("v1.0/two.txt")]);
    assert_eq!(strings(&records, "seg.png"), [None, some("v1.0/two.seg.png")]);
}
