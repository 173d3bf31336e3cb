//! Texts of refusals. Where TensorFlow's clients know the words, they begin as TensorFlow's do.

use alloc::format;
use alloc::string::String;

use super::config::Config;
use super::device::Local;
use super::key::Key;
use super::room::{Bound, Held};
use super::types::{Asked, derived};
use crate::ids::{RequestId, StepId};
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

pub(super) fn no_worker_name(name: &str) -> Status {
    let text = format!("{name:?} is no worker's name: it must be /job:NAME/replica:N/task:N");
    Status::new(Code::InvalidArgument, text)
}

pub(super) fn double_init(before: &str, now: &str) -> Status {
    let text = format!(
        "Double init! The step is of the worker {before:?}, and would become one of {now:?}"
    );
    Status::new(Code::Internal, text)
}

/// The key's source, or its destination, is not one of this worker's devices.
pub(super) fn not_ours(side: &str, key: &Key, worker: &str) -> Status {
    let text = format!(
        "Invalid rendezvous key ({side}): {key} names no device of this worker, which is {worker}"
    );
    Status::new(Code::InvalidArgument, text)
}

pub(super) fn unknown_worker(key: &Key) -> Status {
    let text = format!(
        "No worker known as {:?}: the source of {key} names no job, replica and task",
        key.source().name()
    );
    Status::new(Code::Internal, text)
}

pub(super) fn unknown_device(local: Local<'_>, config: &Config) -> Status {
    let ours: alloc::vec::Vec<&str> = config.devices.keys().map(String::as_str).collect();
    let text = format!("{local} unknown device. This worker has {}", ours.join(", "));
    Status::new(Code::InvalidArgument, text)
}

pub(super) fn no_device(key: &Key) -> Status {
    let text = format!(
        "{:?} unknown device: the source of {key} names no type and number",
        key.source().name()
    );
    Status::new(Code::InvalidArgument, text)
}

pub(super) fn other_incarnation(key: &Key, ours: u64, worker: Option<&str>) -> Status {
    let wanted = key.incarnation();
    let worker = worker.map(|it| format!(" ({it:?})")).unwrap_or_default();
    let text = format!(
        "RecvTensor expects a different device incarnation: {wanted} vs. {ours}. Your worker job{worker} \
         was probably restarted. What was sent before that is gone; read the incarnations anew (GetStatus)"
    );
    Status::new(Code::Aborted, text)
}

/// The request was made before.
pub(super) fn repeated(request: RequestId) -> Status {
    let text = format!(
        "The same RecvTensor (GrpcWorker) request was received twice. Its request_id is {request}"
    );
    Status::new(Code::Aborted, text)
}

/// The id of a request is that of another one.
pub(super) fn other_request(asked: Asked, step: StepId, key: &Key, before: &Key) -> Status {
    let text = format!(
        "the request_id {} of {key} in step {step} is that of a request for {before}: ids must be drawn \
         anew for each tensor",
        asked.request
    );
    Status::new(Code::InvalidArgument, text)
}

/// There is no room for a tensor.
pub(super) fn no_room(
    config: &Config,
    bound: Bound,
    step: (StepId, Held),
    all: Held,
    bytes: u64,
) -> Status {
    let (id, step) = step;
    let held = |held: Held| format!("{} tensors of {} bytes are held", held.tensors, held.bytes);
    let (max, setting, of, held) = match bound {
        Bound::StepBytes => (config.step_bytes_max, "--rendezvous-step-size-max", true, held(step)),
        Bound::StepTensors => {
            (config.step_tensors_max as u64, "--rendezvous-step-tensors-max", true, held(step))
        }
        Bound::Bytes => (config.bytes_max, "--rendezvous-size-max", false, held(all)),
        Bound::Tensors => (config.tensors_max as u64, "--rendezvous-tensors-max", false, held(all)),
    };
    let unit = if bound.is_of_bytes() { "bytes" } else { "tensors" };
    let what = match of {
        true => format!("{max} {unit} ({setting}), {held} of step {id}"),
        false => format!("{max} {unit} of all steps together ({setting}), {held} of all"),
    };
    let text = format!(
        "no room for a tensor of {bytes} bytes (with its key) that nobody waits for: at most {what}"
    );
    Status::new(Code::ResourceExhausted, text)
}

/// Clients do not say that they have what answered their requests.
pub(super) fn too_much_kept(config: &Config, kept_bytes: u64) -> Status {
    let text = format!(
        "answers of {kept_bytes} bytes are kept for clients that have not said that they have them \
         (MarkRecvFinished), of at most {} (--rendezvous-size-max): no more are given out until they do",
        config.bytes_max
    );
    Status::new(Code::ResourceExhausted, text)
}

pub(super) fn too_many_steps(config: &Config, step: StepId) -> Status {
    let text = format!(
        "step {step} cannot begin: {} steps are kept at most (--rendezvous-steps-max); clean up those \
         that are over",
        config.steps_max
    );
    Status::new(Code::ResourceExhausted, text)
}

pub(super) fn too_many_calls(config: &Config, key: &Key) -> Status {
    let text = format!(
        "{} calls wait already, the most there may be (--rendezvous-calls-max); {key} cannot wait",
        config.calls_max
    );
    Status::new(Code::ResourceExhausted, text)
}

pub(super) fn cancelled() -> Status {
    derived(Status::new(Code::Cancelled, "RecvAsync is cancelled."))
}

pub(super) fn send_cancelled() -> Status {
    Status::new(Code::Cancelled, "the sender gave up before there was room for its tensor")
}

pub(super) fn too_late(key: Option<&Key>) -> Status {
    let key = key.map(|key| format!(" for {key}")).unwrap_or_default();
    let text = format!("no tensor came{key} within the time that its receiver waits");
    Status::new(Code::DeadlineExceeded, text)
}

pub(super) fn cleaned_up(step: StepId) -> Status {
    Status::new(Code::Aborted, format!("Cleanup {step}"))
}

pub(super) fn shut_down() -> Status {
    Status::new(Code::Aborted, "Shutdown")
}

pub(super) fn expired(step: StepId, after: Duration) -> Status {
    let text = format!(
        "step {step} is given up: nothing happened with it for {} ms (--rendezvous-step-expiry), and \
         nobody cleaned it up",
        after.as_millis()
    );
    Status::new(Code::Aborted, text)
}

/// Another worker has been away for too long.
pub(super) fn away(worker: &str, since: Time, now: Time, config: &Config, last: &Status) -> Status {
    let text = format!(
        "{worker} cannot be reached: away for {} ms, longer than the {} ms allowed \
         (--rendezvous-peer-patience); last error: {}",
        now.since(since).as_millis(),
        config.patience.as_millis(),
        last.message
    );
    Status::new(Code::Unavailable, text)
}

/// The way to another worker broke when it may have given the tensor out.
pub(super) fn lost(worker: &str, key: &Key, last: &Status) -> Status {
    let text = format!(
        "the connection to {worker} broke while {key} was received, and the tensor with it: {worker} keeps \
         none that it gave out; last error: {}",
        last.message
    );
    Status::new(Code::Unavailable, text)
}
