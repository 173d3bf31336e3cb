//! The reader's machine: takes what happens, and says what to do.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::config::{Config, Way};
use super::elements::Elements;
use super::leaving::Leaving;
use super::membership::Membership;
use super::report::{Report, Stall, WorkerReport};
use super::shared::{Purpose, Shared};
use super::splits::Splits;
use super::types::{Answer, Effect, HeartbeatAnswer, Input, RpcId};
use crate::ids::ClientId;
use crate::status::{Code, Status};
use crate::time::Time;

/// A consumer of a dataset.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Shared,
    membership: Membership,
    room: Room,
    /// Nothing more is delivered.
    leaving: Option<Leaving>,
}

/// How it reads.
#[derive(Clone, Debug)]
enum Room {
    Splits(Box<Splits>),
    Elements(Elements),
}

impl Reader {
    /// A reader that is not known to anybody yet; its first [`Input::Tick`] begins. `entropy` is a
    /// fresh random number.
    pub fn new(config: Config, entropy: u64) -> Self {
        let room = match &config.way {
            Way::BySplit(way) => Room::Splits(Box::new(Splits::new(way.clone()))),
            Way::ByElement(way) => Room::Elements(Elements::new(way.clone())),
        };
        let (shared, membership) = (Shared::new(config, entropy), Membership::default());
        Self { shared, membership, room, leaving: None }
    }

    /// The number by which the dispatcher knows it, once it does.
    pub const fn client(&self) -> Option<ClientId> {
        self.shared.client
    }

    /// Whether it has left: nothing it does is under way, and nothing more will happen.
    pub fn is_over(&self) -> bool {
        self.leaving.as_ref().is_some_and(Leaving::is_over)
    }

    /// How it left, once it has: an error if the dispatcher was not told what was consumed last, or
    /// that the reader leaves.
    pub fn left(&self) -> Option<&Result<(), Status>> {
        self.leaving.as_ref().filter(|leaving| leaving.is_over()).map(Leaving::result)
    }

