//! Refusals of a worker. Consumers ask again after UNAVAILABLE, ABORTED and CANCELLED, and give up
//! after anything else.

use alloc::format;

use crate::ids::TaskId;
use crate::limits::{
    CONSUMER_CALLS_MIN, NAME_BYTES_MAX, STATUS_TEXT_BYTES_MAX, TRAINERS_MAX, WORKER_TASKS_MAX,
};
use crate::status::{Code, Status};

/// Whether an error may come from the way to the dispatcher: a connection that broke, or a proxy that
/// refused or mangled a call. It says nothing about the subject of the call, so the worker asks again.
pub(super) const fn is_of_the_way(status: &Status) -> bool {
    status.code.may_pass()
        || matches!(
            status.code,
            Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented
        )
}

/// The dispatcher's refusal to hand out a definition, as consumers are told it: after an error of the
/// way they ask again.
pub(super) fn of_definition(status: Status) -> Status {
    if status.code.is_soft() || !is_of_the_way(&status) {
        return status;
    }
    let Status { code, message, details } = status;
    let text = format!("the dispatcher did not hand out the dataset ({code:?}): {message}");
    Status::new(Code::Unavailable, text).with(details)
}

/// An error of the data, as every consumer is told it from now on: with a code after which nobody
/// asks again, and no longer than fits into a header.
pub(super) fn final_error(status: Status) -> Status {
    let code = if status.code.is_soft() { Code::Internal } else { status.code };
    let mut message = status.message;
    if message.len() > STATUS_TEXT_BYTES_MAX {
        let fits = (0..=STATUS_TEXT_BYTES_MAX).rev().find(|&at| message.is_char_boundary(at));
        message.truncate(fits.unwrap_or(0));
    }
    Status { code, message, details: status.details }
}

pub(super) fn shutting_down() -> Status {
    Status::new(Code::Cancelled, "Worker is shutting down")
}

/// To a reader of splits, which goes to another worker.
pub(super) fn leaving() -> Status {
    Status::new(Code::Unavailable, "Worker is shutting down; another one may read the split")
}

pub(super) fn not_registered() -> Status {
    Status::new(Code::Unavailable, "Worker has not yet registered with dispatcher.")
}

pub(super) fn not_found(task: TaskId) -> Status {
    Status::new(Code::Unavailable, format!("Task {task} not found"))
}

pub(super) fn deleted(task: TaskId) -> Status {
    Status::new(Code::Cancelled, format!("Task {task} is cancelled: the dispatcher deleted it"))
}

pub(super) fn wrong_address(dispatchers: &str, own: &str) -> Status {
    let text =
        format!("Dispatcher's worker address {dispatchers} does not match worker's address {own}.");
    Status::new(Code::Internal, text)
}

/// A connection would have more calls than it leaves free.
pub(super) fn too_many_calls(calls_max: usize, free: usize, found: usize) -> Status {
    let text = format!(
        "{calls_max} calls may wait at this worker (--calls-max), and {free} of these are free: a connection \
         may have as many as are free, {CONSUMER_CALLS_MIN} in any case, and this one has {found}"
    );
    Status::new(Code::Unavailable, text)
}

/// One task more than there may be.
pub(super) fn too_many_tasks() -> Status {
    let text = format!("this worker has {WORKER_TASKS_MAX} tasks already, which is the bound");
    Status::new(Code::ResourceExhausted, text)
}

pub(super) fn no_round(task: TaskId) -> Status {
    let text = format!(
        "Task {task} is read in rounds: a request must have a consumer_index and a round_index"
    );
    Status::new(Code::FailedPrecondition, text)
}

pub(super) fn no_such_consumer(consumer: i64, consumers: i64) -> Status {
    let text =
        format!("consumer_index is {consumer}; it must be less than num_consumers, {consumers}");
    Status::new(Code::FailedPrecondition, text)
}

pub(super) fn round_is_over(consumer: i64, round: i64, current: i64) -> Status {
    let text = format!(
        "Consumer {consumer} requested data for round {round}, but the current round has already \
         reached {current}. This may indicate that the consumer was restarted with the same job \
         name."
    );
    Status::new(Code::FailedPrecondition, text)
}

pub(super) fn rounds_need_endless_data(cardinality: i64) -> Status {
    let text = format!(
        "Round robin reads require that the input dataset has infinite cardinality, but the dataset \
         has cardinality {cardinality}. Consider adding a `repeat` to it."
    );
    Status::new(Code::FailedPrecondition, text)
}

pub(super) fn rounds_have_ended() -> Status {
    let text = "Encountered end of sequence on a round-robin read iterator. Please ensure that the \
                dataset used for round-robin reading has infinite cardinality.";
    Status::new(Code::FailedPrecondition, text)
}

pub(super) fn no_trainer() -> Status {
    let text = "tf.data service cross-trainer cache requires a non-empty trainer ID.";
    Status::new(Code::InvalidArgument, text)
}

pub(super) fn cache_needs_endless_data() -> Status {
    let text = "Cross-trainer caching requires the input dataset to be infinite. However, it \
                reached the end of sequence.";
    Status::new(Code::InvalidArgument, text)
}

pub(super) fn too_large_for_cache(size_bytes: u64, cache_bytes: u64) -> Status {
    let text = format!(
        "Cross-trainer cache size must be larger than the data: an element takes {size_bytes} \
         bytes, and the cache has {cache_bytes} (--cache-size)"
    );
    Status::new(Code::InvalidArgument, text)
}

/// A trainer's id is too long: the task keeps each.
pub(super) fn long_trainer(bytes: usize) -> Status {
    let text =
        format!("a trainer ID has {bytes} bytes; at most {NAME_BYTES_MAX} bytes are allowed");
    Status::new(Code::InvalidArgument, text)
}

/// One trainer more than there may be.
pub(super) fn too_many_trainers() -> Status {
    let text = format!("{TRAINERS_MAX} trainers share this task already, which is the bound");
    Status::new(Code::ResourceExhausted, text)
}

/// The dispatcher speaks another version.
pub(super) fn other_version(found: i64, wanted: i64) -> Status {
    let text = format!(
        "Version mismatch with tf.data service server. The server is running version {found}, while \
         the worker is running version {wanted}."
    );
    Status::new(Code::FailedPrecondition, text)
}

/// The dispatcher was away for too long.
pub(super) fn away_for_too_long(what: &str, status: &Status) -> Status {
    let text = format!("the dispatcher was away for too long to {what}: {}", status.message);
    Status::new(Code::Internal, text)
}
