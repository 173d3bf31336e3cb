//! Questions that resolvers ask of the outside, and answers to them.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Something to be found out. Each is answered with the [`Answer`] of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// The text of a file, by path.
    File(String),
    /// One HTTP request.
    Http(Http),
    /// The addresses of a host name.
    Host(String),
    /// The SRV records of a DNS name.
    Services(String),
    /// Names of the devices that the runtime lists, such as `/job:worker/task:0/device:GPU:0`, or
    /// `GPU:0` of this process.
    Devices,
    /// How many GPUs this host has.
    Gpus,
    /// Whether this is a TPU machine: its library is there, and chips are.
    TpuMachine,
    /// What MPI says of its world (rank 0 tells all its host name).
    Mpi,
    /// The tasks that the coordination service at this address (`HOST:PORT`) coordinates, and what is under
    /// [`super::ADDRESS_KEYS`] there.
    Coordination(String),
}

/// An HTTP request. Answers of any status count as answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Http {
    /// GET without a body, POST with one (of type `application/json`).
    pub body: Option<String>,
    /// The whole URL, its query percent-encoded.
    pub url: String,
    /// Headers beside those that credentials add.
    pub headers: Vec<(String, String)>,
    /// What to prove who asks with.
    pub credentials: Credentials,
}

/// What an HTTP request proves who asks with; the driver adds it, so that secrets stay out of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Credentials {
    /// Nothing.
    None,
    /// The token and the certificate authority of the pod's service account
    /// ([`super::kubernetes::Access`]).
    ServiceAccount,
    /// A Google access token (of the metadata server, [`super::gce::token_request`], or the user's).
    Google,
}

/// What was found out. The error is why it could not be, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The text of a file; `None` if there is none.
    File(Result<Option<String>, String>),
    /// The answer to a request.
    Http(Result<HttpAnswer, String>),
    /// Addresses of a host, none if the name does not resolve.
    Host(Result<Vec<IpAddr>, String>),
    /// SRV records, none if there is no such name.
    Services(Result<Vec<Service>, String>),
    /// Names of devices.
    Devices(Result<Vec<String>, String>),
    /// How many GPUs there are.
    Gpus(Result<u32, String>),
    /// Whether it is a TPU machine.
    TpuMachine(bool),
    /// What MPI says; `None` where MPI was not initialised or cannot be asked.
    Mpi(Option<MpiWorld>),
    /// What a coordination service tells.
    Coordination(Result<Coordinated, String>),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Its status, such as 200.
    pub status: u16,
    /// Its body.
    pub body: String,
}

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    /// Lower is wanted first.
    pub priority: u16,
    /// Share among those of one priority.
    pub weight: u16,
    /// The host's name.
    pub target: String,
    /// The port.
    pub port: u16,
}

/// What MPI says of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiWorld {
    /// This process's rank.
    pub rank: u32,
    /// Processes.
    pub size: u32,
    /// The rank among those that share this host's memory.
    pub local_rank: u32,
    /// The host name that rank 0 gave to all.
    pub first_host: String,
}

/// What a coordination service tells of its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coordinated {
    /// How the tasks stand, each by its number; those that are expected and never came among them.
    pub tasks: Vec<(u32, Standing)>,
    /// Keys under [`super::ADDRESS_KEYS`] with their values.
    pub keys: Vec<(String, Vec<u8>)>,
}

/// How a task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It takes part in the job.
    Connected,
    /// It never registered, is about to, or has left in order.
    Absent,
    /// It is in error, dead for instance: why.
    Error(String),
}
