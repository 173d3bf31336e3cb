//! Messages under way.

use rondo_core::control::{Reply, Request};
use rondo_core::dispatcher::TaskDef;
use rondo_core::status::Status;

use super::relay::{Down, ToRelay, Up, Wire};
use crate::workload::{Carried, Read, ReadAnswer};

/// The node's place among the machines; actors follow.
pub(super) const NODE: u32 = 0;

/// An actor's call, as others know it: the actor, its life, and its own number for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallOf {
    pub(super) actor: u32,
    pub(super) life: u32,
    pub(super) token: u64,
}

/// What a message says.
#[derive(Clone, Debug)]
pub(super) enum Letter {
    /// To the node; and for which of its disks the caller spoke when it sent this.
    Request { of: CallOf, copy: bool, disk: u32, request: Request },
    /// To the node: nobody waits for this any more.
    Cancel(CallOf),
    /// From the node.
    Reply { of: CallOf, answer: Result<Reply, Status> },
    /// From the node to a worker.
    Push { actor: u32, task: TaskDef },
    /// From a consumer to a worker; `None` when it comes back unread.
    Ask { of: CallOf, worker: u32, read: Read },
    /// From a worker to a consumer; `None` when the worker cannot be reached.
    Tell { of: CallOf, answer: Option<ReadAnswer> },
    /// Between a reader by element and a worker, on the connection of this call.
    OfFetch { of: CallOf, what: Carried },
    /// From a task to its relay.
    ToRelay(ToRelay),
    /// From a relay to the node.
    ToNode(Wire, Up),
    /// From the node to a relay.
    FromNode(Wire, Down),
}

/// Messages under way, each at a place of its own.
#[derive(Debug, Default)]
pub(super) struct Letters {
    places: Vec<Option<(u32, u32, Letter)>>,
    free: Vec<u32>,
}

impl Letters {
    /// Keeps a message until it arrives.
    pub(super) fn put(&mut self, from: u32, to: u32, letter: Letter) -> u32 {
        if let Some(place) = self.free.pop()
            && let Some(vacant) = self.places.get_mut(place as usize)
        {
            *vacant = Some((from, to, letter));
            return place;
        }
        let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(Some((from, to, letter)));
        place
    }

    /// Takes a message out; `None` when it was lost on the way.
    pub(super) fn take(&mut self, place: u32) -> Option<(u32, u32, Letter)> {
        let taken = self.places.get_mut(place as usize)?.take();
        self.free.push(place);
        taken
    }

    /// Whether a call or its answer is under way.
    pub(super) fn carry(&self, call: CallOf) -> bool {
        self.places.iter().flatten().any(|(_, _, letter)| {
            matches!(letter, Letter::Request { of, .. } | Letter::Reply { of, .. } if *of == call)
        })
    }

    /// Loses all answers of the node, and says which way each went.
    pub(super) fn lose_replies(&mut self) -> Vec<(u32, u32)> {
        let replies = self.places.iter_mut().filter(|place| {
            place.as_ref().is_some_and(|(_, _, letter)| matches!(letter, Letter::Reply { .. }))
        });
        // As below.
        replies.filter_map(|place| place.take().map(|(from, to, _)| (from, to))).collect()
    }

    /// Loses all messages between two machines, and says which way each went.
    pub(super) fn lose_between(&mut self, one: u32, other: u32) -> Vec<(u32, u32)> {
        let mut lost = Vec::new();
        for place in &mut self.places {
            let between = place.as_ref().is_some_and(|(from, to, _)| {
                (*from, *to) == (one, other) || (*from, *to) == (other, one)
            });
            if between {
                // Its place is free again when its time comes.
                lost.extend(place.take().map(|(from, to, _)| (from, to)));
            }
        }
        lost
    }
}
