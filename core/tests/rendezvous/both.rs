//! The rendezvous beside the model: the same happens to both, and both must tell the same.

use std::collections::BTreeMap;

use rondo_core::ids::{CallId, StepId};
use rondo_core::rendezvous::{Args, Config, Failure, Input, Key, Value};
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::happening::Happening;
use crate::model::{self, Asks, Model, Tensor, Told};
use crate::story::{HERE, INCARNATION, NEARLY_HERE, THERE, between, local, outgoing, session};
use crate::world::World;

const STEPS: u8 = 4;
const REQUESTS: u8 = 6;
/// Sizes of tensors; bounds are such that each of them is reached.
const SIZES: [u64; 6] = [0, 10, 25, 40, 70, 101];
/// How long receivers wait, in milliseconds.
const TIMEOUTS_MS: [Option<u64>; 8] =
    [None, None, None, None, Some(0), Some(40), Some(100), Some(5_000)];
const CODES: [Code; 3] = [Code::Internal, Code::Aborted, Code::Cancelled];

/// Both.
pub(crate) struct Both {
    world: World,
    model: Model,
    keys: Vec<Key>,
    tensors: u32,
    /// All calls for which something was fetched.
    fetches: Vec<CallId>,
}

impl Both {
    pub(crate) fn new(is_home: bool) -> Self {
        let config = Config {
            devices: [("/device:CPU:0".to_owned(), INCARNATION)].into(),
            session: is_home.then(|| session(HERE)),
            steps_max: 3,
            step_tensors_max: 4,
            step_bytes_max: 100,
            tensors_max: 6,
            bytes_max: 150,
            calls_max: 8,
            step_expiry: Some(Duration::from_secs(15)),
            patience: Duration::from_secs(2),
            ..Config::default()
        };
        let model = Model::new(&config, is_home);
        let keys = vec![
            local("a"),
            local("b"),
            outgoing("a"),
            between(THERE, HERE, "a"),
            between(NEARLY_HERE, HERE, "a"),
        ];
        Self { world: World::new(config), model, keys, tensors: 0, fetches: Vec::new() }
    }

    /// One key in four is one of another worker's source.
    fn key(&self, nth: u8) -> (usize, Key) {
        let of = [0, 0, 1, 1, 2, 2, 3, 4];
        let nth = of[usize::from(nth) % of.len()];
        (nth, self.keys[nth].clone())
    }

