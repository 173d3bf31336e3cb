//! What a dataset is made of: found out once, when it is registered.

use futures_util::stream::{StreamExt, TryStreamExt, iter};

use crate::choice::Choice;
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::limits::SPLITS_MAX;
use crate::manifest::{FileEntry, Manifest, Part};
use crate::pipeline::{Interleave, PIPELINE_VERSION, Pipeline, Source};
use crate::source::{Piece, Scanned, scan, scan_range, together};
use crate::steps::{Passes, Steps};
use crate::stores::{StoredFile, Stores};

/// Plans a dataset: finds its files, looks into each of them, and divides their records into splits.
/// Whatever reads it later depends on nothing but what is found here.
///
/// # Errors
/// When the pipeline is wrong, files are missing, corrupt or do not fit each other, or a bound is
/// reached.
pub async fn plan(pipeline: &Pipeline, stores: &Stores) -> Result<Dataset, DataError> {
    let (found, known) = (pipeline.version, PIPELINE_VERSION);
    if found > known {
        return Err(DataError::Newer { what: "pipeline", found: found.into(), known });
    }
    let steps = Steps::of(pipeline)?;
    let found = match &pipeline.source {
        Source::Range(range) => vec![(FileEntry::none(), scan_range(pipeline, range)?)],
        source => {
            let files = stores.list(source.files()).await?;
            let files = stores.look_at(&files).await?;
            scan_all(pipeline, files, stores.limits().files_at_once.max(1)).await?
        }
    };
    let manifest = manifest_of(pipeline, &steps, found)?;
    if steps.passes() == Passes::Endless && manifest.records() == 0 {
        return Err(DataError::pipeline("it repeats no records at all without end"));
    }
    Dataset::new(pipeline.clone(), steps, manifest)
}

async fn scan_all(
    pipeline: &Pipeline,
    files: Vec<StoredFile>,
    at_once: usize,
) -> Result<Vec<(FileEntry, Scanned)>, DataError> {
    let scans = files.into_iter().map(|file| async move {
        let scanned = scan(pipeline, &file).await.map_err(|error| error.of(&file.location))?;
        let records = scanned.records;
        let (location, size, version) = (file.location, file.size, file.version);
        Ok::<_, DataError>((FileEntry { location, size, version, records }, scanned))
    });
    iter(scans).buffered(at_once).try_collect().await
}

fn manifest_of(
    pipeline: &Pipeline,
    steps: &Steps,
    found: Vec<(FileEntry, Scanned)>,
) -> Result<Manifest, DataError> {
    let total = found.iter().fold(0, |sum: u64, (_, it)| sum.saturating_add(it.records));
    let choice = Choice::of(&steps.choice, total);
    let (mut files, mut pieces, mut schema) = (Vec::new(), Vec::new(), None);
    let mut before = 0_u64;
    for (index, (file, scanned)) in found.into_iter().enumerate() {
        schema = Some(match schema {
            None => scanned.schema,
            Some(schema) => together(&pipeline.source, &schema, &scanned.schema)
                .map_err(|what| mixed(&file, files.first(), what))?,
        });
        let index = u32::try_from(index).map_err(|_| DataError::internal("too many files"))?;
        pieces.push(chosen(&scanned.pieces, &choice, before, index));
        before = before.saturating_add(scanned.records);
        files.push(file);
    }
    let schema = schema.ok_or_else(|| DataError::internal("a dataset without files"))?;
    let splits = match steps.interleave {
        Some(Interleave { cycle, .. }) => alternating(pieces, cycle),
        None => successive(pieces, pipeline),
    };
    let (found, bound) = (splits.len() as u64, SPLITS_MAX);
    if found > bound {
        let what = "splits of a pass".to_owned();
        let setting = "SPLITS_MAX; see split_records and split_bytes";
        return Err(DataError::Bound { what, found, bound, setting });
    }
    Ok(Manifest { files, splits, stride: choice.stride, schema })
}

fn mixed(file: &FileEntry, first: Option<&FileEntry>, what: String) -> DataError {
    let first = first.map_or_else(String::new, |first| first.location.clone());
    DataError::Mixed { file: file.location.clone(), first, what }
}

/// Of a file's pieces, what is chosen; before the file there are so many records.
fn chosen(pieces: &[Piece], choice: &Choice, before: u64, file: u32) -> Vec<Piece> {
    let choose = |piece: &Piece| {
        let part = &piece.part;
        let from = before.saturating_add(part.first).saturating_add(part.skip);
        let (skip, take) = choice.within(from, part.take);
        let bytes = u128::from(piece.bytes) * u128::from(take) / u128::from(part.take.max(1));
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let skip = part.skip.saturating_add(skip);
        (take > 0).then_some(Piece { part: Part { file, skip, take, ..*part }, bytes })
    };
    pieces.iter().filter_map(choose).collect()
}

/// Splits of successive pieces, which are as large as they should be.
fn successive(pieces: Vec<Vec<Piece>>, pipeline: &Pipeline) -> Vec<Vec<Part>> {
    let (records_max, bytes_max) = (pipeline.records_per_split(), pipeline.bytes_per_split());
    let (mut splits, mut open) = (Vec::new(), Vec::new());
    let (mut records, mut bytes) = (0_u64, 0_u64);
    for piece in pieces.into_iter().flatten() {
        let with = records.saturating_add(piece.part.take);
        let is_full = with > records_max || bytes.saturating_add(piece.bytes) > bytes_max;
        if is_full && !open.is_empty() {
            splits.push(std::mem::take(&mut open));
            (records, bytes) = (0, 0);
        }
        records = records.saturating_add(piece.part.take);
        bytes = bytes.saturating_add(piece.bytes);
        open.push(piece.part);
    }
    if !open.is_empty() {
        splits.push(open);
    }
    splits
}

/// Splits that have a piece of each of so many files, as long as those have pieces.
fn alternating(pieces: Vec<Vec<Piece>>, cycle: u64) -> Vec<Vec<Part>> {
    let cycle = usize::try_from(cycle).unwrap_or(usize::MAX).max(1);
    let mut splits = Vec::new();
    for group in pieces.chunks(cycle) {
        let longest = group.iter().map(Vec::len).max().unwrap_or(0);
        for place in 0..longest {
            let members = group.iter().filter_map(|pieces| Some(pieces.get(place)?.part));
            splits.push(members.collect());
        }
    }
    splits
}
