//! A server's batches and units: one unit of each member, whole, in memory that nobody overwrites; each
//! answered once.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::exchange::membership::{Membership, State};
use rondo_core::exchange::server::{Answering, Effect, Event, Input, Partial, Unit};
use rondo_core::exchange::{Config, Policy, Refusal, Role};
use rondo_core::ids::{CallId, Incarnation};
use rondo_core::time::Time;

use super::memory::{Memory, Slice, serial_of};
use super::worker::Book;
use super::{Seen, wrong};
use crate::checks::{Check, reached};

/// A unit that the application has.
#[derive(Debug)]
struct Held {
    tensors: Vec<(Slice, Vec<u8>)>,
    /// What it pulls, in bytes.
    pulls: Vec<u64>,
    owes_answer: bool,
    /// Whether the application may still read what was pushed.
    is_read: bool,
}

/// A server.
#[derive(Debug)]
pub(super) struct ServerLedger {
    config: Config,
    workers: u32,
    rank: u32,
    index: (u32, u32),
    calls: BTreeMap<CallId, (Partial, Option<Time>)>,
    held: BTreeMap<u64, Held>,
    over: BTreeSet<u64>,
    /// The last unit of each worker.
    last: BTreeMap<u32, u64>,
    /// Requests of which the unit was given out.
    given: BTreeSet<u64>,
    /// Workers that take part, by what it was told and has told.
    up: BTreeSet<u32>,
    runs: BTreeMap<u32, (Incarnation, State)>,
    is_stopped: bool,
}

type Stepped<'a> = (&'a Input<Slice>, &'a [Effect<Slice>]);

impl ServerLedger {
    pub(super) const fn new(config: Config, workers: u32, rank: u32, index: (u32, u32)) -> Self {
        Self {
            config,
            workers,
            rank,
            index,
            calls: BTreeMap::new(),
            held: BTreeMap::new(),
            over: BTreeSet::new(),
            last: BTreeMap::new(),
            given: BTreeSet::new(),
            up: BTreeSet::new(),
            runs: BTreeMap::new(),
            is_stopped: false,
        }
    }

    pub(super) fn see(
        &mut self,
        now: Time,
        (input, effects): Stepped<'_>,
        memory: &Memory,
        book: &Book,
        troubled: bool,
    ) -> Seen {
        match input {
            Input::Membership(membership) => self.learns(membership),
            Input::GetBatch { call, timeout, partial } => {
                self.done_with_unowing();
                let due = timeout.map(|timeout| now.after(timeout));
                self.calls.insert(*call, (*partial, due));
            }
            Input::Cancel { call } => {
                self.calls.remove(call);
            }
            Input::Respond { call, answers } => self.responds(*call, answers, effects, troubled)?,
            Input::Release { unit, .. } => {
                if let Some(held) = self.held.get_mut(&unit.get()) {
                    held.is_read = false;
                }
            }
            Input::Stop => self.is_stopped = true,
            _ => {}
        }
        let is_learning = matches!(input, Input::Membership(_));
        for effect in effects {
            match effect {
                Effect::Batch { call, result } => {
                    self.batch(now, *call, result, memory, book, troubled)?;
                }
                Effect::Observe(event) => self.observed(event, is_learning)?,
                _ => {}
            }
        }
        self.still_there(memory)?;
        self.nobody_waits_in_vain(now, input)
    }

    /// Whoever was up before, and still is in the same run, may be lost by the server's own lights.
    fn learns(&mut self, membership: &Membership) {
        let (index, group) = self.index;
        let of_it = |rank: u32| rank.checked_rem(group) == Some(index);
        let members = membership.members.iter();
        for member in members.filter(|it| it.role == Role::Worker && of_it(it.rank.get())) {
            let worker = member.rank.get().checked_div(group).unwrap_or(0);
            let known = self.runs.insert(worker, (member.incarnation, member.state));
            match member.state {
                State::Up if known == Some((member.incarnation, State::Up)) => {}
                State::Up => {
                    self.up.insert(worker);
                }
                State::Left | State::Lost => {
                    self.up.remove(&worker);
                }
            }
        }
    }

