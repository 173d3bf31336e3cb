//! Workers with a rendezvous each, in an event loop of their own: nothing of the node is here.
//!
//! A worker is a process with the core's machine (`core::rendezvous`), driven as the runtime drives it.
//! Users send and receive in steps; tensors of other workers are fetched over the faulty network, in
//! connections, as the bytes of `rondo.v1.Rendezvous` or of TensorFlow's `RecvTensor`.

mod answering;
mod bytes;
mod driver;
mod ending;
mod event;
mod fetching;
mod job;
mod marks;
mod network;
mod steps;
mod trouble;
mod users;
mod worker;

use rondo_core::element::Tensor;
use rondo_core::ids::CallId;
use rondo_core::rendezvous::Effect;

use self::event::{Event, Letter};
use self::job::Job;
use self::network::Connections;
use self::worker::Worker;
use crate::checks::Checks;
use crate::fault::{Fault, Faults};
use crate::letters::Letters;
use crate::mark::{Mark, Tally};
use crate::net::Net;
use crate::oracle::Broken;
use crate::oracle::rendezvous::{Met, Oracles};
use crate::queue::Queue;
use crate::rng::{Source, Tape};
use crate::swarm::{Drawn, DrawnStreams, RendezvousShape, Swarm};
use crate::trace::{LineKind, Trace};
use crate::workload::kind::Outcomes;
use crate::world::{Outcome, RunOptions};

/// Events after which a run is given up: it does not come to an end.
const EVENTS_MAX: u64 = 2_000_000;
/// A millisecond, in ns.
const MS: u64 = 1_000_000;
/// The lane of what is nobody's.
const LANE: u32 = 0;

const CALM: Faults = Faults::none();

/// Whether things still go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Struck,
    /// Nothing goes wrong any more.
    Healed,
    Over,
}

/// The world.
struct World {
    swarm: Swarm,
    swarm_streams: DrawnStreams,
    shape: RendezvousShape,
    now_ns: u64,
    phase: Phase,
    queue: Queue<Event>,
    letters: Letters<Letter>,
    connections: Connections,
    workers: Vec<Worker>,
    net: Net,
    job: Job,
    oracles: Oracles,
    tally: Tally,
    trace: Trace,
    broken: Option<(Broken, u64)>,
    effects: Vec<Effect<Tensor>>,
    last_call: u64,
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
        let shape = swarm.rendezvous.clone().unwrap_or_else(RendezvousShape::calm);
        let workers: Vec<Worker> =
            (0..shape.workers).map(|number| Worker::new(number, source, &swarm)).collect();
        let net_stream = source.stream("rendezvous-net", 0);
        let net = Net::new(workers.len(), swarm.net, &swarm.faults, net_stream);
        Self {
            job: Job::new(source),
            net,
            workers,
            shape,
            swarm,
            swarm_streams,
            now_ns: 0,
            phase: Phase::Struck,
            queue: Queue::default(),
            letters: Letters::default(),
            connections: Connections::default(),
            oracles: Oracles::default(),
            tally: Tally::default(),
            trace: if options.lines { Trace::with_lines() } else { Trace::default() },
            broken: None,
            effects: Vec::new(),
            last_call: 0,
            events: 0,
            steps: 0,
        }
    }

    fn begin(&mut self) {
        for worker in 0..self.shape.workers {
            self.begin_process(worker);
            self.plan_trouble(worker);
        }
        for worker in &mut self.workers {
            // They have read of each other before anything went wrong.
            worker.known.clear();
        }
        self.read_all_incarnations();
        self.queue.plan(0, Event::NextStep);
        self.queue.plan(self.swarm.span_ms.saturating_mul(MS), Event::End);
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
            Event::Tick(worker, life) => self.tick(worker, life),
            Event::NextStep => self.next_step(),
            Event::Act(place) => self.act(place),
            Event::Letter(place) => self.arrive(place),
            Event::Read(place) => self.read(place),
            Event::Breaks(connection, end) => self.breaks(connection, end),
            Event::Finish(worker, life, server) => self.finish_requests(worker, life, server),
            Event::Trouble(worker) => self.trouble(worker),
            Event::Mend(from, to) => self.net.cut(&[from], &[to], false, &mut self.tally),
            Event::Reborn(worker) => self.reborn(worker),
            Event::Resume(worker) => self.resume(worker),
            Event::End => self.end(),
            Event::Settled(settling) => self.settled(settling),
        }
    }

    /// Whether anything goes wrong.
    fn faults_on(&self) -> bool {
        self.phase == Phase::Struck
    }

    const fn next_call(&mut self) -> CallId {
        self.last_call = self.last_call.wrapping_add(1);
        CallId::new(self.last_call)
    }

    fn worker(&mut self, worker: u32) -> Option<&mut Worker> {
        self.workers.get_mut(worker as usize)
    }

    /// Lets oracles see something.
    fn see(&mut self, met: &Met<'_>) {
        see(met, self.now_ns, &mut self.oracles, &mut self.broken);
    }

    /// A fault has struck.
    fn struck(&mut self, fault: Fault, worker: u32, text: impl FnOnce() -> String) {
        self.tally.fault(fault);
        self.trace.hash(self.now_ns, 0xfa, fault.index() as u64);
        let (now_ns, lane) = (self.now_ns, lane(worker));
        self.trace.line(now_ns, lane, LineKind::Fault, || format!("{fault} {}", text()));
    }

    fn note(&mut self, worker: u32, text: impl FnOnce() -> String) {
        let (now_ns, lane) = (self.now_ns, lane(worker));
        self.trace.line(now_ns, lane, LineKind::Note, text);
    }

    fn mark(&mut self, mark: Mark) {
        self.tally.mark(mark);
    }

    fn finish(mut self) -> Outcome {
        let mut tape = Tape::default();
        self.swarm_streams.iter_mut().for_each(|stream| tape.keep(stream));
        tape.keep(self.net.stream());
        tape.keep(&mut self.job.stream);
        self.workers.iter_mut().for_each(|worker| tape.keep(&mut worker.stream));
        if let Some((broken, at_ns)) = &self.broken {
            self.trace.line(*at_ns, LANE, LineKind::Broken, || broken.to_string());
        }
        let lanes = self.workers.iter().map(|worker| worker.name.to_string());
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

/// The lane of a worker.
const fn lane(worker: u32) -> u32 {
    worker.saturating_add(1)
}

/// Shows oracles something, apart from the world so that what they see may be part of it.
fn see(met: &Met<'_>, now_ns: u64, oracles: &mut Oracles, broken: &mut Option<(Broken, u64)>) {
    if broken.is_none()
        && let Err(promise) = oracles.see(met)
    {
        *broken = Some((promise, now_ns));
    }
}
