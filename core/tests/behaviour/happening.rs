//! What may happen to a node.

use rondo_core::dispatcher::Group;

/// One thing that happens. Numbers are resolved against what exists when it happens.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Register {
        wished: Option<&'static str>,
        content: u8,
        structure: u8,
        compressed: bool,
        replaces: bool,
    },
    Version {
        dataset: At,
        job: Option<&'static str>,
        position: Option<&'static str>,
    },
    Read {
        dataset: At,
        what: u8,
    },
    Job {
        dataset: At,
        sharding: u8,
        name: Option<&'static str>,
        same_dataset: bool,
        consumers: Option<i64>,
        cached: bool,
    },
    Join {
        job: At,
        repetition: i64,
    },
    Client {
        client: At,
        current: Round,
        blocked: Round,
    },
    Release {
        client: At,
    },
    Worker {
        address: &'static str,
        tasks: Tasks,
        uid: i64,
    },
    Update {
        tasks: Vec<(At, bool)>,
    },
    Split {
        iteration: At,
        repetition: i64,
        source: i64,
        asker: Option<&'static str>,
    },
    Hold {
        client: At,
        hold: usize,
        /// Of splits it holds: how many more records than are known, and whether those are all.
        progress: Vec<(At, u64, bool)>,
        group: Group,
    },
    EndReader {
        /// Of all clients that ever were.
        client: At,
        job: &'static str,
    },
    Remove {
        task: At,
        consumer: i64,
        round: i64,
    },
    Save {
        name: &'static str,
        job: &'static str,
    },
    Restore {
        name: &'static str,
        job: &'static str,
        /// The dataset of the reader that asks; `None` for an operator.
        wanted: Option<At>,
    },
    Delete {
        name: &'static str,
    },
    Positions,
    DeleteJob {
        name: &'static str,
    },
    DeleteDataset {
        dataset: At,
    },
    RemoveWorker {
        address: &'static str,
    },
    Cancel {
        call: At,
    },
    Workers,
    /// Time passes and nobody looks before it is over.
    Advance {
        millis: u64,
    },
    /// Time passes, and whatever is due happens in time.
    Wait {
        millis: u64,
    },
    Sync {
        upto: At,
    },
    Journal {
        kind: u8,
    },
    MakeRoom,
    Crash {
        upto: At,
    },
    FailSync {
        upto: At,
    },
}

/// A round in a heartbeat: none, near the proposed one, or any.
#[derive(Clone, Debug)]
pub(crate) enum Round {
    Absent,
    NearTarget(i64),
    At(i64),
}

/// The tasks a worker reports: those it should have, none, or some of all there are.
#[derive(Clone, Debug)]
pub(crate) enum Tasks {
    Right,
    None,
    Some(Vec<At>),
}

/// A place among things whose number is known only when it is looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At(pub(crate) u64);

impl At {
    /// The place among `count` things, of which there is at least one.
    #[track_caller]
    pub(crate) fn index(self, count: usize) -> usize {
        let count = u64::try_from(count).unwrap();
        usize::try_from(self.0 % count).unwrap()
    }

    /// The thing at that place.
    #[track_caller]
    pub(crate) fn get<T>(self, things: &[T]) -> &T {
        &things[self.index(things.len())]
    }
}