    fn observed(&mut self, event: &Event, is_learning: bool) -> Seen {
        let worker_of = |rank: u32| rank.checked_div(self.index.1).unwrap_or(0);
        match event {
            // Of whom it then takes for lost another run may be up.
            Event::Lost(lost) if !is_learning => {
                self.up.remove(&worker_of(lost.rank.get()));
            }
            Event::Ready { worker, .. } => {
                self.up.insert(worker.get());
            }
            Event::Protocol { what } => return wrong("protocol", what.to_string()),
            Event::Refused { worker, refusal } => {
                // Workers keep to their credits; the sizes of slots they cannot know.
                if !matches!(refusal, Refusal::SlotTooSmall { .. }) {
                    return wrong("protocol", format!("worker {worker} is refused: {refusal}"));
                }
            }
            Event::Lost(_) | Event::Rejected { .. } | Event::Away { .. } => {}
        }
        Ok(())
    }

    /// What was given out before and owes no answer the application reads no more.
    fn done_with_unowing(&mut self) {
        let over = self.held.iter().filter(|(_, held)| !held.owes_answer).map(|(unit, _)| *unit);
        let over: Vec<u64> = over.collect();
        for unit in over {
            self.held.remove(&unit);
            self.over.insert(unit);
        }
    }

    fn batch(
        &mut self,
        now: Time,
        call: CallId,
        result: &Result<Vec<Unit<Slice>>, Refusal>,
        memory: &Memory,
        book: &Book,
        troubled: bool,
    ) -> Seen {
        let Some((partial, due)) = self.calls.remove(&call) else {
            return wrong("told", format!("{call} wants no batch, and is told of one"));
        };
        let units = match result {
            Ok(units) => units,
            Err(refusal) => {
                let is_right = match refusal {
                    Refusal::NoBatch { .. } => due.is_some_and(|due| due <= now),
                    Refusal::Stopped => self.is_stopped,
                    Refusal::TooManyCalls { max } => {
                        *max == self.config.calls_max && self.calls.len() >= *max
                    }
                    Refusal::PeerLost(_) => {
                        troubled && partial == Partial::Never && self.config.batch_fails_on_loss
                    }
                    _ => false,
                };
                reached(Check::ExchangeTold);
                return match is_right {
                    true => Ok(()),
                    false => wrong("told", format!("who wants a batch is told {refusal}")),
                };
            }
        };
        let workers: Vec<u32> = units.iter().map(|unit| unit.worker.get()).collect();
        if !workers.is_sorted_by(|a, b| a < b) {
            return wrong("batch", format!("workers of a batch are {workers:?}"));
        }
        let is_whole = match partial {
            Partial::Never => workers.iter().copied().eq(0..self.workers),
            Partial::UpMembersOnly => {
                self.up.iter().all(|worker| workers.contains(worker)) && !workers.is_empty()
            }
            Partial::AtDeadline => {
                !workers.is_empty()
                    && (workers.len() == self.workers as usize || due.is_some_and(|it| it <= now))
            }
        };
        reached(Check::ExchangeBatch);
        if !is_whole {
            let up = &self.up;
            return wrong("batch", format!("{partial:?}: of {workers:?}, while {up:?} take part"));
        }
        units.iter().try_for_each(|unit| self.given_out(unit, memory, book))
    }

    /// The application has a unit: it is all that one request pushed, in memory that is still its own.
    fn given_out(&mut self, unit: &Unit<Slice>, memory: &Memory, book: &Book) -> Seen {
        let (handler, worker) = (unit.handler, unit.worker.get());
        let before = self.last.insert(worker, handler.get());
        if before.is_some_and(|before| before >= handler.get()) {
            return wrong("batch", format!("unit {handler} of worker {worker} is out of order"));
        }
        let read = |slice: &Slice| memory.read(slice).map(<[u8]>::to_vec).unwrap_or_default();
        let tensors: Vec<(u64, Slice, Vec<u8>)> =
            unit.tensors.iter().map(|it| (it.key.get(), it.payload, read(&it.payload))).collect();
        let pulled = unit.pulls.first().map(|pull| pull.key.get());
        let serial = serial_of(pulled, tensors.first().map(|(_, _, bytes)| bytes.as_slice()));
        let Some((serial, made)) = serial.and_then(|it| Some((it, book.get(&it)?))) else {
            return wrong("slot", format!("what unit {handler} has was never pushed"));
        };
        if made.worker != worker {
            let text = format!("unit {handler} of worker {worker} is what another one pushed");
            return wrong("batch", text);
        }
        reached(Check::ExchangeSlot);
        let pushed = made.pushes.iter().map(|(key, bytes)| (*key, bytes.as_slice()));
        if !tensors.iter().map(|(key, _, bytes)| (*key, bytes.as_slice())).eq(pushed) {
            let text = format!("unit {handler} has not what request {serial} pushed");
            return wrong("slot", text);
        }
        let server = self.rank.checked_div(self.index.1).unwrap_or(0) as usize;
        let from = server.saturating_mul(made.per_server);
        let asked = made.pulls.iter().skip(from).take(made.per_server);
        let pulls = unit.pulls.iter().map(|pull| (pull.key.get(), pull.info.bytes()));
        if !pulls.eq(asked.copied()) {
            return wrong("batch", format!("unit {handler} pulls what request {serial} does not"));
        }
        let again = matches!(self.config.policy, Policy::WaitForReturn { .. });
        if !self.given.insert(serial) && !again {
            return wrong("batch", format!("request {serial} is given out twice"));
        }
        let single = tensors.len().saturating_add(unit.pulls.len()) == 1;
        let held = Held {
            tensors: tensors.into_iter().map(|(_, slice, bytes)| (slice, bytes)).collect(),
            pulls: unit.pulls.iter().map(|pull| pull.info.bytes()).collect(),
            owes_answer: single || !unit.pulls.is_empty(),
            is_read: true,
        };
        self.held.insert(handler.get(), held);
        Ok(())
    }

