//! Tensors on GPUs: in the order of their streams when a call begins, and when it is over.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rondo_core::exchange::server::{Answering, Unit};
use rondo_core::exchange::worker::Complete;
use rondo_core::exchange::{Handler, Key, Refusal};
use rondo_core::status::{Code, Status};

use super::{Error, Exchange, Tensor};
use crate::tensor::TensorBuffer;
use crate::tensor::cuda::{Cuda, CudaError, CudaMemory};

/// Memory of GPUs that requests pull into, as long as nobody has waited for them.
#[derive(Debug, Default)]
pub(super) struct Pulling {
    by_handler: Mutex<BTreeMap<Handler, Vec<CudaMemory>>>,
}

impl Pulling {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Handler, Vec<CudaMemory>>> {
        self.by_handler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has begun.
    pub(super) fn begin(&self, handler: Handler, memory: Vec<CudaMemory>) {
        if !memory.is_empty() {
            self.lock().insert(handler, memory);
        }
    }

    /// A request is over.
    fn end(&self, handler: Handler) -> Vec<CudaMemory> {
        self.lock().remove(&handler).unwrap_or_default()
    }
}

/// A tensor on a GPU that is about to be sent.
enum Sending {
    /// Others copy it from where it is.
    InPlace(CudaMemory),
    /// It is copied to the host first.
    Staged(CudaMemory),
}

impl Sending {
    /// Waits until it can be.
    fn wait(&self) -> Result<(), CudaError> {
        match self {
            Self::InPlace(memory) => memory.wait(),
            Self::Staged(memory) => memory.staged().map(drop),
        }
    }
}

/// Memory with what is in it now.
fn renewed(payload: &mut TensorBuffer) -> TensorBuffer {
    if let TensorBuffer::Cuda(memory) = payload {
        *memory = memory.anew();
    }
    payload.clone()
}

impl From<CudaError> for Error {
    fn from(error: CudaError) -> Self {
        Status::from(error).into()
    }
}

impl Exchange {
    /// Tensors as they are sent: on GPUs, all is done that was begun on their streams, and what others do
    /// not take from there by themselves has been staged.
    pub(super) fn to_send<T>(
        &self,
        mut tensors: Vec<T>,
        of: impl Fn(&mut T) -> (Key, &mut TensorBuffer),
    ) -> Result<Vec<T>, Error> {
        let mut sent = Vec::with_capacity(tensors.len());
        for tensor in &mut tensors {
            let (key, payload) = of(tensor);
            self.check_device(payload, &format!("the tensor under key {key}"))?;
            sent.push(renewed(payload));
        }
        self.begin_sending(&sent)?.iter().try_for_each(Sending::wait)?;
        Ok(tensors)
    }

    /// As [`Exchange::to_send`], of answers.
    pub(super) fn to_answer(
        &self,
        mut answers: Vec<Answering<TensorBuffer>>,
    ) -> Result<Vec<Answering<TensorBuffer>>, Error> {
        let mut begun = Vec::new();
        for answer in &mut answers {
            let unit = answer.unit.get();
            let mut sent = Vec::with_capacity(answer.tensors.len());
            for (at, (_, payload)) in answer.tensors.iter_mut().enumerate() {
                self.check_device(payload, &format!("tensor {at} of the answer to unit {unit}"))?;
                sent.push(renewed(payload));
            }
            begun.extend(self.begin_sending(&sent)?);
        }
        begun.iter().try_for_each(Sending::wait)?;
        Ok(answers)
    }

    /// Begins what is to be done before the tensors of a frame leave their GPUs. They go either all from
    /// where they are, or all from the host.
    fn begin_sending(&self, tensors: &[TensorBuffer]) -> Result<Vec<Sending>, Error> {
        let mut whole = tensors.iter().filter(|tensor| !tensor.is_empty());
        let is_in_place =
            whole.all(|tensor| tensor.cuda().is_some_and(|memory| self.is_shared(memory)));
        let begin = |memory: &CudaMemory| {
            if is_in_place {
                return Ok(Sending::InPlace(memory.clone()));
            }
            memory.stage()?;
            Ok(Sending::Staged(memory.clone()))
        };
        tensors.iter().filter_map(TensorBuffer::cuda).map(begin).collect()
    }

