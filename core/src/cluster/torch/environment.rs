//! Variables of processes (`RANK`, `MASTER_ADDR`) and of nodes whose torchrun is yet to start (`PET_…`).

use alloc::format;
use alloc::string::String;

use super::super::asking::Seen;
use super::super::error::Error;
use super::super::options::{address, port, split_address, whole};
use super::super::process::Process;
use super::launcher::{RENDEZVOUS_PORT, endpoint, node_range};

const RANK: &str = "RANK";
const WORLD_SIZE: &str = "WORLD_SIZE";
const MASTER_ADDR: &str = "MASTER_ADDR";
const MASTER_PORT: &str = "MASTER_PORT";
const PET_NNODES: &str = "PET_NNODES";
const PET_NODE_RANK: &str = "PET_NODE_RANK";
const PET_MASTER_ADDR: &str = "PET_MASTER_ADDR";
const PET_MASTER_PORT: &str = "PET_MASTER_PORT";
const PET_ENDPOINT: &str = "PET_RDZV_ENDPOINT";
/// As newer operators and as older ones call it.
const PET_PER_NODE: [&str; 2] = ["PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE"];

/// What a process group is initialised with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorchProcess {
    /// The process's rank.
    pub rank: u32,
    /// Processes.
    pub size: u32,
    /// Where they meet.
    pub store: TorchStore,
}

/// Where processes meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TorchStore {
    /// A TCP store.
    Tcp {
        /// Its host.
        host: String,
        /// Its port.
        port: u16,
        /// Whether torchrun's agent serves it, so that rank 0 is a client like the others.
        agent_serves: bool,
    },
    /// A file that all share, by path.
    File(String),
}

/// Reads what `init_process_group` reads of an `init_method` and the environment: `env://`,
/// `tcp://HOST:PORT` or `file:///PATH`, with `rank` and `world_size` in the query or, for `env://`, in
/// variables.
///
/// # Errors
/// NOT_PRESENT for what is unset or empty, MALFORMED for what is no number, port or known method.
pub fn init_method(seen: &Seen, url: &str) -> Result<TorchProcess, Error> {
    let about = "init_method";
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let in_query = |name: &str| {
        let mut pairs = query.rsplit('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
    };
    let is_env = place == "env://";
    let number = |name: &str, variable: &str| match in_query(name) {
        Some(text) => whole(name, text),
        None if is_env => whole(variable, needed(seen, variable)?),
        None => Err(Error::missing(name, "the query of the URL has to tell it")),
    };
    let (rank, size) = (number("rank", RANK)?, number("world_size", WORLD_SIZE)?);
    if rank >= size {
        let wanted = format!("is no rank of {size} processes ({WORLD_SIZE})");
        return Err(Error::malformed(RANK, &format!("{rank}"), &wanted));
    }
    let store = if is_env {
        let agent_serves = seen.variable("TORCHELASTIC_USE_AGENT_STORE") == Some("True");
        let host = needed(seen, MASTER_ADDR)?.into();
        let port = port(MASTER_PORT, needed(seen, MASTER_PORT)?)?;
        TorchStore::Tcp { host, port, agent_serves }
    } else if let Some(address) = place.strip_prefix("tcp://") {
        let (host, port) = split_address(about, address.trim_end_matches('/'), 0)?;
        if port == 0 {
            return Err(Error::malformed(about, url, "has no port: tcp://HOST:PORT is wanted"));
        }
        TorchStore::Tcp { host, port, agent_serves: false }
    } else if let Some(path) = place.strip_prefix("file://").filter(|path| !path.is_empty()) {
        TorchStore::File(path.into())
    } else {
        let wanted = "is none of env://, tcp://HOST:PORT and file:///PATH";
        return Err(Error::malformed(about, url, wanted));
    };
    Ok(TorchProcess { rank, size, store })
}

fn needed<'a>(seen: &'a Seen, name: &str) -> Result<&'a str, Error> {
    seen.filled(name).ok_or_else(|| Error::missing(name, "env:// needs it in each process"))
}

/// Whether a process was given a rank among PyTorch's.
pub(in super::super) fn is_worker(seen: &Seen) -> bool {
    [RANK, WORLD_SIZE, MASTER_ADDR].iter().all(|name| seen.filled(name).is_some())
}

/// Whether torchrun is to be started here.
pub(in super::super) fn is_node(seen: &Seen) -> bool {
    seen.filled(PET_NNODES).is_some()
        && [PET_NODE_RANK, PET_MASTER_ADDR, PET_ENDPOINT]
            .iter()
            .any(|name| seen.filled(name).is_some())
}

pub(in super::super) fn worker_process(seen: &Seen) -> Result<Process, Error> {
    let own = init_method(seen, "env://")?;
    let coordinator = match own.store {
        TorchStore::Tcp { host, port, .. } => Some(address(&host, port)),
        TorchStore::File(_) => None,
    };
    let number = |name: &str| seen.filled(name).map(|text| whole(name, text)).transpose();
    Ok(Process {
        coordinator,
        size: Some(own.size),
        rank: Some(own.rank),
        local_rank: number("LOCAL_RANK")?,
        local_size: number("LOCAL_WORLD_SIZE")?,
        nodes: number("GROUP_WORLD_SIZE")?,
        node_rank: number("GROUP_RANK")?,
        per_node: None,
    })
}

/// What a node's launcher is told: the ranks of processes are given out later.
pub(in super::super) fn node_process(seen: &Seen) -> Result<Process, Error> {
    let number = |name: &str| seen.filled(name).map(|text| whole(name, text)).transpose();
    let range = seen.filled(PET_NNODES).map(|text| node_range(PET_NNODES, text)).transpose()?;
    let per_node = PET_PER_NODE.iter().find(|name| {
        // "auto", "gpu" and "cpu" leave the number to the launcher.
        seen.filled(name).is_some_and(|text| text.bytes().all(|digit| digit.is_ascii_digit()))
    });
    let nodes = range.filter(|(least, most)| least == most).map(|(nodes, _)| nodes);
    let per_node = per_node.map_or(Ok(None), |name| number(name))?;
    let node_rank = number(PET_NODE_RANK)?;
    if let (Some(rank), Some(nodes)) = (node_rank, nodes)
        && rank >= nodes
    {
        let wanted = format!("is no rank of {nodes} nodes ({PET_NNODES})");
        return Err(Error::malformed(PET_NODE_RANK, &format!("{rank}"), &wanted));
    }
    Ok(Process {
        coordinator: Some(node_coordinator(seen)?).filter(|found| !found.is_empty()),
        nodes,
        node_rank,
        per_node,
        ..Process::default()
    })
}

fn node_coordinator(seen: &Seen) -> Result<String, Error> {
    if let Some(host) = seen.filled(PET_MASTER_ADDR) {
        let own = seen.filled(PET_MASTER_PORT).map(|text| port(PET_MASTER_PORT, text));
        return Ok(address(host, own.transpose()?.unwrap_or(RENDEZVOUS_PORT)));
    }
    let Some(text) = seen.filled(PET_ENDPOINT) else { return Ok(String::new()) };
    let (host, port) = endpoint(PET_ENDPOINT, text, RENDEZVOUS_PORT)?;
    Ok(address(&host, port))
}
