//! A silent task is given up as soon as its timeout is over, and a barrier ends when its own is. Where the
//! node stood still meanwhile, it is later by no more than that, and a moment for each time: under stalls
//! that come again and again a dead task is found all the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::coordination::{self, BarrierKey, Call, Method, Phase};
use rondo_core::ids::{NamespaceId, TaskIndex};
use rondo_core::time::{Duration, Time};

use super::stalls::Stalls;
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::fault::{Fault, Faults};
use crate::swarm::CoordinationShape;

/// So much later the node may see it, since the world rounds what its clock shows.
const SLACK: Duration = Duration::from_millis(2);
/// Faults after which nobody knows when something is due: the node's clock is another, its settings
/// are, or its journal takes no records for some time.
const UNKNOWN_TIMES: [Fault; 6] = [
    Fault::ClockJump,
    Fault::ClockBack,
    Fault::DiskFull,
    Fault::OtherSettings,
    Fault::WriteFails,
    Fault::Lack,
];

/// After a stall a barrier gets so much more time: its tasks could not come meanwhile.
const AFTER_STALL: Duration = Duration::from_secs(1);
/// A process that stood still not long ago notices within so long that it stands still again.
const NOTICED_WITHIN: Duration = Duration::from_millis(250);

/// Whose time it is.
type Place = (Arc<str>, TaskIndex);

pub(super) struct Punctual {
    timeouts: BTreeMap<String, Duration>,
    is_off: bool,
    serves: bool,
    stalls: Stalls,
    /// When each task may last have been heard.
    heard: BTreeMap<Place, Time>,
    /// When each open barrier was opened, and how long it may take.
    barriers: BTreeMap<(NamespaceId, BarrierKey), (Time, Duration)>,
    /// Nothing is due before.
    next: Time,
}

impl Punctual {
    pub(super) fn new(coordination: Option<&CoordinationShape>, faults: &Faults) -> Self {
        Self {
            timeouts: coordination.map(CoordinationShape::heartbeat_timeouts).unwrap_or_default(),
            is_off: UNKNOWN_TIMES.iter().any(|fault| faults.has(*fault)),
            serves: false,
            stalls: Stalls::default(),
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
                self.barriers.insert((*namespace, barrier.clone()), (now, opening.timeout));
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

    /// By when a silent task must have been given up: the timeout, and all stalls since. A process that
    /// went on for long notices a stall within a quarter of the shortest timeout, and one that has just
    /// stood still sooner.
    fn given_up_by(&self, heard: Time, timeout: Duration) -> Time {
        let heard = self.stalls.heard_at(heard);
        let shortest = self.timeouts.values().min().copied().unwrap_or_default();
        let pulse = Duration::from_nanos(shortest.as_nanos() / 4);
        let notices = |awake: Duration| match awake.as_nanos() / 4 > shortest.as_nanos() {
            true => pulse,
            false => pulse.min(NOTICED_WITHIN),
        };
        let first = self.stalls.since(heard, |_| Duration::ZERO) > Duration::ZERO;
        let stood = self.stalls.since(heard, notices);
        let more = if first { pulse } else { Duration::ZERO };
        heard.after(timeout).after(stood).after(more)
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
            let due = self.given_up_by(*heard, timeout);
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
        for ((namespace, barrier), (opened, timeout)) in &self.barriers {
            reached(Check::PunctualBarrier);
            let stood = self.stalls.since(*opened, |_| AFTER_STALL);
            let due = opened.after(*timeout).after(stood);
            if now > due.after(SLACK) {
                let late = now.since(due).as_millis();
                return Err(format!("{barrier:?} of {namespace} should have ended {late} ms ago"));
            }
            next = next.min(due);
        }
        self.next = next;
        Ok(())
    }
}

impl Oracle for Punctual {
    fn name(&self) -> &'static str {
        "punctual"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Asked,
            SeenKind::Halted,
            SeenKind::StandsStill,
            SeenKind::Resumed,
            SeenKind::Died,
            SeenKind::Recovered,
            SeenKind::Looked,
            SeenKind::CoordinationRecord,
        ]
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
            Seen::Recovered { .. } => {
                self.stalls.begin(now);
                self.serves = true;
            }
            Seen::StandsStill => self.stalls.stop(now),
            Seen::Resumed { .. } => self.stalls.resume(now),
            // Between two steps.
            Seen::Looked(_) if self.serves && !self.stalls.stands_still() => {
                return self.is_on_time(now, shadow);
            }
            _ => {}
        }
        Ok(())
    }
}
