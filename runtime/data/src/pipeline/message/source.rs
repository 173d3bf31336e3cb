//! Sources as `rondo.v1.PipelineSource`.

use rondo_proto::admin as wire;
use rondo_proto::admin::pipeline_source::Kind;

use super::{needed, odd};
use crate::error::DataError;
use crate::pipeline::{
    ArrowSource, Column, ColumnType, Compression, CsvSource, JsonLinesSource, ParquetSource,
    RangeSource, Source, TextSource, TfrecordSource, WebdatasetSource,
};

pub(super) fn to_wire(source: &Source) -> wire::PipelineSource {
    let files = source.files().to_vec();
    let compression = compression_to_wire(source.compression()).into();
    let kind = match source {
        Source::Range(RangeSource { start, end, step }) => {
            Kind::Range(wire::RangeSource { start: *start, end: *end, step: *step })
        }
        Source::Text(_) => Kind::Text(wire::TextSource { files, compression }),
        Source::Csv(csv) => Kind::Csv(wire::CsvSource {
            files,
            compression,
            header: csv.header,
            delimiter: csv.delimiter.into(),
            columns: columns_to_wire(&csv.columns),
        }),
        Source::JsonLines(json) => {
            let columns = columns_to_wire(&json.columns);
            Kind::JsonLines(wire::JsonLinesSource { files, compression, columns })
        }
        Source::Parquet(_) => Kind::Parquet(wire::ParquetSource { files }),
        Source::Arrow(_) => Kind::Arrow(wire::ArrowSource { files }),
        Source::Tfrecord(tfrecord) => {
            let example = columns_to_wire(&tfrecord.example);
            Kind::Tfrecord(wire::TfrecordSource { files, compression, example })
        }
        Source::Webdataset(_) => Kind::Webdataset(wire::WebdatasetSource { files, compression }),
    };
    wire::PipelineSource { kind: Some(kind) }
}

pub(super) fn from_wire(source: wire::PipelineSource) -> Result<Source, DataError> {
    Ok(match needed(source.kind, "source")? {
        Kind::Range(range) => {
            let (start, end, step) = (range.start, range.end, range.step);
            Source::Range(RangeSource { start, end, step })
        }
        Kind::Text(text) => {
            let compression = compression(text.compression)?;
            Source::Text(TextSource { files: text.files, compression })
        }
        Kind::Csv(csv) => Source::Csv(CsvSource {
            files: csv.files,
            compression: compression(csv.compression)?,
            header: csv.header,
            delimiter: needed(char::from_u32(csv.delimiter), "delimiter")?,
            columns: columns(csv.columns)?,
        }),
        Kind::JsonLines(json) => Source::JsonLines(JsonLinesSource {
            files: json.files,
            compression: compression(json.compression)?,
            columns: columns(json.columns)?,
        }),
        Kind::Parquet(parquet) => Source::Parquet(ParquetSource { files: parquet.files }),
        Kind::Arrow(arrow) => Source::Arrow(ArrowSource { files: arrow.files }),
        Kind::Tfrecord(tfrecord) => Source::Tfrecord(TfrecordSource {
            files: tfrecord.files,
            compression: compression(tfrecord.compression)?,
            example: columns(tfrecord.example)?,
        }),
        Kind::Webdataset(tar) => {
            let compression = compression(tar.compression)?;
            Source::Webdataset(WebdatasetSource { files: tar.files, compression })
        }
    })
}

const fn compression_to_wire(compression: Compression) -> wire::Compression {
    match compression {
        Compression::ByName => wire::Compression::ByName,
        Compression::None => wire::Compression::None,
        Compression::Gzip => wire::Compression::Gzip,
        Compression::Zlib => wire::Compression::Zlib,
        Compression::Zstd => wire::Compression::Zstd,
    }
}

fn compression(number: i32) -> Result<Compression, DataError> {
    let known = wire::Compression::try_from(number);
    Ok(match known.map_err(|_| odd(&format!("the compression {number}")))? {
        wire::Compression::ByName => Compression::ByName,
        wire::Compression::None => Compression::None,
        wire::Compression::Gzip => Compression::Gzip,
        wire::Compression::Zlib => Compression::Zlib,
        wire::Compression::Zstd => Compression::Zstd,
    })
}

fn columns_to_wire(columns: &[Column]) -> Vec<wire::Column> {
    let column = |column: &Column| wire::Column {
        name: column.name.clone(),
        r#type: type_to_wire(column.kind).into(),
        shape: column.shape.clone(),
        list: column.list,
    };
    columns.iter().map(column).collect()
}

fn columns(columns: Vec<wire::Column>) -> Result<Vec<Column>, DataError> {
    let column = |column: wire::Column| {
        let kind = column_type(column.r#type)?;
        Ok(Column { name: column.name, kind, shape: column.shape, list: column.list })
    };
    columns.into_iter().map(column).collect()
}

macro_rules! types {
    ($($name:ident),*) => {
        pub(super) const fn type_to_wire(kind: ColumnType) -> wire::ColumnType {
            match kind {
                $(ColumnType::$name => wire::ColumnType::$name,)*
            }
        }

        pub(super) fn column_type(number: i32) -> Result<ColumnType, DataError> {
            let known = wire::ColumnType::try_from(number).unwrap_or(wire::ColumnType::Unspecified);
            match known {
                wire::ColumnType::Unspecified => Err(odd(&format!("the column type {number}"))),
                $(wire::ColumnType::$name => Ok(ColumnType::$name),)*
            }
        }
    };
}

types!(
    Bool, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float32, Float64, String,
    Binary, Date, Timestamp
);
