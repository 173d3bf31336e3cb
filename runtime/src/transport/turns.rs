//! Turns of connections: one that has much to say, or many calls to be answered, lets others go on.
//!
//! All calls of a connection are worked on in the connection's own task. So the scheduler, which takes one
//! task after the other, gives each connection its turn, however many calls another one makes.
//!
//! A connection whose turn ends before its work does is busy. Where many are, each needs a place at the gate
//! for its next turn, or has a short one.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use hyper::rt::Executor;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::frames::{Frames, cost_of_calls};
use super::gate::{Passage, Way};

/// Reads of a connection in one turn. What is short comes 8 KiB at a time.
const READS_OF_TURN: u32 = 4;

/// The most bytes that a connection reads beyond the frame that it is in, and the most of this frame. It
/// holds bytes that it may not use in its turn until the next one.
const READ_AHEAD_BYTES: usize = 32 << 10;
const READ_BYTES_MAX: usize = 256 << 10;

/// How many calls a connection begins in one turn, and how often it works on a call. One change of a key may
/// wake thousands of its watches.
struct Allowance {
    calls: u32,
    work: u32,
}

/// Each connection may do this much while many have more to do: a stranger may have thousands of them.
const LITTLE: Allowance = Allowance { calls: 4, work: 8 };
/// A connection may do this much with a place at the gate, and while few have more to do.
const MUCH: Allowance = Allowance { calls: 16, work: 32 };

/// In each turn, frames beside those of calls may cost this much. A client begins with such frames.
const COST_OF_OTHERS: u32 = 48;

/// Calls of a connection that has ended that are cancelled in one turn.
const CANCELS_OF_TURN: usize = 256;

/// How much a connection may still do in its turn.
#[derive(Debug, Default)]
struct Turn {
    /// Whether the connection waits. Then nothing is read.
    waits: AtomicBool,
    /// Whether it looks, while it waits, if its client has left.
    looks: AtomicBool,
    /// Reads that are left.
    reads: AtomicU32,
    /// The cost that the frames which it reads may still have.
    frames: AtomicU32,
    /// Whether it has frames that cost more, or more work.
    has_more: AtomicBool,
    /// Whether it has read all that is there.
    is_dry: AtomicBool,
    /// How often it may still work on a call.
    work: AtomicU32,
}

/// The other side of a connection.
pub(super) trait Peer {
    /// Whether it will send nothing more. What it has sent may be unread.
    fn has_left(&self) -> bool;
}

impl Peer for TcpStream {
    fn has_left(&self) -> bool {
        let readiness = self.ready(Interest::READABLE).now_or_never();
        readiness.is_some_and(|it| it.is_ok_and(|ready| ready.is_read_closed()))
    }
}

/// Takes one of those that are left, if there is one. Only the connection's task does.
fn take_one(left: &AtomicU32) -> bool {
    let one_less = left.load(Ordering::Relaxed).checked_sub(1);
    one_less.inspect(|one_less| left.store(*one_less, Ordering::Relaxed)).is_some()
}

