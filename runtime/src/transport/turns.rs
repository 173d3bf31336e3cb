//! Turns of connections: one that has much to say, or many calls to be answered, lets others go on.
//!
//! All calls of a connection are worked on in the connection's own task. So the scheduler, which takes one
//! task after the other, gives each connection its turn, however many calls another one makes.
//!
//! A connection that begins many calls in a turn is busy. Few busy connections have turns at a time, and the
//! others wait at a gate: else a thousand of them would make each round of turns a thousand turns long.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::rt::Executor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// Reads of a connection in one turn. What is short comes 8 KiB at a time.
const READS_OF_TURN: u32 = 4;

/// A connection that begins more calls than this in a turn reads less in its next turn. The server needs more
/// time for a short call than for its bytes.
const BEGINS_OF_TURN: usize = 16;

/// The most bytes that such a connection reads in its next turn, and a new one in its first: those of about
/// as many short calls.
const READ_BYTES_FEW: usize = 2 << 10;

/// Calls of a connection that has ended that are cancelled in one turn.
const CANCELS_OF_TURN: usize = 256;

/// Busy connections of a server that have turns at a time.
const BUSY_MAX: usize = 4;

/// Turns of a busy connection until it waits at the gate again: in these it begins a few thousand calls. If
/// it had fewer, all connections of a stranger would have a part of their calls under way, and take memory.
const TURNS_OF_BUSY: u32 = 128;

/// A connection that waits at the gate has a turn after this time all the same: it must read that its peer
/// lives, and that its answers were read.
const GATE_PATIENCE: Duration = Duration::from_secs(1);

/// Turns in which a new connection reads few bytes. In the first one it reads the preface of HTTP/2.
const FIRST_TURNS: u32 = 2;

/// How often a connection works on a call in one turn. One change of a key may wake thousands of its watches.
const WORK_OF_TURN: u32 = 32;

/// How much a connection may still do in its turn.
#[derive(Debug, Default)]
struct Turn {
    /// Reads that are left.
    reads: AtomicU32,
    /// Whether a read takes few bytes.
    reads_few: AtomicBool,
    /// Whether the connection waits at the gate. Then nothing is read.
    is_waiting: AtomicBool,
    /// Whether the connection would read more in this turn if it might.
    wants_more: AtomicBool,
    /// How often the connection may still work on a call.
    work: AtomicU32,
}

/// Takes one of those that are left, if there is one. Only the connection's task does.
fn take_one(left: &AtomicU32) -> bool {
    let one_less = left.load(Ordering::Relaxed).checked_sub(1);
    one_less.inspect(|one_less| left.store(*one_less, Ordering::Relaxed)).is_some()
}

/// A stream that is read a little in each turn.
pub(super) struct InTurns<S> {
    stream: S,
    turn: Arc<Turn>,
}

/// The gate of a server, through which few busy connections pass at a time.
pub(super) fn gate() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(BUSY_MAX))
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

/// The stream of a connection, which is read in turns from now on, and the calls of this connection. All
/// connections of a server share its gate.
pub(super) fn in_turns<S>(stream: S, gate: &Arc<Semaphore>) -> (InTurns<S>, UnderWay) {
    let turn = Arc::<Turn>::default();
    let stream = InTurns { stream, turn: Arc::clone(&turn) };
    let under_way = UnderWay {
        begun: Begun::default(),
        calls: FuturesUnordered::new(),
        turn,
        gate: Gate::new(gate),
        first_turns: FIRST_TURNS,
        begins_many: false,
        is_busy: false,
    };
    (stream, under_way)
}

impl<S: AsyncRead + Unpin> InTurns<S> {
    /// Reads a few bytes.
    fn poll_read_few(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = buffer.remaining().min(READ_BYTES_FEW);
        let mut few = ReadBuf::new(buffer.initialize_unfilled_to(most));
        let read = Pin::new(&mut self.stream).poll_read(context, &mut few);
        let count = few.filled().len();
        buffer.advance(count);
        read
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for InTurns<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.turn.is_waiting.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        // The reader asks again in the same turn for each call that has begun.
        if !take_one(&self.turn.reads) {
            self.turn.wants_more.store(true, Ordering::Relaxed);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.turn.reads_few.load(Ordering::Relaxed) {
            true => self.poll_read_few(context, buffer),
            false => Pin::new(&mut self.stream).poll_read(context, buffer),
        }
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
            // After two calls that do so the connection's turn ends.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.work.as_mut().poll(context)
    }
}

/// A connection's way through the gate of its server.
struct Gate {
    gate: Arc<Semaphore>,
    place: Option<OwnedSemaphorePermit>,
    /// Turns that are left until the connection gives its place to another one.
    turns_left: u32,
    waiting: Option<Waiting>,
}

/// A connection waits for a place.
struct Waiting {
    place: Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>,
    /// When it has a turn without a place.
    patience: Pin<Box<Sleep>>,
}

impl Gate {
    fn new(gate: &Arc<Semaphore>) -> Self {
        Self { gate: Arc::clone(gate), place: None, turns_left: 0, waiting: None }
    }

