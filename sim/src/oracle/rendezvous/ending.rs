//! Steps that end: all who wait are told, and nothing stays.

use std::collections::BTreeSet;

use rondo_core::element::Tensor;
use rondo_core::ids::{CallId, StepId};
use rondo_core::rendezvous::{Held, Input, Rendezvous};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use super::super::Broken;
use super::book::{Book, Call, Role};
use super::ledger::{Ledger, Seen, Turn, wrong};
use crate::checks::{Check, reached};

impl Ledger {
    /// A step is aborted, unless it was before.
    pub(super) fn abort(&mut self, step: StepId, status: &Status) {
        let Some(book) = self.steps.get_mut(&step).filter(|book| book.status.is_none()) else {
            return;
        };
        let mut status = status.clone();
        if matches!(status.code, Code::Aborted | Code::Cancelled) {
            status.message.insert_str(0, "[_Derived_]");
        }
        let (is_initialized, used) = (book.is_initialized, book.used);
        let held = std::mem::take(&mut book.held);
        book.lines.clear();
        self.forget(step, held, &status);
        let (lines, held) = Default::default();
        let ended = Book { is_initialized, status: Some(status), lines, held, used };
        self.steps.insert(step, ended);
    }

    /// What was held of a step counts no more, and who waits in it is to be told.
    fn forget(&mut self, step: StepId, held: Held, status: &Status) {
        self.held.tensors = self.held.tensors.saturating_sub(held.tensors);
        self.held.bytes = self.held.bytes.saturating_sub(held.bytes);
        self.given.retain(|_, given| given.step != step);
        for waiting in self.calls.values_mut().filter(|it| it.step == step && it.ends.is_none()) {
            waiting.ends = Some(status.clone());
        }
    }

    fn remove(&mut self, step: StepId, status: &Status) {
        if let Some(book) = self.steps.remove(&step) {
            self.forget(step, book.held, status);
        }
    }

    pub(super) fn cleaned_up(&mut self, step: StepId) {
        self.remove(step, &Status::new(Code::Aborted, format!("Cleanup {step}")));
    }

    pub(super) fn all_cleaned_up(&mut self) {
        let steps: Vec<StepId> = self.steps.keys().copied().collect();
        for step in steps {
            self.remove(step, &Status::new(Code::Aborted, "Shutdown"));
        }
    }

    /// Steps that are not there any more have been given up, and it was time.
    pub(super) fn expired(
        &mut self,
        now: Time,
        machine: &Rendezvous<Tensor>,
    ) -> Result<BTreeSet<StepId>, Broken> {
        let Some(expiry) = self.config.step_expiry else {
            return Ok(BTreeSet::new());
        };
        let there: Vec<StepId> = machine.each_step().map(|step| step.step).collect();
        let gone: Vec<(StepId, Time)> = self
            .steps
            .iter()
            .filter(|(step, _)| there.binary_search(step).is_err())
            .map(|(step, book)| (*step, book.used))
            .collect();
        for &(step, used) in &gone {
            reached(Check::RendezvousExpiry);
            if used.after(expiry) > now {
                let idle = now.since(used).as_millis();
                return wrong("expiry", format!("step {step} is given up after {idle} idle ms"));
            }
            let text = format!(
                "step {step} is given up: nothing happened with it for {} ms \
                 (--rendezvous-step-expiry), and nobody cleaned it up",
                expiry.as_millis()
            );
            self.remove(step, &Status::new(Code::Aborted, text));
        }
        Ok(gone.into_iter().map(|(step, _)| step).collect())
    }

    /// A step ended: somebody aborted it, or what was taken on before it was initialised was none of its.
    pub(super) fn aborted(&mut self, turn: &Turn<'_>, step: StepId, status: &Status) -> Seen {
        if matches!(turn.input, Input::Abort { step: it, .. } if *it == step) {
            return Ok(());
        }
        let lines = self.steps.get(&step).map(|book| &book.lines);
        let queues = lines.into_iter().flat_map(|lines| lines.values());
        let is_astray = queues.flat_map(|it| &it.tensors).any(|sent| !sent.is_home);
        if !is_astray || status.code != Code::InvalidArgument {
            return wrong("told", format!("step {step} ends, and nobody ended it: {status}"));
        }
        self.abort(step, status);
        Ok(())
    }

    /// Whether a call is told what its step ended with; it must be told nothing else.
    pub(super) fn is_told_of_end(
        &self,
        turn: &Turn<'_>,
        call: CallId,
        waiting: &Call,
        status: &Status,
    ) -> Result<bool, Broken> {
        if let (Some(_), Role::Fetcher(fetch)) = (&waiting.ends, &waiting.role)
            && fetch.is_open
            && !turn.withdrawn.contains(&call)
        {
            return wrong("fetch", format!("the step of {call} has ended, and it is fetched"));
        }
        match &waiting.ends {
            None => Ok(false),
            Some(_) if turn.expired.contains(&waiting.step) && self.is_too_late(turn, waiting) => {
                Ok(status.code == Code::DeadlineExceeded)
            }
            Some(ends) if ends == status => Ok(true),
            Some(ends) => wrong("ended", format!("{call} is told {status} instead of {ends}")),
        }
    }

    fn is_too_late(&self, turn: &Turn<'_>, waiting: &Call) -> bool {
        waiting.due.is_some_and(|due| due <= turn.now)
    }
}
