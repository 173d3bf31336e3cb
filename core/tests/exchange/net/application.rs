//! What applications do: workers ask and wait, servers take batches and answer.

use rondo_core::exchange::message::Tensor;
use rondo_core::exchange::server::{self, Answering, Partial, Unit};
use rondo_core::exchange::worker::{self, Since};
use rondo_core::exchange::{
    Handler, Key, Refusal, ScalarType, TensorInfo, UnitHandler, WorkerRank,
};
use rondo_core::ids::CallId;
use rondo_core::time::Duration;

use super::oracle::{Content, Request};
use super::{Held, Net, key};

/// A tensor of so many bytes.
pub(crate) fn bytes(count: u64) -> TensorInfo {
    TensorInfo::new(ScalarType::Byte, &[i64::try_from(count).unwrap()]).unwrap()
}

impl Net {
    pub(super) fn memory(&mut self, content: Content) -> u32 {
        self.contents.push(content);
        u32::try_from(self.contents.len() - 1).unwrap()
    }

    /// A worker asks for something.
    pub(crate) fn ask(&mut self, nth: usize, pushes: u8, pulls: u8, sizes: u8) {
        if self.workers[nth].machine.is_none() {
            return;
        }
        let (pushes, per_server) = (usize::from(pushes % 4), usize::from(pulls % 3));
        let request = self.requests.len();
        let servers = self.setup.servers;
        let push = |net: &mut Self, index: usize| {
            let payload = net.memory(Content::Push { request });
            let info = bytes(u64::from(sizes >> (2 * index) & 3) * 7);
            Tensor { key: key(u8::try_from(index).unwrap() + sizes / 64), info, payload }
        };
        let pushes: Vec<Tensor<u32>> = (0..pushes).map(|index| push(self, index)).collect();
        let pull = |net: &mut Self, index: usize| {
            let payload = net.memory(Content::Pull { request, index });
            let info = bytes(4 + u64::from(sizes % 5));
            Tensor { key: Key::new(100 + index as u64), info, payload }
        };
        let pulls: Vec<Tensor<u32>> =
            (0..per_server * servers).map(|index| pull(self, index)).collect();
        self.requests.push(Request {
            worker: nth,
            incarnation: self.workers[nth].incarnation,
            handler: None,
            handlers: (pushes.len() + per_server) as u64,
            pushes: pushes.iter().map(|it| it.payload).collect(),
            pulls: pulls.iter().map(|it| it.payload).collect(),
            per_server,
            filled: std::collections::BTreeSet::new(),
            is_over: false,
        });
        let call = self.call();
        let ignores_rest = sizes.is_multiple_of(2);
        self.tell_worker(nth, worker::Input::Exchange { call, pushes, pulls, ignores_rest });
    }

    /// Requests of a worker's present run, the latest first.
    fn request(&self, worker: usize, nth: usize) -> Option<(usize, Handler)> {
        let run = self.workers[worker].incarnation;
        let all = self.requests.iter().enumerate().rev();
        let mut of_it = all
            .filter(|(_, it)| it.worker == worker && it.incarnation == run)
            .filter_map(|(request, it)| it.handler.map(|handler| (request, handler)));
        of_it.nth(nth % 12)
    }

    /// A worker waits for one of its requests.
    pub(crate) fn wait(&mut self, worker: usize, nth: usize, timeout_ms: Option<u64>) {
        let Some((request, handler)) = self.request(worker, nth) else {
            return;
        };
        if self.workers[worker].machine.is_none() {
            return;
        }
        let call = self.call();
        self.workers[worker].waiting.insert(call, request);
        let since = if nth.is_multiple_of(2) { Since::Call } else { Since::Request };
        let timeout = timeout_ms.map(Duration::from_millis);
        self.tell_worker(worker, worker::Input::Wait { call, handler, timeout, since });
    }