    /// Whether the connection is through for one more turn. Else the connection is woken when it is.
    fn pass(&mut self, context: &mut Context<'_>) -> bool {
        if self.place.is_some() {
            self.turns_left = self.turns_left.saturating_sub(1);
            return true;
        }
        let gate = &self.gate;
        let waiting = self.waiting.get_or_insert_with(|| {
            let place = Arc::clone(gate).acquire_owned();
            Waiting {
                place: Box::pin(async { place.await.ok() }),
                patience: Box::pin(sleep(GATE_PATIENCE)),
            }
        });
        if let Poll::Ready(place) = waiting.place.as_mut().poll(context) {
            (self.waiting, self.place, self.turns_left) = (None, place, TURNS_OF_BUSY);
            return true;
        }
        let is_patient = waiting.patience.as_mut().poll(context).is_pending();
        if !is_patient {
            waiting.patience = Box::pin(sleep(GATE_PATIENCE));
            // The next turn looks at it again.
            context.waker().wake_by_ref();
        }
        !is_patient
    }

    /// Gives the place to another connection.
    fn leave(&mut self) {
        self.place = None;
    }
}

/// The calls of a connection. Dropping them cancels them.
pub(super) struct UnderWay {
    begun: Begun,
    calls: FuturesUnordered<InTurn>,
    turn: Arc<Turn>,
    gate: Gate,
    /// Turns that are left in which a new connection reads few bytes.
    first_turns: u32,
    /// Whether the connection has begun many calls in the last turn in which it read.
    begins_many: bool,
    /// Whether it would have read more then.
    is_busy: bool,
}

impl UnderWay {
    /// Where calls begin.
    pub(super) fn begun(&self) -> Begun {
        self.begun.clone()
    }

    /// Begins the connection's next turn.
    pub(super) fn begin_turn(&mut self, context: &mut Context<'_>) {
        let reads_few = self.begins_many || self.first_turns > 0;
        self.first_turns = self.first_turns.saturating_sub(1);
        let is_waiting = self.is_busy && !self.gate.pass(context);
        self.turn.reads_few.store(reads_few, Ordering::Relaxed);
        self.turn.is_waiting.store(is_waiting, Ordering::Relaxed);
        self.turn.wants_more.store(false, Ordering::Relaxed);
        self.turn.reads.store(if reads_few { 1 } else { READS_OF_TURN }, Ordering::Relaxed);
        self.turn.work.store(WORK_OF_TURN, Ordering::Relaxed);
    }

    /// Cancels the calls of a connection that has ended, many in several turns.
    pub(super) async fn cancel(self) {
        let Self { calls, gate, .. } = self;
        drop(gate);
        let mut calls = calls.into_iter();
        while calls.len() > CANCELS_OF_TURN {
            calls.by_ref().take(CANCELS_OF_TURN).for_each(drop);
            end_turn().await;
        }
    }

