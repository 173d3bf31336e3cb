//! Keys are linearizable, key by key and life by life, across deaths of the node: every answer fits
//! one order of all calls in which each happens once, between its beginning and its answer. What
//! bears a relay's mark is one call, however often it is sent.
//!
//! That is watched twice: at the node's border, and where tasks are that talk to relays, whose calls
//! outlive the node's process there.

mod history;
mod passed;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::control::Record;
use rondo_core::coordination::{self, Call, KeyEntry, Method, Refusal, Reply, Stamp, Value};
use rondo_core::ids::{CallId, Lsn, ServiceIncarnation};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use self::history::{Came, History, What};
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

/// A namespace's life.
type Life = (Arc<str>, ServiceIncarnation);
/// A key in it.
type Place = (Life, String);

/// A call under way.
#[derive(Clone, Debug)]
struct Open {
    life: Life,
    method: Method,
    /// The relay's mark, where the node sees it.
    stamp: Option<Stamp>,
    ops: Vec<(Place, usize)>,
    /// Whether a task waits for it behind a relay.
    passed: bool,
    /// What it may do besides, now that it comes again.
    perhaps: Vec<(Place, usize)>,
}

#[derive(Default)]
pub(super) struct Keys {
    clock: u64,
    histories: BTreeMap<Place, History>,
    open: CallMap<Open>,
    /// The first calls of a namespace, which begin its first life.
    first: CallMap<Box<Call>>,
    marked: BTreeMap<(Life, u64, u64), Vec<(Place, usize)>>,
    /// Ends of leases that are not durable yet.
    ends: BTreeMap<Lsn, Vec<(Place, usize)>>,
    /// What tasks behind relays do, if that is watched.
    passed: Option<passed::Passed>,
}

