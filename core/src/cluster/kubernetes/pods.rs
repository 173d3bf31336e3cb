//! Jobs whose tasks are the pods that label selectors find.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::super::asking::{Outcome, Seen};
use super::super::error::{Error, Fault};
use super::super::json::Json;
use super::super::options::{Options, address};
use super::super::order::natural;
use super::super::resolver::{ClusterResolver, MasterOf, with_layer};
use super::super::spec::ClusterSpec;
use super::access::Access;
use super::pod::Pod;
use super::watching::Watch;

const PORT: u16 = 8470;

/// Which address of a pod its peers use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodAddress {
    /// The pod's own.
    #[default]
    Pod,
    /// Its host's, which works with host networking only; TensorFlow's choice.
    Host,
}

/// How pods are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodOrder {
    /// By their index in their Job, else by name, numbers in it compared as numbers.
    #[default]
    Index,
    /// By name as a text; TensorFlow's choice.
    Name,
}

/// What becomes of pods that are not up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unready {
    /// There is no spec until all are up.
    #[default]
    Refuse,
    /// They are left out; the others keep their numbers.
    LeaveOut,
}

/// Pods that label selectors find.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    /// The way to the API.
    pub access: Access,
    /// Label selectors of each job, in order.
    pub jobs: Vec<(String, Vec<String>)>,
    /// Where each task listens.
    pub port: u16,
    /// Which address is used.
    pub address: PodAddress,
    /// How pods are numbered.
    pub order: PodOrder,
    /// What becomes of pods that are not up.
    pub unready: Unready,
    /// The layer before addresses.
    pub rpc_layer: Option<String>,
    /// The process's job.
    pub task_type: Option<String>,
    /// Its index.
    pub task_id: Option<u32>,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            access: Access::default(),
            jobs: alloc::vec![("worker".into(), alloc::vec!["job-name=tensorflow".into()])],
            port: PORT,
            address: PodAddress::default(),
            order: PodOrder::default(),
            unready: Unready::default(),
            rpc_layer: Some("grpc".into()),
            task_type: None,
            task_id: None,
        }
    }
}

impl Kubernetes {
    pub(in super::super) fn of(settings: &Json) -> Result<Self, Error> {
        let known = [
            "job_to_label_mapping",
            "tf_server_port",
            "rpc_layer",
            "api_server",
            "namespace",
            "address",
            "order",
            "unready",
            "executable_location",
        ];
        let options = Options::of("kubernetes", settings, &known)?;
        check_location(&options)?;
        let default = Self::default();
        let jobs = match options.get("job_to_label_mapping") {
            None => default.jobs.clone(),
            Some(Json::Map(jobs)) if jobs.is_empty() => default.jobs.clone(),
            Some(value) => selectors(value)?,
        };
        let addresses = [("pod", PodAddress::Pod), ("host", PodAddress::Host)];
        let orders = [("index", PodOrder::Index), ("name", PodOrder::Name)];
        let unready = [("refuse", Unready::Refuse), ("leave_out", Unready::LeaveOut)];
        Ok(Self {
            access: Access::of(&options)?,
            jobs,
            port: options.port_or("tf_server_port", PORT)?,
            address: options.choice("address", &addresses)?.unwrap_or_default(),
            order: options.choice("order", &orders)?.unwrap_or_default(),
            unready: options.choice("unready", &unready)?.unwrap_or_default(),
            rpc_layer: options.text_or("rpc_layer", "grpc")?,
            ..default
        })
    }

    fn found(&self, seen: &Seen, selector: &str) -> Outcome<Vec<Pod>> {
        let path = self.access.path(seen, "/api/v1", "pods")?;
        let items = self.access.list(seen, &path, &[("labelSelector", selector)])?;
        let pods = items.into_iter().map(Pod::of).collect::<Result<Vec<_>, _>>();
        let mut pods = pods.map_err(|error| self.access.blame(seen, &path, error))?;
        if self.order == PodOrder::Name {
            pods.sort_by(|left, right| left.name.cmp(&right.name));
        }
        Ok(pods)
    }

    /// The pods of a job, one for each place.
    fn of_job(&self, seen: &Seen, job: &str, selectors: &[String]) -> Outcome<Vec<Pod>> {
        let mut pods = Vec::new();
        for selector in selectors {
            pods.extend(self.found(seen, selector)?);
        }
        if self.order == PodOrder::Name {
            return Ok(pods);
        }
        let mut known = BTreeSet::new();
        if let Some(twice) = pods.iter().find(|pod| !known.insert(&pod.id)) {
            let text = format!("the pod {:?} is matched by two selectors", twice.name);
            return Err(Error::new(Fault::Conflict, job, text).into());
        }
        let mut pods = one_a_place(pods);
        pods.sort_by(by_index);
        Ok(pods)
    }

