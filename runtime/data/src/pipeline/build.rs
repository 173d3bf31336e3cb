//! Pipelines built in Rust.

use super::{
    ArrowSource, BatchOf, Compression, Condition, CsvSource, FillNull, Interleave, JsonLinesSource,
    Made, Map, Operation, PIPELINE_VERSION, ParquetSource, Pipeline, RangeSource, Repeat, ShardOf,
    Shuffle, Source, TextSource, TfrecordSource, Value, WebdatasetSource,
};

fn names<F: Into<String>>(files: impl IntoIterator<Item = F>) -> Vec<String> {
    files.into_iter().map(Into::into).collect()
}

impl Pipeline {
    /// The records of a source, as they are.
    pub const fn of(source: Source) -> Self {
        Self {
            version: PIPELINE_VERSION,
            source,
            operations: Vec::new(),
            skip_corrupt: false,
            split_records: None,
            split_bytes: None,
        }
    }

    /// The integers from `start` on that are below `end`.
    pub const fn range(start: i64, end: i64) -> Self {
        Self::of(Source::Range(RangeSource { start, end, step: 1 }))
    }

    /// The lines of text files.
    pub fn text<F: Into<String>>(files: impl IntoIterator<Item = F>) -> Self {
        let compression = Compression::ByName;
        Self::of(Source::Text(TextSource { files: names(files), compression }))
    }

    /// The lines of CSV files that name their columns.
    pub fn csv<F: Into<String>>(files: impl IntoIterator<Item = F>) -> Self {
        Self::of(Source::Csv(CsvSource {
            files: names(files),
            compression: Compression::ByName,
            header: true,
            delimiter: ',',
            columns: Vec::new(),
        }))
    }

    /// The JSON objects of files that have one in each line.
    pub fn json_lines<F: Into<String>>(files: impl IntoIterator<Item = F>) -> Self {
        let (compression, columns) = (Compression::ByName, Vec::new());
        Self::of(Source::JsonLines(JsonLinesSource { files: names(files), compression, columns }))
    }

    /// The rows of Parquet files.
    pub fn parquet<F: Into<String>>(files: impl IntoIterator<Item = F>) -> Self {
        Self::of(Source::Parquet(ParquetSource { files: names(files) }))
    }

    /// The rows of Arrow IPC files.
    pub fn arrow<F: Into<String>>(files: impl IntoIterator<Item = F>) -> Self {
        Self::of(Source::Arrow(ArrowSource { files: names(files) }))
    }

    /// The records of TFRecord files, as bytes.
    pub fn tfrecord<F: Into<String>>(files: impl IntoIterator<Item = F>) -> Self {
        let (compression, example) = (Compression::ByName, Vec::new());
        Self::of(Source::Tfrecord(TfrecordSource { files: names(files), compression, example }))
    }

    /// The samples of WebDataset tar files.
    pub fn webdataset<F: Into<String>>(files: impl IntoIterator<Item = F>) -> Self {
        let compression = Compression::ByName;
        Self::of(Source::Webdataset(WebdatasetSource { files: names(files), compression }))
    }

    /// With an operation behind the others.
    #[must_use]
    pub fn then(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// In another order, drawn among `buffer` records each.
    #[must_use]
    pub fn shuffle(self, seed: u64, buffer: u64) -> Self {
        self.then(Operation::Shuffle(Shuffle { seed, buffer }))
    }

    /// In batches of `size`.
    #[must_use]
    pub fn batch(self, size: u64, drop_remainder: bool) -> Self {
        self.then(Operation::Batch(BatchOf { size, drop_remainder }))
    }

    /// So many times.
    #[must_use]
    pub fn repeat(self, count: u64) -> Self {
        self.then(Operation::Repeat(Repeat::Count(count)))
    }

    /// Again and again.
    #[must_use]
    pub fn repeat_endlessly(self) -> Self {
        self.then(Operation::Repeat(Repeat::Endless))
    }

    /// The first so many.
    #[must_use]
    pub fn take(self, count: u64) -> Self {
        self.then(Operation::Take(count))
    }

    /// All but the first so many.
    #[must_use]
    pub fn skip(self, count: u64) -> Self {
        self.then(Operation::Skip(count))
    }

    /// Every `count`th, from the `index`th on.
    #[must_use]
    pub fn shard(self, index: u64, count: u64) -> Self {
        self.then(Operation::Shard(ShardOf { index, count }))
    }

    /// `cycle` files in turn, `block` records of each.
    #[must_use]
    pub fn interleave(self, cycle: u64, block: u64) -> Self {
        self.then(Operation::Interleave(Interleave { cycle, block }))
    }

    /// With these columns only.
    #[must_use]
    pub fn select<C: Into<String>>(self, columns: impl IntoIterator<Item = C>) -> Self {
        self.then(Operation::Select(names(columns)))
    }

    /// The records of which this is true.
    #[must_use]
    pub fn filter(self, condition: Condition) -> Self {
        self.then(Operation::Filter(condition))
    }

    /// With a column made of others.
    #[must_use]
    pub fn map(self, column: impl Into<String>, made: Made) -> Self {
        self.then(Operation::Map(Map { column: column.into(), made }))
    }

    /// With a value where a column has none.
    #[must_use]
    pub fn fill_null(self, column: impl Into<String>, value: impl Into<Value>) -> Self {
        self.then(Operation::FillNull(FillNull { column: column.into(), value: value.into() }))
    }

    /// With so many batches made ahead.
    #[must_use]
    pub fn prefetch(self, batches: u64) -> Self {
        self.then(Operation::Prefetch(batches))
    }

    /// With about so many records in a split.
    #[must_use]
    pub const fn with_split_records(mut self, records: u64) -> Self {
        self.split_records = Some(records);
        self
    }

    /// With about so many bytes of files in a split.
    #[must_use]
    pub const fn with_split_bytes(mut self, bytes: u64) -> Self {
        self.split_bytes = Some(bytes);
        self
    }

    /// With records that cannot be read passed over and counted.
    #[must_use]
    pub const fn skipping_corrupt(mut self) -> Self {
        self.skip_corrupt = true;
        self
    }
}
