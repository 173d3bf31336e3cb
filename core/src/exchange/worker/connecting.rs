//! Which servers there are, and connections to them.

use alloc::format;
use alloc::vec::Vec;

use super::batch::Part;
use super::machine::{Due, Worker};
use super::peer::{Link, Peer};
use super::types::{Effect, Event};
use crate::exchange::ids::ServerRank;
use crate::exchange::membership::{Member, Membership, State};
use crate::exchange::message::{Hello, ToServer};
use crate::exchange::role::Role;
use crate::ids::{ConnectionId, Incarnation};
use crate::time::{Duration, Time};

impl<T: Clone> Worker<T> {
    /// Learns who takes part.
    pub(super) fn learn(&mut self, now: Time, new: Membership, out: &mut Vec<Effect<T>>) {
        let known = self.membership.as_ref().map(|known| known.version);
        if self.is_stopped || known.is_some_and(|known| new.version <= known) {
            return;
        }
        let (sizes, index) = (new.sizes, new.sizes.index(self.rank));
        let servers: Vec<(ServerRank, Option<Member>)> = (0..sizes.servers)
            .map(ServerRank::new)
            .map(|rank| (rank, new.member(Role::Server, sizes.server(rank, index)).cloned()))
            .collect();
        self.membership = Some(new);
        for (server, member) in servers {
            let rank = sizes.server(server, index);
            self.peers.entry(server).or_insert_with(|| Peer::new(rank));
            match member {
                Some(member) if member.state == State::Up => self.is_up(now, server, member, out),
                Some(member) => {
                    let how = if member.state == State::Left { "it left" } else { "it is lost" };
                    self.lose(now, server, &format!("the scheduler says that {how}"), out);
                    self.unlink(server, Link::Idle, out);
                }
                None => {
                    self.lose(now, server, "it has not come", out);
                }
            }
        }
    }

    /// A server takes part, as this run of it.
    fn is_up(&mut self, now: Time, server: ServerRank, member: Member, out: &mut Vec<Effect<T>>) {
        let Some(peer) = self.peers.get(&server) else {
            return;
        };
        if peer.incarnation != member.incarnation {
            // Of the first run that is known nothing could have been lost.
            if peer.incarnation != Incarnation::default() {
                self.lose(now, server, "another run of it took its rank", out);
            }
            self.unlink(server, Link::Idle, out);
            self.begin_anew(server, member);
        }
        let Some(peer) = self.peers.get_mut(&server) else {
            return;
        };
        if peer.link == Link::Idle {
            peer.attempts = 0;
            self.be_down(now, server);
            self.connect(now, server, out);
        }
    }

    /// Another run of a server knows nothing of what was sent to the one before.
    fn begin_anew(&mut self, server: ServerRank, member: Member) {
        let Some(peer) = self.peers.get_mut(&server) else {
            return;
        };
        let fresh = Peer::new(peer.rank);
        let (lost, mut queue) = (peer.lost.take(), core::mem::take(&mut peer.queue));
        for open in peer.open.values().filter(|open| !open.is_over) {
            let batch = self.batches.get_mut(&open.handler).filter(|batch| batch.is_alive());
            if let Some(batch) = batch.filter(|batch| !batch.is_over(server)) {
                batch.set(server, Part::Queued);
                queue.insert(open.handler);
            }
        }
        let acknowledge_at = peer.acknowledge_at.take();
        *peer = Peer {
            incarnation: member.incarnation,
            addresses: member.addresses,
            host: member.host,
            lost,
            queue,
            down: peer.down,
            ..fresh
        };
        if let Some(at) = acknowledge_at {
            self.dues.remove(&(at, Due::Acknowledge(server)));
        }
    }

    /// Requests do not pass from now on.
    fn be_down(&mut self, now: Time, server: ServerRank) {
        let grace = self.config.reconnect_grace;
        if let Some(peer) = self.peers.get_mut(&server)
            && peer.down.is_none()
        {
            peer.down = Some(now);
            self.dues.insert((now.after(grace), Due::Grace(server)));
        }
    }