    fn add_job(
        &self,
        seen: &Seen,
        spec: &mut ClusterSpec,
        job: &str,
        selectors: &[String],
    ) -> Outcome<()> {
        spec.add_job(job)?;
        let pods = self.of_job(seen, job, selectors)?;
        let indices: BTreeSet<u32> = pods.iter().filter_map(|pod| pod.index).collect();
        let is_indexed = self.order == PodOrder::Index && indices.len() == pods.len();
        for (place, pod) in (0_u32..).zip(&pods) {
            let index = pod.index.filter(|_| is_indexed).unwrap_or(place);
            match self.address_of(job, index, pod) {
                Ok(address) => spec.add_task(job, index, address)?,
                Err(error) if self.unready == Unready::LeaveOut => drop(error),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn address_of(&self, job: &str, index: u32, pod: &Pod) -> Result<String, Error> {
        let unready = |why: &str| {
            let about = format!("{job}:{index}");
            Error::new(
                Fault::NotReady,
                about,
                format!("the pod {:?} is not ready: {why}", pod.name),
            )
        };
        if let Some(why) = pod.unready() {
            return Err(unready(&why));
        }
        if pod.is_leaving && self.order == PodOrder::Index {
            return Err(unready("it is being deleted, and the pod in its place is not there yet"));
        }
        let (ip, field) = match self.address {
            PodAddress::Pod => (&pod.pod_ip, "status.podIP"),
            PodAddress::Host => (&pod.host_ip, "status.hostIP"),
        };
        let ip = ip.as_deref().ok_or_else(|| unready(&format!("it has no {field} yet")))?;
        Ok(address(ip, self.port))
    }
}

/// TensorFlow's word for where the process runs: 0 in a pod, 1 elsewhere, where an API server must be given.
fn check_location(options: &Options<'_>) -> Result<(), Error> {
    let about = "kubernetes.executable_location";
    match options.number("executable_location")? {
        None | Some(0) => Ok(()),
        Some(1) if options.get("api_server").is_some() => Ok(()),
        Some(1) => {
            Err(Error::missing("kubernetes.api_server", "outside of a cluster it must be given"))
        }
        Some(other) => {
            let wanted = "is neither 0 (within a cluster) nor 1 (outside)";
            Err(Error::malformed(about, &other.to_string(), wanted))
        }
    }
}

/// Leaves out pods whose place another one has, and those that leave without having had one. A pod that is
/// replaced keeps its place until the new one is listed.
fn one_a_place(pods: Vec<Pod>) -> Vec<Pod> {
    let mut places: BTreeMap<_, Vec<Pod>> = BTreeMap::new();
    let mut kept = Vec::new();
    for pod in pods {
        match pod.index {
            Some(index) => {
                let place = (pod.owner.clone(), pod.role.clone(), index);
                places.entry(place).or_default().push(pod);
            }
            None if pod.is_leaving => {}
            None => kept.push(pod),
        }
    }
    for (_, mut pods) in places {
        let stays = |pod: &Pod| !pod.is_over() && !pod.is_leaving;
        if pods.iter().any(stays) {
            kept.extend(pods.into_iter().filter(stays));
        } else {
            pods.sort_by(|left, right| {
                left.standing().cmp(&right.standing()).then_with(|| left.name.cmp(&right.name))
            });
            kept.extend(pods.into_iter().next());
        }
    }
    kept
}

fn by_index(left: &Pod, right: &Pod) -> Ordering {
    let key = |pod: &Pod| pod.index.map_or((true, 0), |index| (false, index));
    key(left).cmp(&key(right)).then_with(|| natural(&left.name, &right.name))
}

fn selectors(value: &Json) -> Result<Vec<(String, Vec<String>)>, Error> {
    let wrong = || {
        let wanted =
            format!("is {}: a map from jobs to lists of label selectors is wanted", value.kind());
        Error::malformed("kubernetes.job_to_label_mapping", &value.to_string(), &wanted)
    };
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut last: BTreeMap<&str, &Json> = BTreeMap::new();
    last.extend(value.as_map().ok_or_else(wrong)?.iter().map(|(job, list)| (job.as_str(), list)));
    for (job, _) in value.as_map().unwrap_or_default() {
        let Some(list) = last.remove(job.as_str()) else { continue };
        let texts = list.as_list().ok_or_else(wrong)?.iter();
        let texts = texts.map(|text| text.as_text().map(String::from)).collect::<Option<_>>();
        found.push((job.clone(), texts.ok_or_else(wrong)?));
    }
    Ok(found)
}

impl ClusterResolver for Kubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        let mut spec = ClusterSpec::new();
        for (job, selectors) in &self.jobs {
            self.add_job(seen, &mut spec, job, selectors)?;
        }
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

    fn task_type(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.task_type.clone())
    }

    fn task_id(&self, _: &Seen) -> Outcome<Option<u32>> {
        Ok(self.task_id)
    }

    fn rpc_layer(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.rpc_layer.clone())
    }

    fn watches(&self, seen: &Seen) -> Outcome<Vec<Watch>> {
        let path = self.access.path(seen, "/api/v1", "pods")?;
        let selectors = self.jobs.iter().flat_map(|(_, selectors)| selectors);
        let watches = selectors.map(|selector| self.access.watch(seen, &path, selector));
        // Where one cannot be watched the others would tell of some changes only.
        let watches: Option<Vec<Watch>> = watches.collect::<Outcome<_>>()?;
        Ok(watches.unwrap_or_default())
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
