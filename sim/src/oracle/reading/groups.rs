//! Groups of readers: splits are dealt out among one number of readers at a time. A reader of a group of
//! another size is refused for good only by one of the other size that holds splits and lives: one that was
//! heard since the reader joined.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::dispatcher::{HoldSplits, Request};
use rondo_core::ids::ClientId;
use rondo_core::status::{Code, Status};

use super::super::{Shadow, Verdict};
use crate::checks::{Check, reached};

#[derive(Default)]
pub(super) struct Groups {
    /// Calls taken so far.
    count: u64,
    joined: BTreeMap<ClientId, u64>,
    /// When each client was heard last by this process of the node.
    heard: BTreeMap<ClientId, u64>,
    /// Among how many each client took splits last, as the records say.
    sizes: BTreeMap<ClientId, u32>,
    /// Clients in whose iteration one that lives held splits when they asked for some. The answer may come
    /// after that one has left.
    met: BTreeSet<ClientId>,
    /// Who was refused for good, and rightly.
    refused: BTreeSet<ClientId>,
}

impl Groups {
    pub(super) fn taken(&mut self, request: &Request, shadow: &Shadow) {
        self.count = self.count.saturating_add(1);
        let client = match request {
            Request::HoldSplits(holds) => holds.client,
            Request::ClientHeartbeat(heartbeat) => heartbeat.client,
            _ => return,
        };
        self.heard.insert(client, self.count);
        if matches!(request, Request::HoldSplits(_)) && self.meets_a_holder(client, shadow) {
            self.met.insert(client);
        }
    }

    /// Whether somebody who lives holds splits of a client's iteration.
    fn meets_a_holder(&self, client: ClientId, shadow: &Shadow) -> bool {
        let joined = self.joined.get(&client).copied().unwrap_or(0);
        let lives = |id: &ClientId| {
            *id == client || self.heard.get(id).is_some_and(|heard| *heard > joined)
        };
        holders(client, shadow).any(|id| lives(&id))
    }

    pub(super) fn joined(&mut self, client: ClientId) {
        self.joined.insert(client, self.count);
        self.heard.remove(&client);
        self.sizes.remove(&client);
        self.met.remove(&client);
        self.refused.remove(&client);
    }

    /// A client takes splits that are dealt out among so many.
    pub(super) fn takes(&mut self, client: ClientId, size: u32, shadow: &Shadow) -> Verdict {
        self.sizes.insert(client, size);
        let mut others = holders(client, shadow).filter(|other| *other != client);
        let of_other = |id: &ClientId| self.sizes.get(id).is_some_and(|other| *other != size);
        match others.find(of_other) {
            None => Ok(()),
            Some(other) => Err(format!(
                "client {client} takes splits that are dealt out among {size}, and client {other} holds \
                 some of {:?}",
                self.sizes.get(&other)
            )),
        }
    }

    /// A client is refused.
    pub(super) fn refused(&mut self, asked: &HoldSplits, why: &Status) -> Verdict {
        if why.code != Code::InvalidArgument || !why.message.contains("group_size") {
            return Ok(());
        }
        let client = asked.client;
        reached(Check::ReadingOtherGroup);
        if !self.met.contains(&client) {
            return Err(format!("client {client} was told {why}, and nobody holds any who lives"));
        }
        self.refused.insert(client);
        Ok(())
    }

    /// Whether a client may end so.
    pub(super) fn may_end(&self, client: Option<ClientId>, status: &Status) -> bool {
        status.code == Code::InvalidArgument
            && client.is_some_and(|client| self.refused.contains(&client))
    }

    /// Another process of the node has heard nobody.
    pub(super) fn recovered(&mut self) {
        self.heard.clear();
        self.met.clear();
    }
}

/// Those of a client's iteration who hold splits.
fn holders(client: ClientId, shadow: &Shadow) -> impl Iterator<Item = ClientId> + '_ {
    let clients = shadow.state().clients();
    let of = clients.get(&client).map(|client| client.iteration);
    let held = clients.values().filter(move |it| Some(it.iteration) == of && !it.splits.is_empty());
    held.map(|it| it.id)
}
