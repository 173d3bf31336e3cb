//! Accelerators from the names of devices.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::asking::{Outcome, Seen};
use super::resolver::{Accelerators, DeviceCounts};

/// A device's name in its parts; parts that it lacks are `None`.
pub(super) struct DeviceName<'a> {
    pub(super) job: Option<&'a str>,
    pub(super) task: Option<u32>,
    pub(super) kind: Option<&'a str>,
}

impl<'a> DeviceName<'a> {
    /// Reads names such as `/job:worker/replica:0/task:1/device:GPU:0` and `GPU:0`.
    pub(super) fn of(name: &'a str) -> Self {
        let mut parts = Self { job: None, task: None, kind: None };
        for part in name.split('/').filter(|part| !part.is_empty()) {
            match part.split_once(':') {
                Some(("job", job)) => parts.job = Some(job),
                Some(("task", task)) => parts.task = task.parse().ok(),
                Some(("replica", _)) | None => {}
                Some(("device", device)) => parts.kind = device.split(':').next(),
                Some((kind, _)) => {
                    parts.kind = Some(kind.strip_prefix("physical_device:").unwrap_or(kind));
                }
            }
        }
        parts
    }

    pub(super) fn is_of(&self, job: &str, task: u32) -> bool {
        self.job == Some(job) && self.task == Some(task)
    }
}

/// Counts the devices that the runtime lists, CPUs left out; those of one task if both its parts are known.
pub(super) fn listed(
    seen: &Seen,
    task_type: Option<&str>,
    task_id: Option<u32>,
    config: Option<&DeviceCounts>,
) -> Outcome<Accelerators> {
    let mut found: BTreeMap<String, u32> = BTreeMap::new();
    for device in seen.devices()? {
        let device = DeviceName::of(device);
        let wanted = task_type.zip(task_id).is_none_or(|(job, task)| device.is_of(job, task));
        let kind = device.kind.filter(|kind| !kind.is_empty() && !is_cpu(kind));
        if let Some(kind) = kind.filter(|_| wanted) {
            let count = found.entry(kind.to_owned()).or_default();
            *count = count.saturating_add(1);
        }
    }
    for (kind, most) in config.into_iter().flatten() {
        if let Some(count) = found.get_mut(kind) {
            *count = (*count).min(*most);
        }
    }
    found.retain(|_, count| *count > 0);
    Ok(found)
}

fn is_cpu(kind: &str) -> bool {
    ["CPU", "XLA_CPU", "cpu"].contains(&kind)
}

/// How many GPUs this process may use: those that `CUDA_VISIBLE_DEVICES` leaves it, else those that the
/// host has. For sources whose resolver does not tell.
///
/// # Errors
/// UNREACHABLE where they cannot be counted.
pub fn host_accelerators(seen: &Seen) -> Outcome<Accelerators> {
    let count = match visible_gpus(seen) {
        Some(ids) => u32::try_from(ids.len()).unwrap_or(u32::MAX),
        None => seen.gpus()?,
    };
    let found = Accelerators::from([(String::from("GPU"), count)]);
    Ok(found.into_iter().filter(|(_, count)| *count > 0).collect())
}

/// Ids of the GPUs that the process may see, if the variable says.
pub(super) fn visible_gpus(seen: &Seen) -> Option<Vec<&str>> {
    let ids = seen.variable("CUDA_VISIBLE_DEVICES")?.split(',').map(str::trim);
    // As CUDA has it: what follows an id that is none is not visible either.
    Some(ids.take_while(|id| !id.is_empty() && !id.starts_with('-')).collect())
}
