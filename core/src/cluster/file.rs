//! A cluster in a file, read anew each time.

use alloc::string::String;

use super::asking::{Outcome, Seen, parsed};
use super::error::{Error, Fault};
use super::json::Json;
use super::options::Options;
use super::resolver::{ClusterResolver, MasterOf, with_layer};
use super::spec::ClusterSpec;
use super::tf_config::Document;

/// A file in the form of `TF_CONFIG`, or one that is only the map from jobs to tasks.
#[derive(Clone, Debug, Default)]
pub struct StaticFile {
    /// Its path.
    pub path: String,
    /// The process's job, instead of the file's.
    pub task_type: Option<String>,
    /// Its index, instead of the file's.
    pub task_id: Option<u32>,
    /// The layer before addresses, instead of the file's.
    pub rpc_layer: Option<String>,
}

impl StaticFile {
    pub(super) fn of(settings: &Json) -> Result<Self, Error> {
        let options =
            Options::of("file", settings, &["path", "task_type", "task_id", "rpc_layer"])?;
        Ok(Self {
            path: options.needed_text("path")?,
            task_type: options.text("task_type")?,
            task_id: options.number("task_id")?,
            rpc_layer: options.text("rpc_layer")?,
        })
    }

    fn text<'a>(&self, seen: &'a Seen) -> Outcome<&'a str> {
        let missing = || Error::new(Fault::NotPresent, self.path.clone(), "there is no such file");
        Ok(seen.file(&self.path)?.ok_or_else(missing)?)
    }

    fn document(&self, seen: &Seen) -> Outcome<Document> {
        Ok(Document::read(&self.path, self.text(seen)?)?)
    }
}

impl ClusterResolver for StaticFile {
    fn name(&self) -> &'static str {
        "file"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        let document = self.document(seen)?;
        if document.says_something() {
            return Ok(document.spec()?);
        }
        let root = parsed(&self.path, self.text(seen)?)?;
        Ok(ClusterSpec::of_json(&root).map_err(|error| error.within(&self.path))?)
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let own_type = self.task_type(seen)?;
        let own_id = self.task_id(seen)?;
        let job = of.task_type.map(String::from).or(own_type);
        let Some((job, index)) = job.zip(of.task_id.or(own_id)) else {
            return Ok(String::new());
        };
        let layer = of.rpc_layer.map(String::from).or(self.rpc_layer(seen)?);
        Ok(with_layer(self.cluster_spec(seen)?.task_address(&job, index)?, layer.as_deref()))
    }

    fn task_type(&self, seen: &Seen) -> Outcome<Option<String>> {
        match &self.task_type {
            Some(own) => Ok(Some(own.clone())),
            None => Ok(self.document(seen)?.task_type()?),
        }
    }

    fn task_id(&self, seen: &Seen) -> Outcome<Option<u32>> {
        match self.task_id {
            Some(own) => Ok(Some(own)),
            None => Ok(self.document(seen)?.task_id()?),
        }
    }

    fn rpc_layer(&self, seen: &Seen) -> Outcome<Option<String>> {
        match &self.rpc_layer {
            Some(own) => Ok(Some(own.clone())),
            None => {
                let document = self.document(seen)?;
                let is_map_only = !document.says_something();
                Ok(if is_map_only { None } else { document.text("rpc_layer")? })
            }
        }
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
