//! One key's history of calls, and whether it is linearizable: Wing and Gong's search with memory of
//! visited states, tried only when the order in which calls were answered does not explain it.

use std::collections::BTreeSet;

use bytes::Bytes;
use rondo_core::coordination::Condition;
use rondo_core::ids::TaskIndex;

use crate::checks::{Check, reached};

/// A search that goes on for longer decides nothing.
const STEPS_MAX: u32 = 50_000;

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Held {
    value: Bytes,
    lease: Option<TaskIndex>,
    /// As far as anybody was told.
    revision: Option<u64>,
}

/// A key's state; nothing if it is not there.
pub(super) type State = Option<Held>;

/// What a call does to the key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    Put { value: Bytes, condition: Condition, lease: Option<TaskIndex> },
    Increment(i64),
    Delete,
    EndLease(TaskIndex),
    Read,
}

/// What the caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Put, with this revision.
    Put(u64),
    /// The value, with its revision: read, or made by an increment.
    Value(Bytes, u64),
    /// Done, whatever there was.
    Done,
    /// Refused: the key is there.
    Exists,
    /// Refused: the key is not there.
    Absent,
    /// Refused: its revision or its value is another.
    Unfit,
    /// Refused for what has nothing to do with the key.
    Refused,
}

/// A call.
#[derive(Clone, Debug)]
struct Op {
    what: What,
    invoked: u64,
    /// When it was answered, or when it can have happened no more.
    until: Option<u64>,
    came: Option<Came>,
    /// Whether the present state has it in it.
    applied: bool,
    /// Whether it may yet happen when the node's process has gone.
    endures: bool,
}

/// A key's history in one life of its namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    ops: Vec<Op>,
    /// The state after what was answered so far, in one order that explains all answers.
    state: State,
    /// Something about it cannot be known.
    unclear: bool,
}

/// What a search came to.
enum Found {
    /// An order that explains everything, with the state and the calls it ends with.
    Order(State, Vec<bool>),
    Nothing,
    TooLong,
}

impl Op {
    /// Whether it was answered, and changes nothing whenever it happens.
    fn only_looks(&self) -> bool {
        let is_refused =
            |came: &Came| matches!(came, Came::Exists | Came::Absent | Came::Unfit | Came::Refused);
        self.came.as_ref().is_some_and(|came| self.what == What::Read || is_refused(came))
    }
}

impl History {
    /// A call begins; its place.
    pub(super) fn invoke(&mut self, at: u64, what: What) -> usize {
        self.ops.push(Op {
            what,
            invoked: at,
            until: None,
            came: None,
            applied: false,
            endures: false,
        });
        self.ops.len().saturating_sub(1)
    }

    /// The call is made for as long as it takes, whatever becomes of the node's process.
    pub(super) fn endure(&mut self, place: usize) {
        if let Some(op) = self.ops.get_mut(place) {
            op.endures = true;
        }
    }

    /// What a call was told, if it was.
    pub(super) fn came(&self, place: usize) -> Option<&Came> {
        self.ops.get(place).and_then(|op| op.came.as_ref())
    }

    /// A call that was lost is made again: it may yet happen.
    pub(super) fn revive(&mut self, place: usize) {
        if let Some(op) = self.ops.get_mut(place) {
            op.until = None;
        }
    }

    /// The process has gone: what it has not answered happened before, or never.
    pub(super) fn lose(&mut self, at: u64) {
        for op in self.ops.iter_mut().filter(|op| op.until.is_none() && !op.endures) {
            op.until = Some(at);
        }
    }

    /// A call happened by now, or never.
    pub(super) fn close(&mut self, at: u64, place: usize) {
        if let Some(op) = self.ops.get_mut(place) {
            op.until = Some(at);
        }
    }

    /// The same call, sent once more; its place.
    pub(super) fn repeat(&mut self, place: usize) -> usize {
        match self.ops.get(place).map(|op| (op.invoked, op.what.clone())) {
            Some((invoked, what)) => self.invoke(invoked, what),
            None => self.ops.len(),
        }
    }

    /// Whether anybody ever leased it.
    pub(super) fn is_leased(&self, task: TaskIndex) -> bool {
        let leases = |op: &Op| matches!(op.what, What::Put { lease: Some(of), .. } if of == task);
        self.ops.iter().any(leases)
    }

