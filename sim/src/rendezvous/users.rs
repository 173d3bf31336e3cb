//! What users do at their workers, and what they do about what they are told.

use rondo_core::element::Tensor;
use rondo_core::rendezvous::{Args, Delivery, FrameAndIter, Input, Key, Session};
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use super::event::{Act, Event, Purpose};
use super::worker::Being;
use super::{MS, World};
use crate::mark::Mark;
use crate::oracle::rendezvous::Met;

/// Whoever is refused tries again so often, and in the last step for ever.
const TRIES_MAX: u32 = 12;
/// The pause before that, in ns.
const PAUSE_NS: u64 = 100 * MS;
/// Codes with which steps are aborted.
const REASONS: [Code; 4] = [Code::Internal, Code::Aborted, Code::Cancelled, Code::Unavailable];

impl World {
    /// Somebody does something, if its worker is there; when that stands still, later.
    pub(super) fn act(&mut self, place: u32) {
        let Some(act) = self.job.acts.get(place as usize).copied() else {
            return;
        };
        let worker = self.worker_of(act);
        if self.is_held(worker, Event::Act(place)) {
            return;
        }
        if self.worker(worker).is_none_or(|worker| worker.being == Being::Down) {
            return;
        }
        match act {
            Act::Find { plan, .. } => {
                let (call, step) = (self.next_call(), self.job.plan(plan).map(|plan| plan.step));
                if let Some(step) = step {
                    self.step(worker, Input::Find { call, step });
                }
            }
            Act::Initialize { plan, .. } => self.initialize(plan, worker),
            Act::Send { plan, edge, tries } => self.send_tensor(worker, plan, edge, tries),
            Act::Receive { plan, edge, tries, is_local } => {
                self.receive(worker, (plan, edge), tries, is_local);
            }
            Act::Cancel { life, call, .. } => {
                if self.worker(worker).is_some_and(|worker| worker.life == life) {
                    self.step(worker, Input::Cancel { call });
                }
            }
            Act::Abort { plan, .. } => self.abort(plan, worker),
            Act::Cleanup { plan, .. } => self.clean_up(plan, worker),
        }
    }

    fn worker_of(&self, act: Act) -> u32 {
        match act {
            Act::Find { worker, .. }
            | Act::Initialize { worker, .. }
            | Act::Cancel { worker, .. }
            | Act::Abort { worker, .. }
            | Act::Cleanup { worker, .. } => worker,
            Act::Send { plan, edge, .. } => self.job.edge(plan, edge).map_or(0, |(_, it)| it.from),
            Act::Receive { plan, edge, is_local, .. } => {
                let of = |(_, edge): (_, &super::job::Edge)| match is_local {
                    true => edge.from,
                    false => edge.to,
                };
                self.job.edge(plan, edge).map_or(0, of)
            }
        }
    }

    fn initialize(&mut self, plan: u32, worker: u32) {
        let Some(plan) = self.job.plan(plan) else {
            return;
        };
        let (step, is_last, call) = (plan.step, plan.is_last, self.next_call());
        let astray = if is_last { 0 } else { self.shape.astray };
        let Some(name) = self.worker(worker).map(|worker| worker.name.clone()) else {
            return;
        };
        // Another name than that of a step that is initialised is refused.
        let is_known = self.worker(worker).and_then(|it| it.process.as_ref()).is_some_and(|it| {
            it.machine.each_step().any(|it| it.step == step && it.is_initialized)
        });
        let worker_name = match is_known && self.job.stream.chance(astray) {
            true => "/job:other/replica:0/task:7".into(),
            false => name,
        };
        let session = Session { worker_name };
        self.step(worker, Input::Initialize { call, step, session });
    }

    /// The key of an edge, with the incarnation of its source as a worker knows it.
    fn key(&mut self, plan: u32, edge: u32, at: u32, is_astray: bool) -> Option<Key> {
        let (_, edge) = self.job.edge(plan, edge)?;
        let (from, to, name) = (edge.from, edge.to, edge.name.clone());
        let iter_id = edge.iter;
        let (source, destination) = (self.worker(from)?.device(), self.worker(to)?.device());
        let own = self.worker(at)?.process.as_ref()?.incarnation;
        let known = self.worker(at)?.known.get(&from).copied();
        let incarnation = if at == from { own } else { known.unwrap_or(1) };
        let other = "/job:other/replica:0/task:7/device:CPU:0".to_owned();
        let (source, destination) = match is_astray {
            true if at == from => (other, destination),
            true => (source, other),
            false => (source, destination),
        };
        let at = FrameAndIter { frame_id: 0, iter_id };
        Key::create(&source, incarnation, &destination, &name, at).ok()
    }

    fn some_args(&mut self) -> Args {
        let device_context = self.job.stream.below(3);
        Args { device_context, on_host: device_context == 2, ..Args::default() }
    }

    fn send_tensor(&mut self, worker: u32, plan: u32, edge: u32, tries: u32) {
        let is_last = self.job.plan(plan).is_some_and(|plan| plan.is_last);
        let (astray, waits) = (self.shape.astray, self.shape.waits);
        let is_astray = !is_last && self.job.stream.chance(astray);
        let Some(key) = self.key(plan, edge, worker, is_astray) else {
            return;
        };
        let bytes_max = if is_last { 16 } else { self.shape.bytes };
        let (call, args, value) = (self.next_call(), self.some_args(), self.job.tensor(bytes_max));
        let Some(step) = self.job.plan(plan).map(|plan| plan.step) else {
            return;
        };
        self.see(&Met::Made { step, key: &key, value: &value });
        let waits = !is_last && self.job.stream.chance(waits);
        let (purpose, cancelled) = (Purpose::Send { plan, edge, tries }, self.shape.cancelled);
        self.ask(worker, purpose, Input::Send { call, step, key, args, value, waits }, call);
        if waits {
            self.maybe_cancel(worker, call, cancelled);
        }
    }

