//! The resolver over a step of Slurm's.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::accelerators::visible_gpus;
use super::super::asking::{Outcome, Seen};
use super::super::error::{Error, Fault};
use super::super::json::Json;
use super::super::options::{Options, address, whole};
use super::super::process::LocalDevices;
use super::super::resolver::{Accelerators, ClusterResolver, DeviceCounts, MasterOf, with_layer};
use super::super::spec::ClusterSpec;
use super::TasksPerNode;
use super::step::{NUM_TASKS, Step, needed};

const PORT_BASE: u16 = 8888;
/// Variables in which Slurm tells what the user asked for each task: `--gpus-per-task`, and
/// `--tres-per-task`, in which newer releases repeat it.
const GPUS_PER_TASK: [&str; 2] = ["SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK"];

/// Tasks of a step where Slurm really runs them. The k-th task of a host listens on `port_base` + k. The
/// process's own task is known once [`ClusterResolver::cluster_spec`] was asked, as in TensorFlow.
#[derive(Clone, Debug)]
pub struct Slurm {
    /// Tasks of each job; unset: all are of the job `worker`. Jobs take ranks in the order of their names.
    pub jobs: Option<BTreeMap<String, u32>>,
    /// Where the first task of each host listens.
    pub port_base: u16,
    /// GPUs of each host; unset: those in `CUDA_VISIBLE_DEVICES`, else those that the host has.
    pub gpus_per_node: Option<u32>,
    /// GPUs of each task; unset: the host's, divided by its tasks.
    pub gpus_per_task: Option<u32>,
    /// Tasks of each host; unset: as Slurm says.
    pub tasks_per_node: Option<TasksPerNode>,
    /// Whether each task is given GPUs of its own ([`ClusterResolver::own_gpus`]).
    pub auto_set_gpu: bool,
    /// The layer before addresses.
    pub rpc_layer: Option<String>,
    /// The process's job; [`ClusterResolver::cluster_spec`] sets it.
    pub task_type: Option<String>,
    /// Its index; set likewise.
    pub task_id: Option<u32>,
}

impl Default for Slurm {
    fn default() -> Self {
        Self {
            jobs: None,
            port_base: PORT_BASE,
            gpus_per_node: None,
            gpus_per_task: None,
            tasks_per_node: None,
            auto_set_gpu: true,
            rpc_layer: Some("grpc".into()),
            task_type: None,
            task_id: None,
        }
    }
}

impl Slurm {
    pub(in super::super) fn of(settings: &Json) -> Result<Self, Error> {
        let known = [
            "jobs",
            "port_base",
            "gpus_per_node",
            "gpus_per_task",
            "tasks_per_node",
            "auto_set_gpu",
            "rpc_layer",
        ];
        let options = Options::of("slurm", settings, &known)?;
        let tasks_per_node = match options.get("tasks_per_node") {
            None => None,
            Some(Json::Map(_)) => options.counts("tasks_per_node")?.map(TasksPerNode::Each),
            Some(_) => options.number("tasks_per_node")?.map(TasksPerNode::All),
        };
        Ok(Self {
            jobs: options.counts("jobs")?,
            port_base: options.port_or("port_base", PORT_BASE)?,
            gpus_per_node: options.number("gpus_per_node")?,
            gpus_per_task: options.number("gpus_per_task")?,
            tasks_per_node,
            auto_set_gpu: options.flag_or("auto_set_gpu", true)?,
            rpc_layer: options.text_or("rpc_layer", "grpc")?,
            ..Self::default()
        })
    }

    fn step(&self, seen: &Seen) -> Result<Step, Error> {
        Step::of(seen, self.tasks_per_node.as_ref())
    }

    /// Sizes of jobs, in the order of names, which make up the whole step.
    fn sizes(&self, seen: &Seen, step: &Step) -> Result<BTreeMap<String, u32>, Error> {
        let tasks = step.places.len();
        let sizes = match &self.jobs {
            Some(jobs) => jobs.clone(),
            None => {
                let count = whole(NUM_TASKS, needed(seen, NUM_TASKS)?)?;
                BTreeMap::from([("worker".to_string(), count)])
            }
        };
        let wanted: u64 = sizes.values().map(|size| u64::from(*size)).sum();
        if wanted == tasks as u64 {
            return Ok(sizes);
        }
        let about = if self.jobs.is_some() { "slurm.jobs" } else { NUM_TASKS };
        let text = format!("{wanted} tasks in jobs, but the step has {tasks}");
        Err(Error::new(Fault::Conflict, about, text))
    }

    /// The spec, and the process's own task in it.
    fn resolved(&self, seen: &Seen) -> Outcome<(ClusterSpec, String, u32)> {
        let step = self.step(seen)?;
        let sizes = self.sizes(seen, &step)?;
        if self.gpus_per_task.is_some() {
            self.gpus_of_task(seen, &step)?;
        }
        let mut spec = ClusterSpec::new();
        let mut own = None;
        let mut ranks = 0..;
        for (job, size) in &sizes {
            spec.add_job(job)?;
            for (index, rank) in (0..*size).zip(ranks.by_ref()) {
                spec.add_task(job, index, self.address(&step, rank)?)?;
                if rank == step.rank {
                    own = Some((job.clone(), index));
                }
            }
        }
        let nobody =
            || Error::new(Fault::NoSuchTask, "SLURM_PROCID", "the rank is in none of the jobs");
        let (job, index) = own.ok_or_else(nobody)?;
        Ok((spec, job, index))
    }

