//! The settings of the rendezvous among those of `rondo serve`.

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::{ArgAction, Args};
use rondo_core::rendezvous::{Config, Device, Session};

use super::units::{Span, size};
use crate::config::Listen;
use crate::rendezvous::Settings;

/// Settings of the rendezvous, which is hosted if --rendezvous is given.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Rendezvous")]
pub(super) struct RendezvousArgs {
    /// Whether to host the rendezvous of a worker's steps: tensors by step and key, also for
    /// TensorFlow's workers (tensorflow.WorkerService)
    #[arg(long, env = "RONDO_RENDEZVOUS", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    pub(super) rendezvous: bool,

    /// The worker whose steps they are
    #[arg(
        long,
        env = "RONDO_RENDEZVOUS_WORKER",
        value_name = "NAME",
        default_value = "/job:worker/replica:0/task:0"
    )]
    pub(super) rendezvous_worker: WorkerName,

    /// The worker's devices, comma-separated
    #[arg(long, env = "RONDO_RENDEZVOUS_DEVICE", value_name = "LIST", default_value = "CPU:0")]
    pub(super) rendezvous_device: Devices,

    /// Where other workers are, comma-separated: /job:NAME/replica:N/task:N=HOST:PORT
    #[arg(long, env = "RONDO_RENDEZVOUS_PEER", value_name = "LIST", default_value = "")]
    pub(super) rendezvous_peer: Peers,

    /// Steps kept at once
    #[arg(long, env = "RONDO_RENDEZVOUS_STEPS_MAX", value_name = "COUNT", default_value_t = 1 << 16,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rendezvous_steps_max: u32,

    /// Memory of one step's tensors that wait for a receiver; those above are refused [default:
    /// 4GiB, or a quarter of --memory-max, if it is less]
    #[arg(long, env = "RONDO_RENDEZVOUS_STEP_SIZE_MAX", value_name = "SIZE", value_parser = size(..))]
    pub(super) rendezvous_step_size_max: Option<u64>,

    /// Memory of all steps' tensors that wait for a receiver [default: 8GiB, or a quarter of
    /// --memory-max, if it is less]
    #[arg(long, env = "RONDO_RENDEZVOUS_SIZE_MAX", value_name = "SIZE", value_parser = size(..))]
    pub(super) rendezvous_size_max: Option<u64>,

    /// Tensors of one step that wait for who wants them
    #[arg(long, env = "RONDO_RENDEZVOUS_STEP_TENSORS_MAX", value_name = "COUNT", default_value_t = 1 << 16)]
    pub(super) rendezvous_step_tensors_max: u32,

    /// Tensors of all steps that wait for who wants them
    #[arg(long, env = "RONDO_RENDEZVOUS_TENSORS_MAX", value_name = "COUNT", default_value_t = 1 << 20)]
    pub(super) rendezvous_tensors_max: u32,

    /// Calls that wait at once, for tensors or for room
    #[arg(long, env = "RONDO_RENDEZVOUS_CALLS_MAX", value_name = "COUNT", default_value_t = 1 << 16,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rendezvous_calls_max: u32,

    /// How long nothing may happen with a step that nobody cleans up; 0 keeps it for ever
    #[arg(long, env = "RONDO_RENDEZVOUS_STEP_EXPIRY", value_name = "SPAN", default_value = "1h")]
    pub(super) rendezvous_step_expiry: Span,

    /// Whether what answers RecvTensor is kept until MarkRecvFinished, so that it may be asked for
    /// again, as rpc_options.cache_rpc_response does it in TensorFlow
    #[arg(long, env = "RONDO_RENDEZVOUS_CACHE_RPC_RESPONSE", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    pub(super) rendezvous_cache_rpc_response: bool,

    /// How long another worker may be away until those who wait for its tensors are told
    #[arg(
        long,
        env = "RONDO_RENDEZVOUS_PEER_PATIENCE",
        value_name = "SPAN",
        default_value = "30s"
    )]
    pub(super) rendezvous_peer_patience: Span,
}

