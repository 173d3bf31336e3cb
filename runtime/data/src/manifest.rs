//! What the files of a dataset held when it was registered: of which parts the splits consist.

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use prost::Message;
use rondo_proto::admin as wire;

use crate::error::DataError;
use crate::ipc::{schema_from_ipc, schema_to_ipc};
use crate::limits::{FILES_MAX, SPLITS_MAX};

/// The version of manifests that this Rondo knows.
const MANIFEST_VERSION: u32 = 1;

/// What the files of a dataset held when it was registered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    /// In the order of their records. A source without files has one without a location.
    pub(crate) files: Vec<FileEntry>,
    /// The parts of each split, in the order in which they are read.
    pub(crate) splits: Vec<Vec<Part>>,
    /// Of the records in a part only each so-manieth is read; at least 1.
    pub(crate) stride: u64,
    /// The columns of the records in the files.
    pub(crate) schema: SchemaRef,
}

/// A file, as it must still be when it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileEntry {
    pub(crate) location: String,
    pub(crate) size: u64,
    pub(crate) version: String,
    pub(crate) records: u64,
}

/// Successive records of a file, of which some are read: each `stride`th from the one after `skip`
/// others on, `take` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its place among the files.
    pub(crate) file: u32,
    /// The number in the file of the record at `offset`.
    pub(crate) first: u64,
    /// Records between `offset` and the end of the part.
    pub(crate) records: u64,
    /// Where it begins: a byte of the decompressed file, a row group, or a record batch.
    pub(crate) offset: u64,
    /// How many bytes, row groups, or record batches there are.
    pub(crate) length: u64,
    pub(crate) skip: u64,
    pub(crate) take: u64,
}

impl Manifest {
    /// The manifest as bytes of `rondo.v1.Manifest`.
    pub(crate) fn to_bytes(&self) -> Result<Bytes, DataError> {
        let file = |file: &FileEntry| wire::ManifestFile {
            location: file.location.clone(),
            size_bytes: file.size,
            version: file.version.clone(),
            records: file.records,
        };
        let split = |parts: &Vec<Part>| wire::ManifestSplit {
            parts: parts.iter().map(part_to_wire).collect(),
        };
        let message = wire::Manifest {
            version: MANIFEST_VERSION,
            files: self.files.iter().map(file).collect(),
            splits: self.splits.iter().map(split).collect(),
            stride: self.stride,
            schema: schema_to_ipc(&self.schema)?,
        };
        Ok(message.encode_to_vec().into())
    }

    /// Reads a manifest from bytes of `rondo.v1.Manifest`.
    pub(crate) fn from_bytes(bytes: Bytes) -> Result<Self, DataError> {
        let wrong = |what: String| DataError::definition(format!("its manifest: {what}"));
        let message = wire::Manifest::decode(bytes).map_err(|error| wrong(error.to_string()))?;
        let (found, known) = (message.version, MANIFEST_VERSION);
        if found > known {
            return Err(DataError::Newer { what: "manifest", found: found.into(), known });
        }
        let (files, splits) = (message.files.len() as u64, message.splits.len() as u64);
        if files > FILES_MAX || splits > SPLITS_MAX || message.stride == 0 {
            let stride = message.stride;
            return Err(wrong(format!("{files} files, {splits} splits, the stride {stride}")));
        }
        let part = |part: wire::ManifestPart| part_from_wire(&part, files).map_err(wrong);
        let split = |split: wire::ManifestSplit| split.parts.into_iter().map(part).collect();
        Ok(Self {
            files: message.files.into_iter().map(file_from_wire).collect(),
            splits: message.splits.into_iter().map(split).collect::<Result<_, _>>()?,
            stride: message.stride,
            schema: schema_from_ipc(&message.schema)?,
        })
    }

    /// Records that are read in one pass, before any of them is filtered out.
    pub(crate) fn records(&self) -> u64 {
        self.splits.iter().flatten().fold(0, |sum, part| sum.saturating_add(part.take))
    }
}

fn part_to_wire(part: &Part) -> wire::ManifestPart {
    wire::ManifestPart {
        file: part.file,
        first: part.first,
        records: part.records,
        offset: part.offset,
        length: part.length,
        skip: part.skip,
        take: part.take,
    }
}

fn part_from_wire(part: &wire::ManifestPart, files: u64) -> Result<Part, String> {
    if u64::from(part.file) >= files {
        return Err(format!("a part is of file {}, there are {files}", part.file));
    }
    let ends = [part.first.checked_add(part.records), part.offset.checked_add(part.length)];
    if ends.contains(&None) || part.skip > part.records || part.take > part.records {
        return Err(format!("a part of file {} is out of bounds", part.file));
    }
    Ok(Part {
        file: part.file,
        first: part.first,
        records: part.records,
        offset: part.offset,
        length: part.length,
        skip: part.skip,
        take: part.take,
    })
}

fn file_from_wire(file: wire::ManifestFile) -> FileEntry {
    FileEntry {
        location: file.location,
        size: file.size_bytes,
        version: file.version,
        records: file.records,
    }
}
