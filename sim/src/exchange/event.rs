//! What is to happen, and what is under way.

use ::bytes::Bytes;
use rondo_core::ids::CallId;

use super::ending::Settling;
use crate::letters::End;

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A machine of a process, in this life of it, wished to be woken.
    Tick(u32, u32),
    /// The application of a process, in this life of it, does something.
    Act(u32, u32),
    /// A call of a process, in this life of it, is given up.
    GiveUp(u32, u32, CallId),
    /// Something arrives.
    Letter(u32),
    /// A frame arrives once more on a connection at this end.
    Again(u64, End, u32),
    /// An end of a connection notices that it is broken.
    Breaks(u64, End),
    /// Time for something to go wrong with a process.
    Trouble(u32),
    /// The way from one process to another is there again.
    Mend(u32, u32),
    /// A process begins.
    Reborn(u32),
    /// A process goes on after it stood still.
    Resume(u32),
    /// Things have gone wrong long enough.
    End,
    /// All has settled so far.
    Settled(Settling),
}

/// Something under way on a connection.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) link: u64,
    /// The end at which it arrives.
    pub(super) to: End,
    pub(super) what: What,
}

/// What is under way.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Somebody connects.
    Open,
    /// The connection is there.
    Opened,
    /// Bytes of frames.
    Data(Bytes),
    /// There is nobody, or nothing more comes.
    Fin,
}
