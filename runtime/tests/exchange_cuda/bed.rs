//! A worker and a server on threads of this process, each with GPUs of its own.

use std::time::Duration;

use rondo::exchange::{Error, Exchange, Scheduler, Settings, Tensor, Ways};
use rondo::tensor::cuda::{Cuda, CudaMemory, Ordinal, StreamHandle};
use rondo::tensor::{Region, TensorBuffer};
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::worker::Since;
use rondo_core::exchange::{
    Handler, InstanceRank, Key, Role, ScalarType, TensorInfo, WorkerRank, scheduler,
};

use super::double::Hardware;

/// How long what shall happen may take.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// A process' first GPU.
pub(crate) const GPU: Ordinal = Ordinal(0);

pub(crate) fn always() -> bool {
    true
}

/// TCP alone, Unix sockets, shared memory.
pub(crate) fn all_ways() -> [Ways; 3] {
    [
        Ways { unix: false, shared_bytes: 0 },
        Ways { unix: true, shared_bytes: 0 },
        Ways { unix: false, shared_bytes: 16 << 20 },
    ]
}

/// Shared memory alone.
pub(crate) fn shared() -> Ways {
    all_ways()[2]
}

/// A worker and a server that take part.
pub(crate) fn start(
    ways: Ways,
    worker: Option<&Cuda>,
    server: Option<&Cuda>,
) -> (Exchange, Exchange) {
    let sizes = Sizes { workers: 1, servers: 1, group: 1 };
    let scheduler =
        Scheduler::start(scheduler::Settings::default(), "127.0.0.1", 0, false).unwrap();
    let settings = |role, cuda: Option<&Cuda>| Settings {
        rank: Some(InstanceRank::new(0)),
        ways,
        cuda: cuda.cloned(),
        join_timeout: Some(SOON),
        ..Settings::new(role, sizes, scheduler.address())
    };
    let (worker, server) = (settings(Role::Worker, worker), settings(Role::Server, server));
    let begun = std::thread::scope(|scope| {
        let server = scope.spawn(|| Exchange::start(server, &mut always).unwrap());
        (Exchange::start(worker, &mut always).unwrap(), server.join().unwrap())
    });
    // Neither needs its scheduler to exchange tensors.
    drop(scheduler);
    begun
}

/// Bytes that differ from place to place, and from seed to seed.
pub(crate) fn counted(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| ((at + seed) % 251) as u8).collect()
}

pub(crate) fn info(length: usize) -> TensorInfo {
    TensorInfo::new(ScalarType::Byte, &[length as i64]).unwrap()
}

/// Memory under a key.
pub(crate) fn tensor(key: u64, payload: impl Into<TensorBuffer>) -> Tensor {
    let payload = payload.into();
    Tensor { key: Key::new(key), info: info(payload.len()), payload }
}

/// Host memory with these bytes.
pub(crate) fn on_host(bytes: &[u8]) -> Region {
    let region = Region::allocate(bytes.len());
    // SAFETY: nobody else has it yet.
    unsafe { region.write(0, bytes) };
    region
}

/// Memory of a GPU into which a kernel that has not run yet writes these bytes, and the stream of that.
pub(crate) fn made(hardware: &Hardware, cuda: &Cuda, bytes: &[u8]) -> (CudaMemory, StreamHandle) {
    let (memory, stream) = (cuda.allocate(GPU, bytes.len()).unwrap(), hardware.stream());
    hardware.kernel(stream, memory.pointer(), bytes);
    (memory.after(stream).unwrap(), stream)
}

/// Memory of a GPU that is used on a new stream.
pub(crate) fn room(hardware: &Hardware, cuda: &Cuda, length: usize) -> (CudaMemory, StreamHandle) {
    made(hardware, cuda, &vec![0; length])
}

/// Waits for a request.
pub(crate) fn wait(worker: &Exchange, handler: Handler) {
    worker.wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
}

/// Begins a request. Tests leave its memory alone until it is complete.
pub(crate) fn begin(
    worker: &Exchange,
    pushes: Vec<Tensor>,
    pulls: Vec<Tensor>,
) -> Result<Handler, Error> {
    // SAFETY: as above.
    unsafe { worker.exchange(pushes, pulls) }
}

/// Has pushes land in this memory, which tests leave alone.
pub(crate) fn register(
    server: &Exchange,
    buffer: impl Into<TensorBuffer>,
    workers: Vec<WorkerRank>,
    keys: Vec<Key>,
) -> Result<(), Error> {
    // SAFETY: as above.
    unsafe { server.register_recv_buffer(buffer, workers, keys) }
}

/// Both ends know each other's devices once tensors have passed.
pub(crate) fn meet(worker: &Exchange, server: &Exchange) {
    let handler = begin(worker, vec![tensor(0, on_host(&[1]))], vec![]).unwrap();
    let batch = server.get_batch(&mut always).unwrap();
    server.respond(batch[0].handler, vec![]).unwrap();
    wait(worker, handler);
}
