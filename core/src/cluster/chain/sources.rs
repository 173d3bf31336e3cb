//! The sources, in the order in which they are looked at.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::asking::{Outcome, Seen, Stop};
use super::super::describing::described;
use super::super::error::{Error, Fault};
use super::super::gce::Gce;
use super::super::json::Json;
use super::super::kubernetes::{self, KubernetesJob};
use super::super::sage_maker::{SM_CURRENT_HOST, SM_HOSTS, SageMaker};
use super::super::slurm::Slurm;
use super::super::tf_config::{Document, TF_CONFIG, TfConfig};
use super::super::tpu::Tpu;
use super::super::{job_variables, metadata, open_mpi, slurm, torch, tpu};
use super::{Chain, Finding};

/// A source of the process's cluster.
pub(super) struct Source {
    pub(super) name: &'static str,
    /// Whether asking it costs requests over a network.
    pub(super) costs: bool,
    /// What is missing for it to be there, as far as the environment tells.
    pub(super) missing: fn(&Chain, &Seen) -> Option<Error>,
    pub(super) find: fn(&Chain, &Seen) -> Outcome<Finding>,
    /// How the names of variables begin that its launcher sets.
    traces: &'static [&'static str],
}

pub(super) const SOURCES: &[Source] = &[
    source("explicit", false, no_explicit, explicit),
    source("tf_config", false, no_tf_config, tf_config),
    source("torch", false, no_torch, torch_worker).traced_by(&["MASTER_ADDR", "WORLD_SIZE"]),
    source("torch_node", false, no_torch_node, torch_node).traced_by(&["PET_"]),
    source("openmpi", false, no_open_mpi, open_mpi_process).traced_by(&["OMPI_"]),
    source("slurm", false, no_slurm, slurm_step).traced_by(&["SLURM_JOB"]),
    source("pmix", false, no_pmix, pmix).traced_by(&["PMIX_"]),
    source("sagemaker", false, no_sage_maker, sage_maker)
        .traced_by(&["SM_HOSTS", "SM_CURRENT_HOST"]),
    source("jaxjob", false, no_jax_job, jax_job).traced_by(&[
        "COORDINATOR_ADDRESS",
        "NUM_PROCESSES",
        "PROCESS_ID",
    ]),
    source("kubernetes_job", true, no_job, job).traced_by(&["KUBERNETES_SERVICE_HOST"]),
    source("tpu", true, no_tpu, tpu_node).traced_by(&["TPU_"]),
    source("tpu_gke", true, no_gke, tpu_gke),
    source("tpu_gce", true, never, tpu_gce),
    source("gce", true, never, gce_group),
];

const fn source(
    name: &'static str,
    costs: bool,
    missing: fn(&Chain, &Seen) -> Option<Error>,
    find: fn(&Chain, &Seen) -> Outcome<Finding>,
) -> Source {
    Source { name, costs, missing, find, traces: &[] }
}

impl Source {
    const fn traced_by(self, traces: &'static [&'static str]) -> Self {
        Self { traces, ..self }
    }

    /// Whether something of it is in the environment, though it may not be all that is needed.
    pub(super) fn left_traces(&self, seen: &Seen) -> bool {
        let is_trace = |name: &String| self.traces.iter().any(|start| name.starts_with(start));
        seen.environment().keys().any(is_trace)
    }
}

fn never(_: &Chain, _: &Seen) -> Option<Error> {
    None
}

fn absent(about: &str, text: &str) -> Error {
    Error::new(Fault::NotPresent, about, text)
}

/// The first of these variables that is unset or empty.
fn unset(seen: &Seen, names: &[&str], wanted: &str) -> Option<Error> {
    let missing = names.iter().find(|name| seen.filled(name).is_none())?;
    Some(Error::missing(missing, wanted))
}

fn settings(members: &[(&str, Json)]) -> Json {
    Json::Map(members.iter().map(|(name, value)| ((*name).to_string(), value.clone())).collect())
}

fn no_explicit(chain: &Chain, _: &Seen) -> Option<Error> {
    chain.explicit.is_none().then(|| absent("explicit", "no resolver was given"))
}

fn explicit(chain: &Chain, seen: &Seen) -> Outcome<Finding> {
    let settings = chain.explicit.clone().unwrap_or(Json::Null);
    let found = match described(&settings) {
        Ok(mut resolver) => Finding::of_resolver(seen, resolver.as_mut(), settings),
        Err(error) => Err(error.into()),
    };
    // What was given and is not there is an error, not a reason to look elsewhere.
    found.map_err(|stop| match stop {
        Stop::Fail(error) if error.fault == Fault::NotPresent => {
            Error { fault: Fault::Malformed, ..error }.into()
        }
        other => other,
    })
}

fn no_tf_config(_: &Chain, seen: &Seen) -> Option<Error> {
    match seen.variable(TF_CONFIG) {
        None => Some(Error::missing(TF_CONFIG, "it would hold a cluster and a task")),
        Some(text) if text.trim().is_empty() => {
            Some(absent(TF_CONFIG, "is set but empty, which counts as unset"))
        }
        Some(_) => None,
    }
}

