//! What `rondo bench exchange` measures on GPUs, where there are any.

use std::time::Instant;

use serde::Serialize;

use super::super::exit::Failure;
use super::exchange::Case;
use super::exchange_peer::Way;
use super::read::rate;
use super::rendezvous::other;
use crate::tensor::cuda::{Cuda, CudaError, CudaSettings, Ordinal};

/// What each round brought on the first GPU.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Rounds {
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) none: Option<String>,
    /// Bytes a second of 16 MiB copied from pinned memory onto it.
    pub(super) copied: Vec<f64>,
    /// Of 16 MiB pushed from it to it through the host's memory and TCP.
    pub(super) tcp: Vec<f64>,
    /// The same between processes that copy on it.
    pub(super) shared: Vec<f64>,
    #[serde(skip)]
    cuda: Option<Cuda>,
}

impl Rounds {
    /// Looks for a GPU.
    pub(super) fn find() -> Self {
        match Cuda::load(CudaSettings::default()) {
            Ok(cuda) if !cuda.devices().is_empty() => Self { cuda: Some(cuda), ..Self::default() },
            Ok(_) => Self { none: Some("the CUDA driver sees none".into()), ..Self::default() },
            Err(error) => Self { none: Some(error.to_string()), ..Self::default() },
        }
    }

    /// Measures, if there is one.
    pub(super) fn add(&mut self, case: Case) -> Result<(), Failure> {
        let Some(cuda) = &self.cuda else { return Ok(()) };
        self.copied.push(copied(cuda, case.push_bytes, case.count).map_err(other)?);
        self.tcp.push(Case { way: Way::Tcp, ..case }.rate()?);
        self.shared.push(Case { way: Way::Shm, ..case }.rate()?);
        Ok(())
    }
}

/// Bytes a second of copies onto the first GPU.
fn copied(cuda: &Cuda, bytes: usize, count: u32) -> Result<f64, CudaError> {
    const GPU: Ordinal = Ordinal(0);
    let (memory, staged) = (cuda.allocate(GPU, bytes)?, cuda.stage(GPU, bytes)?);
    memory.fill(staged.clone())?;
    memory.wait()?;
    let began = Instant::now();
    for _ in 0..count {
        memory.fill(staged.clone())?;
    }
    memory.wait()?;
    Ok(rate((bytes as u64).saturating_mul(count.into()), began.elapsed().as_secs_f64()))
}
