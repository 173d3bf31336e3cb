//! What can happen to the rendezvous of a worker.

use crate::both::Both;

/// Something that happens. Steps, keys and requests are few; what is counted is counted round among
/// what there is.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Find(u8),
    /// A step is of this worker, or (if so) of another one.
    Initialize(u8, bool),
    Send {
        step: u8,
        key: u8,
        bytes: u8,
        waits: bool,
        is_dead: bool,
    },
    Recv {
        step: u8,
        key: u8,
        timeout: u8,
    },
    RecvLocal {
        step: u8,
        key: u8,
        timeout: u8,
    },
    Request {
        step: u8,
        key: u8,
        timeout: u8,
        request: u8,
        keeps: bool,
    },
    Finished(u8),
    Cancel(usize),
    Fetched(usize),
    NotFetched(usize, u8),
    /// A step is aborted, with one of three codes.
    Abort(u8, u8),
    Cleanup(u8),
    CleanupAll,
    Wait(u64),
}

/// How long nothing else happens, in milliseconds.
pub(crate) const WAITS_MS: [u64; 7] = [0, 10, 50, 100, 700, 3_000, 20_000];

/// Lives through a history to a good end. Steps are of this worker from their beginning if so.
pub(crate) fn live(is_home: bool, history: &[Happening]) {
    let mut both = Both::new(is_home);
    for happening in history {
        both.happen(happening);
    }
    both.end();
}
