//! While the node's process has no memory for more state, nothing is added to the state. A call is refused
//! for want of memory only if it comes meanwhile and asks for something that is not there: what is there
//! goes on.
//!
//! The oracle reads the records and the state that they make, and shares no code with the node.

use std::collections::BTreeMap;

use rondo_core::control::Record;
use rondo_core::coordination::{self, Method, Value};
use rondo_core::dispatcher::{self, Request};
use rondo_core::ids::CallId;
use rondo_core::memory::Memory;
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use super::shadow::Shadow;
use super::{Oracle, Seen, SeenKind, Verdict, broken_if};
use crate::checks::{Check, reached};

/// Refusals for want of memory begin so.
const REFUSAL: &str = "there is no memory for more ";
/// A worker that is there may say so much of itself, in bytes.
const SAID_MAX: usize = 1024;
/// A counter that is there may have so many digits more, in bytes.
const DIGITS_MAX: u64 = 20;

#[derive(Debug, Default)]
pub(super) struct MemoryLeft {
    left: Memory,
    /// Calls under way, and whether they may be refused for want of memory.
    calls: BTreeMap<CallId, bool>,
}

/// How much memory a call must lack before it may be refused for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    /// It is never refused for want of memory.
    Nothing,
    /// Memory for more state.
    State,
    /// All of it.
    All,
}

impl Oracle for MemoryLeft {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::MemoryLeft,
            SeenKind::Taken,
            SeenKind::Asked,
            SeenKind::Answered,
            SeenKind::Told,
            SeenKind::Died,
            SeenKind::DispatcherRecord,
            SeenKind::CoordinationRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::MemoryLeft(left) => self.left = (*left).clone(),
            Seen::Taken { call, request, .. } => self.took(*call, needs(request, shadow.state())),
            Seen::Asked { call, asked, .. } => self.took(*call, asks(asked, shadow.coordination())),
            Seen::Died => *self = Self::default(),
            Seen::Answered { call, answer, .. } => {
                return self.answered(*call, answer.as_ref().err());
            }
            Seen::Told { call, answer, .. } => return self.answered(*call, answer.as_ref().err()),
            Seen::Recorded { record, lsn, .. } if self.left != Memory::Enough => {
                reached(Check::MemoryAddsNothing);
                let how = || format!("record {lsn} adds to the state: {record:?}");
                let is_none = matches!(self.left, Memory::None(_));
                return broken_if(is_more(record, shadow, is_none), how);
            }
            _ => {}
        }
        Ok(())
    }
}

impl MemoryLeft {
    fn took(&mut self, call: CallId, lacks: Lacks) {
        let may = match self.left {
            Memory::Enough => false,
            Memory::Short(_) => lacks == Lacks::State,
            Memory::None(_) => lacks != Lacks::Nothing,
        };
        self.calls.insert(call, may);
    }

    /// Also of a call whose caller has gone meanwhile.
    fn answered(&mut self, call: CallId, refusal: Option<&Status>) -> Verdict {
        let may = self.calls.remove(&call);
        let Some(status) = refusal.filter(|status| status.message.starts_with(REFUSAL)) else {
            return Ok(());
        };
        reached(Check::MemoryRefuses);
        let is_fair = status.code == Code::ResourceExhausted && may == Some(true);
        broken_if(!is_fair, || format!("call {call} got {status} with {:?}", self.left))
    }
}

/// The memory that a request to the dispatcher may lack: none if it asks for something that is there.
fn needs(request: &Request, state: &dispatcher::State) -> Lacks {
    let is_there = match request {
        Request::RegisterDataset(request) => {
            let known = request.wished.as_ref().map(|id| state.datasets().contains_key(id));
            known.unwrap_or(false) && !request.replaces
        }
        Request::GetOrCreateJob(request) => {
            request.name.as_ref().is_some_and(|name| state.job_named(name).is_some())
        }
        Request::WorkerHeartbeat(heartbeat) => {
            let workers = state.workers();
            let known = workers.values().find(|worker| *worker.address == *heartbeat.address);
            let said = said(&heartbeat.tags, &heartbeat.transfer_servers);
            known.is_some_and(|known| said <= most_said(&known.profile))
        }
        Request::SavePosition { name, .. } => state.positions().contains_key(&**name),
        // A reader also says which job it makes next.
        Request::RestorePosition { job, wanted, .. } => {
            let is_made = wanted.is_none() || state.job_named(job).is_some();
            is_made && state.restorations().contains_key(&**job)
        }
        // A new client of an iteration that is there, too.
        Request::GetOrCreateIteration { .. } => return Lacks::All,
        _ => true,
    };
    if is_there { Lacks::Nothing } else { Lacks::State }
}

