//! Which tasks the server has confirmed through a relay, as its answers tell.

use std::collections::BTreeMap;

use bytes::Bytes;
use rondo_core::ids::{ConnectionId, Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::relay::{Kind, Refused, Task, Who};
use rondo_core::status::Code;
use rondo_core::time::Time;

/// Tasks and the connections they registered on.
#[derive(Debug)]
pub(super) struct Seats {
    life: Option<ServiceIncarnation>,
    /// Open connections, with the task that registered on each and its life.
    clients: BTreeMap<ConnectionId, Option<(TaskIndex, ServiceIncarnation)>>,
    /// The connection of the newest call, if that is its first one.
    newest: Option<ConnectionId>,
    /// The newest incarnation that each task said in a registration or a heartbeat, by connection.
    said: BTreeMap<ConnectionId, BTreeMap<TaskIndex, Incarnation>>,
    /// The same of the newest call's connection, before that call.
    said_before: BTreeMap<TaskIndex, Incarnation>,
    /// By task: its run, its connection, and since when it is known.
    tasks: BTreeMap<Task, (Incarnation, ConnectionId, Time)>,
}

impl Seats {
    pub(super) const fn new() -> Self {
        Self {
            life: None,
            clients: BTreeMap::new(),
            newest: None,
            said: BTreeMap::new(),
            said_before: BTreeMap::new(),
            tasks: BTreeMap::new(),
        }
    }

    pub(super) fn came(&mut self, client: ConnectionId, kind: &Kind) {
        self.newest = (!self.clients.contains_key(&client)).then_some(client);
        self.clients.entry(client).or_default();
        if let Kind::Register(who) | Kind::Heartbeat(who) = kind {
            let said = self.said.entry(client).or_default();
            self.said_before = said.clone();
            said.insert(who.task.index, who.incarnation);
        }
    }

    /// The relay has no room for the call that has just come: what it says counts for nothing.
    pub(super) fn refused(&mut self, client: ConnectionId, kind: &Kind) {
        if self.newest.take_if(|newest| *newest == client).is_some() {
            self.clients.remove(&client);
        }
        if matches!(kind, Kind::Register(_) | Kind::Heartbeat(_)) {
            self.said.insert(client, std::mem::take(&mut self.said_before));
        }
    }

    /// How many connections are open that have called.
    pub(super) fn count(&self) -> usize {
        self.clients.len()
    }

    /// Whether the relay has taken a call of this connection, and the client has not closed it.
    pub(super) fn is_open(&self, client: ConnectionId) -> bool {
        self.clients.contains_key(&client)
    }

    /// Whether the newest call is the first of its connection that the relay may take.
    pub(super) fn is_new(&self, client: ConnectionId) -> bool {
        self.newest == Some(client)
    }

    pub(super) fn closed(&mut self, client: ConnectionId) {
        self.clients.remove(&client);
        self.said.remove(&client);
        self.tasks.retain(|_, (_, of, _)| *of != client);
    }

    /// The task of a connection, the task's process, and the life in which it registered.
    pub(super) fn identity(
        &self,
        client: ConnectionId,
    ) -> (Option<TaskIndex>, Option<Incarnation>, Option<ServiceIncarnation>) {
        let registered = self.clients.get(&client).copied().flatten();
        let said = self.said.get(&client).filter(|said| said.len() == 1);
        let only = said.and_then(|said| said.first_key_value());
        let task = registered.map_or_else(|| only.map(|(task, _)| *task), |(task, _)| Some(task));
        let process = only.filter(|(said, _)| Some(**said) == task).map(|(_, process)| *process);
        (task, process, registered.map(|(_, life)| life))
    }

    /// The life that a run of a task may be told of, and since when.
    pub(super) fn known(&self, who: &Who) -> Option<(ServiceIncarnation, Time)> {
        let (incarnation, _, since) = self.tasks.get(&who.task)?;
        (*incarnation == who.incarnation).then_some((self.life?, *since))
    }

    /// The server has answered a call that came on a connection, as of this process if that was known.
    pub(super) fn heard(
        &mut self,
        at: Time,
        (client, process): (ConnectionId, Option<Incarnation>),
        kind: &Kind,
        result: &Result<Bytes, Refused>,
        life: Option<ServiceIncarnation>,
    ) {
        if let (Ok(_), Some(life)) = (result, life)
            && self.life.replace(life).is_some_and(|before| before != life)
        {
            self.tasks.clear();
        }
        match (kind, result, life) {
            (Kind::Register(who), Ok(_), Some(life)) => {
                if let Some(registered) = self.clients.get_mut(&client) {
                    *registered = Some((who.task.index, life));
                    self.tasks.insert(who.task.clone(), (who.incarnation, client, at));
                }
            }
            (Kind::Heartbeat(who), Err(refused), _) if refused.code != Code::Unavailable => {
                let same = self.tasks.get(&who.task).is_some_and(|of| of.0 == who.incarnation);
                if same {
                    self.tasks.remove(&who.task);
                }
            }
            // It says nothing of another process that has registered since.
            (Kind::Shutdown(task), Ok(_), _) => {
                let seat = self.tasks.get(task);
                if seat.is_some_and(|seat| process.is_none_or(|process| process == seat.0)) {
                    self.tasks.remove(task);
                }
            }
            // Nor of one that registered on another connection.
            (Kind::Shutdown(task), Err(_), _)
                if self.tasks.get(task).is_some_and(|seat| seat.1 == client) =>
            {
                self.tasks.remove(task);
            }
            _ => {}
        }
    }
}
