//! Slurm: the hosts of a step and who runs on which, from the environment of one task.

mod component;
mod host_list;
mod placement;
mod process;
mod resolver;
mod step;
mod task_counts;

use alloc::collections::BTreeMap;
use alloc::string::String;

pub use host_list::host_list;
pub use placement::{Layout, Place, places};
pub(super) use process::{is_step, odd_size, process, process_without_hosts};
pub use resolver::Slurm;
pub use step::Step;
pub use task_counts::task_counts;

/// Tasks on each host, where they are given and not Slurm's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TasksPerNode {
    /// So many on each.
    All(u32),
    /// By host; hosts are taken in the order of their names.
    Each(BTreeMap<String, u32>),
}
