//! The rendezvous of all steps of this worker.

use std::sync::Arc;
use std::time::Duration;

use rondo_core::element::Tensor;
use rondo_core::ids::{RequestId, StepId};
use rondo_core::rendezvous::{Asked, Delivery, Input, Key, Report};
use rondo_core::status::Status;
use rondo_proto::convert::{WorkerDevice, content_of_fetch_chunk};

use super::Settings;
use super::driver;
use super::fetching::Fetcher;
use super::parking::Parking;
use super::receive::{Receive, Waiting, done};
use super::remote::{RemoteRendezvous, span};
use super::state::Shared;
use crate::clock::Clock;
use crate::memory::Ceiling;
use crate::transport::{Client, Transport};

/// How other workers are reached: what is long has connections of its own, and holds up nothing else.
#[derive(Clone)]
pub struct Ways {
    /// For calls and tensors that are short.
    pub short: Arc<dyn Transport>,
    /// For tensors that are long.
    pub long: Arc<dyn Transport>,
}

impl Default for Ways {
    /// Over connections of its own.
    fn default() -> Self {
        let content = |begin: &[u8]| content_of_fetch_chunk(begin).unwrap_or(0);
        Self { short: Arc::new(Client::new()), long: Arc::new(Client::of_tensors(content)) }
    }
}

/// The rendezvous of all steps of one worker. A clone is of the same worker.
#[derive(Clone)]
pub struct RendezvousManager {
    pub(super) shared: Arc<Shared>,
    fetcher: Arc<Fetcher>,
    devices: Arc<[WorkerDevice]>,
    pub(super) parking: Parking,
    pub(super) caches_responses: bool,
}

impl RendezvousManager {
    /// Begins without steps. Called within a runtime; ends with the last clone.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the settings name a worker that is none.
    pub fn start(settings: Settings, clock: Clock, ways: Ways) -> Result<Self, Status> {
        Self::start_below(Ceiling::none(), settings, clock, ways)
    }

    /// As [`RendezvousManager::start`], below a ceiling of all memory. At it, the service refuses tensors.
    ///
    /// # Errors
    /// As [`RendezvousManager::start`].
    pub fn start_below(
        ceiling: Ceiling,
        settings: Settings,
        clock: Clock,
        ways: Ways,
    ) -> Result<Self, Status> {
        let Settings { machine, peers } = settings;
        let devices = devices(&machine);
        let caches_responses = machine.caches_responses;
        let parking = Parking::new(machine.bytes_max, ceiling.clone());
        let (shared, orders) = Shared::start(machine, clock, ceiling)?;
        let fetcher = Arc::new(Fetcher::new(peers, ways));
        tokio::spawn(driver::run(Arc::downgrade(&shared), orders, Arc::clone(&fetcher)));
        Ok(Self { shared, fetcher, devices, parking, caches_responses })
    }

    /// A step's rendezvous, which begins if it was not there. Whoever begins it initialises it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when there are too many steps.
    pub fn find(&self, step: StepId) -> Result<RemoteRendezvous, Status> {
        let asked = self.shared.ask(|call| Input::Find { call, step });
        let found = || RemoteRendezvous::new(Arc::clone(&self.shared), step);
        match asked {
            super::state::Asked::Answered(outcome) => done(outcome).map(|()| found()),
            super::state::Asked::Waits(..) => Ok(found()),
        }
    }

    /// Asks for a tensor of this worker, by another worker or in its place. The step begins if it was
    /// not there.
    pub fn recv_local_async(&self, step: StepId, key: &Key) -> Receive {
        self.receive(step, key, None, None)
    }

    /// Waits for a tensor of this worker.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED if it does not come in time (`None`: however long that takes), INVALID_ARGUMENT
    /// for a key whose source is not this worker's, and why the step ended if it has.
    pub async fn recv_local(
        &self,
        step: StepId,
        key: &Key,
        timeout: Option<Duration>,
    ) -> Result<Delivery<Tensor>, Status> {
        self.receive(step, key, timeout, None).await
    }

    /// A step is over: whoever waits in it is told so, and its tensors go.
    pub fn cleanup(&self, step: StepId) {
        self.shared.tell(Input::Cleanup { step });
    }

    /// All steps are over.
    pub fn cleanup_all(&self) {
        self.shared.tell(Input::CleanupAll);
    }

    /// What there is.
    pub fn report(&self) -> Report {
        self.shared.report()
    }

    /// This worker's devices.
    pub fn devices(&self) -> &[WorkerDevice] {
        &self.devices
    }

