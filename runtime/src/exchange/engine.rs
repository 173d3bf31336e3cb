//! Who reads and writes the links of a process: the thread that waits for something. While none does, a
//! thread of the engine's own sees to them.
//!
//! A thread that waits for an answer reads it off the link itself: nobody has to be woken between the
//! system and who wants it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mio::{Events, Poll, Waker};
use rondo_core::time::Time;
use rondo_proto::convert::exchange::FrameHead;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::link::names::LookUps;
use super::link::{Names, Place, Transport};
use super::links::{LinkId, Links, News, WAKER};
use super::of_process::OfProcess;
use crate::clock::Clock;
use crate::tensor::TensorBuffer;

/// Events that are taken at once.
const EVENTS_MAX: usize = 256;
/// How long links may be left alone after a thread has waited for something: it may do so again soon.
const REST: Duration = Duration::from_millis(1);
/// How often the engine's thread looks whether a thread still waits, that has done so for long.
const LONG_REST: Duration = Duration::from_millis(10);
/// How often who waits is asked whether he still wants to.
const SLICE: Duration = Duration::from_millis(100);
/// Pause after the system fails to wait for events.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);
/// Least time between two log lines about that.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(10);

/// What the links of a process are for.
pub(super) trait Station: Send + 'static {
    /// Somebody has connected.
    fn accepted(&mut self, now: Time, link: LinkId, links: &mut Links);
    /// A link is open that was asked for.
    fn opened(&mut self, now: Time, link: LinkId, links: &mut Links);
    /// Where the tensors of a frame shall lie that begins with this header.
    fn place(&mut self, link: LinkId, head: FrameHead, header: &Bytes) -> io::Result<Vec<Place>>;
    /// The frame is there whose header came last.
    fn arrived(&mut self, now: Time, link: LinkId, tensors: Vec<TensorBuffer>, links: &mut Links);
    /// A link is no more.
    fn closed(&mut self, now: Time, link: LinkId, why: &io::Error, links: &mut Links);
    /// Time has passed.
    fn tick(&mut self, now: Time, links: &mut Links);
    /// When it wants to hear that.
    fn deadline(&self) -> Option<Time>;
}

/// A process' links, what they are for, and who sees to them.
pub(super) struct Engine<S: Station> {
    core: Arc<Core<S>>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    home: OfProcess<()>,
}

struct Core<S> {
    state: Mutex<State<S>>,
    /// Somebody may see to the links.
    free: Condvar,
    waker: Arc<Waker>,
    clock: Clock,
    spin: Duration,
}

struct State<S> {
    station: S,
    links: Links,
    /// Away while somebody waits for events.
    poll: Option<(Poll, Events)>,
    /// Until when he sleeps; `None` for ever, or if nobody does.
    sleeps_until: Option<Time>,
    /// Threads that wait for something, and not for events.
    others: usize,
    last_wait: Instant,
    /// When a log line told last that the system does not wait for events.
    complained: Option<Instant>,
    is_stopped: bool,
}

/// Who waited does not want to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interrupted;

type Guard<'a, S> = MutexGuard<'a, State<S>>;

impl<S: Station> Engine<S> {
    /// Begins. `spin` is how long a thread that waits looks for events before it sleeps.
    pub(super) fn start(
        transports: Vec<Arc<dyn Transport>>,
        links_max: usize,
        (names, lookup_timeout): (Arc<dyn Names>, Duration),
        clock: Clock,
        spin: Duration,
        station: impl FnOnce(&mut Links) -> io::Result<S>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let look_ups = LookUps::new(names, lookup_timeout, Arc::clone(&waker));
        let registry = poll.registry().try_clone()?;
        let mut links = Links::new(registry, transports, links_max, look_ups);
        let station = station(&mut links)?;
        let state = State {
            station,
            links,
            poll: Some((poll, Events::with_capacity(EVENTS_MAX))),
            sleeps_until: None,
            others: 0,
            last_wait: Instant::now(),
            complained: None,
            is_stopped: false,
        };
        let core =
            Arc::new(Core { state: Mutex::new(state), free: Condvar::new(), waker, clock, spin });
        let own = Arc::clone(&core);
        let thread = std::thread::Builder::new()
            .name("rondo-exchange".into())
            .spawn(move || own.see_to_links())?;
        Ok(Self { core, thread: Some(thread), home: OfProcess::new(()) })
    }

