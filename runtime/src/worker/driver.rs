//! The worker's loop: one owner of the machine, fed by consumers, the dispatcher, those who make
//! elements, and the clock.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rondo_core::ids::{CallId, ConnectionId};
use rondo_core::status::{Code, Status};
use rondo_core::worker::{
    Answer, Ask, Config, Effect, Event, From, Input, Part, Reply, Request, RpcId, RunId, Then,
    Worker,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::datasets::{Datasets, Elements, Opened};
use super::upstream::Upstream;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::transport::contain_panic;

/// What a consumer's call comes to.
type Outcome = Result<Answer, Status>;

/// What comes to the loop.
enum Happened {
    Asked(CallId, ConnectionId, Ask, oneshot::Sender<Outcome>),
    Cancelled(CallId),
    Left(CallId),
    Answered(RpcId, Result<Reply, Status>),
    Opened(RunId, Result<Opened, Status>),
    Made(RunId, Box<dyn Elements>, Vec<Bytes>, Then),
    Stop,
}

/// What a worker tells whoever started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The dispatcher knows it.
    Registered,
    /// It cannot start, and why.
    Failed(Status),
    /// It has stopped, with so many elements that nobody fetched.
    Drained(u64),
}

/// A worker that runs, as consumers and whoever started it have it. It ends with its last handle.
#[derive(Clone)]
pub struct Handle {
    happened: mpsc::UnboundedSender<Happened>,
    calls: Arc<AtomicU64>,
}

/// Starts a worker that listens already, and what it tells.
pub fn start(
    config: Config,
    upstream: Upstream,
    datasets: Arc<dyn Datasets>,
    (clock, entropy): (Clock, Entropy),
) -> (Handle, mpsc::UnboundedReceiver<Told>) {
    let (sender, happened) = mpsc::unbounded_channel();
    let (told, telling) = mpsc::unbounded_channel();
    let driver = Driver {
        worker: Worker::new(config),
        upstream,
        datasets,
        clock,
        entropy,
        to_self: sender.downgrade(),
        told,
        replies: BTreeMap::new(),
        runs: BTreeMap::new(),
    };
    tokio::spawn(driver.run(happened));
    (Handle { happened: sender, calls: Arc::new(AtomicU64::new(1)) }, telling)
}

impl Handle {
    /// Brings a call of a connection to the worker. Dropping the future takes it back, with what was to be
    /// answered.
    pub(super) async fn ask(&self, client: ConnectionId, ask: Ask) -> Outcome {
        let call = CallId::new(self.calls.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        let mut waiting = Waiting { handle: self, call: Some(call) };
        self.tell(Happened::Asked(call, client, ask, reply));
        let answer = answer.await;
        waiting.call = None;
        let ended = || Status::new(Code::Unavailable, "the worker has ended");
        let answer = answer.unwrap_or_else(|_| Err(ended()));
        if let Ok(Answer::Element(_)) = &answer {
            self.tell(Happened::Left(call));
        }
        answer
    }

    /// Asks the worker to stop in order.
    pub fn stop(&self) {
        self.tell(Happened::Stop);
    }

    fn tell(&self, happened: Happened) {
        // A loop that has ended answers nobody, which whoever waits notices.
        let _ = self.happened.send(happened);
    }
}

/// A call as long as its consumer waits.
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

/// A production: whoever makes its elements, unless they are at work, and their work.
struct Run {
    elements: Option<Box<dyn Elements>>,
    work: Option<JoinHandle<()>>,
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

struct Driver {
    worker: Worker,
    upstream: Upstream,
    datasets: Arc<dyn Datasets>,
    clock: Clock,
    entropy: Entropy,
    to_self: mpsc::WeakUnboundedSender<Happened>,
    told: mpsc::UnboundedSender<Told>,
    replies: BTreeMap<CallId, oneshot::Sender<Outcome>>,
    runs: BTreeMap<RunId, Run>,
}

impl Driver {
    async fn run(mut self, mut happened: mpsc::UnboundedReceiver<Happened>) {
        self.step(Input::Start);
        loop {
            let (clock, next) = (self.clock, self.worker.deadline().map(|(at, _)| at));
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
            Happened::Asked(call, client, ask, reply) => {
                self.replies.insert(call, reply);
                self.step(Input::Asked { call, client, ask });
            }
            Happened::Cancelled(call) => {
                self.replies.remove(&call);
                self.step(Input::Cancel { call });
            }
            Happened::Left(call) => self.step(Input::Left { call }),
            Happened::Answered(rpc, result) => {
                let entropy = self.entropy.next();
                self.step(Input::Answered { rpc, result, entropy });
            }
            Happened::Opened(run, result) => {
                let result = result.map(|Opened { cardinality, elements }| {
                    if let Some(run) = self.runs.get_mut(&run) {
                        run.elements = Some(elements);
                    }
                    cardinality
                });
                self.step(Input::Opened { run, result });
            }
            Happened::Made(run, elements, made, then) => {
                if let Some(run) = self.runs.get_mut(&run) {
                    (run.elements, run.work) = (Some(elements), None);
                }
                self.step(Input::Produced { run, elements: made, then });
            }
            Happened::Stop => self.step(Input::Drain),
        }
    }

