//! The table of the demonstration is the same in all its forms.

use std::path::Path;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use rondo_data::{Column, ColumnType, Made, Pipeline, Source};

use super::world::World;

fn file(name: &str) -> [String; 1] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo").join(name);
    [path.to_str().unwrap().to_owned()]
}

const COLUMNS: [(&str, ColumnType); 7] = [
    ("location", ColumnType::String),
    ("date", ColumnType::String),
    ("precipitation", ColumnType::Float32),
    ("temp_max", ColumnType::Float32),
    ("temp_min", ColumnType::Float32),
    ("wind", ColumnType::Float32),
    ("weather", ColumnType::String),
];

fn columns() -> Vec<Column> {
    COLUMNS.map(|(name, kind)| Column::new(name, kind)).to_vec()
}

async fn records(mut pipeline: Pipeline) -> RecordBatch {
    let world = World::new();
    // The same columns whether they may be null or not.
    for (name, kind) in COLUMNS {
        let text = kind == ColumnType::String;
        pipeline = pipeline.map(name, Made::Cast { column: name.to_owned(), to: kind });
        pipeline = if text { pipeline.fill_null(name, "-") } else { pipeline.fill_null(name, -1) };
    }
    let dataset = world.plan(&pipeline).await;
    let splits = world.read_splits(&dataset, 1).await;
    concat_batches(&dataset.schema(), &splits).unwrap()
}

#[tokio::test]
async fn csv_parquet_and_tfrecord_hold_the_same_records() {
    let mut csv = Pipeline::csv(file("weather.csv"));
    if let Source::Csv(source) = &mut csv.source {
        source.columns = columns();
    }
    let mut tfrecord = Pipeline::tfrecord(file("weather.tfrecord")).with_split_records(200);
    if let Source::Tfrecord(source) = &mut tfrecord.source {
        source.example = columns();
    }
    let parquet = Pipeline::parquet(file("weather.parquet")).with_split_records(100);
    assert_eq!(World::new().plan(&parquet).await.splits(), 30, "row groups");
    let csv = records(csv).await;
    assert_eq!(csv.num_rows(), 2922);
    assert_eq!(records(parquet).await, csv);
    assert_eq!(records(tfrecord).await, csv);
}
