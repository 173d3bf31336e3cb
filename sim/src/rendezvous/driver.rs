//! Drives a worker's machine: an input in, its effects carried out in their order.

use rondo_core::element::Tensor;
use rondo_core::ids::CallId;
use rondo_core::rendezvous::{Delivery, Effect, Input, Rendezvous};
use rondo_core::status::Status;

use super::event::{Event, Purpose};
use super::worker::{Being, Process};
use super::{World, lane, see};
use crate::oracle::rendezvous::Met;
use crate::trace::{LineKind, of_rendezvous_effect, of_rendezvous_input};

impl World {
    /// A worker's process begins, if there is none.
    pub(super) fn begin_process(&mut self, number: u32) {
        let settings = self.shape.settings;
        let Some(worker) = self.worker(number).filter(|worker| worker.process.is_none()) else {
            return;
        };
        let incarnation = worker.stream.between(1, u64::MAX - 1);
        let entropy = worker.stream.below(u64::MAX);
        let config = settings.config(&worker.name, incarnation, entropy);
        let name = worker.name.clone();
        let machine = match Rendezvous::start(config.clone()) {
            Ok(machine) => machine,
            Err(status) => unreachable!("{name} is a worker's name: {status}"),
        };
        worker.being = Being::Up;
        worker.life = worker.life.wrapping_add(1);
        worker.process = Some(Process {
            machine,
            incarnation,
            callers: Default::default(),
            fetches: Default::default(),
            finished: Default::default(),
            wakes_at_ns: None,
        });
        self.trace.hash(self.now_ns, 0xbe, incarnation);
        self.note(number, || format!("begins, incarnation {incarnation:016x}"));
        self.see(&Met::Began { worker: number, name: &name, config: &config });
    }

    /// Somebody asks a worker's machine for something, and is answered later.
    pub(super) fn ask(
        &mut self,
        worker: u32,
        purpose: Purpose,
        input: Input<Tensor>,
        call: CallId,
    ) {
        if let Some(process) = self.worker(worker).and_then(|worker| worker.process.as_mut()) {
            process.callers.insert(call, purpose);
            self.step(worker, input);
        }
    }

    /// A worker's machine takes an input.
    pub(super) fn step(&mut self, number: u32, input: Input<Tensor>) {
        let now_ns = self.now_ns;
        let Some(worker) = self.workers.get_mut(number as usize) else {
            return;
        };
        let Some(process) = worker.process.as_mut() else {
            return;
        };
        let now = worker.clock.shows(now_ns);
        let mut effects = std::mem::take(&mut self.effects);
        process.machine.step(now, input.clone(), &mut effects);
        self.steps = self.steps.wrapping_add(1);
        self.trace.hash(now_ns, u64::from(number), of_rendezvous_input(&input));
        self.trace.line(now_ns, lane(number), LineKind::Input, || format!("{input:?}"));
        for effect in &effects {
            self.trace.hasher().add(of_rendezvous_effect(effect));
            self.trace.line(now_ns, lane(number), LineKind::Effect, || format!("{effect:?}"));
        }
        let machine = &process.machine;
        let met = Met::Stepped { worker: number, now, input: &input, effects: &effects, machine };
        see(&met, now_ns, &mut self.oracles, &mut self.broken);
        self.mark_effects(&input, &effects);
        for effect in effects.drain(..) {
            self.carry_out(number, effect);
        }
        self.effects = effects;
        self.plan_tick(number);
    }

    fn carry_out(&mut self, worker: u32, effect: Effect<Tensor>) {
        match effect {
            Effect::Done { .. } | Effect::Observe(_) => {}
            Effect::Sent { call, result } => {
                if let Some(purpose) = self.caller(worker, call) {
                    self.is_sent(worker, &purpose, result);
                }
            }
            Effect::Received { call, result } => self.is_received(worker, call, result),
            Effect::Fetch { call, step, key, worker: name, request } => {
                self.fetch(worker, call, (step, key), &name, request);
            }
            Effect::Withdraw { call } => self.withdraw(worker, call),
        }
    }

    fn caller(&mut self, worker: u32, call: CallId) -> Option<Purpose> {
        let process = self.worker(worker).and_then(|worker| worker.process.as_mut())?;
        process.callers.remove(&call)
    }

    fn is_received(&mut self, worker: u32, call: CallId, result: Result<Delivery<Tensor>, Status>) {
        match self.caller(worker, call) {
            Some(Purpose::Serve { connection }) => self.answer(connection, result),
            Some(purpose) => self.has_received(worker, &purpose, result),
            None => {}
        }
    }

    /// A worker's machine is woken when it wishes to be.
    fn plan_tick(&mut self, number: u32) {
        let now_ns = self.now_ns;
        let Some(worker) = self.worker(number) else {
            return;
        };
        let (life, clock) = (worker.life, worker.clock);
        let Some(process) = worker.process.as_mut() else {
            return;
        };
        let Some(deadline) = process.machine.deadline() else {
            return;
        };
        let at_ns = clock.when(deadline).max(now_ns);
        if process.wakes_at_ns.is_some_and(|wakes| wakes <= at_ns) {
            return;
        }
        process.wakes_at_ns = Some(at_ns);
        self.queue.plan(at_ns, Event::Tick(number, life));
    }

    pub(super) fn tick(&mut self, number: u32, life: u32) {
        let now_ns = self.now_ns;
        let Some(worker) = self.worker(number).filter(|worker| worker.life == life) else {
            return;
        };
        if worker.being == Being::Paused {
            worker.held.push(Event::Tick(number, life));
            return;
        }
        let Some(process) = worker.process.as_mut() else {
            return;
        };
        if process.wakes_at_ns.is_none_or(|wakes| wakes <= now_ns) {
            process.wakes_at_ns = None;
            self.step(number, Input::Tick);
        }
    }

    /// Keeps an event for later if a worker stands still.
    pub(super) fn is_held(&mut self, number: u32, event: Event) -> bool {
        let worker = self.worker(number).filter(|worker| worker.being == Being::Paused);
        match worker {
            Some(worker) => {
                worker.held.push(event);
                true
            }
            None => false,
        }
    }
}
