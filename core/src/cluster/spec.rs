//! `ClusterSpec`: jobs, their tasks, and where each listens.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::error::{Error, Fault, quoted};
use super::json::Json;
use crate::limits::{CLUSTER_JOBS_MAX, CLUSTER_TASKS_MAX, NAME_BYTES_MAX};

/// The tasks of a job: addresses by index.
pub type Tasks = BTreeMap<u32, String>;

/// Highest index of a task: the wire holds it in 31 bits.
const INDEX_MAX: u32 = i32::MAX.unsigned_abs();

/// Jobs in the order in which they were given, each with the addresses of its tasks. An address is any
/// text. Two specs are equal when the same tasks have the same addresses, whatever the order of jobs.
#[derive(Clone, Debug, Default)]
pub struct ClusterSpec {
    order: Vec<String>,
    jobs: BTreeMap<String, Tasks>,
    tasks: usize,
}

impl PartialEq for ClusterSpec {
    fn eq(&self, other: &Self) -> bool {
        self.jobs == other.jobs
    }
}

impl Eq for ClusterSpec {}

impl ClusterSpec {
    /// A cluster without jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// One job with these tasks, from 0 on.
    ///
    /// # Errors
    /// As [`Self::add_task`].
    pub fn dense<A: Into<String>>(
        job: &str,
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<Self, Error> {
        let mut spec = Self::new();
        spec.add_job(job)?;
        for (index, address) in (0_u32..).zip(addresses) {
            spec.add_task(job, index, address)?;
        }
        Ok(spec)
    }

    /// Adds a job, if there is none of that name yet.
    ///
    /// # Errors
    /// MALFORMED for an empty or overlong name, TOO_LARGE for more jobs than
    /// [`CLUSTER_JOBS_MAX`].
    pub fn add_job(&mut self, job: &str) -> Result<(), Error> {
        if self.jobs.contains_key(job) {
            return Ok(());
        }
        if job.is_empty() || job.len() > NAME_BYTES_MAX {
            let wanted = format!("is no name of a job: it must have 1 to {NAME_BYTES_MAX} bytes");
            return Err(Error::malformed("cluster", job, &wanted));
        }
        if self.order.len() >= CLUSTER_JOBS_MAX {
            let text =
                format!("is one job more than the {CLUSTER_JOBS_MAX} that a cluster may have");
            return Err(Error::new(Fault::TooLarge, quoted(job), text));
        }
        self.order.push(job.to_owned());
        self.jobs.insert(job.to_owned(), Tasks::new());
        Ok(())
    }

    /// Adds a task, and its job if need be.
    ///
    /// # Errors
    /// CONFLICT for an index that the job has; MALFORMED for one past 2³¹ - 1 or an overlong address;
    /// TOO_LARGE for more than [`CLUSTER_TASKS_MAX`] tasks; as [`Self::add_job`].
    pub fn add_task(
        &mut self,
        job: &str,
        index: u32,
        address: impl Into<String>,
    ) -> Result<(), Error> {
        self.add_job(job)?;
        let about = || format!("cluster.{job}");
        let address = address.into();
        if index > INDEX_MAX {
            let wanted = format!("is no index of a task: the highest is {INDEX_MAX}");
            return Err(Error::malformed(about(), &index.to_string(), &wanted));
        }
        if address.len() > NAME_BYTES_MAX {
            let wanted = format!("is no address: it may have {NAME_BYTES_MAX} bytes");
            return Err(Error::malformed(about(), &address, &wanted));
        }
        if self.tasks >= CLUSTER_TASKS_MAX {
            let text = format!("more tasks than the {CLUSTER_TASKS_MAX} that a cluster may have");
            return Err(Error::new(Fault::TooLarge, about(), text));
        }
        let Some(tasks) = self.jobs.get_mut(job) else { return Ok(()) };
        if let Some(before) = tasks.get(&index) {
            let text =
                format!("task {index} is given twice: {} and {}", quoted(before), quoted(&address));
            return Err(Error::new(Fault::Conflict, about(), text));
        }
        tasks.insert(index, address);
        self.tasks += 1;
        Ok(())
    }

    /// Whether there is no job, not even one without tasks.
    pub const fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Tasks of all jobs.
    pub const fn tasks_count(&self) -> usize {
        self.tasks
    }

    /// Names of jobs, in the order given.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    /// The tasks of a job, by index.
    ///
    /// # Errors
    /// NO_SUCH_TASK for an unknown job.
    pub fn job(&self, job: &str) -> Result<&Tasks, Error> {
        self.jobs.get(job).ok_or_else(|| Error::no_job(job, self.jobs()))
    }

    /// How many tasks a job has, holes not counted.
    ///
    /// # Errors
    /// As [`Self::job`].
    pub fn num_tasks(&self, job: &str) -> Result<usize, Error> {
        self.job(job).map(Tasks::len)
    }

    /// The indices that a job has, ascending.
    ///
    /// # Errors
    /// As [`Self::job`].
    pub fn task_indices(&self, job: &str) -> Result<Vec<u32>, Error> {
        self.job(job).map(|tasks| tasks.keys().copied().collect())
    }

    /// Where a task listens.
    ///
    /// # Errors
    /// NO_SUCH_TASK for an unknown job or index.
    pub fn task_address(&self, job: &str, index: u32) -> Result<&str, Error> {
        let tasks = self.job(job)?;
        tasks.get(&index).map(String::as_str).ok_or_else(|| {
            let text = match tasks.last_key_value() {
                None => "the job has no tasks".into(),
                Some((highest, _)) => {
                    format!("the job has no task {index}: it has {}, up to {highest}", tasks.len())
                }
            };
            Error::new(Fault::NoSuchTask, format!("{}:{index}", quoted(job)), text)
        })
    }

    /// Addresses from index 0 to the highest, `None` where there is no task.
    ///
    /// # Errors
    /// NO_SUCH_TASK for an unknown job and one without tasks; TOO_LARGE where holes make the list longer
    /// than [`CLUSTER_TASKS_MAX`].
    pub fn job_tasks(&self, job: &str) -> Result<Vec<Option<&str>>, Error> {
        let tasks = self.job(job)?;
        let Some((highest, _)) = tasks.last_key_value() else {
            return Err(Error::new(Fault::NoSuchTask, quoted(job), "the job has no tasks"));
        };
        if usize::try_from(*highest).map_or(true, |highest| highest >= CLUSTER_TASKS_MAX) {
            let text = format!(
                "a list up to task {highest} is longer than the {CLUSTER_TASKS_MAX} tasks allowed"
            );
            return Err(Error::new(Fault::TooLarge, quoted(job), text));
        }
        Ok((0..=*highest).map(|index| tasks.get(&index).map(String::as_str)).collect())
    }

    /// Whether a job's tasks are 0 to n - 1 and there is at least one: such a job is written as a list.
    pub fn is_dense(&self, job: &str) -> bool {
        let highest = self.jobs.get(job).and_then(Tasks::last_key_value).map(|(index, _)| *index);
        let count = self.jobs.get(job).map_or(0, Tasks::len);
        highest.is_some_and(|highest| u64::from(highest) + 1 == count as u64)
    }

    /// All tasks in the order of jobs and indices: job, index, address.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32, &str)> {
        self.order.iter().flat_map(|job| {
            let tasks = self.jobs.get(job).into_iter().flatten();
            tasks.map(|(index, address)| (job.as_str(), *index, address.as_str()))
        })
    }

