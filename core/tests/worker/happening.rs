//! Events in the life of a worker.

use crate::life::Life;

/// The tasks of every history, from 1 on: one of splits, one of all elements, one whose definition the
/// dispatcher must be asked for, one read in rounds, one shared by trainers.
pub(crate) const TASKS: i64 = 5;
/// Iterations that a task's number may stand for: a dispatcher that lost its state counts anew.
pub(crate) const ITERATIONS: i64 = 2;
/// Spans between events, in milliseconds: around a skip, a pause, a skipped round, a heartbeat, the time in
/// which a worker stops, and the time that the dispatcher may be away.
pub(crate) const WAITS_MS: [u64; 8] = [0, 4, 5, 100, 1_000, 5_000, 20_000, 31_000];

/// The way in which the dispatcher answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Well,
    /// The connection breaks.
    Away,
    /// A proxy answers in its place.
    Proxy,
    /// It does not know the subject of the call.
    Unknown,
    /// It answers another question.
    Nonsense,
}

/// The end of what the data gives at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    More,
    End,
    Failed,
}

/// An event in the life of a worker. Numbers choose round among what there is.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// A consumer asks for an element, and perhaps takes "ask again" for an answer.
    Ask(i64, usize, bool),
    /// A reader asks for a task's dataset.
    Dataset(i64),
    /// A consumer asks which tasks there are.
    Tasks,
    /// The dispatcher pushes a task of this iteration.
    Push(i64, i64),
    /// The dispatcher's next answer to a heartbeat brings a task of this iteration.
    Bring(i64, i64),
    /// The dispatcher's next answer to a heartbeat deletes a task.
    Delete(i64),
    /// A caller gives up: its call waits, or its element has not left.
    Cancel(usize),
    /// An element leaves.
    Left(usize),
    /// The dispatcher answers one of the calls to it.
    Answer(usize, How),
    /// A dataset is open, or cannot be opened.
    Open(usize, bool),
    /// So many elements are made.
    Make(usize, u64, Behind),
    /// Elements come of a run that is closed, and answers to calls that nobody made.
    Late(usize),
    /// The worker is asked to stop.
    Drain,
    /// Time passes, in milliseconds.
    Wait(u64),
}

/// Lives through a history, and then until nobody waits.
pub(crate) fn live(history: &[Happening]) {
    let mut life = Life::new();
    for happening in history {
        happens(&mut life, happening);
    }
    life.come_to_rest();
}

fn happens(life: &mut Life, happening: &Happening) {
    match *happening {
        Happening::Ask(task, who, allow_skip) => life.ask(task, who, allow_skip),
        Happening::Dataset(task) => life.ask_for_dataset(task),
        Happening::Tasks => life.ask_for_tasks(),
        Happening::Push(task, iteration) => life.push(task, iteration),
        Happening::Bring(task, iteration) => life.order(task, iteration),
        Happening::Delete(task) => life.order_deletion(task),
        Happening::Cancel(which) => life.cancel(which),
        Happening::Left(which) => life.left(which),
        Happening::Answer(which, how) => life.answer(which, how),
        Happening::Open(which, works) => life.open(which, works),
        Happening::Make(which, count, behind) => life.make(which, count, behind),
        Happening::Late(which) => life.late(which),
        Happening::Drain => life.drain(),
        Happening::Wait(span_ms) => life.wait(span_ms),
    }
}
