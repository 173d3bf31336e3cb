//! Holding splits, and saying how far they were consumed.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Splits;
use super::held::Held;
use crate::ids::{CallId, ClientId};
use crate::reader::membership::GIVEN_UP;
use crate::reader::retry::Retry;
use crate::reader::shared::{Purpose, Shared};
use crate::reader::types::{Effect, Request, RpcId, SplitProgress, SplitsAnswer};
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// Positions named when a reader is given up.
const NAMED_MAX: usize = 16;

/// Splits that a reader can hold.
pub(super) const HOLD_MAX: u32 = 1024;

/// A request for splits.
#[derive(Clone, Debug)]
struct Asked {
    rpc: RpcId,
    hold: u32,
    progress: Vec<SplitProgress>,
}

/// The requests for splits, of which one is under way at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Holding {
    /// The one under way, with what it tells.
    call: Option<Asked>,
    pub(super) retry: Retry,
    /// When the last one was sent.
    sent: Option<Time>,
    /// When to ask again for splits that others hold, and the pause before that.
    poll: Option<(Time, Duration)>,
    pub(super) was_answered: bool,
    /// The last answer brought fewer splits than were wanted: others hold the rest.
    pub(super) is_dry: bool,
    /// The last answer said that all that is left to read is with workers.
    pub(super) is_with_workers: bool,
    /// The application was told that nothing more can be delivered now.
    pub(super) has_told: bool,
    /// Everything of the iteration has been read.
    pub(super) is_finished: bool,
}

impl Splits {
    /// The application is through with a split's records up to there.
    pub(in crate::reader) fn consumed(&mut self, place: u64, records: u64) {
        if let Some(held) = self.held.get_mut(&place) {
            held.consume(records);
        }
    }

    /// Whether the application has records that it is not through with.
    pub(in crate::reader) fn has_unconsumed(&self) -> bool {
        self.held.values().any(Held::is_unconsumed)
    }

    /// What was consumed so far is to be acknowledged.
    pub(in crate::reader) fn flush(&mut self, call: CallId) {
        self.flushes.insert(call, None);
    }

    /// Calls that wait for acknowledgements, which come otherwise from now on.
    pub(in crate::reader) fn take_flushes(&mut self) -> Vec<CallId> {
        core::mem::take(&mut self.flushes).into_keys().collect()
    }

    /// The last request: what was consumed, and no more splits. `None` when all is known.
    pub(in crate::reader) fn last_words(&self, shared: &Shared) -> Option<Request> {
        let progress = self.progress();
        // Without a client, only the count of what is not known matters.
        let client = shared.client.unwrap_or_default();
        (!progress.is_empty()).then(|| self.request(client, 0, progress))
    }

    fn request(&self, client: ClientId, hold: u32, progress: Vec<SplitProgress>) -> Request {
        Request::HoldSplits { client, hold, progress, group: self.way.group }
    }

    fn progress(&self) -> Vec<SplitProgress> {
        self.held.iter().filter_map(|(place, held)| held.progress(*place)).collect()
    }

    /// How many splits to hold: those the application is not through with would keep others from
    /// coming, for which it may wait.
    fn to_hold(&self) -> u32 {
        let waiting = self.held.values().filter(|held| held.is_delivered() && !held.is_consumed());
        let waiting = u32::try_from(waiting.count()).unwrap_or(HOLD_MAX);
        self.way.hold.saturating_add(waiting).min(HOLD_MAX)
    }

    /// Whether streams would stand idle with the splits there are.
    fn needs_splits(&self) -> bool {
        let unread = self.held.values().filter(|held| !held.is_received()).count();
        let undelivered = self.held.values().filter(|held| !held.is_delivered()).count();
        let hold = self.way.hold as usize;
        let has_place = undelivered < hold && self.held.len() < HOLD_MAX as usize;
        unread < self.way.streams.min(hold) && has_place && !self.holding.is_finished
    }

    /// Whether no worker reads a split that is held. Each of their tasks may be over; the dispatcher makes
    /// another one when it is asked.
    fn is_unserved(&self, shared: &Shared) -> bool {
        let lacks_tasks = shared.is_told && self.lacks_tasks(shared);
        let mut unread = self.held.values().filter(|held| !held.is_received());
        unread.any(|held| lacks_tasks || held.retry.why().is_some())
    }

    /// When the next request is due, while none is under way.
    pub(super) fn holding_due(&self, shared: &Shared) -> Option<Time> {
        if self.holding.call.is_some() {
            return None;
        }
        if let Some(at) = self.holding.retry.at() {
            return Some(at);
        }
        let has_news = self.held.values().any(|held| held.progress(0).is_some());
        let may_end = !self.held.is_empty() && self.held.values().all(Held::is_consumed);
        let is_dry = self.holding.is_dry;
        let gains = if is_dry { may_end } else { self.needs_splits() };
        let Some(sent) = self.holding.sent.filter(|_| !gains && self.flushes.is_empty()) else {
            return Some(Time::ZERO);
        };
        let news = has_news.then(|| sent.after(self.way.acknowledge_interval));
        let polls = self.needs_splits() || shared.is_finished || self.is_unserved(shared);
        let poll = self.holding.poll.filter(|_| polls).map(|(at, _)| at);
        news.into_iter().chain(poll).min()
    }

