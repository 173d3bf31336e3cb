//! Tensors on their way to where they shall lie, copied by GPUs. Nobody waits for that: a GPU does a copy
//! after the program's own work, which may take long, and a link is looked after by who sees to all links.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::Place;
use crate::tensor::cuda::{Copying, Cuda, CudaError, Named};
use crate::tensor::{Region, TensorBuffer};

/// How long copies that are short are looked at before others have their turn.
const SHORT: Duration = Duration::from_micros(100);

/// The tensors of a frame on their way to where they shall lie.
pub(super) struct Landing {
    /// Those whose copies have not begun.
    left: VecDeque<(Place, Origin)>,
    begun: Vec<Begun>,
    /// Whether copies were looked at for a while.
    is_long: bool,
}

/// Where a tensor is.
pub(super) enum Origin {
    /// In the host's memory.
    Here(Region),
    /// On a GPU, in another process' memory.
    There(Named),
}

/// A tensor whose copy has begun.
struct Begun {
    copying: Option<Copying>,
    /// Pinned memory that it comes into, and where it is copied from there.
    passes: Option<(Region, Region)>,
    tensor: TensorBuffer,
}

impl Landing {
    /// Tensors in their order, each with its place.
    pub(super) fn new(tensors: VecDeque<(Place, Origin)>) -> Self {
        Self { left: tensors, begun: Vec::new(), is_long: false }
    }

    /// Goes on. The tensors, once all are where they shall lie; those that come from the host onto a GPU are
    /// under way there. `None` if that takes longer.
    pub(super) fn advance(&mut self, cuda: Option<&Cuda>) -> io::Result<Option<Vec<TensorBuffer>>> {
        while let Some((place, origin)) = self.left.front() {
            match begin(place, origin, cuda)? {
                Some(begun) => self.begun.push(begun),
                None => return Ok(None),
            }
            self.left.pop_front();
        }
        let began = Instant::now();
        while !self.are_done()? {
            if self.is_long || began.elapsed() >= SHORT {
                self.is_long = true;
                return Ok(None);
            }
            std::hint::spin_loop();
        }
        let landed: Result<_, CudaError> =
            std::mem::take(&mut self.begun).into_iter().map(Begun::landed).collect();
        landed.map(Some).map_err(io::Error::other)
    }

    fn are_done(&self) -> io::Result<bool> {
        let copies = self.begun.iter().filter_map(|begun| begun.copying.as_ref());
        for copying in copies {
            if !copying.is_done().map_err(io::Error::other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Begun {
    const fn there(tensor: TensorBuffer) -> Self {
        Self { copying: None, passes: None, tensor }
    }

    fn landed(self) -> Result<TensorBuffer, CudaError> {
        if let Some((from, to)) = self.passes {
            // SAFETY: the caller of the exchange promised that nobody else uses `to`.
            unsafe { TensorBuffer::Host(to).fill(from) }?;
        }
        Ok(self.tensor)
    }
}

/// Begins a tensor's copy; `None` if there is no pinned memory for it now.
fn begin(place: &Place, origin: &Origin, cuda: Option<&Cuda>) -> io::Result<Option<Begun>> {
    match origin {
        Origin::Here(region) => begin_here(place, region),
        Origin::There(named) => {
            let cuda = cuda.ok_or_else(|| io::Error::other("no GPU is used here"))?;
            if named.length != place.bytes() {
                let (found, wanted) = (named.length, place.bytes());
                let text = format!("{found} bytes of a GPU are named for {wanted}");
                return Err(io::Error::other(text));
            }
            begin_there(place, named, cuda).map_err(io::Error::other)
        }
    }
}

fn begin_here(place: &Place, part: &Region) -> io::Result<Option<Begun>> {
    let tensor = match place {
        Place::Anywhere(_) => TensorBuffer::Host(part.clone()),
        Place::Into(region) => {
            // SAFETY: the other end does not write `part` before it is told that this end is done.
            // The caller of the exchange promised that nobody else uses `region`.
            unsafe { region.write(0, part.bytes()) };
            TensorBuffer::Host(region.clone())
        }
        Place::Onto(memory) => {
            if !memory.fill_if_room(part).map_err(io::Error::other)? {
                return Ok(None);
            }
            TensorBuffer::Cuda(memory.clone())
        }
    };
    Ok(Some(Begun::there(tensor)))
}

fn begin_there(place: &Place, named: &Named, cuda: &Cuda) -> Result<Option<Begun>, CudaError> {
    if let Place::Onto(memory) = place {
        let copying = Some(memory.begin_fill_from(named)?);
        return Ok(Some(Begun { copying, passes: None, tensor: memory.clone().into() }));
    }
    let length = usize::try_from(named.length).unwrap_or(usize::MAX);
    let staged = cuda.stage_if_room(cuda.device_named(named.device)?, length)?;
    let Some(staged) = staged else { return Ok(None) };
    let copying = Some(cuda.begin_fetch(named, &staged)?);
    let (tensor, passes) = match place {
        Place::Into(region) => (region.clone(), Some((staged, region.clone()))),
        Place::Anywhere(_) | Place::Onto(_) => (staged, None),
    };
    Ok(Some(Begun { copying, passes, tensor: tensor.into() }))
}
