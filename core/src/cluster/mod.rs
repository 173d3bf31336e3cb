//! What a cluster is made of, and who in it asks: cluster specs, and the resolvers that find them in
//! environments, files and the answers of APIs.
//!
//! Nothing here reads a variable, a file or a socket: a [`ClusterResolver`] looks at what was [`Seen`] and
//! stops with [`Question`]s where it has to know more (`asking`).

mod accelerators;
mod asking;
mod chain;
mod changes;
mod describing;
mod dns;
mod error;
mod export;
mod file;
pub mod gce;
mod jax;
mod job_variables;
mod json;
pub mod kubernetes;
mod merge;
mod metadata;
mod open_mpi;
mod options;
mod order;
mod place;
mod process;
mod question;
mod resolver;
mod rondo;
mod sage_maker;
mod simple;
pub mod slurm;
mod spec;
mod tf_config;
pub mod torch;
mod tpu;
mod union;
mod url;

pub use accelerators::host_accelerators;
pub use asking::{Environment, Inquiry, Outcome, Progress, Seen, Stop, document_of, resolve};
pub use chain::{Chain, Contradiction, Entry, Finding, Report, Verdict};
pub use changes::{Change, Changes, Task};
pub use describing::{RESOLVERS, described, named};
pub use dns::Dns;
pub use error::{Error, Fault};
pub use export::Export;
pub use file::StaticFile;
pub use gce::Gce;
pub use jax::{Jax, JaxProcess};
pub use json::{Json, JsonFault};
pub use kubernetes::{Kubernetes, KubernetesJob, KubernetesService};
pub use merge::merge;
pub use metadata::METADATA_FLAVOR;
pub use place::{Place, SERVER_JOBS, SERVER_PORT, WORKER_JOB};
pub use process::{LocalDevices, Process};
pub use question::{
    Answer, Coordinated, Credentials, Http, HttpAnswer, MpiWorld, Question, Service, Standing,
};
pub use resolver::{
    Accelerators, AnyResolver, ClusterResolver, DeviceCounts, MasterOf, with_layer,
};
pub use rondo::{ADDRESS_KEYS, Rondo, address_key};
pub use sage_maker::{SM_CURRENT_HOST, SM_HOSTS, SageMaker};
pub use simple::Simple;
pub use slurm::Slurm;
pub use spec::{ClusterSpec, Tasks};
pub use tf_config::{TF_CONFIG, TfConfig};
pub use tpu::Tpu;
pub use union::Union;
