//! Turns of connections: one that has much to say, or many calls to be answered, lets others go on.
//!
//! All calls of a connection are worked on in the connection's own task. So the scheduler, which takes one
//! task after the other, gives each connection its turn, however many calls another one makes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::rt::Executor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads of a connection in one turn. What is short comes 8 KiB at a time.
const READS_OF_TURN: u32 = 2;

/// A connection that begins more calls than this in a turn reads less in its next turn. The server needs more
/// time for a short call than for its bytes.
const BEGINS_OF_TURN: usize = 16;

/// The most bytes that such a connection reads in its next turn: those of about as many short calls.
const READ_BYTES_OF_BUSY: usize = 2 << 10;

/// Calls of a connection that end in one turn.
const ENDS_OF_TURN: usize = 32;

/// A stream that is read a little at a time.
pub(super) struct InTurns<S> {
    stream: S,
    /// Reads that are left in this turn.
    left: u32,
    /// Whether its connection has begun many calls in the last turn.
    is_busy: Arc<AtomicBool>,
}

impl<S> InTurns<S> {
    /// The same stream in turns, whose calls these are.
    pub(super) fn new(stream: S, calls: &UnderWay) -> Self {
        Self { stream, left: READS_OF_TURN, is_busy: Arc::clone(&calls.is_busy) }
    }
}

impl<S: AsyncRead + Unpin> InTurns<S> {
    /// Reads a few bytes, in a turn of their own.
    fn poll_read_few(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.left = 1;
        let most = buffer.remaining().min(READ_BYTES_OF_BUSY);
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
        if self.left == 0 {
            self.left = READS_OF_TURN;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = match self.is_busy.load(Ordering::Relaxed) {
            true => self.poll_read_few(context, buffer),
            false => Pin::new(&mut self.stream).poll_read(context, buffer),
        };
        self.left = if read.is_ready() { self.left.saturating_sub(1) } else { READS_OF_TURN };
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

/// The calls of a connection. Dropping them cancels them.
#[derive(Default)]
pub(super) struct UnderWay {
    begun: Begun,
    calls: FuturesUnordered<Work>,
    /// Whether many calls began in the last turn.
    is_busy: Arc<AtomicBool>,
}

impl UnderWay {
    /// Where calls begin.
    pub(super) fn begun(&self) -> Begun {
        self.begun.clone()
    }

    /// Works on the calls for one turn.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>) {
        let begun = self.begun.take();
        self.is_busy.store(begun.len() > BEGINS_OF_TURN, Ordering::Relaxed);
        self.calls.extend(begun);
        for _ in 0..ENDS_OF_TURN {
            match self.calls.poll_next_unpin(context) {
                Poll::Ready(Some(())) => {}
                // Whoever goes on later wakes the connection.
                Poll::Ready(None) | Poll::Pending => return,
            }
        }
        context.waker().wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::task::Waker;

    use tokio::io::AsyncReadExt;

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

    #[tokio::test]
    async fn who_reads_for_ever_lets_others_go_on() {
        let mut stream = InTurns::new(Endless, &UnderWay::default());
        let reading = tokio::spawn(async move {
            let mut bytes = [0; 8];
            loop {
                stream.read_exact(&mut bytes).await.unwrap();
            }
        });
        // With one thread, this task has a turn only if that one gives its turn up.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        reading.abort();
    }

    #[test]
    fn who_begins_many_calls_reads_little_until_it_begins_few() {
        let mut under_way = UnderWay::default();
        let mut stream = InTurns::new(Endless, &under_way);
        let mut context = Context::from_waker(Waker::noop());
        let mut buffer = vec![0; 64 << 10];
        let mut read_in_turn = || {
            let mut buffer = ReadBuf::new(&mut buffer);
            while Pin::new(&mut stream).poll_read(&mut context, &mut buffer).is_ready() {}
            buffer.filled().len()
        };
        for (begun, read) in [(16, 16 << 10), (17, 2 << 10), (17, 2 << 10), (0, 16 << 10)] {
            (0..begun).for_each(|_| under_way.begun().execute(async {}));
            under_way.go_on(&mut Context::from_waker(Waker::noop()));
            assert_eq!(read_in_turn(), read, "{begun} calls have begun");
        }
    }

    #[test]
    fn a_turn_has_few_reads() {
        let mut stream = InTurns::new(Endless, &UnderWay::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut reads = 0;
        let mut bytes = [0; 8];
        while Pin::new(&mut stream)
            .poll_read(&mut context, &mut ReadBuf::new(&mut bytes))
            .is_ready()
        {
            reads += 1;
        }
        assert_eq!(reads, READS_OF_TURN);
        assert!(
            Pin::new(&mut stream).poll_read(&mut context, &mut ReadBuf::new(&mut bytes)).is_ready()
        );
    }

    #[tokio::test]
    async fn calls_end_in_several_turns_and_none_is_forgotten() {
        const CALLS: usize = 10 * ENDS_OF_TURN;
        let mut under_way = UnderWay::default();
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
            under_way.go_on(context);
            let now = ended.load(Ordering::SeqCst);
            assert!(now - before <= ENDS_OF_TURN, "{}", now - before);
            turns += 1;
            if now == CALLS { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert!(turns >= CALLS / ENDS_OF_TURN, "{turns}");
    }

    #[test]
    fn calls_go_with_their_connection() {
        let mut under_way = UnderWay::default();
        let kept = Arc::new(());
        let held = Arc::clone(&kept);
        under_way.begun().execute(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        under_way.go_on(&mut Context::from_waker(Waker::noop()));
        assert_eq!(Arc::strong_count(&kept), 2);
        drop(under_way);
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