    /// Whether others take what is in this memory from there by themselves.
    fn is_shared(&self, memory: &CudaMemory) -> bool {
        let is_seen = |device| self.engine.with(|it, links, _| it.is_seen(device, links));
        // Not every allocator's memory has a name.
        memory.uuid().is_some_and(is_seen) && memory.name().is_ok()
    }

    /// The memory of GPUs among what is pulled.
    pub(super) fn to_fill(&self, pulls: &[Tensor]) -> Result<Vec<CudaMemory>, Error> {
        for pull in pulls {
            self.check_device(&pull.payload, &format!("the pull tensor under key {}", pull.key))?;
        }
        self.check_room(pulls)?;
        Ok(pulls.iter().filter_map(|pull| pull.payload.cuda().cloned()).collect())
    }

    /// Whether what a server answers can be staged at all, where it comes through the host's memory.
    fn check_room(&self, pulls: &[Tensor]) -> Result<(), Error> {
        let Some(cuda) = self.settings.cuda.as_ref() else { return Ok(()) };
        let servers = usize::try_from(self.settings.sizes.servers).unwrap_or(usize::MAX);
        let of_each = pulls.len().checked_div(servers).unwrap_or_default().max(1);
        for pulls in pulls.chunks(of_each) {
            let memory = pulls.iter().filter_map(|pull| pull.payload.cuda());
            let staged: Vec<usize> =
                memory.filter(|it| !self.is_shared(it)).map(CudaMemory::len).collect();
            cuda.check_room(&staged)?;
        }
        Ok(())
    }

    /// Whether memory is of the GPUs that were named.
    pub(super) fn check_device(&self, buffer: &TensorBuffer, what: &str) -> Result<(), Error> {
        let Some(memory) = buffer.cuda() else { return Ok(()) };
        let known = self.settings.cuda.as_ref();
        if known.is_some_and(|cuda| cuda.is(memory.cuda())) {
            return Ok(());
        }
        let device = memory.device();
        let text = format!(
            "{what} is on {device}: the exchange was started without its GPUs (Settings::cuda)"
        );
        Err(Status::new(Code::InvalidArgument, text).into())
    }

    /// A request is complete, or not: what it pulled onto GPUs is in the order of their streams.
    pub(super) fn waited(
        &self,
        handler: Handler,
        waited: Result<Complete, Refusal>,
    ) -> Result<Complete, Error> {
        let complete = match waited {
            // It goes on, and may be waited for again.
            Err(refusal @ (Refusal::Late { .. } | Refusal::TooManyCalls { .. })) => {
                return Err(refusal.into());
            }
            Err(refusal) => {
                self.abandoned(handler)?;
                return Err(refusal.into());
            }
            Ok(complete) => complete,
        };
        let memory = self.pulling.end(handler);
        memory.iter().try_for_each(CudaMemory::hand_over)?;
        Ok(complete)
    }

    /// Nothing is copied any more to where a request pulled that nobody waits for.
    pub(super) fn abandoned(&self, handler: Handler) -> Result<(), Error> {
        let is_pulling = !self.pulling.end(handler).is_empty();
        match &self.settings.cuda {
            Some(cuda) if is_pulling => Ok(Cuda::finish(cuda)?),
            _ => Ok(()),
        }
    }

    /// Units are taken: what was pushed onto GPUs is in the order of their streams.
    pub(super) fn taken(&self, batch: &[Unit<TensorBuffer>]) -> Result<(), Error> {
        let tensors = batch.iter().flat_map(|unit| &unit.tensors);
        let memory = tensors.filter_map(|tensor| tensor.payload.cuda());
        Ok(memory.into_iter().try_for_each(CudaMemory::hand_over)?)
    }
}
