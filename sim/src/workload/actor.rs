//! What an actor is told, and what it does.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::coordination;
use rondo_core::dispatcher::{Reply, Request, TaskDef};
use rondo_core::ids::{CallId, ClientId, ConnectionId, IterationId, TaskId};
use rondo_core::status::Status;
use rondo_core::time::Time;

use super::agents::OfAgent;
use super::elements::OfElements;
use super::known::Known;
use crate::mark::Tally;
use crate::rng::Stream;
use crate::swarm::Swarm;

/// An actor's place among all of them, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActorId(pub u32);

impl ActorId {
    /// The connection on which the actor calls a worker: it has one to each.
    pub(super) fn connection(self) -> ConnectionId {
        ConnectionId::new(u64::from(self.0))
    }
}

/// What an actor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A worker.
    Worker,
    /// A consumer that keeps to the rules.
    Consumer,
    /// A client that does not.
    Rogue,
    /// A reader of records by split.
    Reader,
    /// Somebody at the command line.
    Operator,
    /// A process of a job that the coordination service holds together.
    Task,
}

/// What a consumer asks of a worker: an element of a task in a round, or records of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The task.
    pub task: TaskId,
    /// The consumer's index.
    pub consumer: i64,
    /// The round.
    pub round: i64,
    /// The records of a split, if those are wanted.
    pub split: Option<WantedRecords>,
}

/// Records that a reader wants of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedRecords {
    /// The split.
    pub split: i64,
    /// Records to pass over.
    pub skip: u64,
}

/// What a worker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAnswer {
    /// An element.
    Element,
    /// It does not have the task (yet).
    NoTask,
    /// Successive records of a split.
    Records {
        /// The place of the first of them in the split.
        first: u64,
        /// How many.
        count: u64,
        /// Whether the split ends behind them.
        last: bool,
    },
}

/// What happens to an actor.
#[derive(Clone, Debug)]
pub enum Happening {
    /// Its process begins, or the time has come that it wished for, or an earlier one.
    Wake,
    /// The dispatcher answered a call, or it is certain that no answer comes (UNAVAILABLE).
    Answered {
        /// The call.
        token: u64,
        /// The answer.
        answer: Result<Reply, Status>,
    },
    /// The coordination service answered a call, or it is certain that no answer comes.
    Coordinated {
        /// The call.
        token: u64,
        /// The answer.
        answer: Result<coordination::Reply, Status>,
    },
    /// The dispatcher tells a worker of a task.
    Pushed(TaskDef),
    /// A consumer asks a worker.
    Asked {
        /// Who asks.
        from: ActorId,
        /// Its call.
        token: u64,
        /// For what.
        read: Read,
    },
    /// A worker answered a consumer; `None` when it cannot be reached.
    Told {
        /// The consumer's call.
        token: u64,
        /// The answer.
        answer: Option<ReadAnswer>,
    },
    /// Something comes over a connection between a reader by element and a worker.
    Element(Carried),
    /// Its process is another one from here on; at another address with `fresh`.
    Reborn {
        /// Whether the address is another one.
        fresh: bool,
    },
}

/// What comes over a connection between a reader by element and a worker.
#[derive(Clone, Debug)]
pub enum Carried {
    /// A reader asks a worker for an element (`GetElement`).
    Requested {
        /// Who asks.
        from: ActorId,
        /// Its call.
        token: u64,
        /// The encoded request.
        message: Bytes,
    },
    /// A reader does not wait for an element any more, or its connection is broken.
    Withdrawn {
        /// Who asked.
        from: ActorId,
        /// Its call.
        token: u64,
    },
    /// A worker answered a reader, or cannot be reached.
    Fetched {
        /// The reader's call.
        token: u64,
        /// The encoded answer.
        answer: Result<Bytes, Status>,
    },
}

