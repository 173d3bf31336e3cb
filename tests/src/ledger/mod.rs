//! What a dispatcher has acknowledged to one client, and whether it still stands by it.

mod check;

use std::collections::BTreeMap;

use bytes::Bytes;

pub use check::Sample;

/// How sure it is that something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It did not happen.
    No,
    /// It was asked for, and no answer came.
    InDoubt,
    /// It was acknowledged.
    Yes,
}

/// A registered dataset.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// What was registered.
    pub definition: Bytes,
    /// What was said of it.
    pub metadata: Bytes,
    /// Elements in a pass.
    pub elements: u64,
    /// The decision on compression, once told.
    pub compression_disabled: Option<bool>,
}

/// A named job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its id.
    pub id: i64,
    /// Its dataset's id.
    pub dataset: String,
}

/// A client of an iteration.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its iteration, once a heartbeat told.
    pub iteration: Option<i64>,
    /// The tasks it has seen, in order.
    pub tasks: Vec<i64>,
    /// Whether it left.
    pub released: Known,
}

/// Where an iteration's one source stands, as its only consumer knows.
#[derive(Clone, Debug)]
pub struct Source {
    /// Elements of a pass.
    pub elements: u64,
    /// The pass.
    pub repetition: i64,
    /// The split that comes next, if no unanswered request took one.
    pub next: u64,
    /// Requests without an answer since the last answer.
    pub in_doubt: u64,
}

/// All that was acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Datasets by id.
    pub datasets: BTreeMap<String, Dataset>,
    /// Jobs by name.
    pub jobs: BTreeMap<String, Job>,
    /// Clients by id.
    pub clients: BTreeMap<i64, Client>,
    /// Sources by iteration.
    pub sources: BTreeMap<i64, Source>,
    /// Whether tasks of the worker are finished.
    pub tasks: BTreeMap<i64, Known>,
    /// The iteration of each of the worker's tasks.
    pub iterations: BTreeMap<i64, i64>,
    /// The worker's address, once registered.
    pub worker: Option<String>,
    /// Broken promises met on the way.
    pub broken: Vec<String>,
    /// Acknowledged updates so far.
    pub updates: u64,
}

impl Source {
    /// Takes note of an answer: the next split, or the end of the pass. Tells what is wrong with it.
    pub fn answered(&mut self, split: Option<i64>) -> Result<(), String> {
        let right = self.next..=self.next + self.in_doubt;
        // The end is right when nothing certain is left; unanswered requests may have taken the rest.
        let at = split.map_or(self.elements, |split| u64::try_from(split).unwrap_or(u64::MAX));
        if !right.contains(&at) {
            let Self { repetition, elements, .. } = self;
            return Err(format!(
                "split {split:?} of {elements} in pass {repetition}; right were {right:?}"
            ));
        }
        self.in_doubt = 0;
        if split.is_some() {
            self.next = at + 1;
        } else {
            self.next = 0;
            self.repetition += 1;
        }
        Ok(())
    }
}

impl Client {
    /// Takes note of the tasks in a heartbeat's answer: those seen before come first, in order.
    pub fn answered(&mut self, tasks: Vec<i64>) -> Result<(), String> {
        if !tasks.starts_with(&self.tasks) {
            return Err(format!("tasks {:?} became {tasks:?}", self.tasks));
        }
        self.tasks = tasks;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(next: u64, in_doubt: u64) -> Source {
        Source { elements: 10, repetition: 0, next, in_doubt }
    }

    #[test]
    fn splits_come_once_and_only_unanswered_requests_explain_gaps() {
        assert_eq!(source(3, 0).answered(Some(3)), Ok(()));
        assert_eq!(source(3, 1).answered(Some(4)), Ok(()));
        assert_eq!(source(10, 0).answered(None), Ok(()));
        assert_eq!(source(9, 1).answered(None), Ok(()));
        for (next, in_doubt, split) in
            [(3, 0, Some(2)), (3, 0, Some(4)), (3, 1, Some(5)), (9, 0, None), (3, 1, None)]
        {
            assert!(source(next, in_doubt).answered(split).is_err(), "{next} {in_doubt} {split:?}");
        }
    }

    #[test]
    fn tasks_are_only_appended() {
        let mut client = Client { iteration: None, tasks: vec![1, 2], released: Known::No };
        assert_eq!(client.answered(vec![1, 2, 3]), Ok(()));
        assert!(client.answered(vec![1, 2]).is_err() && client.answered(vec![2, 1, 3]).is_err());
    }
}
