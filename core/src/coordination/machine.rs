//! The coordination service's machine: takes a request, decides, records, applies, answers.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;

use super::attention::Attention;
use super::config::Config;
use super::live::{Alarms, Live, Seat};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::{Event, Reply};
use super::request::{Caller, Request};
use super::state::{Namespace, State};
use super::waiting_calls::WaitingCalls;
use super::waste::Waste;
use crate::ids::{CallId, Digest, Lsn, NamespaceId};
use crate::limits::{ANSWERS_PER_STEP_MAX, WAITS_PER_TASK};
use crate::memory::Memory;
use crate::status::Status;
use crate::time::Time;

/// The calls that take up to three quarters of a namespace's places.
const FOR_KEYS: &str = "calls that wait for keys";

/// The coordination service: all namespaces.
#[derive(Clone, Debug)]
pub struct Coordination {
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) lives: BTreeMap<NamespaceId, Live>,
    pub(super) calls: WaitingCalls,
    pub(super) alarms: Alarms,
    pub(super) attention: Attention,
    /// Answers to be sent off in this and the next steps.
    pub(super) outbox: VecDeque<Departure>,
    pub(super) outbox_since: Time,
    /// Namespaces in which this step has recorded something.
    pub(super) touched: BTreeSet<NamespaceId>,
    waste: Waste,
    pub(super) memory: Memory,
    /// Whether blobs are in memory, and not in files.
    pub(super) keeps_blobs: bool,
}

/// One answer to several calls.
#[derive(Clone, Debug)]
pub(super) struct Departure {
    pub(super) calls: VecDeque<CallId>,
    result: Result<Reply, Status>,
    after: Lsn,
}

/// What the coordination service asks of the node it lives in, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write a record.
    Append {
        /// Its position.
        lsn: Lsn,
        /// The record.
        record: Record,
    },
    /// Answer a call, once everything up to `after` is durable.
    Reply {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Reply, Status>,
        /// What the answer depends on.
        after: Lsn,
    },
    /// No key of a namespace has this blob any more, once everything up to `after` is durable.
    ForgetBlob {
        /// The blob.
        digest: Digest,
        /// The record that freed the last one.
        after: Lsn,
    },
    /// Something worth a log line.
    Observe(Event),
    /// A record did not fit the state. Nothing of it was written; the node must stop.
    Halt {
        /// What did not fit.
        reason: Arc<str>,
    },
}

/// One step of the machine.
pub type Turn<'a> = crate::log::Turn<'a, Effect>;

/// Who asks where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) id: NamespaceId,
    pub(super) call: CallId,
    pub(super) caller: &'a Caller,
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Said {
    /// The answer, and the newest record it depends on.
    Now(Reply, Lsn),
    /// A refusal that depends on no later record.
    No(Refusal, Lsn),
    /// The call waits.
    Later,
}

/// What came of a request; a refusal rests on everything.
pub(super) type Answer = Result<Said, Refusal>;

/// Why the coordination service wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// More answers are to be sent off.
    Answers,
    /// A task may have been silent for too long, or a barrier's time is over.
    Alarm,
    /// To know that it has been awake.
    Attention,
    /// What many keys took is to be freed.
    Waste,
}

impl Coordination {
    /// Starts with a state from the journal (or none). Whoever is in it counts as just heard from.
    pub fn start(config: Config, state: State, now: Time) -> Self {
        let mut this = Self {
            attention: Attention::starting(&config, now),
            config,
            state,
            lives: BTreeMap::new(),
            calls: WaitingCalls::default(),
            alarms: Alarms::new(),
            outbox: VecDeque::new(),
            outbox_since: now,
            touched: BTreeSet::new(),
            waste: Waste::default(),
            memory: Memory::Enough,
            keeps_blobs: false,
        };
        for settings in this.config.namespaces.clone() {
            let known = this.state.named(&settings.name).map(|namespace| namespace.head.clone());
            if let Some(head) = known {
                this.lives.insert(head.id, Live::new(Arc::new(settings), head.version));
                this.rearm(head.id, now);
            }
        }
        this.attention.plan(now, !this.alarms.is_empty());
        this
    }

