//! What goes wrong with machines, links and the disk, and when.

use std::sync::Arc;
use std::time::Duration;

use madsim::net::NetSim;
use madsim::runtime::Handle;
use madsim::task::NodeId;

use super::control::ADDRESS;
use super::lack::{EMFILE, ENFILE, ENOMEM};
use super::world::{Machine, World};
use crate::fault::Fault;
use crate::mark::Mark;
use crate::rng::Stream;
use crate::workload::ActorId;

/// Kinds of faults that strike by themselves, now and then.
const STRIKES: &[Fault] = &[
    Fault::Kill,
    Fault::KillAtEffect,
    Fault::KillInRecovery,
    Fault::KillLoop,
    Fault::PowerCut,
    Fault::Pause,
    Fault::SlowProcess,
    Fault::GracefulStop,
    Fault::PartitionSymmetric,
    Fault::PartitionAsymmetric,
    Fault::Isolate,
    Fault::Bridge,
    Fault::Clog,
    Fault::SwizzleClog,
    Fault::LossBurst,
    Fault::BitFlip,
    Fault::DiskFull,
    Fault::DiskStall,
    Fault::Lack,
    Fault::ShortMemory,
    Fault::AcceptFails,
];

/// The system's number for: a connection was broken before it was accepted.
const ECONNABORTED: i32 = 103;
/// The system's number for: there is no memory for sockets.
const ENOBUFS: i32 = 105;
/// Errors with which the server fails to accept a connection.
const ACCEPT_ERRORS: &[i32] = &[EMFILE, ENOMEM, ENFILE, ENOBUFS, ECONNABORTED];

/// Starts all that can go wrong in a run; it ends when the tasks do.
pub(super) fn begin(world: &Arc<World>) -> Vec<tokio::task::JoinHandle<()>> {
    set_links(world);
    let on = STRIKES.iter().filter(|fault| world.swarm.faults.has(**fault));
    let start = |fault: &Fault| {
        let number = u32::try_from(fault.index()).unwrap_or(u32::MAX);
        let stream = world.source.stream("trouble", number);
        tokio::spawn(again_and_again(world.clone(), *fault, stream))
    };
    on.map(start).collect()
}

/// Delay and loss of all links.
fn set_links(world: &World) {
    let net = world.swarm.net;
    let faults = &world.swarm.faults;
    NetSim::current().update_config(|config| {
        let low = Duration::from_micros(net.delay_us_min);
        let slow = faults.has(Fault::Delay);
        let more = if slow { net.delay_us_mean.saturating_mul(2) } else { 100 };
        config.send_latency = low..low.saturating_add(Duration::from_micros(more.max(1)));
        config.packet_loss_rate = f64::from(faults.strength(Fault::Loss)) / 4000.0;
    });
    for fault in [Fault::Delay, Fault::Loss].into_iter().filter(|fault| faults.has(*fault)) {
        world.book.fault(fault);
    }
}

/// All links are what they should be.
pub(super) fn heal_links(world: &World) {
    let net = NetSim::current();
    net.update_config(|config| {
        config.send_latency = Duration::from_micros(100)..Duration::from_micros(1000);
        config.packet_loss_rate = 0.0;
    });
    let nodes = nodes(world);
    for from in &nodes {
        nodes.iter().for_each(|to| net.unclog_link(*from, *to));
    }
}

fn nodes(world: &World) -> Vec<NodeId> {
    world.machines().into_iter().filter_map(|machine| world.node(machine)).collect()
}

async fn again_and_again(world: Arc<World>, fault: Fault, mut stream: Stream) {
    let strength = u64::from(world.swarm.faults.strength(fault));
    let mean_ms = 40_000_u64.saturating_sub(strength.saturating_mul(37));
    loop {
        let wait = stream.exponential(mean_ms).saturating_add(stream.below(1000));
        sleep_ms(wait).await;
        strike(&world, fault, &mut stream).await;
    }
}

