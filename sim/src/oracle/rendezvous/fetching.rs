//! Tensors of other workers: asked for under one request until they come, or nobody wants them any more.

use rondo_core::element::Tensor;
use rondo_core::ids::{CallId, RequestId, StepId};
use rondo_core::rendezvous::{Args, Delivery, Effect, Failure, Input, Key};
use rondo_core::status::{Code, Status};

use super::super::Broken;
use super::book::{Fetch, Role};
use super::ledger::{Ledger, Seen, Turn, wrong};
use crate::checks::{Check, reached};

impl Ledger {
    pub(super) fn fetches(
        &mut self,
        turn: &Turn<'_>,
        call: CallId,
        (step, key, worker): (StepId, &Key, &str),
        request: RequestId,
    ) -> Seen {
        let is_ours = self.is_home(key);
        let Some(waiting) =
            self.calls.get(&call).filter(|it| it.ends.is_none() || turn.expired.contains(&it.step))
        else {
            return wrong("fetch", format!("{call} has a tensor fetched, and does not wait"));
        };
        let source = key.source().worker().map(|source| source.to_string());
        let is_same = waiting.step == step && waiting.key == *key;
        if !is_same || is_ours || source.as_deref() != Some(worker) {
            return wrong(
                "fetch",
                format!("{call} wants {:?}, not {key} of {worker}", waiting.key),
            );
        }
        let text = waiting.key.text().to_owned();
        reached(Check::RendezvousFetch);
        match &waiting.role {
            Role::Fetcher(fetch) if fetch.request == request && !fetch.is_open => {}
            Role::Fetcher(fetch) => {
                let Fetch { request: first, is_open, .. } = fetch;
                return wrong(
                    "fetch",
                    format!("{call} asks under {first}, and now under {request}; open {is_open}"),
                );
            }
            _ if !self.drawn.insert(request) => {
                return wrong("fetch", format!("{call} asks under {request}, which is another's"));
            }
            _ => {}
        }
        let args = self.leave_line(step, &text, call);
        let Some(waiting) = self.calls.get_mut(&call) else {
            return Ok(());
        };
        if let Role::Fetcher(fetch) = &mut waiting.role {
            fetch.is_open = true;
            fetch.asked = turn.now;
        } else {
            let args = args.unwrap_or_default();
            let asked = turn.now;
            let fetch = Fetch { args, request, is_open: true, asked, away: None };
            waiting.role = Role::Fetcher(fetch);
        }
        Ok(())
    }

    /// The call stands under no key of this worker.
    fn leave_line(&mut self, step: StepId, key: &str, call: CallId) -> Option<Args> {
        let receivers = &mut self.queues(step, key)?.receivers;
        let at = receivers.iter().position(|receiver| receiver.calls.contains(&call))?;
        receivers.remove(at).map(|receiver| receiver.args)
    }

    /// What was under way is not any more.
    pub(super) fn fetch_is_over(
        &mut self,
        turn: &Turn<'_>,
        call: CallId,
        effects: &[Effect<Tensor>],
    ) {
        let is_answered = effects.iter().any(|effect| match effect {
            Effect::Received { call: it, .. } => *it == call,
            _ => false,
        });
        let Some(waiting) = self.calls.get_mut(&call).filter(|it| it.ends.is_none()) else {
            return;
        };
        let Role::Fetcher(fetch) = &mut waiting.role else {
            return;
        };
        fetch.is_open = false;
        if matches!(turn.input, Input::NotFetched { failure: Failure::Away(_), .. }) {
            // A worker that was asked so long ago has been there meanwhile.
            if turn.now.since(fetch.asked) >= self.config.patience {
                fetch.away = None;
            }
            fetch.away.get_or_insert(turn.now);
        }
        let step = waiting.step;
        if is_answered && let Some(book) = self.steps.get_mut(&step) {
            book.used = turn.now;
        }
    }

    pub(super) fn fetched(
        turn: &Turn<'_>,
        call: CallId,
        fetch: &Fetch,
        delivery: &Delivery<Tensor>,
    ) -> Seen {
        let Input::Fetched { call: it, value } = turn.input else {
            return wrong("fetch", format!("{call} gets a tensor that was not fetched"));
        };
        if *it != call || *value != delivery.value || delivery.received != fetch.args {
            return wrong("fetch", format!("{call} gets a tensor that was fetched for {it}"));
        }
        Ok(())
    }

    /// Whether a receiver is told that its tensor does not come from another worker.
    pub(super) fn is_fetch_refused(
        &self,
        turn: &Turn<'_>,
        call: CallId,
        fetch: &Fetch,
        status: &Status,
    ) -> Result<bool, Broken> {
        let failure = match turn.input {
            Input::NotFetched { call: it, failure } if *it == call => failure,
            _ if fetch.is_open && !turn.withdrawn.contains(&call) => {
                return wrong("fetch", format!("nobody waits for {call}, and it is fetched"));
            }
            _ => return Ok(false),
        };
        let is_expected = match failure {
            Failure::Refused(told) => told == status,
            Failure::Lost(_) => status.code == Code::Unavailable,
            Failure::Away(_) => {
                let away = fetch.away.map(|since| turn.now.since(since));
                let is_long = away.is_some_and(|away| away >= self.config.patience);
                status.code == Code::Unavailable && is_long
            }
        };
        if is_expected {
            return Ok(true);
        }
        wrong("fetch", format!("after {failure:?} receiver {call} is told {status}"))
    }
}
