//! The interface of all resolvers.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use super::asking::{Outcome, Seen};
use super::error::{Error, Fault};
use super::kubernetes::Watch;
use super::process::LocalDevices;
use super::spec::ClusterSpec;

/// Accelerators by type, such as `GPU`.
pub type Accelerators = BTreeMap<String, u32>;

/// What a session is configured with that bears on its devices: `ConfigProto.device_count`, the most of
/// each type that it may use.
pub type DeviceCounts = BTreeMap<String, u32>;

/// Says what a cluster is made of, and who asks. Nothing is kept between calls: each looks at what was
/// [`Seen`] for it and asks for what is missing.
///
/// Semantics: `tf.distribute.cluster_resolver.ClusterResolver`.
pub trait ClusterResolver: core::fmt::Debug {
    /// The resolver's name, as in `rondo cluster`.
    fn name(&self) -> &'static str;

    /// The cluster as it is now.
    ///
    /// # Errors
    /// What is missing or makes no sense.
    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec>;

    /// The address of the session's master: of the task given, else of the resolver's own.
    ///
    /// # Errors
    /// As [`Self::cluster_spec`]; NO_SUCH_TASK.
    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String>;

    /// How many accelerators a task has, by type. Without a task: the resolver's own, or all.
    ///
    /// # Errors
    /// UNREACHABLE where nobody can tell.
    fn num_accelerators(
        &mut self,
        seen: &Seen,
        task_type: Option<&str>,
        task_id: Option<u32>,
        config: Option<&DeviceCounts>,
    ) -> Outcome<Accelerators> {
        super::accelerators::listed(seen, task_type, task_id, config)
    }

    /// The job of the process that asks, if known.
    ///
    /// # Errors
    /// As [`Self::cluster_spec`].
    fn task_type(&self, seen: &Seen) -> Outcome<Option<String>>;

    /// Its index in the job.
    ///
    /// # Errors
    /// As [`Self::cluster_spec`].
    fn task_id(&self, seen: &Seen) -> Outcome<Option<u32>>;

    /// What stands before addresses as `LAYER://`.
    ///
    /// # Errors
    /// As [`Self::cluster_spec`].
    fn rpc_layer(&self, seen: &Seen) -> Outcome<Option<String>>;

    /// The environment that the process runs in, such as `cloud`; usually the empty text.
    ///
    /// # Errors
    /// As [`Self::cluster_spec`].
    fn environment(&self, seen: &Seen) -> Outcome<Option<String>> {
        let _ = seen;
        Ok(Some(String::new()))
    }

    /// Watches that tell of each change of the cluster from this look on; none where only looking again does.
    ///
    /// # Errors
    /// As [`Self::cluster_spec`], less what is wrong with single tasks.
    fn watches(&self, seen: &Seen) -> Outcome<alloc::vec::Vec<Watch>> {
        let _ = seen;
        Ok(alloc::vec::Vec::new())
    }

    /// Sets the job of the process that asks.
    ///
    /// # Errors
    /// UNSUPPORTED where it is given by the resolver.
    fn set_task_type(&mut self, task_type: &str) -> Result<(), Error> {
        Err(fixed(self.name(), "task_type", task_type))
    }

    /// Sets its index.
    ///
    /// # Errors
    /// UNSUPPORTED where it is given by the resolver.
    fn set_task_id(&mut self, task_id: u32) -> Result<(), Error> {
        Err(fixed(self.name(), "task_id", &format!("{task_id}")))
    }

    /// The GPUs that are this task's own, as `CUDA_VISIBLE_DEVICES` names them; `None` where the resolver
    /// gives none out. Nobody's environment is changed.
    ///
    /// # Errors
    /// As [`Self::cluster_spec`].
    fn own_gpus(&self, seen: &Seen) -> Outcome<Option<alloc::vec::Vec<String>>> {
        let _ = seen;
        Ok(None)
    }

    /// Which of the devices that the process sees it is to use, where the resolver knows more than its
    /// local rank tells.
    fn local_devices(&self, seen: &Seen) -> LocalDevices {
        let _ = seen;
        LocalDevices::OfLocalRank
    }
}

/// A resolver of any kind.
pub type AnyResolver = Box<dyn ClusterResolver + Send>;

/// Whose master is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MasterOf<'a> {
    /// The task's job.
    pub task_type: Option<&'a str>,
    /// Its index.
    pub task_id: Option<u32>,
    /// The layer, instead of the resolver's.
    pub rpc_layer: Option<&'a str>,
}

impl<'a> MasterOf<'a> {
    /// The task, if both its parts are given.
    pub fn task(&self) -> Option<(&'a str, u32)> {
        self.task_type.zip(self.task_id)
    }
}

/// An address with its layer: `LAYER://ADDRESS`, or the address alone.
pub fn with_layer(address: &str, rpc_layer: Option<&str>) -> String {
    match rpc_layer.filter(|layer| !layer.is_empty()) {
        Some(layer) => format!("{layer}://{address}"),
        None => address.to_owned(),
    }
}

fn fixed(resolver: &str, field: &str, value: &str) -> Error {
    let text = format!("cannot be set to {value:?}: the {resolver} resolver gives it");
    Error::new(Fault::Unsupported, field, text)
}
