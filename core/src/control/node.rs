//! The node: routes requests to its machines and lets nothing out before it is durable.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::effect::{
    Config, Deadline, Effect, Effects, Event, Input, Record, Reply, Request, Timer,
};
use super::recovery::Recovered;
use crate::coordination::{self, Coordination};
use crate::dispatcher::{self, Dispatcher, TaskDef};
use crate::ids::{CallId, Digest, Lsn};
use crate::log::Log;
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// The server says this first when its journal takes no records at present. Commands know the refusal by it.
pub const NO_UPDATES: &str = "the journal takes no updates";
/// The server says this to a caller whose answer waits for records that it keeps: those of the caller's own
/// update, or of another one that the answer shows. Which of them the answer needs, it does not know.
const KEPT: &str = "the server keeps updates that this answer may rest on, and writes them once the journal \
                    takes records again; if the server restarts before, they are lost";
/// Pause between two tries to write records that the journal refused.
const APPEND_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Where the node's updates go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Into the journal; answers wait for it.
    Journal,
    /// Nowhere: a restart loses everything. Answers wait for nothing.
    MemoryOnly,
}

/// How the node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// All is well.
    Serving,
    /// The journal takes no records at present: updates are refused, the rest goes on.
    RefusingUpdates(Arc<str>),
    /// The node has stopped and answers nothing but UNAVAILABLE.
    Halted(Arc<str>),
}

/// The control-plane node.
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) durability: Durability,
    dispatcher: Dispatcher,
    coordination: Coordination,
    pub(super) log: Log,
    durable: Lsn,
    /// The last record that should be durable soon, whether somebody waits for it or not.
    sync_due: Lsn,
    /// The last record that a sync was asked for.
    pub(super) sync_asked: Lsn,
    pub(super) health: Health,
    /// What waits for the journal, by the record waited for, then in order of arrival.
    pub(super) held: BTreeMap<(Lsn, u64), Held>,
    held_serial: u64,
    pub(super) append_retry: Time,
    scratch: Vec<dispatcher::Effect>,
    coordination_scratch: Vec<coordination::Effect>,
}

/// What a machine asks of the node, whichever machine it is.
enum Wish {
    Append(Lsn, Record),
    /// As soon as everything up to there is durable.
    Hold(Lsn, Held),
    Observe(Event),
    Halt(Arc<str>),
}

/// An effect that must not happen yet.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Reply(CallId, Result<Reply, Status>),
    Push(TaskDef),
    Forget(Digest),
}

impl Node {
    /// Starts a node with the state from its journal (or none).
    pub fn start(
        durability: Durability,
        config: impl Into<Config>,
        recovered: Recovered,
        now: Time,
    ) -> Self {
        let Config { dispatcher, coordination } = config.into();
        let mut coordination = Coordination::start(coordination, recovered.coordination, now);
        if durability == Durability::MemoryOnly {
            coordination.keep_blobs_in_memory();
        }
        Self {
            durability,
            dispatcher: Dispatcher::start(dispatcher, recovered.dispatcher, now),
            coordination,
            log: Log::starting_at(recovered.applied.next()),
            durable: recovered.applied,
            sync_due: recovered.applied,
            sync_asked: recovered.applied,
            health: Health::Serving,
            held: BTreeMap::new(),
            held_serial: 0,
            append_retry: Time::NEVER,
            scratch: Vec::new(),
            coordination_scratch: Vec::new(),
        }
    }

