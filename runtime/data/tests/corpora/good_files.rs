//! Small files as they should be, one of each format.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::ipc::writer::FileWriter;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use rondo_data::Pipeline;

const RECORDS: i64 = 20;

/// How to read a format, and a file of it.
pub(crate) struct Format {
    /// Its name, by whose end a compression is known.
    pub(crate) file: &'static str,
    pub(crate) pipeline: fn([String; 1]) -> Pipeline,
    pub(crate) good: fn() -> Vec<u8>,
}

pub(crate) const FORMATS: [Format; 10] = [
    Format { file: "a.txt", pipeline: |it| Pipeline::text(it), good: numbers },
    Format { file: "a.csv", pipeline: |it| Pipeline::csv(it), good: csv },
    Format { file: "a.jsonl", pipeline: |it| Pipeline::json_lines(it), good: json_lines },
    Format { file: "a.tfrecord", pipeline: |it| Pipeline::tfrecord(it), good: tfrecord },
    Format { file: "a.tar", pipeline: |it| Pipeline::webdataset(it), good: tar },
    Format { file: "a.parquet", pipeline: |it| Pipeline::parquet(it), good: parquet },
    Format { file: "a.arrow", pipeline: |it| Pipeline::arrow(it), good: arrow },
    Format { file: "a.csv.gz", pipeline: |it| Pipeline::csv(it), good: csv },
    Format { file: "a.jsonl.zst", pipeline: |it| Pipeline::json_lines(it), good: json_lines },
    Format { file: "a.tfrecord.zz", pipeline: |it| Pipeline::tfrecord(it), good: tfrecord },
];

/// The bytes as the file's name says they are compressed.
pub(crate) fn compressed(file: &str, bytes: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::fast();
    match file.rsplit_once('.').map(|(_, end)| end) {
        Some("gz") => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), level);
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        Some("zz") => {
            let mut out = flate2::write::ZlibEncoder::new(Vec::new(), level);
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        Some("zst") => zstd::encode_all(bytes, 1).unwrap(),
        _ => bytes.to_vec(),
    }
}

fn lines(line: fn(i64) -> String) -> Vec<u8> {
    (0..RECORDS).map(line).collect::<String>().into_bytes()
}

fn numbers() -> Vec<u8> {
    lines(|number| format!("line {number}\n"))
}

fn csv() -> Vec<u8> {
    let head = b"number,word\n".to_vec();
    [head, lines(|number| format!("{number},\"word, {number}\"\n"))].concat()
}

fn json_lines() -> Vec<u8> {
    lines(|number| format!("{{\"number\":{number},\"words\":[\"a\",\"{number}\"]}}\n"))
}

fn tfrecord() -> Vec<u8> {
    let mask = |sum: u32| sum.rotate_right(15).wrapping_add(0xA282_EAD8).to_le_bytes();
    let mut file = Vec::new();
    for number in 0..RECORDS {
        let content = format!("record {number}");
        let length = (content.len() as u64).to_le_bytes();
        file.extend(length);
        file.extend(mask(crc32c::crc32c(&length)));
        file.extend(content.as_bytes());
        file.extend(mask(crc32c::crc32c(content.as_bytes())));
    }
    file
}

fn tar() -> Vec<u8> {
    let mut file = tar::Builder::new(Vec::new());
    for number in 0..6 {
        for (end, content) in [("cls", format!("{number}")), ("txt", "text".repeat(number))] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            let name = format!("sample{number}.{end}");
            file.append_data(&mut header, name, content.as_bytes()).unwrap();
        }
    }
    file.into_inner().unwrap()
}

fn table() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..RECORDS));
    let words = (0..RECORDS).map(|number| (number % 5 != 0).then(|| format!("word {number}")));
    let words: ArrayRef = Arc::new(words.collect::<StringArray>());
    RecordBatch::try_from_iter([("number", numbers), ("word", words)]).unwrap()
}

fn parquet() -> Vec<u8> {
    let (mut file, records) = (Vec::new(), table());
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(8)).build();
    let mut out = ArrowWriter::try_new(&mut file, records.schema(), Some(properties)).unwrap();
    out.write(&records).unwrap();
    out.close().unwrap();
    file
}

fn arrow() -> Vec<u8> {
    let (mut file, records) = (Vec::new(), table());
    let mut out = FileWriter::try_new(&mut file, &records.schema()).unwrap();
    for first in (0..records.num_rows()).step_by(8) {
        out.write(&records.slice(first, 8.min(records.num_rows() - first))).unwrap();
    }
    out.finish().unwrap();
    drop(out);
    file
}
