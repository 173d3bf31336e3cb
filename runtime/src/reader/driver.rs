//! The reader's loop: one owner of the machine, fed by the application, answers and the clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rondo_core::dispatcher::GetOrCreateJob;
use rondo_core::ids::CallId;
use rondo_core::reader::{
    Answer, Config, Delivery, Effect, FetchElement, Fetched, Input, ReadSplit, Reader, Report,
    Request, RpcId,
};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{
    ElementAnswer, READ_SPLIT_PATH, decode_element_answer, decode_reader_answer, decode_records,
    encode_fetch, encode_read_split, encode_reader_request,
};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::transport::{MessageStream, Transport};

/// Workers may take as long as they need: a broken connection is noticed by itself.
const FETCH_DEADLINE: Duration = Duration::from_secs(3600);

/// What comes to the loop.
pub(super) enum Happened {
    Wanted(u64),
    /// By the splits' places: how many of a split's records were consumed.
    Consumed(Vec<(u64, u64)>),
    Flush(oneshot::Sender<Result<(), Status>>),
    Report(oneshot::Sender<Report>),
    Answered(RpcId, Result<Answer, Status>),
    Close,
}

/// What comes to the application.
pub(super) enum Told {
    Delivered(Delivery),
    /// Nothing more comes before what came is consumed.
    Drained,
    Ended(Result<(), Status>),
}

/// Whom a reader reads from, and what.
pub(super) struct Source {
    pub(super) dispatcher: String,
    pub(super) job: GetOrCreateJob,
    pub(super) transport: Arc<dyn Transport>,
    /// Longest message of a worker, in bytes.
    pub(super) message_bytes_max: u64,
}

/// The application's ends.
pub(super) struct Ends {
    pub(super) happened: mpsc::UnboundedSender<Happened>,
    pub(super) told: mpsc::UnboundedReceiver<Told>,
    /// Ends when the reader has left, with how it left.
    pub(super) task: JoinHandle<Result<(), Status>>,
    /// All was read and acknowledged.
    pub(super) has_read_all: Arc<AtomicBool>,
    /// How far it came, once it has left.
    pub(super) last_report: Arc<OnceLock<Report>>,
}

/// Starts the loop, which ends when the reader has left: at its end, when it is closed, or when
/// nobody can tell it anything any more.
pub(super) fn drive(config: Config, source: Source, clock: Clock, mut entropy: Entropy) -> Ends {
    let (sender, happened) = mpsc::unbounded_channel();
    let (tell, told) = mpsc::unbounded_channel();
    let reader = Reader::new(config, entropy.next());
    let has_read_all = Arc::new(AtomicBool::new(false));
    let last_report = Arc::new(OnceLock::new());
    let driver = Driver {
        reader,
        source: Arc::new(source),
        clock,
        entropy,
        to_self: sender.clone(),
        tell,
        sent: BTreeMap::new(),
        flushes: BTreeMap::new(),
        calls: 0,
        is_closed: false,
        has_read_all: Arc::clone(&has_read_all),
        last_report: Arc::clone(&last_report),
    };
    let task = tokio::spawn(driver.run(happened));
    Ends { happened: sender, told, task, has_read_all, last_report }
}

/// A call or a stream under way.
struct Sent {
    task: JoinHandle<()>,
    /// Messages of a stream that may be taken.
    asked: Option<Arc<Semaphore>>,
}

struct Driver {
    reader: Reader,
    source: Arc<Source>,
    clock: Clock,
    entropy: Entropy,
    /// Calls are answered although the application has gone.
    to_self: mpsc::UnboundedSender<Happened>,
    tell: mpsc::UnboundedSender<Told>,
    sent: BTreeMap<RpcId, Sent>,
    flushes: BTreeMap<CallId, oneshot::Sender<Result<(), Status>>>,
    calls: u64,
    /// The application wants no more.
    is_closed: bool,
    has_read_all: Arc<AtomicBool>,
    last_report: Arc<OnceLock<Report>>,
}

impl Driver {
    /// Runs until the reader has left. An error if the dispatcher was not told what was consumed, or
    /// that the reader leaves.
    async fn run(mut self, mut happened: mpsc::UnboundedReceiver<Happened>) -> Result<(), Status> {
        self.drive(&mut happened).await;
        // Whoever asks from now on gets no answer, and looks here.
        let _ = self.last_report.set(self.reader.report(self.clock.now()));
        let ended = || Err(Status::new(Code::Internal, "the reader's loop ended before it left"));
        self.reader.left().cloned().unwrap_or_else(ended)
    }

    async fn drive(&mut self, happened: &mut mpsc::UnboundedReceiver<Happened>) {
        self.step(Input::Tick);
        while !self.reader.is_over() {
            let (clock, next) = (self.clock, self.reader.deadline());
            tokio::select! {
                biased;
                // What the application has consumed is known before it counts as gone.
                happened = happened.recv() => match happened {
                    Some(happened) => self.take(happened),
                    None => return,
                },
                () = self.tell.closed(), if !self.is_closed => self.take(Happened::Close),
                () = clock.sleep_until(next) => self.step(Input::Tick),
            }
        }
    }

