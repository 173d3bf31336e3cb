//! The gate of a process. Connections that bring much work pass it a few at a time, so that the others have
//! their turns soon, and so that few connections have many calls under way.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

use super::places::network;

/// Busy connections that have a place at a time.
const PLACES: usize = 4;

/// While so many connections or fewer are busy, none needs a place. The same holds for those that do more
/// than a little in a turn, in each of these spans.
const FREE_MAX: usize = 16;
const FREE_SPAN: Duration = Duration::from_millis(50);

/// How often a connection that waits looks whether its client has left.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The gate of a process: all its servers share it.
#[derive(Debug)]
pub struct Gate {
    places: Arc<Semaphore>,
    /// For each address a semaphore with as many permits as there are places: so many of its connections have
    /// a place or are next. The others wait for these, so they do not keep another address waiting.
    of_address: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
    began: Instant,
    /// The present span, counted from the beginning.
    span: AtomicU64,
    /// Connections without a place that have brought more than a little in it.
    free: AtomicUsize,
    /// Connections whose last turn ended before their work did.
    busy: AtomicUsize,
}

/// The place of a connection, and its share of those of its address.
type Place = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Default for Gate {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(PLACES)),
            of_address: Mutex::default(),
            began: Instant::now(),
            span: AtomicU64::new(0),
            free: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
        }
    }
}

impl Gate {
    /// Waits for a place. `None` never comes: the semaphores are never closed.
    async fn place(self: Arc<Self>, of_address: Arc<Semaphore>) -> Option<Place> {
        let of_address = of_address.acquire_owned().await.ok()?;
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        Some((of_address, place))
    }

    /// The present span.
    fn span(&self) -> u64 {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let span = now / FREE_SPAN.as_millis() as u64;
        if self.span.fetch_max(span, Ordering::Relaxed) < span {
            self.free.store(0, Ordering::Relaxed);
        }
        span
    }

    /// The semaphore that bounds how many connections of this address have a place or are next.
    fn of_address(&self, address: IpAddr) -> Arc<Semaphore> {
        let mut all = self.of_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_address) = all.get(&address).and_then(Weak::upgrade) {
            return of_address;
        }
        // Of most addresses no connection is busy any more.
        all.retain(|_, of_address| of_address.strong_count() > 0);
        let of_address = Arc::new(Semaphore::new(PLACES));
        all.insert(address, Arc::downgrade(&of_address));
        of_address
    }
}

/// A connection's way through the gate.
pub(super) struct Way {
    gate: Arc<Gate>,
    address: IpAddr,
    /// The semaphore of the address, while this connection is busy.
    of_address: Option<Arc<Semaphore>>,
    place: Option<Place>,
    waiting: Option<Waiting>,
    /// The span in which the connection was counted last.
    span: Option<u64>,
    is_busy: bool,
}

/// A connection waits for a place.
struct Waiting {
    place: Pin<Box<dyn Future<Output = Option<Place>> + Send>>,
    look: Pin<Box<Sleep>>,
}

/// Whether a busy connection has a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// It has a place.
    Place,
    /// It waits, and looks whether its client is still there.
    Look,
    /// It waits. It is woken when it has a place, or looks again.
    Wait,
}

impl Way {
    /// The way of a connection from this address.
    pub(super) fn new(gate: &Arc<Gate>, address: IpAddr) -> Self {
        let (gate, address) = (Arc::clone(gate), network(address));
        Self {
            gate,
            address,
            of_address: None,
            place: None,
            waiting: None,
            span: None,
            is_busy: false,
        }
    }

    /// Whether the connection may bring more than a little in its next turn, although it has no place.
    pub(super) fn is_free(&self) -> bool {
        let span = self.gate.span();
        self.gate.busy.load(Ordering::Relaxed) <= FREE_MAX
            && (self.span == Some(span) || self.gate.free.load(Ordering::Relaxed) < FREE_MAX)
    }

