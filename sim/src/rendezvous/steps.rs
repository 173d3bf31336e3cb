//! Steps as they begin: who sends what to whom, when, and how they end.

use rondo_core::ids::StepId;

use super::event::{Act, Event};
use super::job::{Edge, Plan};
use super::{MS, World};

/// Runs of a loop's body that have keys of their own.
const ITERATIONS: u64 = 3;
/// After a restart so many of the last steps are taken up again.
const TAKEN_UP: usize = 6;

impl World {
    /// A step begins, and the next one later.
    pub(super) fn next_step(&mut self) {
        if !self.faults_on() {
            return;
        }
        let pause_ms = self.shape.step_ms / 2 + self.job.stream.exponential(self.shape.step_ms);
        let at_ns = self.now_ns.saturating_add(pause_ms.max(1).saturating_mul(MS));
        self.queue.plan(at_ns, Event::NextStep);
        let (edges, step) = (self.some_edges(), self.some_step());
        let mut workers: Vec<u32> = edges.iter().flat_map(|edge| [edge.from, edge.to]).collect();
        workers.sort_unstable();
        workers.dedup();
        let over = Vec::new();
        self.plan(Plan { step, edges, workers, over, is_last: false });
    }

    fn some_edges(&mut self) -> Vec<Edge> {
        let (workers, shape) = (u64::from(self.shape.workers), &self.shape);
        let s = &mut self.job.stream;
        let count = s.between(1, shape.edges.max(1));
        let some = |s: &mut crate::rng::Stream| u32::try_from(s.below(workers)).unwrap_or(0);
        (0..count)
            .map(|number| Edge {
                from: some(s),
                to: some(s),
                name: format!("edge_{number}"),
                iter: s.below(ITERATIONS).cast_signed(),
                values: s.between(1, shape.values.max(1)),
                received: 0,
            })
            .collect()
    }

    /// Mostly a step that nobody has used, sometimes one that was cleaned up everywhere.
    fn some_step(&mut self) -> StepId {
        let is_over = |plan: &&Plan| plan.over.len() >= plan.workers.len();
        let last = self.job.plans.iter().rev().take(TAKEN_UP).find(is_over);
        let former = last.map(|plan| plan.step);
        if let Some(step) = former.filter(|_| self.job.stream.chance(100)) {
            return step;
        }
        self.job.last_step = self.job.last_step.wrapping_add(1);
        StepId::new(self.job.last_step)
    }

    /// Plans all that is done in a step.
    pub(super) fn plan(&mut self, plan: Plan) {
        let number = u32::try_from(self.job.plans.len()).unwrap_or(u32::MAX);
        let (workers, edges, is_last) = (plan.workers.clone(), plan.edges.clone(), plan.is_last);
        self.job.plans.push(plan);
        for worker in &workers {
            self.plan_beginning(number, *worker, is_last);
        }
        for (edge, of) in (0..).zip(&edges) {
            for _ in 0..of.values {
                self.plan_send(number, edge, is_last);
                self.plan_receive(number, edge, is_last);
            }
        }
        if !is_last {
            self.plan_end(number, &workers);
        }
    }

    /// Somebody does something within so many ms, on average.
    pub(super) fn plan_act(&mut self, mean_ms: u64, act: Act) {
        let late_us = self.job.stream.exponential(mean_ms.saturating_mul(1000));
        self.plan_act_after(late_us.saturating_mul(1000), act);
    }

    pub(super) fn plan_act_after(&mut self, late_ns: u64, act: Act) {
        let place = u32::try_from(self.job.acts.len()).unwrap_or(u32::MAX);
        self.job.acts.push(act);
        self.queue.plan(self.now_ns.saturating_add(late_ns), Event::Act(place));
    }

    fn plan_beginning(&mut self, plan: u32, worker: u32, at_once: bool) {
        let lasts_ms = self.shape.lasts_ms;
        let (never, late) = (self.shape.never, self.shape.late);
        if at_once {
            return self.plan_act_after(0, Act::Initialize { plan, worker });
        }
        if self.job.stream.chance(never) {
            return;
        }
        let mean_ms = if self.job.stream.chance(late) { lasts_ms } else { 1 };
        if self.job.stream.chance(200) {
            self.plan_act(mean_ms / 2, Act::Find { plan, worker });
        }
        self.plan_act(mean_ms, Act::Initialize { plan, worker });
        if self.job.stream.chance(30) {
            self.plan_act(lasts_ms, Act::Initialize { plan, worker });
        }
    }

    fn plan_send(&mut self, plan: u32, edge: u32, at_once: bool) {
        let mean_ms = if at_once { 1 } else { self.shape.lasts_ms / 2 };
        self.plan_act(mean_ms, Act::Send { plan, edge, tries: 0 });
    }

    fn plan_receive(&mut self, plan: u32, edge: u32, at_once: bool) {
        let mean_ms = if at_once { 1 } else { self.shape.lasts_ms / 2 };
        let is_local = !at_once && self.job.stream.chance(80);
        self.plan_act(mean_ms, Act::Receive { plan, edge, tries: 0, is_local });
    }

    fn plan_end(&mut self, plan: u32, workers: &[u32]) {
        let lasts_ms = self.shape.lasts_ms;
        if self.job.stream.chance(self.shape.aborted) {
            let worker = self.job.stream.pick(workers).copied().unwrap_or(0);
            self.plan_act(lasts_ms, Act::Abort { plan, worker });
        }
        if self.job.stream.chance(self.shape.forgotten) {
            return;
        }
        let after_ms = lasts_ms / 2 + self.job.stream.exponential(lasts_ms);
        for worker in workers {
            let late_ms = after_ms.saturating_add(self.job.stream.exponential(20));
            let act = Act::Cleanup { plan, worker: *worker };
            self.plan_act_after(late_ms.saturating_mul(MS), act);
        }
    }

    /// A worker that was restarted takes up the steps that are not over: what it had sent is gone, and so
    /// is who waited there.
    pub(super) fn take_up(&mut self, worker: u32) {
        let all = self.job.plans.len();
        for number in all.saturating_sub(TAKEN_UP)..all {
            let Some(plan) = self.job.plans.get(number) else {
                continue;
            };
            if plan.over.contains(&worker) || !plan.workers.contains(&worker) {
                continue;
            }
            let (edges, number) = (plan.edges.clone(), u32::try_from(number).unwrap_or(0));
            let is_last = plan.is_last;
            self.plan_beginning(number, worker, is_last);
            for (edge, of) in (0..).zip(&edges) {
                for _ in of.received..of.values {
                    if of.from == worker {
                        self.plan_send(number, edge, is_last);
                    }
                    if of.to == worker {
                        self.plan_receive(number, edge, is_last);
                    }
                }
            }
        }
    }
}
