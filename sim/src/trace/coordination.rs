//! Requests to the coordination service and its answers as numbers for the trace hash.

use rondo_core::coordination::{
    Call, Change, ChangeKind, KeyEntry, Method, Reply, Request, TaskInfo, TaskName, Value,
};
use rondo_core::status::Status;

use super::TraceHash;
use super::fingerprint::{of_error, whole};
use crate::workload::kind::Kind;

/// A request as a number: its kind and all that the state machine decides by.
pub fn of_call(request: &Request) -> u64 {
    let mut hash = TraceHash::default();
    let Request::Call(asked) = request else {
        return hash.value();
    };
    let Call { namespace, caller, method } = &**asked;
    hash.add(Kind::of_method(method).index() as u64);
    hash.add_bytes(namespace.as_bytes());
    hash.add(caller.dialect as u64);
    hash.add(caller.life.map_or(0, |life| life.get()));
    if let Some(stamp) = &caller.stamp {
        [stamp.relay.get(), stamp.sequence, stamp.acknowledged].iter().for_each(|n| hash.add(*n));
    }
    of_method(method, &mut hash);
    hash.value()
}

fn of_method(method: &Method, hash: &mut TraceHash) {
    match method {
        Method::Heartbeat { task, incarnation } => {
            of_task(task, hash);
            hash.add(incarnation.get());
        }
        Method::Barrier { id, counter, timeout_ms, tasks, source } => {
            hash.add_bytes(id.as_bytes());
            hash.add(counter.cast_unsigned());
            hash.add(timeout_ms.cast_unsigned());
            tasks.iter().for_each(|task| of_task(task, hash));
            of_task(source, hash);
        }
        Method::ShutdownTask { task }
        | Method::ResetTask { task }
        | Method::PollForError { task } => {
            of_task(task, hash);
        }
        Method::GetTaskState { tasks } => tasks.iter().for_each(|task| of_task(task, hash)),
        Method::GetAliveTasks { requester, tasks } => {
            of_task(requester, hash);
            tasks.iter().for_each(|task| of_task(task, hash));
        }
        Method::WaitForAllTasks { task, devices } => {
            of_task(task, hash);
            hash.add_bytes(devices);
        }
        Method::WatchTasks { version } => hash.add(version.cast_unsigned()),
        Method::WatchKeys { key, from } => {
            hash.add_bytes(key.as_bytes());
            hash.add(from.map_or(u64::MAX, |from| from.get()));
        }
        Method::PutKeyValue { key, value, .. } => {
            hash.add_bytes(key.as_bytes());
            of_value(value, hash);
        }
        Method::GetKeyValue { key }
        | Method::TryGetKeyValue { key }
        | Method::DeleteKeyValue { key }
        | Method::GetKeyValueDir { directory: key } => hash.add_bytes(key.as_bytes()),
        Method::IncrementKeyValue { key, increment } => {
            hash.add_bytes(key.as_bytes());
            hash.add(increment.cast_unsigned());
        }
        Method::RegisterTask { task, incarnation, recoverable, tasks } => {
            of_task(task, hash);
            hash.add(incarnation.get());
            hash.add(u64::from(*recoverable));
            hash.add(tasks.map_or(u64::MAX, u64::from));
        }
        // The rare ones, whole.
        _ => whole(method, hash),
    }
}

fn of_task(task: &TaskName, hash: &mut TraceHash) {
    hash.add_bytes(task.job.as_deref().unwrap_or_default().as_bytes());
    hash.add(u64::from(task.index.get().cast_unsigned()));
}

fn of_value(value: &Value, hash: &mut TraceHash) {
    match value {
        Value::Inline(bytes) => hash.add_bytes(bytes),
        Value::Blob { digest, .. } => hash.add_bytes(digest.as_bytes()),
    }
}

fn of_entries(entries: &[KeyEntry], hash: &mut TraceHash) {
    for KeyEntry { key, value, revision } in entries {
        hash.add_bytes(key.as_bytes());
        of_value(value, hash);
        hash.add(revision.get());
    }
}

fn of_change(change: &Change, hash: &mut TraceHash) {
    hash.add_bytes(change.key.as_bytes());
    match &change.kind {
        ChangeKind::Put(value) => of_value(value, hash),
        gone => whole(gone, hash),
    }
    hash.add(change.revision.get());
}

fn of_info(task: &TaskInfo, hash: &mut TraceHash) {
    hash.add(u64::from(task.index.get().cast_unsigned()));
    hash.add(task.state as u64);
    hash.add(task.incarnation.get());
    if let Some(fault) = &task.fault {
        of_error(fault.code, &fault.message, hash);
    }
}

/// An answer as a number.
pub fn of_coordination(answer: &Result<Reply, Status>) -> u64 {
    let mut hash = TraceHash::default();
    match answer {
        Ok(Reply::Heartbeat(life) | Reply::Registered(life)) => hash.add(life.get()),
        Ok(Reply::Put { revision } | Reply::Deleted { revision }) => hash.add(revision.get()),
        Ok(Reply::Value { value, revision }) => {
            of_value(value, &mut hash);
            hash.add(revision.get());
        }
        Ok(Reply::BarrierPassed { counter }) => hash.add(counter.cast_unsigned()),
        Ok(Reply::Directory(entries)) => of_entries(entries, &mut hash),
        Ok(Reply::Keys { entries, upto }) => {
            of_entries(entries, &mut hash);
            hash.add(upto.get());
        }
        Ok(Reply::Changes { changes, upto }) => {
            changes.iter().for_each(|change| of_change(change, &mut hash));
            hash.add(upto.get());
        }
        Ok(Reply::TaskStates(tasks)) => tasks.iter().for_each(|task| of_info(task, &mut hash)),
        Ok(Reply::Tasks { tasks, version }) => {
            tasks.iter().for_each(|task| of_info(task, &mut hash));
            hash.add(version.cast_unsigned());
        }
        Ok(Reply::Alive(tasks)) => {
            for (index, incarnation) in tasks.iter() {
                hash.add(u64::from(index.get().cast_unsigned()));
                hash.add(incarnation.get());
            }
        }
        Ok(Reply::Devices(devices)) => devices.iter().for_each(|it| hash.add_bytes(it)),
        Ok(reply) => whole(reply, &mut hash),
        Err(status) => of_error(status.code, &status.message, &mut hash),
    }
    hash.value()
}
