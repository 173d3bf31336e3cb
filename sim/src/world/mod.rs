//! Tier 1: the core's node, its disk, workers and clients in one event loop of our own.

mod actors;
mod answers;
mod changed;
mod ending;
mod event;
mod fetches;
mod keepalive;
mod letter;
mod lives;
mod machine;
mod node;
mod note;
mod proxy;
mod relay;
mod shown;
mod strike;
mod untouched;

use rondo_core::control::Effects;
use rondo_core::time::Time;

use self::event::Event;
use self::fetches::Fetches;
use self::letter::Letters;
use self::machine::{ActorMachine, NodeMachine};
use self::relay::Relays;
use self::strike::Strikes;
use crate::checks::Checks;
use crate::fault::Fault;
use crate::mark::Tally;
use crate::net::Net;
use crate::oracle::{Broken, Oracles, Patience, Seen};
use crate::queue::Queue;
use crate::rng::{Source, Stream, Tape};
use crate::swarm::{Drawn, DrawnStreams, Swarm};
use crate::tier::Tier;
use crate::trace::{Line, LineKind, Trace};
use crate::watch::Watch;
use crate::workload::kind::Outcomes;
use crate::workload::known::Known;
use crate::workload::{Act, coordination, dispatcher};

/// Events after which a run is given up: it does not come to an end.
const EVENTS_MAX: u64 = 5_000_000;

/// How a run is to be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Which world it happens in.
    pub tier: Tier,
    /// Keep every line for a timeline.
    pub lines: bool,
    /// Take the configuration that speed is measured with.
    pub standard: bool,
    /// Look at the node after every step.
    pub strict: bool,
    /// Show each oracle everything, and not only what it says it watches.
    pub everything: bool,
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// Its configuration.
    pub swarm: Swarm,
    /// The promise that was broken, if one was, and when, in ns of simulated time.
    pub broken: Option<(Broken, u64)>,
    /// The trace hash.
    pub hash: u64,
    /// Events that happened.
    pub events: u64,
    /// Steps of the node.
    pub steps: u64,
    /// Simulated time, in ns.
    pub simulated_ns: u64,
    /// Faults and marks.
    pub tally: Tally,
    /// What became of requests.
    pub outcomes: Outcomes,
    /// The timeline, if it was asked for.
    pub lines: Vec<Line>,
    /// The decisions, if they were kept.
    pub tape: Tape,
    /// Names of the lanes of the timeline.
    pub lanes: Vec<String>,
}

/// Whether things still go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Struck,
    /// Healed since then, in ns.
    Healed(u64),
    /// Everybody has gone since then, in ns.
    Gone(u64),
    Over,
}

/// The world.
struct World {
    swarm: Swarm,
    swarm_streams: DrawnStreams,
    ending_stream: Stream,
    options: RunOptions,
    now_ns: u64,
    phase: Phase,
    queue: Queue<Event>,
    letters: Letters,
    fetches: Fetches,
    node: NodeMachine,
    actors: Vec<ActorMachine>,
    relays: Relays,
    net: Net,
    strikes: Strikes,
    call_stream: Stream,
    known: Known,
    patience: Patience,
    oracles: Oracles,
    watch: Watch,
    tally: Tally,
    outcomes: Outcomes,
    trace: Trace,
    broken: Option<(Broken, u64)>,
    effects: Effects,
    acts: Vec<Act>,
    events: u64,
    steps: u64,
    reread_due: bool,
    /// Whether effects of a step are being carried out.
    stepping: bool,
}

/// Runs a whole run.
pub fn run(source: &Source, options: RunOptions) -> Outcome {
    let drawn = match options.standard {
        true => Swarm::standard(source),
        false => Swarm::draw(source),
    };
    if drawn.0.rendezvous.is_some() {
        return crate::rendezvous::run(source, drawn, options);
    }
    if drawn.0.exchange.is_some() {
        return crate::exchange::run(source, drawn, options);
    }
    // A run that ended in a panic may have left some.
    drop(Checks::take());
    let mut world = World::new(source, drawn, options);
    world.begin();
    world.go_on();
    world.finish()
}

impl World {
    fn new(source: &Source, (swarm, swarm_streams): Drawn, options: RunOptions) -> Self {
        let faults = &swarm.faults;
        let actors: Vec<ActorMachine> = (0..)
            .zip(dispatcher::cast(&swarm).into_iter().chain(coordination::cast(&swarm)))
            .map(|(number, actor)| ActorMachine::new(number, actor, source, faults))
            .collect();
        let relays = Relays::new(source, &swarm);
        let machines = actors.len().saturating_add(1).saturating_add(relays.all.len());
        let net = Net::new(machines, swarm.net, faults, source.stream("net", 0));
        let mut oracles = Oracles::new(&swarm);
        if options.everything {
            oracles.show_everything();
        }
        Self {
            node: NodeMachine::new(source, &swarm),
            strikes: Strikes::new(source, faults),
            call_stream: source.stream("call", 0),
            oracles,
            patience: Patience::default(),
            trace: if options.lines { Trace::with_lines() } else { Trace::default() },
            swarm,
            swarm_streams,
            ending_stream: source.stream("ending", 0),
            options,
            now_ns: 0,
            phase: Phase::Struck,
            queue: Queue::default(),
            letters: Letters::default(),
            fetches: Fetches::default(),
            actors,
            relays,
            net,
            known: Known::default(),
            watch: Watch::default(),
            tally: Tally::default(),
            outcomes: Outcomes::default(),
            broken: None,
            effects: Effects::new(),
            acts: Vec::new(),
            events: 0,
            steps: 0,
            reread_due: false,
            stepping: false,
        }
    }