    /// The devices of another worker, with the incarnations that its keys need.
    ///
    /// # Errors
    /// INTERNAL for a worker whose address is not known, UNAVAILABLE when it cannot be reached.
    pub async fn devices_of(&self, worker: &str) -> Result<Vec<WorkerDevice>, Status> {
        self.fetcher.devices_of(worker).await
    }

    /// A request of another worker.
    pub(super) fn receive_for(&self, step: StepId, key: &Key, asked: Asked) -> Receive {
        self.receive(step, key, None, Some(asked))
    }

    /// Another worker has what answered its request.
    pub(super) fn finished(&self, request: RequestId) {
        self.shared.tell(Input::MarkRecvFinished { request });
    }

    fn receive(
        &self,
        step: StepId,
        key: &Key,
        timeout: Option<Duration>,
        asked: Option<Asked>,
    ) -> Receive {
        let (key, timeout) = (key.clone(), timeout.map(span));
        let call = self.shared.ask(|call| Input::RecvLocal { call, step, key, timeout, asked });
        Receive(Waiting::of(&self.shared, call))
    }
}

fn devices(config: &rondo_core::rendezvous::Config) -> Arc<[WorkerDevice]> {
    let worker = config.session.as_ref().map(|session| session.worker_name.as_ref());
    let device = |(local, incarnation): (&String, &u64)| WorkerDevice {
        name: format!("{}{local}", worker.unwrap_or_default()),
        kind: local.split(':').nth(1).unwrap_or_default().to_owned(),
        incarnation: *incarnation,
    };
    config.devices.iter().map(device).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use rondo_core::element::{Dtype, Shape, Tensor};
    use rondo_core::rendezvous::{Args, Config, FrameAndIter, Session};

    use super::super::remote::sent;
    use super::*;
    use crate::memory::{Level, SnapshotPlan};

    const MIB: u64 = 1 << 20;
    const WORKER: &str = "/job:worker/replica:0/task:0";

    fn key() -> Key {
        let device = format!("{WORKER}/device:CPU:0");
        Key::create(&device, 7, &device, "edge", FrameAndIter::default()).unwrap()
    }

    /// Its values may be part of the message, and its strings end somewhere.
    #[test]
    fn a_tensor_counts_with_its_message_and_all_that_it_needs() {
        let key = key();
        let values = Bytes::from_static(b"value");
        let five = Tensor::fixed(Dtype::Uint8, Shape::list(5).unwrap(), values.clone()).unwrap();
        let alone = sent(&key, five.clone(), false, 0).bytes;
        assert!(alone > 5 + key.text().len() as u64, "{alone}");
        let within = sent(&key, five, false, 10_000).bytes;
        assert!(within > 10_000 && within < 10_000 + alone, "{within}");
        let ends = [5; 1000].into();
        let strings = Tensor::strings(Shape::list(1000).unwrap(), values, ends).unwrap();
        assert!(sent(&key, strings, false, 10_000).bytes >= within + 4000 - 8);
    }

    fn manager(ceiling: Ceiling) -> RendezvousManager {
        let machine = Config {
            devices: BTreeMap::from([("/device:CPU:0".to_owned(), 7)]),
            session: Some(Session { worker_name: WORKER.into() }),
            ..Config::default()
        };
        let settings = Settings { machine, peers: BTreeMap::new() };
        RendezvousManager::start_below(ceiling, settings, Clock::start(), Ways::default()).unwrap()
    }

    /// The state may have half of the memory. Tensors are none, but for their other half.
    #[tokio::test]
    async fn tensors_that_are_held_are_no_state_as_long_as_they_are_held() {
        let ceiling = Ceiling::new(100 * MIB);
        let manager = manager(ceiling.clone());
        let step = manager.find(StepId::new(1)).unwrap();
        let key = key();
        let values = Bytes::from(vec![7; 30 * MIB as usize]);
        let shape = Shape::list(values.len() as u64).unwrap();
        let tensor = Tensor::fixed(Dtype::Uint8, shape, values).unwrap();
        ceiling.see(60 * MIB);
        let level = || ceiling.level(SnapshotPlan::Planned);
        assert_eq!(level(), Level::Short);
        for is_cleaned_up in [true, false, true] {
            step.send(&key, Args::default(), tensor.clone(), false).unwrap();
            assert_eq!(level(), Level::Enough);
            match is_cleaned_up {
                true => manager.cleanup(step.step()),
                false => drop(step.recv(&key, Args::default(), None).await.unwrap()),
            }
            assert_eq!(level(), Level::Short);
        }
    }
}
