//! One request message as its bytes arrive: the memory they take, and the time the client may take.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use rondo_core::status::{Code, Status};
use tokio::time::{Instant, timeout_at};

use super::ServerConfig;
use super::budget::{Arriving, Budget, Share, UNCOUNTED_BYTES_MAX};
use super::leaving::RATE_MIN;

/// How often the server looks at a message that does not arrive.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a client may say nothing within a message at the ceiling of all memory. A packet that is lost
/// comes sooner.
const SILENCE_MAX_AT_CEILING: Duration = Duration::from_secs(5);

/// The same where several messages of a connection have begun. Else connections with thousands of them would
/// take the process far above the ceiling. The packets of a short message come right behind each other.
const SILENCE_OF_MANY_MAX: Duration = Duration::from_millis(100);

/// While other messages wait for memory, a message that holds some must bring so many bytes in each span.
const HURRY_BYTES: u64 = 5 << 20;
const HURRY_SPAN: Duration = Duration::from_secs(5);

/// A request message that arrives.
pub(super) struct Intake {
    share: Share,
    budget: Budget,
    /// From the server's first wait for the client on.
    arriving: Option<Arriving>,
    silence_max: Duration,
    /// The length that the client announced, in bytes.
    length: u64,
    /// When the whole message must be there.
    due: Instant,
    /// The begin of the span that is judged while others wait, and how many bytes had come by then.
    mark: (Instant, u64),
}

impl Intake {
    /// A message whose length is not known yet.
    pub(super) fn new(config: &ServerConfig) -> Self {
        let silence_max = config.silence_max;
        let now = Instant::now();
        let (share, due) = (config.budget.share(), now + silence_max);
        let budget = config.budget.clone();
        Self { share, budget, arriving: None, silence_max, length: 0, due, mark: (now, 0) }
    }

    /// The client announces so many bytes. They take neither memory nor processor time before they arrive.
    pub(super) fn expect(&mut self, length: u64) {
        self.length = length;
        self.due += Duration::from_secs(length / RATE_MIN);
    }

    /// Waits until there is memory for `bytes` of the message. The client's time stands still meanwhile.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED at the ceiling of all memory.
    pub(super) async fn make_room(&mut self, bytes: u64) -> Result<(), Status> {
        if bytes <= UNCOUNTED_BYTES_MAX {
            return Ok(());
        }
        let before = Instant::now();
        self.share.grow_to(bytes).await?;
        self.due += before.elapsed();
        self.mark.0 = Instant::now();
        Ok(())
    }

    /// Waits for more of the message, of which `came` bytes are there.
    ///
    /// # Errors
    /// CANCELLED when the client is silent for too long, RESOURCE_EXHAUSTED when it is too slow, or silent
    /// for [`SILENCE_MAX_AT_CEILING`] at the ceiling of all memory; for [`SILENCE_OF_MANY_MAX`] when several
    /// requests of its connection are not whole.
    pub(super) async fn more<T>(
        &mut self,
        came: u64,
        next: impl Future<Output = T>,
    ) -> Result<T, Status> {
        let mut next = pin!(next);
        self.arriving.get_or_insert_with(|| self.budget.arriving());
        let began = Instant::now();
        let silent = began + self.silence_max;
        loop {
            let now = Instant::now();
            self.check(came, now, silent)?;
            let is_one_of_many = self.arriving.as_ref().is_some_and(Arriving::is_one_of_many);
            let is_hurried = is_one_of_many && self.budget.ceiling().is_reached();
            let (pause, patience) = match is_hurried {
                true => (SILENCE_OF_MANY_MAX, SILENCE_OF_MANY_MAX),
                false => (LOOK_INTERVAL, SILENCE_MAX_AT_CEILING),
            };
            let look = (now + pause).min(silent).min(self.due);
            if let Ok(next) = timeout_at(look, &mut next).await {
                return Ok(next);
            }
            // A call whose message stays away takes memory too.
            if began.elapsed() >= patience {
                self.share.check_ceiling()?;
            }
        }
    }

    fn check(&mut self, came: u64, now: Instant, silent: Instant) -> Result<(), Status> {
        if now >= silent {
            let text = format!("no data from the client for {:?}", self.silence_max);
            return Err(Status::new(Code::Cancelled, text));
        }
        let length = self.length;
        if now >= self.due {
            return Err(too_slow(format!(
                "only {came} of {length} bytes of the request came in time; at least {RATE_MIN} bytes \
                 a second must come, and all within {:?} beside",
                self.silence_max
            )));
        }
        let (since, before) = self.mark;
        if !self.share.holds_up_others() {
            self.mark = (now, came);
        } else if now.saturating_duration_since(since) >= HURRY_SPAN {
            let brought = came.saturating_sub(before);
            if brought < HURRY_BYTES {
                return Err(too_slow(format!(
                    "{brought} bytes of the request came within {HURRY_SPAN:?}, while other requests wait \
                     for its memory (--inflight-size-max); then at least {HURRY_BYTES} bytes must come"
                )));
            }
            self.mark = (now, came);
        }
        Ok(())
    }

    /// The memory of the message. Hold it until the message is dropped.
    pub(super) fn into_share(self) -> Share {
        self.share
    }
}

// Not a status of a broken connection: a relay would take it for the loss of its server.
fn too_slow(text: String) -> Status {
    Status::new(Code::ResourceExhausted, text)
}