    /// A worker gives up one of its requests.
    pub(crate) fn abandon(&mut self, worker: usize, nth: usize) {
        let Some((request, handler)) = self.request(worker, nth) else {
            return;
        };
        // Until what is being written to it is there, it is not over.
        let is_written = self.workers[worker].written.values().flatten().any(|at| {
            matches!(self.contents[*at as usize], Content::Pull { request: of, .. } if of == request)
        });
        if !is_written {
            self.requests[request].is_over = true;
            self.tell_worker(worker, worker::Input::Abandon { handler });
        }
    }

    /// The latest call of a worker is given up.
    pub(crate) fn cancel(&mut self, worker: usize) {
        if let Some((call, _)) = self.workers[worker].waiting.pop_last() {
            self.tell_worker(worker, worker::Input::Cancel { call });
        }
    }

    /// A server's application wants a batch.
    pub(crate) fn get_batch(&mut self, nth: usize, partial: Partial, timeout_ms: Option<u64>) {
        if self.servers[nth].machine.is_none() {
            return;
        }
        // Whatever it was given before and owes no answer it reads no more.
        self.servers[nth].held.retain(|_, held| held.owes_answer);
        let call = self.call();
        self.servers[nth].waiting.insert(call, partial);
        let timeout = timeout_ms.map(Duration::from_millis);
        self.tell_server(nth, server::Input::GetBatch { call, timeout, partial });
    }

    pub(super) fn given_out(
        &mut self,
        nth: usize,
        call: CallId,
        result: Result<Vec<Unit<u32>>, Refusal>,
    ) {
        let partial = self.servers[nth].waiting.remove(&call);
        let partial = partial.unwrap_or_else(|| panic!("{call} was told before"));
        let units = match result {
            Ok(units) => units,
            Err(Refusal::NoBatch { .. } | Refusal::TooManyCalls { .. } | Refusal::Stopped) => {
                return;
            }
            Err(Refusal::PeerLost(_)) if partial == Partial::Never && self.is_faulty => return,
            Err(refusal) => panic!("{partial:?}: {refusal}"),
        };
        let workers: Vec<u32> = units.iter().map(|unit| unit.worker.get()).collect();
        assert!(workers.is_sorted_by(|a, b| a < b), "workers of a batch: {workers:?}");
        let all: Vec<u32> = (0..u32::try_from(self.setup.workers).unwrap()).collect();
        let up: Vec<u32> = self.servers[nth].up.iter().copied().collect();
        match partial {
            Partial::Never => assert_eq!(workers, all, "one of each worker"),
            Partial::UpMembersOnly => assert_eq!(workers, up, "one of each that takes part"),
            Partial::AtDeadline => assert!(!workers.is_empty()),
        }
        units.into_iter().for_each(|unit| self.holds(nth, unit));
    }

    /// The application has a unit: it is all that one request pushed, in memory that is still its own.
    fn holds(&mut self, nth: usize, unit: Unit<u32>) {
        let pushes: Vec<u32> = unit.tensors.iter().map(|tensor| tensor.payload).collect();
        let worker = unit.worker.get() as usize;
        if let Some(first) = pushes.first() {
            let Content::Push { request } = self.contents[*first as usize] else {
                panic!("{first} was not pushed");
            };
            let of = &self.requests[request];
            assert_eq!((of.worker, &of.pushes), (worker, &pushes), "what request {request} pushed");
            assert_eq!(of.per_server, unit.pulls.len());
            let again =
                matches!(self.setup.policy, rondo_core::exchange::Policy::WaitForReturn { .. });
            let server = &mut self.servers[nth];
            assert!(server.given.insert(request) || again, "request {request} is given out twice");
        }
        let server = &mut self.servers[nth];
        for push in &pushes {
            if let Some(slot) = server.in_slot.get(push) {
                assert_eq!(server.slots.get(slot), Some(push), "{slot:?} was overwritten");
            }
        }
        let (single, pulls) = (pushes.len() + unit.pulls.len() == 1, unit.pulls.len());
        let pull_bytes = unit.pulls.iter().map(|pull| pull.info.bytes()).collect();
        let owes_answer = single || pulls > 0;
        let slots = pushes.iter().filter_map(|push| server.in_slot.get(push).copied()).collect();
        let held = Held { pushes, slots, pulls, pull_bytes, owes_answer, is_read: true };
        server.held.insert(unit.handler, held);
        let before = server.last_unit.insert(worker, unit.handler);
        assert!(before.is_none_or(|before| before < unit.handler), "units of {worker} in order");
    }

