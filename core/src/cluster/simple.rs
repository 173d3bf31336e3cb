//! A cluster that is given.

use alloc::string::String;

use super::asking::{Outcome, Seen};
use super::error::Error;
use super::json::Json;
use super::options::Options;
use super::resolver::{Accelerators, ClusterResolver, DeviceCounts, MasterOf, with_layer};
use super::spec::ClusterSpec;

/// A cluster that was given in full, with the process's own place in it.
#[derive(Clone, Debug, Default)]
pub struct Simple {
    /// The cluster.
    pub spec: ClusterSpec,
    /// The master's address where no task is asked for.
    pub master: String,
    /// The process's job.
    pub task_type: Option<String>,
    /// Its index.
    pub task_id: Option<u32>,
    /// The environment's name.
    pub environment: String,
    /// Accelerators of each task.
    pub accelerators: Accelerators,
    /// The layer before addresses.
    pub rpc_layer: Option<String>,
}

impl Simple {
    pub(super) fn of(settings: &Json) -> Result<Self, Error> {
        let known = [
            "cluster_spec",
            "master",
            "task_type",
            "task_id",
            "environment",
            "num_accelerators",
            "rpc_layer",
        ];
        let options = Options::of("simple", settings, &known)?;
        let spec = options.get("cluster_spec").map(ClusterSpec::of_json).transpose()?;
        let missing = || Error::missing("simple.cluster_spec", "a map from jobs to tasks");
        Ok(Self {
            spec: spec.ok_or_else(missing)?,
            master: options.text("master")?.unwrap_or_default(),
            task_type: options.text("task_type")?,
            task_id: options.number("task_id")?,
            environment: options.text("environment")?.unwrap_or_default(),
            accelerators: options.counts("num_accelerators")?.unwrap_or_default(),
            rpc_layer: options.text("rpc_layer")?,
        })
    }
}

impl ClusterResolver for Simple {
    fn name(&self) -> &'static str {
        "simple"
    }

    fn cluster_spec(&mut self, _: &Seen) -> Outcome<ClusterSpec> {
        Ok(self.spec.clone())
    }

    fn master(&mut self, _: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let address = match of.task() {
            Some((job, index)) => self.spec.task_address(job, index)?,
            None => &self.master,
        };
        Ok(with_layer(address, of.rpc_layer.or(self.rpc_layer.as_deref())))
    }

    fn num_accelerators(
        &mut self,
        _: &Seen,
        _: Option<&str>,
        _: Option<u32>,
        _: Option<&DeviceCounts>,
    ) -> Outcome<Accelerators> {
        Ok(self.accelerators.clone())
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

    fn environment(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(Some(self.environment.clone()))
    }

    fn set_task_type(&mut self, task_type: &str) -> Result<(), Error> {
        self.task_type = Some(task_type.into());
        Ok(())
    }

    fn set_task_id(&mut self, task_id: u32) -> Result<(), Error> {
        self.task_id = Some(task_id);
        Ok(())
    }
}
