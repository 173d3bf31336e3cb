//! Long answers on their way out. A client that does not read its answers keeps them in the server's memory:
//! after a while its connection ends.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::budget::UNCOUNTED_BYTES_MAX;

/// Long messages must arrive, and long answers must leave, at this rate at least, in bytes a second, beside
/// the time for which a client may be silent.
pub(super) const RATE_MIN: u64 = 256 << 10;

/// How long an answer that is overdue may still take: the server itself may have been held up.
const GRACE: Duration = Duration::from_secs(5);

/// The long answers of one connection that have not left whole.
#[derive(Debug)]
pub(super) struct Leaving {
    /// How long an answer may stay unread, beside the time for its length; `None` for ever.
    unread_max: Option<Duration>,
    answers: Mutex<Answers>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Answers {
    next: u64,
    /// When each was made, and how long it is.
    there: BTreeMap<u64, (Instant, u64)>,
    /// When one left last.
    left: Option<Instant>,
}

impl Answers {
    /// When the first of them should have left. Each that leaves shows that the client reads.
    fn due(&self, unread_max: Duration) -> Option<Instant> {
        let dues = self.there.values().map(|(made, length)| {
            let since = self.left.map_or(*made, |left| left.max(*made));
            since + unread_max + Duration::from_secs(length / RATE_MIN)
        });
        dues.min()
    }
}

impl Leaving {
    /// No answers yet.
    pub(super) fn new(unread_max: Option<Duration>) -> Arc<Self> {
        Arc::new(Self { unread_max, answers: Mutex::default(), changed: Notify::new() })
    }

    /// The answer, known here until the last of its bytes has left.
    pub(super) fn with(self: &Arc<Self>, answer: Bytes) -> Bytes {
        let length = answer.len() as u64;
        if length <= UNCOUNTED_BYTES_MAX || self.unread_max.is_none() {
            return answer;
        }
        let number = {
            let mut answers = self.answers();
            let number = answers.next;
            answers.next = number.wrapping_add(1);
            answers.there.insert(number, (Instant::now(), length));
            number
        };
        self.changed.notify_one();
        Bytes::from_owner(Answer { answer, number, leaving: Arc::clone(self) })
    }

    /// Waits until an answer should have left and has not.
    pub(super) async fn overdue(&self) {
        let Some(unread_max) = self.unread_max else { return pending().await };
        let mut is_late = false;
        loop {
            let due = self.answers().due(unread_max);
            let now = Instant::now();
            let until = match due {
                Some(due) if due > now => due,
                Some(_) if is_late => return,
                Some(_) => now + GRACE,
                None => {
                    is_late = false;
                    self.changed.notified().await;
                    continue;
                }
            };
            is_late = due.is_some_and(|due| due <= now);
            tokio::select! {
                biased;
                () = sleep_until(until) => {}
                () = self.changed.notified(), if !is_late => {}
            }
        }
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that says when it has left.
struct Answer {
    answer: Bytes,
    number: u64,
    leaving: Arc<Leaving>,
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut answers = self.leaving.answers();
        answers.there.remove(&self.number);
        answers.left = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 1 << 20;

    #[tokio::test]
    async fn an_answer_that_does_not_leave_is_overdue() {
        let leaving = Leaving::new(Some(Duration::ZERO));
        let held = leaving.with(Bytes::from(vec![7; LONG]));
        let began = Instant::now();
        leaving.overdue().await;
        let least = Duration::from_secs(LONG as u64 / RATE_MIN) + GRACE;
        assert!(began.elapsed() >= least, "{:?}", began.elapsed());
        assert_eq!(held.len(), LONG);
    }

    #[tokio::test]
    async fn an_answer_that_has_left_or_is_short_is_not() {
        let leaving = Leaving::new(Some(Duration::ZERO));
        drop(leaving.with(Bytes::from(vec![7; LONG / 4])));
        let short = leaving.with(Bytes::from(vec![7; 1000]));
        assert_eq!(leaving.answers().due(Duration::ZERO), None);
        drop(short);
        let unbounded = Leaving::new(None).with(Bytes::from(vec![7; LONG]));
        assert_eq!(unbounded.len(), LONG);
    }

    #[tokio::test]
    async fn a_client_that_reads_one_answer_has_time_for_the_next() {
        let leaving = Leaving::new(Some(Duration::from_secs(60)));
        let (first, _second) =
            (leaving.with(Bytes::from(vec![7; LONG])), leaving.with(Bytes::from(vec![7; LONG])));
        let before = leaving.answers().due(Duration::from_secs(60)).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(first);
        let after = leaving.answers().due(Duration::from_secs(60)).unwrap();
        assert!(after >= before + Duration::from_millis(20));
    }
}