    /// A call is answered; false when no order of the calls explains it.
    pub(super) fn answer(&mut self, at: u64, place: usize, came: Came) -> bool {
        let Some(op) = self.ops.get_mut(place) else {
            return true;
        };
        (op.until, op.came) = (Some(at), Some(came));
        self.unclear || self.goes_on(place) || self.explain()
    }

    /// Whether the call fits the present state, perhaps after calls that nobody has answered.
    fn goes_on(&mut self, place: usize) -> bool {
        let Some(op) = self.ops.get(place).filter(|op| !op.applied) else {
            return false;
        };
        let Some(state) = after(&op.what, &self.state, op.came.as_ref()) else {
            return false;
        };
        self.state = state;
        if let Some(op) = self.ops.get_mut(place) {
            op.applied = true;
        }
        true
    }

    fn explain(&mut self) -> bool {
        reached(Check::KeysSearched);
        match self.search() {
            Found::Order(state, done) => {
                self.state = state;
                self.ops.iter_mut().zip(done).for_each(|(op, done)| op.applied = done);
                true
            }
            Found::Nothing => false,
            Found::TooLong => {
                reached(Check::KeysUndecided);
                self.unclear = true;
                true
            }
        }
    }

    /// Wing and Gong: puts calls one behind the other, each within its own time, and goes back where
    /// an answer does not fit.
    fn search(&self) -> Found {
        let mut done = vec![false; self.ops.len()];
        let mut visited: BTreeSet<(Vec<bool>, State)> = BTreeSet::new();
        let mut stack: Vec<(State, u64, Vec<usize>, Option<usize>)> = Vec::new();
        stack.push((None, 0, self.next(&done, 0, &None), None));
        for _ in 0..STEPS_MAX {
            let Some((state, latest, candidates, chosen)) = stack.last_mut() else {
                return Found::Nothing;
            };
            let is_over = |(op, done): (&Op, &bool)| *done || op.came.is_none();
            if self.ops.iter().zip(&done).all(is_over) {
                return Found::Order(state.clone(), done);
            }
            let Some(place) = candidates.pop() else {
                let chosen = *chosen;
                stack.pop();
                if let Some(done) = chosen.and_then(|chosen| done.get_mut(chosen)) {
                    *done = false;
                }
                continue;
            };
            let Some(op) = self.ops.get(place) else {
                continue;
            };
            let Some(next) = after(&op.what, state, op.came.as_ref()) else {
                continue;
            };
            let latest = (*latest).max(op.invoked);
            if let Some(done) = done.get_mut(place) {
                *done = true;
            }
            if visited.insert((done.clone(), next.clone())) {
                let candidates = self.next(&done, latest, &next);
                stack.push((next, latest, candidates, Some(place)));
            } else if let Some(done) = done.get_mut(place) {
                *done = false;
            }
        }
        Found::TooLong
    }

    /// Calls that may come next, the likeliest last: those that began before any other one was over.
    ///
    /// Three rules leave out what decides nothing. A call without an answer that would change nothing
    /// need not happen. Of several such calls that do the same, the one that can wait least goes
    /// first. A read or a refusal that fits goes at once, alone, unless a call
    /// without an answer must have happened before it began.
    fn next(&self, done: &[bool], latest: u64, state: &State) -> Vec<usize> {
        let open = self.ops.iter().zip(done).zip(0..).filter(|((_, done), _)| !**done);
        let open: Vec<_> = open.map(|((op, _), place)| (op, place)).collect();
        let answered = open.iter().filter(|(op, _)| op.came.is_some());
        let bound = answered.filter_map(|(op, _)| op.until).min().unwrap_or(u64::MAX);
        let may = |op: &Op| match op.came {
            Some(_) => true,
            None => op.what != What::Read && op.until.is_none_or(|until| latest < until),
        };
        let mut next: Vec<_> =
            open.into_iter().filter(|(op, _)| op.invoked < bound && may(op)).collect();
        next.sort_by_key(|(op, place)| (op.came.is_some(), std::cmp::Reverse(*place)));
        let ends = |(op, _): &(&Op, usize)| op.until.filter(|_| op.came.is_none());
        let first_end = next.iter().filter_map(ends).min().unwrap_or(u64::MAX);
        let is_at_once = |(op, _): &&(&Op, usize)| {
            op.only_looks() && op.invoked < first_end && changes_nothing(op, state)
        };
        if let Some((_, place)) = next.iter().rev().find(is_at_once) {
            return vec![*place];
        }
        let mut left: Vec<(&Op, usize)> = Vec::new();
        for (op, place) in next.iter().copied() {
            let rival = |(of, at): &(&Op, usize)| {
                of.came.is_none() && of.what == op.what && (end_of(of), *at) < (end_of(op), place)
            };
            let is_idle =
                op.came.is_none() && (changes_nothing(op, state) || next.iter().any(rival));
            if !is_idle {
                left.push((op, place));
            }
        }
        left.into_iter().map(|(_, place)| place).collect()
    }
}

