//! The tasks that Rondo's own coordination service knows to be up, at the addresses that they announce.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use super::asking::{Outcome, Seen};
use super::chain::Chain;
use super::error::{Error, Fault, quoted};
use super::json::Json;
use super::kubernetes::Unready;
use super::options::Options;
use super::place::{Place, SERVER_PORT};
use super::question::{Coordinated, Standing};
use super::resolver::{ClusterResolver, MasterOf, with_layer};
use super::spec::ClusterSpec;

/// The directory of keys under which tasks announce where they listen: task 3 under `…/3`. Such a key has
/// to be leased to its task, so that it goes when the task goes.
pub const ADDRESS_KEYS: &str = "rondo/addresses";

const JOB: &str = "worker";

/// The key under which a task announces its address.
pub fn address_key(task: u32) -> String {
    format!("{ADDRESS_KEYS}/{task}")
}

/// The task whose address a key is, if it is such a key.
fn task_of(key: &str) -> Option<u32> {
    let task = key.strip_prefix(ADDRESS_KEYS)?.strip_prefix('/')?;
    let number = task.parse().ok()?;
    (address_key(number) == key).then_some(number)
}

/// Tasks of a job that a coordination service of Rondo's coordinates, each with the number that it
/// registered with. Up is a task that is connected and has announced its address ([`address_key`]).
#[derive(Clone, Debug, Default)]
pub struct Rondo {
    /// The service, at the port of the job's namespace; unset: the server that launchers tell of.
    pub server: Option<String>,
    /// The job that the tasks are of in the spec; unset: `worker`.
    pub job: Option<String>,
    /// The process's number among the tasks; unset: what launchers tell, if they tell of the server.
    pub task_id: Option<u32>,
    /// What becomes of tasks that are not up.
    pub unready: Unready,
    /// How many tasks have to be up before there is a spec.
    pub wait_for: Option<u32>,
    /// The layer before addresses.
    pub rpc_layer: Option<String>,
}

impl Rondo {
    /// The resolver with these settings.
    ///
    /// # Errors
    /// MALFORMED for another resolver's settings and for values of the wrong kind.
    pub fn of(settings: &Json) -> Result<Self, Error> {
        let known = ["server", "job", "task_id", "unready", "wait_for", "rpc_layer"];
        let options = Options::of("rondo", settings, &known)?;
        let unready = [("refuse", Unready::Refuse), ("leave_out", Unready::LeaveOut)];
        Ok(Self {
            server: options.text("server")?,
            job: options.text("job")?,
            task_id: options.number("task_id")?,
            unready: options.choice("unready", &unready)?.unwrap_or_default(),
            wait_for: options.number("wait_for")?,
            rpc_layer: options.text_or("rpc_layer", "grpc")?,
        })
    }

    /// Where the service is.
    ///
    /// # Errors
    /// Where it is not given: as detection; NOT_PRESENT where nothing tells of it.
    pub fn server(&self, seen: &Seen) -> Outcome<String> {
        match &self.server {
            Some(server) => Ok(server.clone()),
            None => Ok(place(seen)?.server()?),
        }
    }

    /// The process's number among the tasks, if it is known.
    ///
    /// # Errors
    /// Where neither it nor the server is given: as detection.
    pub fn task(&self, seen: &Seen) -> Outcome<Option<u32>> {
        match (self.task_id, &self.server) {
            (None, None) => Ok(place(seen)?.task().ok()),
            (given, _) => Ok(given),
        }
    }

    fn job(&self) -> &str {
        self.job.as_deref().unwrap_or(JOB)
    }

    fn waited_for(&self, up: usize, server: &str) -> Result<(), Error> {
        let Some(wanted) = self.wait_for.filter(|wanted| (*wanted as usize) > up) else {
            return Ok(());
        };
        let text = format!("{up} of {wanted} tasks that are waited for are up at {server}");
        Err(Error::new(Fault::NotReady, self.job(), text))
    }
}

/// What launchers tell.
fn place(seen: &Seen) -> Outcome<Place> {
    let report = Chain::default().detect(seen)?;
    let finding = report.settled()?.ok_or_else(|| {
        let wanted = "nothing tells of a cluster either: it has to say where the service is";
        Error::missing("rondo.server", wanted)
    })?;
    Ok(Place::of(finding.clone(), SERVER_PORT))
}

impl Coordinated {
    /// The addresses that tasks announced.
    fn addresses(&self) -> Result<BTreeMap<u32, &str>, Error> {
        let mut addresses = BTreeMap::new();
        for (key, value) in &self.keys {
            let Some(task) = task_of(key) else { continue };
            let text = core::str::from_utf8(value).ok().filter(|address| !address.is_empty());
            let address = text.ok_or_else(|| {
                let found = String::from_utf8_lossy(value);
                Error::malformed(key.clone(), &found, "is no address that a task could announce")
            })?;
            addresses.insert(task, address);
        }
        Ok(addresses)
    }
}

/// Why a task is not up; `None` if it is.
fn down(standing: &Standing, address: Option<&&str>) -> Option<String> {
    match (standing, address) {
        (Standing::Connected, Some(_)) => None,
        (Standing::Connected, None) => Some("is connected, and has announced no address".into()),
        (Standing::Absent, _) => Some("is not there: it never registered, or has left".into()),
        (Standing::Error(why), _) => Some(format!("is in error: {}", quoted(why))),
    }
}

impl ClusterResolver for Rondo {
    fn name(&self) -> &'static str {
        "rondo"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        let server = self.server(seen)?;
        let told = seen.coordination(&server)?;
        let addresses = told.addresses()?;
        let mut spec = ClusterSpec::new();
        spec.add_job(self.job())?;
        for (task, standing) in &told.tasks {
            let address = addresses.get(task);
            match (down(standing, address), self.unready) {
                (None, _) => {
                    let address = address.map(ToString::to_string).unwrap_or_default();
                    spec.add_task(self.job(), *task, address)?;
                }
                (Some(_), Unready::LeaveOut) => {}
                (Some(why), Unready::Refuse) => {
                    let about = format!("{}:{task}", self.job());
                    let text = format!("the task {why} (at {server})");
                    return Err(Error::new(Fault::NotReady, about, text).into());
                }
            }
        }
        if told.tasks.is_empty() && self.unready == Unready::Refuse {
            let text = format!("no task has registered at {server} yet");
            return Err(Error::new(Fault::NotReady, self.job(), text).into());
        }
        self.waited_for(spec.tasks_count(), &server)?;
        Ok(spec)
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let own = self.task(seen)?;
        let Some(index) = of.task_id.or(own) else { return Ok(String::new()) };
        let spec = self.cluster_spec(seen)?;
        let layer = of.rpc_layer.or(self.rpc_layer.as_deref());
        let job = of.task_type.unwrap_or(self.job());
        Ok(with_layer(spec.task_address(job, index)?, layer))
    }

    fn task_type(&self, seen: &Seen) -> Outcome<Option<String>> {
        Ok(self.task(seen)?.map(|_| self.job().to_string()))
    }

    fn task_id(&self, seen: &Seen) -> Outcome<Option<u32>> {
        self.task(seen)
    }

    fn rpc_layer(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.rpc_layer.clone())
    }

    fn set_task_id(&mut self, task_id: u32) -> Result<(), Error> {
        self.task_id = Some(task_id);
        Ok(())
    }
}
