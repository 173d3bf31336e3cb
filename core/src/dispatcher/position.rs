//! Named positions: how far a job had been read when somebody wanted it remembered.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::by_split::SavedSplit;
use super::repetitions::Repetitions;
use crate::ids::{DatasetId, Digest, Lsn};
use crate::time::Time;

/// How far a job had been read.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// Its name.
    pub name: Arc<str>,
    /// The job's name.
    pub job: Arc<str>,
    /// The dataset that the job read; `None` in journals from before it was kept.
    pub dataset: Option<DatasetId>,
    /// The digest of that dataset's definition; `None` as above.
    pub definition: Option<Digest>,
    /// When it was saved.
    pub saved: Time,
    /// Repetitions that were finished.
    pub finished: Repetitions,
    /// Repetitions that had been given up before their end.
    pub abandoned: Repetitions,
    /// Those that were neither, in order.
    pub reading: Vec<SavedRepetition>,
    /// The record that saved it.
    pub changed: Lsn,
}

/// Where a repetition that was not finished stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRepetition {
    /// The repetition.
    pub repetition: i64,
    /// Where its sources of splits stood, in their order.
    pub sources: Vec<SavedSource>,
    /// Splits that clients were reading by themselves, or that waited for one, by place.
    pub splits: Vec<SavedSplit>,
}

/// Where a source of splits stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedSource {
    /// The pass over the source.
    pub repetition: i64,
    /// Splits of that pass handed out.
    pub index: u64,
}

/// A job whose next iterations begin at a position.
#[derive(Clone, Debug, PartialEq)]
pub struct Restoration {
    /// The job's name. There need be no such job yet.
    pub job: Arc<str>,
    /// The name of the position.
    pub position: Arc<str>,
    /// The dataset that the job is to read: its own if the job was there or freed when it was restored, else
    /// the position's. `None` in journals from before it was kept.
    pub dataset: Option<DatasetId>,
    /// The digest of that dataset's definition; `None` as above.
    pub definition: Option<Digest>,
    /// Repetitions that count as finished.
    pub finished: Repetitions,
    /// Repetitions that count as given up before their end.
    pub abandoned: Repetitions,
    /// Where those not created yet begin, in order.
    pub waiting: Vec<SavedRepetition>,
    /// The newest record about it.
    pub changed: Lsn,
}

impl Restoration {
    /// Where a repetition begins.
    pub fn start_of(&self, repetition: i64) -> Option<&SavedRepetition> {
        self.waiting.iter().find(|saved| saved.repetition == repetition)
    }
}
