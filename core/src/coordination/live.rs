//! What one namespace's present moment consists of: who was heard when, and which calls wait for
//! what. Volatile: a restart begins with nobody waiting, and with everybody just heard from.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::fmt;

use super::config::NamespaceConfig;
use super::group::Group;
use super::listing::LatestListing;
use super::progress::Marks;
use super::silent_relays::Heard;
use super::types::BarrierKey;
use crate::ids::{CallId, NamespaceId, TaskIndex};
use crate::time::Time;

/// One namespace's present moment.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) settings: Arc<NamespaceConfig>,
    pub(super) beats: BTreeMap<TaskIndex, Beat>,
    pub(super) polls: BTreeMap<TaskIndex, CallId>,
    /// Calls that wait for a key, with since when.
    pub(super) gets: BTreeMap<Arc<str>, BTreeMap<CallId, Time>>,
    /// Calls that wait at barriers.
    pub(super) waiting: BTreeMap<BarrierKey, BTreeMap<TaskIndex, CallId>>,
    /// Calls that ask who of a set of tasks is alive.
    pub(super) groups: BTreeMap<Arc<[TaskIndex]>, Group>,
    pub(super) task_watches: BTreeSet<CallId>,
    pub(super) key_watches: BTreeMap<Arc<str>, BTreeSet<CallId>>,
    pub(super) latest_listing: LatestListing,
    /// The version up to which watches of tasks were told.
    pub(super) told_version: i64,
    /// Alarms of barriers that are open.
    pub(super) barrier_alarms: BTreeMap<BarrierKey, Time>,
    /// How far tasks are.
    pub(super) marks: Marks,
    /// Relays that have asked.
    pub(super) heard: Heard,
    /// When the tasks are counted, if their number is not known.
    pub(super) settle_alarm: Option<Time>,
    /// The highest task of the next job that was told to register again, and when the last one was.
    pub(super) refused: Option<(TaskIndex, Time)>,
}

/// A task's signs of life.
#[derive(Clone, Debug)]
pub(super) struct Beat {
    /// From when on silence counts.
    pub(super) since: Time,
    /// Its last sign of life to this process.
    pub(super) heard: Option<Time>,
    /// Its entry among the alarms.
    pub(super) alarm: Option<Time>,
    /// The address it last spoke from.
    pub(super) peer: Option<Arc<str>>,
    /// What it last did besides, and when.
    pub(super) doing: Option<(Doing, Time)>,
}

impl Beat {
    pub(super) const fn beginning(now: Time) -> Self {
        Self { since: now, heard: None, alarm: None, peer: None, doing: None }
    }
}

/// What a task last did, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Registered,
    CameTo(Arc<str>, i64),
    WaitsForKey(Arc<str>),
    PutKey(Arc<str>),
    WaitsForDevices,
    AskedWhoIsAlive,
    Leaves,
}

impl fmt::Display for Doing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered => out.write_str("registered"),
            Self::CameTo(id, counter) => write!(out, "came to barrier {id}::{counter}"),
            Self::WaitsForKey(key) => write!(out, "waits for key {key}"),
            Self::PutKey(key) => write!(out, "put key {key}"),
            Self::WaitsForDevices => out.write_str("waits for all devices"),
            Self::AskedWhoIsAlive => out.write_str("asked who is alive"),
            Self::Leaves => out.write_str("shuts down"),
        }
    }
}

/// Where a call waits. A call whose answer is on its way out may have another one's place there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    Key(Arc<str>),
    Poll(TaskIndex),
    Barrier(BarrierKey, TaskIndex),
    Alive(Arc<[TaskIndex]>),
    TaskWatch,
    KeyWatch(Arc<str>),
}

impl Seat {
    /// Whether the call waits for a key or for a change, which may never come.
    pub(super) const fn is_for_keys(&self) -> bool {
        matches!(self, Self::Key(_) | Self::KeyWatch(_) | Self::TaskWatch)
    }
}

/// Something to look at when its time has come.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// A task may have been silent for too long.
    Silence(TaskIndex),
    /// A barrier's time is over.
    Barrier(BarrierKey),
    /// Registrations may have been quiet for long enough.
    Settle,
    /// A task may have stayed where it is for too long.
    Progress,
    /// Relays may have been silent for too long.
    SilentRelays,
}