    /// The application answers one of the units it has, by what it was made of.
    pub(crate) fn respond(&mut self, nth: usize, which: usize) {
        let held = &self.servers[nth].held;
        let Some((unit, held)) = held.iter().nth(which % held.len().max(1)) else {
            return;
        };
        let (unit, held) = (*unit, held.clone());
        let answer = |(index, count): (usize, &u64)| {
            let pushes = held.pushes.clone();
            let payload = self.memory(Content::Answer { server: nth, pushes, index });
            (bytes(*count), payload)
        };
        let tensors: Vec<(TensorInfo, u32)> =
            held.pull_bytes.iter().enumerate().map(answer).collect();
        assert_eq!(tensors.len(), held.pulls);
        self.servers[nth].held.remove(&unit);
        let call = self.call();
        let answers = vec![Answering { unit, tensors }];
        self.tell_server(nth, server::Input::Respond { call, answers: answers.clone() });
        self.is_refused_again(nth, answers);
    }

    /// Nothing is answered twice.
    fn is_refused_again(&mut self, nth: usize, answers: Vec<Answering<u32>>) {
        let (unit, call) = (answers[0].unit, self.call());
        let Some(machine) = self.servers[nth].machine.as_mut() else {
            return;
        };
        let mut effects = Vec::new();
        machine.step(self.now, server::Input::Respond { call, answers }, &mut effects);
        let result = Err(Refusal::AnsweredBefore { unit });
        assert_eq!(effects, [server::Effect::Done { call, result }]);
    }

    /// The application reads no more what a unit has pushed, and answers later.
    pub(crate) fn release(&mut self, nth: usize, which: usize) {
        let held = &mut self.servers[nth].held;
        let count = held.len().max(1);
        let Some((unit, it)) = held.iter_mut().nth(which % count) else {
            return;
        };
        let unit: UnitHandler = *unit;
        it.is_read = false;
        if !it.owes_answer {
            return;
        }
        let call = self.call();
        self.tell_server(nth, server::Input::Release { call, unit });
    }

    /// What was asked of a server that is not about batches is done.
    pub(super) fn answered(&self, result: &Result<(), Refusal>) {
        match result {
            Ok(()) => {}
            // What was released of a lost worker's unit is known no more.
            Err(Refusal::PeerLost(_) | Refusal::AnsweredBefore { .. }) => assert!(self.is_faulty),
            Err(Refusal::SlotTaken { .. } | Refusal::TooManySlots { .. }) => {}
            Err(refusal) => panic!("{refusal}"),
        }
    }

    /// A server registers slots for all keys of all workers, large enough for whatever is pushed.
    pub(super) fn register_all(&mut self, nth: usize) {
        let (buffer, call) = (self.memory(Content::Buffer), self.call());
        let workers = (0..u32::try_from(self.setup.workers).unwrap()).map(WorkerRank::new);
        let slots = workers.flat_map(|worker| (0..3).map(move |of| (worker, key(of))));
        let (workers, keys): (Vec<WorkerRank>, Vec<Key>) = slots.unzip();
        let bytes = 21 * keys.len() as u64;
        let input = server::Input::RegisterBuffer { call, buffer, bytes, workers, keys };
        self.tell_server(nth, input);
    }

    /// A server registers slots for two keys of a worker.
    pub(crate) fn register(&mut self, nth: usize, worker: usize, sizes: u8) {
        let buffer = self.memory(Content::Buffer);
        let call = self.call();
        let worker = WorkerRank::new(u32::try_from(worker).unwrap());
        let (workers, keys) = (vec![worker; 2], vec![key(sizes), key(sizes / 4 + 1 + sizes % 3)]);
        if keys[0] == keys[1] {
            return;
        }
        let bytes = 2 * u64::from(sizes % 30);
        let input = server::Input::RegisterBuffer { call, buffer, bytes, workers, keys };
        self.tell_server(nth, input);
    }
}
