//! Requests through a relay happen once: their results are kept until the relay has them.

use super::barriers::refused;
use super::machine::{Answer, Asked, Coordination, Said, Turn};
use super::record::{Kept, Record};
use super::refusal::Refusal;
use super::reply::Reply;
use super::request::{Method, Stamp};
use super::state::Relay;
use super::types::{BarrierKey, Fault, Value};
use crate::ids::NamespaceId;
use crate::limits::{RELAY_RESULTS_MAX, RELAYS_MAX};

impl Method {
    /// Whether it must not happen twice, or must not be answered otherwise the second time. Registrations
    /// are the same when repeated.
    const fn happens_once(&self) -> bool {
        matches!(
            self,
            Self::ShutdownTask { .. }
                | Self::ResetTask { .. }
                | Self::ReportErrorToService { .. }
                | Self::Barrier { .. }
                | Self::CancelBarrier { .. }
                | Self::PutKeyValue { .. }
                | Self::IncrementKeyValue { .. }
                | Self::DeleteKeyValue { .. }
                // Whoever asks with the others and then again alone would wait for them in vain.
                | Self::GetAliveTasks { .. }
        )
    }
}

impl Coordination {
    /// Takes a request, once if a relay brings it again.
    pub(super) fn once(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        method: Method,
        entropy: u64,
    ) -> Answer {
        let stamp = asked.caller.stamp.filter(|_| method.happens_once());
        let Some(stamp) = stamp else {
            return self.perform(turn, asked, method, entropy);
        };
        let (id, now) = (asked.id, turn.now);
        let answer = self.perform_once(turn, asked, stamp, method, entropy);
        self.hear_relay(id, stamp.relay, now);
        answer
    }

    fn perform_once(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        stamp: Stamp,
        method: Method,
        entropy: u64,
    ) -> Answer {
        if let Some(answer) = self.recall(turn, asked.id, stamp, &method)? {
            return Ok(answer);
        }
        let before = turn.log.last();
        let answer = self.perform(turn, asked, method, entropy);
        // What changed nothing may be done again; a barrier keeps its result with its end.
        let kept = match &answer {
            _ if turn.log.last() == before => return answer,
            Ok(Said::Now(reply, _)) => kept_of(reply),
            Err(Refusal::Barrier { counter, fault, .. }) => {
                Kept::Barrier { counter: *counter, fault: Some(Fault::clone(fault)) }
            }
            _ => return answer,
        };
        self.keep(turn, asked.id, stamp, kept)?;
        match answer {
            Ok(Said::Now(reply, _)) => Ok(Said::Now(reply, turn.log.last())),
            other => other,
        }
    }

    /// The result that the request had before.
    fn recall(
        &self,
        turn: &Turn<'_>,
        id: NamespaceId,
        stamp: Stamp,
        method: &Method,
    ) -> Result<Option<Said>, Refusal> {
        let namespace = self.namespace(id)?;
        let Some(relay) = namespace.relays.get(&stamp.relay) else {
            return match namespace.relays.len() >= RELAYS_MAX {
                true => Err(Refusal::TooMany { what: "relays", bound: RELAYS_MAX as u64 }),
                false => Ok(None),
            };
        };
        let (number, sequence) = (stamp.relay.get(), stamp.sequence);
        if sequence <= relay.acknowledged {
            return Err(Refusal::Acknowledged { relay: number, sequence });
        }
        if let Some(result) = relay.result_again(stamp, method)? {
            let after = turn.log.last();
            return Ok(Some(match result {
                Ok(reply) => Said::Now(reply, after),
                Err(refusal) => Said::No(refusal, after),
            }));
        }
        let kept = relay.results.len().saturating_add(relay.alive.len());
        match kept >= RELAY_RESULTS_MAX && stamp.acknowledged <= relay.acknowledged {
            true => {
                let bound = RELAY_RESULTS_MAX as u64;
                Err(Refusal::TooMany { what: "results that the relay has not acknowledged", bound })
            }
            false => Ok(None),
        }
    }

    fn keep(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        stamp: Stamp,
        kept: Kept,
    ) -> Result<(), Refusal> {
        self.commit(
            turn,
            Record::KeepResult {
                namespace: id,
                relay: stamp.relay,
                sequence: stamp.sequence,
                acknowledged: stamp.acknowledged,
                kept,
            },
        )?;
        Ok(())
    }
}

/// What is kept of an answer.
fn kept_of(reply: &Reply) -> Kept {
    match reply {
        Reply::Put { revision } => Kept::Put(*revision),
        Reply::Deleted { revision } => Kept::Deleted(*revision),
        Reply::Value { value: Value::Inline(value), revision } => {
            Kept::Incremented { value: value.clone(), revision: *revision }
        }
        _ => Kept::Done,
    }
}

impl Relay {
    /// Returns the result that a request had before, if it had one.
    ///
    /// # Errors
    /// When another request had a result with the same mark.
    fn result_again(
        &self,
        Stamp { relay, sequence, .. }: Stamp,
        method: &Method,
    ) -> Result<Option<Result<Reply, Refusal>>, Refusal> {
        let result = if let Some(kept) = self.results.get(&sequence) {
            result_of(kept, method)
        } else if let Some(tasks) = self.alive.get(&sequence) {
            let is_alike = matches!(method, Method::GetAliveTasks { .. });
            is_alike.then(|| Ok(Reply::Alive(tasks.clone())))
        } else {
            return Ok(None);
        };
        let other = Refusal::OtherRequest { relay: relay.get(), sequence };
        result.map(Some).ok_or(other)
    }
}

/// A kept result as the answer to this request; `None` if it cannot have been its own.
fn result_of(kept: &Kept, method: &Method) -> Option<Result<Reply, Refusal>> {
    Some(Ok(match (kept, method) {
        (Kept::Put(revision), Method::PutKeyValue { .. }) => Reply::Put { revision: *revision },
        (Kept::Deleted(revision), Method::DeleteKeyValue { .. }) => {
            Reply::Deleted { revision: *revision }
        }
        (Kept::Incremented { value, revision }, Method::IncrementKeyValue { .. }) => {
            Reply::Value { value: Value::Inline(value.clone()), revision: *revision }
        }
        (Kept::Barrier { counter, fault }, Method::Barrier { id, .. }) => match fault {
            None => Reply::BarrierPassed { counter: *counter },
            Some(fault) => {
                let key = BarrierKey::Named(id.clone());
                return Some(Err(refused(&key, *counter, fault.clone().into())));
            }
        },
        (Kept::Barrier { counter, fault }, Method::ShutdownTask { .. }) => match fault {
            None => Reply::ShutDown,
            Some(fault) => {
                return Some(Err(refused(&BarrierKey::Shutdown, *counter, fault.clone().into())));
            }
        },
        (Kept::Done, Method::ShutdownTask { .. }) => Reply::ShutDown,
        (Kept::Done, Method::ResetTask { .. }) => Reply::Reset,
        (Kept::Done, Method::ReportErrorToService { .. }) => Reply::ErrorReported,
        (Kept::Done, Method::CancelBarrier { .. }) => Reply::BarrierCancelled,
        _ => return None,
    }))
}
