//! Histories at random: connections break, processes and the scheduler die and come back, words come late.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use std::collections::BTreeMap;

use rondo_core::exchange::member::Reply;
use rondo_core::exchange::message::Failure;
use rondo_core::exchange::scheduler::Event;
use rondo_core::status::Code;

use crate::dice::live_by;
use crate::process::Told;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(512),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn all_comes_to_rest(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        live_by(&bytes);
    }
}

/// A few hundred histories, always the same.
fn some() -> impl Iterator<Item = Vec<u8>> {
    (0..400_u64).map(|seed| {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let next = move |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()[3]
        };
        (0..300).map(next).collect()
    })
}

/// What must happen often.
const WANTED: [&str; 15] = [
    "begun",
    "rebuilding",
    "rebuilt",
    "lost",
    "left",
    "returned",
    "refused",
    "barrier failed",
    "ended",
    "changed",
    "told of a loss",
    "one too many",
    "given up",
    "late",
    "away",
];

/// What must not happen does not only because nothing does.
#[test]
fn much_happens_in_histories() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for bytes in some() {
        let world = live_by(&bytes);
        for event in &world.events {
            *counts.entry(name(event)).or_default() += 1;
        }
        for told in world.processes.iter().flat_map(|process| process.told.values()) {
            *counts.entry(answer(told)).or_default() += 1;
        }
    }
    for wanted in WANTED {
        assert!(counts.get(wanted).is_some_and(|count| *count >= 20), "{wanted}: {counts:?}");
    }
}

const fn name(event: &Event) -> &'static str {
    match event {
        Event::Begun { .. } => "begun",
        Event::NotBegun { .. } => "not begun",
        Event::Rebuilding { .. } => "rebuilding",
        Event::Rebuilt { .. } => "rebuilt",
        Event::Lost(_) => "lost",
        Event::Left { .. } => "left",
        Event::Returned { .. } => "returned",
        Event::Refused { .. } => "refused",
        Event::BarrierFailed { .. } => "barrier failed",
        Event::HeldUp { .. } => "held up",
        Event::Ended { .. } => "ended",
    }
}

fn answer(told: &Told) -> &'static str {
    match told {
        Ok(Reply::Joined { .. }) => "joined",
        Ok(Reply::Done) => "done",
        Ok(Reply::Membership(_)) => "changed",
        Err(Failure::PeerLost(_)) => "told of a loss",
        Err(Failure::Refused(status)) => match status.code {
            Code::AlreadyExists => "one too many",
            Code::Aborted => "given up",
            Code::Cancelled => "stopped",
            Code::DeadlineExceeded => "late",
            Code::Unavailable => "away",
            Code::FailedPrecondition => "out of turn",
            Code::ResourceExhausted => "bounded",
            _ => "other",
        },
    }
}