    /// Takes one input and pushes what must be done into `out`, in order.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        if self.leaving.is_some() {
            return self.step_leaving(now, input, out);
        }
        let taken = self.take(now, input, out);
        let went_on = taken.and_then(|()| match self.leaving {
            None => self.go_on(now, out),
            Some(_) => Ok(()),
        });
        if let Err(status) = went_on {
            self.end(now, Err(status), out);
        }
    }

    fn take(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) -> Result<(), Status> {
        match input {
            Input::Wanted { deliveries } => {
                self.shared.wanted = self.shared.wanted.saturating_add(deliveries);
            }
            Input::Consumed { upto } => {
                if let Room::Splits(room) = &mut self.room {
                    upto.into_iter().for_each(|(place, records)| room.consumed(place, records));
                }
            }
            Input::Flush { call } => match &mut self.room {
                Room::Splits(room) => room.flush(call),
                // Nothing is acknowledged there.
                Room::Elements(_) => out.push(Effect::Flushed { call, result: Ok(()) }),
            },
            Input::Answered { rpc, result, entropy } => {
                let open_stream = matches!(result, Ok(Answer::Records(_)));
                let purpose = match open_stream {
                    true => self.shared.purposes.get(&rpc).copied(),
                    false => self.shared.purposes.remove(&rpc),
                };
                if let Some(purpose) = purpose {
                    self.answered(now, (rpc, purpose), result, entropy, out)?;
                }
            }
            Input::Close => self.leave(now, out),
            Input::Tick => {}
        }
        Ok(())
    }

    fn answered(
        &mut self,
        now: Time,
        (rpc, purpose): (RpcId, Purpose),
        result: Result<Answer, Status>,
        entropy: u64,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        let shared = &mut self.shared;
        match purpose {
            Purpose::Job | Purpose::Iteration | Purpose::Heartbeat => {
                let told = self.membership.answered(now, result, entropy, shared);
                let told = told.map_err(|status| match &self.room {
                    Room::Splits(room) if status.code == Code::NotFound => room.given_up(status),
                    _ => status,
                })?;
                told.map_or(Ok(()), |answer| self.told(now, answer, out))
            }
            Purpose::Release => Ok(()),
            Purpose::Hold | Purpose::Stream => match &mut self.room {
                Room::Splits(room) => room.answered(now, rpc, result, entropy, shared, out),
                Room::Elements(_) => Ok(()),
            },
            Purpose::Fetch(_) | Purpose::Remove(_) => match &mut self.room {
                Room::Elements(room) => {
                    room.answered(now, (rpc, purpose), (result, entropy), shared, out)
                }
                Room::Splits(_) => Ok(()),
            },
        }
    }

    /// A heartbeat was answered.
    fn told(
        &mut self,
        now: Time,
        answer: HeartbeatAnswer,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        let shared = &mut self.shared;
        shared.is_told = true;
        shared.is_finished |= answer.is_finished;
        shared.told(answer.tasks);
        match &mut self.room {
            Room::Splits(room) => room.told(shared, out),
            Room::Elements(room) => {
                if room.told(now, answer.block_round, shared) {
                    self.membership.hurry();
                }
            }
        }
        let soon = match &self.room {
            Room::Splits(room) => room.lacks_tasks(&self.shared),
            Room::Elements(room) => room.is_near_change(now, &self.shared),
        };
        match soon {
            true => self.membership.sooner(now, &self.shared.config),
            false => self.membership.as_usual(),
        }
        Ok(())
    }

    /// Does what can be done now.
    fn go_on(&mut self, now: Time, out: &mut Vec<Effect>) -> Result<(), Status> {
        let rounds = match &self.room {
            Room::Splits(_) => (None, None),
            Room::Elements(room) => room.rounds(),
        };
        self.membership.go_on(now, rounds, &mut self.shared, out);
        if self.shared.client.is_none() {
            return Ok(());
        }
        let is_done = match &mut self.room {
            Room::Splits(room) => room.go_on(now, &mut self.shared, out)?,
            Room::Elements(room) => {
                let is_done = room.go_on(now, &mut self.shared, out)?;
                if room.takes_hurry() {
                    self.membership.sooner(now, &self.shared.config);
                }
                is_done
            }
        };
        if is_done {
            self.end(now, Ok(()), out);
        }
        Ok(())
    }

    /// Nothing more is delivered, and the application is told so.
    fn end(&mut self, now: Time, result: Result<(), Status>, out: &mut Vec<Effect>) {
        let is_failed = result.is_err();
        out.push(Effect::Ended { result });
        self.leave(now, out);
        let has_more = match &self.room {
            Room::Splits(room) => room.has_unconsumed(),
            Room::Elements(_) => false,
        };
        if let Some(leaving) = self.leaving.as_mut().filter(|_| is_failed && has_more) {
            leaving.cut_off();
        }
    }

    fn leave(&mut self, now: Time, out: &mut Vec<Effect>) {
        let last_words = match &mut self.room {
            Room::Splits(room) => room.last_words(&self.shared),
            Room::Elements(_) => None,
        };
        let flushes = match &mut self.room {
            Room::Splits(room) => room.take_flushes(),
            Room::Elements(_) => Vec::new(),
        };
        let is_joining = self.membership.is_joining(&self.shared);
        let leaving = Leaving::begin(now, last_words, flushes, is_joining, &mut self.shared, out);
        self.leaving = Some(leaving);
    }

    fn step_leaving(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        let Some(leaving) = &mut self.leaving else {
            return;
        };
        match input {
            Input::Answered { rpc, result, entropy } => {
                if let Some(purpose) = self.shared.purposes.remove(&rpc) {
                    leaving.answered(now, purpose, (result, entropy), &mut self.shared, out);
                }
            }
            Input::Flush { call } => leaving.flush(call, out),
            Input::Tick => leaving.tick(now, &mut self.shared, out),
            Input::Consumed { upto } => {
                if let Room::Splits(room) = &mut self.room {
                    let before = room.last_words(&self.shared);
                    upto.into_iter().for_each(|(place, records)| room.consumed(place, records));
                    if room.last_words(&self.shared) != before {
                        leaving.consumed_too_late();
                    }
                }
            }
            Input::Wanted { .. } | Input::Close => {}
        }
    }

    /// When to call [`Reader::step`] with [`Input::Tick`] next.
    pub fn deadline(&self) -> Option<Time> {
        if let Some(leaving) = &self.leaving {
            return leaving.deadline();
        }
        let joins = self.membership.deadline(&self.shared);
        let reads = self.shared.client.and_then(|_| match &self.room {
            Room::Splits(room) => room.deadline(&self.shared),
            Room::Elements(room) => room.deadline(&self.shared),
        });
        joins.into_iter().chain(reads).min()
    }

    /// Looks at what reads by element, unless it leaves or reads otherwise.
    pub(super) fn of_elements(
        &self,
        look: impl FnOnce(&Elements, &Shared) -> Result<(), String>,
    ) -> Result<(), String> {
        match (&self.room, &self.leaving) {
            (Room::Elements(room), None) => look(room, &self.shared),
            _ => Ok(()),
        }
    }

    /// What reads by element, to be broken.
    #[cfg(test)]
    pub(super) const fn elements_mut(&mut self) -> Option<(&mut Elements, &mut Shared)> {
        match &mut self.room {
            Room::Elements(room) => Some((room, &mut self.shared)),
            Room::Splits(_) => None,
        }
    }

    /// How it stands, for people.
    pub fn report(&self, now: Time) -> Report {
        let workers = self.shared.workers.iter().map(|(name, worker)| WorkerReport {
            worker: name.clone(),
            counts: worker.counts,
            load: worker.load,
            failure: worker.retry.why().map(|(_, status)| status.clone()),
        });
        let report = Report {
            counts: self.shared.counts,
            client: self.shared.client,
            workers: workers.collect(),
            skipped: self.shared.skipped.clone(),
            stall: self.stall(now),
            ..Report::default()
        };
        match &self.room {
            Room::Splits(room) => room.report(report),
            Room::Elements(room) => room.report(report),
        }
    }

    fn stall(&self, now: Time) -> Option<Stall> {
        if self.leaving.is_some() {
            return None;
        }
        if let Some((since, status)) = self.membership.retry.why() {
            return Some(Stall::Dispatcher { since: now.since(*since), status: status.clone() });
        }
        self.shared.client?;
        match &self.room {
            Room::Splits(room) => room.stall(now, &self.shared),
            Room::Elements(room) => room.stall(now, &self.shared),
        }
    }
}
