//! Processes that register: whether they may, and which seat is theirs.

use alloc::vec::Vec;

use super::links::Standing;
use super::machine::Scheduler;
use super::refusal;
use super::report::Phase;
use super::seat::{Contact, Peer, Seat};
use super::types::Effect;
use crate::exchange::ids::{InstanceRank, MembershipVersion};
use crate::exchange::membership::{Membership, Sizes, State};
use crate::exchange::message::Register;
use crate::exchange::role::Role;
use crate::ids::ConnectionId;
use crate::status::Status;
use crate::time::Time;

impl Scheduler {
    pub(super) fn register(
        &mut self,
        now: Time,
        connection: ConnectionId,
        register: Register,
        out: &mut Vec<Effect>,
    ) {
        if let Err(status) = self.check(&register) {
            return self.refuse(connection, status, out);
        }
        self.sizes.get_or_insert(register.sizes);
        let known = register.known.as_ref();
        let version = known.map_or(MembershipVersion::new(0), |known| known.version);
        let is_newer = match self.phase {
            // Nobody has been told anything.
            Phase::Gathering => known.is_some(),
            Phase::Rebuilding => version > self.version,
            Phase::Running => false,
        };
        if let Some(known) = known.filter(|_| is_newer) {
            self.adopt(now, known, out);
        } else if version > self.version {
            // What everybody is told from now on is newer than that.
            self.version = version;
            self.is_changed = true;
        }
        match self.gone_to(&register) {
            Ok(gone) => self.admit(now, connection, (register, gone), out),
            Err(status) => self.refuse(connection, status, out),
        }
    }

    /// Whether what a process says of itself can be, whoever else there is.
    fn check(&self, register: &Register) -> Result<(), Status> {
        let config = &self.settings.config;
        let sizes = register.sizes;
        refusal::check_sizes(sizes, config)?;
        let Register { role, rank, addresses, .. } = register;
        if *role == Role::Scheduler {
            return Err(refusal::second_scheduler(register));
        }
        if let Some(ours) = self.sizes.filter(|ours| *ours != sizes) {
            return Err(refusal::other_sizes(register, ours, self.settings.sizes.is_some()));
        }
        if let Some(rank) = rank.filter(|rank| rank.get() >= sizes.instances(*role)) {
            return Err(refusal::rank_out_of_range(register, rank));
        }
        if addresses.len() > config.addresses_max {
            return Err(refusal::too_many_addresses(register, config.addresses_max));
        }
        if addresses.is_empty() && *role == Role::Server {
            return Err(refusal::no_address(register));
        }
        match &register.known {
            Some(known) => self.check_known(register, known, sizes),
            None => Ok(()),
        }
    }

    /// Whether the membership that a process knows can be one.
    fn check_known(
        &self,
        register: &Register,
        known: &Membership,
        sizes: Sizes,
    ) -> Result<(), Status> {
        if known.version <= self.over {
            return Err(refusal::is_over(register, known.version));
        }
        let is_whole = known.members.len() == sizes.processes() as usize;
        if !is_whole || known.sizes != sizes || !known.is_ordered() {
            return Err(refusal::no_membership(register, known));
        }
        let itself = register.rank.and_then(|rank| known.member(register.role, rank));
        let is_in = itself.is_some_and(|member| {
            member.state == State::Up && member.incarnation == register.incarnation
        });
        if is_in { Ok(()) } else { Err(refusal::not_in_membership(register, known)) }
    }

    /// Gives a process its seat, or a place in the line for it.
    pub(super) fn place(
        &mut self,
        now: Time,
        connection: ConnectionId,
        register: Register,
        out: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.seat_of(&register) else {
            return self.refuse(connection, refusal::no_rank_free(&register), out);
        };
        let Some(seat) = self.seats.get(&peer) else {
            return self.sit(now, connection, peer, &register);
        };
        if seat.incarnation == register.incarnation {
            return match seat.state {
                State::Up => self.resume(connection, peer, &register, out),
                State::Left => self.refuse(connection, refusal::has_left(&register), out),
                State::Lost => {
                    self.refuse(connection, refusal::given_up(&register, &seat.why), out);
                }
            };
        }
        if seat.is_without(&register) {
            let status = refusal::given_up(&register, "its rank is of another run");
            return self.refuse(connection, status, out);
        }
        match (seat.state, seat.contact) {
            (State::Up, Contact::Broken { .. }) => self.park(connection, peer, register, out),
            (State::Up, _) if seat.is_movable && register.rank.is_some() => {
                self.make_way(now, connection, peer, &register, out);
            }
            (State::Up, _) => {
                let status = refusal::taken(&register, peer, seat);
                self.refuse(connection, status, out);
            }
            _ if self.phase == Phase::Rebuilding => self.park(connection, peer, register, out),
            _ => self.take_over(connection, peer, &register, out),
        }
    }

    /// The seat that a process means: the one of its rank; if any will do the one that it has, or had, or
    /// one that is free. `None` if none is.
    fn seat_of(&self, register: &Register) -> Option<Peer> {
        let role = register.role;
        if let Some(rank) = register.rank {
            return Some((role, rank));
        }
        let own = self
            .seats
            .range((role, InstanceRank::new(0))..)
            .find(|((of, _), seat)| *of == role && seat.is_known_to(register.incarnation));
        own.map(|(peer, _)| *peer).or_else(|| self.free_rank(role).map(|rank| (role, rank)))
    }

    /// The lowest rank that nobody has; that somebody had, if all have been given out.
    pub(super) fn free_rank(&self, role: Role) -> Option<InstanceRank> {
        let ranks = 0..self.sizes?.instances(role);
        let mut ranks = ranks.map(InstanceRank::new);
        ranks.find(|rank| {
            let seat = self.seats.get(&(role, *rank));
            let is_wanted = self.parked.contains_key(&(role, *rank));
            seat.is_none_or(|seat| seat.state != State::Up) && !is_wanted
        })
    }

    /// A process takes a seat that nobody had.
    pub(super) fn sit(
        &mut self,
        now: Time,
        connection: ConnectionId,
        peer: Peer,
        register: &Register,
    ) {
        self.seats.insert(peer, Seat::of(register, connection));
        self.seat_link(connection, Standing::Seated(peer));
        self.expect_bootstrap(now);
    }
}
