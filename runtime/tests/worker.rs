//! The worker's loop and services, over a dispatcher and data that are made up.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use rondo::clock::Clock;
use rondo::entropy::Entropy;
use rondo::transport::budget::Budget;
use rondo::transport::{
    BoxFuture, Call, ConnectionId, MessageStream, MessageWriter, RequestMemory, Service, Transport,
};
use rondo::worker::{
    Datasets, Elements, Front, Handle, Opened, Records, Told, Upstream, identity, machine, start,
};
use rondo_core::dispatcher::{Reply, WorkerHeartbeatReply};
use rondo_core::status::{Code, Status};
use rondo_core::worker::{Config, From, Part, Then};
use rondo_proto::admin::ReadSplitRequest;
use rondo_proto::convert::{
    Encoded, Method, READ_SPLIT_PATH, ReadSplit, SplitRecords, WorkerMethod, encode_end,
    encode_reply, encode_version,
};
use rondo_proto::tf::data as wire;

const ADDRESS: &str = "host:1";
const SPLITS: u64 = 20;
const OF_SPLIT: u64 = 25;
/// A split whose data makes its reader panic.
const POISONED: i64 = 13;
/// A split whose data never come.
const SILENT: u64 = 1000;

/// Hands out splits one after another.
struct Dispatcher {
    next: AtomicU64,
    splits: u64,
}

impl Dispatcher {
    fn answer(&self, path: &str) -> Result<Bytes, Status> {
        let reply = match Method::from_path(path) {
            Some(Method::GetVersion) => return Ok(encode_version(9)),
            Some(Method::WorkerHeartbeat) => Reply::WorkerHeartbeat(WorkerHeartbeatReply {
                new_tasks: Vec::new(),
                tasks_to_delete: Vec::new(),
            }),
            Some(Method::DisableCompressionAtRuntime) => Reply::Compression(None),
            Some(Method::WorkerUpdate) => Reply::WorkerUpdated,
            Some(Method::GetSplit) => {
                let next = self.next.fetch_add(1, Ordering::SeqCst);
                Reply::Split((next < self.splits).then(|| next.try_into().unwrap()))
            }
            _ => return Err(Status::new(Code::Unimplemented, path)),
        };
        let Encoded::Message(message) = encode_reply(reply) else { panic!("a message") };
        Ok(message)
    }
}

impl Transport for Dispatcher {
    fn unary(
        &self,
        _address: &str,
        path: &'static str,
        _message: Bytes,
        _deadline: Duration,
    ) -> BoxFuture<'static, Result<Bytes, Status>> {
        Box::pin(std::future::ready(self.answer(path)))
    }

    fn streaming(&self, _address: &str, _path: &'static str, _message: Bytes) -> MessageStream {
        MessageStream::written(|_| std::future::ready(Ok(())))
    }
}

/// Numbers, so many to a split.
#[derive(Default)]
struct Numbers {
    batches: Arc<AtomicUsize>,
    readers: Arc<AtomicUsize>,
}

struct Making {
    at: Option<(i64, u64)>,
}

impl Elements for Making {
    fn make(&mut self, from: From, _room_bytes: u64) -> BoxFuture<'_, (Vec<Bytes>, Then)> {
        let From::Split(split) = from else {
            return Box::pin(std::future::ready((Vec::new(), Then::End)));
        };
        assert_ne!(split, POISONED, "poison");
        if u64::try_from(split) == Ok(SILENT) {
            return Box::pin(std::future::pending());
        }
        let next = self.at.filter(|(at, _)| *at == split).map_or(0, |(_, next)| next);
        let upto = (next + 7).min(OF_SPLIT);
        self.at = Some((split, upto));
        let first = u64::try_from(split).unwrap() * OF_SPLIT;
        let made = (first + next..first + upto).map(|it| Bytes::copy_from_slice(&it.to_le_bytes()));
        let then = if upto == OF_SPLIT { Then::End } else { Then::More };
        let made = (made.collect(), then);
        Box::pin(async {
            tokio::task::yield_now().await;
            made
        })
    }
}

struct Reading {
    batches: Arc<AtomicUsize>,
    readers: Arc<AtomicUsize>,
}

impl Records for Reading {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SplitRecords>, Status>> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        let batch = SplitRecords { count: 1, ..SplitRecords::default() };
        Box::pin(std::future::ready(Ok(Some(batch))))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Datasets for Numbers {
    fn open(
        &self,
        _definition: Bytes,
        part: Part,
        compressed: bool,
    ) -> BoxFuture<'static, Result<Opened, Status>> {
        assert_eq!((part, compressed), (Part::Splits, false));
        let elements: Box<dyn Elements> = Box::new(Making { at: None });
        Box::pin(std::future::ready(Ok(Opened { cardinality: -2, elements })))
    }