    fn step(&mut self, input: Input) {
        let mut out = Vec::new();
        self.worker.step(self.clock.now(), input, &mut out);
        for effect in out {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { rpc, request } => self.send(rpc, request),
            Effect::Answer { call, result } => {
                if let Some(reply) = self.replies.remove(&call) {
                    // A consumer that goes in this moment says so itself.
                    let _ = reply.send(result);
                }
            }
            Effect::Open { run, definition, part, compressed } => {
                self.open(run, definition, (part, compressed));
            }
            Effect::Produce { run, from, room_bytes } => self.produce(run, from, room_bytes),
            Effect::Close { run } => drop(self.runs.remove(&run)),
            Effect::Registered => self.say(Told::Registered),
            Effect::Observe(event) => self.log(event),
            Effect::Failed { status } => self.say(Told::Failed(status)),
            Effect::Drained { left_behind } => self.say(Told::Drained(left_behind)),
        }
    }

    fn log(&self, event: Event) {
        let (worker, dispatcher) = (&*self.worker.config().address, &*self.upstream.address);
        match event {
            Event::DispatcherLost { status } => {
                tracing::warn!(worker, dispatcher, %status, "the dispatcher is away; it is tried again");
            }
            Event::UpdateRefused { status } => {
                let text = "the dispatcher refuses to hear that a task is over; it is told again";
                tracing::warn!(worker, dispatcher, %status, "{text}");
            }
            Event::DispatcherReached { away } => {
                let away_ms = away.as_millis();
                tracing::info!(worker, dispatcher, away_ms, "the dispatcher is there");
            }
        }
    }

    fn say(&self, told: Told) {
        // Whoever started the worker may not listen.
        let _ = self.told.send(told);
    }

    fn send(&self, rpc: RpcId, request: Request) {
        let (upstream, to_self) = (self.upstream.clone(), self.to_self.clone());
        tokio::spawn(async move {
            let result = upstream.call(request).await;
            come_back(&to_self, Happened::Answered(rpc, result));
        });
    }

    fn open(&mut self, run: RunId, definition: Bytes, (part, compressed): (Part, bool)) {
        let opened = self.datasets.open(definition, part, compressed);
        let to_self = self.to_self.clone();
        let work = tokio::spawn(async move {
            let opened = contain_panic("opening a dataset", pin!(opened)).await;
            come_back(&to_self, Happened::Opened(run, opened));
        });
        self.runs.insert(run, Run { elements: None, work: Some(work) });
    }

    fn produce(&mut self, id: RunId, from: From, room_bytes: u64) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Some(mut elements) = run.elements.take() else { return };
        let to_self = self.to_self.clone();
        run.work = Some(tokio::spawn(async move {
            let (made, then) = made(elements.as_mut(), from, room_bytes).await;
            come_back(&to_self, Happened::Made(id, elements, made, then));
        }));
    }
}

async fn made(elements: &mut dyn Elements, from: From, room_bytes: u64) -> (Vec<Bytes>, Then) {
    let what = match from {
        From::Stream => "reading the dataset".to_owned(),
        From::Split(split) => format!("reading split {split}"),
        From::Rest => "reading what is left of the dataset".to_owned(),
    };
    let making = pin!(async { Ok(elements.make(from, room_bytes).await) });
    contain_panic(&what, making).await.unwrap_or_else(|status| (Vec::new(), Then::Failed(status)))
}

/// A loop that has ended waits for nothing.
fn come_back(to: &mpsc::WeakUnboundedSender<Happened>, happened: Happened) {
    if let Some(to) = to.upgrade() {
        let _ = to.send(happened);
    }
}
