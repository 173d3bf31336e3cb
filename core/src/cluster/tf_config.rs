//! `TF_CONFIG`: a cluster and a place in it as JSON in a variable.

use alloc::format;
use alloc::string::{String, ToString};

use super::asking::{Outcome, Seen, parsed};
use super::error::Error;
use super::json::Json;
use super::options::Options;
use super::resolver::{Accelerators, ClusterResolver, DeviceCounts, MasterOf, with_layer};
use super::spec::ClusterSpec;

/// The variable.
pub const TF_CONFIG: &str = "TF_CONFIG";

/// Reads `TF_CONFIG`, also in the form with `sparseCluster` that Kubeflow gives to dynamic workers.
#[derive(Clone, Debug, Default)]
pub struct TfConfig {
    /// The process's job, instead of the variable's.
    pub task_type: Option<String>,
    /// Its index, instead of the variable's.
    pub task_id: Option<u32>,
    /// The layer before addresses, instead of the variable's.
    pub rpc_layer: Option<String>,
    /// The environment's name; the variable's is not used.
    pub environment: Option<String>,
}

impl TfConfig {
    pub(super) fn of(settings: &Json) -> Result<Self, Error> {
        let known = ["task_type", "task_id", "rpc_layer", "environment"];
        let options = Options::of("tf_config", settings, &known)?;
        Ok(Self {
            task_type: options.text("task_type")?,
            task_id: options.number("task_id")?,
            rpc_layer: options.text("rpc_layer")?,
            environment: options.text("environment")?,
        })
    }

    /// The master's address in a document of this form.
    fn master_in(
        &self,
        seen: &Seen,
        document: &Document,
        of: &MasterOf<'_>,
    ) -> Result<String, Error> {
        if let Some(master) = document.text("session_master")? {
            return Ok(master);
        }
        let spec = document.spec()?;
        if is_alone(&spec) {
            return Ok(String::new());
        }
        let job = match of.task_type {
            Some(job) => Some(job.into()),
            None => self.type_in(document)?,
        };
        let index = match of.task_id {
            Some(index) => Some(index),
            None => self.id_in(document)?,
        };
        let layer = match of.rpc_layer {
            Some(layer) => Some(layer.into()),
            None => self.layer_in(seen)?,
        };
        let Some((job, index)) = job.zip(index) else {
            let wanted =
                "the master of no particular task is asked for, and the variable names none";
            return Err(Error::missing("TF_CONFIG.task", wanted));
        };
        Ok(with_layer(spec.task_address(&job, index)?, layer.as_deref()))
    }

    fn type_in(&self, document: &Document) -> Result<Option<String>, Error> {
        match &self.task_type {
            Some(own) => Ok(Some(own.clone())),
            None => document.task_type(),
        }
    }

    fn id_in(&self, document: &Document) -> Result<Option<u32>, Error> {
        match self.task_id {
            Some(own) => Ok(Some(own)),
            None => document.task_id(),
        }
    }

    fn layer_in(&self, seen: &Seen) -> Result<Option<String>, Error> {
        match &self.rpc_layer {
            Some(own) => Ok(Some(own.clone())),
            None => Document::seen(seen)?.text("rpc_layer"),
        }
    }
}

/// Whether the cluster is one task, whose master is the process itself.
pub(super) fn is_alone(spec: &ClusterSpec) -> bool {
    let mut tasks = spec.iter();
    spec.is_empty()
        || (spec.jobs().len() == 1
            && matches!((tasks.next(), tasks.next()), (Some((_, 0, _)), None)))
}

/// A document in the form of `TF_CONFIG`.
pub(super) struct Document {
    about: String,
    root: Json,
}

impl Document {
    /// What the variable holds; an empty document where it is unset or empty.
    pub(super) fn seen(seen: &Seen) -> Result<Self, Error> {
        match seen.filled(TF_CONFIG).filter(|text| !text.trim().is_empty()) {
            None => Ok(Self { about: TF_CONFIG.into(), root: Json::Map(alloc::vec::Vec::new()) }),
            Some(text) => Self::read(TF_CONFIG, text),
        }
    }

