//! CSV and JSON: every value is what the file says, or an error names it.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType, UInt64Type,
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

async fn csv(text: &str, columns: Vec<Column>) -> Result<RecordBatch, DataError> {
    let world = World::new();
    std::fs::write(world.path("a.csv"), text).unwrap();
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
    names(read, &["a.jsonl", "column \"a\"", "1.5", "Int64", "no integer", "`columns`"]);
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
async fn zeros_at_the_beginning() {
    let table = csv("a\n02134\n10115\n", Vec::new()).await.unwrap();
    assert_eq!(table["a"].as_string::<i32>().value(0), "02134");
    let text: String = thousand().map(|value| value + "\n").collect();
    names(csv(&format!("a\n{text}02134\n"), Vec::new()).await, &["02134", "zeros would be lost"]);
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