    fn read_split(
        &self,
        _definition: Bytes,
        _split: ReadSplit,
    ) -> BoxFuture<'static, Result<Box<dyn Records>, Status>> {
        self.readers.fetch_add(1, Ordering::SeqCst);
        let (batches, readers) = (Arc::clone(&self.batches), Arc::clone(&self.readers));
        let records: Box<dyn Records> = Box::new(Reading { batches, readers });
        Box::pin(std::future::ready(Ok(records)))
    }
}

/// A registered worker with a task.
struct World {
    front: Front,
    handle: Handle,
    told: tokio::sync::mpsc::UnboundedReceiver<Told>,
    datasets: Arc<Numbers>,
}

impl World {
    async fn start(splits: u64) -> Self {
        Self::start_at(0, splits, machine()).await
    }

    /// A worker to which the dispatcher gives the splits from this one on.
    async fn start_at(first: u64, splits: u64, config: Config) -> Self {
        let config = Config { address: ADDRESS.into(), buffer_bytes: 256, ..config };
        let upstream = Upstream {
            address: "dispatcher:1".into(),
            identity: Arc::new(identity(ADDRESS, &[], -1)),
            transport: Arc::new(Dispatcher { next: AtomicU64::new(first), splits }),
        };
        let datasets = Arc::new(Numbers::default());
        let surroundings = (Clock::start(), Entropy::from_seed(1));
        let (handle, mut told) =
            start(config, upstream, Arc::clone(&datasets) as Arc<dyn Datasets>, surroundings);
        assert_eq!(told.recv().await, Some(Told::Registered));
        let front = Front::new(handle.clone(), datasets.clone(), ADDRESS.into());
        let task = wire::TaskDef {
            task_id: 5,
            dataset: Some(wire::task_def::Dataset::DatasetDef(Bytes::new())),
            worker_address: ADDRESS.into(),
            processing_mode_def: Some(wire::ProcessingModeDef { sharding_policy: 1 }),
            ..Default::default()
        };
        let request = wire::ProcessTaskRequest { task: Some(task) };
        let world = Self { front, handle, told, datasets };
        let answer = world.front.unary(call(WorkerMethod::ProcessTask.path(), &request)).await;
        assert_eq!(answer, Ok(Bytes::new()));
        world
    }

    fn get(&self) -> BoxFuture<'_, Result<Bytes, Status>> {
        let request = wire::GetElementRequest { task_id: 5, ..Default::default() };
        self.front.unary(call(WorkerMethod::GetElement.path(), &request))
    }
}

fn call(path: &str, request: &impl Message) -> Call {
    Call {
        path: path.to_owned(),
        message: request.encode_to_vec().into(),
        peer: "127.0.0.1:1".parse().unwrap(),
        connection: ConnectionId::new(1),
        worker: None,
        memory: RequestMemory::default(),
        budget: Budget::new(1 << 30, 512 << 20),
    }
}

fn number(element: &Bytes) -> u64 {
    u64::from_le_bytes(element.as_ref().try_into().unwrap())
}

/// Calls are dropped after they were polled a few times, wherever they are by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_element_whose_call_is_dropped_is_anothers() {
    let world = Arc::new(World::start(10).await);
    let dropped = Arc::new(AtomicUsize::new(0));
    let consumers = (0..4_usize).map(|consumer| {
        let (world, dropped) = (Arc::clone(&world), Arc::clone(&dropped));
        tokio::spawn(async move {
            let mut got = Vec::new();
            for turn in consumer.. {
                let patience = async {
                    for _ in 0..turn % 7 {
                        tokio::task::yield_now().await;
                    }
                };
                let answer = tokio::select! {
                    biased;
                    answer = world.get() => answer.unwrap(),
                    () = patience, if turn % 3 > 0 => {
                        dropped.fetch_add(1, Ordering::SeqCst);
                        continue;
                    }
                };
                if answer == encode_end() {
                    return got;
                }
                got.push(number(&answer));
            }
            got
        })
    });
    let consumers: Vec<_> = consumers.collect();
    let mut all = Vec::new();
    for consumer in consumers {
        let got = tokio::time::timeout(Duration::from_secs(60), consumer).await;
        all.extend(got.expect("every call is answered").unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (0..10 * OF_SPLIT).collect::<Vec<_>>());
    assert!(dropped.load(Ordering::SeqCst) > 10, "some were dropped");
}