/// When a call can have happened at the latest.
fn end_of(op: &Op) -> u64 {
    op.until.unwrap_or(u64::MAX)
}

/// Whether a call fits a state and leaves it as it is, but for what it tells of the revision.
fn changes_nothing(op: &Op, state: &State) -> bool {
    let bare = |state: &State| state.as_ref().map(|held| (held.value.clone(), held.lease));
    match after(&op.what, state, op.came.as_ref()) {
        None => false,
        Some(next) if op.what == What::Read => bare(&next) == bare(state),
        Some(next) => next == *state,
    }
}

/// The state after a call that came to this; none when it cannot have come to it. Without an answer
/// the call is one that took effect.
fn after(what: &What, state: &State, came: Option<&Came>) -> Option<State> {
    match (what, came) {
        (_, Some(Came::Refused)) => Some(state.clone()),
        (_, Some(Came::Exists)) => state.is_some().then(|| state.clone()),
        (_, Some(Came::Absent)) => state.is_none().then_some(None),
        (What::Read, came) => read(state, came),
        (What::Put { value, condition, lease }, came) => {
            let meets = meets(*condition, state);
            if came == Some(&Came::Unfit) {
                return (meets != Some(true)).then(|| state.clone());
            }
            let revision = match came {
                Some(Came::Put(revision)) => Some(*revision),
                _ => None,
            };
            let held = Held { value: value.clone(), lease: *lease, revision };
            (meets != Some(false)).then_some(Some(held))
        }
        (What::Increment(by), came) => increment(state, *by, came),
        (What::Delete, _) => Some(None),
        (What::EndLease(task), _) => Some(state.clone().filter(|held| held.lease != Some(*task))),
    }
}

fn read(state: &State, came: Option<&Came>) -> Option<State> {
    let (Some(held), Some(Came::Value(value, revision))) = (state, came) else {
        return None;
    };
    let known = held.revision.is_none_or(|known| known == *revision);
    (known && held.value == *value)
        .then(|| Some(Held { revision: Some(*revision), ..held.clone() }))
}

/// Whether a condition holds, as far as is known.
fn meets(condition: Condition, state: &State) -> Option<bool> {
    match (condition, state) {
        (Condition::Always, _) => Some(true),
        (Condition::Absent, state) => Some(state.is_none()),
        (Condition::Present, state) => Some(state.is_some()),
        (Condition::Revision(asked), None) => Some(asked.get() == 0),
        (Condition::Revision(asked), Some(held)) => held.revision.map(|held| held == asked.get()),
    }
}