    /// The durable state.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Learns how much memory the process has left.
    pub fn set_memory(&mut self, memory: Memory) {
        self.memory = memory;
    }

    /// Long values, which are blobs, are kept in memory too.
    pub fn keep_blobs_in_memory(&mut self) {
        self.keeps_blobs = true;
    }

    /// Takes one request.
    pub fn request(&mut self, turn: &mut Turn<'_>, call: CallId, request: Request, entropy: u64) {
        self.attend(turn);
        let answer = match request {
            // A picture promises nothing, and is wanted most when the journal takes no records.
            Request::Report => Ok(Said::Now(Reply::Report(self.report(turn.now)), Lsn::NONE)),
            Request::Call(asked) => self.call(turn, call, *asked, entropy),
        };
        let last = turn.log.last();
        let (result, after) = match answer {
            Ok(Said::Later) => return self.finish(turn),
            Ok(Said::Now(reply, after)) => (Ok(reply), after),
            Ok(Said::No(refusal, after)) => (Err(refusal.into()), after),
            Err(refusal) => {
                // It must not go on waiting after it was refused.
                self.cancel(call);
                (Err(refusal.into()), last)
            }
        };
        turn.out.push(Effect::Reply { call, result, after });
        self.finish(turn);
    }

    /// Forgets a waiting call whose caller is gone. That it came to a barrier stays.
    pub fn cancel(&mut self, call: CallId) {
        let Some((namespace, seat)) = self.calls.remove(&call) else {
            return;
        };
        if let Some(live) = self.lives.get_mut(&namespace) {
            live.unseat(call, &seat);
        }
    }

    /// Forgets all waiting calls and names them.
    pub(crate) fn abandon_calls(&mut self) -> impl Iterator<Item = CallId> + use<> {
        for live in self.lives.values_mut() {
            *live = Live::new(live.settings.clone(), live.told_version);
        }
        self.alarms.clear();
        self.outbox.clear();
        self.calls.take()
    }

    /// When to tick next, and what for.
    pub fn deadline(&self) -> Option<(Time, Wake)> {
        let answers = (!self.outbox.is_empty()).then_some((self.outbox_since, Wake::Answers));
        let alarm = self.alarms.first().map(|(at, _, _)| (*at, Wake::Alarm));
        let attention = self.attention.due().map(|at| (at, Wake::Attention));
        let waste = self.waste.due().map(|at| (at, Wake::Waste));
        [answers, alarm, attention, waste].into_iter().flatten().min()
    }

    /// Ends a step: whoever waited for what has come is answered.
    pub(super) fn finish(&mut self, turn: &mut Turn<'_>) {
        self.tell_versions(turn);
        self.send_off(turn);
        self.waste.free(turn.now);
        self.attention.plan(turn.now, !self.alarms.is_empty());
    }

    pub(super) fn namespace(&self, id: NamespaceId) -> Result<&Namespace, Refusal> {
        self.state.namespaces.get(&id).ok_or_else(|| lost(id))
    }

    pub(super) fn live(&self, id: NamespaceId) -> Result<&Live, Refusal> {
        self.lives.get(&id).ok_or_else(|| lost(id))
    }

    pub(super) fn live_mut(&mut self, id: NamespaceId) -> Result<&mut Live, Refusal> {
        self.lives.get_mut(&id).ok_or_else(|| lost(id))
    }

    /// Says where a call waits; the caller gives it its place.
    pub(super) fn park(
        &mut self,
        call: CallId,
        namespace: NamespaceId,
        seat: Seat,
    ) -> Result<(), Refusal> {
        self.check_room(namespace)?;
        // A watch of a job that runs comes again and again, each time in the place of the one before.
        if matches!(seat, Seat::Key(_)) {
            self.memory.check_all(FOR_KEYS)?;
        }
        if seat.is_for_keys() {
            // The other places are for tasks that register, poll and meet.
            let bound = self.waits_max(namespace)? / 4 * 3;
            let found = self.calls.counts(namespace).for_keys;
            check_count(found, bound, FOR_KEYS)?;
        }
        self.calls.insert(call, (namespace, seat));
        Ok(())
    }

