//! Where nothing holds the node up, a silent task is given up as soon as its timeout is over, and a
//! barrier ends when its own is.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::coordination::{self, BarrierKey, Call, Method, Phase};
use rondo_core::ids::{NamespaceId, TaskIndex};
use rondo_core::time::{Duration, Time};

use super::{Oracle, Seen, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::fault::{Fault, Faults};
use crate::swarm::CoordinationShape;

/// So much later the node may see it, since the world rounds what its clock shows.
const SLACK: Duration = Duration::from_millis(2);
/// Faults after which nobody knows when something is due: the node's clock is another, its settings
/// are, or its journal takes no records for some time. A node that stood still is excused for as long as
/// that lasted.
const UNKNOWN_TIMES: [Fault; 5] =
    [Fault::ClockJump, Fault::ClockBack, Fault::DiskFull, Fault::OtherSettings, Fault::WriteFails];

/// Whose time it is.
type Place = (Arc<str>, TaskIndex);

pub(super) struct Punctual {
    timeouts: BTreeMap<String, Duration>,
    is_off: bool,
    serves: bool,
    awake: Time,
    /// When each task may last have been heard.
    heard: BTreeMap<Place, Time>,
    /// When each open barrier ends.
    barriers: BTreeMap<(NamespaceId, BarrierKey), Time>,
    /// Nothing is due before.
    next: Time,
}

impl Punctual {
    pub(super) fn new(coordination: Option<&CoordinationShape>, faults: &Faults) -> Self {
        Self {
            timeouts: coordination.map(CoordinationShape::heartbeat_timeouts).unwrap_or_default(),
            is_off: UNKNOWN_TIMES.iter().any(|fault| faults.has(*fault)),
            serves: false,
            awake: Time::ZERO,
            heard: BTreeMap::new(),
            barriers: BTreeMap::new(),
            next: Time::ZERO,
        }
    }

    fn asked(&mut self, now: Time, asked: &Call) {
        if let Method::Heartbeat { task, .. } | Method::RegisterTask { task, .. } = &asked.method {
            self.heard.insert((asked.namespace.clone(), task.index), now);
        }
    }

    fn recorded(&mut self, now: Time, record: &coordination::Record, shadow: &Shadow) {
        use coordination::Record as R;
        match record {
            R::ArriveAtBarrier { namespace, barrier, opening: Some(opening), .. } => {
                let ends = now.after(opening.timeout);
                self.barriers.insert((*namespace, barrier.clone()), ends);
                self.next = self.next.min(ends);
            }
            R::EndBarrier { namespace, barrier, .. } => {
                self.barriers.remove(&(*namespace, barrier.clone()));
                if *barrier == BarrierKey::Register {
                    self.begin_beats(now, *namespace, shadow);
                }
            }
            R::BeginLife { namespace, .. } => self.barriers.retain(|(of, _), _| of != namespace),
            _ => {}
        }
    }

    /// From here on tasks are expected to beat.
    fn begin_beats(&mut self, now: Time, namespace: NamespaceId, shadow: &Shadow) {
        let Some(namespace) = shadow.coordination().namespaces().get(&namespace) else {
            return;
        };
        for task in namespace.tasks().keys() {
            self.heard.insert((namespace.head().name.clone(), *task), now);
        }
    }

    /// What was due until now could not be done, and is due from now on.
    fn excuse(&mut self, now: Time) {
        (self.awake, self.next) = (now, now);
        self.barriers.values_mut().for_each(|due| *due = (*due).max(now));
    }

    /// Whether everything that was due has happened.
    fn is_on_time(&mut self, now: Time, shadow: &Shadow) -> Verdict {
        if now <= self.next.after(SLACK) {
            return Ok(());
        }
        let mut next = now.after(Duration::from_millis(500));
        for ((namespace, task), heard) in &self.heard {
            let known = shadow.coordination().named(namespace);
            let known = known.and_then(|namespace| namespace.tasks().get(task));
            let timeout = self.timeouts.get(&**namespace).copied().unwrap_or_default();
            let due = (*heard).max(self.awake).after(timeout);
            if known.is_none_or(|task| task.phase != Phase::Connected) {
                continue;
            }
            reached(Check::PunctualTask);
            if now > due.after(SLACK) {
                let late = now.since(due).as_millis();
                return Err(format!(
                    "task {task} of {namespace} is silent, and was not given up {late} ms ago"
                ));
            }
            next = next.min(due);
        }
        for ((namespace, barrier), due) in &self.barriers {
            reached(Check::PunctualBarrier);
            if now > due.after(SLACK) {
                let late = now.since(*due).as_millis();
                return Err(format!("{barrier:?} of {namespace} should have ended {late} ms ago"));
            }
            next = next.min(*due);
        }
        self.next = next;
        Ok(())
    }
}

impl Oracle for Punctual {
    fn name(&self) -> &'static str {
        "punctual"
    }

    fn see(&mut self, now: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        if self.is_off || self.timeouts.is_empty() {
            return Ok(());
        }
        match seen {
            Seen::Asked { asked, .. } => self.asked(now, asked),
            Seen::Recorded { record: Record::Coordination(record), .. } => {
                self.recorded(now, record, shadow);
            }
            Seen::Died | Seen::Halted { .. } => {
                self.serves = false;
                self.barriers.clear();
            }
            Seen::Recovered { .. } => (self.awake, self.serves) = (now, true),
            Seen::Resumed { .. } => self.excuse(now),
            // Between two steps.
            Seen::Looked(_) if self.serves => return self.is_on_time(now, shadow),
            _ => {}
        }
        Ok(())
    }
}
