//! What can happen to a relay, its clients and its server.

use rondo_core::relay::Kind;

use crate::world::World;

/// Something that happens. What is counted is counted round among what there is.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Ask(u64, Kind),
    Cancel(usize),
    Close(u64),
    Deliver(usize),
    /// An answer arrives, and perhaps once more later.
    Answer(usize, bool),
    Break,
    /// The server dies, and perhaps loses all.
    Crash(bool),
    Restart,
    Find,
    Release(usize),
    Expire(usize),
    Wait(u64),
}

/// How long nothing else happens, in milliseconds.
pub(crate) const WAITS_MS: [u64; 7] = [0, 10, 60, 1000, 2000, 5000, 21_000];

/// Lives through a history to a good end.
pub(crate) fn live(history: &[Happening]) {
    let mut world = World::new();
    for happening in history {
        happen(&mut world, happening);
    }
    world.settle();
}

fn happen(world: &mut World, happening: &Happening) {
    match happening {
        Happening::Ask(client, kind) => world.ask(*client, kind.clone()),
        Happening::Cancel(nth) => world.cancel(*nth),
        Happening::Close(client) => world.close(*client),
        Happening::Deliver(nth) => world.deliver(*nth),
        Happening::Answer(nth, again) => world.answer(*nth, *again),
        Happening::Break => world.break_way(),
        Happening::Crash(lose_all) => world.crash(*lose_all),
        Happening::Restart => world.restart(),
        Happening::Find => world.find(),
        Happening::Release(nth) => world.release(*nth),
        Happening::Expire(nth) => world.expire(*nth),
        Happening::Wait(millis) => world.wait(*millis),
    }
}