impl RendezvousArgs {
    /// The settings; `None` if no rendezvous is hosted. Incarnations are yet to be drawn.
    ///
    /// Unless the user says how much memory tensors may take, it is a quarter of the server's. So tensors
    /// that nobody receives never bring keys and jobs to the ceiling.
    pub(super) fn resolve(&self, memory_bytes_max: Option<u64>) -> Option<Settings> {
        if !self.rendezvous {
            return None;
        }
        let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let share = memory_bytes_max.map_or(u64::MAX, |bytes| bytes / 4);
        let bytes_max = |said: Option<u64>, most: u64| said.unwrap_or_else(|| most.min(share));
        let defaults = Config::default();
        let devices = self.rendezvous_device.0.iter().map(|device| (device.clone(), 0)).collect();
        let machine = Config {
            devices,
            session: Some(Session { worker_name: self.rendezvous_worker.0.as_str().into() }),
            steps_max: count(self.rendezvous_steps_max),
            step_tensors_max: count(self.rendezvous_step_tensors_max),
            step_bytes_max: bytes_max(self.rendezvous_step_size_max, defaults.step_bytes_max),
            tensors_max: count(self.rendezvous_tensors_max),
            bytes_max: bytes_max(self.rendezvous_size_max, defaults.bytes_max),
            calls_max: count(self.rendezvous_calls_max),
            step_expiry: self.rendezvous_step_expiry.unless_zero(),
            caches_responses: self.rendezvous_cache_rpc_response,
            patience: self.rendezvous_peer_patience.0,
            ..defaults
        };
        Some(Settings { machine, peers: self.rendezvous_peer.0.clone() })
    }
}

/// A worker's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WorkerName(String);

impl FromStr for WorkerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let device = Device::parse(text).filter(|device| device.kind().is_none());
        let worker = device.and_then(|device| device.worker().map(|worker| worker.to_string()));
        worker
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not of the form /job:NAME/replica:N/task:N"))
    }
}

/// Devices by their names within their worker (`/device:CPU:0`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Devices(Vec<String>);

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let device = |entry: &str| {
            let name = format!("/device:{}", entry.trim());
            let device = Device::parse(&name).filter(|device| device.worker().is_none());
            let local = device.and_then(|device| device.local().map(|local| local.to_string()));
            local.ok_or_else(|| format!("{entry:?} is no device, such as CPU:0 or GPU:1"))
        };
        text.split(',').map(device).collect::<Result<_, _>>().map(Self)
    }
}

/// Where other workers are, by their names; may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Peers(BTreeMap<String, String>);

impl FromStr for Peers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut peers = BTreeMap::new();
        for entry in text.split(',') {
            let bad =
                || format!("{entry:?} is not of the form /job:NAME/replica:N/task:N=HOST:PORT");
            let (name, address) = entry.trim().split_once('=').ok_or_else(bad)?;
            let name = name.parse::<WorkerName>().map_err(|_| bad())?.0;
            let address = address.parse::<Listen>().map_err(|_| bad())?.to_string();
            if peers.insert(name.clone(), address).is_some() {
                return Err(format!("{name} has two addresses"));
            }
        }
        Ok(Self(peers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_workers_devices_and_peers() {
        let name: WorkerName = "/task:1/job:w/replica:0".parse().unwrap();
        assert_eq!(name.0, "/job:w/replica:0/task:1");
        for text in ["", "w", "/job:w", "/job:w/replica:0/task:1/device:CPU:0"] {
            let refused = text.parse::<WorkerName>().unwrap_err();
            assert!(refused.contains(&format!("{text:?}")), "{refused}");
        }
        let Devices(devices) = "CPU:0, GPU:1".parse().unwrap();
        assert_eq!(devices, ["/device:CPU:0", "/device:GPU:1"]);
        for text in ["", "CPU", "CPU:0,", "CPU:x", "CPU:0/task:1/job:a/replica:0"] {
            assert!(text.parse::<Devices>().is_err(), "{text}");
        }
        let one = "/job:w/replica:0/task:1=host:1";
        let Peers(peers) = format!("{one}, /job:w/replica:0/task:2=[::1]:2").parse().unwrap();
        assert_eq!(peers["/job:w/replica:0/task:1"], "host:1");
        assert_eq!(peers["/job:w/replica:0/task:2"], "[::1]:2");
        assert_eq!("".parse(), Ok(Peers::default()));
        for text in
            ["host:1", "/job:w=host:1", "/job:w/replica:0/task:1=host", &format!("{one},{one}")]
        {
            assert!(text.parse::<Peers>().is_err(), "{text}");
        }
    }
}
