//! Messages one after another: an answer that is a stream, from whoever writes it to whoever takes
//! it. The next one is made only when the last has been taken and one more is asked for.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use rondo_core::status::Status;
use rondo_proto::pieces::Pieces;

use super::BoxFuture;

/// Where a message lies between its writer and its taker, who never run at once.
type Slot = Arc<Mutex<Option<Pieces>>>;

/// A stream of messages to its taker. Dropping it ends the writing.
pub struct MessageStream {
    /// `None` when all has been written.
    writing: Option<BoxFuture<'static, Result<(), Status>>>,
    slot: Slot,
}

/// A stream of messages to its writer.
pub struct MessageWriter(Slot);

impl MessageStream {
    /// What `write` writes. It runs only while a message is asked for; what it returns ends the
    /// stream.
    pub fn written<F>(write: impl FnOnce(MessageWriter) -> F) -> Self
    where
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let slot = Slot::default();
        let writing = write(MessageWriter(Arc::clone(&slot)));
        Self { writing: Some(Box::pin(writing)), slot }
    }

    /// The next message; `None` at the end. A call that is dropped loses nothing.
    ///
    /// # Errors
    /// Why the stream ends early; nothing comes after it.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        Ok(self.next_pieces().await?.map(Pieces::join))
    }

    /// As [`MessageStream::next`], without a copy that puts what came in pieces together.
    ///
    /// # Errors
    /// As [`MessageStream::next`].
    pub async fn next_pieces(&mut self) -> Result<Option<Pieces>, Status> {
        poll_fn(|context| self.poll_next(context)).await
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Pieces>, Status>> {
        let Some(writing) = &mut self.writing else {
            return Poll::Ready(Ok(None));
        };
        if let Poll::Ready(end) = writing.as_mut().poll(context) {
            self.writing = None;
            return Poll::Ready(end.map(|()| None));
        }
        let message = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        message.map_or(Poll::Pending, |message| Poll::Ready(Ok(Some(message))))
    }
}

impl MessageWriter {
    /// Writes a message, and waits until it has been taken and one more is asked for.
    pub async fn write(&mut self, message: impl Into<Pieces>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.into());
        // Asking for one more is what runs the writer again: nobody needs to be woken.
        poll_fn(|_| match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        })
        .await;
    }
}

#[cfg(test)]
#[cfg(not(madsim))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rondo_core::status::Code;

    use super::*;

    fn counting(made: Arc<AtomicUsize>, end: Result<(), Status>) -> MessageStream {
        MessageStream::written(|mut writer| async move {
            for number in 0..3_u8 {
                made.fetch_add(1, Ordering::SeqCst);
                writer.write(Bytes::copy_from_slice(&[number])).await;
            }
            end
        })
    }

    #[tokio::test]
    async fn the_next_message_is_made_when_it_is_asked_for() {
        let made = Arc::new(AtomicUsize::new(0));
        let mut stream = counting(Arc::clone(&made), Ok(()));
        for number in 0..3_u8 {
            assert_eq!(made.load(Ordering::SeqCst), usize::from(number), "no sooner");
            assert_eq!(stream.next().await, Ok(Some(Bytes::copy_from_slice(&[number]))));
        }
        assert_eq!(stream.next().await, Ok(None));
        assert_eq!(stream.next().await, Ok(None), "for ever");
    }

    #[tokio::test]
    async fn an_error_comes_behind_all_messages_and_once() {
        let refused = Status::new(Code::Aborted, "enough");
        let mut stream = counting(Arc::default(), Err(refused.clone()));
        for _ in 0..3 {
            stream.next().await.unwrap().unwrap();
        }
        assert_eq!(stream.next().await, Err(refused));
        assert_eq!(stream.next().await, Ok(None));
    }
}
