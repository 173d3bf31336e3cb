//! Steps of several components (`srun A : B`): one list of hosts, ranks component by component.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::asking::Seen;
use super::super::error::{Error, Fault};
use super::super::options::whole;
use super::placement::{Layout, Place};
use super::step::shifted;

const SIZE: &str = "SLURM_HET_SIZE";
/// Components that a job has at most, as Slurm has it.
const COMPONENTS_MAX: u32 = 128;

/// Places of all ranks. Those of a block layout need not know where components end; for others the hosts
/// of each have to be counted in the environment.
pub(super) fn places_of(
    seen: &Seen,
    counts: &[u32],
    layout: Layout,
) -> Result<Option<Vec<Place>>, Error> {
    let components = seen.filled(SIZE).map(|size| whole(SIZE, size)).transpose()?.unwrap_or(1);
    if components <= 1 || matches!(layout, Layout::Block | Layout::Arbitrary) {
        return Ok(shifted(counts, layout, 0));
    }
    if components > COMPONENTS_MAX {
        let wanted = format!("components, of at most {COMPONENTS_MAX}");
        return Err(Error::malformed(SIZE, &format!("{components}"), &wanted));
    }
    // Where the environment does not count the hosts of components, what Slurm tells of the own host decides
    // whether one deal over all hosts is right.
    let is_counted = seen.filled(&nodes_variable(0)).is_some();
    if !is_counted && seen.filled("SLURM_GTIDS").is_some() {
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
