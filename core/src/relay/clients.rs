//! Who is connected, and which tasks are registered through this relay.

use alloc::collections::BTreeMap;

use super::types::{Asked, Task, Who};
use crate::ids::{ConnectionId, Incarnation, ServiceIncarnation, TaskIndex};

/// All clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    pub(super) clients: BTreeMap<ConnectionId, Client>,
    /// Tasks whose registration the server has confirmed, and not revoked since.
    pub(super) tasks: BTreeMap<Task, Seat>,
    /// The calls that have room of their clients' own.
    reserved: usize,
    /// The namespace's life when it was last heard of.
    life: Option<ServiceIncarnation>,
}

/// One connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// The calls that it has made and that have not ended.
    pub(super) load: Load,
    /// The task that registered on it, and in which life.
    pub(super) registered: Option<(TaskIndex, ServiceIncarnation)>,
    speaker: Speaker,
}

/// The calls of a client that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// How many.
    pub(super) calls: usize,
    /// How many of these register a task, say that it lives, or say that it leaves.
    pub(super) of_tasks: usize,
    /// How many register a task or say that it lives, and wait for an answer.
    pub(super) of_life: usize,
    /// How many are heartbeats that the relay has answered by itself.
    pub(super) stood_in: usize,
    /// The bytes of their messages.
    pub(super) bytes: u64,
}

impl Load {
    /// A call begins.
    fn add(&mut self, asked: &Asked) {
        self.calls = self.calls.saturating_add(1);
        self.of_tasks = self.of_tasks.saturating_add(usize::from(asked.kind.is_of_tasks()));
        self.of_life = self.of_life.saturating_add(usize::from(asked.kind.shows_life()));
        self.bytes = self.bytes.saturating_add(asked.message.len() as u64);
    }

    /// A call ends. `waits`: its client waits for the answer.
    fn take(&mut self, asked: &Asked, waits: bool) {
        let of_life = usize::from(asked.kind.shows_life());
        match waits {
            true => self.of_life = self.of_life.saturating_sub(of_life),
            false => self.stood_in = self.stood_in.saturating_sub(of_life),
        }
        self.calls = self.calls.saturating_sub(1);
        self.of_tasks = self.of_tasks.saturating_sub(usize::from(asked.kind.is_of_tasks()));
        self.bytes = self.bytes.saturating_sub(asked.message.len() as u64);
    }

    /// The relay has answered a heartbeat by itself.
    fn stand_in(&mut self) {
        self.of_life = self.of_life.saturating_sub(1);
        self.stood_in = self.stood_in.saturating_add(1);
    }

    /// How many calls have room of the client's own: one that shows that a task lives, and one heartbeat that
    /// the relay has answered by itself.
    pub(super) fn reserved(&self) -> usize {
        self.of_life.min(1).saturating_add(self.stood_in.min(1))
    }

    /// Calls that are not of tasks.
    pub(super) const fn others(&self) -> usize {
        self.calls.saturating_sub(self.of_tasks)
    }
}

/// The process whose registrations and heartbeats come on a connection.
#[derive(Clone, Debug, Default)]
enum Speaker {
    #[default]
    Unknown,
    One(TaskIndex, Incarnation),
    Several,
}

/// The process that sends a call, as far as the call's connection tells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Identity {
    /// The task that registered on the connection, or else the one that sends heartbeats on it.
    pub(super) task: Option<TaskIndex>,
    /// The life of the namespace in which the task registered.
    pub(super) life: Option<ServiceIncarnation>,
    /// The process of the task.
    pub(super) incarnation: Option<Incarnation>,
}

/// One registered task.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    incarnation: Incarnation,
    pub(super) client: ConnectionId,
}

impl Clients {
    /// Returns the identity of the process that sends calls on a connection.
    pub(super) fn identity(&self, client: ConnectionId) -> Identity {
        let Some(client) = self.clients.get(&client) else {
            return Identity::default();
        };
        let speaker = match client.speaker {
            Speaker::One(task, incarnation) => Some((task, incarnation)),
            Speaker::Unknown | Speaker::Several => None,
        };
        let registered = client.registered.map(|(task, _)| task);
        let task = registered.or(speaker.map(|(task, _)| task));
        let life = client.registered.map(|(_, life)| life);
        let incarnation = speaker.filter(|(of, _)| Some(*of) == task).map(|(_, it)| it);
        Identity { task, life, incarnation }
    }

