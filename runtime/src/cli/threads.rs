//! Threads that serve connections.
//!
//! A call is short and the node takes its turns one at a time, so a second thread mostly wakes the
//! first: two cost half as much processor time a call again as one, and answer fewer
//! (`docs/performance.md`). Disks, large graphs and large values have threads of their own.

use tokio::runtime::{Builder, Runtime};

use super::exit::{Exit, Failure};

/// Processors for each thread, unless the number of threads is said.
const PROCESSORS_PER_THREAD: usize = 4;
/// No more threads than this, unless their number is said.
const THREADS_MAX: usize = 4;

/// Tasks that a thread goes on with until it looks which sockets have something to read. The runtime's
/// default is 61: a heartbeat would wait for so many turns of strangers who always have something to say.
const TASKS_BETWEEN_LOOKS: u32 = 8;

/// A pool of this many threads, or as many as this machine should have.
pub(super) fn pool(threads: Option<u32>) -> Result<Runtime, Failure> {
    let said = threads.and_then(|threads| usize::try_from(threads).ok());
    let threads = said.unwrap_or_else(|| fitting(std::thread::available_parallelism().ok()));
    let mut pool = Builder::new_multi_thread();
    pool.worker_threads(threads).event_interval(TASKS_BETWEEN_LOOKS).enable_all();
    let pool = pool.build();
    pool.map_err(|error| {
        Failure::new(Exit::Other, format!("cannot start a pool of {threads} threads: {error}"))
    })
}

fn fitting(processors: Option<std::num::NonZero<usize>>) -> usize {
    let processors = processors.map_or(1, std::num::NonZero::get);
    (processors / PROCESSORS_PER_THREAD).clamp(1, THREADS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZero;

    #[test]
    fn small_machines_have_one_thread_and_large_ones_a_few() {
        let of = |processors| fitting(NonZero::new(processors));
        assert_eq!([1, 2, 7, 8, 16, 64].map(of), [1, 1, 1, 2, 4, 4]);
        assert_eq!(fitting(None), 1);
    }
}
