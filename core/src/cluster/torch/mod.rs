//! PyTorch: what torchrun, Kubeflow's operators and users set, and the texts of its launcher.

mod environment;
mod launcher;

pub use environment::{TorchProcess, TorchStore, init_method};
pub(super) use environment::{is_node, is_worker, node_process, worker_process};
pub use launcher::{RENDEZVOUS_PORT, endpoint, node_range, rendezvous_settings};
