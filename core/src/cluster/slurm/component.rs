//! Steps of several components (`srun A : B`): one list of hosts, ranks component by component.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::asking::Seen;
use super::super::error::{Error, Fault, quoted};
use super::super::options::whole;
use super::host_list::host_list;
use super::placement::{Layout, Place, places};
use crate::limits::CLUSTER_TASKS_MAX;

const SIZE: &str = "SLURM_HET_SIZE";
/// The same, as Slurm before 20.02 says it.
const FORMER_SIZE: &str = "SLURM_PACK_SIZE";
/// Components that a job has at most, as Slurm has it.
const COMPONENTS_MAX: u32 = 128;

/// How many components the job of a step has.
pub(super) fn components(seen: &Seen) -> Result<u32, Error> {
    let name = if seen.filled(SIZE).is_some() { SIZE } else { FORMER_SIZE };
    let components = seen.filled(name).map(|size| whole(name, size)).transpose()?.unwrap_or(1);
    if components > COMPONENTS_MAX {
        let wanted = format!("components, of at most {COMPONENTS_MAX}");
        return Err(Error::malformed(name, &format!("{components}"), &wanted));
    }
    Ok(components)
}

/// Places of all ranks. The list of a step has the hosts of all components in one order, that of their
/// names, so those of each are taken from the lists of the job's components.
///
/// # Errors
/// PLACEMENT_UNKNOWN where the layout decides: each component has one of its own, of which the environment of
/// a task tells one, and not always its own component's.
pub(super) fn places_of(
    seen: &Seen,
    hosts: &[String],
    counts: &[u32],
    layout: Layout,
) -> Result<Option<Vec<Place>>, Error> {
    let components = components(seen)?;
    if components <= 1 || layout == Layout::Arbitrary {
        return Ok(places(counts, layout));
    }
    let listed = listed(seen, hosts, components)?;
    let block = dealt(&listed, counts, Layout::Block);
    if block == dealt(&listed, counts, Layout::Cyclic) {
        return Ok(block);
    }
    let text = "components with several hosts have several tasks on one, and Slurm does not tell the layout \
                of each: who runs where cannot be told";
    Err(Error::new(Fault::PlacementUnknown, SIZE, text))
}

/// The hosts of the first component of the step that has tasks. Every layout but an arbitrary one puts rank 0
/// on the first of them.
pub(super) fn first_hosts(
    seen: &Seen,
    hosts: &[String],
    counts: &[u32],
) -> Result<Vec<usize>, Error> {
    let has_tasks = |host: &usize| counts.get(*host).is_some_and(|count| *count > 0);
    let components = listed(seen, hosts, components(seen)?)?.into_iter();
    let mut with_tasks = components.map(|hosts| hosts.into_iter().filter(has_tasks).collect());
    Ok(with_tasks.find(|hosts: &Vec<usize>| !hosts.is_empty()).unwrap_or_default())
}

/// The hosts of each component, as places in the step's list.
fn listed(seen: &Seen, hosts: &[String], components: u32) -> Result<Vec<Vec<usize>>, Error> {
    let mut open: BTreeMap<&str, usize> =
        hosts.iter().enumerate().map(|(place, host)| (host.as_str(), place)).collect();
    let mut all = Vec::new();
    let mut read = 0_usize;
    for component in 0..components {
        let Some((variable, list)) = list_of(seen, component) else {
            let text = "is not set: the hosts of a component of the step cannot be told";
            let [variable, _] = lists(component);
            return Err(Error::new(Fault::PlacementUnknown, variable, text));
        };
        let names = host_list(&variable, list)?;
        read = read.saturating_add(names.len());
        if read > CLUSTER_TASKS_MAX {
            let text = format!(
                "the components have more than {CLUSTER_TASKS_MAX} hosts together, which are allowed"
            );
            return Err(Error::new(Fault::TooLarge, variable, text));
        }
        // A step may leave out hosts of its job, and whole components.
        all.push(names.iter().filter_map(|name| open.remove(name.as_str())).collect());
    }
    match open.keys().next() {
        None => Ok(all),
        Some(host) => {
            let text = format!("no component of the job has the host {}", quoted(host));
            Err(Error::new(Fault::PlacementUnknown, SIZE, text))
        }
    }
}

/// Deals ranks to the hosts of one component after the other.
fn dealt(listed: &[Vec<usize>], counts: &[u32], layout: Layout) -> Option<Vec<Place>> {
    let mut all = Vec::new();
    for hosts in listed {
        let own: Vec<u32> =
            hosts.iter().map(|host| counts.get(*host).copied().unwrap_or_default()).collect();
        let own = places(&own, layout)?;
        all.extend(
            own.into_iter().filter_map(|place| {
                Some(Place { host: *hosts.get(place.host)?, local: place.local })
            }),
        );
    }
    Some(all)
}

/// The list of a component's hosts, by the variable that has it.
fn list_of(seen: &Seen, component: u32) -> Option<(String, &str)> {
    lists(component)
        .into_iter()
        .find_map(|name| seen.filled(&name).map(|list| (name.clone(), list)))
}

/// What salloc and sbatch call a component's list, and what srun calls it that made the allocation itself.
fn lists(component: u32) -> [String; 2] {
    ["HET", "PACK"].map(|group| format!("SLURM_JOB_NODELIST_{group}_GROUP_{component}"))
}
