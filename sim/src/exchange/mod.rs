//! An exchange of tensors in an event loop of its own: nothing of the node is here.
//!
//! One process is the scheduler, the others are workers and servers: the core's machines
//! (`core::exchange`), driven as the runtime drives them. They speak over a faulty network, in connections,
//! in the bytes of frames; tensors lie in memory that is watched.

mod driver;
mod ending;
mod event;
mod links;
mod marks;
mod members;
mod reader;
mod servers;
mod site;
mod trouble;
mod wire;
mod workers;

use rondo_core::ids::CallId;

use self::event::{Event, Letter};
use self::links::Links;
use self::site::{SCHEDULER, Site};
use crate::checks::Checks;
use crate::fault::{Fault, Faults};
use crate::letters::Letters;
use crate::mark::{Mark, Tally};
use crate::net::Net;
use crate::oracle::Broken;
use crate::oracle::exchange::{Met, Oracles};
use crate::queue::Queue;
use crate::rng::{Source, Stream, Tape};
use crate::swarm::{Drawn, DrawnStreams, ExchangeShape, Swarm};
use crate::trace::{LineKind, Trace};
use crate::workload::kind::Outcomes;
use crate::world::{Outcome, RunOptions};

/// Events after which a run is given up: it does not come to an end.
const EVENTS_MAX: u64 = 1_000_000;
/// A millisecond, in ns.
const MS: u64 = 1_000_000;
/// A connection that takes the longest time is made in so many times the mean time of a message.
const TRIPS: u64 = 60;
/// The lane of what is nobody's.
const LANE: u32 = 0;

const CALM: Faults = Faults::none();

/// Whether things still go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Struck,
    /// Nothing goes wrong any more.
    Healed,
    /// All come to an end: nobody begins anything of its own.
    Ending,
    /// All leave.
    Leaving,
    Over,
}

/// The world.
struct World {
    swarm: Swarm,
    swarm_streams: DrawnStreams,
    shape: ExchangeShape,
    now_ns: u64,
    phase: Phase,
    queue: Queue<Event>,
    letters: Letters<Letter>,
    links: Links,
    sites: Vec<Site>,
    net: Net,
    /// Decides what applications do, and how long transports take.
    stream: Stream,
    oracles: Oracles,
    tally: Tally,
    trace: Trace,
    broken: Option<(Broken, u64)>,
    last_call: u64,
    last_serial: u64,
    last_incarnation: u64,
    events: u64,
    steps: u64,
}

/// Runs a whole run.
pub(crate) fn run(source: &Source, (swarm, swarm_streams): Drawn, options: RunOptions) -> Outcome {
    // A run that ended in a panic may have left some.
    drop(Checks::take());
    let mut world = World::new(source, (swarm, swarm_streams), options);
    world.begin();
    world.go_on();
    world.finish()
}

impl World {
    fn new(source: &Source, (swarm, swarm_streams): Drawn, options: RunOptions) -> Self {
        let shape = swarm.exchange.clone().unwrap_or_else(ExchangeShape::calm);
        let count = shape.sizes().processes().saturating_add(1);
        let sites: Vec<Site> =
            (0..count).map(|number| Site::new(number, &shape, source, &swarm)).collect();
        let net_stream = source.stream("exchange-net", 0);
        let net = Net::new(sites.len(), swarm.net, &swarm.faults, net_stream);
        Self {
            stream: source.stream("exchange-job", 0),
            net,
            sites,
            shape,
            swarm,
            swarm_streams,
            now_ns: 0,
            phase: Phase::Struck,
            queue: Queue::default(),
            letters: Letters::default(),
            links: Links::default(),
            oracles: Oracles::default(),
            tally: Tally::default(),
            trace: if options.lines { Trace::with_lines() } else { Trace::default() },
            broken: None,
            last_call: 0,
            last_serial: 0,
            last_incarnation: 0,
            events: 0,
            steps: 0,
        }
    }

    fn begin(&mut self) {
        if self.delays_may_break() {
            self.see(&Met::Troubled);
        }
        for site in 0..self.count() {
            // In any order, the scheduler too.
            let late_ms = self.stream.below(200);
            self.queue.plan(late_ms.saturating_mul(MS), Event::Reborn(site));
            self.plan_trouble(site);
        }
        self.queue.plan(self.swarm.span_ms.saturating_mul(MS), Event::End);
    }

