//! Several resolvers as one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::asking::{Outcome, Seen};
use super::error::{Error, Fault};
use super::json::Json;
use super::kubernetes::Watch;
use super::merge::merge;
use super::options::Options;
use super::resolver::{
    Accelerators, AnyResolver, ClusterResolver, DeviceCounts, MasterOf, with_layer,
};
use super::spec::ClusterSpec;

/// Members of a union, and unions within unions.
const MEMBERS_MAX: usize = 64;

/// The clusters of its members put together ([`merge`]); whatever else is asked, the first member answers,
/// unless it is given here.
#[derive(Debug)]
pub struct Union {
    first: AnyResolver,
    others: Vec<AnyResolver>,
    /// The process's job, instead of the first member's.
    pub task_type: Option<String>,
    /// Its index, instead of the first member's.
    pub task_id: Option<u32>,
    /// The layer before addresses, instead of the first member's.
    pub rpc_layer: Option<String>,
}

impl Union {
    /// A union of at least one member.
    pub const fn new(first: AnyResolver, others: Vec<AnyResolver>) -> Self {
        Self { first, others, task_type: None, task_id: None, rpc_layer: None }
    }

    pub(super) fn of(
        settings: &Json,
        build: impl Fn(&Json) -> Result<AnyResolver, Error>,
    ) -> Result<Self, Error> {
        let options =
            Options::of("union", settings, &["members", "task_type", "task_id", "rpc_layer"])?;
        let members = options.get("members").and_then(Json::as_list).unwrap_or_default();
        if members.len() > MEMBERS_MAX {
            let text = format!("{} members, of at most {MEMBERS_MAX}", members.len());
            return Err(Error::new(Fault::TooLarge, "union.members", text));
        }
        let mut built = members.iter().map(build);
        let none = || Error::missing("union.members", "a list of one resolver or more");
        let mut union =
            Self::new(built.next().ok_or_else(none)??, built.collect::<Result<_, _>>()?);
        union.task_type = options.text("task_type")?;
        union.task_id = options.number("task_id")?;
        union.rpc_layer = options.text("rpc_layer")?;
        Ok(union)
    }
}

impl ClusterResolver for Union {
    fn name(&self) -> &'static str {
        "union"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        let mut specs = Vec::new();
        specs.push(self.first.cluster_spec(seen)?);
        for member in &mut self.others {
            specs.push(member.cluster_spec(seen)?);
        }
        Ok(merge(&specs)?)
    }

    fn watches(&self, seen: &Seen) -> Outcome<Vec<Watch>> {
        let mut all = Vec::new();
        for member in core::iter::once(&self.first).chain(&self.others) {
            let watches = member.watches(seen)?;
            // What one member does not tell of is only seen by looking again.
            if watches.is_empty() {
                return Ok(watches);
            }
            all.extend(watches);
        }
        Ok(all)
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let Some((job, index)) = of.task() else {
            let of = MasterOf { rpc_layer: of.rpc_layer, ..MasterOf::default() };
            return self.first.master(seen, &of);
        };
        let spec = self.cluster_spec(seen)?;
        let layer = of.rpc_layer.or(self.rpc_layer.as_deref());
        Ok(with_layer(spec.task_address(job, index)?, layer))
    }

    fn num_accelerators(
        &mut self,
        seen: &Seen,
        task_type: Option<&str>,
        task_id: Option<u32>,
        config: Option<&DeviceCounts>,
    ) -> Outcome<Accelerators> {
        self.first.num_accelerators(seen, task_type, task_id, config)
    }

    fn task_type(&self, seen: &Seen) -> Outcome<Option<String>> {
        match &self.task_type {
            Some(own) => Ok(Some(own.clone())),
            None => self.first.task_type(seen),
        }
    }

    fn task_id(&self, seen: &Seen) -> Outcome<Option<u32>> {
        match self.task_id {
            Some(own) => Ok(Some(own)),
            None => self.first.task_id(seen),
        }
    }

    fn rpc_layer(&self, seen: &Seen) -> Outcome<Option<String>> {
        match &self.rpc_layer {
            Some(own) => Ok(Some(own.clone())),
            None => self.first.rpc_layer(seen),
        }
    }

    fn environment(&self, seen: &Seen) -> Outcome<Option<String>> {
        self.first.environment(seen)
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
