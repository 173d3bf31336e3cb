//! What is to happen in the world of the node.

use crate::fault::Fault;

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A message arrives.
    Letter(u32),
    /// An actor wished to be woken.
    Wake(u32),
    /// The node wished to be woken.
    Tick,
    /// A sync of the node's process of this life ends.
    Synced(u64),
    /// The snapshot of this life goes on.
    Compact(u64),
    /// The node's process of this life begins, or goes on to recover.
    Recover(u64),
    /// The node goes on after it stood still.
    ResumeNode,
    /// The node stands still, as it does again and again.
    Stall,
    /// An actor goes on after it stood still.
    Resume(u32),
    /// An actor's process is started again.
    Reborn(u32, bool),
    /// Time for a fault to strike, perhaps.
    Strike(Fault),
    /// A fault that struck is over; its place among those under way.
    Over(usize),
    /// Things have gone wrong long enough.
    End,
    /// Time to see whether all have got on.
    Check,
    /// Time to see which connections show no sign of life.
    Keepalive,
    /// Time to see whether a reader's connection to a worker still holds: the reader, its call.
    Probe(u32, u64),
    /// A relay wished to be woken.
    RelayTick(u32),
    /// Time for something to go wrong with a relay.
    RelayTrouble(u32),
    /// A relay's process begins.
    BeginRelay(u32),
    /// A relay that was to stop in its process of this life ends.
    EndRelay(u32, u32),
    /// A relay goes on after it stood still.
    ResumeRelay(u32),
    /// A relay has waited long enough to hear whether the node is there: its life, its connection.
    HelloLate(u32, u32, u64),
    /// A message that was lost on a relay's connection is sent again, for the so manyth time.
    CarryAgain(u32, u32),
}
