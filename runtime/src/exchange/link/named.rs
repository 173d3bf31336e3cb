//! Tensors on GPUs that both ends of a link see: their memory is named, and the receiver copies from it.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::Place;
use super::landing::Origin;
use crate::tensor::cuda::{Cuda, CudaError, CudaMemory, Named, Uuid};
use crate::tensor::{Region, TensorBuffer};

/// The GPUs of this process, as far as others of its host may open their memory.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    cuda: Option<Cuda>,
    /// What others had was not to be opened: nobody is asked to name it again.
    is_off: Arc<AtomicBool>,
    /// On the next link nobody is asked to.
    is_paused: Arc<AtomicBool>,
}

/// The GPUs that both ends of a link see.
pub(super) struct Devices {
    sharing: Sharing,
    ours: Vec<Uuid>,
    theirs: BTreeSet<Uuid>,
    /// So many of theirs are still to come.
    missing: u8,
}

impl Sharing {
    /// These GPUs; none for `None`.
    pub fn of(cuda: Option<Cuda>) -> Self {
        Self { cuda, is_off: Arc::default(), is_paused: Arc::default() }
    }

    /// For a link whose other end is not known yet.
    pub(super) fn begin(&self) -> Devices {
        let is_paused = self.is_paused.swap(false, Ordering::Relaxed);
        let is_off = is_paused || self.is_off.load(Ordering::Relaxed);
        let cuda = self.cuda.as_ref().filter(|_| !is_off);
        let mut ours = cuda.map(Cuda::devices).unwrap_or_default();
        ours.truncate(u8::MAX.into());
        Devices { sharing: self.clone(), ours, theirs: BTreeSet::new(), missing: 0 }
    }
}

impl Devices {
    /// How many there are here.
    pub(super) fn count(&self) -> u8 {
        u8::try_from(self.ours.len()).unwrap_or(u8::MAX)
    }

    /// The names of those, one behind the other.
    pub(super) fn ours(&self) -> Bytes {
        self.ours.iter().flat_map(|uuid| uuid.0).collect()
    }

    /// The names of so many come from the other end.
    pub(super) const fn expect(&mut self, count: u8) {
        self.missing = count;
    }

    /// Whether some are still to come.
    pub(super) const fn are_missing(&self) -> bool {
        self.missing > 0
    }

    /// One has come.
    pub(super) fn meet(&mut self, device: Uuid) {
        self.missing = self.missing.saturating_sub(1);
        self.theirs.insert(device);
    }

    /// Whether the other end opens memory of this one.
    pub(super) fn are_seen(&self, device: Uuid) -> bool {
        !self.are_missing() && self.theirs.contains(&device) && self.ours.contains(&device)
    }

    /// The names of tensors, if all of them are on GPUs that the other end sees.
    pub(super) fn names(&self, tensors: &[TensorBuffer]) -> Option<Bytes> {
        let mut names = Vec::new();
        for tensor in tensors.iter().filter(|tensor| !tensor.is_empty()) {
            // What was staged before anything was known of the other end goes from there.
            let memory = tensor.cuda().filter(|it| !it.is_staged())?;
            memory.uuid().filter(|device| self.are_seen(*device))?;
            match name(memory) {
                Ok(named) => names.extend(named.to_bytes()),
                Err(error) => {
                    tracing::debug!(%error, "memory cannot be shared: it is staged");
                    return None;
                }
            }
        }
        (!names.is_empty()).then(|| names.into())
    }

    /// The tensors that were named, on their way to where they shall lie. When they are there the other end
    /// may use its memory again.
    pub(super) fn landing(
        places: Vec<Place>,
        names: &[TensorBuffer],
    ) -> io::Result<VecDeque<(Place, Origin)>> {
        let mut names = names.iter();
        let mut origin = |place: &Place| match place.bytes() {
            0 => Ok(Origin::Here(Region::from(Bytes::new()))),
            _ => {
                let name = names.next().and_then(TensorBuffer::host).map(Region::to_vec);
                let named = name.and_then(|name| Named::from_bytes(&name)).map(Origin::There);
                named.ok_or_else(|| io::Error::other("what should name memory of a GPU does not"))
            }
        };
        places.into_iter().map(|place| origin(&place).map(|origin| (place, origin))).collect()
    }

    /// The GPUs of this process.
    pub(super) const fn cuda(&self) -> Option<&Cuda> {
        self.sharing.cuda.as_ref()
    }

    /// There was no pinned memory for what the other end named. On the next connection it stages all tensors.
    pub(super) fn pause(&self) {
        self.sharing.is_paused.store(true, Ordering::Relaxed);
    }

    /// This process cannot open the memory that the other end named. All later connections stage all tensors.
    pub(super) fn give_up(&self) {
        self.sharing.is_off.store(true, Ordering::Relaxed);
    }
}

/// A name of memory in which all is there that was begun before.
fn name(memory: &CudaMemory) -> Result<Named, CudaError> {
    memory.wait()?;
    memory.name()
}
