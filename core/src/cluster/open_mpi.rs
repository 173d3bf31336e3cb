//! Open MPI, PMIx and mpi4py: ranks, and where rank 0 can be met.

use alloc::format;
use alloc::string::String;

use super::asking::{Outcome, Seen};
use super::error::{Error, Fault, quoted};
use super::options::whole;
use super::process::{JAX_PORT_BASE, JAX_PORTS, Process, coordinator_at};

/// The variable that says that a process is one of Open MPI's.
pub(super) const RANK: &str = "OMPI_COMM_WORLD_RANK";
const SIZE: &str = "OMPI_COMM_WORLD_SIZE";
const LOCAL_RANK: &str = "OMPI_COMM_WORLD_LOCAL_RANK";
const LOCAL_SIZE: &str = "OMPI_COMM_WORLD_LOCAL_SIZE";
pub(super) const URI: &str = "OMPI_MCA_orte_hnp_uri";
const NODES: &str = "OMPI_MCA_orte_num_nodes";
const PMIX_RANK: &str = "PMIX_RANK";
const PMIX_NAMESPACE: &str = "PMIX_NAMESPACE";

/// Whether `mpirun` started the process.
pub(super) fn is_there(seen: &Seen) -> bool {
    seen.variable(RANK).is_some() || seen.variable(URI).is_some()
}

/// Whether a PMIx server started it, and nothing more is told.
pub(super) fn is_pmix(seen: &Seen) -> bool {
    seen.variable(PMIX_RANK).is_some() && seen.variable(PMIX_NAMESPACE).is_some()
}

/// What Open MPI tells. Without the launcher's address (Open MPI 5) there is no coordinator.
pub(super) fn process(seen: &Seen) -> Result<Process, Error> {
    let size = needed(seen, SIZE)?;
    let rank = needed(seen, RANK)?;
    if rank >= size {
        let wanted = format!("is no rank of {size} processes ({SIZE})");
        return Err(Error::malformed(RANK, &format!("{rank}"), &wanted));
    }
    let coordinator = seen.variable(URI).map(|uri| coordinator(seen, uri)).transpose()?;
    let number = |name: &str| seen.filled(name).map(|text| whole(name, text)).transpose();
    Ok(Process {
        coordinator,
        size: Some(size),
        rank: Some(rank),
        local_rank: number(LOCAL_RANK)?,
        local_size: number(LOCAL_SIZE)?,
        nodes: number(NODES)?,
        ..Process::default()
    })
}

/// What PMIx alone tells: a rank, and no size.
pub(super) fn pmix_process(seen: &Seen) -> Result<Process, Error> {
    Ok(Process { rank: Some(needed(seen, PMIX_RANK)?), ..Process::default() })
}

/// What MPI itself tells, asked through mpi4py.
///
/// # Errors
/// NOT_PRESENT where MPI cannot be asked.
pub(super) fn mpi_process(seen: &Seen) -> Outcome<Process> {
    let Some(world) = seen.mpi()? else {
        let text = "MPI is not there, or was not initialised: mpi4py has to be importable";
        return Err(Error::new(Fault::NotPresent, "mpi4py", text).into());
    };
    // Any number that all ranks work out alike does; it is of the name that rank 0 told to all.
    let sum = world
        .first_host
        .bytes()
        .fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let offset = u16::try_from(sum % JAX_PORTS).unwrap_or_default();
    Ok(Process {
        coordinator: Some(coordinator_at(seen, &world.first_host, JAX_PORT_BASE + offset)?),
        size: Some(world.size),
        rank: Some(world.rank),
        local_rank: Some(world.local_rank),
        ..Process::default()
    })
}

fn needed(seen: &Seen, name: &str) -> Result<u32, Error> {
    let missing = || Error::missing(name, "mpirun sets it in each process");
    whole(name, seen.variable(name).ok_or_else(missing)?)
}

/// The first address of the launcher, `JOB.0;tcp://IP,IP:PORT;tcp6://[IP,IP]:PORT`, with a port worked out
/// of the job's id.
fn coordinator(seen: &Seen, uri: &str) -> Result<String, Error> {
    let (job, ways) = uri.split_once(';').unwrap_or((uri, ""));
    let job = whole(URI, job.split('.').next().unwrap_or_default())
        .map_err(|_| Error::malformed(URI, uri, "does not begin with a job's number"))?;
    let host = ways.split(';').find_map(first_host).ok_or_else(|| {
        Error::new(
            Fault::Malformed,
            URI,
            format!("{} has neither a tcp:// nor a tcp6:// address", quoted(uri)),
        )
    })?;
    let offset = u16::try_from((job / JAX_PORTS) % JAX_PORTS).unwrap_or_default();
    coordinator_at(seen, host, JAX_PORT_BASE + offset)
}

fn first_host(way: &str) -> Option<&str> {
    let hosts = match way.strip_prefix("tcp://") {
        Some(rest) => rest.rsplit_once(':')?.0,
        None => way.strip_prefix("tcp6://[")?.split_once(']')?.0,
    };
    hosts.split(',').next().filter(|host| !host.is_empty())
}

/// The name of the host that PMIx says the process is on.
pub(super) fn host(seen: &Seen) -> Option<String> {
    seen.filled("PMIX_HOSTNAME").map(String::from)
}
