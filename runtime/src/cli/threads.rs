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

/// Tasks that a thread goes on with until it takes one of the queue that all threads share. A thread's own
/// queue holds 256 tasks; when more are ready, half of these go to the shared one. By default the runtime
/// takes one of that in 61: beside a thousand connections that always have something to say, a heartbeat in
/// the shared queue would wait for a second.
const TASKS_BETWEEN_SHARED: u32 = 2;

/// A pool of this many threads, or as many as this machine should have.
pub(super) fn pool(threads: Option<u32>) -> Result<Runtime, Failure> {
    let said = threads.and_then(|threads| usize::try_from(threads).ok());
    let threads = said.unwrap_or_else(|| fitting(std::thread::available_parallelism().ok()));
    let mut pool = Builder::new_multi_thread();
    pool.worker_threads(threads)
        .event_interval(TASKS_BETWEEN_LOOKS)
        .global_queue_interval(TASKS_BETWEEN_SHARED)
        .enable_all();
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
    use std::future::poll_fn;
    use std::io::Write;
    use std::num::NonZero;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Poll;

    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    use super::*;

    /// Gives up the thread for one task, and stays in the queue of those that are ready. A `yield_now` would
    /// have the thread look at its sockets.
    async fn turn() {
        let mut has_given_up = false;
        poll_fn(|context| {
            if has_given_up {
                return Poll::Ready(());
            }
            has_given_up = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// It counts turns, so that it does not depend on the machine.
    #[test]
    fn a_task_that_always_goes_on_holds_up_messages_for_few_turns() {
        const MESSAGES: u64 = 100;
        let longest = pool(Some(1)).unwrap().block_on(async {
            let (mut from, to) = std::os::unix::net::UnixStream::pair().unwrap();
            to.set_nonblocking(true).unwrap();
            let mut to = UnixStream::from_std(to).unwrap();
            let read = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&read);
            tokio::spawn(async move {
                while to.read_u8().await.is_ok() {
                    count.fetch_add(1, Ordering::SeqCst);
                }
            });
            let going_on = tokio::spawn(async move {
                let mut longest = 0_u32;
                for message in 0..MESSAGES {
                    // Each message comes at another time between two looks.
                    for _ in 0..message {
                        turn().await;
                    }
                    from.write_all(&[7]).unwrap();
                    let mut turns = 0_u32;
                    while read.load(Ordering::SeqCst) <= message {
                        turn().await;
                        turns += 1;
                    }
                    longest = longest.max(turns);
                }
                longest
            });
            going_on.await.unwrap()
        });
        assert!(longest <= 2 * 8, "a message was read {longest} turns after it came");
    }

    #[test]
    fn small_machines_have_one_thread_and_large_ones_a_few() {
        let of = |processors| fitting(NonZero::new(processors));
        assert_eq!([1, 2, 7, 8, 16, 64].map(of), [1, 1, 1, 2, 4, 4]);
        assert_eq!(fitting(None), 1);
    }
}
