//! An error reaches all: when one who polls for errors is told one, all others who poll in that life
//! are, and everybody who polls in it later is at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use rondo_core::coordination::{Call, Method, Reply};
use rondo_core::ids::{CallId, Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Detail, Status};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};
use crate::swarm::{CoordinationShape, namespace_name};
use crate::workload::kind::tells_error;

/// So many syncs may end until a poll is answered.
const SYNCS_MAX: u32 = 4;

type Life = (Arc<str>, ServiceIncarnation);

pub(super) struct Errors {
    /// Namespaces whose tasks may come back: their errors are nobody else's.
    recoverable: BTreeSet<String>,
    /// Who polls, with how many syncs have ended since the error was told.
    polls: CallMap<(Life, u32)>,
    /// Polls that say for which task and of which of its processes they are, and whether another process
    /// was the task already when they came.
    processes: CallMap<(TaskIndex, Incarnation, bool)>,
    /// Errors that tasks report, with the polls that waited when each came.
    reports: CallMap<(Life, Vec<CallId>)>,
    /// Lives with an error that somebody was told.
    spread: BTreeSet<Life>,
}

impl Errors {
    pub(super) fn new(coordination: Option<&CoordinationShape>) -> Self {
        let shapes = coordination.into_iter().flat_map(|shape| &shape.namespaces);
        let recoverable = (0..).zip(shapes).filter(|(_, shape)| shape.recoverable);
        Self {
            recoverable: recoverable.map(|(number, _)| namespace_name(number)).collect(),
            polls: CallMap::default(),
            processes: CallMap::default(),
            reports: CallMap::default(),
            spread: BTreeSet::new(),
        }
    }

    /// What a poll's answer depends on is durable after some syncs.
    fn check(&mut self) -> Verdict {
        for (call, (life, syncs)) in self.polls.iter_mut() {
            let is_spread = self.spread.contains(life);
            if is_spread {
                reached(Check::ErrorReachesAll);
            }
            *syncs = if is_spread { syncs.saturating_add(1) } else { 0 };
            if *syncs > SYNCS_MAX {
                let (namespace, life) = life;
                return Err(format!(
                    "others were told an error in life {life} of {namespace}, and call {call} \
                     still polls for one"
                ));
            }
        }
        Ok(())
    }

    fn asked(&mut self, call: CallId, asked: &Call, shadow: &Shadow) -> Verdict {
        let namespace = shadow.coordination().named(&asked.namespace);
        let Some(life) = namespace.map(|of| (asked.namespace.clone(), of.head().incarnation))
        else {
            return Ok(());
        };
        // A poll that is meant for another life is refused, and learns nothing of this one.
        let is_of_another = asked.caller.life.is_some_and(|meant| meant != life.1);
        match &asked.method {
            Method::PollForError { .. } if is_of_another => {}
            Method::PollForError { task } => {
                let known = namespace.and_then(|of| of.tasks().get(&task.index));
                let process = asked.caller.incarnation.map(|process| {
                    let is_former = known.is_some_and(|known| known.incarnation != process);
                    (task.index, process, is_former)
                });
                self.processes.extend(process.map(|process| (call, process)));
                self.polls.insert(call, (life, 0));
            }
            Method::ReportErrorToService { .. } => {
                let waiting = self.polls.iter().filter(|(_, (polled, _))| *polled == life);
                let waiting = waiting.map(|(poll, _)| *poll).collect();
                self.reports.insert(call, (life, waiting));
            }
            _ => {}
        }
        Ok(())
    }

    fn told(&mut self, call: CallId, answer: &Result<Reply, Status>, shadow: &Shadow) {
        let polled = self.polls.remove(&call).map(|(life, _)| life);
        let process = self.processes.remove(&call);
        if let (Some(life), Err(status)) = (polled, answer)
            && tells_error(status)
            && !is_for_a_former_process(&life, process, status, shadow)
            && status
                .details
                .iter()
                .all(|detail| matches!(detail, Detail::CoordinationService { .. }))
            && is_of_the_job(status)
        {
            self.spread.insert(life);
        }
        let reported = self.reports.remove(&call);
        let reported = reported.filter(|(life, _)| !self.recoverable.contains(&*life.0));
        // Who polls from then on may be a task that is in error for it, and hears that.
        if let (Some((life, waiting)), Ok(Reply::ErrorReported)) = (reported, answer)
            && waiting.iter().any(|poll| self.polls.contains_key(poll))
        {
            self.spread.insert(life);
        }
    }
}

/// Whether a poll of a former process of its task is refused for that: it is no error of the job. Two
/// processes at once that say they are the same task are one, in the same words, of present processes.
fn is_for_a_former_process(
    life: &Life,
    process: Option<(TaskIndex, Incarnation, bool)>,
    status: &Status,
    shadow: &Shadow,
) -> bool {
    let namespace = shadow.coordination().named(&life.0);
    let is_former = process.is_some_and(|(task, process, was_former)| {
        let known = namespace.and_then(|namespace| namespace.tasks().get(&task));
        was_former || known.is_some_and(|known| known.incarnation != process)
    });
    is_former && status.code == Code::Aborted && status.details == [Detail::SERVICE]
}

/// Whether it is an error that concerns all, not a refusal of the poll itself: a task that is in error may
/// not poll.
const fn is_of_the_job(status: &Status) -> bool {
    !matches!(status.code, Code::InvalidArgument | Code::Unavailable | Code::FailedPrecondition)
}

impl Oracle for Errors {
    fn name(&self) -> &'static str {
        "error-reaches-all"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Durable, SeenKind::Asked, SeenKind::Told, SeenKind::GivenUp, SeenKind::Died]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Durable(_) => return self.check(),
            Seen::Asked { call, asked, .. } => return self.asked(*call, asked, shadow),
            Seen::Told { call, answer, .. } => self.told(*call, answer, shadow),
            Seen::GivenUp { call } => {
                self.polls.remove(call);
                self.processes.remove(call);
            }
            Seen::Died => {
                self.polls.clear();
                self.processes.clear();
                self.reports.clear();
            }
            _ => {}
        }
        Ok(())
    }
}
