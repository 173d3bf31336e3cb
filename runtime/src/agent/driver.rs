//! The agent's loop: one owner of the machine, fed by the application, answers and the clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rondo_core::agent::{self, Ask, Config, Effect, Input, Reply, Request, RpcId, State};
use rondo_core::ids::CallId;
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;
use rondo_proto::convert;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::interface::View;
use super::watches::{KeyWatch, Told, Watches};
use super::way::{Way, told};
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::transport::MessageStream;

/// What a call of the application comes to.
pub(super) type Outcome = Result<Reply, Status>;
/// Told of an error.
pub(super) type OnError = Arc<dyn Fn(Status) + Send + Sync>;

/// What comes to the loop.
pub(super) enum Happened {
    Initialize(Box<Config>, OnError, oneshot::Sender<Result<(), Status>>),
    Asked(CallId, Ask, oneshot::Sender<Outcome>),
    Watch(CallId, Arc<str>, oneshot::Sender<Outcome>, oneshot::Sender<KeyWatch>),
    Cancelled(CallId),
    Unwatched(Arc<str>, u64),
    Answered(RpcId, Outcome),
    Told(RpcId, Arc<str>, Outcome, More),
}

/// What comes with an answer to a watch: room for it, and the stream it is from while that goes on.
pub(super) struct More {
    room: Option<OwnedSemaphorePermit>,
    stream: Option<MessageStream>,
}

/// Starts the loop, which ends when nobody can tell it anything any more.
pub(super) fn drive(
    way: Way,
    clock: Clock,
    entropy: Entropy,
    view: Arc<Mutex<View>>,
) -> mpsc::UnboundedSender<Happened> {
    let (sender, happened) = mpsc::unbounded_channel();
    let driver = Driver {
        agent: agent::Agent::new(),
        way,
        clock,
        entropy,
        view,
        to_self: sender.downgrade(),
        config: None,
        on_error: None,
        replies: BTreeMap::new(),
        starting: BTreeMap::new(),
        sent: BTreeMap::new(),
        watches: Watches::default(),
        room: None,
    };
    tokio::spawn(driver.run(happened));
    sender
}

struct Driver {
    agent: agent::Agent,
    way: Way,
    clock: Clock,
    entropy: Entropy,
    view: Arc<Mutex<View>>,
    to_self: mpsc::WeakUnboundedSender<Happened>,
    config: Option<Config>,
    on_error: Option<OnError>,
    replies: BTreeMap<CallId, oneshot::Sender<Outcome>>,
    /// Calls that begin a watch, with its key.
    starting: BTreeMap<CallId, Arc<str>>,
    sent: BTreeMap<RpcId, JoinHandle<()>>,
    watches: Watches,
    /// For what is about to be told of a watched key.
    room: Option<OwnedSemaphorePermit>,
}

impl Driver {
    async fn run(mut self, mut happened: mpsc::UnboundedReceiver<Happened>) {
        loop {
            let (clock, next) = (self.clock, self.agent.deadline().map(|(at, _)| at));
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
            Happened::Initialize(config, on_error, reply) => {
                // Who asked may not wait any more.
                let _ = reply.send(self.initialize(*config, on_error));
            }
            Happened::Asked(call, ask, reply) => self.asked(call, ask, reply),
            Happened::Watch(call, key, reply, watch) => self.watch(call, key, reply, watch),
            Happened::Cancelled(call) => {
                self.replies.remove(&call);
                self.starting.remove(&call);
                self.step(Input::Cancel { call });
            }
            Happened::Unwatched(key, id) => self.unwatched(key, id),
            Happened::Answered(rpc, result) => {
                if self.sent.remove(&rpc).is_some() {
                    self.answered(rpc, result);
                }
            }
            Happened::Told(rpc, key, result, more) => {
                if self.sent.remove(&rpc).is_some() {
                    if let Some(stream) = more.stream {
                        self.watches.keep(&key, stream);
                    }
                    self.room = more.room;
                    self.answered(rpc, result);
                    self.room = None;
                }
            }
        }
    }

    fn answered(&mut self, rpc: RpcId, result: Outcome) {
        let entropy = self.entropy.next();
        self.step(Input::Answered { rpc, result, entropy });
    }

    fn initialize(&mut self, config: Config, on_error: OnError) -> Result<(), Status> {
        self.step(Input::Initialize { config: config.clone() });
        if self.agent.state() != State::Disconnected || self.agent.is_connecting() {
            let text = "Initialize while the task connects, takes part, or is in error; Shutdown or \
                        Reset first";
            return Err(Status::new(Code::FailedPrecondition, text));
        }
        (self.config, self.on_error) = (Some(config), Some(on_error));
        self.show();
        Ok(())
    }

