//! The same by NVIDIA's driver, on the first GPU of this machine.

use std::time::Duration;

use rondo::rendezvous::{Args, CudaTensor, Ways};
use rondo::tensor::Region;
use rondo::tensor::cuda::{Cuda, CudaMemory};
use rondo_core::element::{Dtype, Shape};
use rondo_core::status::{Code, Status};

use super::gpu::Stream;
use super::{GPU, SOON, STEP, counted, key, on, pair};

const PAUSE: Duration = Duration::from_millis(50);

fn cuda() -> Option<Cuda> {
    super::gpu::cuda("tensors of a rendezvous on a GPU", 64 << 20)
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| ((at + seed) % 251) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_received_onto_a_gpu_is_there_for_the_stream_that_was_named() {
    let Some(cuda) = cuda() else { return };
    for ways in [Ways::onto(cuda.clone(), GPU), Ways::default()] {
        let [from, to] = pair(ways);
        // Beyond 32 MiB it passes through pinned memory.
        for (at, length) in [0, 1, 1000, 1 << 20, 3 << 20, (33 << 20) + 7].into_iter().enumerate() {
            let edge = key(0, 1, &format!("edge_{at}"));
            from.find(STEP).unwrap().send(&edge, Args::default(), counted(length), false).unwrap();
            let stream = Stream::new();
            let read = cuda.allocate(GPU, length).unwrap();
            let allocate = |tensor: &rondo::rendezvous::Tensor| -> Result<CudaMemory, Status> {
                Ok(cuda.allocate(GPU, usize::try_from(tensor.size_bytes()).unwrap())?)
            };
            let step = to.find(STEP).unwrap();
            // SAFETY: the stream stays.
            let received = unsafe { step.recv_onto(&edge, on(stream.handle()), SOON, allocate) };
            let tensor = received.await.unwrap().value.tensor;
            if length > 0 {
                stream.copy(read.pointer(), tensor.memory().pointer(), length);
            }
            stream.finish();
            assert!(read.to_host().unwrap().to_vec() == bytes(length, 0), "{length}");
            assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::Uint8, counted(length).shape()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_from_a_gpu_is_what_its_stream_leaves_there() {
    let Some(cuda) = cuda() else { return };
    let [from, to] = pair(Ways::default());
    let (memory, stream) = (cuda.allocate(GPU, 4000).unwrap(), Stream::new());
    memory.fill(Region::from(bytes::Bytes::from(vec![99; 4000]))).unwrap();
    memory.wait().unwrap();
    let shape = Shape::of([10, 100]).unwrap();
    let tensor = CudaTensor::new(Dtype::Float, shape.clone(), memory).unwrap();
    for round in 0..10 {
        let edge = key(0, 1, "edge");
        let gate = stream.gate();
        stream.write(tensor.memory().pointer(), round, 4000);
        let opened = gate.open_in(PAUSE);
        let step = from.find(STEP).unwrap();
        // SAFETY: the stream stays.
        unsafe { step.send_from(&edge, on(stream.handle()), &tensor, false) }.unwrap();
        let delivery = to.find(STEP).unwrap().recv(&edge, Args::default(), SOON).await.unwrap();
        let wanted = rondo::rendezvous::Tensor::fixed(
            Dtype::Float,
            shape.clone(),
            bytes::Bytes::from(vec![round; 4000]),
        );
        assert!(delivery.value.tensor == wanted.unwrap(), "{round}");
        opened.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_on_the_gpu_is_refused() {
    let Some(cuda) = cuda() else { return };
    let [from, to] = pair(Ways::default());
    let edge = key(0, 1, "long");
    from.find(STEP).unwrap().send(&edge, Args::default(), counted(1000), false).unwrap();
    let step = to.find(STEP).unwrap();
    let place = |_: &rondo::rendezvous::Tensor| Ok(cuda.allocate(GPU, 1 << 50)?);
    // SAFETY: it is on the default stream.
    let error = unsafe { step.recv_onto(&edge, Args::default(), SOON, place) }.await.unwrap_err();
    assert!(error.code == Code::ResourceExhausted && error.message.contains("are free"), "{error}");
}
