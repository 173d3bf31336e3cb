//! Watched keys: every change is told once, whatever breaks between.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::calls::Purpose;
use super::errors;
use super::machine::Agent;
use super::types::{Effect, KeyChange, Reply, Request};
use crate::ids::{CallId, Revision};
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// The shortest pause before the agent asks again for a watch that broke. The longest is twice as long.
const PAUSE: Duration = Duration::from_millis(200);

/// The agent ends a watch for which the server has had no room all this time.
const PATIENCE_FOR_ROOM: Duration = Duration::from_secs(60);
/// The shortest pause after such a refusal. The longest is twice as long.
const PAUSE_FOR_ROOM: Duration = Duration::from_secs(2);
/// A server without room says so sooner than this.
const ROOM_AT_ONCE: Duration = Duration::from_secs(5);

/// Keys watched at once at most.
pub(super) const WATCHES_MAX: usize = 1024;

/// A watched key.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// Everything up to here has been told.
    upto: Option<Revision>,
    /// The application waits to hear what is there.
    pub(super) starting: Option<CallId>,
    pub(super) retry_at: Option<Time>,
    /// When it was asked for last.
    asked: Time,
    /// Since when the server has had no room for it.
    refused: Option<Time>,
}

impl Watch {
    /// Whether a watch that the server refuses may go on later. One that has told changes tries again: the
    /// server may have room soon.
    fn may_go_on(&mut self, now: Time, code: Code) -> bool {
        if code.is_of_connection() {
            self.refused = None;
            return true;
        }
        let had_room = now.since(self.asked) > ROOM_AT_ONCE;
        let since = self.refused.filter(|_| !had_room).unwrap_or(now);
        self.refused = Some(since);
        let is_for_room = code == Code::ResourceExhausted && self.starting.is_none();
        is_for_room && now.since(since) < PATIENCE_FOR_ROOM
    }
}

impl Agent {
    pub(super) fn start_watch(
        &mut self,
        now: Time,
        call: CallId,
        key: Arc<str>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        if self.watches.contains_key(&key) {
            return Err(errors::already("the key is watched"));
        }
        if self.watches.len() >= WATCHES_MAX {
            return Err(errors::too_many_watches());
        }
        let starting = Some(call);
        let watch = Watch { upto: None, starting, retry_at: None, asked: now, refused: None };
        self.watches.insert(key.clone(), watch);
        self.watch(now, key, out);
        Ok(())
    }

    pub(super) fn stop_watch(
        &mut self,
        call: CallId,
        key: &Arc<str>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        let watch = self.watches.remove(key).ok_or_else(|| errors::not_watched(key))?;
        self.withdraw(|purpose| matches!(purpose, Purpose::Watch(of) if of == key), out);
        if let Some(starting) = watch.starting {
            out.push(Effect::Done { call: starting, result: Err(errors::not_watched(key)) });
        }
        out.push(Effect::Done { call, result: Ok(Reply::Done) });
        Ok(())
    }

    pub(super) fn activate_watch(
        &self,
        call: CallId,
        key: Arc<str>,
        changes: Vec<KeyChange>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        if !self.watches.contains_key(&key) {
            return Err(errors::not_watched(&key));
        }
        out.push(Effect::Changed { key, whole: false, changes });
        out.push(Effect::Done { call, result: Ok(Reply::Done) });
        Ok(())
    }

    fn watch(&mut self, now: Time, key: Arc<str>, out: &mut Vec<Effect>) {
        let Some(watch) = self.watches.get_mut(&key) else {
            return;
        };
        (watch.retry_at, watch.asked) = (None, now);
        let request = Request::Watch { key: key.clone(), from: watch.upto };
        self.send(Purpose::Watch(key), request, None, out);
    }

    pub(super) fn watch_again(&mut self, now: Time, out: &mut Vec<Effect>) {
        let due = |watch: &Watch| watch.retry_at.is_some_and(|at| at <= now);
        let keys: Vec<Arc<str>> = self
            .watches
            .iter()
            .filter(|(_, watch)| due(watch))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.watch(now, key, out);
        }
    }

    pub(super) fn watch_answered(
        &mut self,
        now: Time,
        key: Arc<str>,
        result: Result<Reply, Status>,
        entropy: u64,
        out: &mut Vec<Effect>,
    ) {
        let Some(watch) = self.watches.get_mut(&key) else {
            return;
        };
        match result {
            Ok(Reply::Changes { whole, changes, upto }) => {
                (watch.upto, watch.refused) = (Some(upto), None);
                let starting = watch.starting.take();
                if let Some(call) = starting {
                    out.push(Effect::Done { call, result: Ok(Reply::Done) });
                }
                if whole || !changes.is_empty() {
                    out.push(Effect::Changed { key: key.clone(), whole, changes });
                }
                self.watch(now, key, out);
            }
            Err(status) if watch.may_go_on(now, status.code) => {
                let is_full = status.code == Code::ResourceExhausted;
                let pause = if is_full { PAUSE_FOR_ROOM } else { PAUSE }.as_nanos();
                let pause = pause.saturating_add(entropy % pause);
                watch.retry_at = Some(now.after(Duration::from_nanos(pause)));
            }
            Ok(_) => {
                let text = "the server's answer tells no changes";
                self.end_watch(key, Status::new(Code::Internal, text), out);
            }
            Err(status) => self.end_watch(key, status, out),
        }
    }

    fn end_watch(&mut self, key: Arc<str>, status: Status, out: &mut Vec<Effect>) {
        let watch = self.watches.remove(&key);
        out.push(match watch.and_then(|watch| watch.starting) {
            Some(call) => Effect::Done { call, result: Err(status) },
            None => Effect::WatchEnded { key, status },
        });
    }
}
