//! How a run ends: it is cut off; a core of it heals and must get on; or everybody leaves and
//! nothing must be left.

use std::sync::Arc;
use std::time::Duration;

use madsim::runtime::Handle;
use rondo::node::{Replayed, Snapshots, replay};
use rondo::store::{DataDirectory, StoreConfig, StoreKind, Wanted};
use rondo_core::control::Recovered;

use super::cast::Player;
use super::run::supervise;
use super::trouble::{heal_links, remove_for_ever};
use super::world::{Machine, World, lock};
use crate::mark::Mark;
use crate::oracle::{Seen, Waiting};
use crate::rng::Stream;
use crate::swarm::Ending;
use crate::workload::{ActorId, Role};

/// Between two looks at who has got on.
const CHECK_SPAN: Duration = Duration::from_millis(500);
/// Within so long after everything healed, and after the last silent worker has been given up, all of
/// the core must have got on.
const HEALED_SPAN: Duration = Duration::from_secs(300);
/// How long after everybody has left nothing must be left, where no clock was set back.
const GONE_SPAN: Duration = Duration::from_secs(900);

/// Ends a run in its way.
pub(super) async fn end(world: &Arc<World>, stream: &mut Stream) {
    match world.swarm.ending {
        Ending::Cut => {}
        Ending::Heal => heal(world, stream).await,
        Ending::Drain => drain(world).await,
    }
    if world.book.pages().broken.is_none() && !world.control().lost {
        stop_and_read(world).await;
    }
}

/// A core heals and the rest stays away for ever.
async fn heal(world: &Arc<World>, stream: &mut Stream) {
    calm_down(world);
    choose_core(world, stream);
    let mut healed_for = Duration::ZERO;
    while healed_for < HEALED_SPAN + patience(world) {
        if !supervise(world, CHECK_SPAN).await {
            return;
        }
        if waiting(world).is_empty() {
            break;
        }
        healed_for += CHECK_SPAN;
    }
    world.book.see(&Seen::HealedLongAgo { waiting: &waiting(world) });
}

/// How long the most patiently awaited worker may be silent.
fn patience(world: &World) -> Duration {
    Duration::from_nanos(world.book.pages().patience.longest().as_nanos())
}

/// Some actors stay broken for ever; the others begin anew if they are down.
fn choose_core(world: &Arc<World>, stream: &mut Stream) {
    for (_, player) in world.cast().players() {
        player.healed_at = player.now();
    }
    for machine in world.machines() {
        let Machine::Of(id) = machine else {
            continue;
        };
        // Without a timeout lost workers are waited for by intent, and one worker must be there.
        let may = world.swarm.settings.worker_timeout.is_some() && id != ActorId(0);
        if may && stream.chance(250) {
            world.book.mark(Mark::HealedInPart);
            remove_for_ever(world, id);
        } else {
            world.start_actor(id);
        }
    }
}

/// Nothing goes wrong any more from here on.
fn calm_down(world: &Arc<World>) {
    world.book.let_live();
    world.platter.heal();
    world.platter.repair();
    world.free_memory();
    world.accepting.work();
    heal_links(world);
    world.cast().calm_down();
    for machine in world.machines() {
        if let Some(node) = world.node(machine) {
            Handle::current().resume(node);
        }
    }
}

/// Who of the core has not got on since everything healed.
fn waiting(world: &World) -> Vec<Waiting> {
    if !world.control().is_up() {
        return vec![Waiting { who: "node".into(), what: "does not serve".to_owned() }];
    }
    let settings = &world.swarm.settings;
    let mut cast = world.cast();
    let served = cast.players().any(|(_, player)| is_served(world, player));
    let stuck = |(ActorId(number), player): (ActorId, &mut Player)| {
        let must = match player.role() {
            Role::Worker => is_served(world, player),
            Role::Consumer => served && !player.gone && settings.worker_timeout.is_some(),
            Role::Task | Role::Reader | Role::Rogue | Role::Operator => false,
        };
        let who = format!("actor {number} ({:?})", player.role());
        let stuck = must && player.got_on_at() <= player.healed_at;
        stuck.then(|| Waiting { who, what: player.state() })
    };
    cast.players().filter_map(stuck).collect()
}

/// Whether this is a worker of the core that may register.
fn is_served(world: &World, player: &Player) -> bool {
    let listed = &world.swarm.settings.worker_addresses;
    let address = player.address();
    let admitted = listed.is_empty() || address.is_some_and(|address| address.ends_with(":1"));
    !player.gone && player.role() == Role::Worker && admitted
}

/// Everybody leaves for ever.
async fn drain(world: &Arc<World>) {
    calm_down(world);
    for machine in world.machines() {
        if let Machine::Of(id) = machine {
            remove_for_ever(world, id);
        }
    }
    // What was noted before the clock was set back is old only when it has come there again, be it
    // a slow one.
    let set_back = world.control().set_back();
    if !supervise(world, GONE_SPAN + set_back + set_back / 4).await {
        return;
    }
    world.book.everybody_gone();
    // The node steps when its maintenance is due.
    supervise(world, Duration::from_secs(30)).await;
}

/// The node stops in good order, and what is on its disk then is what it had in memory.
async fn stop_and_read(world: &Arc<World>) {
    calm_down(world);
    if !world.control().is_up() {
        return;
    }
    world.stop_control();
    if !world.control().is_up() {
        return;
    }
    let stopped = tokio::time::timeout(Duration::from_secs(30), world.control_ended.notified());
    if stopped.await.is_err() {
        world.book.broken("liveness", "the server does not stop".to_owned());
        return;
    }
    let ended = lock(&world.ended).take();
    // A process that was still recovering stops as it stands. Records that there was no room for were
    // never acknowledged, and are nowhere.
    let orderly = matches!(ended, Some(Ok(()))) && world.book.pages().is_whole();
    if let Some(ended) = ended {
        world.process_ended(&ended);
    }
    if orderly && world.book.pages().broken.is_none() {
        let read = reread(world).await;
        world.book.see(&Seen::Reread(&read));
    }
}

/// What a process would recover.
async fn reread(world: &World) -> Result<Recovered, String> {
    let disk = Arc::new(world.platter.copy().begin_life());
    let wanted = Wanted { store: Some(StoreKind::Segment), release: "sim".into(), pid: 1 };
    let path = std::path::Path::new("/data");
    let directory = DataDirectory::open(disk, path, &wanted).await;
    let directory = directory.map_err(|error| error.to_string())?;
    let config = StoreConfig::default();
    let snapshots = Snapshots::of(&directory, &config);
    let snapshot = snapshots.load().await.map_err(|error| error.to_string())?;
    let store = directory.open_journal(&config).await;
    let mut store = store.map_err(|error| error.to_string())?;
    let (_, known) = directory.acknowledged().await.map_err(|error| error.to_string())?;
    let replayed = replay(&mut *store, snapshot, known).await;
    let Replayed { recovered, .. } = replayed.map_err(|error| error.to_string())?;
    Ok(recovered)
}
