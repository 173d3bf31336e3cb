//! A task joins a coordinated read in the round that was proposed for it, and only when as many clients
//! as the read has consumers have said, since that round was proposed, that they stand blocked
//! before it or earlier. A heartbeat that moves a proposal speaks of the new one, too.

use std::collections::BTreeMap;

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Request, State};
use rondo_core::ids::{CallId, ClientId, IterationId, TaskId};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

/// What clients have said of the rounds before which they are blocked.
#[derive(Default)]
pub(super) struct Agreement {
    /// Since the present proposal of each iteration: the earliest such round of each client.
    said: BTreeMap<IterationId, BTreeMap<ClientId, i64>>,
    /// The newest heartbeat that names such a round.
    word: Option<Word>,
    /// A consent was just recorded.
    consent: Option<Consent>,
}

#[derive(Clone, Copy)]
struct Word {
    call: CallId,
    iteration: IterationId,
    client: ClientId,
    blocked_round: i64,
}

/// What was proposed when a client consented.
#[derive(Clone, Copy)]
struct Consent {
    iteration: IterationId,
    task: TaskId,
    target_round: i64,
    pending: usize,
}

impl Agreement {
    fn taken(&mut self, call: CallId, request: &Request, state: &State) {
        let Request::ClientHeartbeat(heartbeat) = request else {
            return;
        };
        let client = state.clients().get(&heartbeat.client);
        if let Some((client, blocked_round)) = client.zip(heartbeat.blocked_round) {
            let (iteration, client) = (client.iteration, client.id);
            self.hear(Word { call, iteration, client, blocked_round });
        }
    }

    fn hear(&mut self, word: Word) {
        self.word = Some(word);
        let said = self.said.entry(word.iteration).or_default();
        let earliest = said.entry(word.client).or_insert(word.blocked_round);
        *earliest = word.blocked_round.min(*earliest);
    }

    fn record(&mut self, record: &dispatcher::Record, during: Option<CallId>, state: &State) {
        match record {
            dispatcher::Record::RejectRound { iteration, .. } => {
                self.said.remove(iteration);
                if let Some(word) = self.word.filter(|word| Some(word.call) == during) {
                    self.hear(word);
                }
            }
            dispatcher::Record::AcceptRound { iteration, .. } => {
                self.consent = state.iterations().get(iteration).and_then(|of| {
                    let (front, pending) = (of.pending.front()?, of.pending.len());
                    let (task, target_round) = (front.task, front.target_round);
                    Some(Consent { iteration: *iteration, task, target_round, pending })
                });
            }
            dispatcher::Record::ReleaseClient { id, .. } => {
                for said in self.said.values_mut() {
                    said.remove(id);
                }
            }
            dispatcher::Record::FreeIteration { id, .. } => drop(self.said.remove(id)),
            _ => {}
        }
    }

    /// Looks at what a consent has brought about.
    fn consented(&mut self, consent: Consent, state: &State) -> Verdict {
        let Consent { iteration, task, target_round, pending } = consent;
        let Some(of) = state.iterations().get(&iteration) else {
            return Ok(());
        };
        if of.pending.len() >= pending {
            return Ok(());
        }
        let said = self.said.remove(&iteration).unwrap_or_default();
        let blocked = said.values().filter(|round| **round <= target_round).count();
        let blocked = i64::try_from(blocked).unwrap_or(i64::MAX);
        let consumers = state.jobs().get(&of.job).and_then(|job| job.consumers).unwrap_or(0);
        let begins = state.tasks().get(&task).map(|task| task.starting_round);
        let is_listed = of.tasks.contains(&task);
        reached(Check::Agreement);
        match is_listed && begins == Some(target_round) && blocked >= consumers {
            true => Ok(()),
            false => Err(format!(
                "round {target_round} was proposed for task {task} of iteration {iteration}; it \
                 begins in {begins:?} (listed: {is_listed}), and of {consumers} consumers {blocked} \
                 are blocked by then"
            )),
        }
    }

    /// What was said counts if it is recorded.
    fn recovered(&mut self, state: &State) {
        *self = Self::default();
        for of in state.iterations().values() {
            if let Some(front) = of.pending.front().filter(|front| !front.ready.is_empty()) {
                let ready = front.ready.iter().map(|client| (*client, front.target_round));
                self.said.insert(of.id, ready.collect());
            }
        }
    }
}

impl Oracle for Agreement {
    fn name(&self) -> &'static str {
        "agreement"
    }

    /// Everything, since what a record leads to is looked for as soon as anything else is seen.
    fn watches(&self) -> &'static [SeenKind] {
        SeenKind::ALL
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        if let Some(consent) = self.consent.take() {
            self.consented(consent, shadow.state())?;
        }
        match seen {
            Seen::Taken { call, request, .. } => self.taken(*call, request, shadow.state()),
            Seen::Recorded { record: Record::Dispatcher(record), during, .. } => {
                self.record(record, *during, shadow.state());
            }
            Seen::Recovered { state, .. } => self.recovered(&state.dispatcher),
            _ => {}
        }
        Ok(())
    }
}
