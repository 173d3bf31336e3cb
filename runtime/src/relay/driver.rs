//! The relay's loop: one owner of the machine, fed by calls, answers and the clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rondo_core::ids::{CallId, ConnectionId};
use rondo_core::relay::{
    Answer, Asked, Config, Effect, Event, Forwarding, Input, Link, Refused, Relay,
};
use rondo_core::status::{Code, Status};
use rondo_proto::convert;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::upstream::Upstream;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::transport::Transport;

/// Calls that wait to be looked at; above it, clients wait before they are.
const QUEUE_MAX: usize = 4096;

type Outcome = Result<Answer, Refused>;

/// What comes to the loop.
enum Happened {
    Asked(CallId, Asked, oneshot::Sender<Outcome>, OwnedSemaphorePermit),
    Cancelled(CallId),
    Closed(ConnectionId),
    Reached(Link, Result<Arc<dyn Transport>, Status>),
    Answered(CallId, Link, Result<Result<Bytes, Refused>, Status>),
    Stop,
}

/// The relay, to whoever has calls for it. It ends when nobody holds one any more.
#[derive(Clone)]
pub struct Handle {
    happened: mpsc::UnboundedSender<Happened>,
    calls: Arc<AtomicU64>,
    room: Arc<Semaphore>,
}

impl Handle {
    /// Makes a call and waits for its answer. Dropping the future takes it back.
    ///
    /// # Errors
    /// The server's refusal, or the relay's own.
    pub async fn ask(&self, asked: Asked) -> Outcome {
        let ended = || Status::new(Code::Unavailable, "Rondo's relay has ended").into();
        let permit = Arc::clone(&self.room).acquire_owned().await.map_err(|_| ended())?;
        let call = CallId::new(self.calls.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        self.tell(Happened::Asked(call, asked, reply, permit));
        let mut waiting = Waiting { handle: self, call: Some(call) };
        let answer = answer.await;
        waiting.call = None;
        answer.unwrap_or_else(|_| Err(ended()))
    }

    /// A client's connection is closed.
    pub fn closed(&self, client: ConnectionId) {
        self.tell(Happened::Closed(client));
    }

    /// Lets nobody wait any more but for what must not happen twice.
    pub fn stop(&self) {
        self.tell(Happened::Stop);
    }

    fn tell(&self, happened: Happened) {
        // A loop that has ended answers nobody, which whoever waits notices.
        let _ = self.happened.send(happened);
    }
}

/// A call as long as its client waits.
struct Waiting<'a> {
    handle: &'a Handle,
    call: Option<CallId>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.handle.tell(Happened::Cancelled(call));
        }
    }
}

/// Starts a relay.
pub fn start(config: Config, upstream: Upstream, clock: Clock, entropy: Entropy) -> Handle {
    let (sender, happened) = mpsc::unbounded_channel();
    let driver = Driver {
        relay: Relay::start(config, clock.now()),
        upstream,
        clock,
        entropy,
        to_self: sender.downgrade(),
        replies: BTreeMap::new(),
        sent: BTreeMap::new(),
        trying: None,
        transport: None,
    };
    tokio::spawn(driver.run(happened));
    Handle {
        happened: sender,
        calls: Arc::new(AtomicU64::new(1)),
        room: Arc::new(Semaphore::new(QUEUE_MAX)),
    }
}

struct Driver {
    relay: Relay,
    upstream: Upstream,
    clock: Clock,
    entropy: Entropy,
    to_self: mpsc::WeakUnboundedSender<Happened>,
    replies: BTreeMap<CallId, oneshot::Sender<Outcome>>,
    /// Calls that were sent, with what must be known of their answers.
    sent: BTreeMap<CallId, JoinHandle<()>>,
    trying: Option<JoinHandle<()>>,
    transport: Option<Arc<dyn Transport>>,
}

impl Driver {
    async fn run(mut self, mut happened: mpsc::UnboundedReceiver<Happened>) {
        self.step(Input::Tick);
        loop {
            let (clock, next) = (self.clock, self.relay.deadline().map(|(at, _)| at));
            tokio::select! {
                biased;
                happened = happened.recv() => match happened {
                    Some(happened) => self.take(happened),
                    None => return,
                },
                () = clock.sleep_until(next) => self.step(Input::Tick),
            }
        }
    }