    /// Addresses that more than one task has, with those tasks. Empty addresses are not counted.
    pub fn shared_addresses(&self) -> BTreeMap<&str, Vec<(&str, u32)>> {
        let mut by_address: BTreeMap<&str, Vec<(&str, u32)>> = BTreeMap::new();
        for (job, index, address) in self.iter().filter(|(_, _, address)| !address.is_empty()) {
            by_address.entry(address).or_default().push((job, index));
        }
        by_address.retain(|_, tasks| tasks.len() > 1);
        by_address
    }

    /// The spec as JSON: a job is a list where its indices are 0 to n - 1, and else a map, as an empty one
    /// is.
    pub fn to_json(&self) -> Json {
        let member = |job: &String| {
            let tasks = self.jobs.get(job).into_iter().flatten();
            let value = match self.is_dense(job) {
                true => Json::List(tasks.map(|(_, address)| Json::text(address)).collect()),
                false => {
                    let member = |(index, address): (&u32, &String)| {
                        (index.to_string(), Json::text(address))
                    };
                    Json::Map(tasks.map(member).collect())
                }
            };
            (job.clone(), value)
        };
        Json::Map(self.order.iter().map(member).collect())
    }

    /// Reads a spec from a JSON object: a job is a list of addresses or a map from index to address.
    ///
    /// # Errors
    /// MALFORMED for anything else, CONFLICT for an index given twice; as [`Self::add_task`].
    pub fn of_json(value: &Json) -> Result<Self, Error> {
        let Some(members) = value.as_map() else {
            let wanted = format!("is {}: a map from jobs to their tasks is wanted", value.kind());
            return Err(Error::malformed("cluster", &value.to_string(), &wanted));
        };
        // Of a job named twice the last is meant, as everywhere in JSON.
        let last: BTreeMap<&str, &Json> =
            members.iter().map(|(job, tasks)| (job.as_str(), tasks)).collect();
        let mut spec = Self::new();
        for (job, _) in members {
            let is_new = !spec.jobs.contains_key(job);
            spec.add_job(job)?;
            if let Some(tasks) = last.get(job.as_str()).filter(|_| is_new) {
                spec.read_job(job, tasks)?;
            }
        }
        Ok(spec)
    }

    fn read_job(&mut self, job: &str, tasks: &Json) -> Result<(), Error> {
        match tasks {
            Json::List(addresses) => {
                for (index, address) in (0_u32..).zip(addresses) {
                    self.add_task(job, index, address_of(job, index, address)?)?;
                }
            }
            Json::Map(tasks) => {
                for (index, address) in tasks {
                    let index = index_of(job, index)?;
                    self.add_task(job, index, address_of(job, index, address)?)?;
                }
            }
            other => {
                let wanted = format!("is {}: a list or a map of addresses is wanted", other.kind());
                let about = format!("cluster.{job}");
                return Err(Error::malformed(about, &other.to_string(), &wanted));
            }
        }
        Ok(())
    }
}

fn address_of<'a>(job: &str, index: u32, address: &'a Json) -> Result<&'a str, Error> {
    address.as_text().ok_or_else(|| {
        let wanted = format!("is {}: an address is a text", address.kind());
        Error::malformed(format!("cluster.{job}.{index}"), &address.to_string(), &wanted)
    })
}

fn index_of(job: &str, text: &str) -> Result<u32, Error> {
    let digits = text.trim();
    let number = digits.parse().ok().filter(|number| *number <= INDEX_MAX);
    number.ok_or_else(|| {
        let wanted = format!("is no index of a task: a number from 0 to {INDEX_MAX} is wanted");
        Error::malformed(format!("cluster.{job}"), text, &wanted)
    })
}
