//! An honest consumer of a coordinated read, as TensorFlow's client is one.
//!
//! It asks for the elements of one round after the other: in a round, for one of every task of its
//! list that has started, in the order of the list. It begins no round at or past the one it was
//! asked to block. One heartbeat is on its way at a time.

use rondo_core::ids::TaskId;

/// Which round a consumer between two rounds reports as its current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The one it will begin next, as TensorFlow's client does.
    Next,
    /// The last it has begun, as TensorFlow's description of the protocol does.
    Begun,
}

/// A task with its first round, as a list has it.
pub(crate) type Listed = (TaskId, i64);

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    /// The first round it has not begun.
    pub(crate) next: i64,
    /// Whether it has yet to ask for more in the round before that.
    pub(crate) open: bool,
    /// It begins no round from this one on.
    pub(crate) limit: Option<i64>,
    /// The list as it was told last.
    pub(crate) list: Vec<Listed>,
    /// What it asked for in its last round, and has not given up by agreement.
    pub(crate) asked: Vec<TaskId>,
    /// Tasks given up by agreement.
    pub(crate) gone: Vec<TaskId>,
    /// Where its heartbeat is.
    pub(crate) beat: Beat,
    /// Where its call to give a task up is.
    pub(crate) call: Call,
}

/// A heartbeat on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// There is none.
    None,
    /// The dispatcher has not seen it yet.
    Sent(Rounds),
    /// The consumer has not seen the answer yet.
    Answered(Rounds, Told),
}

/// What a heartbeat says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounds {
    pub(crate) current: i64,
    pub(crate) blocked: Option<i64>,
}

/// What the answer to a heartbeat says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) list: Vec<Listed>,
    pub(crate) block_round: Option<i64>,
}

/// A call to give a task up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    None,
    Waiting(TaskId),
    Answered(TaskId, bool),
}

impl Consumer {
    /// A consumer that has just joined.
    pub(crate) const fn new() -> Self {
        Self {
            next: 0,
            open: false,
            limit: None,
            list: Vec::new(),
            asked: Vec::new(),
            gone: Vec::new(),
            beat: Beat::None,
            call: Call::None,
        }
    }

    /// The round it is in, or was in last.
    pub(crate) const fn begun(&self) -> i64 {
        self.next - 1
    }

    /// The round it reports as its current one.
    pub(crate) fn current(&self, counting: Counting) -> i64 {
        match (counting, self.open) {
            (Counting::Next, false) => self.next,
            _ => self.begun().max(0),
        }
    }

    /// What it asks for in a round, in order.
    pub(crate) fn tasks_of(&self, round: i64) -> Vec<TaskId> {
        let started = self.list.iter().filter(|(_, start)| *start <= round);
        let ids = started.map(|(task, _)| *task);
        ids.filter(|task| !self.gone.contains(task)).collect()
    }

    /// Whether it has anything to go on for, and was not asked to stop.
    pub(crate) fn wants_next_round(&self) -> bool {
        let has_tasks = self.list.iter().any(|(task, _)| !self.gone.contains(task));
        !self.open && has_tasks && self.limit.is_none_or(|limit| self.next < limit)
    }

    /// Takes the answer to a heartbeat.
    pub(crate) fn hear(&mut self, told: Told, counting: Counting) {
        match told.block_round {
            None => self.limit = None,
            // It is there already, which the next heartbeat will say.
            Some(round) if self.current(counting) >= round => {}
            Some(round) => self.limit = Some(round),
        }
        let listed = |task: &TaskId| told.list.iter().any(|(listed, _)| listed == task);
        self.gone.retain(listed);
        self.list = told.list;
    }
}
