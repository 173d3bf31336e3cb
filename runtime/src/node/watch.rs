//! Being watched: a simulation sees what crosses the border of the node's machine.

use rondo_core::control::{Effect, Input, Node, Recovered};
use rondo_core::ids::CallId;
use rondo_core::time::Time;

/// Watches a node at work. Times are the node's own. Nothing here may wait.
pub trait Watch: Send + Sync + 'static {
    /// The state is back from the disk; a node begins with it.
    fn recovered(&self, now: Time, recovered: &Recovered);

    /// A call that came with this tag ([`crate::transport::Outgoing`]) goes to the node.
    fn submitted(&self, call: CallId, tag: u64);

    /// The machine is about to take an input.
    fn input(&self, now: Time, input: &Input);

    /// The machine wants something done, which is about to be done.
    fn effect(&self, now: Time, effect: &Effect);

    /// The machine has taken an input, and all is done that it wanted done at once.
    fn stepped(&self, now: Time, node: &Node);
}