#[tokio::test]
async fn a_panic_in_the_data_names_the_split_and_ends_nothing_else() {
    let world = World::start(SPLITS).await;
    let mut got = Vec::new();
    let refused = loop {
        match world.get().await {
            Ok(element) => got.push(number(&element)),
            Err(status) => break status,
        }
    };
    assert_eq!(got, (0..13 * OF_SPLIT).collect::<Vec<_>>(), "all before it");
    assert_eq!(refused.code, Code::Internal);
    assert!(
        refused.message.contains("split 13") && refused.message.contains("poison"),
        "{refused}"
    );
    assert_eq!(world.get().await, Err(refused), "to everybody");
}

#[tokio::test]
async fn a_stopping_worker_hands_out_what_it_has_taken() {
    let mut world = World::start(SPLITS).await;
    let mut got = vec![number(&world.get().await.unwrap())];
    world.handle.stop();
    let refused = loop {
        match world.get().await {
            Ok(element) => got.push(number(&element)),
            Err(status) => break status,
        }
    };
    assert_eq!(refused.code, Code::Cancelled);
    assert_eq!(got.len() as u64 % OF_SPLIT, 0, "whole splits: {got:?}");
    assert_eq!(got, (0..got.len() as u64).collect::<Vec<_>>());
    assert_eq!(world.told.recv().await, Some(Told::Drained(0)));
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_its_stream_up_and_ends_it_when_it_goes() {
    let world = Arc::new(World::start(SPLITS).await);
    let (batches, readers) = (world.datasets.batches.clone(), world.datasets.readers.clone());
    let request = ReadSplitRequest { task_id: 5, ..Default::default() };
    let served = Arc::clone(&world);
    let mut stream = MessageStream::written(|to: MessageWriter| async move {
        served.front.streaming(call(READ_SPLIT_PATH, &request), to).await
    });
    for taken in 1..=10 {
        stream.next().await.unwrap().unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let made = batches.load(Ordering::SeqCst);
        assert!((taken..=taken + 4).contains(&made), "{taken} were taken, {made} made");
    }
    assert_eq!(readers.load(Ordering::SeqCst), 1);
    drop(stream);
    for _ in 0..1000 {
        if readers.load(Ordering::SeqCst) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the reading goes on");
}

/// Asks for an element on a connection so many times, all at once. Returns how many of the calls are refused
/// before `waiting` of them are left.
async fn refused(world: &Arc<World>, connection: u64, calls: usize, waiting: usize) -> usize {
    let asks = (0..calls).map(|_| {
        let world = Arc::clone(world);
        let request = wire::GetElementRequest { task_id: 5, ..Default::default() };
        let asked = Call {
            connection: ConnectionId::new(connection),
            ..call(WorkerMethod::GetElement.path(), &request)
        };
        tokio::spawn(async move { world.front.unary(asked).await })
    });
    let asks: Vec<_> = asks.collect();
    let left = || asks.iter().filter(|ask| !ask.is_finished()).count();
    for _ in 0..2000 {
        if left() <= waiting {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (over, left) = (calls - left(), left());
    for ask in asks.into_iter().filter(|ask| ask.is_finished()) {
        let status = ask.await.unwrap().unwrap_err();
        assert_eq!(status.code, Code::Unavailable, "{status}");
        assert!(status.message.contains("40 calls may wait"), "{status}");
    }
    assert_eq!(left, waiting);
    over
}

/// Connections are told apart by their numbers: those of one host share its address.
#[tokio::test]
async fn a_connection_has_as_many_waiting_calls_as_it_leaves_free() {
    let config = Config { calls_max: 40, ..machine() };
    let world = Arc::new(World::start_at(SILENT, SILENT + 1, config).await);
    assert_eq!(refused(&world, 1, 30, 20).await, 10);
    assert_eq!(refused(&world, 2, 30, 10).await, 20);
    for connection in 3..6 {
        assert_eq!(refused(&world, connection, 10, 8).await, 2, "eight of each in any case");
    }
}

/// A call may wait for hours. Its request, which may be long, takes no memory meanwhile.
#[tokio::test]
async fn a_call_that_waits_gives_the_memory_of_its_request_back() {
    let world = Arc::new(World::start_at(SILENT, SILENT + 1, machine()).await);
    let budget = Budget::new(2 << 20, 1 << 20);
    let memory = RequestMemory::new(budget.acquire(1 << 20).await.unwrap());
    let request = wire::GetElementRequest { task_id: 5, ..Default::default() };
    let asked = Call { memory, ..call(WorkerMethod::GetElement.path(), &request) };
    let served = Arc::clone(&world);
    let waiting = tokio::spawn(async move { served.front.unary(asked).await });
    // One message has the room of the pool, and one the turn.
    let both = async { (budget.acquire(1 << 20).await, budget.acquire(1 << 20).await) };
    let both = tokio::time::timeout(Duration::from_secs(20), both).await;
    assert!(both.is_ok(), "the request is held while its call waits");
    assert!(!waiting.is_finished());
}
