//! Calls on a simulated connection, in the place of gRPC: to a service by path, answers out.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::status::Status;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Sleep;

use super::answering::{check_length, contain_panic, until_cut, within_deadline};
use super::phase::{Phase, PhaseReceiver};
use super::server::{Open, Shared};
use super::sim_frame::{CallFrame, Frame};
use super::sim_wire::{Keepalive, Wire};
use super::{Call, ConnectionId, ServerConfig};

tokio::task_local! {
    /// The tag of the call that a task answers.
    static TAG: u64;
}

/// The tag of the call that this task answers, if it answers one.
pub fn tag_of_call() -> Option<u64> {
    TAG.try_with(|tag| *tag).ok()
}

/// Serves one connection to its end.
pub(super) async fn connection(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    _slot: Option<OwnedSemaphorePermit>,
) {
    let open = Open::new(&shared);
    let (answers, outbox) = mpsc::unbounded_channel();
    let serving = Serving {
        wire: Wire::new(stream, keepalive(&shared.config)),
        phase: shared.phase.clone(),
        from: (open.id, peer),
        under_way: BTreeMap::new(),
        answers,
        outbox,
        draining: false,
        used: false,
        shared,
    };
    if let Err(error) = serving.run().await {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

/// A connection being served.
struct Serving {
    shared: Arc<Shared>,
    phase: PhaseReceiver,
    wire: Wire,
    from: (ConnectionId, SocketAddr),
    /// Calls under way, which end with the connection.
    under_way: BTreeMap<u64, AbortHandle>,
    /// Answers on their way out.
    answers: Answers,
    outbox: mpsc::UnboundedReceiver<(u64, Result<Bytes, Status>)>,
    draining: bool,
    /// There has been a call.
    used: bool,
}

type Answers = mpsc::UnboundedSender<(u64, Result<Bytes, Status>)>;

/// What a connection waits for.
enum Event {
    Answered(u64, Result<Bytes, Status>),
    Drain,
    Frame(Frame),
    NeverUsed,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.under_way.values().for_each(AbortHandle::abort);
    }
}

impl Serving {
    async fn run(mut self) -> io::Result<()> {
        let mut first_call = pin!(tokio::time::sleep(self.shared.config.silence_max));
        while !(self.draining && self.under_way.is_empty()) {
            match self.event(first_call.as_mut()).await? {
                Event::Answered(id, result) => {
                    self.under_way.remove(&id);
                    self.wire.send(&Frame::Answer { id, result }).await?;
                }
                Event::Drain => {
                    self.draining = true;
                    self.wire.send(&Frame::Goodbye).await?;
                }
                Event::Frame(frame) => self.hear(frame),
                Event::NeverUsed => return Ok(()),
            }
        }
        Ok(())
    }

    async fn event(&mut self, first_call: Pin<&mut Sleep>) -> io::Result<Event> {
        let calls_max = self.shared.config.calls_per_connection_max;
        let is_room = self.under_way.len() < usize::try_from(calls_max).unwrap_or(usize::MAX);
        tokio::select! {
            biased;
            Some((id, result)) = self.outbox.recv() => Ok(Event::Answered(id, result)),
            () = self.phase.reached(Phase::Draining), if !self.draining => {
                Ok(Event::Drain)
            }
            frame = self.wire.next(), if is_room => frame.map(Event::Frame),
            () = first_call, if !self.used => Ok(Event::NeverUsed),
        }
    }

    fn hear(&mut self, frame: Frame) {
        match frame {
            // A call that crossed our goodbye ends with the connection.
            Frame::Call(call) if !self.draining => {
                self.used = true;
                let id = call.id;
                let task = start(&self.shared, self.from, call, self.answers.clone());
                self.under_way.insert(id, task.abort_handle());
            }
            Frame::Cancel { id } => {
                if let Some(call) = self.under_way.remove(&id) {
                    call.abort();
                }
            }
            _ => {}
        }
    }
}

fn keepalive(config: &ServerConfig) -> Keepalive {
    Keepalive { interval: config.keepalive_interval, timeout: config.keepalive_timeout }
}

/// Answers a call in a task of its own.
fn start(
    shared: &Arc<Shared>,
    from: (ConnectionId, SocketAddr),
    call: CallFrame,
    answers: Answers,
) -> JoinHandle<()> {
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let (id, tag, deadline, path) = (call.id, call.tag, call.deadline, call.path.clone());
        let answer = pin!(dispatch(&shared, from, call));
        let answer = within_deadline(Some(deadline), answer);
        let cut = || shared.service.cut(&path);
        let answer = TAG.scope(tag, until_cut(shared.phase.clone(), answer, cut));
        let result = answer.await;
        // Nobody is left to hear it when the connection has gone.
        let _ = answers.send((id, result));
    })
}

async fn dispatch(
    shared: &Shared,
    (connection, peer): (ConnectionId, SocketAddr),
    frame: CallFrame,
) -> Result<Bytes, Status> {
    let CallFrame { path, worker, message, .. } = frame;
    let length = u64::try_from(message.len()).unwrap_or(u64::MAX);
    check_length(length, shared.config.message_bytes_max)?;
    let _share = shared.config.budget.acquire(length).await;
    let call = Call { path: path.clone(), message, peer, connection, worker };
    let answered = pin!(async { shared.service.unary(call).await });
    contain_panic(&path, answered).await
}