    pub(crate) fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Find(step) => {
                let step = of_few(*step);
                self.ask(Asks::Find { step }, |call| Input::Find { call, step: id(step) });
            }
            Happening::Initialize(step, of_another) => {
                let step = of_few(*step);
                let worker = if *of_another { NEARLY_HERE } else { HERE };
                self.ask(Asks::Initialize { step, worker }, |call| Input::Initialize {
                    call,
                    step: id(step),
                    session: session(worker),
                });
            }
            Happening::Send { step, key, bytes, waits, is_dead } => {
                self.send((*step, *key), *bytes, *waits, *is_dead);
            }
            Happening::Recv { step, key, timeout } => self.recv(*step, *key, *timeout),
            Happening::RecvLocal { step, key, timeout } => {
                self.recv_local((*step, *key), *timeout, None);
            }
            Happening::Request { step, key, timeout, request, keeps } => {
                let asked = (i64::from(*request % REQUESTS), *keeps);
                self.recv_local((*step, *key), *timeout, Some(asked));
            }
            Happening::Wait(millis) => self.wait(*millis),
            other => self.tell(other),
        }
    }

    /// What is nobody's call.
    fn tell(&mut self, happening: &Happening) {
        match happening {
            Happening::Finished(request) => {
                let request = i64::from(*request % REQUESTS);
                self.model.finished(request);
                self.world.finished(request);
            }
            Happening::Cancel(nth) => {
                if let Some(call) = self.model.calls().get(nth % 8).copied() {
                    self.model.cancel(call);
                    self.world.cancel(call);
                }
            }
            Happening::Fetched(nth) => self.fetched(*nth),
            Happening::NotFetched(nth, failure) => self.not_fetched(*nth, *failure),
            Happening::Abort(step, code) => {
                let (step, code) = (of_few(*step), CODES[usize::from(*code) % CODES.len()]);
                self.model.abort(self.world.now, step, code);
                self.world.abort(id(step), Status::new(code, "broken"));
            }
            Happening::Cleanup(step) => {
                self.model.cleanup(of_few(*step));
                self.world.cleanup(id(of_few(*step)));
            }
            _ => {
                self.model.cleanup_all();
                self.world.step(Input::CleanupAll);
            }
        }
        self.compare();
    }

    fn ask(&mut self, asks: Asks, input: impl FnOnce(CallId) -> Input<u32>) {
        let call = self.world.ask();
        self.world.step(input(call));
        let answered = self.world.answered.iter().copied();
        let is_done = |call: &CallId| self.world.told(*call) == Told::Done;
        self.model.ask(self.world.now, call, asks, answered.filter(is_done).collect());
        self.compare();
    }

    fn send(&mut self, (step, key): (u8, u8), bytes: u8, waits: bool, is_dead: bool) {
        self.tensors += 1;
        let (step, (nth, key)) = (of_few(step), self.key(key));
        let (tensor, bytes) = (self.tensors, SIZES[usize::from(bytes) % SIZES.len()]);
        let asks = Asks::Send { step, key: nth, tensor: Tensor { tensor, bytes, is_dead }, waits };
        self.ask(asks, |call| {
            let value = Value { tensor, bytes, is_dead };
            Input::Send { call, step: id(step), key, args: Args::default(), value, waits }
        });
    }

    fn recv(&mut self, step: u8, key: u8, timeout: u8) {
        let (step, (nth, key)) = (of_few(step), self.key(key));
        let timeout = TIMEOUTS_MS[usize::from(timeout) % TIMEOUTS_MS.len()];
        let timeout = timeout.map(Duration::from_millis);
        self.ask(Asks::Recv { step, key: nth, timeout }, |call| Input::Recv {
            call,
            step: id(step),
            key,
            args: Args::default(),
            timeout,
        });
    }

    fn recv_local(&mut self, (step, key): (u8, u8), timeout: u8, asked: Option<(i64, bool)>) {
        let (step, (nth, key)) = (of_few(step), self.key(key));
        let timeout = TIMEOUTS_MS[usize::from(timeout) % TIMEOUTS_MS.len()];
        let timeout = timeout.map(Duration::from_millis);
        self.ask(Asks::RecvLocal { step, key: nth, timeout, asked }, |call| {
            let asked = asked.map(|(request, keeps)| match keeps {
                true => crate::story::keeps(request),
                false => crate::story::asks(request),
            });
            Input::RecvLocal { call, step: id(step), key, timeout, asked }
        });
    }

    /// One of the calls for which something is fetched, or was when it gave up.
    fn fetching(&self, nth: usize) -> Option<CallId> {
        let calls: Vec<_> = self.fetches.iter().rev().take(8).copied().collect();
        let call = *calls.get(nth % calls.len().max(1))?;
        (!self.model.is_paused(call)).then_some(call)
    }

    fn fetched(&mut self, nth: usize) {
        let Some(call) = self.fetching(nth) else {
            return;
        };
        self.tensors += 1;
        let (tensor, bytes, is_dead) = (self.tensors, 1_000, false);
        self.model.fetched(self.world.now, call, Tensor { tensor, bytes, is_dead });
        self.world.fetched(call, Value { tensor, bytes, is_dead });
    }

    fn not_fetched(&mut self, nth: usize, failure: u8) {
        let Some(call) = self.fetching(nth) else {
            return;
        };
        let status = Status::new(Code::Unavailable, "planted");
        let (away, failure) = match failure % 8 {
            0 => (Some(model::fault(Code::Unavailable, "planted")), Failure::Refused(status)),
            1 => (Some(model::fault(Code::Unavailable, "broke while")), Failure::Lost(status)),
            _ => (None, Failure::Away(status)),
        };
        self.model.not_fetched(self.world.now, call, away);
        self.world.not_fetched(call, failure);
    }

    fn wait(&mut self, millis: u64) {
        let end = self.world.now.after(Duration::from_millis(millis));
        while let Some(at) = self.world.machine.deadline().filter(|at| *at <= end) {
            self.world.now = at.max(self.world.now);
            self.tick();
        }
        self.world.now = end;
        // Whatever the model does now the rendezvous should have done, and it does not look again.
        self.tick();
    }

    fn tick(&mut self) {
        self.model.tick(self.world.now);
        self.world.step(Input::Tick);
        self.compare();
    }

    /// What was told since the last time is the same.
    fn compare(&mut self) {
        let told: BTreeMap<CallId, Told> = std::mem::take(&mut self.world.answered)
            .into_iter()
            .map(|call| (call, self.world.told(call)))
            .collect();
        self.model.room_was_given(&told);
        let expected = std::mem::take(&mut self.model.told);
        assert!(
            expected.len() == told.len()
                && expected
                    .iter()
                    .zip(&told)
                    .all(|(mine, its)| mine.0 == its.0 && mine.1.fits(its.1)),
            "expected {expected:#?}\ntold {told:#?}"
        );
        let asked: Vec<CallId> = self.world.fetches.drain(..).map(|fetch| fetch.call).collect();
        let mut expected = std::mem::take(&mut self.model.fetches);
        let mut sorted = asked.clone();
        expected.sort();
        sorted.sort();
        assert_eq!(sorted, expected, "other workers are asked for these calls");
        self.fetches.extend(
            asked.iter().filter(|call| !self.fetches.contains(call)).copied().collect::<Vec<_>>(),
        );
        let report = self.world.machine.report();
        let found =
            (report.steps, report.held.tensors, report.held.bytes, report.waiting, report.kept);
        assert_eq!(found, self.model.report());
    }

    /// All steps are cleaned up, and nothing is left.
    pub(crate) fn end(&mut self) {
        for step in 0..STEPS {
            self.tell(&Happening::Cleanup(step));
        }
        self.world.assert_empty();
        assert_eq!(self.world.machine.report().steps, 0);
        // Other workers may still be asked for what nobody wants any more; nobody is.
        self.wait(10_000);
        assert_eq!(self.world.machine.deadline(), None);
    }
}

fn of_few(step: u8) -> i64 {
    i64::from(step % STEPS)
}

fn id(step: i64) -> StepId {
    StepId::new(step)
}
