//! TPUs: nodes by name or address, and the processes of a slice or several.

mod name;
mod resolver;
mod slice;

pub(super) use name::is_local;
pub use resolver::Tpu;
pub(super) use slice::{gce_process, gke_process, is_gce, is_gke};