/// The memory for a message of `length` bytes when `there` bytes have come and `more` arrive. It grows with
/// what came.
pub(super) fn room_for(there: usize, more: usize, length: usize) -> usize {
    let first = usize::try_from(UNCOUNTED_BYTES_MAX).unwrap_or(usize::MAX);
    let grown = there.saturating_mul(2).max(first).min(length);
    grown.max(there.saturating_add(more))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::timeout;

    use super::*;
    use crate::memory::Ceiling;
    use crate::transport::budget::Budget;

    fn config(silence_max: Duration, budget: &Budget) -> ServerConfig {
        ServerConfig { silence_max, budget: budget.clone(), ..ServerConfig::default() }
    }

    #[test]
    fn memory_grows_with_what_came() {
        assert_eq!(room_for(0, 2, 512 << 20), 64 << 10);
        assert_eq!(room_for(0, 2, 100), 100);
        assert_eq!(room_for(64 << 10, 1, 512 << 20), 128 << 10);
        assert_eq!(room_for(300 << 20, 1 << 20, 512 << 20), 512 << 20);
        assert_eq!(room_for(0, 16 << 20, 512 << 20), 16 << 20, "it is there already");
    }

    /// A client that sends a byte now and then is not silent, and yet must come to an end.
    #[tokio::test]
    async fn a_message_has_an_end() {
        let budget = Budget::new(2 << 20, 1 << 20);
        let mut intake = Intake::new(&config(Duration::from_millis(300), &budget));
        intake.expect(1000);
        let mut came = 0;
        let status = loop {
            let next = tokio::time::sleep(Duration::from_millis(50));
            match intake.more(came, next).await {
                Ok(()) => came += 1,
                Err(status) => break status,
            }
        };
        assert_eq!(status.code, Code::ResourceExhausted);
        assert!(status.message.starts_with("only "), "{status}");
        assert!((1..=6).contains(&came), "{came}");
    }

    /// A message that keeps up with the rate is never refused, whatever memory it took at once. One that
    /// stops is refused when others wait.
    #[tokio::test]
    async fn a_message_that_others_wait_for_must_hurry() {
        const MIB: u64 = 1 << 20;
        let budget = Budget::new(512 * MIB, 256 * MIB);
        let mut intake = Intake::new(&config(Duration::from_secs(60), &budget));
        intake.expect(256 * MIB);
        intake.make_room(256 * MIB).await.unwrap();
        let begun = Instant::now();
        let silent = begun + Duration::from_secs(3600);
        let after = |seconds| begun + Duration::from_secs(seconds);
        intake.check(MIB, after(100), silent).unwrap();
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.acquire(u64::MAX).await }
        });
        let _turn = budget.acquire(u64::MAX).await.unwrap();
        tokio::task::yield_now().await;
        for second in 100..150 {
            intake.check((second - 99) * MIB, after(second), silent).unwrap();
        }
        let status = intake.check(50 * MIB, after(160), silent).unwrap_err();
        assert_eq!(status.code, Code::ResourceExhausted);
        assert!(status.message.contains("while other requests wait"), "{status}");
        waiting.abort();
    }

    #[tokio::test]
    async fn a_message_that_stays_away_is_refused_at_the_ceiling() {
        let ceiling = Ceiling::new(100 << 20);
        let budget = Budget::below(ceiling.clone(), 2 << 20, 1 << 20);
        let config = config(Duration::from_secs(60), &budget);
        ceiling.see(100 << 20);
        let (mut intake, began) = (Intake::new(&config), Instant::now());
        intake.more(0, std::future::ready(())).await.unwrap();
        let status = intake.more(0, pending::<()>()).await.unwrap_err();
        assert_eq!(status.code, Code::ResourceExhausted);
        assert!(status.message.contains("--memory-max"), "{status}");
        assert!(began.elapsed() >= SILENCE_MAX_AT_CEILING);
    }

    #[tokio::test]
    async fn few_messages_of_a_connection_may_stay_away_at_the_ceiling() {
        let ceiling = Ceiling::new(100 << 20);
        let all = Budget::below(ceiling.clone(), 2 << 20, 1 << 20);
        let (one, other) = (all.of_connection(), all.of_connection());
        // Whether the server still waits after a second, and the message that it waits for.
        let arrives = async |budget: &Budget| {
            let mut intake = Intake::new(&config(Duration::from_secs(60), budget));
            let waits = timeout(Duration::from_secs(1), intake.more(0, pending::<()>())).await;
            waits.map_or(Ok(intake), |refused| Err(refused.unwrap_err()))
        };
        let mut below = Vec::new();
        for _ in 0..5 {
            below.push(arrives(&one).await.unwrap());
        }
        ceiling.see(100 << 20);
        let status = arrives(&one).await.err().unwrap();
        assert_eq!(status.code, Code::ResourceExhausted);
        assert!(status.message.contains("--memory-max"), "{status}");
        arrives(&other).await.unwrap();
        // One that is whole is none of them.
        below.truncate(4);
        drop(below.pop().unwrap().into_share());
        let began = Instant::now();
        let fourth = arrives(&one).await.unwrap();
        let refused = Instant::now();
        assert!(arrives(&one).await.is_err());
        assert!(refused.elapsed() < refused - began, "{:?}", refused.elapsed());
        drop(fourth);
    }

    #[tokio::test]
    async fn the_time_in_which_it_waits_for_memory_is_not_the_clients() {
        let budget = Budget::new(2 << 20, 1 << 20);
        let holders = [budget.acquire(1 << 20).await, budget.acquire(1 << 20).await];
        let mut intake = Intake::new(&config(Duration::from_millis(200), &budget));
        intake.expect(1 << 20);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(400)).await;
            drop(holders);
        });
        intake.make_room(1 << 20).await.unwrap();
        intake.more(1 << 20, std::future::ready(())).await.unwrap();
        let status = intake.more(1 << 20, pending::<()>()).await.unwrap_err();
        assert!(status.message.starts_with("no data from the client for 200ms"), "{status}");
    }
}