    fn asked(&mut self, call: CallId, ask: Ask, reply: oneshot::Sender<Outcome>) {
        if let Ask::ActivateWatch { key, .. } = &ask {
            match self.watches.room_now(key) {
                Ok(room) => self.room = room,
                Err(status) => {
                    // Who asked may not wait any more.
                    let _ = reply.send(Err(status));
                    return;
                }
            }
        }
        self.replies.insert(call, reply);
        let stopped = if let Ask::StopWatch { key } = &ask { Some(key.clone()) } else { None };
        self.step(Input::Asked { call, ask });
        self.room = None;
        if let Some(key) = stopped {
            self.watches.end(&key, None);
        }
    }

    fn watch(
        &mut self,
        call: CallId,
        key: Arc<str>,
        reply: oneshot::Sender<Outcome>,
        watch: oneshot::Sender<KeyWatch>,
    ) {
        match self.watches.add(&key, self.to_self.clone()) {
            // The application waits for the call's answer first.
            Ok(made) => drop(watch.send(made)),
            Err(status) => {
                // As above.
                let _ = reply.send(Err(status));
                return;
            }
        }
        self.replies.insert(call, reply);
        self.starting.insert(call, key.clone());
        self.step(Input::Asked { call, ask: Ask::StartWatch { key } });
    }

    /// Nobody listens to a watch any more.
    fn unwatched(&mut self, key: Arc<str>, id: u64) {
        if self.watches.is(&key, id) {
            self.watches.end(&key, None);
            // Nobody waits for this call.
            self.step(Input::Asked { call: CallId::new(0), ask: Ask::StopWatch { key } });
        }
    }

    fn step(&mut self, input: Input) {
        let mut out = Vec::new();
        self.agent.step(self.clock.now(), input, &mut out);
        self.show();
        for effect in out {
            self.perform(effect);
        }
    }

    /// Lets the application see how the agent stands.
    fn show(&self) {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.state = self.agent.state();
        view.life = self.agent.life();
        view.task = self.config.as_ref().map(|config| config.task);
        view.error = self.agent.error().cloned();
        view.devices = self.agent.cluster_devices().cloned();
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { rpc, request, deadline } => self.send(rpc, request, deadline),
            Effect::Withdraw { rpc } => {
                if let Some(task) = self.sent.remove(&rpc) {
                    task.abort();
                }
            }
            Effect::Done { call, result } => {
                if let (Some(key), Err(_)) = (self.starting.remove(&call), &result) {
                    self.watches.end(&key, None);
                }
                if let Some(reply) = self.replies.remove(&call) {
                    // Who asked may have gone in this moment.
                    let _ = reply.send(result);
                }
            }
            Effect::Failed { status } => {
                if let Some(on_error) = self.on_error.clone() {
                    // In a task of its own: what it does must not hold up nor end the agent.
                    tokio::spawn(async move { on_error(status) });
                }
            }
            Effect::Changed { key, whole, changes } => {
                let room = self.room.take();
                self.watches.tell(&key, Told { whole, changes }, room);
            }
            Effect::WatchEnded { key, status } => self.watches.end(&key, Some(status)),
        }
    }

    fn send(&mut self, rpc: RpcId, request: Request, deadline: Option<Duration>) {
        let Some(config) = &self.config else {
            return;
        };
        let encoded = convert::encode_agent_request(config, self.agent.life(), &request);
        let deadline = deadline.map(|span| std::time::Duration::from_nanos(span.as_nanos()));
        let (way, to_self) = (self.way.clone(), self.to_self.clone());
        let watched = match &request {
            Request::Watch { key, .. } => self.watches.take(key).map(|taken| (key.clone(), taken)),
            _ => None,
        };
        let task = tokio::spawn(async move {
            let happened = match watched {
                None => Happened::Answered(rpc, way.call(encoded, &request, deadline).await),
                Some((key, (room, stream))) => {
                    let stream = stream.unwrap_or_else(|| way.watch(encoded));
                    let (result, more) = tell_more(&request, stream, room).await;
                    Happened::Told(rpc, key, result, more)
                }
            };
            if let Some(to_self) = to_self.upgrade() {
                // A loop that has ended waits for nothing.
                let _ = to_self.send(happened);
            }
        });
        self.sent.insert(rpc, task);
    }
}

/// The next answer to a watch. The stream stands where the machine goes on: behind its last answer.
async fn tell_more(
    request: &Request,
    mut stream: MessageStream,
    room: Arc<Semaphore>,
) -> (Outcome, More) {
    let result = told(&mut stream, request).await;
    // Changes that nobody takes yet wait at the server.
    let room = room.acquire_owned().await.ok();
    let stream = result.is_ok().then_some(stream);
    (result, More { room, stream })
}

impl Drop for Driver {
    fn drop(&mut self) {
        std::mem::take(&mut self.sent).into_values().for_each(|task| task.abort());
    }
}