/// Bytes of what a worker says of itself.
fn said(tags: &[String], servers: &[dispatcher::TransferServer]) -> usize {
    let tags: usize = tags.iter().map(|tag| tag.len() + size_of::<String>()).sum();
    let of = |server: &dispatcher::TransferServer| {
        let texts = server.protocol.len() + server.address.len();
        texts + server.compatibility_info.len() + size_of::<dispatcher::TransferServer>()
    };
    tags + servers.iter().map(of).sum::<usize>()
}

/// The most bytes that a worker with this profile may say of itself while memory is short.
fn most_said(profile: &dispatcher::WorkerProfile) -> usize {
    said(&profile.tags, &profile.transfer_servers).max(SAID_MAX)
}

/// The memory that a call to the coordination service may lack, likewise.
fn asks(asked: &coordination::Call, state: &coordination::State) -> Lacks {
    let namespace = state.named(&asked.namespace);
    let entry = |key: &str| namespace.and_then(|of| of.store().get(&normal(key)));
    match &asked.method {
        Method::PutKeyValue { key, value, .. } => match entry(key) {
            Some(there) if !is_longer(value, &there.value()) => Lacks::Nothing,
            _ => Lacks::State,
        },
        Method::IncrementKeyValue { key, .. } if entry(key).is_some() => Lacks::Nothing,
        Method::GetKeyValue { key } if entry(key).is_some() => Lacks::Nothing,
        Method::IncrementKeyValue { .. } => Lacks::State,
        Method::GetKeyValue { .. } | Method::WaitForAllTasks { .. } => Lacks::All,
        _ => Lacks::Nothing,
    }
}

/// A key without empty parts.
fn normal(key: &str) -> String {
    key.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Whether a value takes more memory than the one before. A long value is a blob in a file, and a number may
/// have more digits.
fn is_longer(value: &Value, before: &Value) -> bool {
    let is_blob = matches!(value, Value::Blob { .. });
    !is_blob && value.size_bytes() > before.size_bytes().max(DIGITS_MAX)
}

/// Whether a record makes more of what lasts.
fn is_more(record: &Record, shadow: &Shadow, is_none: bool) -> bool {
    match record {
        Record::Dispatcher(record) => is_more_data(record, shadow.state(), is_none),
        Record::Coordination(coordination::Record::PutKey { namespace, key, value, .. }) => {
            let namespaces = shadow.coordination().namespaces();
            let entry = namespaces.get(namespace).and_then(|of| of.store().get(key));
            entry.is_none_or(|entry| is_longer(value, &entry.value()))
        }
        Record::Coordination(coordination::Record::OfferDevices { .. }) => is_none,
        Record::Coordination(_) => false,
    }
}

fn is_more_data(record: &dispatcher::Record, state: &dispatcher::State, is_none: bool) -> bool {
    use dispatcher::Record;
    match record {
        Record::RegisterDataset { .. }
        | Record::CreateJob { .. }
        | Record::RegisterWorker { .. } => true,
        Record::CreateIteration { .. }
        | Record::ResumeIteration { .. }
        | Record::CreateFinishedIteration { .. }
        | Record::AcquireClient { .. } => is_none,
        Record::UpdateWorker { id, profile } => state.workers().get(id).is_none_or(|known| {
            said(&profile.tags, &profile.transfer_servers) > most_said(&known.profile)
        }),
        Record::ReplaceDataset { id, .. } => !state.datasets().contains_key(id),
        Record::SavePosition { name, .. } => !state.positions().contains_key(name),
        Record::RestorePosition { job, .. } => !state.restorations().contains_key(job),
        _ => false,
    }
}