    /// A document from a variable or a file.
    pub(super) fn read(about: &str, text: &str) -> Result<Self, Error> {
        let root = parsed(about, text)?;
        if root.as_map().is_none() {
            let wanted = format!("is {}: an object is wanted", root.kind());
            return Err(Error::malformed(about, text, &wanted));
        }
        Ok(Self { about: about.into(), root })
    }

    /// Whether anything in it tells of a cluster or a task.
    pub(super) fn says_something(&self) -> bool {
        ["cluster", "sparseCluster", "task"].iter().any(|name| self.root.get(name).is_some())
    }

    /// Names that come twice in it.
    pub(super) fn repeated(&self) -> alloc::vec::Vec<String> {
        self.root.repeated()
    }

    pub(super) fn spec(&self) -> Result<ClusterSpec, Error> {
        let cluster = self.root.get("cluster").or_else(|| self.root.get("sparseCluster"));
        let spec = cluster.map(ClusterSpec::of_json).transpose();
        Ok(spec.map_err(|error| error.within(&self.about))?.unwrap_or_default())
    }

    /// A text at the top; `null` counts as none.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Error> {
        let Some(value) = self.root.get(name).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let text = value.as_text().map(String::from);
        text.map(Some).ok_or_else(|| self.wrong(name, value, "a text is wanted"))
    }

    fn wrong(&self, path: &str, value: &Json, wanted: &str) -> Error {
        let wanted = format!("is {}: {wanted}", value.kind());
        Error::malformed(format!("{}.{path}", self.about), &value.to_string(), &wanted)
    }

    fn task(&self, member: &str) -> Result<Option<&Json>, Error> {
        let Some(task) = self.root.get("task") else { return Ok(None) };
        if task.as_map().is_none() {
            return Err(self.wrong(
                "task",
                task,
                "an object with \"type\" and \"index\" is wanted",
            ));
        }
        Ok(task.get(member))
    }

    pub(super) fn task_type(&self) -> Result<Option<String>, Error> {
        let Some(value) = self.task("type")? else { return Ok(None) };
        let text = value.as_text().map(String::from);
        text.map(Some).ok_or_else(|| self.wrong("task.type", value, "the name of a job is wanted"))
    }

    pub(super) fn task_id(&self) -> Result<Option<u32>, Error> {
        let Some(value) = self.task("index")? else { return Ok(None) };
        let number = match value {
            Json::Text(digits) => digits.trim().parse().ok(),
            other => other.as_u32(),
        };
        let wanted = "a whole number from 0 to 4294967295 is wanted";
        number.map(Some).ok_or_else(|| self.wrong("task.index", value, wanted))
    }
}

impl ClusterResolver for TfConfig {
    fn name(&self) -> &'static str {
        "tf_config"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        Ok(Document::seen(seen)?.spec()?)
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        Ok(self.master_in(seen, &Document::seen(seen)?, of)?)
    }

    fn num_accelerators(
        &mut self,
        seen: &Seen,
        task_type: Option<&str>,
        task_id: Option<u32>,
        config: Option<&DeviceCounts>,
    ) -> Outcome<Accelerators> {
        let own_type = self.task_type(seen)?;
        let own_id = self.task_id(seen)?;
        let job = task_type.or(own_type.as_deref());
        super::accelerators::listed(seen, job, task_id.or(own_id), config)
    }

    fn task_type(&self, seen: &Seen) -> Outcome<Option<String>> {
        Ok(self.type_in(&Document::seen(seen)?)?)
    }

    fn task_id(&self, seen: &Seen) -> Outcome<Option<u32>> {
        Ok(self.id_in(&Document::seen(seen)?)?)
    }

    fn rpc_layer(&self, seen: &Seen) -> Outcome<Option<String>> {
        Ok(self.layer_in(seen)?)
    }

    fn environment(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.environment.clone())
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
