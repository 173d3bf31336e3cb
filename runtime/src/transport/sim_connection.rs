//! A simulated connection from the caller's side.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rondo_core::status::{Code, Status};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use super::MessageWriter;
use super::sim_frame::{CallFrame, Frame};
use super::sim_wire::{Keepalive, Wire};

/// How long an address may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// As in production: see `grpc_client`.
const KEEPALIVE: Keepalive =
    Keepalive { interval: Duration::from_secs(20), timeout: Duration::from_secs(20) };

type Answer = oneshot::Sender<Result<Bytes, Status>>;
/// Messages of a stream; without one, its end.
type Messages = mpsc::UnboundedSender<Result<Option<Bytes>, Status>>;

/// Who waits for what a call brings.
enum Waiter {
    Call(Answer),
    Stream(Messages),
}

/// What a connection's task is asked to do.
enum Order {
    Call(CallFrame, Waiter),
    More(u64),
    Cancel(u64),
    /// Break the connection.
    Reset,
    /// Keep it, but neither send nor take anything until the keepalive gives it up.
    GoSilent,
}

/// A connection to one address, opened with it. All calls on it end with UNAVAILABLE when it
/// breaks; dropping the last handle closes it.
#[derive(Clone)]
pub struct Connection {
    address: Arc<str>,
    orders: mpsc::UnboundedSender<Order>,
    next: Arc<AtomicU64>,
}

/// One call to make.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The method's path.
    pub path: &'static str,
    /// The worker that calls, if it names itself.
    pub worker: Option<String>,
    /// What a simulation knows the call by; the serving side tells it to whoever watches.
    pub tag: u64,
    /// The encoded request.
    pub message: Bytes,
    /// How long to wait for the answer.
    pub deadline: Duration,
}

impl Connection {
    /// Begins to connect to `address` (`host:port`). Calls may be made at once.
    pub fn open(address: &str) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        tokio::spawn(run(address.to_owned(), inbox));
        Self { address: address.into(), orders, next: Arc::new(AtomicU64::new(1)) }
    }

    /// Whether it is broken, or closed by the peer.
    pub fn is_closed(&self) -> bool {
        self.orders.is_closed()
    }

    /// Breaks the connection, as a fault.
    pub fn reset(&self) {
        // One that is closed is broken already.
        let _ = self.orders.send(Order::Reset);
    }

    /// Lets this end fall silent, as a fault: calls under way meet their deadlines, and the
    /// connection breaks when its keepalive would notice.
    pub fn go_silent(&self) {
        // One that is closed is silent already.
        let _ = self.orders.send(Order::GoSilent);
    }

    /// Makes a call. Dropping the future cancels it.
    ///
    /// # Errors
    /// The peer's refusal; UNAVAILABLE when the connection breaks, and DEADLINE_EXCEEDED.
    pub async fn call(&self, call: Outgoing) -> Result<Bytes, Status> {
        let (path, deadline) = (call.path, call.deadline);
        let (answer, answered) = oneshot::channel();
        let mut withdrawal = self.send(call, Waiter::Call(answer));
        let answered = tokio::time::timeout(deadline, answered).await;
        if answered.is_ok() {
            withdrawal.id = None;
        }
        match answered {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(self.closed()),
            Err(_) => {
                let address = &self.address;
                let text = format!("no answer to {path} from {address} within {deadline:?}");
                Err(Status::new(Code::DeadlineExceeded, text))
            }
        }
    }

    /// Makes a call that is answered with a stream, and hands its messages on. Dropping the future
    /// cancels it.
    ///
    /// # Errors
    /// As those of a call.
    pub(super) async fn stream(&self, call: Outgoing, mut to: MessageWriter) -> Result<(), Status> {
        let (sender, mut messages) = mpsc::unbounded_channel();
        let mut withdrawal = self.send(call, Waiter::Stream(sender));
        loop {
            let next = messages.recv().await.unwrap_or_else(|| Err(self.closed()));
            let Ok(Some(message)) = next else {
                withdrawal.id = None;
                return next.map(drop);
            };
            to.write(message).await;
            if let Some(id) = withdrawal.id {
                // Where the connection has ended there is no more.
                let _ = self.orders.send(Order::More(id));
            }
        }
    }

    fn send(&self, call: Outgoing, waiter: Waiter) -> Withdrawal<'_> {
        let Outgoing { path, worker, tag, message, deadline } = call;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let frame = CallFrame { id, path: path.into(), worker, tag, deadline, message };
        // Where the task has ended whoever would answer is gone with the order.
        let _ = self.orders.send(Order::Call(frame, waiter));
        Withdrawal { orders: &self.orders, id: Some(id) }
    }

    fn closed(&self) -> Status {
        let text = format!("cannot reach {}: the connection is closed", self.address);
        Status::new(Code::Unavailable, text)
    }
}

/// Cancels a call whose caller leaves before the answer.
struct Withdrawal<'a> {
    orders: &'a mpsc::UnboundedSender<Order>,
    id: Option<u64>,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // A connection that is closed has nothing left to cancel.
            let _ = self.orders.send(Order::Cancel(id));
        }
    }
}

/// A connection's life.
async fn run(address: String, mut inbox: mpsc::UnboundedReceiver<Order>) {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(&address));
    let stream = match connecting.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(address, %error, "cannot connect"),
        Err(_) => return tracing::debug!(address, "cannot connect in time"),
    };
    let mut life = Life { wire: Wire::new(stream, KEEPALIVE), waiting: BTreeMap::new() };
    let mut leaving = false;
    while !(leaving && life.waiting.is_empty()) {
        let done = tokio::select! {
            biased;
            order = inbox.recv(), if !leaving => match order {
                Some(order) => life.obey(order).await,
                None => return,
            },
            frame = life.wire.next() => frame.map(|frame| leaving |= life.hear(frame)),
        };
        if let Err(error) = done {
            return tracing::debug!(address, %error, "connection ended");
        }
    }
}

/// An open connection and the calls under way on it.
struct Life {
    wire: Wire,
    waiting: BTreeMap<u64, Waiter>,
}

impl Life {
    async fn obey(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Call(frame, waiter) => {
                self.waiting.insert(frame.id, waiter);
                self.wire.send(&Frame::Call(frame)).await
            }
            Order::More(id) => self.wire.send(&Frame::More { id }).await,
            Order::Cancel(id) if self.waiting.remove(&id).is_some() => {
                self.wire.send(&Frame::Cancel { id }).await
            }
            Order::Cancel(_) => Ok(()),
            Order::Reset => Err(io::ErrorKind::ConnectionReset.into()),
            Order::GoSilent => {
                let patience = KEEPALIVE.interval.saturating_add(KEEPALIVE.timeout);
                tokio::time::sleep(patience).await;
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    /// Takes what came in; true when the peer wants no more calls.
    fn hear(&mut self, frame: Frame) -> bool {
        match frame {
            Frame::Answer { id, result } => self.end(id, result),
            Frame::Message { id, message } => {
                if let Some(Waiter::Stream(messages)) = self.waiting.get(&id) {
                    // As below.
                    let _ = messages.send(Ok(Some(message)));
                }
            }
            Frame::Goodbye => return true,
            _ => {}
        }
        false
    }

    fn end(&mut self, id: u64, result: Result<Bytes, Status>) {
        // Whoever waited may have left meanwhile.
        match self.waiting.remove(&id) {
            Some(Waiter::Call(answer)) => drop(answer.send(result)),
            Some(Waiter::Stream(messages)) => drop(messages.send(result.map(|_| None))),
            None => {}
        }
    }
}