/// The one way to write a key.
fn normal(key: &str) -> String {
    key.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

fn is_under(key: &str, directory: &str) -> bool {
    !directory.is_empty() && key.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

fn bytes_of(value: &Value) -> Bytes {
    match value {
        Value::Inline(bytes) => bytes.clone(),
        Value::Blob { digest, .. } => Bytes::copy_from_slice(digest.as_bytes()),
    }
}

impl Keys {
    fn tick(&mut self) -> u64 {
        self.clock = self.clock.saturating_add(1);
        self.clock
    }

    fn asked(&mut self, call: CallId, asked: &Call, shadow: &Shadow) {
        let namespace = shadow.coordination().named(&asked.namespace);
        match namespace.map(|namespace| namespace.head().incarnation) {
            Some(life) => self.begin(call, asked, (asked.namespace.clone(), life)),
            None => drop(self.first.insert(call, Box::new(asked.clone()))),
        }
    }

    fn begin(&mut self, call: CallId, asked: &Call, life: Life) {
        let at = self.tick();
        let stamp = asked.caller.stamp.map(|stamp| (stamp.relay.get(), stamp.sequence));
        let mark = stamp.map(|(relay, sequence)| (life.clone(), relay, sequence));
        // Reading is done again as often as it is asked for, whatever mark it bears.
        let mark = mark.filter(|_| changes(&asked.method));
        let known = mark.as_ref().and_then(|mark| self.marked.get(mark)).cloned();
        let again = known.filter(|ops| self.may_be_one(ops));
        let is_again = again.is_some();
        let ops = match again {
            Some(ops) => {
                ops.iter().for_each(|(place, op)| {
                    if let Some(history) = self.histories.get_mut(place)
                        && history.came(*op).is_none()
                    {
                        history.revive(*op);
                    }
                });
                ops
            }
            None => self.invoke(at, &life, &asked.method),
        };
        // A delete that found nothing is not kept, and is done again when it comes again.
        let deletes = matches!(asked.method, Method::DeleteKeyValue { .. });
        let perhaps = match is_again && deletes {
            true => self.invoke(at, &life, &asked.method),
            false => Vec::new(),
        };
        if let Some(mark) = mark.filter(|_| !ops.is_empty()) {
            self.marked.insert(mark, ops.clone());
        }
        if !ops.is_empty() || matches!(asked.method, Method::GetKeyValueDir { .. }) {
            let (method, stamp) = (asked.method.clone(), asked.caller.stamp);
            self.open.insert(call, Open { life, method, stamp, ops, passed: false, perhaps });
        }
    }

    /// Whether a marked call that comes again is still the one it was: what was refused is not kept.
    fn may_be_one(&self, ops: &[(Place, usize)]) -> bool {
        let refused = |came: &Came| !matches!(came, Came::Put(_) | Came::Value(..) | Came::Done);
        ops.iter().all(|(place, op)| {
            let came = self.histories.get(place).and_then(|history| history.came(*op));
            !came.is_some_and(refused)
        })
    }

    fn invoke(&mut self, at: u64, life: &Life, method: &Method) -> Vec<(Place, usize)> {
        let mut one = |key: &str, what: What| {
            let place = (life.clone(), normal(key));
            self.delete_from_new(&place);
            let op = self.histories.entry(place.clone()).or_default().invoke(at, what);
            vec![(place, op)]
        };
        match method {
            Method::PutKeyValue { key, value, condition, lease } => {
                let (value, condition, lease) = (bytes_of(value), *condition, *lease);
                one(key, What::Put { value, condition, lease })
            }
            Method::IncrementKeyValue { key, increment } => one(key, What::Increment(*increment)),
            Method::GetKeyValue { key } | Method::TryGetKeyValue { key } => one(key, What::Read),
            Method::DeleteKeyValue { key } => {
                let normal = normal(key);
                self.all(at, life, What::Delete, |key| *key == *normal || is_under(key, &normal))
            }
            Method::GetKeyValueDir { directory } => {
                let normal = normal(directory);
                self.all(at, life, What::Read, |key| is_under(key, &normal))
            }
            _ => Vec::new(),
        }
    }

    /// A call that concerns several keys.
    fn all(
        &mut self,
        at: u64,
        life: &Life,
        what: What,
        concerned: impl Fn(&str) -> bool,
    ) -> Vec<(Place, usize)> {
        let mine = self.histories.iter_mut();
        let mine = mine.filter(|((of, key), _)| of == life && concerned(key));
        mine.map(|(place, history)| (place.clone(), history.invoke(at, what.clone()))).collect()
    }

    fn told(&mut self, call: CallId, answer: &Result<Reply, Status>) -> Verdict {
        let Some(open) = self.open.remove(&call) else {
            return Ok(());
        };
        let at = self.tick();
        for (place, op) in &open.perhaps {
            if let Some(history) = self.histories.get_mut(place) {
                history.close(at, *op);
            }
        }
        if let Ok(Reply::Directory(entries)) = answer {
            return self.listed(at, &open, entries);
        }
        let Some(came) = came_of(&open.method, open.stamp, answer) else {
            return Ok(());
        };
        for at_key in &open.ops {
            self.came(at, (call, &open.method), at_key, &came)?;
        }
        Ok(())
    }

    /// A call came to something at one key.
    fn came(
        &mut self,
        at: u64,
        (call, method): (CallId, &Method),
        (place, op): &(Place, usize),
        came: &Came,
    ) -> Verdict {
        let same = |open: &Open| open.ops.iter().any(|(of, number)| (of, number) == (place, op));
        let Self { open, histories, .. } = self;
        let is_under_way = || open.values().any(same);
        let Some(history) = histories.get_mut(place) else {
            return Ok(());
        };
        let op = match history.came(*op).cloned() {
            Some(before) if before == *came => return Ok(()),
            // What is refused is not kept: it did nothing that time, and may do it another time.
            None if is_refusal(came) && is_under_way() => history.repeat(*op),
            Some(_) if is_refusal(came) => history.repeat(*op),
            Some(before) => {
                return Err(format!(
                    "call {call} to key {place:?} bears a mark that came to {before:?} before, and \
                     now to {came:?}"
                ));
            }
            None => *op,
        };
        let fits = history.answer(at, op, came.clone());
        reached(if self.passed.is_some() { Check::KeysRelays } else { Check::KeysNode });
        if fits {
            return Ok(());
        }
        Err(format!(
            "no order of the calls to key {place:?} explains that call {call} ({method:?}) came to \
             {came:?}"
        ))
    }

    /// A directory lists each of its keys as it is.
    fn listed(&mut self, at: u64, open: &Open, entries: &[KeyEntry]) -> Verdict {
        for entry in entries {
            let place = (open.life.clone(), entry.key.to_string());
            if !self.histories.contains_key(&place) {
                return Err(format!("a directory lists key {place:?}, which nobody has put"));
            }
        }
        for (place, op) in &open.ops {
            let entry = entries.iter().find(|entry| *entry.key == *place.1);
            let came = entry.map_or(Came::Absent, |entry| {
                Came::Value(bytes_of(&entry.value), entry.revision.get())
            });
            let history = self.histories.get_mut(place);
            if history.is_some_and(|history| !history.answer(at, *op, came.clone())) {
                return Err(format!(
                    "no order of the calls to key {place:?} explains that its directory had \
                     {came:?}"
                ));
            }
        }
        Ok(())
    }

    fn recorded(
        &mut self,
        lsn: Lsn,
        record: &coordination::Record,
        call: Option<CallId>,
        shadow: &Shadow,
    ) {
        match record {
            coordination::Record::BeginLife { name, incarnation, .. } => {
                let first = call.and_then(|call| Some((call, self.first.remove(&call)?)));
                if let Some((call, asked)) = first {
                    self.begin(call, &asked, (name.clone(), *incarnation));
                }
            }
            coordination::Record::EndLeases { namespace, task } => {
                let namespace = shadow.coordination().namespaces().get(namespace);
                let Some(head) = namespace.map(coordination::Namespace::head) else {
                    return;
                };
                let (life, at) = ((head.name.clone(), head.incarnation), self.tick());
                let mine = self.histories.iter_mut();
                let leased =
                    mine.filter(|((of, _), history)| *of == life && history.is_leased(*task));
                let ops = leased.map(|(place, history)| {
                    (place.clone(), history.invoke(at, What::EndLease(*task)))
                });
                self.ends.insert(lsn, ops.collect());
            }
            _ => {}
        }
    }

    /// Leases whose ends are durable have ended.
    fn durable(&mut self, upto: Lsn) {
        let at = self.tick();
        let later = self.ends.split_off(&upto.next());
        for (place, op) in std::mem::replace(&mut self.ends, later).into_values().flatten() {
            if let Some(history) = self.histories.get_mut(&place) {
                history.answer(at, op, Came::Done);
            }
        }
    }
}

const fn changes(method: &Method) -> bool {
    matches!(
        method,
        Method::PutKeyValue { .. }
            | Method::IncrementKeyValue { .. }
            | Method::DeleteKeyValue { .. }
    )
}

/// Whether a refusal says nothing of what it refuses.
fn may_have_happened(status: &Status) -> bool {
    status.code == Code::Unavailable
}

/// Whether a refusal is of the mark that a call bears, and says nothing of the key.
fn is_of_the_mark(status: &Status, stamp: Option<Stamp>) -> bool {
    stamp.is_some_and(|stamp| {
        let (relay, sequence) = (stamp.relay.get(), stamp.sequence);
        *status == Status::from(Refusal::Acknowledged { relay, sequence })
    })
}

const fn is_refusal(came: &Came) -> bool {
    matches!(came, Came::Exists | Came::Absent | Came::Unfit | Came::Refused)
}

/// What an answer says of a key; nothing if whether the call happened stays open.
fn came_of(method: &Method, stamp: Option<Stamp>, answer: &Result<Reply, Status>) -> Option<Came> {
    let conditional = |method: &Method| {
        matches!(
            method,
            Method::IncrementKeyValue { .. }
                | Method::PutKeyValue {
                    condition: coordination::Condition::Revision(_),
                    lease: None,
                    ..
                }
        )
    };
    Some(match answer {
        Ok(Reply::Put { revision }) => Came::Put(revision.get()),
        Ok(Reply::Value { value, revision }) => Came::Value(bytes_of(value), revision.get()),
        Ok(_) => Came::Done,
        Err(status) => match (status.code, method) {
            _ if may_have_happened(status) => return None,
            (Code::AlreadyExists, Method::PutKeyValue { .. }) => Came::Exists,
            (Code::NotFound, _) => Came::Absent,
            (Code::FailedPrecondition, method)
                if conditional(method) && !is_of_the_mark(status, stamp) =>
            {
                Came::Unfit
            }
            _ => Came::Refused,
        },
    })
}

impl Oracle for Keys {
    fn name(&self) -> &'static str {
        "keys"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Durable,
            SeenKind::Asked,
            SeenKind::Told,
            SeenKind::Passed,
            SeenKind::PassedBack,
            SeenKind::PassedGone,
            SeenKind::PassedOver,
            SeenKind::Died,
            SeenKind::Recovered,
            SeenKind::CoordinationRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Asked { by, .. } if by.relay.is_some() && self.passed.is_some() => {}
            Seen::Asked { call, asked, .. } => self.asked(*call, asked, shadow),
            Seen::Passed { call, asked } => self.pass(*call, asked),
            Seen::PassedBack { call, answer } => return self.pass_back(*call, answer),
            Seen::PassedGone { call } => self.pass_alone(*call),
            Seen::PassedOver { call } => self.pass_over(*call),
            Seen::Told { call, answer, .. } => {
                self.first.remove(call);
                return self.told(*call, answer);
            }
            Seen::Recorded { lsn, record: Record::Coordination(record), during } => {
                self.recorded(*lsn, record, *during, shadow);
            }
            Seen::Durable(upto) => self.durable(*upto),
            Seen::Died => {
                let at = self.tick();
                self.open.retain(|_, open| open.passed);
                self.first.clear();
                self.histories.values_mut().for_each(|history| history.lose(at));
            }
            Seen::Recovered { state, .. } => {
                // Ends of leases that were recovered have happened; the others have not, or not yet.
                self.durable(state.applied);
                self.ends.clear();
            }
            _ => {}
        }
        Ok(())
    }
}