/// What an actor does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Asks the dispatcher.
    Call {
        /// The actor's own number for the call.
        token: u64,
        /// What it asks.
        request: Request,
    },
    /// Asks the coordination service.
    Coordinate {
        /// The actor's own number for the call.
        token: u64,
        /// What it asks.
        call: Box<coordination::Call>,
    },
    /// Waits no longer for an answer of the node.
    GiveUp {
        /// The call.
        token: u64,
    },
    /// Its process ends, and its connections with it.
    End,
    /// Asks a worker.
    Ask {
        /// The worker's address.
        address: Arc<str>,
        /// The actor's own number for the call.
        token: u64,
        /// For what.
        read: Read,
    },
    /// Answers a consumer.
    Tell {
        /// Who asked.
        to: ActorId,
        /// Its call.
        token: u64,
        /// The answer.
        answer: ReadAnswer,
    },
    /// Asks a worker for an element (`GetElement`), as long as the connection holds.
    Fetch {
        /// The worker's address.
        address: Arc<str>,
        /// The actor's own number for the call.
        token: u64,
        /// The encoded request.
        message: Bytes,
    },
    /// Waits no longer for an element.
    Withdraw {
        /// The call.
        token: u64,
    },
    /// Answers whoever asked for an element.
    Serve {
        /// Who asked.
        to: ActorId,
        /// Its call.
        token: u64,
        /// The encoded answer.
        answer: Result<Bytes, Status>,
    },
    /// Something happens to elements (for the oracles).
    Elements(OfElements),
    /// Something happens to an agent (for the oracles).
    Agent(OfAgent),
    /// An invariant of a machine does not hold (for the oracles).
    Violated(String),
    /// Hands records to its application (for the oracles).
    Delivered(Delivered),
    /// Something happens between a reader and its application; by which number the dispatcher knows the
    /// reader (for the oracles).
    Reads(ClientId, OfReader),
    /// Has nothing more to hand on: all was read, or the reader was refused (for the oracles).
    ReadEnded {
        /// By which number the dispatcher knows it, if it does.
        client: Option<ClientId>,
        /// Which of the two.
        result: Result<(), Status>,
    },
    /// Has read a round to its end (for the oracles).
    RoundRead {
        /// The iteration.
        iteration: IterationId,
        /// The consumer's index.
        consumer: i64,
        /// The round.
        round: i64,
        /// The tasks it read, in order.
        tasks: Vec<TaskId>,
    },
}

/// What the application of a reader of records does and is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfReader {
    /// It is through with a split's records up to there.
    Consumed {
        /// The split's place.
        place: u64,
        /// Records of the split, from its beginning.
        records: u64,
    },
    /// What it has consumed so far is to be acknowledged.
    Flushing(CallId),
    /// It is told that this is done.
    Flushed(CallId),
    /// Its reader has left, and the dispatcher knows what was consumed last, and that it has left; or not.
    Left(bool),
}

/// Records that a reader hands to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The reader.
    pub client: ClientId,
    /// The split's place.
    pub place: u64,
    /// The place of the first of the records in the split.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// What an actor has at hand when something happens.
#[derive(Debug)]
pub struct With<'a> {
    /// The run's configuration.
    pub swarm: &'a Swarm,
    /// The actor's decisions.
    pub stream: &'a mut Stream,
    /// What everybody was told so far.
    pub known: &'a mut Known,
    /// Counts faults and marks.
    pub tally: &'a mut Tally,
    /// Takes what the actor does.
    pub acts: &'a mut Vec<Act>,
    /// Whether things have stopped going wrong.
    pub calm: bool,
}

/// An actor.
pub trait Actor {
    /// What it is.
    fn role(&self) -> Role;
    /// Something happens; `now` is its own clock's time.
    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>);
    /// When it wants to be woken, by its own clock.
    fn wake_at(&self) -> Time;
    /// Whether it reads elements that workers make.
    fn reads_by_element(&self) -> bool {
        false
    }
    /// When it last got on: a heartbeat answered, an iteration read, a round finished. Nobody minds
    /// how those do who disturb or look after the others.
    fn got_on_at(&self) -> Time {
        Time::NEVER
    }
    /// What it waits for, for people.
    fn state(&self) -> String;
    /// The job whose tasks can only get on together, if it is one of them.
    fn job(&self) -> Option<u32> {
        None
    }
    /// The relay that it talks to in the node's place, by number.
    fn relay(&self) -> Option<u32> {
        None
    }
    /// What its sudden end would be for elements, if it has to do with them.
    fn lost(&self) -> Option<OfElements> {
        None
    }
    /// The address where others reach it, if it serves.
    fn address(&self) -> Option<Arc<str>> {
        None
    }
}
