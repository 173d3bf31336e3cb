//! What callers hear, as far as the model says.

use rondo_core::coordination::{ChangeKind, KeyEntry, Reply, TaskInfo, TaskState, Value};
use rondo_core::status::{Code, Status};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Registered,
    Beat,
    Left,
    Reset,
    Reported,
    LifeBegun,
    Put,
    Value(String),
    Directory(Vec<(String, String)>),
    Deleted,
    /// Keys or directories with what became of them, and up to which revision.
    Changes(Vec<(String, Option<String>)>, u64),
    Keys(Vec<(String, String)>, u64),
    Passed(i64),
    Cancelled,
    Alive(Vec<(i32, u64)>),
    Devices(Vec<Vec<u8>>),
    /// Incarnations, whether connected, and errors.
    States(Vec<State>),
    Tasks(Vec<State>),
    Refused(Code),
}

pub(crate) type State = (u64, bool, Option<Code>);

pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Inline(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Blob { .. } => "a blob".into(),
    }
}

fn state(info: &TaskInfo) -> State {
    let fault = info.fault.as_ref().map(|fault| fault.code);
    assert_eq!(fault.is_some(), info.state == TaskState::Error, "{info:?}");
    (info.incarnation.get(), info.state == TaskState::Connected, fault)
}

fn entry(entry: &KeyEntry) -> (String, String) {
    (entry.key.to_string(), text(&entry.value))
}

/// What the real service's answer says to the model.
pub(crate) fn heard(answer: &Result<Reply, Status>) -> Heard {
    let reply = match answer {
        Ok(reply) => reply,
        Err(status) => return Heard::Refused(status.code),
    };
    match reply {
        Reply::Registered(_) => Heard::Registered,
        Reply::Heartbeat(_) => Heard::Beat,
        Reply::ShutDown => Heard::Left,
        Reply::Reset => Heard::Reset,
        Reply::ErrorReported => Heard::Reported,
        Reply::LifeBegun(_) => Heard::LifeBegun,
        Reply::TaskStates(infos) => Heard::States(infos.iter().map(state).collect()),
        Reply::Tasks { tasks, .. } => Heard::Tasks(tasks.iter().map(state).collect()),
        Reply::Put { .. } => Heard::Put,
        Reply::Value { value, .. } => Heard::Value(text(value)),
        Reply::Directory(entries) => Heard::Directory(entries.iter().map(entry).collect()),
        Reply::Deleted { .. } => Heard::Deleted,
        Reply::Changes { changes, upto } => {
            let changes = changes.iter().map(|change| {
                let value = match &change.kind {
                    ChangeKind::Put(value) => Some(text(value)),
                    ChangeKind::Deleted | ChangeKind::DeletedWithAllUnder => None,
                };
                (change.key.to_string(), value)
            });
            Heard::Changes(changes.collect(), upto.get())
        }
        Reply::Keys { entries, upto } => {
            Heard::Keys(entries.iter().map(entry).collect(), upto.get())
        }
        Reply::BarrierPassed { counter } => Heard::Passed(*counter),
        Reply::BarrierCancelled => Heard::Cancelled,
        Reply::Alive(tasks) => {
            Heard::Alive(tasks.iter().map(|(task, run)| (task.get(), run.get())).collect())
        }
        Reply::Devices(all) => Heard::Devices(all.iter().map(|one| one.to_vec()).collect()),
        Reply::Report(_) => panic!("not in the model: {reply:?}"),
    }
}
