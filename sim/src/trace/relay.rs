//! What happens to a relay and what it does as numbers for the trace hash.

use rondo_core::relay::{Effect, Forwarding, Input};

use super::TraceHash;
use super::fingerprint::whole;

/// An input as a number.
pub fn of_relay_input(input: &Input) -> u64 {
    let mut hash = TraceHash::default();
    match input {
        Input::Asked { call, asked, .. } => {
            hash.add(call.get());
            hash.add(asked.client.get());
            hash.add_bytes(asked.path.as_bytes());
            hash.add_bytes(&asked.message);
        }
        Input::Tick => {}
        _ => whole(input, &mut hash),
    }
    hash.value()
}

/// An effect as a number.
pub fn of_relay_effect(effect: &Effect) -> u64 {
    let mut hash = TraceHash::default();
    match effect {
        Effect::Forward { link, call, forwarding } => {
            let Forwarding { message, stamp, .. } = forwarding;
            hash.add(link.0);
            hash.add(call.get());
            hash.add_bytes(message);
            if let Some(stamp) = stamp {
                let numbers = [stamp.relay.get(), stamp.sequence, stamp.acknowledged];
                numbers.iter().for_each(|number| hash.add(*number));
            }
        }
        _ => whole(effect, &mut hash),
    }
    hash.value()
}
