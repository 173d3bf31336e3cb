//! What `jax.distributed.initialize` finds out, in its order.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::asking::{Outcome, Seen};
use super::error::Error;
use super::kubernetes::{self, Access};
use super::options::whole;
use super::process::Process;
use super::{open_mpi, slurm, tpu};

const ADDRESS: &str = "JAX_COORDINATOR_ADDRESS";
const LOCAL_IDS: &str = "JAX_LOCAL_DEVICE_IDS";
/// The method that switches detection off.
const OFF: &str = "deactivate";
/// Local devices that one process lists at most.
const LOCAL_IDS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detector {
    Ompi,
    Slurm,
    Mpi4py,
    GceTpu,
    GkeTpu,
    Kubernetes,
}

/// In the order in which they are tried; mpi4py is on request only.
const DETECTORS: [(&str, Detector); 6] = [
    ("ompi", Detector::Ompi),
    ("slurm", Detector::Slurm),
    ("mpi4py", Detector::Mpi4py),
    ("gcetpu", Detector::GceTpu),
    ("gketpu", Detector::GkeTpu),
    ("K8sCluster", Detector::Kubernetes),
];

impl Detector {
    fn is_there(self, seen: &Seen) -> Outcome<bool> {
        Ok(match self {
            Self::Ompi => seen.variable(open_mpi::URI).is_some(),
            Self::Slurm => slurm::is_step(seen),
            Self::Mpi4py => false,
            Self::GceTpu => tpu::is_gce(seen)?,
            Self::GkeTpu => tpu::is_gke(seen)?,
            Self::Kubernetes => kubernetes::is_there(seen),
        })
    }

    fn process(self, seen: &Seen, access: &Access) -> Outcome<Process> {
        match self {
            Self::Ompi => Ok(open_mpi::process(seen)?),
            Self::Slurm => Ok(slurm::process(seen)?),
            Self::Mpi4py => open_mpi::mpi_process(seen),
            Self::GceTpu => tpu::gce_process(seen),
            Self::GkeTpu => tpu::gke_process(seen),
            Self::Kubernetes => kubernetes::process(seen, access),
        }
    }
}

/// What was given, which always wins over what is found.
#[derive(Clone, Debug, Default)]
pub struct Jax {
    /// The coordinator's address.
    pub coordinator_address: Option<String>,
    /// Processes.
    pub num_processes: Option<u32>,
    /// The process's rank.
    pub process_id: Option<u32>,
    /// The local devices that the process uses.
    pub local_device_ids: Option<Vec<u32>>,
    /// The detector to use; unset: the first that is there; `deactivate`: none.
    pub method: Option<String>,
    /// The way to Kubernetes.
    pub access: Access,
}

/// What `jax.distributed.initialize` would go by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JaxProcess {
    /// The coordinator's address.
    pub coordinator: Option<String>,
    /// Processes.
    pub size: Option<u32>,
    /// The process's rank.
    pub rank: Option<u32>,
    /// The local devices that it uses; `None`: all.
    pub local_device_ids: Option<Vec<u32>>,
}

impl Jax {
    /// The detector that would be used.
    ///
    /// # Errors
    /// MALFORMED for an unknown method; UNREACHABLE.
    pub fn chosen(&self, seen: &Seen) -> Outcome<Option<&'static str>> {
        Ok(self.detector(seen)?.map(|(name, _)| name))
    }

    fn detector(&self, seen: &Seen) -> Outcome<Option<(&'static str, Detector)>> {
        match self.method.as_deref() {
            Some(OFF) => Ok(None),
            Some(method) => {
                let found = DETECTORS.iter().find(|(name, _)| *name == method).copied();
                Ok(Some(found.ok_or_else(|| {
                    let names: Vec<&str> = DETECTORS.iter().map(|(name, _)| *name).collect();
                    let wanted =
                        alloc::format!("is no method: there are {} and {OFF}", names.join(", "));
                    Error::malformed("cluster_detection_method", method, &wanted)
                })?))
            }
            None => {
                for (name, detector) in DETECTORS {
                    if detector.is_there(seen)? {
                        return Ok(Some((name, detector)));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Finds out what was not given.
    ///
    /// # Errors
    /// As the detector that is there; MALFORMED for an unknown method.
    pub fn process(&self, seen: &Seen) -> Outcome<JaxProcess> {
        let found = match self.detector(seen)? {
            Some((_, detector)) => detector.process(seen, &self.access)?,
            None => Process::default(),
        };
        let address = self.coordinator_address.clone();
        let address = address.or_else(|| seen.filled(ADDRESS).map(ToString::to_string));
        let local =
            self.local_device_ids.clone().map_or_else(|| local_ids(seen), |ids| Ok(Some(ids)));
        let local = match (local?, found.local_rank) {
            (None, Some(rank)) => one_device(seen, rank)?,
            (given, _) => given,
        };
        Ok(JaxProcess {
            coordinator: address.or(found.coordinator),
            size: self.num_processes.or(found.size),
            rank: self.process_id.or(found.rank),
            local_device_ids: local,
        })
    }
}

/// One device for each process of a host; but a process on a TPU machine uses all that it sees.
fn one_device(seen: &Seen, local_rank: u32) -> Outcome<Option<Vec<u32>>> {
    Ok((!seen.is_tpu_machine()?).then(|| Vec::from([local_rank])))
}

fn local_ids(seen: &Seen) -> Result<Option<Vec<u32>>, Error> {
    let Some(text) = seen.filled(LOCAL_IDS) else { return Ok(None) };
    let ids = text.split(',').take(LOCAL_IDS_MAX).map(|id| whole(LOCAL_IDS, id.trim()));
    ids.collect::<Result<_, _>>().map(Some)
}