    /// Whether the connection's last turn ended before its work did.
    pub(super) const fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Learns whether the connection's last turn ended before its work did.
    pub(super) fn be_busy(&mut self, is_busy: bool) {
        match (self.is_busy, is_busy) {
            (false, true) => self.gate.busy.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.gate.busy.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
        self.is_busy = is_busy;
    }

    /// The connection did more than a little in this turn, without a place.
    pub(super) fn was_free(&mut self) {
        let span = self.gate.span();
        if self.span.replace(span) != Some(span) {
            self.gate.free.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Asks for the next turn.
    pub(super) fn pass(&mut self, context: &mut Context<'_>) -> Passage {
        // That of the last turn. Others wait for it.
        self.place = None;
        let (gate, address) = (&self.gate, self.address);
        let of_address = self.of_address.get_or_insert_with(|| gate.of_address(address));
        let waiting = self.waiting.get_or_insert_with(|| Waiting {
            place: Box::pin(Arc::clone(gate).place(Arc::clone(of_address))),
            look: Box::pin(sleep(LOOK_INTERVAL)),
        });
        if let Poll::Ready(place) = waiting.place.as_mut().poll(context) {
            (self.waiting, self.place) = (None, place);
            return Passage::Place;
        }
        if waiting.look.as_mut().poll(context).is_pending() {
            return Passage::Wait;
        }
        waiting.look = Box::pin(sleep(LOOK_INTERVAL));
        if waiting.look.as_mut().poll(context).is_ready() {
            context.waker().wake_by_ref();
        }
        Passage::Look
    }

    /// Gives the place to another connection, and waits for none.
    pub(super) fn leave(&mut self) {
        (self.of_address, self.place, self.waiting) = (None, None, None);
    }
}

/// A gate where so many are busy that each needs a place.
#[cfg(test)]
pub(super) fn crowded() -> (Arc<Gate>, Vec<Way>) {
    let gate = Arc::<Gate>::default();
    let way = |_| Way::new(&gate, std::net::Ipv4Addr::new(10, 9, 9, 9).into());
    let mut crowd: Vec<_> = (0..=FREE_MAX).map(way).collect();
    crowd.iter_mut().for_each(|way| way.be_busy(true));
    (gate, crowd)
}

impl Drop for Way {
    fn drop(&mut self) {
        self.be_busy(false);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn way(gate: &Arc<Gate>, address: &str) -> Way {
        Way::new(gate, address.parse().unwrap())
    }

    /// Each poll is that of a task of its own, which may ask as often as it likes.
    async fn passes(way: &mut Way) -> bool {
        tokio::task::yield_now().await;
        way.pass(&mut Context::from_waker(Waker::noop())) == Passage::Place
    }

    #[tokio::test]
    async fn a_connection_that_no_longer_waits_keeps_no_place_from_others() {
        let gate = Arc::<Gate>::default();
        let mut ways: Vec<_> = (0..6).map(|_| way(&gate, "10.0.0.1")).collect();
        let mut passed = Vec::new();
        for way in &mut ways {
            passed.push(passes(way).await);
        }
        assert_eq!(passed, [true, true, true, true, false, false]);
        // The fifth one is next, and gives up before it learns so.
        ways[0].leave();
        ways[4].leave();
        assert!(passes(&mut ways[5]).await);
        assert!(!passes(&mut ways[0]).await && !passes(&mut ways[4]).await);
    }

    #[tokio::test]
    async fn a_place_lasts_for_one_turn() {
        let gate = Arc::<Gate>::default();
        let mut ways: Vec<_> = (0..5).map(|_| way(&gate, "10.0.0.1")).collect();
        let mut turns = [0; 5];
        for _ in 0..100 {
            for (turns, way) in turns.iter_mut().zip(&mut ways) {
                *turns += u32::from(passes(way).await);
            }
        }
        let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
        assert!(*least > 40 && most - least <= 1, "{turns:?}");
    }

    #[tokio::test]
    async fn few_connections_bring_much_without_a_place() {
        let gate = Arc::<Gate>::default();
        let mut ways: Vec<_> = (0..100).map(|_| way(&gate, "10.0.0.1")).collect();
        let mut spans = 0;
        while spans < 3 {
            let (span, mut free) = (gate.span(), 0);
            for way in &mut ways {
                if way.is_free() {
                    way.was_free();
                    way.was_free();
                    free += 1;
                }
            }
            let (first, last) = (ways[0].is_free(), ways[99].is_free());
            // Else a span ended meanwhile.
            if gate.span() == span {
                assert_eq!((free, first, last), (FREE_MAX, true, false), "{spans}");
                spans += 1;
            }
            ways.reverse();
            sleep(2 * FREE_SPAN).await;
        }
    }

    #[tokio::test]
    async fn where_many_are_busy_each_needs_a_place() {
        let gate = Arc::<Gate>::default();
        let mut ways: Vec<_> = (0..17).map(|_| way(&gate, "10.0.0.1")).collect();
        let quiet = way(&gate, "10.0.0.2");
        for way in &mut ways {
            assert!(quiet.is_free());
            way.be_busy(true);
            way.be_busy(true);
        }
        assert!(!quiet.is_free());
        ways[3].be_busy(false);
        assert!(quiet.is_free());
        ways[3].be_busy(true);
        assert!(!quiet.is_free());
        ways.remove(0);
        assert!(quiet.is_free());
    }

    #[tokio::test]
    async fn an_address_has_as_many_that_wait_for_a_place_as_there_are_places() {
        let gate = Arc::<Gate>::default();
        let hosts = ["2001:db8::1", "2001:db8::2"];
        let mut many: Vec<_> = hosts.iter().cycle().take(50).map(|host| way(&gate, host)).collect();
        for way in &mut many {
            passes(way).await;
        }
        let mut other = way(&gate, "2001:db8:0:1::1");
        assert!(!passes(&mut other).await);
        // Those with places leave, one after the other. No more than four are before the other address.
        let mut left = 0;
        while !passes(&mut other).await {
            let (first, rest) = many.split_first_mut().unwrap();
            first.leave();
            left += 1;
            for way in rest {
                passes(way).await;
            }
            many.remove(0);
        }
        assert_eq!(left, 1, "the places are free in the order in which connections asked");
        drop(many);
        let mut later = way(&gate, "10.0.0.1");
        assert!(passes(&mut later).await);
        let addresses = gate.of_address.lock().unwrap().len();
        assert_eq!(addresses, 2, "the other one's and the later one's");
    }
}
