//! How a run ends: cut off; or healed, where all must get on; or left to itself, where nothing must stay.

use rondo_core::ids::StepId;
use rondo_core::rendezvous::{Input, Key};

use super::event::{Event, Purpose};
use super::job::{Edge, Plan};
use super::worker::Being;
use super::{MS, Phase, World};
use crate::mark::Mark;
use crate::oracle::Waiting;
use crate::oracle::rendezvous::Met;
use crate::swarm::Ending;

/// How far all has settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Settling {
    /// Whatever was under way has come.
    UnderWay,
    /// All old steps are over.
    Cleaned,
    /// Some have not got on in the last step; since when, in ns.
    LastStep(u64),
    /// All steps are over.
    Emptied,
}

/// Longer than anything is under way, a copy of a message that comes late among it, in ns.
const UNDER_WAY_NS: u64 = 40_000 * MS;
/// Between two looks at who has got on, in ns.
const CHECK_NS: u64 = 500 * MS;
/// Within so long all must have got on in the last step, in ns.
const LAST_STEP_NS: u64 = 120_000 * MS;

impl World {
    /// Things have gone wrong long enough.
    pub(super) fn end(&mut self) {
        if self.swarm.ending == Ending::Cut {
            self.phase = Phase::Over;
            return;
        }
        self.heal();
        let patience_ns = self.shape.settings.patience_ms.saturating_mul(MS);
        let lasts_ns = self.shape.lasts_ms.saturating_mul(10 * MS);
        let expiry_ns = self.shape.settings.expiry_ms.saturating_mul(2 * MS);
        let wait_ns = match self.swarm.ending {
            Ending::Drain => UNDER_WAY_NS.max(lasts_ns).saturating_add(expiry_ns),
            _ => UNDER_WAY_NS,
        };
        let at_ns = self.now_ns.saturating_add(wait_ns).saturating_add(patience_ns);
        self.queue.plan(at_ns, Event::Settled(Settling::UnderWay));
    }

    /// Everything is as it should be from here on.
    fn heal(&mut self) {
        self.phase = Phase::Healed;
        self.net.heal();
        for worker in 0..self.shape.workers {
            match self.worker(worker).map(|worker| worker.being) {
                Some(Being::Paused) => self.queue.plan(self.now_ns, Event::Resume(worker)),
                Some(Being::Down) => self.queue.plan(self.now_ns, Event::Reborn(worker)),
                Some(Being::Up) | None => {}
            }
        }
    }

    /// All has settled so far.
    pub(super) fn settled(&mut self, settling: Settling) {
        match settling {
            Settling::UnderWay if self.swarm.ending == Ending::Drain => {
                if self.shape.settings.expiry_ms == 0 {
                    self.clean_all_up();
                }
                self.settle(1000 * MS, Settling::Emptied);
            }
            Settling::UnderWay => {
                self.look_who_waits();
                self.clean_all_up();
                self.settle(1000 * MS, Settling::Cleaned);
            }
            Settling::Cleaned => {
                self.plan_last_step();
                self.settle(CHECK_NS, Settling::LastStep(self.now_ns));
            }
            Settling::LastStep(since_ns) => self.look_who_got_on(since_ns),
            Settling::Emptied => {
                self.look_what_is_left();
                self.phase = Phase::Over;
            }
        }
    }

    fn settle(&mut self, after_ns: u64, settling: Settling) {
        self.queue.plan(self.now_ns.saturating_add(after_ns), Event::Settled(settling));
    }

    fn clean_all_up(&mut self) {
        for worker in 0..self.shape.workers {
            self.step(worker, Input::CleanupAll);
        }
    }

    /// Nobody waits for a tensor that is there.
    fn look_who_waits(&mut self) {
        let mut waits: Vec<(u32, u32, StepId, Key)> = Vec::new();
        for (number, worker) in (0..).zip(&self.workers) {
            let fetches = worker.process.as_ref().map(|process| process.fetches.values());
            let fetches = fetches.into_iter().flatten();
            waits.extend(fetches.map(|it| (number, it.server, it.step, it.key.clone())));
        }
        for (worker, source, step, key) in &waits {
            self.see(&Met::Waits { worker: *worker, source: *source, step: *step, key });
        }
    }

    /// A step in which each worker sends to each.
    fn plan_last_step(&mut self) {
        let workers: Vec<u32> = (0..self.shape.workers).collect();
        let pairs = workers.iter().flat_map(|from| workers.iter().map(move |to| (*from, *to)));
        let edge = |(from, to)| Edge {
            from,
            to,
            name: "last".to_owned(),
            iter: 0,
            values: 1,
            received: 0,
        };
        let edges = pairs.map(edge).collect();
        self.job.last_step = self.job.last_step.wrapping_add(1);
        let (step, over) = (StepId::new(self.job.last_step), Vec::new());
        self.plan(Plan { step, edges, workers, over, is_last: true });
    }

    fn look_who_got_on(&mut self, since_ns: u64) {
        let edges = self.job.plans.last().map(|plan| plan.edges.clone()).unwrap_or_default();
        let waits = edges.iter().filter(|edge| edge.received < edge.values);
        let waiting: Vec<Waiting> = waits
            .map(|edge| Waiting {
                who: format!("worker {}", edge.to),
                what: format!("it has no tensor of worker {} in the last step", edge.from),
            })
            .collect();
        if !waiting.is_empty() && self.now_ns.saturating_sub(since_ns) <= LAST_STEP_NS {
            return self.settle(CHECK_NS, Settling::LastStep(since_ns));
        }
        self.see(&Met::HealedLongAgo { waiting: &waiting });
        self.clean_all_up();
        self.settle(UNDER_WAY_NS, Settling::Emptied);
    }

    /// All steps are over: nothing is left, and nobody waits.
    fn look_what_is_left(&mut self) {
        let mut waiting = Vec::new();
        for number in 0..self.shape.workers {
            let Some(worker) = self.workers.get(number as usize) else {
                continue;
            };
            let Some(process) = &worker.process else {
                continue;
            };
            let met = Met::Emptied { worker: number, machine: &process.machine };
            super::see(&met, self.now_ns, &mut self.oracles, &mut self.broken);
            let users = process.callers.values().filter(|it| !matches!(it, Purpose::Serve { .. }));
            waiting.extend(users.map(|purpose| Waiting {
                who: format!("somebody at worker {number}"),
                what: format!("{purpose:?} is not answered"),
            }));
        }
        self.see(&Met::HealedLongAgo { waiting: &waiting });
        self.mark(Mark::NothingLeft);
        self.mark(Mark::RendezvousEmptied);
    }
}
