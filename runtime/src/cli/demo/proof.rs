//! The end of the demo: whether every record came exactly once, and what the crashes cost.

use std::fmt::Write as _;
use std::time::Duration;

use super::ledger::{Checksum, Ledger};
use super::scenario::Crash;

/// What became of the reading.
pub(super) struct Proof<'a> {
    /// Where the records lie, for people.
    pub(super) source: &'a str,
    /// Over one pass of the source, read without any service.
    pub(super) once: Checksum,
    /// Passes over it.
    pub(super) passes: u64,
    /// What the consumers were given.
    pub(super) ledger: &'a Ledger,
    /// When something was delivered to any consumer, in order.
    pub(super) deliveries: &'a [Duration],
    /// What was done to the processes.
    pub(super) crashes: &'a [Crash],
}

impl Proof<'_> {
    /// Whether each record came exactly once.
    pub(super) fn holds(&self) -> bool {
        let whole = self.once.times(self.passes);
        self.ledger.checksum == whole && self.ledger.twice() == 0 && self.ledger.gaps() == 0
    }

    /// In words.
    pub(super) fn text(&self) -> String {
        let whole = self.once.times(self.passes);
        let (ledger, read) = (self.ledger, self.ledger.checksum);
        let missing = whole.records.saturating_sub(ledger.different() as u64);
        let equal = if read == whole { "equal" } else { "DIFFERENT" };
        let verdict = if self.holds() { "every record exactly once" } else { "NOT exactly once" };
        let mut text = format!(
            "{verdict}: {} records read of {} ({} in {}, {} passes); {} twice, {missing} missing\n\
             checksum of the source    {}\n\
             checksum of what was read {}  {equal}\n",
            read.records,
            whole.records,
            self.once.records,
            self.source,
            self.passes,
            ledger.twice(),
            whole.text(),
            read.text(),
        );
        for crash in self.crashes {
            let lost = self.wait_in(crash).as_millis();
            let dead = crash.back.saturating_sub(crash.killed).as_secs_f64();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{} killed at {:.2} s, dead for {dead:.2} s: consumers waited {lost} ms at most \
                 between two batches (otherwise {} ms)",
                crash.name,
                crash.killed.as_secs_f64(),
                self.usual_wait().as_millis(),
            );
        }
        text
    }

    /// The longest time between two deliveries while a process was dead, and shortly after.
    fn wait_in(&self, crash: &Crash) -> Duration {
        let until = crash.back.saturating_add(Duration::from_secs(1));
        self.waits()
            .filter(|(from, to)| *to > crash.killed && *from < until)
            .map(wait)
            .max()
            .unwrap_or_default()
    }

    /// The longest time between two deliveries when nobody was dead.
    fn usual_wait(&self) -> Duration {
        let touches = |(from, to): &(Duration, Duration)| {
            let after = |crash: &Crash| crash.back.saturating_add(Duration::from_secs(1));
            self.crashes.iter().any(|crash| *to > crash.killed && *from < after(crash))
        };
        self.waits().filter(|span| !touches(span)).map(wait).max().unwrap_or_default()
    }

    fn waits(&self) -> impl Iterator<Item = (Duration, Duration)> + '_ {
        self.deliveries.iter().copied().zip(self.deliveries.iter().skip(1).copied())
    }
}

fn wait((from, to): (Duration, Duration)) -> Duration {
    to.saturating_sub(from)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, Int64Array, RecordBatch};

    use super::*;

    fn batch(numbers: Vec<i64>) -> RecordBatch {
        let column: Arc<dyn Array> = Arc::new(Int64Array::from(numbers));
        RecordBatch::try_from_iter([("number", column)]).unwrap()
    }

    fn proof_of(pieces: &[(u64, u64, Vec<i64>)]) -> (bool, String) {
        let mut once = Checksum::default();
        once.add(&batch((0..10).collect())).unwrap();
        let mut ledger = Ledger::default();
        for (place, first, numbers) in pieces {
            ledger.note(*place, *first, numbers.len() as u64);
            ledger.checksum.add(&batch(numbers.clone())).unwrap();
        }
        let at = |ms| Duration::from_millis(ms);
        let crash = Crash { name: "server".into(), killed: at(100), back: at(200) };
        let proof = Proof {
            source: "numbers",
            once,
            passes: 1,
            ledger: &ledger,
            deliveries: &[at(0), at(10), at(180), at(190), at(1300), at(1350)],
            crashes: &[crash],
        };
        (proof.holds(), proof.text())
    }

    #[test]
    fn all_records_once_in_any_order_is_exactly_once() {
        let (holds, text) = proof_of(&[(1, 0, vec![5, 6, 7, 8, 9]), (0, 0, vec![0, 1, 2, 3, 4])]);
        assert!(holds, "{text}");
        assert!(text.contains("consumers waited 1110 ms at most"), "{text}");
        assert!(text.contains("(otherwise 50 ms)"), "{text}");
    }

    #[test]
    fn a_record_that_is_missing_or_came_twice_is_told() {
        let (holds, text) = proof_of(&[(0, 0, (0..9).collect())]);
        assert!(!holds && text.contains("0 twice, 1 missing"), "{text}");
        let (holds, text) = proof_of(&[(0, 0, (0..10).collect()), (0, 4, vec![4])]);
        assert!(!holds && text.contains("1 twice, 0 missing"), "{text}");
    }

    #[test]
    fn another_record_in_the_place_of_one_is_told() {
        let (holds, text) = proof_of(&[(0, 0, vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 8])]);
        assert!(!holds && text.contains("DIFFERENT"), "{text}");
    }
}