    /// What is answered that can be, once, is taken; the rest is refused.
    fn responds(
        &mut self,
        call: CallId,
        answers: &[Answering<Slice>],
        effects: &[Effect<Slice>],
        troubled: bool,
    ) -> Seen {
        let mut told = effects.iter().filter_map(|effect| match effect {
            Effect::Done { call: of, result } if *of == call => Some(result),
            _ => None,
        });
        let (Some(result), None) = (told.next(), told.next()) else {
            return wrong("told", format!("{call} is not told once whether it answered"));
        };
        let mut units = BTreeSet::new();
        let fits = answers.iter().all(|answer| {
            let sizes = answer.tensors.iter().map(|(info, _)| info.bytes());
            let held = self.held.get(&answer.unit.get());
            held.is_some_and(|held| sizes.eq(held.pulls.iter().copied()))
                && units.insert(answer.unit.get())
        });
        match result {
            Ok(()) if !fits => {
                return wrong("answer", format!("{call} may answer {units:?}, which it cannot"));
            }
            Ok(()) | Err(Refusal::PeerLost(_)) => {}
            // What is released of a lost worker's unit is known no more.
            Err(Refusal::AnsweredBefore { unit })
                if self.held.get(&unit.get()).is_none_or(|held| !held.is_read && troubled) =>
            {
                self.held.remove(&unit.get());
                self.over.insert(unit.get());
                return Ok(());
            }
            Err(refusal) if fits => return wrong("told", format!("{call} is told {refusal}")),
            Err(_) => return Ok(()),
        }
        for answer in answers {
            self.held.remove(&answer.unit.get());
            self.over.insert(answer.unit.get());
        }
        Ok(())
    }

    /// Nothing that may be read has changed.
    fn still_there(&self, memory: &Memory) -> Seen {
        for (unit, held) in self.held.iter().filter(|(_, held)| held.is_read) {
            for (slice, bytes) in &held.tensors {
                if memory.read(slice) != Some(bytes.as_slice()) {
                    return wrong("slot", format!("{slice:?} of unit {unit} was overwritten"));
                }
            }
        }
        Ok(())
    }

    /// A batch of all cannot come when one is lost; who wants one is told, if that is how it is to be.
    fn nobody_waits_in_vain(&self, now: Time, input: &Input<Slice>) -> Seen {
        let is_lost = !self.runs.is_empty()
            && self.runs.len() == self.workers as usize
            && self.up.len() < self.workers as usize;
        let waits = self.calls.values().any(|(partial, _)| *partial == Partial::Never);
        if self.config.batch_fails_on_loss && is_lost && waits {
            let up = &self.up;
            return wrong("told", format!("a batch of all is waited for, while {up:?} take part"));
        }
        if matches!(input, Input::Tick)
            && let Some((call, _)) =
                self.calls.iter().find(|(_, (_, due))| due.is_some_and(|due| due <= now))
        {
            return wrong("told", format!("{call} waits for a batch beyond its time"));
        }
        Ok(())
    }

    /// Something is being written to.
    pub(super) fn written(&self, slice: &Slice) -> Seen {
        let readable = self.held.iter().filter(|(_, held)| held.is_read);
        let mut meets =
            readable.filter(|(_, held)| held.tensors.iter().any(|(it, _)| it.meets(slice)));
        match meets.next() {
            Some((unit, _)) => {
                wrong("slot", format!("{slice:?} is written to, where unit {unit} is read"))
            }
            None => Ok(()),
        }
    }
}