/// Alarms of all namespaces, the earliest first.
pub(super) type Alarms = BTreeSet<(Time, NamespaceId, Alarm)>;

impl Live {
    pub(super) fn new(settings: Arc<NamespaceConfig>, version: i64) -> Self {
        Self {
            settings,
            beats: BTreeMap::new(),
            polls: BTreeMap::new(),
            gets: BTreeMap::new(),
            waiting: BTreeMap::new(),
            groups: BTreeMap::new(),
            task_watches: BTreeSet::new(),
            key_watches: BTreeMap::new(),
            latest_listing: LatestListing::default(),
            told_version: version,
            barrier_alarms: BTreeMap::new(),
            marks: Marks::default(),
            heard: Heard::default(),
            settle_alarm: None,
            refused: None,
        }
    }

    /// Takes a call out of the place where it waits, if it still has it.
    pub(super) fn unseat(&mut self, call: CallId, seat: &Seat) {
        match seat {
            Seat::Key(key) => {
                let empty = self.gets.get_mut(key).is_some_and(|calls| {
                    calls.remove(&call);
                    calls.is_empty()
                });
                if empty {
                    self.gets.remove(key);
                }
            }
            Seat::Poll(task) => {
                if self.polls.get(task) == Some(&call) {
                    self.polls.remove(task);
                }
            }
            Seat::Barrier(key, task) => self.unseat_waiting(call, key, *task),
            Seat::Alive(tasks) => {
                let empty = self.groups.get_mut(tasks).is_some_and(|group| {
                    group.remove(call);
                    group.is_empty()
                });
                if empty {
                    self.groups.remove(tasks);
                }
            }
            Seat::TaskWatch => {
                self.task_watches.remove(&call);
            }
            Seat::KeyWatch(key) => {
                let empty = self.key_watches.get_mut(key).is_some_and(|calls| {
                    calls.remove(&call);
                    calls.is_empty()
                });
                if empty {
                    self.key_watches.remove(key);
                }
            }
        }
    }

    fn unseat_waiting(&mut self, call: CallId, key: &BarrierKey, task: TaskIndex) {
        let Some(calls) = self.waiting.get_mut(key) else {
            return;
        };
        if calls.get(&task) == Some(&call) {
            calls.remove(&task);
        }
        if calls.is_empty() {
            self.waiting.remove(key);
        }
    }

    /// Whether a call has the place where it waits.
    pub(super) fn is_seated(&self, call: CallId, seat: &Seat) -> bool {
        match seat {
            Seat::Key(key) => self.gets.get(key).is_some_and(|calls| calls.contains_key(&call)),
            Seat::Poll(task) => self.polls.get(task) == Some(&call),
            Seat::Barrier(key, task) => {
                self.waiting.get(key).is_some_and(|calls| calls.get(task) == Some(&call))
            }
            Seat::Alive(tasks) => self.groups.get(tasks).is_some_and(|group| group.holds(call)),
            Seat::TaskWatch => self.task_watches.contains(&call),
            Seat::KeyWatch(key) => {
                self.key_watches.get(key).is_some_and(|calls| calls.contains(&call))
            }
        }
    }

    /// A key whose list of waiting calls is empty, and should have been removed.
    pub(super) fn kept_for_nobody(&self) -> Option<Arc<str>> {
        let gets = self.gets.iter().filter(|(_, calls)| calls.is_empty()).map(|(key, _)| key);
        let watches = self.key_watches.iter().filter(|(_, calls)| calls.is_empty());
        gets.chain(watches.map(|(key, _)| key)).next().cloned()
    }

    /// How many calls have a place here.
    pub(super) fn seats_taken(&self) -> usize {
        let gets = self.gets.values().map(BTreeMap::len);
        let waiting = self.waiting.values().map(BTreeMap::len);
        let groups = self.groups.values().map(|group| group.len());
        let watches = self.key_watches.values().map(BTreeSet::len);
        let several = gets.chain(waiting).chain(groups).chain(watches);
        let single = [self.polls.len(), self.task_watches.len()];
        several.chain(single).fold(0, usize::saturating_add)
    }
}