    fn address(&self, step: &Step, rank: u32) -> Result<String, Error> {
        let nobody = || Error::new(Fault::NoSuchTask, "slurm.jobs", format!("no rank {rank}"));
        let (host, place) = step.place(rank).ok_or_else(nobody)?;
        let port = u16::try_from(place.local).ok().and_then(|k| self.port_base.checked_add(k));
        let port = port.ok_or_else(|| {
            let text = format!("{} + {} is past the last port", self.port_base, place.local);
            Error::new(Fault::TooLarge, "slurm.port_base", text)
        })?;
        Ok(address(host, port))
    }

    /// GPUs of each task.
    fn gpus_of_task(&self, seen: &Seen, step: &Step) -> Outcome<u32> {
        let on_node = match self.gpus_per_node {
            Some(count) => count,
            None => match visible_gpus(seen) {
                Some(ids) => u32::try_from(ids.len()).unwrap_or(u32::MAX),
                None => seen.gpus()?,
            },
        };
        let tasks = step.local_max().max(1);
        let each = self.gpus_per_task.unwrap_or(on_node / tasks);
        if u64::from(tasks) * u64::from(each) <= u64::from(on_node) {
            return Ok(each);
        }
        let text = format!("{tasks} tasks of {each} GPUs each on a host that has {on_node}");
        Err(Error::new(Fault::Conflict, "slurm.gpus_per_task", text).into())
    }
}

/// GPUs in what was asked for each task: `2`, `a100:2,v100:1`, or `cpu=4,gres/gpu:a100=2`. A list of
/// resources may name the sum beside the GPUs of each type: `gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1`.
fn gpus_in(asked: &str) -> Option<u32> {
    let count = |part: &str| part.rsplit([':', '=']).next()?.trim().parse::<u32>().ok();
    let parts = || asked.split(',').map(str::trim);
    if let Some(sum) = parts().find_map(|part| part.strip_prefix("gres/gpu=")) {
        return sum.trim().parse().ok();
    }
    let of_gpus = parts().filter(|part| part.contains("gpu") || !part.contains('='));
    of_gpus.map(count).reduce(|sum, more| sum?.checked_add(more?))?
}

impl ClusterResolver for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        let (spec, job, index) = self.resolved(seen)?;
        self.task_type = Some(job);
        self.task_id = Some(index);
        Ok(spec)
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let job = of.task_type.map(String::from).or_else(|| self.task_type.clone());
        let Some((job, index)) = job.zip(of.task_id.or(self.task_id)) else {
            return Ok(String::new());
        };
        let spec = self.cluster_spec(seen)?;
        let layer = of.rpc_layer.or(self.rpc_layer.as_deref());
        Ok(with_layer(spec.task_address(&job, index)?, layer))
    }

    fn num_accelerators(
        &mut self,
        seen: &Seen,
        _: Option<&str>,
        _: Option<u32>,
        config: Option<&DeviceCounts>,
    ) -> Outcome<Accelerators> {
        let each = self.gpus_of_task(seen, &self.step_or_counts(seen)?)?;
        let most = config.and_then(|config| config.get("GPU")).copied().unwrap_or(u32::MAX);
        Ok(BTreeMap::from([("GPU".to_string(), each.min(most))]))
    }

    fn task_type(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.task_type.clone())
    }

    fn task_id(&self, _: &Seen) -> Outcome<Option<u32>> {
        Ok(self.task_id)
    }

    fn rpc_layer(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.rpc_layer.clone())
    }

    fn local_devices(&self, seen: &Seen) -> LocalDevices {
        let visible = visible_gpus(seen).map_or(0, |ids| u32::try_from(ids.len()).unwrap_or(0));
        match self.step(seen) {
            Ok(step) if self.is_bound(seen, &step) => LocalDevices::First(visible),
            _ => LocalDevices::OfLocalRank,
        }
    }

    fn own_gpus(&self, seen: &Seen) -> Outcome<Option<Vec<String>>> {
        if !self.auto_set_gpu || self.task_id.is_none() {
            return Ok(None);
        }
        let step = self.step(seen)?;
        let ids = visible_gpus(seen).unwrap_or_default();
        if self.is_bound(seen, &step) {
            return Ok(Some(ids.into_iter().map(String::from).collect()));
        }
        let each = self.gpus_of_task(seen, &step)?;
        let local = step.place(step.rank).map_or(0, |(_, place)| place.local);
        let id = |number: u32| {
            let known = usize::try_from(number).ok().and_then(|number| ids.get(number));
            known.map_or_else(|| number.to_string(), |id| (*id).to_string())
        };
        let first = local.saturating_mul(each);
        let own = (first..first.saturating_add(each)).map(id).collect::<Vec<_>>();
        Ok(Some(own).filter(|own| !own.is_empty()))
    }
}

impl Slurm {
    /// Whether the task sees its own GPUs only: no more than each task was to have, or fewer than the host
    /// has tasks, so that there is nothing to share out.
    fn is_bound(&self, seen: &Seen, step: &Step) -> bool {
        let visible = visible_gpus(seen).unwrap_or_default().len();
        let each = GPUS_PER_TASK.iter().find_map(|name| gpus_in(seen.filled(name)?));
        let most = each.unwrap_or_default().max(step.local_max().saturating_sub(1));
        let is_few = u32::try_from(visible).is_ok_and(|visible| visible <= most);
        self.gpus_per_node.is_none() && visible > 0 && is_few
    }

    /// The step as far as GPUs are concerned: also a rank that it does not have is answered.
    fn step_or_counts(&self, seen: &Seen) -> Result<Step, Error> {
        match self.step(seen) {
            Err(error) if error.about == super::step::PROCID && error.fault == Fault::Malformed => {
                Step::of_rank(seen, self.tasks_per_node.as_ref(), 0)
            }
            other => other,
        }
    }
}