/// Lets all other tasks that are ready have their turns first. After `tokio::task::yield_now` a task would
/// have its next turn before most of them.
pub(super) async fn end_turn() {
    let mut has_ended = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_ended, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The stream of a connection, which is read in turns from now on, and the calls of this connection.
pub(super) fn in_turns<S>(stream: S, way: Way) -> (InTurns<S>, UnderWay) {
    let turn = Arc::<Turn>::default();
    let (frames, held) = (Frames::default(), Bytes::new());
    let stream = InTurns { stream, turn: Arc::clone(&turn), frames, held };
    let under_way = UnderWay {
        begun: Begun::default(),
        calls: FuturesUnordered::new(),
        turn,
        way,
        is_free: false,
    };
    (stream, under_way)
}

/// A stream that is read a little in each turn.
pub(super) struct InTurns<S> {
    stream: S,
    turn: Arc<Turn>,
    frames: Frames,
    /// Bytes that the connection has read, and may use in its next turn.
    held: Bytes,
}

impl<S: AsyncRead + Unpin> InTurns<S> {
    /// Reads from the stream, and holds what costs too much in this turn.
    fn poll_stream(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let most = self.frames.left().min(READ_BYTES_MAX).saturating_add(READ_AHEAD_BYTES);
        let read = if most < buffer.remaining() {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
            let read = Pin::new(&mut self.stream).poll_read(context, &mut part);
            let count = part.filled().len();
            buffer.advance(count);
            read
        } else {
            Pin::new(&mut self.stream).poll_read(context, buffer)
        };
        let bytes = buffer.filled().get(before..).unwrap_or_default();
        let passed = self.pass(bytes);
        if passed < bytes.len() {
            self.held = Bytes::copy_from_slice(bytes.get(passed..).unwrap_or_default());
            buffer.set_filled(before.saturating_add(passed));
        }
        read
    }

    /// Reads of what is held.
    fn read_held(&mut self, buffer: &mut ReadBuf<'_>) {
        let bytes = self.held.slice(..self.held.len().min(buffer.remaining()));
        let passed = self.pass(&bytes);
        buffer.put_slice(bytes.get(..passed).unwrap_or_default());
        self.held.advance(passed);
        if self.held.is_empty() {
            self.held = Bytes::new();
        }
    }

    /// How many of these bytes the connection may use in this turn.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        let mut allowance = self.turn.frames.load(Ordering::Relaxed);
        let passed = self.frames.pass(bytes, &mut allowance);
        self.turn.frames.store(allowance, Ordering::Relaxed);
        passed
    }

    /// Ends the turn, since there is more to read.
    fn end_turn(context: &Context<'_>) -> Poll<io::Result<()>> {
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: AsyncRead + Peer + Unpin> AsyncRead for InTurns<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.turn.waits.load(Ordering::Relaxed) {
            let has_left = self.turn.looks.load(Ordering::Relaxed) && self.stream.has_left();
            return if has_left { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let before = buffer.filled().len();
        // The reader asks again in the same turn for each call that has begun.
        let read = if !self.held.is_empty() {
            self.read_held(buffer);
            Poll::Ready(Ok(()))
        } else if self.turn.is_dry.load(Ordering::Relaxed) {
            return Poll::Pending;
        } else if take_one(&self.turn.reads) {
            self.poll_stream(context, buffer)
        } else {
            return Self::end_turn(context);
        };
        self.turn.is_dry.store(read.is_pending(), Ordering::Relaxed);
        if !self.held.is_empty() && buffer.filled().len() == before {
            self.turn.has_more.store(true, Ordering::Relaxed);
            return Self::end_turn(context);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for InTurns<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the calls of a connection begin.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<Mutex<Vec<Work>>>);

impl Begun {
    fn take(&self) -> Vec<Work> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Begun {
    fn execute(&self, call: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(call));
    }
}

/// A call that waits for its connection's next turn when there is no more work in this one.
struct InTurn {
    work: Work,
    turn: Arc<Turn>,
}

impl Future for InTurn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !take_one(&self.turn.work) {
            self.turn.has_more.store(true, Ordering::Relaxed);
            // After two calls that do so the connection's turn ends.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.work.as_mut().poll(context)
    }
}

/// The calls of a connection. Dropping them cancels them.
pub(super) struct UnderWay {
    begun: Begun,
    calls: FuturesUnordered<InTurn>,
    turn: Arc<Turn>,
    way: Way,
    /// Whether it needs no place in this turn.
    is_free: bool,
}

impl UnderWay {
    /// Where calls begin.
    pub(super) fn begun(&self) -> Begun {
        self.begun.clone()
    }

    /// Begins the connection's next turn.
    pub(super) fn begin_turn(&mut self, context: &mut Context<'_>) {
        self.is_free = self.way.is_free();
        let passage = self.way.is_busy().then(|| self.pass(context));
        let Allowance { calls, work } = match passage {
            Some(Passage::Place) => MUCH,
            None if self.is_free => MUCH,
            _ => LITTLE,
        };
        let waits = matches!(passage, Some(Passage::Wait | Passage::Look));
        self.turn.waits.store(waits, Ordering::Relaxed);
        self.turn.looks.store(passage == Some(Passage::Look), Ordering::Relaxed);
        self.turn.has_more.store(false, Ordering::Relaxed);
        self.turn.is_dry.store(false, Ordering::Relaxed);
        self.turn.reads.store(READS_OF_TURN, Ordering::Relaxed);
        let cost = cost_of_calls(calls).saturating_add(COST_OF_OTHERS);
        self.turn.frames.store(cost, Ordering::Relaxed);
        self.turn.work.store(work, Ordering::Relaxed);
    }

    /// Asks for the next turn of a busy connection.
    fn pass(&mut self, context: &mut Context<'_>) -> Passage {
        if self.is_free {
            self.way.leave();
            return Passage::Place;
        }
        self.way.pass(context)
    }

    /// Works on the calls for the rest of the turn.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>) {
        let turn = &self.turn;
        let begun = self.begun.take().into_iter();
        self.calls.extend(begun.map(|work| InTurn { work, turn: Arc::clone(turn) }));
        // A call that goes on later wakes the connection, and so does one for which no work is left.
        while self.calls.poll_next_unpin(context) == Poll::Ready(Some(())) {}
        if self.has_done_much() {
            self.way.was_free();
        }
        if !self.turn.waits.load(Ordering::Relaxed) {
            self.way.be_busy(self.turn.has_more.load(Ordering::Relaxed));
            // A connection that does not read on may sleep: its client may have nothing to say, or leave
            // answers unread.
            if !self.way.is_busy() {
                self.way.leave();
            }
        }
    }

    /// Whether it has done more than a little in this turn, and needed no place.
    fn has_done_much(&self) -> bool {
        let calls = MUCH.calls.saturating_sub(LITTLE.calls);
        let work = MUCH.work.saturating_sub(LITTLE.work);
        self.is_free
            && (self.turn.frames.load(Ordering::Relaxed) < cost_of_calls(calls)
                || self.turn.work.load(Ordering::Relaxed) < work)
    }

    /// Cancels the calls of a connection that has ended, many in several turns.
    pub(super) async fn cancel(self) {
        let Self { calls, way, .. } = self;
        drop(way);
        let mut calls = calls.into_iter();
        while calls.len() > CANCELS_OF_TURN {
            calls.by_ref().take(CANCELS_OF_TURN).for_each(drop);
            end_turn().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::super::frames::{PREFACE, frame};
    use super::super::gate::{Gate, crowded};
    use super::*;

    /// A client that has sent these bytes, sends no more, and may leave.
    struct Client {
        bytes: VecDeque<u8>,
        has_left: Arc<AtomicBool>,
    }

    impl AsyncRead for Client {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let count = self.bytes.len().min(buffer.remaining());
            let bytes: Vec<u8> = self.bytes.drain(..count).collect();
            buffer.put_slice(&bytes);
            if bytes.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
        }
    }

    impl Peer for Client {
        fn has_left(&self) -> bool {
            self.has_left.load(Ordering::SeqCst)
        }
    }

    /// A short call: the frame that begins it, and the frame of its message.
    fn call() -> Vec<u8> {
        [frame(1, 4, 1, &[1; 6]), frame(0, 1, 1, &[7; 41])].concat()
    }

    /// A connection whose client at this address has made so many calls.
    fn connection(gate: &Arc<Gate>, host: u8, calls: usize) -> (InTurns<Client>, UnderWay) {
        let bytes = [PREFACE.to_vec(), call().repeat(calls)].concat();
        let way = Way::new(gate, Ipv4Addr::new(10, 0, 0, host).into());
        in_turns(Client { bytes: bytes.into(), has_left: Arc::default() }, way)
    }

    fn calls_of_one() -> UnderWay {
        connection(&Arc::<Gate>::default(), 1, 0).1
    }

    /// Reads as the library does: it asks again for each call that has begun, also after it was told to wait.
    /// How many bytes it reads.
    fn turn_of<S: AsyncRead + Peer + Unpin>(
        (stream, calls): &mut (InTurns<S>, UnderWay),
        context: &mut Context<'_>,
    ) -> usize {
        calls.begin_turn(context);
        let mut bytes = vec![0; 1 << 20];
        let mut buffer = ReadBuf::new(&mut bytes);
        for _ in 0..100 {
            while Pin::new(&mut *stream).poll_read(context, &mut buffer).is_ready() {}
        }
        calls.go_on(context);
        buffer.filled().len()
    }

    /// How many calls begin in a turn.
    fn turn(connection: &mut (InTurns<Client>, UnderWay), context: &mut Context<'_>) -> usize {
        // The preface is shorter than a call, and the head of the next one may have been read but for a byte.
        (turn_of(connection, context) + 8) / call().len()
    }

    /// A peer that always has something to say, in long frames.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let bytes = vec![7; buffer.remaining().min(8 << 10)];
            buffer.put_slice(&bytes);
            Poll::Ready(Ok(()))
        }
    }

    impl Peer for Endless {
        fn has_left(&self) -> bool {
            false
        }
    }

    fn endless() -> (InTurns<Endless>, UnderWay) {
        let way = Way::new(&Arc::default(), Ipv4Addr::LOCALHOST.into());
        in_turns(Endless, way)
    }

    #[tokio::test]
    async fn a_connection_that_reads_for_ever_lets_others_go_on() {
        let mut connection = endless();
        let reading = tokio::spawn(poll_fn(move |context| {
            turn_of(&mut connection, context);
            Poll::<()>::Pending
        }));
        // With one thread, this task has a turn only if that one gives its turn up.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        reading.abort();
    }

    #[tokio::test]
    async fn a_turn_has_few_reads_however_often_it_is_asked() {
        let mut connection = endless();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert_eq!(turn_of(&mut connection, &mut context), READS_OF_TURN as usize * (8 << 10));
        }
    }

    #[tokio::test]
    async fn a_turn_begins_few_calls_and_all_begin_in_the_end() {
        let gate = Arc::<Gate>::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut connection = connection(&gate, 1, 1000);
        let turns: Vec<_> = (0..56).map(|_| turn(&mut connection, &mut context)).collect();
        assert_eq!(turns.iter().sum::<usize>(), 1000, "{turns:?}");
        assert_eq!(turns[..4], [19; 4]);
        assert_eq!(turns[52..], [1000 - 52 * 19, 0, 0, 0]);
    }

    #[tokio::test]
    async fn busy_connections_wait_at_the_gate_and_others_do_not() {
        let (gate, _crowd) = crowded();
        let mut context = Context::from_waker(Waker::noop());
        let mut busy: Vec<_> = (0..6).map(|_| connection(&gate, 1, 1000)).collect();
        for (first, second) in [(7, 19); 4].into_iter().chain([(7, 0); 2]) {
            let mut next = busy.remove(0);
            assert_eq!(turn(&mut next, &mut context), first);
            assert_eq!(turn(&mut next, &mut context), second);
            busy.push(next);
        }
        let mut other = connection(&gate, 1, 7);
        assert_eq!(turn(&mut other, &mut context), 7);
        // One that had its turn waits behind the others.
        assert_eq!(turn(&mut busy[0], &mut context), 0);
        let next = [4, 5].map(|waiting| turn(&mut busy[waiting], &mut context));
        assert_eq!(next, [19, 0]);
        // One that ends leaves its place too.
        busy.remove(1);
        assert_eq!(turn(&mut busy[4], &mut context), 19);
    }

    #[tokio::test]
    async fn few_of_many_connections_begin_more_than_a_few_calls() {
        let gate = Arc::<Gate>::default();
        let mut context = Context::from_waker(Waker::noop());
        let began = tokio::time::Instant::now();
        let mut many: Vec<_> = (0..100).map(|_| connection(&gate, 1, 16)).collect();
        let begun: Vec<_> =
            many.iter_mut().map(|connection| turn(connection, &mut context)).collect();
        // So many in each span of 50 ms, until more of the others wait for their next turn.
        let spans = began.elapsed().as_millis() as usize / 50 + 2;
        let of_many = begun.iter().filter(|begun| **begun == 16).count();
        assert!((16..=16 * spans).contains(&of_many), "{begun:?}");
        assert_eq!(begun.iter().filter(|begun| **begun == 7).count(), 100 - of_many, "{begun:?}");
        assert_eq!(begun[50..], [7; 50]);
    }

    #[tokio::test]
    async fn work_on_calls_makes_a_connection_busy_too() {
        let (gate, crowd) = crowded();
        let mut context = Context::from_waker(Waker::noop());
        let (mut little, mut much) = (connection(&gate, 1, 0), connection(&gate, 1, 0));
        (0..8).for_each(|_| little.1.begun().execute(async {}));
        (0..9).for_each(|_| much.1.begun().execute(async {}));
        turn(&mut little, &mut context);
        turn(&mut much, &mut context);
        assert!(!little.1.way.is_busy() && much.1.way.is_busy());
        // Where few are busy it needs no place, and is done.
        drop(crowd);
        turn(&mut much, &mut context);
        assert!(!much.1.way.is_busy() && much.1.calls.is_empty());
    }

    #[tokio::test]
    async fn busy_connections_have_their_places_in_turn() {
        let (gate, _crowd) = crowded();
        let mut context = Context::from_waker(Waker::noop());
        let mut busy: Vec<_> = (0..10).map(|_| connection(&gate, 1, 100_000)).collect();
        let mut begun = [0; 10];
        for _ in 0..200 {
            // In a task of its own each turn may ask as often as it likes.
            end_turn().await;
            for (begun, connection) in begun.iter_mut().zip(&mut busy) {
                *begun += turn(connection, &mut context);
            }
        }
        let (least, most) = (begun.iter().min().unwrap(), begun.iter().max().unwrap());
        assert!(*least > 0 && most - least <= 2 * 19, "{begun:?}");
    }

    #[tokio::test]
    async fn an_address_with_many_busy_connections_does_not_keep_another_waiting() {
        let (gate, _crowd) = crowded();
        let mut context = Context::from_waker(Waker::noop());
        let mut many: Vec<_> = (0..50).map(|_| connection(&gate, 1, 1_000_000)).collect();
        for connection in &mut many {
            turn(connection, &mut context);
            turn(connection, &mut context);
        }
        let mut other = connection(&gate, 2, 1000);
        turn(&mut other, &mut context);
        let mut rounds = 0;
        while turn(&mut other, &mut context) == 0 {
            end_turn().await;
            for connection in &mut many {
                turn(connection, &mut context);
            }
            rounds += 1;
            assert!(rounds < 20);
        }
    }

    /// Its client has sent calls that wait for the next turn, and the library asks for none: it may have no
    /// room.
    #[tokio::test]
    async fn a_connection_that_does_not_read_on_leaves_its_place_at_the_gate() {
        let (gate, _crowd) = crowded();
        let mut context = Context::from_waker(Waker::noop());
        let mut all: Vec<_> = (0..5).map(|_| connection(&gate, 1, 1000)).collect();
        for connection in &mut all {
            turn(connection, &mut context);
        }
        let (last, first) = all.split_last_mut().unwrap();
        for connection in &mut *first {
            connection.1.begin_turn(&mut context);
        }
        assert_eq!(turn(last, &mut context), 0, "the others have the places");
        first[0].1.go_on(&mut context);
        assert_eq!(turn(last, &mut context), 19);
    }

    #[tokio::test]
    async fn a_connection_that_waits_sees_that_its_client_has_left() {
        let (gate, _crowd) = crowded();
        let mut places: Vec<_> =
            (0..4).map(|_| Way::new(&gate, Ipv4Addr::LOCALHOST.into())).collect();
        for place in &mut places {
            place.pass(&mut Context::from_waker(Waker::noop()));
        }
        let mut connection = connection(&gate, 1, 1000);
        turn_of(&mut connection, &mut Context::from_waker(Waker::noop()));
        let has_left = Arc::clone(&connection.0.stream.has_left);
        let ended = tokio::spawn(poll_fn(move |context| {
            connection.1.begin_turn(context);
            let mut buffer = [0; 64];
            let read =
                Pin::new(&mut connection.0).poll_read(context, &mut ReadBuf::new(&mut buffer));
            connection.1.go_on(context);
            read.map(Result::unwrap)
        }));
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(!ended.is_finished());
        has_left.store(true, Ordering::SeqCst);
        tokio::time::timeout(Duration::from_secs(1), ended).await.unwrap().unwrap();
    }

    /// Counts how often a connection is woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn a_connection_is_woken_for_what_it_may_do_and_not_while_it_waits() {
        let (gate, _crowd) = crowded();
        let mut others: Vec<_> = (0..4).map(|_| connection(&gate, 1, 1000)).collect();
        for other in &mut others {
            turn(other, &mut Context::from_waker(Waker::noop()));
            turn(other, &mut Context::from_waker(Waker::noop()));
        }
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut is_woken = |connection: &mut (InTurns<Client>, UnderWay)| {
            let before = woken.0.load(Ordering::SeqCst);
            turn(connection, &mut context);
            woken.0.load(Ordering::SeqCst) > before
        };
        let mut quiet = connection(&gate, 1, 4);
        assert!(!is_woken(&mut quiet), "it has read what is there");
        let mut busy = connection(&gate, 1, 1000);
        assert!(is_woken(&mut busy), "it has more");
        assert!(!is_woken(&mut busy), "it waits at the gate");
        let before = woken.0.load(Ordering::SeqCst);
        others.pop();
        assert!(woken.0.load(Ordering::SeqCst) > before, "a place is free");
        assert!(is_woken(&mut busy), "it has more");
    }

    /// A connection bounds the bytes that it holds for its next turn, whatever room the reader has.
    #[tokio::test]
    async fn a_connection_reads_little_ahead() {
        let gate = Arc::<Gate>::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut connection = connection(&gate, 1, 100_000);
        for _ in 0..5 {
            turn(&mut connection, &mut context);
            assert!(connection.0.held.len() <= READ_AHEAD_BYTES, "{}", connection.0.held.len());
        }
    }

    /// How many turns the calls need until they have counted so far. In each turn they count a bounded
    /// number.
    async fn turns_until(calls: &mut UnderWay, count: &AtomicUsize, all: usize) -> usize {
        let mut turns = 0;
        poll_fn(|context| {
            let before = count.load(Ordering::SeqCst);
            calls.begin_turn(context);
            calls.go_on(context);
            let now = count.load(Ordering::SeqCst);
            assert!(now - before <= MUCH.work as usize, "{}", now - before);
            turns += 1;
            if now == all { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        turns
    }

    #[tokio::test]
    async fn calls_end_in_several_turns_and_none_is_forgotten() {
        const CALLS: usize = 320;
        let mut under_way = calls_of_one();
        let ended = Arc::new(AtomicUsize::new(0));
        for number in 0..CALLS {
            let ended = Arc::clone(&ended);
            under_way.begun().execute(async move {
                if number % 2 == 0 {
                    tokio::task::yield_now().await;
                }
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        let turns = turns_until(&mut under_way, &ended, CALLS).await;
        assert!(turns >= CALLS / MUCH.work as usize, "{turns}");
    }

    #[tokio::test]
    async fn calls_that_all_go_on_at_once_do_so_in_several_turns() {
        const CALLS: usize = 1000;
        let mut under_way = calls_of_one();
        let (went_on, worked) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        for _ in 0..CALLS {
            let (went_on, worked) = (Arc::clone(&went_on), Arc::clone(&worked));
            under_way.begun().execute(async move {
                loop {
                    worked.fetch_add(1, Ordering::SeqCst);
                    went_on.notified().await;
                }
            });
        }
        for all in [CALLS, 2 * CALLS] {
            let turns = turns_until(&mut under_way, &worked, all).await;
            assert!(turns <= CALLS / MUCH.work as usize + 1, "{turns}");
            went_on.notify_waiters();
        }
    }

    #[tokio::test]
    async fn many_calls_of_an_ended_connection_go_in_several_turns() {
        const CALLS: usize = 5 * CANCELS_OF_TURN;
        let mut calls = calls_of_one();
        let kept = Arc::new(());
        for _ in 0..CALLS {
            let held = Arc::clone(&kept);
            calls.begun().execute(async move {
                std::future::pending::<()>().await;
                drop(held);
            });
        }
        calls.go_on(&mut Context::from_waker(Waker::noop()));
        // Both are tasks, which have their turns one after the other.
        let cancelling = tokio::spawn(calls.cancel());
        let looking_on = tokio::spawn(async move {
            let (mut left, mut turns) = (CALLS, 0);
            while left > 0 {
                let now = Arc::strong_count(&kept) - 1;
                assert!(left - now <= CANCELS_OF_TURN, "{now} after {left}");
                (left, turns) = (now, turns + 1);
                assert!(turns < 100);
                end_turn().await;
            }
        });
        looking_on.await.unwrap();
        cancelling.await.unwrap();
    }

    #[test]
    fn calls_go_with_their_connection() {
        let mut under_way = calls_of_one();
        let kept = Arc::new(());
        let held = Arc::clone(&kept);
        under_way.begun().execute(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        let mut context = Context::from_waker(Waker::noop());
        under_way.begin_turn(&mut context);
        under_way.go_on(&mut context);
        assert_eq!(Arc::strong_count(&kept), 2);
        drop(under_way);
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