    fn take(&mut self, happened: Happened) {
        match happened {
            Happened::Asked(call, asked, reply, _permit) => {
                self.replies.insert(call, reply);
                let entropy = self.entropy.next();
                self.step(Input::Asked { call, asked, entropy });
            }
            Happened::Cancelled(call) => {
                self.replies.remove(&call);
                self.step(Input::Cancel { call });
            }
            Happened::Closed(client) => self.step(Input::Closed { client }),
            Happened::Reached(link, Ok(transport)) => {
                self.trying = None;
                self.transport = Some(transport);
                self.step(Input::Reached { link });
            }
            Happened::Reached(link, Err(status)) => {
                self.trying = None;
                let (reason, entropy) = (status.message.into(), self.entropy.next());
                self.step(Input::Unreachable { link, reason, entropy });
            }
            Happened::Answered(call, link, answer) => self.answered(call, link, answer),
            Happened::Stop => self.step(Input::Stop),
        }
    }

    fn answered(
        &mut self,
        call: CallId,
        link: Link,
        answer: Result<Result<Bytes, Refused>, Status>,
    ) {
        if self.sent.remove(&call).is_none() {
            return;
        }
        match answer {
            Ok(result) => {
                let kind = self.relay.kind_of(call);
                let life = match (&result, kind) {
                    (Ok(body), Some(kind)) => convert::told_life(kind, body),
                    _ => None,
                };
                self.step(Input::Answered { call, result, life });
            }
            Err(status) => self.step(Input::Failed { call, link, status }),
        }
    }

    fn step(&mut self, input: Input) {
        let mut out = Vec::new();
        self.relay.step(self.clock.now(), input, &mut out);
        for effect in out {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Reach { link } => self.reach(link),
            Effect::Abandon { .. } => {
                self.transport = None;
                let sent = std::mem::take(&mut self.sent);
                sent.into_values().for_each(|task| task.abort());
            }
            Effect::Forward { link, call, forwarding } => self.forward(link, call, forwarding),
            Effect::Withdraw { call } => {
                if let Some(task) = self.sent.remove(&call) {
                    task.abort();
                }
            }
            Effect::Reply { call, result } => {
                if let Some(reply) = self.replies.remove(&call) {
                    // Its client may have gone in this moment.
                    let _ = reply.send(result);
                }
            }
            Effect::Observe(event) => observe(&event),
        }
    }

    fn reach(&mut self, link: Link) {
        let (upstream, to_self) = (self.upstream.clone(), self.to_self.clone());
        self.trying = Some(tokio::spawn(async move {
            let reached = upstream.reach(link).await;
            tell(&to_self, Happened::Reached(link, reached));
        }));
    }

    fn forward(&mut self, link: Link, call: CallId, forwarding: Forwarding) {
        let Some(transport) = self.transport.clone() else {
            return;
        };
        let (upstream, to_self) = (self.upstream.clone(), self.to_self.clone());
        let task = tokio::spawn(async move {
            let answer = upstream.forward(transport.as_ref(), link, forwarding).await;
            tell(&to_self, Happened::Answered(call, link, answer));
        });
        self.sent.insert(call, task);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let sent = std::mem::take(&mut self.sent).into_values();
        sent.chain(self.trying.take()).for_each(|task| task.abort());
    }
}

fn tell(to: &mpsc::WeakUnboundedSender<Happened>, happened: Happened) {
    if let Some(to) = to.upgrade() {
        // As above.
        let _ = to.send(happened);
    }
}

fn observe(event: &Event) {
    match event {
        Event::UpstreamLost { reason, calls } => {
            tracing::warn!(%reason, calls, "the server is away; calls wait for it");
        }
        Event::UpstreamReached { away, calls } => {
            tracing::info!(away_ms = away.as_millis(), calls, "the server is there");
        }
        Event::GaveUp { reason } => tracing::error!(%reason, "clients are told"),
        Event::TaskRegistered { task, life } => {
            tracing::info!(task = %task.index, %life, "task registered");
        }
        Event::LifeChanged { before, now } => {
            tracing::warn!(%before, %now, "the server has begun another life of the namespace");
        }
        Event::HeartbeatAnswered { task } => {
            tracing::debug!(task = %task.index, "heartbeat answered in the server's place");
        }
    }
}