    /// The clock.
    pub(super) fn clock(&self) -> Clock {
        self.core.clock
    }

    /// Changes what the links are for, or asks it something.
    pub(super) fn with<R>(&self, change: impl FnOnce(&mut S, &mut Links, Time) -> R) -> R {
        self.core.with(&mut self.core.lock(), change)
    }

    /// Waits until `take` finds what it looks for. `goes_on` is asked now and then.
    ///
    /// # Errors
    /// [`Interrupted`] when that says no.
    pub(super) fn wait<R>(
        &self,
        mut take: impl FnMut(&mut S) -> Option<R>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<R, Interrupted> {
        let mut state = self.core.lock();
        let mut asked = Instant::now();
        let mut spun = None;
        loop {
            let found = take(&mut state.station);
            if state.others > 0 {
                // What came may be for them, and one of them may see to the links now.
                self.core.free.notify_all();
            }
            if let Some(found) = found {
                state.last_wait = Instant::now();
                return Ok(found);
            }
            if asked.elapsed() >= SLICE {
                drop(state);
                if !goes_on() {
                    return Err(Interrupted);
                }
                asked = Instant::now();
                state = self.core.lock();
                continue;
            }
            state = match state.poll.take() {
                Some(poll) => {
                    let spins = self.core.spins(&mut spun);
                    self.core.look(
                        state,
                        poll,
                        if spins { Some(Duration::ZERO) } else { Some(SLICE) },
                    )
                }
                None => self.core.wait_for_turn(state),
            };
        }
    }
}

impl<S: Station> Engine<S> {
    /// In a fork's child. The child has no thread that releases locks, and closing links would end the
    /// parent's.
    fn leave_to_parent(&mut self) {
        std::mem::forget(Arc::clone(&self.core));
        if let Some(thread) = self.thread.take() {
            std::mem::forget(thread);
        }
    }
}

impl<S: Station> Drop for Engine<S> {
    fn drop(&mut self) {
        if !self.home.is_here() {
            return self.leave_to_parent();
        }
        self.core.lock().is_stopped = true;
        self.core.free.notify_all();
        self.core.wake();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the exchange's thread panicked: this is a bug in Rondo");
        }
    }
}

impl<S> State<S> {
    /// Logs that the system does not wait for events, unless a line told so a short while ago.
    fn complain(&mut self, error: &io::Error) {
        if self.complained.is_none_or(|at| at.elapsed() >= COMPLAINT_PAUSE) {
            self.complained = Some(Instant::now());
            tracing::warn!(%error, "cannot wait for events");
        }
    }
}

