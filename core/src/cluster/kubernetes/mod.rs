//! Kubernetes: pods behind label selectors, the pods of the process's own Job or JobSet, and the endpoints of
//! a headless service.

mod access;
mod children;
mod job;
mod pod;
mod pods;
mod service;
mod watching;

pub use access::{Access, CA_PATH, NAMESPACE_PATH, TOKEN_PATH};
pub use job::KubernetesJob;
pub(super) use job::{is_job, is_there, process};
pub use pods::{Kubernetes, PodAddress, PodOrder, Unready};
pub use service::KubernetesService;
pub use watching::{Watch, WatchEvent};
