//! Readers by split beside readers by element, and groups of readers that come back with another size.
//! Both come from a stream of their own, and so does where ids begin.
//! What is left behind and freed, and what operators delete, come from another one.

use rondo_core::time::Duration;

use super::{ElementsShape, Ending, ReadingShape, Swarm};
use crate::rng::Stream;

/// When jobs that nobody reads are freed, where nothing is drawn.
const GC_TIMEOUT: Duration = Duration::from_secs(3);

impl Swarm {
    /// Whether readers by split and readers by element read the same iterations.
    pub const fn reads_both_ways(&self) -> bool {
        matches!(self.reading, Some(ReadingShape { beside_elements: true, .. }))
    }

    pub(super) fn mix(&mut self, s: &mut Stream) {
        self.read_both_ways(s);
        if let Some(reading) = &mut self.reading {
            reading.draw_resizes(s);
        }
        if s.chance(500) {
            self.settings.ids_above = s.pick(&[None, Some(30)]).copied().flatten();
        }
    }

    /// In one of eight runs with readers by element some read by split beside them. Then nobody reads
    /// in rounds or each worker's whole dataset, which readers by split cannot.
    fn read_both_ways(&mut self, s: &mut Stream) {
        let Some(elements) = self.elements.filter(|shape| !shape.is_crowd()) else {
            return;
        };
        if !s.chance(125) {
            return;
        }
        let elements = ElementsShape { rounds: false, whole: false, ..elements };
        let mut reading = ReadingShape::drawn(s);
        reading.draw_closing(s);
        let reading = ReadingShape {
            splits: elements.splits,
            passes: 1,
            records_max: elements.elements_max,
            // A position says nothing of what workers were handed.
            positions: 0,
            beside_elements: true,
            ..reading
        };
        self.settings.reader_timeout = Duration::from_millis(reading.timeout_ms);
        if s.chance(500) {
            // What workers were handed for those that are gone comes back.
            self.settings.reissue_lost_splits = true;
            self.settings.job_gc_timeout.get_or_insert(GC_TIMEOUT);
        }
        (self.elements, self.reading) = (Some(elements), Some(reading));
        self.settings = self.with_room(self.settings.clone());
    }
}

impl Swarm {
    /// In one of three runs what is left behind is freed by itself, and operators delete. A job that readers
    /// must read to its end, or that must get on at last, is neither given up nor deleted.
    pub(super) fn forget(&mut self, s: &mut Stream) {
        if !s.chance(333) {
            return;
        }
        let retention = |s: &mut Stream| {
            let millis = s.pick(&[2000, 500, 10_000]).copied().unwrap_or(2000);
            Some(Duration::from_millis(millis))
        };
        self.settings.lost_worker_retention = retention(s);
        let must_read = self.reading.is_some() || self.elements.is_some();
        if !must_read && self.ending != Ending::Heal {
            self.settings.abandoned_iteration_retention = retention(s);
        }
        if s.chance(600) {
            self.weights.draw_deletions(s, must_read);
        }
    }
}

impl ReadingShape {
    /// Of one in three groups somebody begins anew with another size now and then.
    fn draw_resizes(&mut self, s: &mut Stream) {
        if self.grouped && self.readers > 1 && s.chance(333) {
            self.resizes = s.pick(&[30, 100]).copied().unwrap_or(30);
        }
    }
}
