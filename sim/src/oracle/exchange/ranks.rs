//! Who takes part: a rank is of one process at a time, and no run comes back that was given up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::exchange::member::{self, Member};
use rondo_core::exchange::membership::{Membership, State};
use rondo_core::exchange::message::{ToMember, ToScheduler};
use rondo_core::exchange::scheduler::{self, Scheduler};
use rondo_core::exchange::{MembershipVersion, Role};
use rondo_core::ids::{ConnectionId, Incarnation};
use rondo_core::time::Time;

use super::{Seen, wrong};
use crate::checks::{Check, reached};

/// A rank of a role.
type Seat = (Role, u32);

/// What a process has been told.
#[derive(Debug, Default)]
struct Told {
    version: u64,
    present: BTreeMap<Seat, Incarnation>,
    /// Runs that are gone, and in which version they went.
    gone: BTreeMap<(Seat, Incarnation), u64>,
}

/// A connection as the scheduler knows it.
#[derive(Debug)]
struct Link {
    incarnation: Option<Incarnation>,
    heard: Time,
}

/// Follows who takes part.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    told: BTreeMap<u32, Told>,
    /// Memberships of the present scheduler.
    said: BTreeMap<MembershipVersion, Arc<Membership>>,
    links: BTreeMap<ConnectionId, Link>,
    /// Who has each rank, as it was said last.
    present: BTreeMap<Seat, Incarnation>,
    /// Who had a rank before, as the present scheduler has said.
    gone: BTreeSet<(Seat, Incarnation)>,
    /// Runs that know that they take part, and since which version.
    joined: BTreeMap<Incarnation, u64>,
}

impl Ranks {
    pub(super) fn died(&mut self, site: u32) {
        self.told.remove(&site);
    }

    pub(super) fn scheduler_died(&mut self) {
        self.said.clear();
        self.links.clear();
        self.present.clear();
        self.gone.clear();
    }

    pub(super) fn scheduler(
        &mut self,
        now: Time,
        input: &scheduler::Input,
        effects: &[scheduler::Effect],
        machine: &Scheduler,
    ) -> Seen {
        match input {
            scheduler::Input::Connected { connection } => {
                self.links.insert(*connection, Link { incarnation: None, heard: now });
            }
            scheduler::Input::Received { connection, message } => {
                if let Some(link) = self.links.get_mut(connection) {
                    link.heard = now;
                    if let ToScheduler::Register(register) = message {
                        link.incarnation = Some(register.incarnation);
                    }
                    if matches!(message, ToScheduler::Leave) {
                        link.incarnation = None;
                    }
                }
            }
            scheduler::Input::Disconnected { connection } => {
                self.links.remove(connection);
            }
            _ => {}
        }
        for effect in effects {
            if let scheduler::Effect::Close { connection } = effect {
                self.links.remove(connection);
            }
        }
        for effect in effects {
            match effect {
                scheduler::Effect::Send { message, .. } => self.said(now, message, machine)?,
                // Whoever comes now comes to another exchange.
                scheduler::Effect::Observe(scheduler::Event::Ended { .. }) => {
                    self.present.clear();
                    self.gone.clear();
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn said(&mut self, now: Time, message: &ToMember, machine: &Scheduler) -> Seen {
        let (ToMember::Membership(membership) | ToMember::Assigned { membership, .. }) = message
        else {
            return Ok(());
        };
        let version = membership.version;
        let before = self.said.entry(version).or_insert_with(|| membership.clone());
        if before != membership {
            return wrong("rank", format!("there are two memberships of version {version}"));
        }
        if !membership.is_ordered() {
            return wrong("rank", format!("a rank stands twice in membership {version}"));
        }
        let timeout = machine.settings().config.heartbeat_timeout;
        for member in &membership.members {
            let seat = (member.role, member.rank.get());
            let run = (seat, member.incarnation);
            if member.state != State::Up {
                self.gone.insert(run);
                continue;
            }
            if self.gone.contains(&run) {
                return wrong("rank", format!("{run:?} is back, which the scheduler said is gone"));
            }
            let before = self.present.insert(seat, member.incarnation);
            let Some(former) = before.filter(|before| *before != member.incarnation) else {
                continue;
            };
            self.gone.insert((seat, former));
            let mut links = self.links.values();
            let is_there = links
                .any(|link| link.incarnation == Some(former) && link.heard.after(timeout) > now);
            if is_there {
                let text = format!("{seat:?} is given to another run while the first is there");
                return wrong("rank", text);
            }
        }
        Ok(())
    }

    pub(super) fn member(
        &mut self,
        site: u32,
        input: &member::Input,
        effects: &[member::Effect],
        machine: &Member,
    ) -> Seen {
        let identity = &machine.settings().identity;
        if let member::Input::Received {
            message: ToMember::Assigned { rank, membership, .. },
            ..
        } = input
        {
            let own = membership.member(identity.role, *rank);
            let is_it = own
                .is_some_and(|it| it.incarnation == identity.incarnation && it.state == State::Up);
            if !is_it {
                return wrong("rank", format!("it is told that it has rank {rank}: {own:?}"));
            }
            let since = membership.version.get();
            self.joined.entry(identity.incarnation).or_insert(since);
        }
        for effect in effects {
            if let member::Effect::Membership(membership) = effect {
                self.learns(site, membership)?;
            }
        }
        Ok(())
    }

    /// A process learns another membership, in which nobody is back who was gone: but one that never knew
    /// that it takes part may come to another scheduler, to which it is new.
    fn learns(&mut self, site: u32, membership: &Membership) -> Seen {
        let told = self.told.entry(site).or_default();
        let version = membership.version.get();
        reached(Check::ExchangeRank);
        if version <= told.version {
            return wrong("rank", format!("membership {version} follows {}", told.version));
        }
        told.version = version;
        for member in &membership.members {
            let seat = (member.role, member.rank.get());
            let run = (seat, member.incarnation);
            if member.state != State::Up {
                told.gone.entry(run).or_insert(version);
                continue;
            }
            let joined = self.joined.get(&member.incarnation);
            if let Some(went) = told.gone.remove(&run)
                && joined.is_some_and(|joined| *joined <= went)
            {
                return wrong("rank", format!("{run:?} is back, which was gone"));
            }
            let before = told.present.insert(seat, member.incarnation);
            let other = before.filter(|before| *before != member.incarnation);
            told.gone.extend(other.map(|before| ((seat, before), version)));
        }
        Ok(())
    }
}