impl<S: Station> Core<S> {
    fn lock(&self) -> Guard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::warn!(%error, "cannot wake the thread that waits for events");
        }
    }

    fn with<R>(
        &self,
        state: &mut Guard<'_, S>,
        change: impl FnOnce(&mut S, &mut Links, Time) -> R,
    ) -> R {
        let now = self.clock.now();
        let State { station, links, .. } = &mut **state;
        let result = change(station, links, now);
        settle(station, links, now);
        // Who sleeps must not sleep too long.
        let deadline = station.deadline();
        if let (Some(deadline), Some(until)) = (deadline, state.sleeps_until)
            && deadline < until
        {
            state.sleeps_until = Some(deadline);
            self.wake();
        }
        result
    }

    /// Whether who waits looks again at once.
    fn spins(&self, since: &mut Option<Instant>) -> bool {
        !self.spin.is_zero() && since.get_or_insert_with(Instant::now).elapsed() < self.spin
    }

    /// Waits for events, and sees to them.
    fn look<'a>(
        &'a self,
        mut state: Guard<'a, S>,
        (mut poll, mut events): (Poll, Events),
        at_most: Option<Duration>,
    ) -> Guard<'a, S> {
        let now = self.clock.now();
        if state.links.has_later() {
            let State { station, links, .. } = &mut *state;
            links.flush_later();
            settle(station, links, now);
        }
        let due = state.station.deadline();
        let until_due = due.map(|due| Duration::from_nanos(due.since(now).as_nanos()));
        let links_due = state.links.due();
        let timeout = [until_due, at_most, links_due].into_iter().flatten().min();
        let is_short = timeout == Some(Duration::ZERO);
        state.sleeps_until =
            timeout.filter(|_| !is_short).map(|timeout| now.after(super::span(timeout)));
        let links = state.links.descriptors().filter(|_| !is_short);
        drop(state);
        let timeout = match links.map(|links| sleep(&poll, &links, timeout)) {
            Some(Ok(())) => Some(Duration::ZERO),
            // Where the system does not wait for links one by one, it waits for all of them at once.
            Some(Err(_)) | None => timeout,
        };
        let looked = poll.poll(&mut events, timeout);
        let trouble = looked.err().filter(|error| error.kind() != io::ErrorKind::Interrupted);
        if trouble.is_some() {
            std::thread::sleep(TROUBLE_PAUSE);
        } else if is_short && events.is_empty() {
            // Who is to answer may wait for this processor.
            std::thread::yield_now();
        }
        let mut state = self.lock();
        state.sleeps_until = None;
        if let Some(error) = trouble {
            state.complain(&error);
        }
        self.tend(&mut state, &events);
        events.clear();
        state.poll = Some((poll, events));
        state
    }

    /// Sees to what happened, and to what is due.
    fn tend(&self, state: &mut State<S>, events: &Events) {
        let now = self.clock.now();
        let State { station, links, .. } = state;
        for event in events {
            if event.token() != WAKER
                && let Some(link) = links.happened(event)
            {
                settle(station, links, now);
                self.read(station, links, link);
            }
        }
        for link in links.landing() {
            self.read(station, links, link);
        }
        links.see_to_names();
        links.see_to_closing();
        links.see_to_doors();
        settle(station, links, now);
        if station.deadline().is_some_and(|due| due <= now) {
            station.tick(now, links);
        }
        settle(station, links, now);
    }

    fn read(&self, station: &mut S, links: &mut Links, link: LinkId) {
        loop {
            let mut placer = |head, header: &Bytes| station.place(link, head, header);
            let Some(tensors) = links.receive(link, &mut placer) else { return };
            let now = self.clock.now();
            station.arrived(now, link, tensors, links);
            settle(station, links, now);
        }
    }

    /// Waits until somebody may have found what this thread looks for, or lets it see to the links.
    fn wait_for_turn<'a>(&'a self, mut state: Guard<'a, S>) -> Guard<'a, S> {
        state.others = state.others.saturating_add(1);
        // The engine's own thread lets others have their turn.
        self.wake();
        let waited = self.free.wait_timeout(state, SLICE);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.others = state.others.saturating_sub(1);
        state
    }

    /// Sees to the links while nobody waits for anything.
    fn see_to_links(&self) {
        let mut state = self.lock();
        while !state.is_stopped {
            let since = state.last_wait.elapsed();
            let poll = if state.others == 0 && since >= REST { state.poll.take() } else { None };
            state = match poll {
                Some(poll) => {
                    let state = self.look(state, poll, None);
                    if state.others > 0 {
                        self.free.notify_one();
                    }
                    state
                }
                None => {
                    drop(state);
                    std::thread::sleep(if since < SLICE { REST } else { LONG_REST });
                    self.lock()
                }
            };
        }
    }
}

