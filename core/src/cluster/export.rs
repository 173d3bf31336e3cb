//! What was found, as other programs take it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::chain::Finding;
use super::error::{Error, Fault};
use super::json::Json;
use super::options::split_address;
use super::process::LocalDevices;

/// A form of export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// Rondo's own variables, as a shell reads them.
    Env,
    /// The value of `TF_CONFIG`: one line of JSON.
    TfConfig,
    /// Variables of JAX, as a shell reads them.
    Jax,
    /// Variables of PyTorch: those of `env://`, and `PET_` ones for torchrun where a node is known.
    Torchrun,
}

impl Export {
    /// All forms, by name.
    pub const ALL: [(&'static str, Self); 4] = [
        ("env", Self::Env),
        ("tf_config", Self::TfConfig),
        ("jax", Self::Jax),
        ("torchrun", Self::Torchrun),
    ];

    /// Writes what was found.
    ///
    /// # Errors
    /// NOT_PRESENT where the form needs what the source does not tell.
    pub fn write(self, found: &Finding) -> Result<String, Error> {
        match self {
            Self::Env => Ok(shell(&env(found))),
            Self::TfConfig => tf_config(found).map(|document| format!("{document}\n")),
            Self::Jax => jax(found).map(|variables| shell(&variables)),
            Self::Torchrun => torchrun(found).map(|variables| shell(&variables)),
        }
    }
}

type Variables = Vec<(&'static str, String)>;

/// Lines `export NAME='VALUE'`.
fn shell(variables: &Variables) -> String {
    let line = |(name, value): &(&str, String)| {
        format!("export {name}='{}'\n", value.replace('\'', "'\\''"))
    };
    variables.iter().map(line).collect()
}

fn env(found: &Finding) -> Variables {
    let process = &found.process;
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    let all = [
        ("RONDO_CLUSTER_SOURCE", Some(found.source.to_string())),
        ("RONDO_CLUSTER_SPEC", found.spec.as_ref().map(|spec| spec.to_json().to_string())),
        ("RONDO_TASK_TYPE", found.task_type.clone()),
        ("RONDO_TASK_ID", number(found.task_id)),
        ("RONDO_MASTER", found.master.clone()),
        ("RONDO_COORDINATOR", process.coordinator.clone()),
        ("RONDO_SIZE", number(process.size)),
        ("RONDO_RANK", number(process.rank)),
        ("RONDO_LOCAL_RANK", number(process.local_rank)),
        ("RONDO_LOCAL_SIZE", number(process.local_size)),
        ("RONDO_NODES", number(process.nodes)),
        ("RONDO_NODE_RANK", number(process.node_rank)),
        ("RONDO_GPUS", found.gpus.as_ref().map(|gpus| gpus.join(","))),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn needed<T>(found: &Finding, what: &str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| {
        let why = found.notes.first().map(|note| format!(" ({note})")).unwrap_or_default();
        let text = format!(
            "the source {} does not tell it, and this form of export needs it{why}",
            found.source
        );
        Error::new(Fault::NotPresent, what, text)
    })
}

fn tf_config(found: &Finding) -> Result<Json, Error> {
    let spec = needed(found, "cluster_spec", found.spec.as_ref())?;
    let mut members = Vec::from([("cluster".to_string(), spec.to_json())]);
    if let Some((job, index)) = found.task_type.as_ref().zip(found.task_id) {
        let task =
            [("type".to_string(), Json::text(job)), ("index".to_string(), Json::number(index))];
        members.push(("task".to_string(), Json::Map(task.into())));
    }
    if let Some(layer) = found.rpc_layer.as_ref().filter(|layer| !layer.is_empty()) {
        members.push(("rpc_layer".to_string(), Json::text(layer)));
    }
    Ok(Json::Map(members))
}

fn jax(found: &Finding) -> Result<Variables, Error> {
    let process = &found.process;
    let mut variables = Vec::from([
        ("JAX_COORDINATOR_ADDRESS", needed(found, "coordinator", process.coordinator.clone())?),
        ("JAX_NUM_PROCESSES", needed(found, "size", process.size)?.to_string()),
        ("JAX_PROCESS_ID", needed(found, "rank", process.rank)?.to_string()),
    ]);
    let devices = match found.local_devices {
        LocalDevices::OfLocalRank => process.local_rank.map(|rank| rank.to_string()),
        LocalDevices::First(count) => {
            let places: Vec<String> = (0..count).map(|place| place.to_string()).collect();
            Some(places.join(","))
        }
        LocalDevices::All => None,
    };
    variables.extend(devices.map(|ids| ("JAX_LOCAL_DEVICE_IDS", ids)));
    Ok(variables)
}

fn torchrun(found: &Finding) -> Result<Variables, Error> {
    let process = &found.process;
    let coordinator = needed(found, "coordinator", process.coordinator.as_deref())?;
    let (host, port) = split_address("coordinator", coordinator, 29500)?;
    let port = port.to_string();
    let number = |name: &'static str, number: Option<u32>| Some((name, number?.to_string()));
    let mut variables = Vec::new();
    if process.node_rank.is_none() || process.rank.is_some() {
        let size = needed(found, "size", process.size)?.to_string();
        let rank = needed(found, "rank", process.rank)?.to_string();
        variables.extend([("WORLD_SIZE", size), ("RANK", rank)]);
        variables.extend([("MASTER_ADDR", host.clone()), ("MASTER_PORT", port.clone())]);
        variables.extend(number("LOCAL_RANK", process.local_rank));
        variables.extend(number("LOCAL_WORLD_SIZE", process.local_size));
    }
    if let (Some(nodes), Some(rank)) = (process.nodes, process.node_rank) {
        variables.extend([("PET_NNODES", nodes.to_string()), ("PET_NODE_RANK", rank.to_string())]);
        variables.extend([("PET_MASTER_ADDR", host), ("PET_MASTER_PORT", port)]);
        variables.extend(number("PET_NPROC_PER_NODE", process.per_node.or(process.local_size)));
    }
    Ok(variables)
}