    /// A registration or a heartbeat comes on a connection. The newest one of a task says which process
    /// of the task the connection belongs to.
    pub(super) fn hear(&mut self, at: ConnectionId, who: &Who) {
        if let Some(client) = self.clients.get_mut(&at) {
            client.speaker = match client.speaker {
                Speaker::One(task, _) if task != who.task.index => Speaker::Several,
                Speaker::Several => Speaker::Several,
                Speaker::One(..) | Speaker::Unknown => {
                    Speaker::One(who.task.index, who.incarnation)
                }
            };
        }
    }

    /// A call begins.
    pub(super) fn begin(&mut self, asked: &Asked) {
        self.clients.entry(asked.client).or_default();
        self.change(asked.client, |load| load.add(asked));
    }

    /// A call ends. `waits`: its client waits for the answer.
    pub(super) fn end(&mut self, asked: &Asked, waits: bool) {
        self.change(asked.client, |load| load.take(asked, waits));
    }

    /// The relay has answered a heartbeat by itself. The call goes on.
    pub(super) fn stand_in(&mut self, client: ConnectionId) {
        self.change(client, Load::stand_in);
    }

    /// Changes what is counted of the calls of a connection that is open.
    fn change(&mut self, client: ConnectionId, change: impl FnOnce(&mut Load)) {
        let Some(client) = self.clients.get_mut(&client) else {
            return;
        };
        let before = client.load.reserved();
        change(&mut client.load);
        let now = client.load.reserved();
        self.reserved = self.reserved.saturating_sub(before).saturating_add(now);
    }

    /// Returns how many calls have room of their clients' own. They need none among the others.
    pub(super) const fn reserved(&self) -> usize {
        self.reserved
    }

    /// Returns the calls of a connection that have not ended.
    pub(super) fn load_of(&self, client: ConnectionId) -> Load {
        self.clients.get(&client).map(|client| client.load).unwrap_or_default()
    }

    /// The life a task may be told of while nobody can be asked.
    pub(super) fn known(&self, who: &Who) -> Option<ServiceIncarnation> {
        let seat = self.tasks.get(&who.task)?;
        (seat.incarnation == who.incarnation).then_some(self.life)?
    }

    /// The server has confirmed a registration. A client that has gone since does not count.
    pub(super) fn register(&mut self, at: ConnectionId, who: &Who, life: ServiceIncarnation) {
        if let Some(client) = self.clients.get_mut(&at) {
            client.registered = Some((who.task.index, life));
            let seat = Seat { incarnation: who.incarnation, client: at };
            self.tasks.insert(who.task.clone(), seat);
        }
    }

    /// The server says which life it is; of tasks of another one nothing is known any more.
    /// Returns the one before, if it was another one.
    pub(super) fn hear_life(&mut self, life: ServiceIncarnation) -> Option<ServiceIncarnation> {
        let before = self.life.replace(life).filter(|before| *before != life)?;
        self.tasks.clear();
        Some(before)
    }

    /// The server does not count this run of a task as registered.
    pub(super) fn forget_run(&mut self, who: &Who) {
        let same = |seat: &Seat| seat.incarnation == who.incarnation;
        if self.tasks.get(&who.task).is_some_and(same) {
            self.tasks.remove(&who.task);
        }
    }

    /// A process of a task has left. Another process that took its place meanwhile stays.
    pub(super) fn forget(&mut self, task: &Task, run: Option<Incarnation>) {
        let is_other = |seat: &Seat| run.is_some_and(|run| run != seat.incarnation);
        if !self.tasks.get(task).is_some_and(is_other) {
            self.tasks.remove(task);
        }
    }

    /// The process of a task that registered on a connection leaves. One that took its place on another
    /// connection stays.
    pub(super) fn leave(&mut self, task: &Task, at: ConnectionId) {
        if self.tasks.get(task).is_some_and(|seat| seat.client == at) {
            self.tasks.remove(task);
        }
    }

    /// A connection is closed.
    pub(super) fn close(&mut self, at: ConnectionId) {
        let left = self.clients.remove(&at);
        let reserved = left.map_or(0, |client| client.load.reserved());
        self.reserved = self.reserved.saturating_sub(reserved);
        self.tasks.retain(|_, seat| seat.client != at);
    }
}
