//! Calls on their way: what goes wrong at the caller's end of a connection.

use std::sync::Arc;
use std::time::Duration;

use rondo::transport::{Connection, Outgoing};
use rondo_core::dispatcher::{Reply, Request};
use rondo_core::status::{Code, Status};

use super::control::ADDRESS;
use super::decode::decode;
use super::encode::encode;
use super::read::{READ_PATH, decode_answer, encode_read};
use super::world::World;
use crate::fault::Fault;
use crate::workload::kind::Kind;
use crate::workload::{ActorId, Happening, Read};

/// What becomes of one call.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    refused: bool,
    hangs: bool,
    reply_lost: bool,
    /// A copy goes out so much later.
    copy_after: Option<Duration>,
    /// The connection breaks so much later.
    reset_after: Option<Duration>,
    /// The connection goes silent so much later.
    silent_after: Option<Duration>,
}

impl World {
    /// Sends an actor's request.
    pub(super) fn call(self: &Arc<Self>, id: ActorId, token: u64, request: Request) {
        let tag = self.book.sent(self.caller(id), &request);
        let way = self.way(id);
        let kind = Kind::of(&request);
        let (path, message) = encode(&request);
        let worker = match request {
            Request::GetSplit { asker: Some(asker), .. } => Some(asker.to_string()),
            _ => None,
        };
        let deadline = Duration::from_millis(self.swarm.net.patience_ms);
        let call = Outgoing { path, worker, tag, message, deadline };
        self.spoil(id, &way, &call);
        let world = self.clone();
        let task = tokio::spawn(async move {
            let answer = world.answer(id, way, kind, call).await;
            let told = if way.refused || way.hangs || way.reply_lost { None } else { Some(tag) };
            world.answered(id, token, (tag, told), kind, answer);
        });
        if let Some(player) = self.cast().player(id) {
            player.calls.insert(token, (tag, task.abort_handle()));
        }
    }

    /// Decides what goes wrong with a call.
    fn way(&self, id: ActorId) -> Way {
        let mut cast = self.cast();
        let calm = cast.is_calm();
        let Some(player) = cast.player(id).filter(|_| !calm) else {
            return Way::default();
        };
        let stream = &mut player.way;
        let mut strikes = |fault: Fault| {
            let struck = stream.chance(self.swarm.faults.strength(fault) / 8);
            if struck {
                self.book.fault(fault);
            }
            struck
        };
        let mut way = Way {
            refused: strikes(Fault::ConnectRefused),
            hangs: strikes(Fault::ConnectHang),
            reply_lost: strikes(Fault::ReplyLost),
            ..Way::default()
        };
        let (twice, late) = (strikes(Fault::Duplicate), strikes(Fault::LateReplay));
        let (breaks, silent) = (strikes(Fault::ConnectionReset), strikes(Fault::HalfOpen));
        let mut millis = |bound| Duration::from_millis(stream.below(bound));
        way.copy_after = twice.then(|| millis(10)).or_else(|| late.then(|| millis(20_000)));
        way.reset_after = breaks.then(|| millis(30));
        way.silent_after = silent.then(|| millis(30));
        way
    }

    /// Sends copies, and breaks connections.
    fn spoil(self: &Arc<Self>, id: ActorId, way: &Way, call: &Outgoing) {
        if let Some(after) = way.copy_after {
            let call = Outgoing { tag: self.book.copied(call.tag), ..call.clone() };
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                // On a connection of its own, as the first one may be gone.
                let _ = Connection::open(ADDRESS).call(call).await;
            });
        }
        for (after, silent) in [(way.reset_after, false), (way.silent_after, true)] {
            let Some(after) = after else {
                continue;
            };
            let world = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                let mut cast = world.cast();
                let connection = cast.player(id).and_then(|player| player.connections.get(ADDRESS));
                match connection {
                    Some(connection) if silent => connection.go_silent(),
                    Some(connection) => connection.reset(),
                    None => {}
                }
            });
        }
    }

    async fn answer(
        &self,
        id: ActorId,
        way: Way,
        kind: Kind,
        call: Outgoing,
    ) -> Result<Reply, Status> {
        let unavailable = |text: &str| Err(Status::new(Code::Unavailable, text));
        if way.refused {
            tokio::task::yield_now().await;
            return unavailable("connection refused");
        }
        if way.hangs {
            tokio::time::sleep(call.deadline).await;
            return unavailable("no connection");
        }
        let Some(connection) = self.connection(id, ADDRESS) else {
            return unavailable("gone");
        };
        let answer = connection.call(call).await;
        if way.reply_lost {
            return unavailable("the connection broke");
        }
        decode(kind, &answer?).map_err(|text| {
            self.book.broken("wire", format!("{kind}: {text}"));
            Status::new(Code::Internal, text)
        })
    }

    fn answered(
        self: &Arc<Self>,
        id: ActorId,
        token: u64,
        (tag, told): (u64, Option<u64>),
        kind: Kind,
        answer: Result<Reply, Status>,
    ) {
        if let Some(player) = self.cast().player(id) {
            player.calls.remove(&token);
        }
        match told {
            Some(tag) => self.book.told(tag, kind, &answer),
            None => self.book.over(tag),
        }
        // What a deadline ends is as good as never answered.
        let answer = answer.map_err(|status| match status.code {
            Code::DeadlineExceeded => Status { code: Code::Unavailable, ..status },
            _ => status,
        });
        self.happen(id, Happening::Answered { token, answer });
    }

    /// An actor's connection to an address.
    fn connection(&self, id: ActorId, address: &str) -> Option<Connection> {
        let mut cast = self.cast();
        let connections = &mut cast.player(id)?.connections;
        connections.retain(|_, connection| !connection.is_closed());
        let open = || Connection::open(address);
        Some(connections.entry(address.to_owned()).or_insert_with(open).clone())
    }

    /// Sends a consumer's question to a worker.
    pub(super) fn ask(self: &Arc<Self>, id: ActorId, address: &str, token: u64, read: Read) {
        let deadline = Duration::from_millis(self.swarm.net.patience_ms);
        let message = encode_read(id, token, &read);
        let call = Outgoing { path: READ_PATH, worker: None, tag: 0, message, deadline };
        let connection = self.connection(id, address);
        let world = self.clone();
        tokio::spawn(async move {
            let answer = match connection {
                Some(connection) => connection.call(call).await.ok(),
                None => None,
            };
            let answer = answer.map(|bytes| decode_answer(&bytes));
            world.happen(id, Happening::Told { token, answer });
        });
    }
}