    /// Whether one more call of a namespace may wait.
    pub(super) fn check_room(&self, id: NamespaceId) -> Result<(), Refusal> {
        check_count(self.calls.counts(id).all, self.waits_max(id)?, "waiting calls")
    }

    /// How many calls of a namespace may wait. A large job may have more: each of its tasks has a few.
    fn waits_max(&self, id: NamespaceId) -> Result<usize, Refusal> {
        let tasks = self.namespace(id)?.head.size.unwrap_or_default();
        let tasks = usize::try_from(tasks).unwrap_or(usize::MAX);
        Ok(self.live(id)?.settings.waits_max.max(tasks.saturating_mul(WAITS_PER_TASK)))
    }

    /// Answers calls that have left their places, in this step or in the next ones.
    pub(super) fn answer_all(
        &mut self,
        turn: &Turn<'_>,
        calls: impl IntoIterator<Item = CallId>,
        result: Result<Reply, Refusal>,
        after: Lsn,
    ) {
        let calls: VecDeque<_> = calls.into_iter().collect();
        if calls.is_empty() {
            return;
        }
        if self.outbox.is_empty() {
            self.outbox_since = turn.now;
        }
        let result = result.map_err(Status::from);
        self.outbox.push_back(Departure { calls, result, after });
    }

    fn send_off(&mut self, turn: &mut Turn<'_>) {
        let mut sent = 0;
        while let Some(first) = self.outbox.front_mut() {
            let Some(call) = first.calls.pop_front() else {
                self.outbox.pop_front();
                continue;
            };
            // It may have been cancelled since.
            if self.calls.remove(&call).is_some() {
                let (result, after) = (first.result.clone(), first.after);
                turn.out.push(Effect::Reply { call, result, after });
                sent += 1;
            }
            if sent >= ANSWERS_PER_STEP_MAX {
                break;
            }
        }
        while self.outbox.front().is_some_and(|first| first.calls.is_empty()) {
            self.outbox.pop_front();
        }
    }

    /// Records and applies what was decided.
    ///
    /// A record that does not fit the state is a defect of ours: it is never written, so that it
    /// cannot be met again in every replay, and the node stops.
    pub(super) fn commit(&mut self, turn: &mut Turn<'_>, record: Record) -> Result<Lsn, Refusal> {
        if let Some(reason) = turn.log.refuses() {
            return Err(Refusal::JournalRefuses(reason.clone()));
        }
        let (lsn, namespace) = (turn.log.next(), record.namespace());
        match self.state.apply_telling(lsn, &record) {
            Ok(applied) => {
                turn.log.advance();
                self.touched.insert(namespace);
                turn.out.push(Effect::Append { lsn, record });
                let forget = |digest| Effect::ForgetBlob { digest, after: lsn };
                turn.out.extend(applied.freed.blobs.into_iter().map(forget));
                self.waste.add(turn.now, applied.freed.entries);
                self.tell_changes(turn, namespace, &applied.changes, lsn);
                self.note_progress(turn, namespace, &applied.changes);
                Ok(lsn)
            }
            Err(error) => {
                let reason = alloc::format!("record {lsn} does not fit the state: {error}");
                turn.out.push(Effect::Halt { reason: reason.as_str().into() });
                Err(Refusal::Defect(reason))
            }
        }
    }
}

fn check_count(found: usize, bound: usize, what: &'static str) -> Result<(), Refusal> {
    match found >= bound {
        true => Err(Refusal::TooMany { what, bound: bound as u64 }),
        false => Ok(()),
    }
}

fn lost(id: NamespaceId) -> Refusal {
    Refusal::Defect(alloc::format!("namespace {id} has gone"))
}
