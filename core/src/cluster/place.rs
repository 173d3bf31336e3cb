//! What a process of Rondo's takes from what was found: where the server is, the process's own number, and
//! how many there are.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::chain::{COORDINATING, Finding};
use super::error::{Error, Fault, listed, quoted};
use super::options::{address, split_address};
use super::spec::ClusterSpec;

/// Where Rondo's server listens if nobody says where.
pub const SERVER_PORT: u16 = 5050;

/// Jobs of a cluster spec whose first task is Rondo's server, in the order in which they are looked for.
pub const SERVER_JOBS: [&str; 2] = ["rondo", "dispatcher"];

/// The job of Rondo's workers, in a spec that has the server's.
pub const WORKER_JOB: &str = "worker";

/// A process's place, for Rondo's own commands. What a source does not tell is refused by name only when it
/// is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    finding: Finding,
    port: u16,
}

impl Place {
    /// The place that a source tells of. `port` is where the server listens unless the spec says it: a
    /// coordinator's port belongs to the launcher's own service, and is never taken.
    pub const fn of(finding: Finding, port: u16) -> Self {
        Self { finding, port }
    }

    /// The source.
    pub const fn source(&self) -> &'static str {
        self.finding.source
    }

    /// What the source tells.
    pub const fn finding(&self) -> &Finding {
        &self.finding
    }

    /// Where the server is: the first task of a job `rondo`, else `dispatcher`; without such a job, the
    /// host of the coordinator, else of the first task of the only job.
    ///
    /// # Errors
    /// NOT_PRESENT where none of these is told, MALFORMED for an address that is none.
    pub fn server(&self) -> Result<String, Error> {
        if let Some((job, index, told)) = self.server_task() {
            let (host, port) = split_address(&format!("cluster.{job}.{index}"), told, self.port)?;
            return Ok(address(&host, port));
        }
        let only = self.finding.spec.as_ref().and_then(|spec| {
            let (mut jobs, mut tasks) = (spec.jobs(), spec.iter());
            jobs.next().filter(|_| jobs.next().is_none())?;
            tasks.next().map(|(_, _, address)| address)
        });
        let Some(told) = self.finding.process.coordinator.as_deref().or(only) else {
            return Err(self.lacking("where the server is", "a job \"rondo\" of the spec would"));
        };
        let (host, _) = split_address("coordinator", told, self.port)?;
        if host.is_empty() {
            let wanted = "names no host where the server could be";
            return Err(Error::malformed("coordinator", told, wanted));
        }
        Ok(address(&host, self.port))
    }

    /// Whether this process is the one where the server is to run; `None` where its own place is not told.
    pub fn is_server(&self) -> Option<bool> {
        let own = self.own_task();
        if let Some((job, index, _)) = self.server_task() {
            return own.map(|own| own == (job, index));
        }
        let process = &self.finding.process;
        // A node's launcher does not know ranks, but which node it is.
        process.rank.or(process.node_rank).map(|rank| rank == 0).or_else(|| {
            let spec = self.finding.spec.as_ref()?;
            let first = numbered_jobs(spec).into_iter().next()?;
            let index = spec.job(first).ok()?.keys().next()?;
            own.map(|own| own == (first, *index))
        })
    }

    /// Where this process is to listen as a worker of Rondo's: the own address, if it is of the job
    /// `worker` of a spec that has the server's job too. Other specs tell where the program's own tasks
    /// listen.
    ///
    /// # Errors
    /// MALFORMED for an address without a port; NO_SUCH_TASK for a task that the spec lacks.
    pub fn worker(&self) -> Result<Option<String>, Error> {
        let (Some(spec), Some(_)) = (&self.finding.spec, self.server_task()) else {
            return Ok(None);
        };
        match self.own_task() {
            Some((WORKER_JOB, index)) => {
                let own = spec.task_address(WORKER_JOB, index)?;
                worker_address(index, own).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// All addresses of Rondo's workers, as [`Self::worker`]; `None` where the spec does not tell all of
    /// them.
    ///
    /// # Errors
    /// MALFORMED for an address without a port.
    pub fn workers(&self) -> Result<Option<Vec<String>>, Error> {
        let (Some(spec), Some(_)) = (&self.finding.spec, self.server_task()) else {
            return Ok(None);
        };
        if !spec.is_dense(WORKER_JOB) {
            return Ok(None);
        }
        let tasks = spec.job(WORKER_JOB)?;
        tasks
            .iter()
            .map(|(index, told)| worker_address(*index, told))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// How many tasks there are, the server's job not counted.
    ///
    /// # Errors
    /// NOT_PRESENT where the source does not tell; CONFLICT for a job whose indices have holes.
    pub fn tasks(&self) -> Result<u32, Error> {
        let Some(spec) = self.numbering() else {
            let process = &self.finding.process;
            let of_nodes = || process.nodes?.checked_mul(process.per_node?);
            return process.size.or_else(of_nodes).ok_or_else(|| {
                self.lacking("how many tasks there are", "a spec or a number of processes would")
            });
        };
        let mut count = 0_u32;
        for job in numbered_jobs(spec) {
            count = count.saturating_add(self.size_of(spec, job)?);
        }
        if count == 0 {
            return Err(self.lacking("any task", "a job beside the server's would"));
        }
        Ok(count)
    }

    /// This process's number among all, from 0: its rank. In a spec of several jobs, tasks are counted job
    /// by job, those that coordinate first (`coordinator`, `chief`, `master`, `worker`), the others by name.
    ///
    /// # Errors
    /// NOT_PRESENT where the source does not tell, or where this process is the server; CONFLICT for a job
    /// whose indices have holes; NO_SUCH_TASK for a task that the spec lacks.
    pub fn task(&self) -> Result<u32, Error> {
        let missing = || self.lacking("which task this is", "a rank, or a job and an index, would");
        let Some(spec) = self.numbering() else {
            return self.finding.process.rank.ok_or_else(missing);
        };
        let (own, index) = self.own_task().ok_or_else(missing)?;
        if self.server_task().is_some_and(|(job, _, _)| job == own) {
            let text =
                format!("this is {own}:{index}, of the server's job, and has no number as a task");
            return Err(Error::new(Fault::NotPresent, self.source(), text));
        }
        spec.task_address(own, index)?;
        let mut before = 0_u32;
        for job in numbered_jobs(spec).into_iter().take_while(|job| *job != own) {
            before = before.saturating_add(self.size_of(spec, job)?);
        }
        Ok(before.saturating_add(index))
    }

    /// The jobs of the spec with their sizes, the server's left out, in the order in which [`Self::task`]
    /// counts. None where the source tells of no spec.
    pub fn jobs(&self) -> Vec<(String, u32)> {
        let Some(spec) = &self.finding.spec else { return Vec::new() };
        let size =
            |job: &&str| u32::try_from(spec.num_tasks(job).unwrap_or_default()).unwrap_or(u32::MAX);
        numbered_jobs(spec).iter().map(|job| (job.to_string(), size(job))).collect()
    }

    /// The process's own task, if both its parts are told.
    fn own_task(&self) -> Option<(&str, u32)> {
        self.finding.task_type.as_deref().zip(self.finding.task_id)
    }

    /// The server's task and its address, if the spec has a job for it.
    fn server_task(&self) -> Option<(&str, u32, &str)> {
        let spec = self.finding.spec.as_ref()?;
        let job = server_job(spec)?;
        let (index, address) = spec.job(job).ok()?.first_key_value()?;
        Some((job, *index, address))
    }

    /// The spec by which tasks are numbered: one that has the server's job, or where there are no ranks.
    fn numbering(&self) -> Option<&ClusterSpec> {
        let spec = self.finding.spec.as_ref()?;
        let process = &self.finding.process;
        let is_ranked = process.rank.is_some() && process.size.is_some();
        (self.server_task().is_some() || !is_ranked).then_some(spec)
    }

    fn size_of(&self, spec: &ClusterSpec, job: &str) -> Result<u32, Error> {
        let size = spec.num_tasks(job)?;
        if size > 0 && !spec.is_dense(job) {
            let text = format!(
                "{} tells of {size} tasks of it, not numbered from 0 on without a hole: how many there \
                 are is not known",
                self.source()
            );
            return Err(Error::new(Fault::Conflict, format!("cluster.{job}"), text));
        }
        Ok(u32::try_from(size).unwrap_or(u32::MAX))
    }

    /// What is missing, and what the source does tell.
    fn lacking(&self, what: &str, would: &str) -> Error {
        let why = self.finding.notes.first().map(|note| format!(" ({note})")).unwrap_or_default();
        let text = format!("does not tell {what}: {would}; it tells {}{why}", self.told());
        Error::new(Fault::NotPresent, self.source(), text)
    }

    fn told(&self) -> String {
        let Finding { spec, process, .. } = &self.finding;
        let number =
            |name: &str, number: Option<u32>| number.map(|number| format!("{name} {number}"));
        let told = [
            spec.as_ref().map(|spec| format!("the jobs {}", listed(spec.jobs()))),
            self.own_task().map(|(job, index)| format!("the own task {job}:{index}")),
            process.coordinator.as_deref().map(|told| format!("the coordinator {}", quoted(told))),
            number("rank", process.rank),
            number("size", process.size),
            number("node", process.node_rank),
            number("nodes", process.nodes),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        if told.is_empty() { "nothing else".into() } else { told.join(", ") }
    }
}

/// The job of a spec whose first task is the server.
fn server_job(spec: &ClusterSpec) -> Option<&'static str> {
    SERVER_JOBS.into_iter().find(|job| spec.num_tasks(job).is_ok_and(|tasks| tasks > 0))
}

/// Jobs but the server's, in an order that is the same whoever wrote the spec.
fn numbered_jobs(spec: &ClusterSpec) -> Vec<&str> {
    let server = server_job(spec);
    let mut jobs: Vec<&str> = spec.jobs().filter(|job| Some(*job) != server).collect();
    let place = |job: &str| COORDINATING.iter().position(|known| *known == job);
    jobs.sort_by_key(|job| (place(job).unwrap_or(COORDINATING.len()), *job));
    jobs
}

fn worker_address(index: u32, told: &str) -> Result<String, Error> {
    let about = format!("cluster.{WORKER_JOB}.{index}");
    match split_address(&about, told, 0)? {
        (host, port) if !host.is_empty() && port > 0 => Ok(address(&host, port)),
        _ => Err(Error::malformed(about, told, "is no HOST:PORT where a worker could listen")),
    }
}
