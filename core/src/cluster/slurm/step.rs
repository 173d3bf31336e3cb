//! A step as one of its tasks sees it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::asking::Seen;
use super::super::error::{Error, Fault, quoted};
use super::super::options::whole;
use super::host_list::host_list;
use super::placement::{DISTRIBUTION, Layout, Place};
use super::task_counts::task_counts;
use super::{TasksPerNode, component};
use crate::limits::CLUSTER_TASKS_MAX;

pub(super) const PROCID: &str = "SLURM_PROCID";
pub(super) const NODELIST: &str = "SLURM_STEP_NODELIST";
pub(super) const TASKS_PER_NODE: &str = "SLURM_STEP_TASKS_PER_NODE";
pub(super) const NUM_TASKS: &str = "SLURM_STEP_NUM_TASKS";
pub(super) const GTIDS: &str = "SLURM_GTIDS";

/// The hosts of a step and who runs where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The process's rank.
    pub rank: u32,
    /// Hosts in the order of the step's list.
    pub hosts: Vec<String>,
    /// Places of all ranks, in order.
    pub places: Vec<Place>,
}

impl Step {
    /// Reads the environment of a task.
    ///
    /// # Errors
    /// NOT_PRESENT outside of a step; MALFORMED; CONFLICT where the variables contradict each other;
    /// PLACEMENT_UNKNOWN where they don't tell who runs where; TOO_LARGE.
    pub fn of(seen: &Seen, given: Option<&TasksPerNode>) -> Result<Self, Error> {
        let rank = whole(PROCID, needed(seen, PROCID)?)?;
        let step = Self::of_rank(seen, given, rank)?;
        step.check(seen)?;
        Ok(step)
    }

    /// As [`Self::of`] for a rank of the step, whatever Slurm says of the process.
    pub(super) fn of_rank(
        seen: &Seen,
        given: Option<&TasksPerNode>,
        rank: u32,
    ) -> Result<Self, Error> {
        let (hosts, counts) = hosts_and_counts(seen, given)?;
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        if total > CLUSTER_TASKS_MAX as u64 {
            let text = format!("{total} tasks, of at most {CLUSTER_TASKS_MAX}");
            return Err(Error::new(Fault::TooLarge, TASKS_PER_NODE, text));
        }
        let layout = Layout::of(seen)?;
        let Some(places) = component::places_of(seen, &hosts, &counts, layout)? else {
            let text = format!(
                "{} lays ranks out by a list that tasks do not see: exchange addresses through a \
                 coordination service instead",
                quoted(seen.variable(DISTRIBUTION).unwrap_or_default())
            );
            return Err(Error::new(Fault::PlacementUnknown, DISTRIBUTION, text));
        };
        Ok(Self { rank, hosts, places })
    }

    /// The place of a rank.
    pub fn place(&self, rank: u32) -> Option<(&str, Place)> {
        let place = *self.places.get(usize::try_from(rank).ok()?)?;
        Some((self.hosts.get(place.host)?, place))
    }

    /// The most tasks that one host has.
    pub fn local_max(&self) -> u32 {
        self.places.iter().map(|place| place.local + 1).max().unwrap_or_default()
    }

    /// Compares what was worked out with what Slurm says of this task.
    fn check(&self, seen: &Seen) -> Result<(), Error> {
        let Some((host, place)) = self.place(self.rank) else {
            let wanted = format!("is no rank of a step of {} tasks", self.places.len());
            return Err(Error::malformed(PROCID, &format!("{}", self.rank), &wanted));
        };
        let ours = self.places.iter().zip(0_u32..).filter(|(other, _)| other.host == place.host);
        let ranks: Vec<String> = ours.map(|(_, rank)| format!("{rank}")).collect();
        let local = format!("{}", place.local);
        let said =
            [("SLURMD_NODENAME", host), (GTIDS, &ranks.join(",")), ("SLURM_LOCALID", &local)];
        for (variable, computed) in said {
            let Some(said) = seen.filled(variable).filter(|said| *said != computed) else {
                continue;
            };
            let text = format!(
                "is {}, but the layout {} of {} hosts gives {} for rank {}: who runs where cannot be told",
                quoted(said),
                quoted(seen.filled(DISTRIBUTION).unwrap_or("block")),
                self.hosts.len(),
                quoted(computed),
                self.rank
            );
            return Err(Error::new(Fault::PlacementUnknown, variable, text));
        }
        Ok(())
    }
}

pub(super) fn needed<'a>(seen: &'a Seen, variable: &str) -> Result<&'a str, Error> {
    seen.variable(variable).ok_or_else(|| {
        let in_allocation = seen.variable("SLURM_JOB_ID").is_some();
        let wanted = match in_allocation {
            true => "this is in an allocation of Slurm's, but not in a step: start the program with srun",
            false => "srun sets it in each task of a step",
        };
        Error::missing(variable, wanted)
    })
}

pub(super) fn hosts_and_counts(
    seen: &Seen,
    given: Option<&TasksPerNode>,
) -> Result<(Vec<String>, Vec<u32>), Error> {
    if let Some(TasksPerNode::Each(map)) = given {
        return Ok((map.keys().cloned().collect(), map.values().copied().collect()));
    }
    let list = needed(seen, NODELIST)?;
    let hosts = host_list(NODELIST, list)?;
    let mut sorted: Vec<&String> = hosts.iter().collect();
    sorted.sort();
    if let Some(twice) = sorted.iter().zip(sorted.iter().skip(1)).find(|(a, b)| a == b) {
        let wanted = format!("names the host {} twice", quoted(twice.0));
        return Err(Error::malformed(NODELIST, list, &wanted));
    }
    let counts = match given {
        Some(TasksPerNode::All(count)) => alloc::vec![*count; hosts.len()],
        _ => task_counts(TASKS_PER_NODE, needed(seen, TASKS_PER_NODE)?)?,
    };
    if counts.len() != hosts.len() {
        let text = format!(
            "{} counts tasks of {} hosts, but {NODELIST} {} has {}",
            quoted(seen.variable(TASKS_PER_NODE).unwrap_or_default()),
            counts.len(),
            quoted(list),
            hosts.len()
        );
        return Err(Error::new(Fault::Conflict, TASKS_PER_NODE, text));
    }
    Ok((hosts, counts))
}