fn tf_config(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    let document = Document::seen(seen)?;
    if !document.says_something() {
        return Err(absent(TF_CONFIG, "has neither \"cluster\" nor \"task\"").into());
    }
    let settings = settings(&[("resolver", Json::text("tf_config"))]);
    let mut finding = Finding::of_resolver(seen, &mut TfConfig::default(), settings)?;
    let repeated = document.repeated();
    finding.notes.extend(
        repeated
            .iter()
            .map(|name| alloc::format!("{TF_CONFIG} has {name:?} twice: the last one counts")),
    );
    Ok(finding)
}

fn no_torch(_: &Chain, seen: &Seen) -> Option<Error> {
    let wanted = "torchrun and Kubeflow set it in each process";
    let missing = unset(seen, &["RANK", "WORLD_SIZE", "MASTER_ADDR"], wanted);
    missing.filter(|_| !torch::is_worker(seen))
}

fn torch_worker(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    Ok(Finding::of_process(torch::worker_process(seen)?))
}

fn no_torch_node(_: &Chain, seen: &Seen) -> Option<Error> {
    let wanted = "Kubeflow sets PET_ variables where torchrun is to be started";
    (!torch::is_node(seen))
        .then(|| unset(seen, &["PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR"], wanted))?
}

fn torch_node(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    Ok(Finding::of_process(torch::node_process(seen)?))
}

fn no_open_mpi(_: &Chain, seen: &Seen) -> Option<Error> {
    (!open_mpi::is_there(seen))
        .then(|| Error::missing(open_mpi::RANK, "mpirun sets it in each process"))
}

fn open_mpi_process(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    let mut finding = Finding::of_process(open_mpi::process(seen)?);
    if finding.process.coordinator.is_none() {
        let text =
            alloc::format!("{} is not set, so where rank 0 is cannot be told", open_mpi::URI);
        finding.notes.push(text);
    }
    if let Some(host) = open_mpi::host(seen) {
        finding.notes.push(alloc::format!("this process is on {host:?}"));
    }
    Ok(finding)
}

fn no_slurm(_: &Chain, seen: &Seen) -> Option<Error> {
    let allocation = ["SLURM_JOB_ID", "SLURM_JOB_NODELIST"];
    let is_allocation = allocation.iter().any(|name| seen.filled(name).is_some());
    if seen.variable(open_mpi::RANK).is_some() && (slurm::is_step(seen) || is_allocation) {
        let text = "mpirun started this process: Slurm's variables are those of mpirun or its daemon, \
                    of which several ranks share one";
        return Some(absent("SLURM_PROCID", text));
    }
    if !slurm::is_step(seen) && is_allocation {
        let text =
            "this is in an allocation of Slurm's, but not in a step: start the program with srun";
        return Some(absent("SLURM_STEP_NODELIST", text));
    }
    unset(seen, &["SLURM_PROCID", "SLURM_STEP_NODELIST"], "srun sets it in each task of a step")
}

fn slurm_step(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    let process = slurm::process(seen);
    let settings = settings(&[("resolver", Json::text("slurm"))]);
    let mut finding = match Finding::of_resolver(seen, &mut Slurm::default(), settings) {
        Ok(finding) => Finding { process: process?, ..finding },
        Err(Stop::Fail(error)) if is_partial(&error) => {
            let notes = Vec::from([alloc::format!("no cluster spec: {error}")]);
            // Ranks are known even where hosts are not, and sometimes the first one is.
            let process = process.or_else(|_| slurm::process_without_hosts(seen))?;
            Finding { notes, ..Finding::of_process(process) }
        }
        Err(other) => return Err(other),
    };
    finding.notes.extend(slurm::odd_size(seen));
    Ok(finding)
}

fn is_partial(error: &Error) -> bool {
    error.fault == Fault::PlacementUnknown || error.fault == Fault::NotPresent
}

fn no_pmix(_: &Chain, seen: &Seen) -> Option<Error> {
    (!open_mpi::is_pmix(seen))
        .then(|| Error::missing("PMIX_RANK", "a PMIx server sets it in each process"))
}

fn pmix(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    Ok(Finding::of_process(open_mpi::pmix_process(seen)?))
}

fn no_sage_maker(_: &Chain, seen: &Seen) -> Option<Error> {
    unset(seen, &[SM_HOSTS, SM_CURRENT_HOST], "SageMaker sets it in each container of a job")
}

fn sage_maker(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    let settings = settings(&[("resolver", Json::text("sagemaker"))]);
    Finding::of_resolver(seen, &mut SageMaker::default(), settings)
}

fn no_jax_job(_: &Chain, seen: &Seen) -> Option<Error> {
    (!job_variables::is_there(seen)).then(|| {
        Error::missing("COORDINATOR_ADDRESS", "a JAXJob sets it, NUM_PROCESSES and PROCESS_ID")
    })
}

fn jax_job(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    Ok(Finding::of_process(job_variables::process(seen)?))
}