    /// Works on the calls for the rest of the turn.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>) {
        let begun = self.begun.take();
        if !self.turn.is_waiting.load(Ordering::Relaxed) {
            self.begins_many = begun.len() > BEGINS_OF_TURN;
            // Who does not read on may sleep: its client may have nothing to say, or leave answers unread.
            self.is_busy = self.begins_many && self.turn.wants_more.load(Ordering::Relaxed);
            if !self.is_busy {
                self.gate.waiting = None;
            }
            if !self.is_busy || self.gate.turns_left == 0 {
                self.gate.leave();
            }
        }
        let turn = &self.turn;
        self.calls.extend(begun.into_iter().map(|work| InTurn { work, turn: Arc::clone(turn) }));
        // A call that goes on later wakes the connection, and so does one for which no work is left.
        while self.calls.poll_next_unpin(context) == Poll::Ready(Some(())) {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Waker;

    use tokio::sync::Notify;
    use tokio::time::Instant;

    use super::*;

    /// A peer that always has something to say.
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

    fn one(gate: &Arc<Semaphore>) -> (InTurns<Endless>, UnderWay) {
        in_turns(Endless, gate)
    }

    fn calls_of_one() -> UnderWay {
        one(&gate()).1
    }

    #[tokio::test]
    async fn a_connection_that_reads_for_ever_lets_others_go_on() {
        let (mut stream, mut calls) = one(&gate());
        let reading = tokio::spawn(poll_fn(move |context| {
            calls.begin_turn(context);
            while read(&mut stream, context).is_ready() {}
            Poll::<()>::Pending
        }));
        // With one thread, this task has a turn only if that one gives its turn up.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        reading.abort();
    }

    /// Reads eight bytes.
    fn read(stream: &mut InTurns<Endless>, context: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [0; 8];
        let read = Pin::new(stream).poll_read(context, &mut ReadBuf::new(&mut bytes));
        read.map(Result::unwrap)
    }

    /// Has a turn, in which so many calls begin. How many bytes it reads.
    fn turn(
        (stream, calls): &mut (InTurns<Endless>, UnderWay),
        begins: usize,
        context: &mut Context<'_>,
    ) -> usize {
        calls.begin_turn(context);
        let mut bytes = vec![0; 64 << 10];
        let mut buffer = ReadBuf::new(&mut bytes);
        while Pin::new(&mut *stream).poll_read(context, &mut buffer).is_ready() {}
        (0..begins).for_each(|_| calls.begun().execute(async {}));
        calls.go_on(context);
        buffer.filled().len()
    }

    #[tokio::test]
    async fn who_begins_many_calls_reads_little_until_it_begins_few() {
        let mut connection = one(&gate());
        let mut context = Context::from_waker(Waker::noop());
        let mut turn = |begins| turn(&mut connection, begins, &mut context);
        assert_eq!([turn(16), turn(16)], [2 << 10; 2], "the first turns");
        for (begins, read) in
            [(16, 32 << 10), (17, 32 << 10), (17, 2 << 10), (0, 2 << 10), (0, 32 << 10)]
        {
            assert_eq!(turn(begins), read, "{begins} calls begin");
        }
    }

    #[tokio::test]
    async fn busy_connections_have_their_turns_a_few_at_a_time() {
        let gate = Arc::new(Semaphore::new(2));
        let mut context = Context::from_waker(Waker::noop());
        let mut busy: Vec<_> = (0..5).map(|_| one(&gate)).collect();
        busy.iter_mut().for_each(|connection| {
            turn(connection, 17, &mut context);
        });
        let mut reads = [0; 5];
        for _ in 0..100 * TURNS_OF_BUSY {
            // In a task of its own each turn may ask as often as it likes.
            end_turn().await;
            for (count, connection) in reads.iter_mut().zip(&mut busy) {
                *count += usize::from(turn(connection, 17, &mut context) > 0);
            }
        }
        let all = 2 * 100 * TURNS_OF_BUSY as usize;
        // In a round in which a place goes on, two connections may use it.
        let sum: usize = reads.iter().sum();
        assert!((all / 10 * 9..all + all / 50).contains(&sum), "{reads:?}");
        assert!(reads.iter().all(|count| *count > all / 5 / 10 * 9), "{reads:?}");
        // A connection that is not busy waits for none of them.
        let mut other = one(&gate);
        let reads = [(); 3].map(|()| turn(&mut other, 1, &mut context));
        assert_eq!(reads, [2 << 10, 2 << 10, 32 << 10]);
    }

    #[tokio::test]
    async fn a_connection_that_waits_at_the_gate_reads_a_little_now_and_then() {
        let gate = Arc::new(Semaphore::new(1));
        let mut connection = one(&gate);
        turn(&mut connection, 17, &mut Context::from_waker(Waker::noop()));
        let _place = Arc::clone(&gate).acquire_owned().await.unwrap();
        let began = Instant::now();
        for _ in 0..2 {
            let read = poll_fn(|context| match turn(&mut connection, 17, context) {
                0 => Poll::Pending,
                read => Poll::Ready(read),
            });
            assert_eq!(read.await, 2 << 10);
        }
        assert!(began.elapsed() >= 2 * GATE_PATIENCE, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_connection_that_does_not_read_on_leaves_its_place_at_the_gate() {
        let gate = Arc::new(Semaphore::new(1));
        let mut context = Context::from_waker(Waker::noop());
        let (mut first, mut second) = (one(&gate), one(&gate));
        turn(&mut first, 17, &mut context);
        turn(&mut second, 17, &mut context);
        assert_eq!(turn(&mut first, 17, &mut context), 2 << 10);
        assert_eq!(turn(&mut second, 17, &mut context), 0, "the first one has the place");
        // Calls begin that had arrived before, and the library asks for no more.
        first.1.begin_turn(&mut context);
        (0..17).for_each(|_| first.1.begun().execute(async {}));
        first.1.go_on(&mut context);
        assert_eq!(turn(&mut second, 17, &mut context), 2 << 10);
    }

    /// The library that reads asks again for each call that has begun, also after it was told to wait.
    #[tokio::test]
    async fn a_turn_has_few_reads_however_often_it_is_asked() {
        let (mut stream, mut calls) = one(&gate());
        let mut context = Context::from_waker(Waker::noop());
        for most in [1, 1, READS_OF_TURN, READS_OF_TURN] {
            calls.begin_turn(&mut context);
            let reads = (0..100).filter(|_| read(&mut stream, &mut context).is_ready()).count();
            assert_eq!(reads, most as usize);
        }
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
        let mut turns = 0;
        poll_fn(|context| {
            let before = ended.load(Ordering::SeqCst);
            under_way.begin_turn(context);
            under_way.go_on(context);
            let now = ended.load(Ordering::SeqCst);
            assert!(now - before <= WORK_OF_TURN as usize, "{}", now - before);
            turns += 1;
            if now == CALLS { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert!(turns >= CALLS / WORK_OF_TURN as usize, "{turns}");
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
            let mut turns = 0;
            poll_fn(|context| {
                let before = worked.load(Ordering::SeqCst);
                under_way.begin_turn(context);
                under_way.go_on(context);
                let now = worked.load(Ordering::SeqCst);
                assert!(now - before <= WORK_OF_TURN as usize, "{}", now - before);
                turns += 1;
                if now == all { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            assert!(turns <= CALLS / WORK_OF_TURN as usize + 1, "{turns}");
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
