//! Becoming known to the dispatcher, and staying so.

use alloc::vec::Vec;

use super::calls::Purpose;
use super::machine::{Stage, Worker};
use super::refusal;
use super::retry::Retry;
use super::types::{Effect, Event, Request, TaskDef};
use crate::ids::TaskId;
use crate::status::Status;
use crate::time::{Duration, Time};

/// After a heartbeat that failed the next one comes no later than this.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The rhythm of heartbeats.
#[derive(Clone, Debug)]
pub(super) struct Rhythm {
    pub(super) due: Option<Time>,
    is_under_way: bool,
    /// There is something to tell that happened after the one under way left.
    again: bool,
}

impl Rhythm {
    pub(super) const fn new() -> Self {
        Self { due: None, is_under_way: false, again: false }
    }
}

impl Worker {
    pub(super) fn start(&mut self, out: &mut Vec<Effect>) {
        if self.stage == Stage::New {
            self.stage = Stage::Version;
            self.send(Purpose::Version, Request::Version, out);
        }
    }

    pub(super) fn version_answered(
        &mut self,
        now: Time,
        version: Result<i64, Status>,
        entropy: u64,
        out: &mut Vec<Effect>,
    ) {
        if self.stage != Stage::Version {
            return;
        }
        let wanted = self.config.protocol_version;
        match version {
            Ok(version) if version == wanted => {
                self.reached(now, out);
                (self.stage, self.starting) = (Stage::FirstHeartbeat, None);
                self.beat(out);
            }
            Ok(version) => self.fail(refusal::other_version(version, wanted), out),
            Err(status) => self.start_again(now, status, entropy, out),
        }
    }

    /// Tells that the dispatcher is away, once for as long as it is.
    fn lost(&mut self, now: Time, status: Status, out: &mut Vec<Effect>) {
        if self.away_since.is_none() {
            self.away_since = Some(now);
            out.push(Effect::Observe(Event::DispatcherLost { status }));
        }
    }

    fn reached(&mut self, now: Time, out: &mut Vec<Effect>) {
        if let Some(since) = self.away_since.take() {
            let away = now.since(since);
            out.push(Effect::Observe(Event::DispatcherReached { away }));
        }
    }

    fn start_again(&mut self, now: Time, status: Status, entropy: u64, out: &mut Vec<Effect>) {
        // Any other error says that the address or the credentials are wrong, and the worker ends.
        if status.code.may_pass() {
            self.starting.get_or_insert_with(|| Retry::until(Time::NEVER)).again(now, entropy);
            self.lost(now, status, out);
        } else {
            self.fail(status, out);
        }
    }

    fn fail(&mut self, status: Status, out: &mut Vec<Effect>) {
        self.stage = Stage::Stopped;
        self.starting = None;
        out.push(Effect::Failed { status });
    }

    fn beat(&mut self, out: &mut Vec<Effect>) {
        if self.rhythm.is_under_way {
            self.rhythm.again = true;
            return;
        }
        self.rhythm = Rhythm { due: None, is_under_way: true, again: false };
        self.pushed_again.values_mut().for_each(|asked| *asked = true);
        let tasks = self.tasks.keys().copied().collect();
        self.send(Purpose::Heartbeat, Request::Heartbeat { tasks }, out);
    }

    /// Shows at once how things are.
    pub(super) fn beat_at_once(&mut self, out: &mut Vec<Effect>) {
        if self.stage == Stage::Registered {
            self.beat(out);
        }
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        now: Time,
        tasks: Result<(Vec<TaskDef>, Vec<TaskId>), Status>,
        entropy: u64,
        out: &mut Vec<Effect>,
    ) {
        self.rhythm.is_under_way = false;
        let is_first = self.stage == Stage::FirstHeartbeat;
        if !is_first && self.stage != Stage::Registered {
            return;
        }
        match tasks {
            Ok((new, deleted)) => {
                self.reached(now, out);
                self.rhythm.due = Some(now.after(self.config.heartbeat_interval));
                if is_first {
                    (self.stage, self.starting) = (Stage::Registered, None);
                    out.push(Effect::Registered);
                }
                self.pushed_again.retain(|_, asked| !*asked);
                self.take_orders(now, new, deleted, out);
                if core::mem::take(&mut self.rhythm.again) {
                    self.beat(out);
                }
            }
            Err(status) if is_first => self.start_again(now, status, entropy, out),
            Err(status) => {
                self.pushed_again.values_mut().for_each(|asked| *asked = false);
                let pause = self.config.heartbeat_interval.min(PAUSE_MAX);
                self.rhythm.due = Some(now.after(pause));
                self.lost(now, status, out);
            }
        }
    }

    pub(super) fn tick_registration(&mut self, now: Time, out: &mut Vec<Effect>) {
        if self.starting.as_ref().and_then(Retry::at).is_some_and(|at| at <= now) {
            // What is under way does not fail a second time.
            match self.stage {
                Stage::Version if !self.rpcs.values().any(|it| *it == Purpose::Version) => {
                    self.send(Purpose::Version, Request::Version, out);
                }
                Stage::FirstHeartbeat if !self.rhythm.is_under_way => self.beat(out),
                _ => {}
            }
        }
        if self.rhythm.due.is_some_and(|at| at <= now) {
            self.beat(out);
        }
    }

    /// When to try to register again.
    pub(super) fn starting_at(&self) -> Option<Time> {
        let waits = !self.rhythm.is_under_way && self.rpcs.is_empty();
        self.starting.as_ref().filter(|_| waits).and_then(Retry::at)
    }
}
