//! What oracles see.

use rondo_core::control::{Node, Record, Recovered};
use rondo_core::coordination;
use rondo_core::dispatcher::{Config, Reply, Request, TaskDef};
use rondo_core::ids::{CallId, ClientId, IterationId, Lsn, TaskId};
use rondo_core::memory::Memory;
use rondo_core::relay;
use rondo_core::status::Status;
use rondo_core::time::{Duration, Time};

use crate::workload::agents::OfAgent;
use crate::workload::elements::OfElements;
use crate::workload::{Delivered, OfReader};

/// Who makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its number.
    pub actor: u32,
    /// Which of its processes made the call.
    pub life: u32,
    /// Whether it keeps to the rules of workers and consumers.
    pub honest: bool,
    /// Whether it is a copy of a call that the caller has gone on from: sent again by the network,
    /// or overtaken by a later one.
    pub stale: bool,
    /// The relay that brings it, by number.
    pub relay: Option<u32>,
}

/// Somebody who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Who.
    pub who: String,
    /// For what.
    pub what: String,
}

/// Something that happened to a relay.
#[derive(Clone, Copy, Debug)]
pub enum Relayed<'a> {
    /// Its process begins, with these settings.
    Began(&'a relay::Config),
    /// It takes an input.
    Took(&'a relay::Input),
    /// It has an effect, which is carried out now.
    Did(&'a relay::Effect),
    /// It, between two steps.
    Looked(&'a relay::Relay),
    /// Long after everybody has gone: it.
    Quiet(&'a relay::Relay),
    /// Its process stands still, and takes no input until it is resumed.
    Paused,
    /// Its process goes on.
    Resumed,
    /// Its process is gone, and with it the connections of its clients.
    Died,
}

/// Something that happened at the node's border, or on its disk.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// The node took a call.
    Taken {
        /// The call.
        call: CallId,
        /// Whose.
        by: Caller,
        /// What it asks.
        request: &'a Request,
    },
    /// The node wrote a record, which is not durable yet.
    Recorded {
        /// Its position.
        lsn: Lsn,
        /// The record.
        record: &'a Record,
        /// The call that it was written for; none for what time brings.
        during: Option<CallId>,
    },
    /// The disk has said that everything up to here is durable.
    Durable(Lsn),
    /// An answer left the node.
    Answered {
        /// The call.
        call: CallId,
        /// The answer.
        answer: &'a Result<Reply, Status>,
        /// How far the disk has said that the journal is durable.
        durable: Lsn,
    },
    /// The node took a call to the coordination service.
    Asked {
        /// The call.
        call: CallId,
        /// Whose.
        by: Caller,
        /// What it asks.
        asked: &'a coordination::Call,
    },
    /// An answer of the coordination service left the node.
    Told {
        /// The call.
        call: CallId,
        /// The answer.
        answer: &'a Result<coordination::Reply, Status>,
        /// How far the disk has said that the journal is durable.
        durable: Lsn,
    },
    /// A task calls the coordination service through its relay.
    Passed {
        /// The call, under the relay's number.
        call: CallId,
        /// What it asks.
        asked: &'a coordination::Call,
    },
    /// A task has its relay's answer, or knows that none comes (UNAVAILABLE).
    PassedBack {
        /// The call.
        call: CallId,
        /// The answer.
        answer: &'a Result<coordination::Reply, Status>,
    },
    /// A task does not wait for its relay's answer any more.
    PassedGone {
        /// The call.
        call: CallId,
    },
    /// A call through a relay for whose answer nobody waits happens no more.
    PassedOver {
        /// The call.
        call: CallId,
    },
    /// Something happened to a relay.
    Relay {
        /// The relay.
        relay: u32,
        /// By its own clock.
        at: Time,
        /// What.
        what: Relayed<'a>,
    },
    /// A call to the dispatcher was refused at once, and the dispatcher was looked at before and after.
    Refused {
        /// The call.
        call: CallId,
        /// Whether anything in it is another.
        changed: bool,
    },
    /// A worker is told of a task.
    Pushed(&'a TaskDef),
    /// An actor's process is gone.
    ProcessGone {
        /// The actor.
        actor: u32,
    },
    /// The caller waits no longer, and the node has been told.
    GivenUp {
        /// The call.
        call: CallId,
    },
    /// The node stopped by itself.
    Halted {
        /// Why.
        reason: &'a str,
        /// Whether the disk had failed.
        disk_failed: bool,
    },
    /// The node stands still from here on.
    StandsStill,
    /// The node goes on after it stood still.
    Resumed {
        /// For so long, as its own clock shows it.
        stood: Duration,
    },
    /// The node's process is gone; calls under way are never answered.
    Died,
    /// A process of the node has its state back and begins to serve.
    Recovered {
        /// The state.
        state: &'a Recovered,
        /// Whether the disk has broken its word, so that acknowledged records may be gone.
        disk_lied: bool,
    },
    /// A process of the node has begun to serve although the note of acknowledged records names some that
    /// the journal does not have.
    NoteIgnored,
    /// Processes of the node have these settings from the next one on.
    Configured(&'a Config),
    /// The node's process serves with these settings of the coordination service.
    Coordinates(&'a coordination::Config),
    /// The node refused to start.
    StartRefused {
        /// What it said.
        reason: &'a str,
        /// Whether stored bytes were really damaged or lost.
        damaged: bool,
    },
    /// The node has done a step, and its work was counted.
    Worked {
        /// Blocks of instructions that ran.
        blocks: u64,
        /// The length of the descriptions of what it took and of its effects, in characters.
        characters: u64,
        /// The node behind the step.
        node: &'a Node,
    },
    /// The node, looked at between two steps.
    Looked(&'a Node),
    /// What the stored bytes give, with everything written and nothing damaged.
    Reread(&'a Result<Recovered, String>),
    /// A consumer has read a round to its end.
    RoundRead {
        /// Who.
        actor: u32,
        /// The iteration.
        iteration: IterationId,
        /// The consumer's index.
        consumer: i64,
        /// The round.
        round: i64,
        /// What it read, in order.
        tasks: &'a [TaskId],
    },
    /// Something happens to an agent.
    Agent {
        /// Whose.
        actor: u32,
        /// By its machine's clock.
        at: Time,
        /// What.
        what: &'a OfAgent,
    },
    /// Something happens to elements.
    Elements(&'a OfElements),
    /// An invariant of an actor's machine does not hold.
    Violated(&'a str),
    /// A reader hands records to its application.
    Delivered(&'a Delivered),
    /// Something happens between a reader of records and its application.
    Reads {
        /// By which number the dispatcher knows the reader.
        client: ClientId,
        /// What.
        what: &'a OfReader,
    },
    /// A reader has nothing more to hand on.
    ReadEnded {
        /// By which number the dispatcher knows it, if it does.
        client: Option<ClientId>,
        /// Whether all was read, or why not.
        result: &'a Result<(), Status>,
    },
    /// Things have stopped going wrong: who has not got on since, of those who read together in rounds.
    Healing {
        /// They.
        in_rounds: &'a [Waiting],
        /// For so long.
        since: Duration,
    },
    /// Long after everything healed: who has still not got on, of those who should.
    HealedLongAgo {
        /// They.
        waiting: &'a [Waiting],
    },
    /// Long after everybody has gone: the node.
    GoneLongAgo(&'a Node),
    /// The node was told how much memory its process has left.
    MemoryLeft(&'a Memory),
}
