//! Tensors that a rendezvous brings onto a GPU, and takes from one: by a driver without a GPU that notes what
//! no program may do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]
#![cfg(not(madsim))]

#[path = "../../tensor/tests/double/mod.rs"]
#[allow(dead_code, reason = "the double's own tests ask it more")]
mod double;
#[path = "../../tensor/tests/gpu/mod.rs"]
#[allow(dead_code, reason = "the GPU's own tests ask it more")]
mod gpu;
mod real;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use double::Hardware;
use rondo::clock::Clock;
use rondo::rendezvous::{
    Args, Config, CudaTensor, FrameAndIter, Key, RendezvousManager, RendezvousService, Session,
    Settings, Tensor, Ways,
};
use rondo::service::Router;
use rondo::tensor::cuda::{CudaMemory, Ordinal, StreamHandle};
use rondo::transport::{ServerConfig, listener, serve};
use rondo_core::element::{Dtype, Shape};
use rondo_core::ids::StepId;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{SERVICE_RENDEZVOUS, SERVICE_WORKER};

const STEP: StepId = StepId::new(7);
const GPU: Ordinal = Ordinal(0);
const SOON: Option<Duration> = Some(Duration::from_secs(30));

fn name(task: u32) -> String {
    format!("/job:w/replica:0/task:{task}")
}

fn key(from: u32, to: u32, edge: &str) -> Key {
    let device = |task| format!("{}/device:CPU:0", name(task));
    Key::create(&device(from), from.into(), &device(to), edge, FrameAndIter::default()).unwrap()
}

/// Workers 0 and 1, which know each other; worker 1 receives by these ways.
fn pair(ways: Ways) -> [RendezvousManager; 2] {
    let places = [(); 2].map(|()| listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap());
    let at = [0, 1].map(|task: usize| places[task].local_addr().unwrap().to_string());
    let mut all = places.into_iter().zip([Ways::default(), ways]).zip(0_u32..);
    [(); 2].map(|()| {
        let ((place, ways), task) = all.next().unwrap();
        let machine = Config {
            devices: BTreeMap::from([("/device:CPU:0".to_owned(), task.into())]),
            session: Some(Session { worker_name: name(task).into() }),
            entropy: u64::from(task) << 32 | 0xabc,
            ..Config::default()
        };
        let other = 1 - task;
        let peers = BTreeMap::from([(name(other), at[other as usize].clone())]);
        let settings = Settings { machine, peers };
        let manager = RendezvousManager::start(settings, Clock::start(), ways).unwrap();
        let service = RendezvousService::new(manager.clone());
        let router = Router::new().with_names(&[SERVICE_WORKER, SERVICE_RENDEZVOUS], service);
        let stopped = std::future::pending();
        tokio::spawn(serve(place, Arc::new(router), ServerConfig::default(), stopped));
        manager
    })
}

fn counted(length: usize) -> Tensor {
    let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    Tensor::fixed(Dtype::Uint8, Shape::list(length as u64).unwrap(), bytes.into()).unwrap()
}

fn on(stream: StreamHandle) -> Args {
    Args { device_context: stream.get(), ..Args::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_received_onto_a_gpu_costs_one_copy_onto_it() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 64 << 20);
    let [from, to] = pair(Ways::onto(cuda.clone(), GPU));
    for (at, length) in [0, 1, 1000, 1 << 20, 3 << 20].into_iter().enumerate() {
        let edge = key(0, 1, &format!("edge_{at}"));
        from.find(STEP).unwrap().send(&edge, Args::default(), counted(length), false).unwrap();
        let stream = hardware.stream();
        let allocate = |tensor: &Tensor| -> Result<CudaMemory, Status> {
            Ok(cuda.allocate(GPU, usize::try_from(tensor.size_bytes()).unwrap())?)
        };
        let before = hardware.counts();
        let step = to.find(STEP).unwrap();
        // SAFETY: the hardware keeps the stream.
        let delivery = unsafe { step.recv_onto(&edge, on(stream), SOON, allocate) }.await.unwrap();
        let tensor = delivery.value.tensor;
        let copies = hardware.counts().up - before.up;
        assert_eq!(copies, usize::from(length > 0), "{length}");
        let seen = hardware.seen_by(stream, tensor.memory().pointer(), length);
        let wanted: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        assert!(seen == wanted, "{length}");
        assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::Uint8, counted(length).shape()));
        if length >= 1 << 20 {
            // Read into pinned memory: nothing else was staged.
            let (_, used) = cuda.staging_bytes();
            assert!((length..length + (1 << 20)).contains(&used), "{length}: {used}");
        }
        drop(tensor);
        hardware.finish_all();
    }
    drop((from, to));
    hardware.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_from_a_gpu_is_what_its_stream_leaves_there() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let [from, to] = pair(Ways::default());
    let memory = cuda.allocate(GPU, 4000).unwrap();
    let shape = Shape::of([10, 100]).unwrap();
    let tensor = CudaTensor::new(Dtype::Float, shape.clone(), memory).unwrap();
    let stream = hardware.stream();
    for round in 0..20 {
        let edge = key(0, 1, "edge");
        hardware.kernel(stream, tensor.memory().pointer(), &[round; 4000]);
        let step = from.find(STEP).unwrap();
        // SAFETY: as above.
        unsafe { step.send_from(&edge, on(stream), &tensor, false) }.unwrap();
        let delivery = to.find(STEP).unwrap().recv(&edge, Args::default(), SOON).await.unwrap();
        let values = Bytes::from(vec![round; 4000]);
        let wanted = Tensor::fixed(Dtype::Float, shape.clone(), values).unwrap();
        assert!(delivery.value.tensor == wanted, "{round}");
    }
    let counts = hardware.counts();
    assert_eq!((counts.up, counts.down, counts.pins), (0, 20, 1));
    hardware.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_gpu_can_hold_is_refused() {
    let hardware = Hardware::new(1, 1000);
    let cuda = hardware.process(&[0], 1 << 20);
    let [from, to] = pair(Ways::default());
    let step = from.find(STEP).unwrap();
    let strings = Tensor::strings(Shape::list(1).unwrap(), Bytes::new(), vec![0].into()).unwrap();
    step.send(&key(0, 1, "texts"), Args::default(), strings, false).unwrap();
    step.send(&key(0, 1, "long"), Args::default(), counted(1001), false).unwrap();
    let receiving = to.find(STEP).unwrap();
    let memory = |_: &Tensor| Ok(cuda.allocate(GPU, 1001)?);
    let refused = async |name| {
        let key = key(0, 1, name);
        // SAFETY: it is on the default stream.
        unsafe { receiving.recv_onto(&key, Args::default(), SOON, memory) }.await
    };
    let error = refused("texts").await;
    assert_eq!(error.unwrap_err().code, Code::InvalidArgument);
    let error = refused("long").await.unwrap_err();
    assert!(error.code == Code::ResourceExhausted && error.message.contains("1000"), "{error}");
    let shape = Shape::list(3).unwrap();
    let error = CudaTensor::new(Dtype::Float, shape, cuda.allocate(GPU, 13).unwrap()).unwrap_err();
    assert!(error.code == Code::InvalidArgument && error.message.contains("13"), "{error}");
    hardware.assert_sound();
}
