//! What happens to a rendezvous and what it does as numbers for the trace hash.

use rondo_core::element::{Tensor, Values};
use rondo_core::rendezvous::{Effect, Input, Value};
use rondo_core::status::Status;

use super::TraceHash;
use super::fingerprint::{of_error, whole};

/// An input as a number.
pub fn of_rendezvous_input(input: &Input<Tensor>) -> u64 {
    let mut hash = TraceHash::default();
    match input {
        Input::Send { call, step, key, value, waits, .. } => {
            hash.add(call.get());
            hash.add(step.get().cast_unsigned());
            hash.add_bytes(key.text().as_bytes());
            hash.add(u64::from(*waits));
            of_value(value, &mut hash);
        }
        Input::Recv { call, step, key, timeout, .. } => {
            hash.add(call.get());
            hash.add(step.get().cast_unsigned());
            hash.add_bytes(key.text().as_bytes());
            hash.add(timeout.map_or(0, |timeout| timeout.as_nanos()));
        }
        Input::RecvLocal { call, step, key, timeout, asked } => {
            hash.add(call.get());
            hash.add(step.get().cast_unsigned());
            hash.add_bytes(key.text().as_bytes());
            hash.add(timeout.map_or(0, |timeout| timeout.as_nanos()));
            hash.add(asked.map_or(0, |asked| asked.request.get().cast_unsigned()));
        }
        Input::Fetched { call, value } => {
            hash.add(call.get());
            of_value(value, &mut hash);
        }
        Input::Tick => {}
        _ => whole(input, &mut hash),
    }
    hash.value()
}

/// An effect as a number.
pub fn of_rendezvous_effect(effect: &Effect<Tensor>) -> u64 {
    let mut hash = TraceHash::default();
    match effect {
        Effect::Sent { call, result } | Effect::Done { call, result } => {
            hash.add(call.get());
            of_result(result, &mut hash);
        }
        Effect::Received { call, result } => {
            hash.add(call.get());
            match result {
                Ok(delivery) => of_value(&delivery.value, &mut hash),
                Err(status) => of_error(status.code, &status.message, &mut hash),
            }
        }
        Effect::Fetch { call, request, .. } => {
            hash.add(call.get());
            hash.add(request.get().cast_unsigned());
        }
        Effect::Withdraw { call } => hash.add(call.get()),
        Effect::Observe(_) => whole(effect, &mut hash),
    }
    hash.value()
}

fn of_result(result: &Result<(), Status>, hash: &mut TraceHash) {
    match result {
        Ok(()) => hash.add(1),
        Err(status) => of_error(status.code, &status.message, hash),
    }
}

fn of_value(value: &Value<Tensor>, hash: &mut TraceHash) {
    hash.add(u64::from(value.is_dead));
    hash.add(value.bytes);
    match value.tensor.values() {
        Values::Fixed(bytes) | Values::Strings { bytes, .. } | Values::Encoded(bytes) => {
            hash.add_bytes(bytes);
        }
    }
}
