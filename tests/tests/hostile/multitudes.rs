//! Attacks by many calls on each of many connections.

use std::thread;
use std::time::Duration;

use prost::Message;
use rondo_proto::tf;
use rondo_tests::stranger::{Stranger, prefixed};

use super::attacks::Attack;
use super::families::{CALLS_OF_ONE, answered, key};
use super::keys::SERVICE as T;

/// Connections of one stranger that it keeps open at a time.
const CONNECTIONS_OF_ONE: usize = 500;

/// What strangers do with each connection behind its calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// They keep it.
    Keep,
    /// They say that nothing more will come, and keep it.
    Finish,
}

/// An attack by many calls on each of as many connections as a server takes.
fn everywhere(
    name: &'static str,
    path: String,
    then: Then,
    body: impl Fn(usize) -> Option<Vec<u8>> + Sync + 'static,
) -> Attack {
    answered(name, move |ground, number| {
        let mut kept = Vec::new();
        while ground.goes_on() {
            let Some(mut stranger) = Stranger::that_reads(&ground.address, &ground.heard) else {
                continue;
            };
            stranger.call_often(&path, CALLS_OF_ONE, body(number).as_deref());
            if then == Then::Finish {
                stranger.finish();
            }
            kept.push(stranger);
            while kept.len() == CONNECTIONS_OF_ONE && ground.goes_on() {
                thread::sleep(Duration::from_millis(10));
            }
        }
    })
}

pub(crate) fn attacks() -> Vec<Attack> {
    let (beat, wait) = (format!("{T}Heartbeat"), format!("{T}GetKeyValue"));
    let put = format!("{T}InsertKeyValue");
    let never = tf::GetKeyValueRequest { key: "never".into() }.encode_to_vec();
    vec![
        everywhere("calls without a message everywhere", beat.clone(), Then::Finish, |_| {
            Some(Vec::new())
        }),
        everywhere("streams that begin and stay everywhere", beat, Then::Keep, |_| None),
        everywhere("waits for one key everywhere", wait, Then::Keep, move |_| {
            Some(prefixed(false, &never))
        }),
        everywhere("insertions of one key everywhere", put, Then::Keep, |number| {
            Some(prefixed(false, &key(format!("short/{number}"), 1)))
        }),
    ]
}