    fn begin(&mut self) {
        for fault in [Fault::ClockOffset, Fault::ClockDrift] {
            if self.swarm.faults.has(fault) {
                self.struck(fault, letter::NODE, String::new);
            }
        }
        self.start_node(0);
        self.begin_relays();
        for actor in 0..self.actors.len() {
            let actor = u32::try_from(actor).unwrap_or(0);
            self.plan_wake(actor, u64::from(actor) * 1_000_000);
        }
        for (fault, at_ns) in self.strikes.first() {
            self.queue.plan(at_ns, Event::Strike(fault));
        }
        self.queue.plan(self.swarm.span_ms.saturating_mul(1_000_000), Event::End);
        self.begin_keepalive();
        self.plan_stall(0);
    }

    fn go_on(&mut self) {
        while self.broken.is_none() && self.phase != Phase::Over && self.events < EVENTS_MAX {
            let Some((at_ns, event)) = self.queue.next() else {
                return;
            };
            self.now_ns = self.now_ns.max(at_ns);
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        self.events += 1;
        match event {
            Event::Letter(place) => self.arrive(place),
            Event::Wake(actor) => self.wake(actor),
            Event::Tick => self.tick(),
            Event::Synced(life) => self.synced(life),
            Event::Compact(life) => self.compact(life),
            Event::Recover(life) => self.recover(life),
            Event::ResumeNode => self.resume_node(),
            Event::Stall => self.stall(),
            Event::Resume(actor) => self.resume(actor),
            Event::Reborn(actor, fresh) => self.reborn(actor, fresh),
            Event::Strike(fault) => self.maybe_strike(fault),
            Event::Over(place) => self.strike_over(place),
            Event::End => self.end(),
            Event::Check => self.check(),
            Event::Keepalive => self.keepalive(),
            Event::Probe(reader, token) => self.probe(reader, token),
            relays => self.happen_to_relays(relays),
        }
    }

    fn happen_to_relays(&mut self, event: Event) {
        match event {
            Event::RelayTick(relay) => self.relay_tick(relay),
            Event::RelayTrouble(relay) => self.relay_trouble(relay),
            Event::BeginRelay(relay) => self.begin_relay(relay),
            Event::EndRelay(relay, life) => self.end_relay(relay, life),
            Event::ResumeRelay(relay) => self.resume_relay(relay),
            Event::HelloLate(relay, life, link) => self.hello_late(relay, life, link),
            Event::CarryAgain(place, tries) => self.carry_again(place, tries),
            _ => {}
        }
    }

    /// The node's own time.
    fn node_time(&self) -> Time {
        self.node.clock.shows(self.now_ns)
    }

    /// Lets oracles see something.
    fn see(&mut self, seen: &Seen<'_>) {
        let now = self.node.clock.shows(self.now_ns);
        see(
            now,
            self.now_ns,
            seen,
            (&mut self.oracles, &mut self.watch, &mut self.tally, &mut self.broken),
        );
    }

    /// A fault has struck.
    fn struck(&mut self, fault: Fault, lane: u32, text: impl FnOnce() -> String) {
        self.tally.fault(fault);
        self.trace.hash(self.now_ns, 0xfa, fault.index() as u64);
        let now_ns = self.now_ns;
        self.trace.line(now_ns, lane, LineKind::Fault, || format!("{fault} {}", text()));
    }

    fn finish(mut self) -> Outcome {
        let mut tape = Tape::default();
        self.swarm_streams.iter_mut().for_each(|stream| tape.keep(stream));
        tape.keep(&mut self.ending_stream);
        tape.keep(&mut self.call_stream);
        tape.keep(&mut self.node.stream);
        tape.keep(&mut self.node.disk_stream);
        tape.keep(self.net.stream());
        for stream in self.strikes.streams() {
            tape.keep(stream);
        }
        for actor in &mut self.actors {
            tape.keep(&mut actor.stream);
        }
        for relay in &mut self.relays.all {
            tape.keep(&mut relay.stream);
        }
        if let Some((broken, at_ns)) = &self.broken {
            self.trace.line(*at_ns, letter::NODE, LineKind::Broken, || broken.to_string());
        }
        let lanes = self.actors.iter().map(|actor| format!("{:?}", actor.role).to_lowercase());
        let relays = (0..self.relays.count()).map(|_| "relay".to_owned());
        Outcome {
            lanes: std::iter::once("node".to_owned()).chain(lanes).chain(relays).collect(),
            swarm: self.swarm,
            broken: self.broken,
            hash: self.trace.value(),
            events: self.events,
            steps: self.steps,
            simulated_ns: self.now_ns,
            tally: self.tally.with(Checks::take()),
            outcomes: self.outcomes,
            lines: self.trace.into_lines(),
            tape,
        }
    }
}

/// Shows oracles something, apart from the world so that what they see may be part of it.
fn see(
    now: Time,
    now_ns: u64,
    seen: &Seen<'_>,
    (oracles, watch, tally, broken): (
        &mut Oracles,
        &mut Watch,
        &mut Tally,
        &mut Option<(Broken, u64)>,
    ),
) {
    if broken.is_some() {
        return;
    }
    watch.see(seen, oracles.shadow().state(), tally);
    if let Err(promise) = oracles.see(now, seen) {
        *broken = Some((promise, now_ns));
    }
}
