//! A task's place among all, from the variables that JAX reads too.

use alloc::format;
use alloc::string::String;

use super::super::asking::Seen;
use super::super::error::{Error, Fault, quoted};
use super::super::options::whole;
use super::super::process::{JAX_PORT_BASE, JAX_PORTS, Process, coordinator_at};
use super::component;
use super::host_list::host_list;
use super::placement::Layout;
use super::step::{GTIDS, NODELIST, NUM_TASKS, PROCID, TASKS_PER_NODE, hosts_and_counts, needed};

const NTASKS: &str = "SLURM_NTASKS";
const LOCALID: &str = "SLURM_LOCALID";
const JOB_ID: &str = "SLURM_JOB_ID";
/// The first component's job, the same in all components of a heterogeneous one. Slurm before 20.02 says
/// `PACK`.
const FIRST_JOB_ID: [&str; 2] = ["SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID_PACK_GROUP_0"];

/// Whether a process is a task of a step.
pub(in super::super) fn is_step(seen: &Seen) -> bool {
    let is_set = |name: &&str| seen.variable(name).is_some();
    [JOB_ID, NODELIST, PROCID, LOCALID].iter().all(is_set) && [NUM_TASKS, NTASKS].iter().any(is_set)
}

/// That the allocation has another number of tasks than the step, as in an interactive step: JAX would wait
/// for all of them.
pub(in super::super) fn odd_size(seen: &Seen) -> Option<String> {
    let (step, allocation) = (seen.filled(NUM_TASKS)?, seen.filled(NTASKS)?);
    (step != allocation).then(|| {
        format!(
            "the step has {} tasks ({NUM_TASKS}), the allocation {} ({NTASKS}): the step's count",
            quoted(step),
            quoted(allocation)
        )
    })
}

/// A task's place: rank 0 is on the first host of the step, and its port is worked out of the job's id, the
/// same in all tasks.
pub(in super::super) fn process(seen: &Seen) -> Result<Process, Error> {
    let process = process_without_hosts(seen)?;
    let coordinator = coordinator_at(seen, &first_host(seen)?, port(seen)?)?;
    Ok(Process { coordinator: Some(coordinator), ..process })
}

/// A task's place without the coordinator's address, which every layout of ranks tells.
pub(in super::super) fn process_without_hosts(seen: &Seen) -> Result<Process, Error> {
    // An interactive step has one task, in an allocation for many.
    let sized = if seen.filled(NUM_TASKS).is_some() { NUM_TASKS } else { NTASKS };
    let size = whole(sized, needed(seen, sized)?)?;
    let rank = whole(PROCID, needed(seen, PROCID)?)?;
    if rank >= size {
        let wanted = format!("is no rank of {size} tasks ({sized})");
        return Err(Error::malformed(PROCID, &format!("{rank}"), &wanted));
    }
    Ok(Process {
        size: Some(size),
        rank: Some(rank),
        local_rank: Some(whole(LOCALID, needed(seen, LOCALID)?)?),
        local_size: local_size(seen),
        nodes: number(seen, "SLURM_STEP_NUM_NODES")?,
        node_rank: number(seen, "SLURM_NODEID")?,
        ..Process::default()
    })
}

/// Slurm lists the ranks of the own host.
fn local_size(seen: &Seen) -> Option<u32> {
    let ranks = seen.filled(GTIDS)?.split(',').count();
    u32::try_from(ranks).ok()
}

fn number(seen: &Seen, variable: &str) -> Result<Option<u32>, Error> {
    seen.filled(variable).map(|text| whole(variable, text)).transpose()
}

fn port(seen: &Seen) -> Result<u16, Error> {
    let first = FIRST_JOB_ID.into_iter().find(|name| seen.filled(name).is_some());
    let name = first.unwrap_or(JOB_ID);
    let text = needed(seen, name)?;
    // Ids of components of a heterogeneous job are written 12+1.
    let digits = text.split('+').next().unwrap_or_default();
    let id = whole(name, digits)?;
    let offset = u16::try_from(id % JAX_PORTS).unwrap_or_default();
    Ok(JAX_PORT_BASE + offset)
}

/// The host of rank 0.
fn first_host(seen: &Seen) -> Result<String, Error> {
    if component::components(seen)? > 1 {
        // The list's first host need not be one of the first component's.
        let (hosts, counts) = hosts_and_counts(seen, None)?;
        let first = component::first_hosts(seen, &hosts, &counts)?;
        check_layout(seen, first.len())?;
        let host = first.first().and_then(|first| hosts.into_iter().nth(*first));
        return host.ok_or_else(|| no_host(seen.filled(NODELIST).unwrap_or_default()));
    }
    let list = needed(seen, NODELIST)?;
    let hosts = host_list(NODELIST, list)?;
    check_layout(seen, hosts.len())?;
    let counts = seen.filled(TASKS_PER_NODE).map(|text| super::task_counts(TASKS_PER_NODE, text));
    let counts = counts.transpose()?.unwrap_or_default();
    let first = counts.iter().position(|count| *count > 0).unwrap_or_default();
    hosts.into_iter().nth(first).ok_or_else(|| no_host(list))
}

/// Refuses an arbitrary layout over several hosts.
fn check_layout(seen: &Seen, hosts: usize) -> Result<(), Error> {
    if Layout::of(seen)? != Layout::Arbitrary || hosts <= 1 {
        return Ok(());
    }
    let text =
        "is arbitrary: the host of rank 0 need not be the first one, and tasks do not see which";
    Err(Error::new(Fault::PlacementUnknown, super::placement::DISTRIBUTION, text))
}

fn no_host(list: &str) -> Error {
    Error::new(Fault::Malformed, NODELIST, format!("{} has no host", quoted(list)))
}