    fn receive(&mut self, worker: u32, (plan, edge): (u32, u32), tries: u32, is_local: bool) {
        let is_last = self.job.plan(plan).is_some_and(|plan| plan.is_last);
        let shape = &self.shape;
        let (astray, timed, cancelled) = (shape.astray, shape.timed, shape.cancelled);
        let lasts_ms = shape.lasts_ms.max(1);
        let is_astray = !is_last && self.job.stream.chance(astray);
        let Some(key) = self.key(plan, edge, worker, is_astray) else {
            return;
        };
        let s = &mut self.job.stream;
        let is_timed = !is_last && s.chance(timed);
        let timeout = is_timed.then(|| Duration::from_millis(s.between(1, lasts_ms)));
        let (call, args) = (self.next_call(), self.some_args());
        let Some(step) = self.job.plan(plan).map(|plan| plan.step) else {
            return;
        };
        let purpose = Purpose::Receive { plan, edge, tries, is_local, key: key.clone() };
        let input = match is_local {
            true => Input::RecvLocal { call, step, key, timeout, asked: None },
            false => Input::Recv { call, step, key, args, timeout },
        };
        self.ask(worker, purpose, input, call);
        if !is_last {
            self.maybe_cancel(worker, call, cancelled);
        }
    }

    fn maybe_cancel(&mut self, worker: u32, call: rondo_core::ids::CallId, likely: u32) {
        let mean_ms = self.shape.lasts_ms / 2;
        if self.job.stream.chance(likely)
            && let Some(life) = self.worker(worker).map(|worker| worker.life)
        {
            self.plan_act(mean_ms, Act::Cancel { worker, life, call });
        }
    }

    fn abort(&mut self, plan: u32, worker: u32) {
        let code = self.job.stream.pick(&REASONS).copied().unwrap_or(Code::Internal);
        if let Some(step) = self.job.plan(plan).map(|plan| plan.step) {
            let status = Status::new(code, "a kernel failed");
            self.step(worker, Input::Abort { step, status });
        }
    }

    fn clean_up(&mut self, plan: u32, worker: u32) {
        let Some(of) = self.job.plans.get_mut(plan as usize) else {
            return;
        };
        of.over.push(worker);
        let step = of.step;
        let reports = self.worker(worker).and_then(|it| it.process.as_ref());
        let report = reports.and_then(|it| it.machine.each_step().find(|it| it.step == step));
        match report {
            Some(report) if report.waiting > 0 && !report.is_initialized => {
                self.mark(Mark::CleanedUpBeforeInitialised);
            }
            Some(report) if report.waiting > 0 => self.mark(Mark::CleanedUpUnderWaiters),
            _ => {}
        }
        self.step(worker, Input::Cleanup { step });
    }

    /// A sender is answered.
    pub(super) fn is_sent(&mut self, _: u32, purpose: &Purpose, result: Result<(), Status>) {
        let Purpose::Send { plan, edge, tries } = *purpose else {
            return;
        };
        let is_last = self.job.plan(plan).is_some_and(|plan| plan.is_last);
        let again = match result {
            Ok(()) => false,
            Err(status) => is_last || status.code == Code::ResourceExhausted,
        };
        if again && (is_last || tries < TRIES_MAX) {
            let act = Act::Send { plan, edge, tries: tries.saturating_add(1) };
            self.plan_act_after(PAUSE_NS, act);
        }
    }

    /// A receiver is answered.
    pub(super) fn has_received(
        &mut self,
        worker: u32,
        purpose: &Purpose,
        result: Result<Delivery<Tensor>, Status>,
    ) {
        let Purpose::Receive { plan, edge, tries, is_local, ref key } = *purpose else {
            return;
        };
        let Some((of, on)) = self.job.edge(plan, edge) else {
            return;
        };
        let (step, is_last, from) = (of.step, of.is_last, on.from);
        let status = match result {
            Ok(delivery) => {
                self.see(&Met::Received { step, key, delivery: &delivery });
                if let Some(edge) = self.job.edge_mut(plan, edge) {
                    edge.received = edge.received.saturating_add(1);
                }
                return;
            }
            Err(status) => status,
        };
        let is_other_run = status.code == Code::Aborted && status.message.contains("incarnation");
        if is_other_run {
            self.mark(Mark::OtherIncarnation);
            self.read_incarnation(worker, from);
        }
        let is_over = self.job.plan(plan).is_some_and(|plan| plan.over.contains(&worker));
        let again = match status.code {
            Code::ResourceExhausted | Code::Unavailable => true,
            Code::DeadlineExceeded | Code::Cancelled => self.job.stream.chance(300),
            _ => is_other_run,
        };
        if is_last || again && !is_over && tries < TRIES_MAX {
            let tries = tries.saturating_add(1);
            self.plan_act_after(PAUSE_NS, Act::Receive { plan, edge, tries, is_local });
        }
    }
}