/// Sleeps until there may be events. Who writes to a link wakes who sleeps on it by `poll`, and hands him
/// his processor; by `epoll` he wakes another processor, which takes several times as long.
///
/// # Errors
/// When the system does not wait.
fn sleep(poll: &Poll, links: &[RawFd], timeout: Option<Duration>) -> io::Result<()> {
    let all = links.iter().copied().chain([poll.as_raw_fd()]);
    // SAFETY: a descriptor that another thread closes meanwhile, or uses for something else, wakes this one
    // for nothing at worst.
    let mut all: Vec<PollFd<'_>> = all
        .map(|it| PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(it) }, PollFlags::IN))
        .collect();
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match rustix::event::poll(&mut all, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Tells the station what happened to its links, until nothing more does.
fn settle<S: Station>(station: &mut S, links: &mut Links, now: Time) {
    while let Some((link, news)) = links.news() {
        match news {
            News::Accepted => station.accepted(now, link, links),
            News::Opened => station.opened(now, link, links),
            News::Closed(why) => station.closed(now, link, &why, links),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;
    use std::os::fd::{FromRawFd, OwnedFd};

    use super::super::link::SystemNames;
    use super::*;

    /// Links are for nothing.
    struct Idle;

    impl Station for Idle {
        fn accepted(&mut self, _: Time, _: LinkId, _: &mut Links) {}

        fn opened(&mut self, _: Time, _: LinkId, _: &mut Links) {}

        fn place(&mut self, _: LinkId, _: FrameHead, _: &Bytes) -> io::Result<Vec<Place>> {
            Ok(Vec::new())
        }

        fn arrived(&mut self, _: Time, _: LinkId, _: Vec<TensorBuffer>, _: &mut Links) {}

        fn closed(&mut self, _: Time, _: LinkId, _: &io::Error, _: &mut Links) {}

        fn tick(&mut self, _: Time, _: &mut Links) {}

        fn deadline(&self) -> Option<Time> {
            None
        }
    }

    /// A process without links whose poll is lent to the test.
    fn idle() -> (Core<Idle>, Poll) {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).unwrap());
        let names = Arc::new(SystemNames);
        let look_ups = LookUps::new(names, Duration::ZERO, Arc::clone(&waker));
        let registry = poll.registry().try_clone().unwrap();
        let state = State {
            station: Idle,
            links: Links::new(registry, Vec::new(), 1, look_ups),
            poll: None,
            sleeps_until: None,
            others: 0,
            last_wait: Instant::now(),
            complained: None,
            is_stopped: false,
        };
        let (clock, spin) = (Clock::start(), Duration::ZERO);
        let state = Mutex::new(state);
        (Core { state, free: Condvar::new(), waker, clock, spin }, poll)
    }

    /// Has a file take the place of what the poll waits with: the system refuses to wait.
    fn break_poll(poll: &Poll) {
        let file = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the descriptor is the poll's, which closes it; here it is only given another file.
        let place = unsafe { OwnedFd::from_raw_fd(poll.as_raw_fd()) };
        let mut place = ManuallyDrop::new(place);
        rustix::io::dup2(&file, &mut place).unwrap();
    }

    #[test]
    fn a_system_that_does_not_wait_is_asked_again_after_a_pause_and_complained_of_once() {
        let (core, poll) = idle();
        break_poll(&poll);
        let waits = (poll, Events::with_capacity(1));
        let began = Instant::now();
        let mut state = core.look(core.lock(), waits, Some(Duration::from_millis(1)));
        assert!(began.elapsed() >= TROUBLE_PAUSE, "{:?}", began.elapsed());
        let complained = state.complained.expect("a line tells of it");
        state.complain(&io::Error::other("again"));
        assert_eq!(state.complained, Some(complained), "one line is enough");
    }
}
