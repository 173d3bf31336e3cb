//! Names of hosts become addresses, without anybody waiting for that who has something else to do: the
//! system may take as long as it likes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use mio::Waker;

/// Names that are looked up at once, each on a thread of its own.
const LOOK_UPS_MAX: usize = 16;

/// Knows the addresses of hosts.
pub trait Names: Debug + Send + Sync {
    /// The address for `host:port`. It may block.
    ///
    /// # Errors
    /// When there is none.
    fn look_up(&self, name: &str) -> io::Result<SocketAddr>;
}

/// As the system knows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn look_up(&self, name: &str) -> io::Result<SocketAddr> {
        name.to_socket_addrs()?.next().ok_or_else(|| {
            io::Error::new(ErrorKind::AddrNotAvailable, format!("{name} is no address"))
        })
    }
}

/// The address for `host:port`, as the system knows it, within a time.
///
/// # Errors
/// When there is none, or the system does not say it in time.
pub(in crate::exchange) fn look_up(name: &str, timeout: Duration) -> io::Result<SocketAddr> {
    if let Ok(address) = name.parse() {
        return Ok(address);
    }
    let (answer, answers) = channel();
    let asked = name.to_owned();
    std::thread::Builder::new().name("rondo-name".into()).spawn(move || {
        // Who asked may have given up.
        let _ = answer.send(SystemNames.look_up(&asked));
    })?;
    match answers.recv_timeout(timeout) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(late(name, timeout)),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("nobody looked the name up")),
    }
}

fn late(name: &str, timeout: Duration) -> io::Error {
    let ms = timeout.as_millis();
    let text = format!("the address of {name} was not found within {ms} ms (lookup_timeout)");
    io::Error::new(ErrorKind::TimedOut, text)
}

/// Names that are being looked up, each for something that is called `K`.
pub(in crate::exchange) struct LookUps<K> {
    names: Arc<dyn Names>,
    timeout: Duration,
    waker: Arc<Waker>,
    answer: Sender<(K, io::Result<SocketAddr>)>,
    answers: Receiver<(K, io::Result<SocketAddr>)>,
    /// What is waited for: the name, and until when.
    waiting: BTreeMap<K, (String, Instant)>,
    /// Threads, those too that nobody waits for any more.
    threads: Arc<AtomicUsize>,
}

impl<K: Copy + Ord + Send + 'static> LookUps<K> {
    /// None yet. The waker is woken when there is something to see to.
    pub(in crate::exchange) fn new(
        names: Arc<dyn Names>,
        timeout: Duration,
        waker: Arc<Waker>,
    ) -> Self {
        let (answer, answers) = channel();
        let threads = Arc::new(AtomicUsize::new(0));
        Self { names, timeout, waker, answer, answers, waiting: BTreeMap::new(), threads }
    }

    /// Begins to look a name up.
    pub(in crate::exchange) fn begin(&mut self, of: K, name: &str) -> io::Result<()> {
        if self.threads.load(Ordering::Relaxed) >= LOOK_UPS_MAX {
            let text = format!(
                "{name} cannot be looked up: {LOOK_UPS_MAX} names are at the moment, as many as may be"
            );
            return Err(io::Error::other(text));
        }
        let (names, waker, answer) =
            (Arc::clone(&self.names), Arc::clone(&self.waker), self.answer.clone());
        let (asked, threads) = (name.to_owned(), Arc::clone(&self.threads));
        threads.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::Builder::new().name("rondo-name".into()).spawn(move || {
            let found = names.look_up(&asked);
            threads.fetch_sub(1, Ordering::Relaxed);
            // The process may have ended meanwhile.
            if answer.send((of, found)).is_ok() {
                let _ = waker.wake();
            }
        });
        if let Err(error) = thread {
            self.threads.fetch_sub(1, Ordering::Relaxed);
            return Err(error);
        }
        let now = Instant::now();
        let until = now.checked_add(self.timeout).unwrap_or(now);
        self.waiting.insert(of, (name.to_owned(), until));
        // Who sleeps must not sleep past that.
        self.waker.wake()
    }

    /// Nobody waits for this any more. Whether anybody did.
    pub(in crate::exchange) fn give_up(&mut self, of: K) -> bool {
        self.waiting.remove(&of).is_some()
    }

    /// How many are waited for.
    pub(in crate::exchange) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How long until one is late, if any is waited for.
    pub(in crate::exchange) fn due(&self) -> Option<Duration> {
        let first = self.waiting.values().map(|(_, until)| *until).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    /// One that has been found, or will not be.
    pub(in crate::exchange) fn next(&mut self) -> Option<(K, io::Result<SocketAddr>)> {
        if self.waiting.is_empty() {
            // What comes now was given up.
            while self.answers.try_recv().is_ok() {}
            return None;
        }
        while let Ok((of, found)) = self.answers.try_recv() {
            if self.waiting.remove(&of).is_some() {
                return Some((of, found));
            }
        }
        let now = Instant::now();
        let late_one = self.waiting.iter().find(|(_, (_, until))| *until <= now);
        let (of, name) = late_one.map(|(of, (name, _))| (*of, name.clone()))?;
        self.waiting.remove(&of);
        Some((of, Err(late(&name, self.timeout))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// Hangs until it may answer.
    #[derive(Debug, Default)]
    struct Hanging {
        may_answer: Mutex<bool>,
        changed: Condvar,
    }

    impl Names for Hanging {
        fn look_up(&self, _: &str) -> io::Result<SocketAddr> {
            let waiting = self.may_answer.lock().unwrap();
            drop(self.changed.wait_while(waiting, |may_answer| !*may_answer).unwrap());
            Ok(SocketAddr::from(([127, 0, 0, 1], 7)))
        }
    }

    #[test]
    fn names_above_the_bound_are_refused_even_after_another_was_given_up() {
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let names = Arc::new(Hanging::default());
        let mut look_ups = LookUps::new(Arc::clone(&names) as Arc<dyn Names>, SOON, waker);
        for number in 0..16 {
            look_ups.begin(number, "host:7").unwrap();
        }
        assert_eq!(look_ups.len(), 16);
        let refused = look_ups.begin(16, "other:7").unwrap_err().to_string();
        assert!(refused.contains("other:7") && refused.contains("16 names"), "{refused}");
        // The thread of that one still hangs.
        assert!(look_ups.give_up(3));
        assert!(look_ups.begin(16, "other:7").is_err());
        *names.may_answer.lock().unwrap() = true;
        names.changed.notify_all();
        let mut found = Vec::new();
        let began = Instant::now();
        while found.len() < 15 {
            assert!(began.elapsed() < SOON, "{found:?}");
            match look_ups.next() {
                Some((of, address)) => found.push((of, address.unwrap().port())),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        found.sort_unstable();
        let wanted: Vec<_> = (0..16).filter(|of| *of != 3).map(|of| (of, 7)).collect();
        assert_eq!(found, wanted);
        look_ups.begin(16, "other:7").unwrap();
    }
}
