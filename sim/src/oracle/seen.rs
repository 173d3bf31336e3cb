//! What oracles see.

use rondo_core::control::{Node, Record, Recovered};
use rondo_core::coordination;
use rondo_core::dispatcher::{Config, Reply, Request, TaskDef};
use rondo_core::ids::{CallId, IterationId, Lsn, TaskId};
use rondo_core::status::Status;
use rondo_core::time::Duration;

/// Who makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its number.
    pub actor: u32,
    /// Whether it keeps to the rules of workers and consumers.
    pub honest: bool,
    /// Whether it is a copy of a call that the caller has gone on from: sent again by the network,
    /// or overtaken by a later one.
    pub stale: bool,
}

/// Somebody who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Who.
    pub who: String,
    /// For what.
    pub what: String,
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
    /// A worker is told of a task.
    Pushed(&'a TaskDef),
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
    /// The node goes on after it stood still.
    Resumed {
        /// For so long.
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
    /// Processes of the node have these settings from the next one on.
    Configured(&'a Config),
    /// The node refused to start.
    StartRefused {
        /// What it said.
        reason: &'a str,
        /// Whether stored bytes were really damaged or lost.
        damaged: bool,
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
    /// Long after everything healed: who has still not got on, of those who should.
    HealedLongAgo {
        /// They.
        waiting: &'a [Waiting],
    },
    /// Long after everybody has gone: the node.
    GoneLongAgo(&'a Node),
}
