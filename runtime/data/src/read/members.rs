//! The records of a split as they are in its parts: one part after the other, or all in turn.

use std::collections::VecDeque;

use arrow::compute::interleave_record_batch;
use arrow::record_batch::RecordBatch;

use crate::dataset::Dataset;
use crate::error::DataError;
use crate::manifest::Part;
use crate::source::{Chunk, PartReader, Reading};
use crate::stores::Stores;

/// Reads the parts of a split.
pub(super) struct Members {
    dataset: Dataset,
    stores: Stores,
    reading: Reading,
    /// Parts not yet begun, with how many of their records to pass over.
    waiting: VecDeque<(Part, u64)>,
    /// With parts that alternate, all of them; else the one that is read.
    open: VecDeque<Member>,
    /// Records of each part in turn; `None` if one comes after the other.
    block: Option<usize>,
}

/// A part that is read.
struct Member {
    reader: PartReader,
    /// Records that were read and have not had their turn.
    rest: Option<RecordBatch>,
    is_over: bool,
}

impl Members {
    /// The parts of a split; of their records, the first ones are passed over. Alternating parts
    /// are read from the beginning: the records passed over are still to come.
    pub(super) fn new(
        dataset: &Dataset,
        stores: &Stores,
        reading: Reading,
        parts: &[Part],
        skip: u64,
    ) -> Self {
        let interleave = dataset.steps().interleave;
        let block = interleave.map(|it| usize::try_from(it.block).unwrap_or(usize::MAX).max(1));
        let mut left = if block.is_some() { 0 } else { skip };
        let mut waiting = VecDeque::new();
        for part in parts {
            let here = left.min(part.take);
            left = left.saturating_sub(here);
            if here < part.take {
                waiting.push_back((*part, here));
            }
        }
        let (dataset, stores) = (dataset.clone(), stores.clone());
        Self { dataset, stores, reading, waiting, open: VecDeque::new(), block }
    }

    /// The next records; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Chunk>, DataError> {
        match self.block {
            None => self.next_of_one().await,
            Some(block) => self.next_of_all(block).await,
        }
    }

    fn begin(&mut self) -> Result<bool, DataError> {
        let Some((part, skip)) = self.waiting.pop_front() else {
            return Ok(false);
        };
        let files = &self.dataset.manifest().files;
        let file = files.get(part.file as usize);
        let file = file.ok_or_else(|| DataError::definition("a part of no file"))?;
        let source = &self.dataset.pipeline().source;
        let reader = if file.location.is_empty() {
            PartReader::without_file(source, &self.reading, &part, skip)?
        } else {
            let file = self.stores.known(&file.location, file.size, &file.version)?;
            PartReader::open(source, &self.reading, file, &part, skip)?
        };
        self.open.push_back(Member { reader, rest: None, is_over: false });
        Ok(true)
    }

    async fn next_of_one(&mut self) -> Result<Option<Chunk>, DataError> {
        loop {
            if self.open.is_empty() && !self.begin()? {
                return Ok(None);
            }
            if let Some(member) = self.open.front_mut() {
                if let Some(chunk) = member.reader.next().await? {
                    return Ok(Some(chunk));
                }
                self.open.pop_front();
            }
        }
    }

    /// Blocks of all parts in turn, for a chunk.
    async fn next_of_all(&mut self, block: usize) -> Result<Option<Chunk>, DataError> {
        while self.begin()? {}
        let (mut batches, mut places, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        while places.len() < self.reading.chunk_records {
            let Some(mut member) = self.open.pop_front() else {
                break;
            };
            let mut wanted = block;
            while wanted > 0 && member.fill(&mut skipped).await? {
                let Some(rest) = member.rest.take() else {
                    break;
                };
                let count = rest.num_rows().min(wanted);
                let batch = batches.len();
                places.extend((0..count).map(|row| (batch, row)));
                batches.push(rest.slice(0, count));
                wanted = wanted.saturating_sub(count);
                member.rest = Some(rest.slice(count, rest.num_rows().saturating_sub(count)));
            }
            if !member.is_over {
                self.open.push_back(member);
            }
        }
        if batches.is_empty() && skipped.is_empty() {
            return Ok(None);
        }
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(self.reading.schema.clone()));
        }
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        let records = interleave_record_batch(&batches, &places);
        let records = records.map_err(|error| DataError::internal(error.to_string()))?;
        Ok(Some(Chunk { records, skipped }))
    }
}

impl Member {
    /// Sees to it that there are records; whether there are.
    async fn fill(&mut self, skipped: &mut Vec<String>) -> Result<bool, DataError> {
        while !self.is_over && self.rest.as_ref().is_none_or(|rest| rest.num_rows() == 0) {
            match self.reader.next().await? {
                Some(chunk) => {
                    self.rest = Some(chunk.records);
                    skipped.extend(chunk.skipped);
                }
                None => self.is_over = true,
            }
        }
        Ok(!self.is_over)
    }
}