    fn take(&mut self, happened: Happened) {
        match happened {
            Happened::Wanted(deliveries) => self.step(Input::Wanted { deliveries }),
            Happened::Consumed(upto) => self.step(Input::Consumed { upto }),
            Happened::Flush(reply) => {
                self.calls = self.calls.saturating_add(1);
                let call = CallId::new(self.calls);
                self.flushes.insert(call, reply);
                self.step(Input::Flush { call });
            }
            Happened::Report(reply) => {
                // Who asked may have gone.
                let _ = reply.send(self.reader.report(self.clock.now()));
            }
            Happened::Answered(rpc, result) => self.answered(rpc, result),
            Happened::Close => {
                self.is_closed = true;
                self.step(Input::Close);
            }
        }
    }

    fn answered(&mut self, rpc: RpcId, result: Result<Answer, Status>) {
        let is_over = match (&result, self.sent.get(&rpc)) {
            (_, None) => return,
            (Ok(_), Some(sent)) => sent.asked.is_none(),
            (Err(_), Some(_)) => true,
        };
        if is_over {
            self.sent.remove(&rpc);
        }
        let entropy = self.entropy.next();
        self.step(Input::Answered { rpc, result, entropy });
    }

    fn step(&mut self, input: Input) {
        let mut out = Vec::new();
        self.reader.step(self.clock.now(), input, &mut out);
        for effect in out {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Ask { rpc, request, deadline } => {
                let deadline = Duration::from_nanos(deadline.as_nanos());
                let asked = ask(Arc::clone(&self.source), request, deadline);
                self.spawn(rpc, asked);
            }
            Effect::Fetch { rpc, address, fetch } => {
                let fetched = fetch_element(Arc::clone(&self.source), address, fetch);
                self.spawn(rpc, fetched);
            }
            Effect::Open { rpc, address, read } => self.open(rpc, &address, &read),
            Effect::Take { rpc } => {
                if let Some(asked) = self.sent.get(&rpc).and_then(|sent| sent.asked.as_ref()) {
                    asked.add_permits(1);
                }
            }
            Effect::Withdraw { rpc } => {
                if let Some(sent) = self.sent.remove(&rpc) {
                    sent.task.abort();
                }
            }
            Effect::Deliver(delivery) => self.tell(Told::Delivered(delivery)),
            Effect::Drained => self.tell(Told::Drained),
            Effect::Ended { result } => {
                self.has_read_all.store(result.is_ok(), Ordering::Relaxed);
                let counts = self.reader.report(self.clock.now()).counts;
                if result.is_ok() && counts.records == 0 {
                    tracing::info!("the pass is over, and this reader got nothing of it");
                }
                self.tell(Told::Ended(result));
            }
            Effect::Flushed { call, result } => {
                if let Some(reply) = self.flushes.remove(&call) {
                    // Who asked may have gone.
                    let _ = reply.send(result);
                }
            }
        }
    }

    fn tell(&self, told: Told) {
        // An application that has gone is about to be noticed.
        let _ = self.tell.send(told);
    }

    fn spawn(
        &mut self,
        rpc: RpcId,
        call: impl Future<Output = Result<Answer, Status>> + Send + 'static,
    ) {
        let to_self = self.to_self.clone();
        let task = tokio::spawn(async move {
            // A loop that has ended waits for nothing.
            let _ = to_self.send(Happened::Answered(rpc, call.await));
        });
        self.sent.insert(rpc, Sent { task, asked: None });
    }

    fn open(&mut self, rpc: RpcId, address: &str, read: &ReadSplit) {
        let message = encode_read_split(read);
        let stream = self.source.transport.streaming(address, READ_SPLIT_PATH, message);
        let asked = Arc::new(Semaphore::new(1));
        let taken = take_all(
            rpc,
            stream,
            Arc::clone(&asked),
            self.source.message_bytes_max,
            self.to_self.clone(),
        );
        self.sent.insert(rpc, Sent { task: tokio::spawn(taken), asked: Some(asked) });
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        std::mem::take(&mut self.sent).into_values().for_each(|sent| sent.task.abort());
    }
}

async fn ask(source: Arc<Source>, request: Request, deadline: Duration) -> Result<Answer, Status> {
    let (path, message) = encode_reader_request(&source.job, &request);
    let answer = source.transport.unary(&source.dispatcher, path, message, deadline).await?;
    decode_reader_answer(&request, &answer)
}

async fn fetch_element(
    source: Arc<Source>,
    address: Arc<str>,
    fetch: FetchElement,
) -> Result<Answer, Status> {
    let (path, message) = encode_fetch(&fetch);
    let answer = source.transport.unary(&address, path, message, FETCH_DEADLINE).await?;
    let decoded = decode_element_answer(&answer, source.message_bytes_max)?;
    Ok(Answer::Element(match decoded {
        ElementAnswer::Element(element) => Fetched::Element(element),
        ElementAnswer::End => Fetched::End,
        ElementAnswer::Skip => Fetched::Skip,
    }))
}

/// Takes the messages of a stream, each when it is asked for.
async fn take_all(
    rpc: RpcId,
    mut stream: MessageStream,
    asked: Arc<Semaphore>,
    bytes_max: u64,
    to_self: mpsc::UnboundedSender<Happened>,
) {
    while let Ok(permit) = asked.acquire().await {
        permit.forget();
        let result = match stream.next_pieces().await {
            Ok(Some(message)) => decode_records(message, bytes_max).map(Answer::Records),
            Ok(None) => {
                let text = "the worker's stream ended before the split did";
                Err(Status::new(Code::Unavailable, text))
            }
            Err(status) => Err(status),
        };
        let is_over = result.is_err();
        // A loop that has ended waits for nothing.
        if to_self.send(Happened::Answered(rpc, result)).is_err() || is_over {
            return;
        }
    }
}
