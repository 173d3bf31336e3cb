//! Kubeflow's JAXJob: its own variables. (TFJob is `TF_CONFIG`; PyTorchJob and TrainJob are PyTorch's.)

use alloc::format;

use super::asking::Seen;
use super::error::Error;
use super::options::{address, port, whole};
use super::process::Process;

const ADDRESS: &str = "COORDINATOR_ADDRESS";
const PORT: &str = "COORDINATOR_PORT";
const SIZE: &str = "NUM_PROCESSES";
const RANK: &str = "PROCESS_ID";
/// The coordinator's port where none is told.
const DEFAULT_PORT: u16 = 6666;

/// Whether the operator started the process.
pub(super) fn is_there(seen: &Seen) -> bool {
    [ADDRESS, SIZE, RANK].iter().all(|name| seen.filled(name).is_some())
}

pub(super) fn process(seen: &Seen) -> Result<Process, Error> {
    let needed = |name: &str| {
        seen.filled(name).ok_or_else(|| Error::missing(name, "a JAXJob sets it in each process"))
    };
    let size = whole(SIZE, needed(SIZE)?)?;
    let rank = whole(RANK, needed(RANK)?)?;
    if rank >= size {
        let wanted = format!("is no rank of {size} processes ({SIZE})");
        return Err(Error::malformed(RANK, &format!("{rank}"), &wanted));
    }
    let own = seen.filled(PORT).map(|text| port(PORT, text)).transpose()?;
    Ok(Process {
        coordinator: Some(address(needed(ADDRESS)?, own.unwrap_or(DEFAULT_PORT))),
        size: Some(size),
        rank: Some(rank),
        ..Process::default()
    })
}
