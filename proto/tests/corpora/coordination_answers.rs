//! The answers of all dialects, read by their own messages.

use bytes::Bytes;
use prost::Message;
use rondo_core::coordination::Dialect;
use rondo_proto::convert::CoordinationMethod as M;
use rondo_proto::{admin, tf, xla};

/// The answer of a method as it is written once it has been read.
pub(crate) fn written_again((dialect, method): (Dialect, M), bytes: &Bytes) -> Bytes {
    match dialect {
        Dialect::T => in_t(method, bytes),
        Dialect::X => in_x(method, bytes),
        Dialect::Rondo => in_rondo(method, bytes),
    }
}

fn in_t(method: M, bytes: &Bytes) -> Bytes {
    match method {
        M::RegisterTask => again::<tf::RegisterTaskResponse>(bytes),
        M::Heartbeat => again::<tf::HeartbeatResponse>(bytes),
        M::WaitForAllTasks => again::<tf::WaitForAllTasksResponse>(bytes),
        M::ShutdownTask => again::<tf::ShutdownTaskResponse>(bytes),
        M::ResetTask => again::<tf::ResetTaskResponse>(bytes),
        M::ReportErrorToTask => again::<tf::ReportErrorToTaskResponse>(bytes),
        M::ReportErrorToService => again::<tf::ReportErrorToServiceResponse>(bytes),
        M::PollForError => again::<tf::PollForErrorResponse>(bytes),
        M::GetTaskState => again::<tf::GetTaskStateResponse>(bytes),
        M::GetJobState => again::<tf::GetJobStateResponse>(bytes),
        M::WatchJobState => again::<tf::WatchJobStateResponse>(bytes),
        M::InsertKeyValue => again::<tf::InsertKeyValueResponse>(bytes),
        M::GetKeyValue => again::<tf::GetKeyValueResponse>(bytes),
        M::TryGetKeyValue => again::<tf::TryGetKeyValueResponse>(bytes),
        M::IncrementKeyValue => again::<tf::IncrementKeyValueResponse>(bytes),
        M::GetKeyValueDir => again::<tf::GetKeyValueDirResponse>(bytes),
        M::DeleteKeyValue => again::<tf::DeleteKeyValueResponse>(bytes),
        M::Barrier => again::<tf::BarrierResponse>(bytes),
        M::CancelBarrier => again::<tf::CancelBarrierResponse>(bytes),
        M::GetAliveTasks => again::<tf::GetAliveTasksResponse>(bytes),
        other => panic!("dialect T has no {other:?}"),
    }
}

fn in_x(method: M, bytes: &Bytes) -> Bytes {
    match method {
        M::RegisterTask => again::<xla::RegisterTaskResponse>(bytes),
        M::Heartbeat => again::<xla::HeartbeatResponse>(bytes),
        M::ShutdownTask => again::<xla::ShutdownTaskResponse>(bytes),
        M::ReportErrorToService => again::<xla::ReportErrorToServiceResponse>(bytes),
        M::PollForError => again::<xla::PollForErrorResponse>(bytes),
        M::WatchTasks => again::<xla::WatchTasksResponse>(bytes),
        M::InsertKeyValue => again::<xla::InsertKeyValueResponse>(bytes),
        M::GetKeyValue => again::<xla::GetKeyValueResponse>(bytes),
        M::TryGetKeyValue => again::<xla::TryGetKeyValueResponse>(bytes),
        M::IncrementKeyValue => again::<xla::IncrementKeyValueResponse>(bytes),
        M::GetKeyValueDir => again::<xla::GetKeyValueDirResponse>(bytes),
        M::DeleteKeyValue => again::<xla::DeleteKeyValueResponse>(bytes),
        M::Barrier => again::<xla::BarrierResponse>(bytes),
        M::CancelBarrier => again::<xla::CancelBarrierResponse>(bytes),
        M::GetAliveTasks => again::<xla::GetAliveTasksResponse>(bytes),
        other => panic!("dialect X has no {other:?}"),
    }
}

fn in_rondo(method: M, bytes: &Bytes) -> Bytes {
    match method {
        M::PutKey => again::<admin::PutKeyResponse>(bytes),
        M::DeleteKey => again::<admin::DeleteKeyResponse>(bytes),
        M::WatchKeys => again::<admin::WatchKeysResponse>(bytes),
        other => panic!("rondo.v1 has no {other:?}"),
    }
}

fn again<R: Message + Default>(bytes: &Bytes) -> Bytes {
    R::decode(bytes.clone()).unwrap().encode_to_vec().into()
}
