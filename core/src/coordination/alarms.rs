//! Exact timers: when to look at a task's silence, at a barrier, at a job whose size is not known.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::live::{Alarm, Beat};
use super::machine::{Coordination, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Event;
use super::types::{BarrierKey, Phase};
use crate::ids::{NamespaceId, TaskIndex};
use crate::limits::{EXPIRIES_PER_STEP_MAX, HELD_UP_AFTER};
use crate::time::{Duration, Time};

/// Longest pause of a client between two tries to register, with some time on top.
pub(super) const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(20);

impl Coordination {
    /// Does what is due at `turn.now`; nothing when nothing is. More than a step's work is left for
    /// the next one, which is due at once.
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        self.attend(turn);
        let mut silent: BTreeMap<NamespaceId, Vec<TaskIndex>> = BTreeMap::new();
        for _ in 0..EXPIRIES_PER_STEP_MAX {
            let due = self.alarms.first().filter(|(at, _, _)| *at <= turn.now).cloned();
            let Some((_, namespace, alarm)) = due else {
                break;
            };
            if turn.log.refuses().is_some() {
                self.set_alarm(namespace, alarm, Some(turn.now.after(HELD_UP_AFTER)));
                continue;
            }
            self.set_alarm(namespace, alarm.clone(), None);
            // What cannot be recorded has already asked the node to stop; there is nobody to tell.
            let _ = match alarm {
                Alarm::Silence(task) => {
                    if self.is_silent(namespace, task, turn.now) {
                        silent.entry(namespace).or_default().push(task);
                    }
                    Ok(())
                }
                Alarm::Barrier(key) => self.time_out(turn, namespace, &key),
                Alarm::Settle => self.settle(turn, namespace),
                Alarm::Progress => {
                    self.look_at_progress(turn, namespace);
                    Ok(())
                }
                Alarm::SilentRelays => self.forget_silent_relays(turn, namespace),
            };
        }
        for (namespace, tasks) in silent {
            let _ = self.lose_silent(turn, namespace, &tasks);
        }
        self.finish(turn);
    }

    /// Sets or removes an alarm.
    pub(super) fn set_alarm(&mut self, id: NamespaceId, alarm: Alarm, at: Option<Time>) {
        let Some(live) = self.lives.get_mut(&id) else {
            return;
        };
        let at = at.filter(|at| *at < Time::NEVER);
        let before = match &alarm {
            Alarm::Silence(task) => match live.beats.get_mut(task) {
                Some(beat) => core::mem::replace(&mut beat.alarm, at),
                None => return,
            },
            Alarm::Barrier(key) => match at {
                Some(at) => live.barrier_alarms.insert(key.clone(), at),
                None => live.barrier_alarms.remove(key),
            },
            Alarm::Settle => core::mem::replace(&mut live.settle_alarm, at),
            Alarm::Progress => core::mem::replace(&mut live.marks.alarm, at),
            Alarm::SilentRelays => core::mem::replace(&mut live.heard.alarm, at),
        };
        if let Some(before) = before {
            self.alarms.remove(&(before, id, alarm.clone()));
        }
        if let Some(at) = at {
            self.alarms.insert((at, id, alarm));
        }
    }

    /// Sets the alarms of a namespace that is in a recovered state: everybody was just heard from,
    /// and whoever waited at a barrier is given time to come back to it.
    pub(super) fn rearm(&mut self, id: NamespaceId, now: Time) {
        let Ok(namespace) = self.namespace(id) else {
            return;
        };
        let heartbeat_timeout = self.live(id).map(|live| live.settings.heartbeat_timeout);
        let heartbeat_timeout = heartbeat_timeout.unwrap_or_default();
        let tasks: Vec<_> = namespace.tasks.values().map(|task| (task.index, task.phase)).collect();
        let barriers = namespace.open_barriers().map(|barrier| {
            let grace = now.after(barrier.timeout.min(heartbeat_timeout));
            (barrier.key.clone(), barrier.opened.after(barrier.timeout).max(grace))
        });
        let barriers: Vec<_> = barriers.collect();
        for (task, phase) in tasks {
            self.begin_beat(id, task, now);
            if phase == Phase::Connected {
                self.arm(id, task);
            }
        }
        for (key, at) in barriers {
            self.set_alarm(id, Alarm::Barrier(key), Some(at));
        }
        // The process before may have told any task to register again, and nobody remembers which.
        if let Ok(live) = self.live_mut(id) {
            live.refused = Some((TaskIndex::new(i32::MAX), now));
        }
        self.plan_settling(id, now);
        self.recall_progress(id, now);
        self.plan_silence_look(id, now);
    }

    pub(super) fn begin_beat(&mut self, id: NamespaceId, task: TaskIndex, now: Time) {
        if let Some(live) = self.lives.get_mut(&id) {
            live.beats.entry(task).or_insert_with(|| Beat::beginning(now)).since = now;
        }
    }

    /// The first moment at which a task heard at `since` has been silent for too long.
    pub(super) fn patience_from(&self, id: NamespaceId, since: Time) -> Time {
        let timeout = self.lives.get(&id).map(|live| live.settings.heartbeat_timeout);
        let ends = self.attention.patience(since, timeout.unwrap_or_default());
        Time::from_nanos(ends.as_nanos().saturating_add(1))
    }

    /// The first moment at which a task has been silent for too long.
    pub(super) fn silence_ends(&self, id: NamespaceId, task: TaskIndex) -> Time {
        let beat = self.lives.get(&id).and_then(|live| live.beats.get(&task));
        beat.map_or(Time::ZERO, |beat| self.patience_from(id, beat.since))
    }

    /// Makes sure that a task's alarm rings no later than its patience ends.
    pub(super) fn arm(&mut self, id: NamespaceId, task: TaskIndex) {
        let beat = self.lives.get(&id).and_then(|live| live.beats.get(&task));
        let Some(beat) = beat.filter(|beat| beat.alarm.is_none()) else {
            return;
        };
        let at = self.patience_from(id, beat.since);
        self.set_alarm(id, Alarm::Silence(task), Some(at));
    }

    /// Whether a task has been silent for too long; if not, puts its alarm off.
    fn is_silent(&mut self, id: NamespaceId, task: TaskIndex, now: Time) -> bool {
        let connected = self.namespace(id).ok().and_then(|namespace| namespace.tasks.get(&task));
        if connected.is_none_or(|task| task.phase != Phase::Connected) {
            return false;
        }
        let beat = self.lives.get(&id).and_then(|live| live.beats.get(&task));
        if beat.is_some_and(|beat| self.patience_from(id, beat.since) > now) {
            self.arm(id, task);
            return false;
        }
        true
    }

    /// Counts the tasks some time after the last new one, unless their number is known.
    pub(super) fn plan_settling(&mut self, id: NamespaceId, now: Time) {
        let Ok(namespace) = self.namespace(id) else {
            return;
        };
        let unknown = namespace.head.size.is_none() && namespace.index.present > 0;
        let settle = self.live(id).map(|live| live.settings.settle).unwrap_or_default();
        self.set_alarm(id, Alarm::Settle, unknown.then(|| now.after(settle)));
    }

    /// Registrations have been quiet: if none is missing in between, these are all.
    fn settle(&mut self, turn: &mut Turn<'_>, id: NamespaceId) -> Result<(), Refusal> {
        let namespace = self.namespace(id)?;
        let last = namespace.tasks.keys().next_back().map_or(-1, |task| task.get());
        let tasks = u32::try_from(last.saturating_add(1)).unwrap_or(0);
        let dense = u32::try_from(namespace.tasks.len()).is_ok_and(|count| count == tasks);
        if namespace.head.size.is_some() || !dense || tasks == 0 {
            return Ok(());
        }
        // A task that was told to register again belongs to this job, and pauses for that long at most.
        let refused = self.live(id)?.refused.filter(|(highest, _)| highest.get() > last);
        let until = refused.map(|(_, at)| at.after(REFUSED_PAUSE_MAX));
        if until.is_some_and(|until| until > turn.now) {
            self.set_alarm(id, Alarm::Settle, until);
            return Ok(());
        }
        self.learn_size(turn, id, tasks)?;
        self.pass_if_complete(turn, id, &BarrierKey::Register)
    }

    pub(super) fn learn_size(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        tasks: u32,
    ) -> Result<(), Refusal> {
        self.commit(turn, Record::LearnSize { namespace: id, tasks })?;
        let namespace = self.namespace(id)?.head.name.clone();
        self.observe(turn, Event::SizeLearnt { namespace, tasks });
        self.set_alarm(id, Alarm::Settle, None);
        Ok(())
    }
}
