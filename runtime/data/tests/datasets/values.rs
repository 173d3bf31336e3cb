//! CSV and JSON: every value is what the file says, or an error names it.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use rondo_data::{Column, ColumnType, DataError, Pipeline, Source};

use super::world::World;

async fn json(lines: &[String], columns: Vec<Column>) -> Result<RecordBatch, DataError> {
    let world = World::new();
    std::fs::write(world.path("a.jsonl"), lines.join("\n")).unwrap();
    let mut pipeline = Pipeline::json_lines(world.files("a.jsonl"));
    if let Source::JsonLines(source) = &mut pipeline.source {
        source.columns = columns;
    }
    world.try_read(&world.plan(&pipeline).await, 0, 0).await
}

async fn csv(text: impl AsRef<[u8]>, columns: Vec<Column>) -> Result<RecordBatch, DataError> {
    let world = World::new();
    std::fs::write(world.path("a.csv"), text.as_ref()).unwrap();
    let mut pipeline = Pipeline::csv(world.files("a.csv"));
    if let Source::Csv(source) = &mut pipeline.source {
        source.columns = columns;
    }
    world.try_read(&world.plan(&pipeline).await, 0, 0).await
}

/// An error names the file, where the record begins, the column, the value and the type.
fn names(read: Result<RecordBatch, DataError>, words: &[&str]) {
    let text = read.unwrap_err().to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}

fn lines(values: impl IntoIterator<Item = String>) -> Vec<String> {
    values.into_iter().map(|value| format!("{{\"a\": {value}}}")).collect()
}

fn thousand() -> impl Iterator<Item = String> {
    (0..1000).map(|number| number.to_string())
}

#[tokio::test]
async fn a_fraction_behind_a_thousand_integers() {
    let read = json(&lines(thousand().chain(["1.5".into()])), Vec::new()).await;
    let place = "a.jsonl is corrupt at byte 10890: row 1000: column \"a\"";
    names(read, &[place, "1.5", "Int64", "no integer", "`columns`"]);
    let text: String = thousand().chain(["1.5".into()]).map(|value| value + "\n").collect();
    names(csv(&format!("a\n{text}"), Vec::new()).await, &["a.csv", "1.5", "Int64"]);
}

#[tokio::test]
async fn a_fraction_in_a_column_of_integers() {
    let column = || vec![Column::new("a", ColumnType::Int64)];
    names(json(&lines(["1.7".into()]), column()).await, &["\"1.7\"", "Int64", "no integer"]);
    let exact =
        json(&lines(["1.0".into(), "\"12\"".into(), "null".into()]), column()).await.unwrap();
    let found: Vec<_> = exact["a"].as_primitive::<Int64Type>().iter().collect();
    assert_eq!(found, [Some(1), Some(12), None]);
}

#[tokio::test]
async fn an_id_beside_a_fraction() {
    let both = || ["1.5".to_owned(), "9007199254740993".to_owned()];
    names(json(&lines(both()), Vec::new()).await, &["9007199254740993", "Float64", "rounded"]);
    let table = csv("a\n1.5\n9007199254740993\n", Vec::new()).await.unwrap();
    assert_eq!(table["a"].data_type(), &DataType::Utf8);
    assert_eq!(table["a"].as_string::<i32>().value(1), "9007199254740993");
}

#[tokio::test]
async fn ids_of_sixty_four_bits() {
    let ids = [3, u64::MAX, u64::MAX - 1];
    let texts = || ids.iter().map(u64::to_string);
    let nested = texts().map(|id| format!("{{\"b\": [{id}]}}"));
    for read in [
        json(&lines(texts()), Vec::new()).await.unwrap()["a"].clone(),
        csv(&format!("a\n{}\n", texts().collect::<Vec<_>>().join("\n")), Vec::new()).await.unwrap()
            ["a"]
            .clone(),
        json(&lines(nested), Vec::new()).await.unwrap()["a"].as_struct()["b"]
            .as_list::<i32>()
            .values()
            .clone(),
    ] {
        assert_eq!(read.as_primitive::<UInt64Type>().values().to_vec(), ids);
    }
    names(
        json(&lines(["[1.5, 9007199254740993]".into()]), Vec::new()).await,
        &["column \"a\"", "9007199254740993"],
    );
}