    /// Has the driver connect.
    pub(super) fn connect(&mut self, now: Time, server: ServerRank, out: &mut Vec<Effect<T>>) {
        // What is still written from an old connection must not be written from a new one too.
        let is_closing = self.connections.values().any(|to| *to == server);
        let Some(peer) = self.peers.get_mut(&server) else {
            return;
        };
        if !matches!(peer.link, Link::Idle | Link::Pausing { .. }) {
            return;
        }
        if is_closing {
            return self.pause(now, server);
        }
        peer.link = Link::Connecting;
        out.push(Effect::Connect {
            server,
            incarnation: peer.incarnation,
            addresses: peer.addresses.clone(),
            host: peer.host.clone(),
        });
    }

    pub(super) fn connected(
        &mut self,
        server: ServerRank,
        incarnation: Incarnation,
        connection: ConnectionId,
        out: &mut Vec<Effect<T>>,
    ) {
        self.connections.insert(connection, server);
        let membership = self.membership.as_ref();
        let peer = self.peers.get_mut(&server).filter(|peer| {
            peer.link == Link::Connecting && peer.incarnation == incarnation && !self.is_stopped
        });
        let (Some(peer), Some(membership)) = (peer, membership) else {
            out.push(Effect::Close { connection });
            return;
        };
        peer.link = Link::Greeting { connection };
        peer.greetings = peer.greetings.saturating_add(1);
        // Whatever is not in the list is acknowledged by that.
        peer.acknowledge.clear();
        let hello = Hello {
            worker: crate::exchange::ids::WorkerRank::new(membership.sizes.group_of(self.rank)),
            index: membership.sizes.index(self.rank),
            incarnation: self.incarnation,
            version: membership.version,
            server: incarnation,
            attempt: peer.greetings,
            open: peer.open.keys().copied().collect(),
        };
        out.push(Effect::Send { connection, message: ToServer::Hello(hello) });
    }

    pub(super) fn not_connected(
        &mut self,
        now: Time,
        server: ServerRank,
        incarnation: Incarnation,
        why: &str,
        out: &mut Vec<Effect<T>>,
    ) {
        let peer = self.peers.get(&server);
        if peer.is_some_and(|it| it.link == Link::Connecting && it.incarnation == incarnation) {
            if !why.is_empty() {
                out.push(Effect::Observe(Event::Rejected { server, why: why.into() }));
            }
            self.pause(now, server);
        }
    }

    /// Waits a while until the next attempt, longer each time.
    pub(super) fn pause(&mut self, now: Time, server: ServerRank) {
        let (min, max) = (self.config.reconnect_pause_min, self.config.reconnect_pause_max);
        let Some(peer) = self.peers.get_mut(&server) else {
            return;
        };
        let doubled = min.as_nanos().saturating_mul(1_u64 << peer.attempts.min(30));
        let until = now.after(Duration::from_nanos(doubled.min(max.as_nanos())));
        peer.attempts = peer.attempts.saturating_add(1);
        peer.link = Link::Pausing { until };
        self.dues.insert((until, Due::Retry(server)));
        self.be_down(now, server);
    }

    /// Gives up the way to a server.
    pub(super) fn unlink(&mut self, server: ServerRank, to: Link, out: &mut Vec<Effect<T>>) {
        let Some(peer) = self.peers.get_mut(&server) else {
            return;
        };
        if let Some(connection) = peer.connection() {
            out.push(Effect::Close { connection });
        }
        if let Link::Pausing { until } = peer.link {
            self.dues.remove(&(until, Due::Retry(server)));
        }
        peer.link = to;
    }

    /// A connection is over.
    pub(super) fn disconnected(
        &mut self,
        now: Time,
        connection: ConnectionId,
        why: &str,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(server) = self.connections.remove(&connection) else {
            return;
        };
        let peer = self.peers.get(&server);
        if peer.is_some_and(|peer| peer.connection() == Some(connection)) {
            out.push(Effect::Observe(Event::Rejected { server, why: why.into() }));
            self.pause(now, server);
        }
        self.no_longer_written(connection, out);
    }
}