async fn sleep_ms(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

async fn strike(world: &Arc<World>, fault: Fault, stream: &mut Stream) {
    match fault {
        Fault::Kill => kill_some(world, stream).await,
        Fault::KillAtEffect => world.book.kill_after_effects(stream.between(1, 40)),
        Fault::KillInRecovery => drop(kill_in_recovery(world, stream, 1).await),
        Fault::KillLoop => {
            let times = stream.between(3, 6);
            if kill_in_recovery(world, stream, times).await && times >= 3 {
                world.book.mark(Mark::RecoveryKilledThrice);
            }
            world.book.fault(Fault::KillLoop);
        }
        Fault::PowerCut if world.kill_control(true) => world.book.fault(fault),
        Fault::Pause => pause_some(world, stream, 20_000).await,
        Fault::SlowProcess => slow_some(world, stream).await,
        Fault::GracefulStop => {
            world.book.fault(fault);
            world.stop_control();
        }
        Fault::BitFlip if !world.cast().is_calm() => {
            // A process that is there has read what it needs; the next one will not.
            world.kill_control(false);
            world.platter.flip_bit();
        }
        Fault::DiskFull => {
            world.book.fault(fault);
            world.platter.fill(Some(stream.below(8192)));
            sleep_ms(stream.exponential(5000)).await;
            world.platter.fill(None);
        }
        Fault::DiskStall => {
            world.book.fault(fault);
            world.platter.stall(Duration::from_millis(stream.exponential(4000)));
        }
        Fault::ShortMemory => {
            world.book.fault(fault);
            world.run_short_of_memory(stream.chance(500));
            sleep_ms(stream.exponential(5000)).await;
            world.free_memory();
        }
        Fault::Lack => {
            world.book.fault(fault);
            // At the highest rate every operation fails. At the others a sequence of them stops half-way.
            world.platter.lack(stream.pick(&[1000, 250, 40]).copied().unwrap_or(1000));
            sleep_ms(stream.exponential(5000)).await;
            world.platter.lack(0);
        }
        Fault::AcceptFails => fail_to_accept(world, stream).await,
        _ => cut_links(world, fault, stream).await,
    }
}

/// The server accepts nobody for a while. Some clients have to connect anew meanwhile. Where none does, the
/// fault has not struck.
async fn fail_to_accept(world: &World, stream: &mut Stream) {
    world.accepting.fail(stream.pick(ACCEPT_ERRORS).copied().unwrap_or(EMFILE));
    for (_, player) in world.cast().players() {
        let breaks = stream.chance(500);
        if let Some(connection) = player.connections.get(ADDRESS).filter(|_| breaks) {
            connection.reset();
        }
    }
    sleep_ms(stream.exponential(5000)).await;
    if world.accepting.work() > 0 {
        world.book.fault(Fault::AcceptFails);
    }
}

/// A machine among all.
fn some_machine(world: &World, stream: &mut Stream) -> Machine {
    stream.pick(&world.machines()).copied().unwrap_or(Machine::Control)
}

async fn kill_some(world: &Arc<World>, stream: &mut Stream) {
    let machine = some_machine(world, stream);
    if kill(world, machine, stream) {
        world.book.fault(Fault::Kill);
    }
    let down_ms = stream.exponential(world.swarm.pace.down_ms);
    if let Machine::Of(id) = machine {
        sleep_ms(down_ms).await;
        world.start_actor(id);
    }
}

fn kill(world: &World, machine: Machine, stream: &mut Stream) -> bool {
    let fresh = world.swarm.faults.has(Fault::RestartFresh) && stream.chance(500);
    match machine {
        Machine::Control => world.kill_control(false),
        Machine::Of(id) => world.kill_actor(id, fresh),
    }
}

/// Kills the node, and again before the next process can have begun to serve.
async fn kill_in_recovery(world: &Arc<World>, stream: &mut Stream, times: u64) -> bool {
    world.kill_control(stream.chance(300));
    let mut killed = 0;
    for _ in 0..times {
        world.start_control();
        sleep_ms(stream.between(1, 30)).await;
        if world.kill_control(stream.chance(300)) {
            world.book.fault(Fault::KillInRecovery);
            killed += 1;
        }
    }
    killed == times
}

async fn pause_some(world: &Arc<World>, stream: &mut Stream, mean_ms: u64) {
    let machine = some_machine(world, stream);
    let Some(node) = world.node(machine) else {
        return;
    };
    world.book.fault(Fault::Pause);
    Handle::current().pause(node);
    sleep_ms(stream.exponential(mean_ms / 4)).await;
    Handle::current().resume(node);
}

/// A machine that gets on in little steps only.
async fn slow_some(world: &Arc<World>, stream: &mut Stream) {
    let Some(node) = world.node(some_machine(world, stream)) else {
        return;
    };
    world.book.fault(Fault::SlowProcess);
    for _ in 0..stream.between(5, 20) {
        Handle::current().pause(node);
        sleep_ms(stream.between(5, 100)).await;
        Handle::current().resume(node);
        sleep_ms(stream.between(1, 10)).await;
    }
}

/// Links that keep everything back for a while.
async fn cut_links(world: &Arc<World>, fault: Fault, stream: &mut Stream) {
    let nodes = nodes(world);
    let links = links(&nodes, fault, stream);
    if links.is_empty() {
        return;
    }
    world.book.fault(fault);
    let net = NetSim::current();
    let swizzles = fault == Fault::SwizzleClog;
    for (from, to) in &links {
        net.clog_link(*from, *to);
        if swizzles {
            sleep_ms(stream.below(300)).await;
        }
    }
    let mean_ms = if fault == Fault::LossBurst { 300 } else { 8000 };
    sleep_ms(stream.exponential(mean_ms)).await;
    let mut left = links;
    while !left.is_empty() {
        let next = usize::try_from(stream.below(left.len() as u64)).unwrap_or(0);
        let (from, to) = left.swap_remove(next.min(left.len().saturating_sub(1)));
        net.unclog_link(from, to);
        if swizzles {
            sleep_ms(stream.below(300)).await;
        }
    }
}

/// The links that a fault takes.
fn links(nodes: &[NodeId], fault: Fault, stream: &mut Stream) -> Vec<(NodeId, NodeId)> {
    let halves: Vec<bool> = nodes.iter().map(|_| stream.chance(500)).collect();
    let chosen = usize::try_from(stream.below(nodes.len() as u64)).unwrap_or(0);
    let mut links = Vec::new();
    for (a, from) in nodes.iter().enumerate() {
        for (b, to) in nodes.iter().enumerate().filter(|(b, _)| *b != a) {
            let half = |at: usize| halves.get(at).copied().unwrap_or(false);
            let taken = match fault {
                Fault::PartitionSymmetric => half(a) != half(b),
                Fault::PartitionAsymmetric => half(a) && !half(b),
                Fault::Isolate => a == chosen || b == chosen,
                Fault::Bridge => half(a) != half(b) && a != chosen && b != chosen,
                Fault::Clog => a == chosen && half(b),
                Fault::SwizzleClog => half(a),
                _ => true,
            };
            links.extend(taken.then_some((*from, *to)));
        }
    }
    links
}

/// Kills an actor for ever.
pub(super) fn remove_for_ever(world: &World, id: ActorId) {
    world.kill_actor(id, false);
    if let Some(player) = world.cast().player(id) {
        player.gone = true;
    }
}