#[tokio::test]
async fn times_and_dates() {
    let dates: String = (0..1000).map(|_| "2026-11-27\n").collect();
    names(
        csv(&format!("a\n{dates}2026-11-27 10:00:00\n"), Vec::new()).await,
        &["2026-11-27 10:00:00", "Date32", "time of day"],
    );
    let seconds: String = (0..1000).map(|_| "2026-11-27 10:00:00\n").collect();
    let table = csv(&format!("a\n{seconds}2026-11-27 10:00:00.25\n"), Vec::new()).await.unwrap();
    assert_eq!(table["a"].data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    let found = table["a"].as_primitive::<TimestampMicrosecondType>().values();
    assert_eq!(found[1000] - found[999], 250_000);
    names(
        csv(&format!("a\n{seconds}2026-11-27 10:00:00.1234567\n"), Vec::new()).await,
        &["00.1234567", "a part of its seconds"],
    );
    let dates = vec![Column::new("a", ColumnType::Date)];
    names(json(&lines(["\"2026-11-27T10:00:00\"".into()]), dates).await, &["time of day"]);
}

#[tokio::test]
async fn numbers_of_json_in_columns_of_dates_and_times() {
    for (kind, name) in [(ColumnType::Date, "Date32"), (ColumnType::Timestamp, "Timestamp(µs)")] {
        let column = || vec![Column::new("a", kind)];
        for (value, why) in [
            ("1.7", "no integer"),
            ("-0.5", "no integer"),
            ("1e400", ""),
            ("1e99999999999999999999", ""),
            ("9223372036854775808", ""),
            ("-9223372036854775809", ""),
            ("9007199254740993.0", ""),
        ] {
            let read = json(&lines(["1".into(), value.into()]), column()).await;
            names(read, &["a.jsonl", "byte 9", "row 1", value, name, why]);
        }
    }
    let mut list = Column::new("a", ColumnType::Timestamp);
    list.list = true;
    names(json(&lines(["[1, 1.7]".into()]), vec![list]).await, &["row 0", "1.7", "no integer"]);
    let read = |kind, values: &[&str]| {
        let values: Vec<String> = values.iter().map(|it| (*it).to_owned()).collect();
        async move { json(&lines(values), vec![Column::new("a", kind)]).await.unwrap()["a"].clone() }
    };
    let days = ["0", "-1", "2e1", "2147483647", "-2147483648", "\"1970-01-02\"", "null"];
    let found = read(ColumnType::Date, &days).await;
    let found: Vec<_> = found.as_primitive::<Date32Type>().iter().collect();
    assert_eq!(found, [Some(0), Some(-1), Some(20), Some(i32::MAX), Some(i32::MIN), Some(1), None]);
    let micros = ["9223372036854775807", "-9223372036854775808", "9007199254740993", "1.0"];
    let found = read(ColumnType::Timestamp, &micros).await;
    let found = found.as_primitive::<TimestampMicrosecondType>().values().to_vec();
    assert_eq!(found, [i64::MAX, i64::MIN, (1 << 53) + 1, 1]);
}

#[tokio::test]
async fn binary_in_json_is_whole_bytes() {
    let column = || vec![Column::new("a", ColumnType::Binary)];
    let read = json(&lines(["\"0aFF\"".into()]), column()).await.unwrap();
    assert_eq!(read["a"].as_binary::<i32>().value(0), [0x0A, 0xFF]);
    names(json(&lines(["\"0aF\"".into()]), column()).await, &["0aF", "Binary", "half a byte"]);
    let escaped = "\"\\u0030aF\"".to_owned();
    names(json(&lines([escaped]), column()).await, &["\"0aF\"", "Binary", "half a byte"]);
    let read = json(&lines(["\"\\u0030a\\u0046F\"".into()]), column()).await.unwrap();
    assert_eq!(read["a"].as_binary::<i32>().value(0), [0x0A, 0xFF]);
}

#[tokio::test]
async fn zeros_at_the_beginning() {
    let table = csv("a\n02134\n10115\n", Vec::new()).await.unwrap();
    assert_eq!(table["a"].as_string::<i32>().value(0), "02134");
    let text: String = thousand().map(|value| value + "\n").collect();
    names(csv(&format!("a\n{text}02134\n"), Vec::new()).await, &["02134", "zeros would be lost"]);
    for (late, lost) in [("+02134", "zeros"), ("+5", "plus sign"), ("-0", "minus sign")] {
        names(csv(&format!("a\n{text}{late}\n"), Vec::new()).await, &[late, "Int64", lost]);
    }
    let table = csv("a\n+02134\n10115\n", Vec::new()).await.unwrap();
    assert_eq!(table["a"].as_string::<i32>().value(0), "+02134");
    let told = csv("a\n02134\n", vec![Column::new("a", ColumnType::Int64)]).await.unwrap();
    assert_eq!(told["a"].as_primitive::<Int64Type>().value(0), 2134, "the pipeline says so");
}

#[tokio::test]
async fn floats_are_the_nearest_ones() {
    let texts = ["0.1", "1e308", "-2.5", "1.7976931348623157e308", "5e-324"];
    let table = json(&lines(texts.map(String::from)), Vec::new()).await.unwrap();
    let found = table["a"].as_primitive::<Float64Type>().values().to_vec();
    assert_eq!(found, texts.map(|text| text.parse::<f64>().unwrap()));
    let wide = vec![Column::new("a", ColumnType::Float64)];
    names(json(&lines(["1.5".into(), "1e400".into()]), wide).await, &["1e400", "too large"]);
    let narrow = vec![Column::new("a", ColumnType::Float32)];
    names(json(&lines(["16777217".into()]), narrow).await, &["16777217", "Float32", "rounded"]);
}

/// Beyond 128 bits, too.
#[tokio::test]
async fn a_long_integer_is_a_float_if_there_is_such_a_float() {
    let column = || vec![Column::new("a", ColumnType::Float64)];
    let powers = [2_f64.powi(128), 2_f64.powi(200), 1e300];
    let texts = powers.map(|power| format!("{power:.0}"));
    let table = json(&lines(texts.clone()), column()).await.unwrap();
    assert_eq!(table["a"].as_primitive::<Float64Type>().values().to_vec(), powers);
    let table = csv(&format!("a\n{}\n", texts.join("\n")), column()).await.unwrap();
    assert_eq!(table["a"].as_primitive::<Float64Type>().values().to_vec(), powers);
    let odd = format!("{}1", &texts[0][..texts[0].len() - 1]);
    names(json(&lines([odd.clone()]), column()).await, &[&odd, "Float64", "rounded"]);
    names(csv(&format!("a\n{odd}\n"), column()).await, &[&odd, "Float64", "rounded"]);
}

/// `rondo read --format jsonl` writes these texts.
#[tokio::test]
async fn nan_and_infinity_in_json_are_texts() {
    let texts = ["\"NaN\"", "\"Infinity\"", "\"-Infinity\""].map(str::to_owned);
    for kind in [ColumnType::Float64, ColumnType::Float32] {
        let table = json(&lines(texts.clone()), vec![Column::new("a", kind)]).await.unwrap();
        let found = arrow::compute::cast(&table["a"], &DataType::Float64).unwrap();
        let found = found.as_primitive::<Float64Type>().values().to_vec();
        assert!(found[0].is_nan(), "{found:?}");
        assert_eq!(found[1..], [f64::INFINITY, f64::NEG_INFINITY]);
    }
}

#[tokio::test]
async fn a_leap_second_is_no_other_second() {
    let leap = "2016-12-31 23:59:60";
    let table = csv(&format!("a\n2016-12-31 10:00:00\n{leap}\n"), Vec::new()).await.unwrap();
    assert_eq!(table["a"].as_string::<i32>().value(1), leap);
    let usual: String = (0..1000).map(|_| "2026-11-27 10:00:00\n").collect();
    let late = csv(&format!("a\n{usual}{leap}\n"), Vec::new()).await;
    names(late, &[leap, "Timestamp", "second 60"]);
    let column = || vec![Column::new("a", ColumnType::Timestamp)];
    for text in ["2016-12-31T23:59:60Z", "2016-12-31 235960", "2016-12-31T23:59:60.5+01:00"] {
        names(json(&lines([format!("{text:?}")]), column()).await, &[text, "second 60"]);
        names(csv(&format!("a\n{text}\n"), column()).await, &[text, "second 60"]);
    }
}

#[tokio::test]
async fn a_date_with_a_sign_is_kept() {
    let column = || vec![Column::new("a", ColumnType::Date)];
    for text in ["+10999-12-31", "-0012-05-06"] {
        let (table, other) = (
            csv(&format!("a\n{text}\n"), column()).await,
            json(&lines([format!("{text:?}")]), column()).await,
        );
        for read in [table.unwrap(), other.unwrap()] {
            let texts = arrow::compute::cast(&read["a"], &DataType::Utf8).unwrap();
            assert_eq!(texts.as_string::<i32>().value(0), text);
        }
    }
    names(csv("a\n10999-12-31\n", column()).await, &["10999-12-31", "Date32"]);
}

#[tokio::test]
async fn blanks_around_a_number_hide_nothing() {
    let wide = || vec![Column::new("a", ColumnType::Float64)];
    names(csv("a\n 9007199254740993\n", wide()).await, &["9007199254740993", "rounded"]);
    names(csv("a\n1e400 \n", wide()).await, &["1e400", "too large"]);
    names(json(&lines(["\" 1e400\"".into()]), wide()).await, &["1e400", "too large"]);
    let text: String = thousand().map(|value| value + "\n").collect();
    names(csv(&format!("a\n{text} 02134\n"), Vec::new()).await, &["02134", "zeros would be lost"]);
}

#[tokio::test]
async fn an_integer_beyond_all_floats_is_not_infinite() {
    for kind in [ColumnType::Float32, ColumnType::Float64] {
        let column = || vec![Column::new("a", kind)];
        let large = format!("1{}", "0".repeat(400));
        names(json(&lines([large.clone()]), column()).await, &["000", "too large"]);
        names(csv(&format!("a\n{large}\n"), column()).await, &["000", "too large"]);
    }
}

/// Whichever split a record is of, and whatever stands before it: a header, empty lines, a record that is
/// passed over or left out.
#[tokio::test]
async fn the_row_is_the_records_number_in_its_file() {
    let world = World::new();
    let row = |row: u32| if row % 10 == 7 { "many\n\n".to_owned() } else { format!("{row}\n") };
    let text: String = (0..60).map(row).collect();
    std::fs::write(world.path("a.csv"), format!("a\n{text}")).unwrap();
    let mut pipeline = Pipeline::csv(world.files("a.csv")).with_split_records(25);
    if let Source::Csv(source) = &mut pipeline.source {
        source.columns = vec![Column::new("a", ColumnType::Int64)];
    }
    for (pipeline, rows) in [
        (pipeline.clone(), [7, 17, 27, 37, 47, 57].as_slice()),
        (pipeline.clone().skip(20), &[27, 37, 47, 57]),
        (pipeline.shard(3, 4), &[7, 27, 47]),
    ] {
        let dataset = world.plan(&pipeline.skipping_corrupt()).await;
        let mut found = Vec::new();
        for split in 0..dataset.splits() {
            let mut reader = dataset.read_split(&world.stores, split as i64, 0, 0);
            while let Some(batch) = reader.next().await.unwrap() {
                found.extend(batch.skipped);
            }
        }
        assert_eq!(found.len(), rows.len(), "{found:?}");
        for (text, row) in found.iter().zip(rows) {
            assert!(text.contains(&format!(": row {row}: ")), "{text} is of row {row}");
        }
    }
}

fn texts(records: &RecordBatch, column: &str) -> Vec<String> {
    let texts = records[column].as_string::<i32>();
    texts.iter().flatten().map(str::to_owned).collect()
}

/// Wherever a batch or a split begins.
#[tokio::test]
async fn only_the_first_bytes_of_a_csv_file_are_a_byte_order_mark() {
    let read = csv("\u{feff}a,b\n\u{feff}x,1\n\u{feff}y,2\n", Vec::new()).await.unwrap();
    assert_eq!(texts(&read, "a"), ["\u{feff}x", "\u{feff}y"]);
    // Quotes behind such a character are no quotes of a field, so the line ends there.
    let text = "a\n\u{feff}\"x\n\u{feff}y\"\nz\n";
    let quoted = csv(text, Vec::new()).await.unwrap();
    assert_eq!(texts(&quoted, "a"), ["\u{feff}\"x", "\u{feff}y\"", "z"]);
    let world = World::new();
    std::fs::write(world.path("a.csv"), "\u{feff}x,1\n\u{feff}y,2\n").unwrap();
    let mut pipeline = Pipeline::csv(world.files("a.csv")).with_split_records(1);
    if let Source::Csv(source) = &mut pipeline.source {
        source.header = false;
    }
    let dataset = world.plan(&pipeline).await;
    for (split, wanted) in ["x", "\u{feff}y"].into_iter().enumerate() {
        let read = world.read(&dataset, split as i64, 0).await;
        assert_eq!(texts(&read, "column_1"), [wanted], "split {split}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_utf8_are_an_error_though_their_halves_meet() {
    for text in [&b"a,b\nx\xC3,\xA9y\n"[..], b"a,b\nx,y\xC3\n\xA9,z\n"] {
        names(csv(text, Vec::new()).await, &["a.csv is corrupt at byte 4: row 0", "no UTF-8"]);
    }
    let columns = vec![Column::new("a", ColumnType::String), Column::new("b", ColumnType::Binary)];
    names(csv(b"a,b\nx\xC3,\xA9y\n", columns).await, &["a.csv", "row 0", "no UTF-8"]);
    let world = World::new();
    std::fs::write(world.path("a.csv"), b"Gr\xF6\xDFe\n1\n").unwrap();
    let refusal = world.refusal(&Pipeline::csv(world.files("a.csv"))).await.to_string();
    assert!(refusal.contains("a.csv is corrupt at byte 0: ") && refusal.contains("no UTF-8"));
}

/// Days and times that are none, or that no integer of 64 bits counts.
#[tokio::test]
async fn a_column_whose_texts_only_look_like_times_is_one_of_texts() {
    for text in [
        "0000-00-00",
        "2026-02-30",
        "2026-13-01",
        "2026-02-30 10:00:00",
        "2026-11-27 25:00:00",
        "2026-11-27 10:00:00+99:00",
        "9999-12-31 00:00:00.0000000",
        "0001-01-01T00:00:00.123456789Z",
    ] {
        let read = csv(format!("a\n{text}\n"), Vec::new()).await.unwrap();
        assert_eq!(read["a"].data_type(), &DataType::Utf8, "{text}");
        assert_eq!(texts(&read, "a"), [text]);
    }
    let read = csv("a,b\n9999-12-31,0001-01-01 00:00:00\n", Vec::new()).await.unwrap();
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    assert_eq!((read["a"].data_type(), read["b"].data_type()), (&DataType::Date32, &micros));
}

#[tokio::test]
async fn a_key_that_stands_twice_in_an_object_is_an_error() {
    for (line, key) in [
        (r#"{"a": 1, "a": 2}"#, "\"a\""),
        (r#"{"a": 1, "\u0061": 1}"#, "\"a\""),
        (r#"{"a": {"b": 1, "c": 2, "b": 3}}"#, "\"b\""),
        (r#"{"a": [{"b": 1}, {"b": 1, "b": 3}]}"#, "\"b\""),
    ] {
        let read = json(&[line.to_owned()], Vec::new()).await;
        names(read, &["a.jsonl is corrupt at byte 0: row 0", key, "twice"]);
    }
    let column = || vec![Column::new("a", ColumnType::Int64)];
    let read = json(&[r#"{"a": 1, "a": 2}"#.to_owned()], column()).await;
    names(read, &["a.jsonl", "\"a\"", "twice"]);
    // Columns that the pipeline does not name are left out, however often they stand there.
    let read = json(&[r#"{"b": 1, "a": 7, "b": 2}"#.to_owned()], column()).await.unwrap();
    assert_eq!(read["a"].as_primitive::<Int64Type>().values().to_vec(), [7]);
}

#[tokio::test]
async fn numbers_in_lists_of_any_kind_are_checked() {
    let mut pair = Column::new("a", ColumnType::Int64);
    pair.shape = vec![2];
    let mut square = Column::new("a", ColumnType::Int64);
    square.shape = vec![2, 2];
    let mut list = Column::new("a", ColumnType::Int64);
    list.list = true;
    for (column, good, bad) in [
        (pair, "[1, 2]", "[1, 1.7]"),
        (square, "[[1, 2], [3, 4]]", "[[1, 2], [3, 1.7]]"),
        (list, "[1, 2, 3]", "[1, 2, 1.7]"),
    ] {
        let read = json(&lines([good.into(), bad.into()]), vec![column.clone()]).await;
        names(read, &["row 1", "column \"a\"", "1.7", "Int64", "no integer"]);
        assert!(json(&lines([good.into()]), vec![column]).await.is_ok(), "{good}");
    }
}

#[tokio::test]
async fn a_time_with_a_zone_is_the_same_moment() {
    let all = "2026-11-27 10:00:00Z\n2026-11-27 12:00:00+02:00\n2026-11-27 05:00:00-05:00\n";
    let table = csv(&format!("a\n{all}"), Vec::new()).await.unwrap();
    assert_eq!(table["a"].data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    let found = table["a"].as_primitive::<TimestampMicrosecondType>().values().to_vec();
    assert_eq!(found, [1_795_773_600_000_000; 3]);
}

#[tokio::test]
async fn fields_with_another_delimiter_are_checked_too() {
    let world = World::new();
    let read = async |text: &str, columns: Vec<Column>| {
        std::fs::write(world.path("a.csv"), text).unwrap();
        let mut pipeline = Pipeline::csv(world.files("a.csv"));
        if let Source::Csv(source) = &mut pipeline.source {
            (source.delimiter, source.columns) = (';', columns);
        }
        world.try_read(&world.plan(&pipeline).await, 0, 0).await
    };
    let columns =
        || vec![Column::new("a", ColumnType::String), Column::new("b", ColumnType::Float64)];
    let read_id = read("a;b\nx,y;1\nz;9007199254740993\n", columns()).await;
    names(read_id, &["row 1", "\"b\"", "9007199254740993", "rounded"]);
    let table = read("a;b\nx,y;1\nz;2\n", columns()).await.unwrap();
    assert_eq!(texts(&table, "a"), ["x,y", "z"]);
    let guessed = read("a;b\nx,y;02134\nz;2\n", Vec::new()).await.unwrap();
    assert_eq!(
        (texts(&guessed, "a")[0].as_str(), texts(&guessed, "b")[0].as_str()),
        ("x,y", "02134")
    );
}
