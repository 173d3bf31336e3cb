//! What is to happen, and messages under way.

use ::bytes::Bytes;
use rondo_core::ids::CallId;
use rondo_core::rendezvous::Key;
use rondo_core::status::Status;

use super::ending::Settling;
use crate::letters::End;

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A worker's machine, in its process of this life, wished to be woken.
    Tick(u32, u32),
    /// A step begins.
    NextStep,
    /// Somebody does something.
    Act(u32),
    /// A message arrives.
    Letter(u32),
    /// A worker that stood still reads a message.
    Read(u32),
    /// An end of a connection notices that it is broken.
    Breaks(u64, End),
    /// A worker, in its process of this life, tells another one which answers it has.
    Finish(u32, u32, u32),
    /// Time for something to go wrong with a worker.
    Trouble(u32),
    /// The way from one worker to another is there again.
    Mend(u32, u32),
    /// A worker's process begins.
    Reborn(u32),
    /// A worker goes on after it stood still.
    Resume(u32),
    /// Things have gone wrong long enough.
    End,
    /// All has settled so far.
    Settled(Settling),
}

/// A message under way.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) what: What,
    /// Whether the network has made it of another one.
    pub(super) is_copy: bool,
}

/// What a message says.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// A request for a tensor, the first on its connection.
    Ask { connection: u64, message: Bytes },
    /// Nobody waits for the answer any more.
    Withdraw { connection: u64 },
    /// An answer, or a piece of it.
    Answer { connection: u64, message: Bytes },
    /// Why there is none.
    Refuse { connection: u64, status: Status },
    /// Answers that a client has: the method's path, the request.
    Finished { path: &'static str, message: Bytes },
    /// Which devices are there?
    AskStatus { message: Bytes },
    /// These are.
    TellStatus { message: Bytes },
}

/// Who asked for something at a worker's machine.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// Somebody who sends the tensor of an edge, for the so manyth time.
    Send { plan: u32, edge: u32, tries: u32 },
    /// Somebody who wants the tensor of an edge.
    Receive { plan: u32, edge: u32, tries: u32, is_local: bool, key: Key },
    /// Another worker.
    Serve { connection: u64 },
}

/// What somebody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Find { plan: u32, worker: u32 },
    Initialize { plan: u32, worker: u32 },
    Send { plan: u32, edge: u32, tries: u32 },
    Receive { plan: u32, edge: u32, tries: u32, is_local: bool },
    Cancel { worker: u32, life: u32, call: CallId },
    Abort { plan: u32, worker: u32 },
    Cleanup { plan: u32, worker: u32 },
}