    /// Takes one input and pushes what must be done into `out`, in order.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Effects) {
        match input {
            Input::Request { call, request, entropy } => {
                self.request(now, call, request, entropy, out);
            }
            Input::Cancel { call } => self.cancel(now, call, out),
            Input::Tick => self.tick(now, out),
            Input::Memory(memory) => {
                self.dispatcher.set_memory(memory.clone());
                self.coordination.set_memory(memory);
            }
            Input::Synced { upto } => self.synced(upto, out),
            Input::AppendRefused { from, reason } => {
                self.append_refused(now, from, &reason, out);
            }
            Input::AppendAccepted => self.append_accepted(now, out),
            Input::SyncFailed { reason } => self.halt(&reason, out),
        }
    }

    /// When to call [`Node::step`] with [`Input::Tick`] next, and for whose sake.
    pub fn deadline(&self) -> Option<Deadline> {
        if matches!(self.health, Health::Halted(_)) {
            return None;
        }
        let (maintenance, removal) = self.dispatcher.deadlines();
        let coordination = self.coordination.deadline();
        let coordination = coordination.map(|(at, wake)| (at, Timer::Coordination(wake)));
        let deadlines = [
            (maintenance, Timer::Maintenance),
            (removal.unwrap_or(Time::NEVER), Timer::Removal),
            (self.append_retry, Timer::AppendRetry),
            (self.dispatcher.silence_deadline(), Timer::Silence),
        ];
        let deadlines = deadlines.into_iter().chain(coordination);
        deadlines.filter(|(at, _)| *at < Time::NEVER).min()
    }

    /// How the node stands.
    pub const fn health(&self) -> &Health {
        &self.health
    }

    /// The dispatcher, to look at.
    pub const fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// The coordination service, to look at.
    pub const fn coordination(&self) -> &Coordination {
        &self.coordination
    }

    /// The last durable record.
    pub const fn durable(&self) -> Lsn {
        self.durable
    }

    /// The newest record.
    pub const fn last(&self) -> Lsn {
        self.log.last()
    }

    /// The durable state as it would be recovered from a journal that holds every record so far.
    pub fn recovered(&self) -> Recovered {
        Recovered {
            dispatcher: self.dispatcher.state().clone(),
            coordination: self.coordination.state().clone(),
            applied: self.log.last(),
        }
    }

    fn request(
        &mut self,
        now: Time,
        call: CallId,
        request: Request,
        entropy: u64,
        out: &mut Effects,
    ) {
        if let Health::Halted(reason) = &self.health {
            return refuse(call, reason, out);
        }
        match request {
            Request::Dispatcher(request) => self.turn(now, out, |dispatcher, turn| {
                dispatcher.request(turn, call, request, entropy);
            }),
            Request::Coordination(request) => self.turn_coordination(now, out, |service, turn| {
                service.request(turn, call, request, entropy);
            }),
        }
    }

    /// Forgets a call whose caller is gone, or has left without the answer. A split for it is handed out
    /// again.
    fn cancel(&mut self, now: Time, call: CallId, out: &mut Effects) {
        self.dispatcher.cancel(call);
        self.coordination.cancel(call);
        let is_halted = matches!(self.health, Health::Halted(_));
        let comes_back = self.withdraw_split(call) || self.dispatcher.is_split_answered(call);
        if comes_back && !is_halted {
            self.turn(now, out, |dispatcher, turn| dispatcher.split_stays(turn, call));
        }
    }

    /// Drops the answer with a split that waits to leave for a call, if there is one.
    fn withdraw_split(&mut self, call: CallId) -> bool {
        let Some(after) = self.dispatcher.split_waits_for(call) else {
            return false;
        };
        let mut held = self.held.range((after, 0)..=(after, u64::MAX));
        let of_call = |held: &Held| matches!(held, Held::Reply(of, _) if *of == call);
        let key = held.find(|(_, held)| of_call(held)).map(|(key, _)| *key);
        key.is_some_and(|key| self.held.remove(&key).is_some())
    }

    fn tick(&mut self, now: Time, out: &mut Effects) {
        if matches!(self.health, Health::Halted(_)) {
            return;
        }
        if now >= self.append_retry {
            self.append_retry = now.after(APPEND_RETRY_INTERVAL);
            out.push(Effect::RetryAppend);
        }
        self.turn(now, out, |dispatcher, turn| dispatcher.tick(turn));
        self.turn_coordination(now, out, |service, turn| service.tick(turn));
    }

    /// Lets the dispatcher take a step, and passes on or holds back what comes out.
    fn turn(
        &mut self,
        now: Time,
        out: &mut Effects,
        step: impl FnOnce(&mut Dispatcher, &mut dispatcher::Turn<'_>),
    ) {
        let mut effects = core::mem::take(&mut self.scratch);
        let mut turn = dispatcher::Turn { now, log: &mut self.log, out: &mut effects };
        step(&mut self.dispatcher, &mut turn);
        for effect in effects.drain(..) {
            self.pass(effect.into(), out);
        }
        self.scratch = effects;
        self.want_sync(out);
    }

    /// Lets the coordination service take a step, likewise.
    fn turn_coordination(
        &mut self,
        now: Time,
        out: &mut Effects,
        step: impl FnOnce(&mut Coordination, &mut coordination::Turn<'_>),
    ) {
        let mut effects = core::mem::take(&mut self.coordination_scratch);
        let mut turn = coordination::Turn { now, log: &mut self.log, out: &mut effects };
        step(&mut self.coordination, &mut turn);
        for effect in effects.drain(..) {
            self.pass(effect.into(), out);
        }
        self.coordination_scratch = effects;
        self.want_sync(out);
    }

    /// Asks for a sync if something waits for a record, or should not wait, that none was asked for yet.
    fn want_sync(&mut self, out: &mut Effects) {
        let waited_for = self.held.last_key_value().map_or(Lsn::NONE, |((after, _), _)| *after);
        if waited_for.max(self.sync_due) > self.sync_asked {
            self.ask_sync(out);
        }
    }

    fn ask_sync(&mut self, out: &mut Effects) {
        self.sync_asked = self.log.last();
        out.push(Effect::Sync { upto: self.sync_asked });
    }

    fn pass(&mut self, wish: Wish, out: &mut Effects) {
        match wish {
            Wish::Append(lsn, record) => match self.durability {
                Durability::Journal => {
                    assert!(lsn > self.durable, "a record is durable before it was written");
                    if !record.may_wait() {
                        self.sync_due = lsn;
                    }
                    out.push(Effect::Append { lsn, record });
                }
                Durability::MemoryOnly => self.durable = lsn,
            },
            Wish::Hold(after, held) => self.hold(after, held, out),
            Wish::Observe(event) => out.push(Effect::Observe(event)),
            Wish::Halt(reason) => self.halt(&reason, out),
        }
    }

    /// Lets something out as soon as everything up to `after` is durable.
    fn hold(&mut self, after: Lsn, held: Held, out: &mut Effects) {
        match (&self.health, &held) {
            (Health::Halted(_), Held::Push(_) | Held::Forget(_)) => {}
            (Health::Halted(reason), Held::Reply(call, _)) => refuse(*call, reason, out),
            _ if after <= self.durable => self.release(held, out),
            // Nobody knows when the journal will take records again.
            (Health::RefusingUpdates(reason), Held::Reply(call, result)) => {
                refuse(*call, &while_refusing(reason, result), out);
            }
            _ => {
                self.held_serial = self.held_serial.wrapping_add(1);
                self.held.insert((after, self.held_serial), held);
            }
        }
    }

    fn synced(&mut self, upto: Lsn, out: &mut Effects) {
        assert!(upto <= self.log.last(), "a record that was never written became durable");
        if matches!(self.health, Health::Halted(_)) || upto <= self.durable {
            return;
        }
        self.durable = upto;
        let still_held = self.held.split_off(&(upto.next(), 0));
        let released = core::mem::replace(&mut self.held, still_held);
        for held in released.into_values() {
            self.release(held, out);
        }
    }

    fn release(&mut self, held: Held, out: &mut Effects) {
        match held {
            Held::Reply(call, result) => {
                if hands_out(&result) {
                    self.dispatcher.split_leaves(call);
                }
                out.push(Effect::Reply { call, result });
            }
            Held::Push(task) => out.push(Effect::Push { task }),
            // Something named it again meanwhile: then it stays, or waits for the next one's end.
            Held::Forget(digest) if self.names_blob(digest) => {}
            Held::Forget(digest) => out.push(Effect::ForgetBlob { digest }),
        }
    }

    /// Whether some record that counts, or may count after a crash, names this blob. One that is
    /// not named can go, provided that no request under way names it.
    pub fn names_blob(&self, digest: Digest) -> bool {
        let waits = |held: &Held| matches!(held, Held::Forget(waiting) if *waiting == digest);
        matches!(self.health, Health::Halted(_))
            || self.dispatcher.state().defines(digest)
            || self.coordination.state().names_blob(digest)
            || self.held.values().any(waits)
    }

    /// The refused records stay applied and stay with the driver, which tries again; whoever waits
    /// for them is told to come back later. Who waits for a split goes on waiting: asking again
    /// would bring the next one, and this one would be read by nobody.
    fn append_refused(&mut self, now: Time, from: Lsn, reason: &str, out: &mut Effects) {
        if matches!(self.health, Health::Halted(_)) {
            return;
        }
        let reason: Arc<str> = reason.into();
        self.log.refuse(Some(reason.clone()));
        self.append_retry = now.after(APPEND_RETRY_INTERVAL);
        let told = |result: &_| (!hands_out(result)).then(|| while_refusing(&reason, result));
        self.fail_held(from, told, out);
        self.health = Health::RefusingUpdates(reason);
    }

    fn append_accepted(&mut self, now: Time, out: &mut Effects) {
        if !matches!(self.health, Health::RefusingUpdates(_)) {
            return;
        }
        self.log.refuse(None);
        self.append_retry = Time::NEVER;
        self.health = Health::Serving;
        (self.sync_due, self.sync_asked) = (self.log.last(), self.durable);
        self.turn(now, out, |dispatcher, turn| dispatcher.take_back_undelivered(turn));
    }

    /// Stops. What was acknowledged is durable; what waits is told that it may not be.
    fn halt(&mut self, reason: &str, out: &mut Effects) {
        if matches!(self.health, Health::Halted(_)) {
            return;
        }
        let reason: Arc<str> = reason.into();
        self.fail_held(Lsn::NONE, |_| Some(String::from(&*reason)), out);
        self.held.clear();
        let waiting = self.dispatcher.abandon_calls();
        for call in waiting.chain(self.coordination.abandon_calls()) {
            refuse(call, &reason, out);
        }
        out.push(Effect::Halt { reason: String::from(&*reason) });
        self.health = Health::Halted(reason);
    }

    /// Answers the calls that wait for `from` or a later record with UNAVAILABLE, if there is a reason for
    /// what they wait to be told.
    fn fail_held(
        &mut self,
        from: Lsn,
        reason: impl Fn(&Result<Reply, Status>) -> Option<String>,
        out: &mut Effects,
    ) {
        for (key, held) in self.held.split_off(&(from, 0)) {
            let told = match &held {
                Held::Reply(call, result) => reason(result).map(|reason| (*call, reason)),
                _ => None,
            };
            match told {
                Some((call, reason)) => refuse(call, &reason, out),
                None => {
                    self.held.insert(key, held);
                }
            }
        }
    }
}

impl From<dispatcher::Effect> for Wish {
    fn from(effect: dispatcher::Effect) -> Self {
        match effect {
            dispatcher::Effect::Append { lsn, record } => {
                Self::Append(lsn, Record::Dispatcher(record))
            }
            dispatcher::Effect::Reply { call, result, after } => {
                Self::Hold(after, Held::Reply(call, result.map(Reply::Dispatcher)))
            }
            dispatcher::Effect::Push { task, after } => Self::Hold(after, Held::Push(task)),
            dispatcher::Effect::ForgetBlob { digest, after } => {
                Self::Hold(after, Held::Forget(digest))
            }
            dispatcher::Effect::Observe(event) => Self::Observe(Event::Dispatcher(event)),
            dispatcher::Effect::Halt { reason } => Self::Halt(reason),
        }
    }
}

impl From<coordination::Effect> for Wish {
    fn from(effect: coordination::Effect) -> Self {
        match effect {
            coordination::Effect::Append { lsn, record } => {
                Self::Append(lsn, Record::Coordination(record))
            }
            coordination::Effect::Reply { call, result, after } => {
                Self::Hold(after, Held::Reply(call, result.map(Reply::Coordination)))
            }
            coordination::Effect::ForgetBlob { digest, after } => {
                Self::Hold(after, Held::Forget(digest))
            }
            coordination::Effect::Observe(event) => Self::Observe(Event::Coordination(event)),
            coordination::Effect::Halt { reason } => Self::Halt(reason),
        }
    }
}

/// Whether it hands something out that nobody else will get.
const fn hands_out(result: &Result<Reply, Status>) -> bool {
    matches!(result, Ok(Reply::Dispatcher(dispatcher::Reply::Split(Some(_)))))
}

/// The refusal that replaces an answer while the journal takes no records. It also says that updates may
/// still be made, unless the answer was itself a refusal for want of a journal: that call made no update.
fn while_refusing(reason: &str, result: &Result<Reply, Status>) -> String {
    match result {
        Err(status) if status.message.starts_with(NO_UPDATES) => reason.into(),
        _ => alloc::format!("{reason}; {KEPT}"),
    }
}

fn refuse(call: CallId, reason: &str, out: &mut Effects) {
    let result = Err(unavailable(reason));
    out.push(Effect::Reply { call, result });
}

fn unavailable(reason: &str) -> Status {
    Status::new(Code::Unavailable, alloc::format!("{NO_UPDATES}: {reason}"))
}
