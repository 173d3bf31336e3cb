//! A split that the reader holds.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use crate::ids::TaskId;
use crate::reader::retry::Retry;
use crate::reader::types::{Batch, HeldSplit, RpcId, SplitProgress};

/// A split that the reader holds. Records are counted from its first one on:
///
/// ```text
/// acknowledged ≤ consumed ≤ delivered ≤ received ≤ its end
/// ```
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// Its value.
    pub(super) split: i64,
    /// What the dispatcher knows.
    acknowledged: u64,
    consumed: u64,
    delivered: u64,
    pub(super) received: u64,
    /// How many there are, once the last has come.
    end: Option<u64>,
    pub(super) stream: Option<RpcId>,
    pub(super) retry: Retry,
    /// The worker that failed last, and its task.
    pub(super) avoided: Option<(Arc<str>, TaskId)>,
    /// What was received and not delivered.
    buffered: VecDeque<Batch>,
}

impl Held {
    pub(super) fn of(told: HeldSplit) -> Self {
        Self {
            split: told.split,
            acknowledged: told.records,
            consumed: told.records,
            delivered: told.records,
            received: told.records,
            end: None,
            stream: None,
            retry: Retry::default(),
            avoided: None,
            buffered: VecDeque::new(),
        }
    }

    /// Whether all of it has come.
    pub(super) const fn is_received(&self) -> bool {
        self.end.is_some()
    }

    /// Whether all of it was handed on.
    pub(super) fn is_delivered(&self) -> bool {
        self.end.is_some_and(|end| self.delivered >= end)
    }

    /// Whether the application has records that it is not through with.
    pub(super) const fn is_unconsumed(&self) -> bool {
        self.consumed < self.delivered
    }

    /// Whether the application is through with it.
    pub(super) fn is_consumed(&self) -> bool {
        self.end.is_some_and(|end| self.consumed >= end)
    }

    pub(super) fn has_buffered(&self) -> bool {
        !self.buffered.is_empty()
    }

    /// Keeps what has come, which begins where the rest ended.
    pub(super) fn keep(&mut self, batch: Batch) {
        self.received = self.received.saturating_add(batch.count);
        self.buffered.push_back(batch);
    }

    /// All of it has come.
    pub(super) fn complete(&mut self) {
        self.end = Some(self.received);
    }

    /// What comes next for the application.
    pub(super) fn next(&mut self) -> Option<Batch> {
        let batch = self.buffered.pop_front()?;
        self.delivered = self.delivered.saturating_add(batch.count);
        Some(batch)
    }

    /// Records handed on that the application is not through with.
    pub(super) const fn unconsumed(&self) -> u64 {
        self.delivered.saturating_sub(self.consumed)
    }

    /// The application is through with so many. What was never handed to it does not count.
    pub(super) fn consume(&mut self, records: u64) {
        self.consumed = self.consumed.max(records.min(self.delivered));
    }

    /// What the dispatcher should know and does not.
    pub(super) fn progress(&self, place: u64) -> Option<SplitProgress> {
        let is_finished = self.is_consumed();
        let is_news = is_finished || self.consumed > self.acknowledged;
        is_news.then_some(SplitProgress { place, records: self.consumed, is_finished })
    }

    /// The dispatcher knows of so many.
    pub(super) fn acknowledge(&mut self, records: u64) {
        self.acknowledged = self.acknowledged.max(records);
    }

    /// What the dispatcher knows.
    pub(super) const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }
}
