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

/// A rank of a role.
type Seat = (Role, u32);

/// What a process has been told.
#[derive(Debug, Default)]
struct Told {
    version: u64,
    present: BTreeMap<Seat, Incarnation>,
    gone: BTreeSet<(Seat, Incarnation)>,
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
}

impl Ranks {
    pub(super) fn died(&mut self, site: u32) {
        self.told.remove(&site);
    }

    pub(super) fn scheduler_died(&mut self) {
        self.said.clear();
        self.links.clear();
        self.present.clear();
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
            if let scheduler::Effect::Send { message, .. } = effect {
                self.said(now, message, machine)?;
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
        for member in membership.members.iter().filter(|it| it.state == State::Up) {
            let seat = (member.role, member.rank.get());
            let Some(former) = self.present.insert(seat, member.incarnation) else {
                continue;
            };
            let mut links = self.links.values();
            let is_there = links
                .any(|link| link.incarnation == Some(former) && link.heard.after(timeout) > now);
            if former != member.incarnation && is_there {
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
        }
        for effect in effects {
            if let member::Effect::Membership(membership) = effect {
                self.learns(site, membership)?;
            }
        }
        Ok(())
    }

    /// A process learns another membership, in which nobody is back who was gone.
    fn learns(&mut self, site: u32, membership: &Membership) -> Seen {
        let told = self.told.entry(site).or_default();
        let version = membership.version.get();
        if version <= told.version {
            return wrong("rank", format!("membership {version} follows {}", told.version));
        }
        told.version = version;
        for member in &membership.members {
            let seat = (member.role, member.rank.get());
            let run = (seat, member.incarnation);
            if member.state == State::Up {
                if told.gone.contains(&run) {
                    return wrong("rank", format!("{run:?} is back, which was gone"));
                }
                let before = told.present.insert(seat, member.incarnation);
                let other = before.filter(|before| *before != member.incarnation);
                told.gone.extend(other.map(|before| (seat, before)));
            } else {
                told.gone.insert(run);
            }
        }
        Ok(())
    }
}