fn increment(state: &State, by: i64, came: Option<&Came>) -> Option<State> {
    let before = match state {
        None => Some(0),
        Some(held) => std::str::from_utf8(&held.value).ok().and_then(|text| text.parse().ok()),
    };
    let sum = before.and_then(|before: i64| before.checked_add(by));
    if came == Some(&Came::Unfit) {
        return sum.is_none().then(|| state.clone());
    }
    let value = Bytes::from(sum?.to_string());
    let revision = match came {
        Some(Came::Value(told, revision)) if *told == value => Some(*revision),
        Some(_) => return None,
        None => None,
    };
    let lease = state.as_ref().and_then(|held| held.lease);
    Some(Some(Held { value, lease, revision }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(value: &'static str, condition: Condition) -> What {
        What::Put { value: Bytes::from_static(value.as_bytes()), condition, lease: None }
    }

    fn value(text: &'static str, revision: u64) -> Came {
        Came::Value(Bytes::from_static(text.as_bytes()), revision)
    }

    #[test]
    fn what_was_lost_may_have_happened_or_not() {
        for (told, fits) in [(value("b", 2), true), (value("a", 1), true), (value("c", 3), false)] {
            let mut history = History::default();
            let first = history.invoke(1, put("a", Condition::Absent));
            assert!(history.answer(2, first, Came::Put(1)));
            history.invoke(3, put("b", Condition::Always));
            history.lose(4);
            let read = history.invoke(5, What::Read);
            assert_eq!(history.answer(6, read, told.clone()), fits, "{told:?}");
        }
    }

    #[test]
    fn what_is_lost_does_not_come_back_after_it_was_not_there() {
        let mut history = History::default();
        history.invoke(1, put("b", Condition::Always));
        history.lose(2);
        let read = history.invoke(3, What::Read);
        assert!(history.answer(4, read, Came::Absent));
        let read = history.invoke(5, What::Read);
        assert!(!history.answer(6, read, value("b", 1)));
    }

    /// Without the rules that leave out what decides nothing this took more steps than there may be, and
    /// was accepted.
    #[test]
    fn many_calls_without_an_answer_are_decided() {
        for (told, fits) in [("a", true), ("b", true), ("c", false)] {
            let mut history = History::default();
            let first = history.invoke(1, put("a", Condition::Always));
            assert!(history.answer(2, first, Came::Put(1)));
            for at in 0..14 {
                history.invoke(3 + 3 * at, put("b", Condition::Present));
                history.invoke(4 + 3 * at, What::Delete);
                history.invoke(5 + 3 * at, put("a", Condition::Absent));
            }
            history.lose(100);
            let read = history.invoke(101, What::Read);
            assert_eq!(history.answer(102, read, value(told, 9)), fits, "{told}");
            assert!(!history.unclear, "{told}");
        }
    }

    /// Were the second refusal put behind the first at once, the deletion could not be between them.
    #[test]
    fn a_call_that_was_lost_may_be_needed_before_one_that_changes_nothing() {
        let mut history = History::default();
        history.invoke(1, put("a", Condition::Always));
        let refused = history.invoke(2, put("b", Condition::Absent));
        assert!(history.answer(3, refused, Came::Exists));
        history.invoke(4, What::Delete);
        let second = history.invoke(5, put("c", Condition::Absent));
        history.endure(second);
        history.lose(6);
        let refused = history.invoke(7, put("d", Condition::Absent));
        assert!(history.answer(8, refused, Came::Exists));
        assert!(history.answer(9, second, Came::Put(3)));
    }

    /// A deletion that finds nothing may be needed later, where it finds something.
    #[test]
    fn what_would_change_nothing_now_may_happen_later() {
        let mut history = History::default();
        let delete = history.invoke(1, What::Delete);
        let put = history.invoke(2, put("a", Condition::Absent));
        assert!(history.answer(3, put, Came::Put(1)));
        let read = history.invoke(4, What::Read);
        assert!(history.answer(5, read, Came::Absent));
        assert!(history.answer(6, delete, Came::Done));
    }

    #[test]
    fn only_one_of_two_inserts_succeeds() {
        let mut history = History::default();
        let one = history.invoke(1, put("a", Condition::Absent));
        let other = history.invoke(2, put("b", Condition::Absent));
        assert!(history.answer(3, other, Came::Put(1)));
        assert!(!history.answer(4, one, Came::Put(2)));
    }

    #[test]
    fn concurrent_increments_are_each_counted_once() {
        let mut history = History::default();
        let calls: Vec<_> = (0..3).map(|at| history.invoke(at, What::Increment(2))).collect();
        for (call, told) in calls.iter().zip(["6", "2", "4"]) {
            let came = Came::Value(Bytes::from_static(told.as_bytes()), 1);
            let fits = history.answer(10, *call, came);
            assert!(fits, "{told}");
        }
        let read = history.invoke(11, What::Read);
        assert!(!history.answer(12, read, value("4", 1)));
    }
}