    /// Whether messages may take so long that a connection is not made in time.
    fn delays_may_break(&self) -> bool {
        let (net, grace_ms) = (self.swarm.net, self.shape.settings.grace_ms);
        let slow = [Fault::Delay, Fault::Reorder].iter().any(|it| self.swarm.faults.has(*it));
        slow && net.delay_us_mean.saturating_mul(TRIPS) >= grace_ms.saturating_mul(1000)
    }

    fn go_on(&mut self) {
        while self.broken.is_none() && self.phase != Phase::Over && self.events < EVENTS_MAX {
            let Some((at_ns, event)) = self.queue.next() else {
                return;
            };
            self.now_ns = self.now_ns.max(at_ns);
            self.events = self.events.saturating_add(1);
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick(site, life) => self.tick(site, life),
            Event::Act(site, life) => self.act(site, life),
            Event::GiveUp(site, life, call) => self.give_up(site, life, call),
            Event::Letter(place) => self.arrive(place),
            Event::Again(link, end, frame) => self.again(link, end, frame),
            Event::Breaks(link, end) => self.breaks(link, end),
            Event::Trouble(site) => self.trouble(site),
            Event::Mend(from, to) => self.net.cut(&[from], &[to], false, &mut self.tally),
            Event::Reborn(site) => self.reborn(site),
            Event::Resume(site) => self.resume(site),
            Event::End => self.end(),
            Event::Settled(settling) => self.settled(settling),
        }
    }

    /// Whether anything goes wrong.
    fn faults_on(&self) -> bool {
        self.phase == Phase::Struck
    }

    fn count(&self) -> u32 {
        u32::try_from(self.sites.len()).unwrap_or(u32::MAX)
    }

    /// Workers and servers.
    fn members(&self) -> std::ops::Range<u32> {
        SCHEDULER.saturating_add(1)..self.count()
    }

    const fn next_call(&mut self) -> CallId {
        self.last_call = self.last_call.wrapping_add(1);
        CallId::new(self.last_call)
    }

    fn site(&mut self, site: u32) -> Option<&mut Site> {
        self.sites.get_mut(site as usize)
    }

    /// The process of a machine, if it is in this life.
    fn living(&mut self, site: u32, life: u32) -> Option<&mut Site> {
        self.site(site).filter(|site| site.life == life && site.process.is_some())
    }

    /// Lets oracles see something.
    fn see(&mut self, met: &Met<'_>) {
        see(met, self.now_ns, &mut self.oracles, &mut self.broken);
    }

    /// A fault has struck.
    fn struck(&mut self, fault: Fault, site: u32, text: impl FnOnce() -> String) {
        self.tally.fault(fault);
        self.trace.hash(self.now_ns, 0xfa, fault.index() as u64);
        let (now_ns, lane) = (self.now_ns, lane(site));
        self.trace.line(now_ns, lane, LineKind::Fault, || format!("{fault} {}", text()));
        self.see(&Met::Troubled);
    }

    fn note(&mut self, site: u32, text: impl FnOnce() -> String) {
        let (now_ns, lane) = (self.now_ns, lane(site));
        self.trace.line(now_ns, lane, LineKind::Note, text);
    }

    fn mark(&mut self, mark: Mark) {
        self.tally.mark(mark);
    }

    fn finish(mut self) -> Outcome {
        let mut tape = Tape::default();
        self.swarm_streams.iter_mut().for_each(|stream| tape.keep(stream));
        tape.keep(self.net.stream());
        tape.keep(&mut self.stream);
        self.sites.iter_mut().for_each(|site| tape.keep(&mut site.stream));
        if let Some((broken, at_ns)) = &self.broken {
            self.trace.line(*at_ns, LANE, LineKind::Broken, || broken.to_string());
        }
        let lanes = self.sites.iter().map(|site| site.name.clone());
        Outcome {
            lanes: std::iter::once("all".to_owned()).chain(lanes).collect(),
            swarm: self.swarm,
            broken: self.broken,
            hash: self.trace.value(),
            events: self.events,
            steps: self.steps,
            simulated_ns: self.now_ns,
            tally: self.tally.with(Checks::take()),
            outcomes: Outcomes::default(),
            lines: self.trace.into_lines(),
            tape,
        }
    }
}

/// The lane of a process.
const fn lane(site: u32) -> u32 {
    site.saturating_add(1)
}

/// Shows oracles something, apart from the world so that what they see may be part of it.
fn see(met: &Met<'_>, now_ns: u64, oracles: &mut Oracles, broken: &mut Option<(Broken, u64)>) {
    if broken.is_none()
        && let Err(promise) = oracles.see(met)
    {
        *broken = Some((promise, now_ns));
    }
}
