//! A task is given up no earlier than it has been silent for its timeout, as the service could hear
//! it: since the process began, and less the times in which it stood still. A barrier times out no earlier
//! than after its time; tasks that came before the process began have some time to come again.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::coordination::{self, BarrierKey, Call, Method, Reply};
use rondo_core::ids::{CallId, NamespaceId};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};
use crate::swarm::CoordinationShape;

/// A node that stood still for less than this, and a quarter of the shortest timeout, need not know it.
const STOOD_STILL: Duration = Duration::from_secs(1);

pub(super) struct Silence {
    timeouts: BTreeMap<String, Duration>,
    /// When the node's process began.
    begun: Time,
    /// From when to when it stood still since.
    stood_still: Vec<(Time, Time)>,
    heard: BTreeMap<(Arc<str>, i32), Time>,
    beats: CallMap<(Arc<str>, i32, Time)>,
}

impl Silence {
    pub(super) fn new(coordination: Option<&CoordinationShape>) -> Self {
        Self {
            timeouts: coordination.map(CoordinationShape::heartbeat_timeouts).unwrap_or_default(),
            begun: Time::ZERO,
            stood_still: Vec::new(),
            heard: BTreeMap::new(),
            beats: CallMap::default(),
        }
    }

    fn asked(&mut self, now: Time, call: CallId, asked: &Call) {
        let task = match &asked.method {
            Method::Heartbeat { task, .. } | Method::RegisterTask { task, .. } => task.index.get(),
            _ => return,
        };
        self.beats.insert(call, (asked.namespace.clone(), task, now));
    }

    fn told(&mut self, call: CallId, reply: Option<&Reply>, shadow: &Shadow) {
        let Some((namespace, task, at)) = self.beats.remove(&call) else {
            return;
        };
        // Beats of a stale incarnation of one who may come back are answered, but not heard.
        let known = shadow.coordination().named(&namespace);
        let recoverable = known
            .and_then(|of| of.tasks().get(&rondo_core::ids::TaskIndex::new(task)))
            .is_some_and(|task| task.recoverable);
        let heard = match reply {
            Some(Reply::Registered(_)) => true,
            Some(Reply::Heartbeat(_)) => !recoverable,
            _ => false,
        };
        if heard {
            let before = self.heard.entry((namespace, task)).or_default();
            *before = (*before).max(at);
        }
    }

    fn recorded(&self, now: Time, record: &coordination::Record, shadow: &Shadow) -> Verdict {
        let (namespace, task, fault) = match record {
            coordination::Record::FailTask { namespace, task, fault, .. } => {
                (namespace, task, fault)
            }
            coordination::Record::EndBarrier { namespace, barrier, fault: Some(fault), .. }
                if fault.code == Code::DeadlineExceeded =>
            {
                return self.timed_out(now, (*namespace, barrier), shadow);
            }
            _ => return Ok(()),
        };
        let named = shadow.coordination().namespaces().get(namespace);
        let Some(name) = named.map(|named| named.head().name.clone()) else {
            return Ok(());
        };
        if fault.code != Code::Unavailable || fault.reported {
            return Ok(());
        }
        let timeout = self.timeouts.get(&*name).copied().unwrap_or_default();
        let heard = self.heard.get(&(name.clone(), task.get())).copied().unwrap_or_default();
        let since = heard.max(self.begun);
        let stood = self.stood_still.iter().filter(|(_, end)| *end > since);
        let stood = stood.map(|(begin, end)| end.since((*begin).max(since)));
        let silent = stood.fold(now.since(since), |left, stood| {
            Duration::from_nanos(left.as_nanos().saturating_sub(stood.as_nanos()))
        });
        reached(Check::Silence);
        match silent < timeout {
            true => Err(format!(
                "task {task} of {name} was given up after {} ms of silence; it may be silent for \
                 {} ms",
                silent.as_millis(),
                timeout.as_millis()
            )),
            false => Ok(()),
        }
    }
}

impl Silence {
    fn timed_out(
        &self,
        now: Time,
        (namespace, key): (NamespaceId, &BarrierKey),
        shadow: &Shadow,
    ) -> Verdict {
        let of = shadow.coordination().namespaces().get(&namespace);
        let Some((of, barrier)) = of.and_then(|of| Some((of, of.barriers().get(key)?))) else {
            return Ok(());
        };
        let timeout = self.timeouts.get(&*of.head().name).copied().unwrap_or_default();
        let again = self.begun.after(barrier.timeout.min(timeout));
        let least = barrier.opened.after(barrier.timeout).max(again);
        reached(Check::SilenceBarrier);
        match now < least {
            true => Err(format!(
                "{key:?} of {} timed out {} ms before its time",
                of.head().name,
                least.since(now).as_millis()
            )),
            false => Ok(()),
        }
    }
}

impl Oracle for Silence {
    fn name(&self) -> &'static str {
        "silence"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Asked,
            SeenKind::Told,
            SeenKind::Resumed,
            SeenKind::Recovered,
            SeenKind::CoordinationRecord,
        ]
    }

    fn see(&mut self, now: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Asked { call, asked, .. } => self.asked(now, *call, asked),
            Seen::Told { call, answer, .. } => self.told(*call, answer.as_ref().ok(), shadow),
            Seen::Recorded { record: Record::Coordination(record), .. } => {
                return self.recorded(now, record, shadow);
            }
            Seen::Resumed { stood } => {
                let shortest = self.timeouts.values().min().copied().unwrap_or_default();
                let pulse = Duration::from_nanos(shortest.as_nanos() / 2);
                if *stood
                    > Duration::from_nanos(
                        STOOD_STILL.max(pulse).as_nanos().saturating_add(pulse.as_nanos()),
                    )
                {
                    let begin = now.as_nanos().saturating_sub(stood.as_nanos());
                    self.stood_still.push((Time::from_nanos(begin), now));
                }
            }
            Seen::Recovered { .. } => {
                (self.begun, self.beats) = (now, CallMap::default());
                self.stood_still.clear();
                self.heard.clear();
            }
            _ => {}
        }
        Ok(())
    }
}
