//! The service names to a caller of GetAliveTasks only tasks that asked about the same tasks at the time,
//! and of each the process that takes part, not one that asked in its place before.

use std::sync::Arc;

use rondo_core::coordination::{Call, Method, Reply};
use rondo_core::ids::{CallId, Incarnation, TaskIndex};
use rondo_core::status::Status;
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

/// The job of each namespace.
const JOB: &str = "jax_worker";

/// A call that asks who is alive.
#[derive(Clone, Debug)]
struct Asked {
    namespace: Arc<str>,
    /// Of whom, in order.
    of: Vec<TaskIndex>,
    task: TaskIndex,
    /// The process that asks, if it says so.
    run: Option<Incarnation>,
    /// Whether a relay may ask again for an answer that is kept.
    is_marked: bool,
    /// When it came and when it ended, counted.
    from: u64,
    upto: Option<u64>,
}

/// All calls that ask who is alive, in the node's present process.
#[derive(Debug, Default)]
pub(super) struct Alive {
    asked: CallMap<Asked>,
    count: u64,
}

impl Alive {
    const fn counted(&mut self) -> u64 {
        self.count = self.count.saturating_add(1);
        self.count
    }

    fn asked(&mut self, call: CallId, asked: &Call) {
        let Method::GetAliveTasks { requester, tasks } = &asked.method else {
            return;
        };
        // Tasks of another job are nobody's here.
        let own = tasks.iter().filter(|task| task.job.as_ref().is_none_or(|job| **job == *JOB));
        let mut of: Vec<TaskIndex> = own.map(|task| task.index).collect();
        of.sort_unstable();
        of.dedup();
        let asked = Asked {
            namespace: asked.namespace.clone(),
            of,
            task: requester.index,
            run: asked.caller.incarnation,
            is_marked: asked.caller.stamp.is_some(),
            from: self.counted(),
            upto: None,
        };
        self.asked.insert(call, asked);
    }

    fn ended(&mut self, call: CallId) {
        let at = self.counted();
        if let Some(asked) = self.asked.get_mut(&call) {
            asked.upto = Some(at);
        }
    }

    fn told(&mut self, call: CallId, answer: &Result<Reply, Status>) -> Verdict {
        let Some(asked) = self.asked.get(&call).cloned() else {
            return Ok(());
        };
        let verdict = match answer {
            // Nobody hears the answer to a call that was given up.
            Ok(Reply::Alive(alive)) if !asked.is_marked && asked.upto.is_none() => {
                self.have_asked(&asked, alive)
            }
            _ => Ok(()),
        };
        self.ended(call);
        self.forget();
        verdict
    }

    fn have_asked(&self, told: &Asked, alive: &[(TaskIndex, Incarnation)]) -> Verdict {
        reached(Check::AliveAsked);
        for (task, run) in alive {
            let is_it = |of: &Asked| {
                let same = of.namespace == told.namespace && of.of == told.of && of.task == *task;
                let overlaps = of.upto.is_none_or(|upto| upto > told.from);
                same && overlaps && of.run.is_none_or(|of| of == *run)
            };
            if !self.asked.values().any(is_it) {
                return Err(format!(
                    "task {} of {} is told that run {run} of task {task} is alive, which has not asked",
                    told.task, told.namespace
                ));
            }
        }
        Ok(())
    }

    /// Forgets what ended before all that is under way came.
    fn forget(&mut self) {
        let open = self.asked.values().filter(|of| of.upto.is_none()).map(|of| of.from);
        let first = open.min().unwrap_or(u64::MAX);
        self.asked.retain(|_, of| of.upto.is_none_or(|upto| upto > first));
    }
}

impl Oracle for Alive {
    fn name(&self) -> &'static str {
        "alive"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Asked, SeenKind::Told, SeenKind::GivenUp, SeenKind::Died]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Asked { call, asked, .. } => self.asked(*call, asked),
            Seen::Told { call, answer, .. } => return self.told(*call, answer),
            Seen::GivenUp { call } => self.ended(*call),
            Seen::Died => self.asked.clear(),
            _ => {}
        }
        Ok(())
    }
}
