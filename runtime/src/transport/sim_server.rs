//! Calls on a simulated connection, in the place of gRPC: to a service by path, answers out.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::status::Status;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Sleep;

use super::answering::{check_length, contain_panic, until_cut, within_deadline};
use super::phase::{Phase, PhaseReceiver};
use super::places::Place;
use super::server::{Open, Shared};
use super::sim_frame::{CallFrame, Frame};
use super::sim_wire::{Keepalive, Wire};
use super::{Call, ConnectionId, MessageStream, RequestMemory, ServerConfig};

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
    _place: Option<Place>,
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
    under_way: BTreeMap<u64, UnderWay>,
    /// Answers on their way out.
    answers: Answers,
    outbox: mpsc::UnboundedReceiver<Frame>,
    draining: bool,
    /// There has been a call.
    used: bool,
}

type Answers = mpsc::UnboundedSender<Frame>;

/// A call under way. It ends with this.
struct UnderWay {
    task: AbortHandle,
    /// Told when the caller of a stream wants one more message.
    more: Arc<Notify>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a connection waits for.
enum Event {
    Answered(Frame),
    Drain,
    Frame(Frame),
    NeverUsed,
}

impl Serving {
    async fn run(mut self) -> io::Result<()> {
        let mut first_call = pin!(tokio::time::sleep(self.shared.config.silence_max));
        while !(self.draining && self.under_way.is_empty()) {
            match self.event(first_call.as_mut()).await? {
                Event::Answered(frame) => {
                    if let Frame::Answer { id, .. } = &frame {
                        self.under_way.remove(id);
                    }
                    self.wire.send(&frame).await?;
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
            Some(frame) = self.outbox.recv() => Ok(Event::Answered(frame)),
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
                let (id, more) = (call.id, Arc::new(Notify::new()));
                let out = Out { answers: self.answers.clone(), more: Arc::clone(&more) };
                let task = start(&self.shared, self.from, call, out).abort_handle();
                self.under_way.insert(id, UnderWay { task, more });
            }
            Frame::Cancel { id } => drop(self.under_way.remove(&id)),
            Frame::More { id } => {
                if let Some(call) = self.under_way.get(&id) {
                    call.more.notify_one();
                }
            }
            _ => {}
        }
    }
}

fn keepalive(config: &ServerConfig) -> Keepalive {
    Keepalive { interval: config.keepalive_interval, timeout: config.keepalive_timeout }
}

/// The way of an answer out.
struct Out {
    answers: Answers,
    more: Arc<Notify>,
}

/// Answers a call in a task of its own.
fn start(
    shared: &Arc<Shared>,
    from: (ConnectionId, SocketAddr),
    call: CallFrame,
    out: Out,
) -> JoinHandle<()> {
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let (id, tag, path) = (call.id, call.tag, call.path.clone());
        let cut = || shared.service.cut(&path);
        let result = if shared.is_streaming(&path) {
            let end = (shared.phase.clone(), Phase::Draining);
            let messages = stream(Arc::clone(&shared), from, call);
            TAG.scope(tag, until_cut(end, send(id, messages, &out), cut)).await
        } else {
            let deadline = Some(call.deadline);
            let end = (shared.phase.clone(), Phase::Cutting);
            let answer = pin!(dispatch(&shared, from, call));
            let answer = within_deadline(deadline, answer);
            TAG.scope(tag, until_cut(end, answer, cut)).await
        };
        // Nobody is left to hear it when the connection has gone.
        let _ = out.answers.send(Frame::Answer { id, result });
    })
}

/// Sends the messages of a stream, each when it is wanted. Its end has no message.
async fn send(id: u64, mut messages: MessageStream, out: &Out) -> Result<Bytes, Status> {
    while let Some(message) = messages.next().await? {
        // As above.
        let _ = out.answers.send(Frame::Message { id, message });
        out.more.notified().await;
    }
    Ok(Bytes::new())
}

async fn dispatch(
    shared: &Shared,
    from: (ConnectionId, SocketAddr),
    frame: CallFrame,
) -> Result<Bytes, Status> {
    let path = frame.path.clone();
    let call = admit(shared, from, frame).await?;
    let answered = pin!(async { shared.service.unary(call).await });
    contain_panic(&path, answered).await
}

fn stream(
    shared: Arc<Shared>,
    from: (ConnectionId, SocketAddr),
    frame: CallFrame,
) -> MessageStream {
    MessageStream::written(|writer| async move {
        let (path, deadline) = (frame.path.clone(), frame.deadline);
        let written = pin!(async {
            let call = admit(&shared, from, frame).await?;
            let written = pin!(async { shared.service.streaming(call, writer).await });
            contain_panic(&path, written).await
        });
        within_deadline(Some(deadline), written).await
    })
}

/// Takes a call on, with its share of the memory.
async fn admit(
    shared: &Shared,
    (connection, peer): (ConnectionId, SocketAddr),
    frame: CallFrame,
) -> Result<Call, Status> {
    let CallFrame { path, worker, message, .. } = frame;
    let length = u64::try_from(message.len()).unwrap_or(u64::MAX);
    check_length(length, shared.config.message_bytes_max)?;
    let memory = RequestMemory::new(shared.config.budget.acquire(length).await?);
    let budget = shared.config.budget.clone();
    Ok(Call { path, message, peer, connection, worker, memory, budget })
}