fn no_job(_: &Chain, seen: &Seen) -> Option<Error> {
    let names = ["KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"];
    let missing = unset(seen, &names, "Kubernetes sets it in pods, and in those of indexed Jobs");
    missing.filter(|_| !kubernetes::is_job(seen))
}

fn job(chain: &Chain, seen: &Seen) -> Outcome<Finding> {
    let mut resolver = KubernetesJob {
        access: chain.access.clone(),
        port: chain.port,
        ..KubernetesJob::default()
    };
    let mut members = Vec::from([
        ("resolver", Json::text("kubernetes_job")),
        ("port", Json::number(u32::from(chain.port))),
    ]);
    let given = [("api_server", &chain.access.api_server), ("namespace", &chain.access.namespace)];
    for (name, value) in given {
        members.extend(value.as_ref().map(|value| (name, Json::text(value))));
    }
    let found = Finding::of_resolver(seen, &mut resolver, settings(&members)).and_then(|finding| {
        Ok(Finding { process: kubernetes::process(seen, &chain.access)?, ..finding })
    });
    // The pod is of an indexed Job: what the API does not have is a failure, no reason to look elsewhere.
    found.map_err(|stop| match stop {
        Stop::Fail(error) if error.fault == Fault::NotPresent => {
            Error { fault: Fault::NotReady, ..error }.into()
        }
        other => other,
    })
}

fn no_tpu(_: &Chain, seen: &Seen) -> Option<Error> {
    let names = ["KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_NAME", "TPU_CONFIG"];
    let is_named = names.iter().any(|name| seen.filled(name).is_some());
    (!is_named).then(|| Error::missing("TPU_NAME", "it, or TPU_CONFIG, would name a TPU"))
}

fn tpu_node(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    if tpu::is_local(seen)? {
        return Err(absent("TPU_NAME", "names the machine's own TPU, and so no cluster").into());
    }
    let settings = settings(&[("resolver", Json::text("tpu"))]);
    let mut finding = Finding::of_resolver(seen, &mut Tpu::default(), settings)?;
    // Its task is the first worker, whoever asks.
    finding.task_type = None;
    finding.task_id = None;
    Ok(finding)
}

fn no_gke(_: &Chain, seen: &Seen) -> Option<Error> {
    let names = ["TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES"];
    let is_listed = names.iter().any(|name| seen.filled(name).is_some());
    (!is_listed)
        .then(|| Error::missing("TPU_WORKER_HOSTNAMES", "Kubernetes Engine sets it with TPUs"))
}

fn tpu_gke(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    match tpu::is_gke(seen)? {
        true => Ok(Finding::of_process(tpu::gke_process(seen)?)),
        false => Err(absent("TPU", "this is no TPU machine").into()),
    }
}

fn tpu_gce(_: &Chain, seen: &Seen) -> Outcome<Finding> {
    match tpu::is_gce(seen)? {
        true => Ok(Finding::of_process(tpu::gce_process(seen)?)),
        false => Err(absent("TPU", "this is no TPU machine of Compute Engine").into()),
    }
}

/// Where firmware says what machine this is.
const PRODUCT: &str = "/sys/class/dmi/id/product_name";
/// The attribute that names the group manager which made an instance.
const CREATED_BY: &str = "created-by";

fn gce_group(chain: &Chain, seen: &Seen) -> Outcome<Finding> {
    if kubernetes::is_there(seen) {
        let text = "this is a pod: the group that its machine is of is a pool of Kubernetes' nodes";
        return Err(absent(CREATED_BY, text).into());
    }
    let product = seen.file(PRODUCT)?.unwrap_or_default().trim();
    if !product.contains("Google") {
        return Err(absent(PRODUCT, "this is no machine of Compute Engine").into());
    }
    let maker = metadata::attribute(seen, CREATED_BY)?.unwrap_or_default();
    let Some((place, group)) = maker.rsplit_once("/instanceGroupManagers/") else {
        return Err(absent(CREATED_BY, "the machine is of no managed instance group").into());
    };
    let mut members = Vec::from([
        ("resolver", Json::text("gce")),
        ("instance_group", Json::text(group)),
        ("port", Json::number(u32::from(chain.port))),
    ]);
    // A regional group has instances in several zones.
    let region = place.rsplit_once("/regions/").map(|(_, region)| region);
    members.extend(region.map(|region| ("region", Json::text(region))));
    let settings = settings(&members);
    let mut finding = Finding::of_resolver(seen, &mut Gce::of(&settings)?, settings)?;
    let own = metadata::needed(seen, "instance/network-interfaces/0/ip")?;
    let own = super::super::options::address(&own, chain.port);
    let place = finding.spec.as_ref().and_then(|spec| {
        spec.iter().find(|(_, _, address)| *address == own).map(|(_, index, _)| index)
    });
    finding.task_id = place;
    finding.task_type = finding.task_type.filter(|_| place.is_some());
    finding.master = place.and(finding.master.clone());
    Ok(finding)
}