    pub(super) fn hold_if_due(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        let (Some(due), Some(client)) = (self.holding_due(shared), shared.client) else {
            return;
        };
        if now < due {
            return;
        }
        self.holding.retry.begin();
        self.holding.sent = Some(now);
        let progress = self.progress();
        let hold = self.to_hold();
        let request = self.request(client, hold, progress.clone());
        let rpc = shared.ask(Purpose::Hold, request, shared.config.ask_deadline, out);
        self.holding.call = Some(Asked { rpc, hold, progress });
        for waits in self.flushes.values_mut() {
            *waits = Some(rpc);
        }
    }

    /// The dispatcher says which splits the reader holds.
    pub(super) fn told_splits(
        &mut self,
        now: Time,
        rpc: RpcId,
        answer: SplitsAnswer,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        let Some(asked) = self.holding.call.take_if(|asked| asked.rpc == rpc) else {
            return Ok(());
        };
        self.holding.retry.succeeded();
        self.holding.was_answered = true;
        self.holding.is_finished |= answer.is_finished;
        self.holding.is_with_workers = answer.is_with_workers;
        self.holding.is_dry = (answer.splits.len() as u64) < u64::from(asked.hold);
        self.acknowledged(&asked.progress);
        self.check_held(&answer)?;
        let before = self.held.len();
        for split in answer.splits {
            self.held.entry(split.place).or_insert_with(|| Held::of(split));
        }
        let new = self.held.len().saturating_sub(before);
        self.taken = self.taken.saturating_add(new as u64);
        let has_new = new > 0;
        self.holding.has_told &= !has_new;
        self.poll_later(now, has_new);
        self.flushed(rpc, out);
        Ok(())
    }

    /// What was consumed before this request was sent is acknowledged.
    fn flushed(&mut self, rpc: RpcId, out: &mut Vec<Effect>) {
        self.flushes.retain(|call, waits| {
            let is_of_it = *waits == Some(rpc);
            if is_of_it {
                out.push(Effect::Flushed { call: *call, result: Ok(()) });
            }
            !is_of_it
        });
    }

    fn acknowledged(&mut self, told: &[SplitProgress]) {
        for SplitProgress { place, records, is_finished } in told {
            if *is_finished {
                self.held.remove(place);
            } else if let Some(held) = self.held.get_mut(place) {
                held.acknowledge(*records);
            }
        }
    }

    /// What this reader holds nobody else reads. If that is not so, records could be read twice.
    fn check_held(&self, answer: &SplitsAnswer) -> Result<(), Status> {
        let listed: BTreeSet<u64> = answer.splits.iter().map(|split| split.place).collect();
        match self.held.keys().find(|place| !listed.contains(place)) {
            None => Ok(()),
            Some(place) => {
                let text = format!(
                    "the dispatcher says that this reader does not hold the split at place {place}, \
                     which it has not finished; {}",
                    self.positions()
                );
                Err(Status::new(Code::Aborted, text))
            }
        }
    }

    /// All has been handed out and read, as far as the dispatcher has said by the way.
    pub(super) fn poll_now(&mut self) {
        self.holding.poll = Some((Time::ZERO, self.way.poll_interval.0));
    }

    fn poll_later(&mut self, now: Time, has_new: bool) {
        let (shortest, longest) = self.way.poll_interval;
        let pause = match self.holding.poll {
            Some((_, pause)) if !has_new => {
                Duration::from_nanos(pause.as_nanos().saturating_mul(2)).min(longest)
            }
            _ => shortest,
        };
        self.holding.poll = Some((now.after(pause), pause));
    }

    pub(super) fn holding_failed(
        &mut self,
        now: Time,
        status: Status,
        entropy: u64,
        shared: &mut Shared,
    ) -> Result<(), Status> {
        self.holding.call = None;
        self.flushes.values_mut().for_each(|waits| *waits = None);
        if status.code.may_pass() {
            shared.count_retry();
            self.holding.retry.failed(now, status, entropy, shared.config.heartbeat_interval);
            return Ok(());
        }
        if status.code != Code::NotFound {
            let text = format!("the dispatcher gives no splits: {}", status.message);
            return Err(Status::new(status.code, text).with(status.details));
        }
        shared.client = None;
        let text = format!("{GIVEN_UP}: {}", status.message);
        Err(self.given_up(Status::new(status.code, text).with(status.details)))
    }

    /// The error with how far splits were acknowledged.
    pub(in crate::reader) fn given_up(&self, status: Status) -> Status {
        let text = format!("{}; {}", status.message, self.positions());
        Status::new(status.code, text).with(status.details)
    }

    fn positions(&self) -> String {
        let named: Vec<String> = self
            .held
            .iter()
            .take(NAMED_MAX)
            .map(|(place, held)| format!("{place} up to record {}", held.acknowledged()))
            .collect();
        let more = self.held.len().saturating_sub(named.len());
        match (named.is_empty(), more) {
            (true, _) => "it held no split".into(),
            (false, 0) => format!("acknowledged of the splits it held: {}", named.join(", ")),
            (false, more) => {
                format!("acknowledged of the splits it held: {} and {more} more", named.join(", "))
            }
        }
    }
}
