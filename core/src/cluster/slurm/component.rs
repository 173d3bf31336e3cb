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
use super::step::shifted;
use crate::limits::CLUSTER_TASKS_MAX;

const SIZE: &str = "SLURM_HET_SIZE";
/// Components that a job has at most, as Slurm has it.
const COMPONENTS_MAX: u32 = 128;

/// How many components the job of a step has.
pub(super) fn components(seen: &Seen) -> Result<u32, Error> {
    let components = seen.filled(SIZE).map(|size| whole(SIZE, size)).transpose()?.unwrap_or(1);
    if components > COMPONENTS_MAX {
        let wanted = format!("components, of at most {COMPONENTS_MAX}");
        return Err(Error::malformed(SIZE, &format!("{components}"), &wanted));
    }
    Ok(components)
}

/// Places of all ranks. The list of a step has the hosts of all components in one order, that of their
/// names, so those of each are taken from the lists of the job's components. Where these are not told, the
/// hosts are taken to stand one component after the other.
pub(super) fn places_of(
    seen: &Seen,
    hosts: &[String],
    counts: &[u32],
    layout: Layout,
) -> Result<Option<Vec<Place>>, Error> {
    let components = components(seen)?;
    if components <= 1 || layout == Layout::Arbitrary {
        return Ok(shifted(counts, layout, 0));
    }
    match listed(seen, hosts, components)? {
        Some(listed) => Ok(dealt(&listed, counts, layout)),
        None => in_order(seen, counts, layout, components),
    }
}

/// The hosts of each component, as places in the step's list; `None` where the environment has no lists.
fn listed(
    seen: &Seen,
    hosts: &[String],
    components: u32,
) -> Result<Option<Vec<Vec<usize>>>, Error> {
    if list_of(seen, 0).is_none() {
        return Ok(None);
    }
    let mut open: BTreeMap<&str, usize> =
        hosts.iter().enumerate().map(|(place, host)| (host.as_str(), place)).collect();
    let mut all = Vec::new();
    let mut read = 0_usize;
    for component in 0..components {
        let Some((variable, list)) = list_of(seen, component) else {
            let text = "is not set: the hosts of a component of the step cannot be told";
            return Err(Error::new(Fault::PlacementUnknown, lists(component)[0].clone(), text));
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
        None => Ok(Some(all)),
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

/// Deals ranks to hosts that stand one component after the other; those of a block layout need not know
/// where components end.
fn in_order(
    seen: &Seen,
    counts: &[u32],
    layout: Layout,
    components: u32,
) -> Result<Option<Vec<Place>>, Error> {
    // Where the environment does not count the hosts of components, what Slurm tells of the own host decides
    // whether one deal over all hosts is right.
    let is_counted = seen.filled(&nodes_variable(0)).is_some();
    let is_checked = !is_counted && seen.filled("SLURM_GTIDS").is_some();
    if layout == Layout::Block || is_checked {
        return Ok(shifted(counts, layout, 0));
    }
    let mut places = Vec::new();
    let mut first = 0_usize;
    for component in 0..components {
        let nodes = nodes_of(seen, component)?;
        let end = first.saturating_add(nodes);
        let Some(counts) = counts.get(first..end) else { return Err(uneven(counts.len())) };
        let Some(own) = shifted(counts, layout, first) else { return Ok(None) };
        places.extend(own);
        first = end;
    }
    if first == counts.len() { Ok(Some(places)) } else { Err(uneven(counts.len())) }
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

fn nodes_of(seen: &Seen, component: u32) -> Result<usize, Error> {
    let variable = nodes_variable(component);
    let Some(text) = seen.filled(&variable) else {
        let text = "is not set: where the components of a heterogeneous step end cannot be told";
        return Err(Error::new(Fault::PlacementUnknown, variable, text));
    };
    Ok(usize::try_from(whole(&variable, text)?).unwrap_or(usize::MAX))
}

fn nodes_variable(component: u32) -> String {
    format!("SLURM_JOB_NUM_NODES_HET_GROUP_{component}")
}

fn uneven(hosts: usize) -> Error {
    let text = format!("components have other hosts together than the {hosts} of the step");
    Error::new(Fault::PlacementUnknown, SIZE, text)
}
