//! Barriers: nobody is released before all have come, and everybody is told once.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::exchange::member::{self, Ask, Member, Reply};
use rondo_core::exchange::membership::State;
use rondo_core::exchange::message::{Failure, Scope, ToMember, ToScheduler};
use rondo_core::exchange::scheduler::{self, Scheduler};
use rondo_core::exchange::{BarrierNumber, Mask};
use rondo_core::ids::{CallId, ConnectionId, Incarnation};

use super::{Seen, wrong};
use crate::checks::{Check, reached};

/// A kind of barrier.
type Kind = (u32, Scope);

/// What the application of a process has asked of the scheduler.
#[derive(Debug, Default)]
struct Asked {
    incarnation: Incarnation,
    calls: BTreeMap<CallId, Ask>,
    /// How often it came to barriers of each kind, and how often it was told of one.
    came: BTreeMap<Kind, u64>,
    passed: BTreeMap<Kind, u64>,
    /// Kinds at which it gave up: the scheduler may not know that.
    gave_up: BTreeSet<Kind>,
}

/// Follows barriers.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    asked: BTreeMap<u32, Asked>,
    former: Vec<Asked>,
    /// What a run means by a number, as it said to the scheduler.
    numbers: BTreeMap<(Incarnation, BarrierNumber), Kind>,
    /// Which run is at a connection of the scheduler's.
    runs: BTreeMap<ConnectionId, Incarnation>,
    /// Barriers that have been passed, counted by kind.
    passed: BTreeSet<(u32, i32, u64)>,
}

const fn kind(mask: Mask, scope: Scope) -> Kind {
    (mask.number(), scope)
}

impl Barriers {
    pub(super) fn died(&mut self, site: u32) {
        if let Some(asked) = self.asked.remove(&site) {
            // The scheduler may not know it for a while.
            self.former.push(asked);
        }
    }

    pub(super) fn member(
        &mut self,
        site: u32,
        input: &member::Input,
        effects: &[member::Effect],
        machine: &Member,
        troubled: bool,
    ) -> Seen {
        let asked = self.asked.entry(site).or_default();
        asked.incarnation = machine.settings().identity.incarnation;
        match input {
            member::Input::Asked { call, ask } => {
                asked.calls.insert(*call, *ask);
                if let Ask::Barrier { mask, scope, .. } = ask {
                    let came = asked.came.entry(kind(*mask, *scope)).or_default();
                    *came = came.saturating_add(1);
                }
            }
            member::Input::Cancel { call } => {
                if let Some(Ask::Barrier { mask, scope, .. }) = asked.calls.remove(call) {
                    asked.gave_up.insert(kind(mask, scope));
                }
            }
            _ => {}
        }
        for effect in effects {
            if let member::Effect::Done { call, result } = effect {
                asked.told(*call, result, troubled)?;
            }
        }
        Ok(())
    }

    pub(super) fn scheduler(
        &mut self,
        input: &scheduler::Input,
        effects: &[scheduler::Effect],
        machine: &Scheduler,
    ) -> Seen {
        if let scheduler::Input::Received { connection, message } = input {
            match message {
                ToScheduler::Register(register) => {
                    self.runs.insert(*connection, register.incarnation);
                    for barrier in &register.waiting {
                        let of = kind(barrier.mask, barrier.scope);
                        self.numbers.insert((register.incarnation, barrier.number), of);
                    }
                }
                ToScheduler::Barrier(barrier) => {
                    if let Some(run) = self.runs.get(connection) {
                        let of = kind(barrier.mask, barrier.scope);
                        self.numbers.insert((*run, barrier.number), of);
                    }
                }
                _ => {}
            }
        }
        // Who waited for a place comes in when all are back, after those have met.
        let rebuilt = effects.iter().any(|effect| {
            matches!(effect, scheduler::Effect::Observe(scheduler::Event::Rebuilt { .. }))
        });
        // Who is back may be told what happened while it was away.
        let back = match input {
            scheduler::Input::Received { connection, message: ToScheduler::Register(_) } => {
                Some(*connection)
            }
            _ => None,
        };
        for effect in effects {
            if let scheduler::Effect::Send {
                connection,
                message: ToMember::BarrierDone { number, result: Ok(passed) },
            } = effect
            {
                let is_news = !rebuilt && back != Some(*connection);
                self.released(*connection, (*number, *passed), machine, is_news)?;
            }
        }
        Ok(())
    }

    /// Somebody is released for the so manyth time: all of the mask that take part have come.
    fn released(
        &mut self,
        connection: ConnectionId,
        (number, passed): (BarrierNumber, u64),
        machine: &Scheduler,
        is_news: bool,
    ) -> Seen {
        let kind = self.runs.get(&connection).and_then(|run| self.numbers.get(&(*run, number)));
        let Some((mask, scope)) = kind.copied() else {
            return wrong("barrier", format!("{connection} is released from a barrier of nobody"));
        };
        if !self.passed.insert((mask, scope.number(), passed)) || !is_news {
            return Ok(());
        }
        let (Some(membership), Some(of)) = (machine.membership(), Mask::of_number(mask)) else {
            return Ok(());
        };
        reached(Check::ExchangeBarrier);
        let here: BTreeSet<Incarnation> = self
            .asked
            .values()
            .chain(&self.former)
            .filter(|asked| asked.is_at((mask, scope)))
            .map(|asked| asked.incarnation)
            .collect();
        let members = || {
            let members = membership.members.iter();
            members.filter(|it| it.state == State::Up && of.contains(it.role))
        };
        let missing = members().find(|member| match scope {
            Scope::Instance => !here.contains(&member.incarnation),
            Scope::Group => {
                let group = |rank| membership.sizes.group_of(rank);
                !members().any(|it| {
                    it.role == member.role
                        && group(it.rank) == group(member.rank)
                        && here.contains(&it.incarnation)
                })
            }
        });
        match missing {
            None => Ok(()),
            Some(member) => wrong(
                "barrier",
                format!(
                    "barrier {passed} of {of} is passed, and {} {} has not come",
                    member.role, member.rank
                ),
            ),
        }
    }
}

impl Asked {
    /// Whether it waits at a barrier of a kind, or did and the scheduler may not know that it does not.
    fn is_at(&self, kind: Kind) -> bool {
        self.gave_up.contains(&kind)
            || self.calls.values().any(|ask| match ask {
                Ask::Barrier { mask, scope, .. } => self::kind(*mask, *scope) == kind,
                _ => false,
            })
    }

    fn told(&mut self, call: CallId, result: &Result<Reply, Failure>, troubled: bool) -> Seen {
        let Some(ask) = self.calls.remove(&call) else {
            return wrong("told", format!("{call} does not wait, and is told {result:?}"));
        };
        let Ask::Barrier { mask, scope, timeout } = ask else {
            return Ok(());
        };
        match result {
            Ok(_) => {
                let passed = self.passed.entry(kind(mask, scope)).or_default();
                *passed = passed.saturating_add(1);
                let came = self.came.get(&kind(mask, scope)).copied().unwrap_or(0);
                if *passed > came {
                    return wrong("barrier", format!("{call} passes one that it did not come to"));
                }
            }
            Err(failure) => {
                self.gave_up.insert(kind(mask, scope));
                let leaves = self.calls.values().any(|ask| matches!(ask, Ask::Leave));
                if timeout.is_none() && !troubled && !leaves {
                    return wrong("barrier", format!("{call} is told {failure:?} for nothing"));
                }
            }
        }
        Ok(())
    }
}
