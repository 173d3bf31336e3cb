//! What a source tells.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::asking::{Outcome, Seen, Stop};
use super::super::error::Fault;
use super::super::json::Json;
use super::super::process::{LocalDevices, Process};
use super::super::resolver::{ClusterResolver, MasterOf};
use super::super::spec::ClusterSpec;

/// Jobs whose first task coordinates the others, in the order in which they are looked for.
pub(in super::super) const COORDINATING: [&str; 4] = ["coordinator", "chief", "master", "worker"];

/// What a source tells of the cluster and of the process's place in it. What it does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// The source's name.
    pub source: &'static str,
    /// The cluster.
    pub spec: Option<ClusterSpec>,
    /// The process's job.
    pub task_type: Option<String>,
    /// Its index.
    pub task_id: Option<u32>,
    /// The layer before addresses.
    pub rpc_layer: Option<String>,
    /// The address of the process's session master.
    pub master: Option<String>,
    /// Who coordinates, and the process's place among all.
    pub process: Process,
    /// GPUs that are the process's own, as `CUDA_VISIBLE_DEVICES` names them.
    pub gpus: Option<Vec<String>>,
    /// Which of the devices that it sees JAX is to use.
    pub local_devices: LocalDevices,
    /// Settings of the resolver that answers further questions ([`super::super::described`]).
    pub resolver: Option<Json>,
    /// What is odd about the source.
    pub notes: Vec<String>,
}

impl Finding {
    /// What a launcher tells without a cluster spec.
    pub(super) fn of_process(process: Process) -> Self {
        Self { process, ..Self::default() }
    }

    /// What a resolver tells.
    pub(super) fn of_resolver(
        seen: &Seen,
        resolver: &mut dyn ClusterResolver,
        settings: Json,
    ) -> Outcome<Self> {
        let spec = resolver.cluster_spec(seen)?;
        let task_type = resolver.task_type(seen)?;
        let task_id = resolver.task_id(seen)?;
        let mut notes = Vec::new();
        let master = match resolver.master(seen, &MasterOf::default()) {
            Ok(master) => Some(master),
            // An evaluator stands outside of its cluster; and who does not know itself has no master.
            Err(Stop::Fail(error)) if is_about_tasks(error.fault) => {
                notes.push(format!("no master: {error}"));
                None
            }
            Err(other) => return Err(other),
        };
        let gpus = match resolver.own_gpus(seen) {
            Ok(gpus) => gpus,
            Err(Stop::Fail(error)) => {
                notes.push(format!("no GPUs of its own: {error}"));
                None
            }
            Err(ask) => return Err(ask),
        };
        Ok(Self {
            spec: Some(spec),
            task_type,
            task_id,
            rpc_layer: resolver.rpc_layer(seen)?,
            master,
            local_devices: resolver.local_devices(seen),
            gpus,
            resolver: Some(settings),
            notes,
            ..Self::default()
        })
    }

    /// Fills in what follows from the rest.
    pub(super) fn complete(&mut self, source: &'static str) {
        self.source = source;
        let Some(spec) = &self.spec else { return };
        for (address, tasks) in spec.shared_addresses() {
            let tasks: Vec<String> =
                tasks.iter().take(8).map(|(job, index)| format!("{job}:{index}")).collect();
            self.notes.push(format!("{} have the same address, {address:?}", tasks.join(", ")));
        }
        if self.process.coordinator.is_none() {
            let first = COORDINATING.iter().find_map(|job| spec.task_address(job, 0).ok());
            self.process.coordinator = first.map(ToString::to_string);
        }
        // Who has which rank is plain only where all are of one job.
        let mut jobs = spec.jobs();
        if let (Some(job), None) = (jobs.next(), jobs.next())
            && self.task_type.as_deref() == Some(job)
        {
            let size = u32::try_from(spec.tasks_count()).ok().filter(|_| spec.is_dense(job));
            let rank = self.task_id.filter(|index| size.is_some_and(|size| *index < size));
            self.process.size = self.process.size.or(size);
            self.process.rank = self.process.rank.or(rank);
        }
    }

    /// The finding as JSON, as `rondo cluster -o json` prints it.
    pub fn to_json(&self) -> Json {
        let text = |text: &Option<String>| text.as_ref().map_or(Json::Null, Json::text);
        let number = |number: Option<u32>| number.map_or(Json::Null, Json::number);
        let texts = |texts: &[String]| Json::List(texts.iter().map(Json::text).collect());
        let process = &self.process;
        let members = [
            ("source", Json::text(self.source)),
            ("cluster_spec", self.spec.as_ref().map_or(Json::Null, ClusterSpec::to_json)),
            ("task_type", text(&self.task_type)),
            ("task_id", number(self.task_id)),
            ("rpc_layer", text(&self.rpc_layer)),
            ("master", text(&self.master)),
            ("coordinator", text(&process.coordinator)),
            ("size", number(process.size)),
            ("rank", number(process.rank)),
            ("local_rank", number(process.local_rank)),
            ("local_size", number(process.local_size)),
            ("nodes", number(process.nodes)),
            ("node_rank", number(process.node_rank)),
            ("per_node", number(process.per_node)),
            ("gpus", self.gpus.as_deref().map_or(Json::Null, texts)),
            ("notes", texts(&self.notes)),
        ];
        Json::Map(members.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }
}

const fn is_about_tasks(fault: Fault) -> bool {
    matches!(fault, Fault::NoSuchTask | Fault::NotPresent)
}
