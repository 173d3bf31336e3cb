//! A configuration from decisions. Edges are met in seconds when limits are small.

use rondo_core::dispatcher::{Bounds, Config};
use rondo_core::time::Duration;

use super::{
    CoordinationShape, DatasetShape, Drawn, ElementsShape, Ending, ExchangeShape, JournalShape,
    NetShape, Pace, ReadingShape, RendezvousShape, Swarm, settings,
};
use crate::fault::{Fault, Faults};
use crate::rng::{Source, Stream};
use crate::workload::kind::Weights;

/// How often runs end in which way. What comes after the span is mostly idle, but long.
const ENDINGS: [Ending; 6] =
    [Ending::Cut, Ending::Heal, Ending::Heal, Ending::Drain, Ending::Cut, Ending::Heal];

/// Whether the dispatcher and the coordination service take part.
const DISPATCHER: (bool, bool) = (true, false);
const COORDINATION: (bool, bool) = (false, true);
const BOTH: (bool, bool) = (true, true);

/// Where consumers of rounds have to get on, a vote waits at least as long as it does by default. With less,
/// consumers that ask again after a pause miss each other (docs/round_robin.md).
const VOTE_MIN: Duration = Duration::from_secs(10);

/// Runs in which the power goes all the time take no longer.
const POWER_SPAN_MS_MAX: u64 = 30_000;

/// Runs with a large job are short: each of its tasks takes as much time as others.
const LARGE_SPAN_MS_MAX: u64 = 20_000;

impl Swarm {
    /// The configuration of a run, drawn unless a tape says it, and the streams it was drawn from.
    pub fn draw(source: &Source) -> Drawn {
        let (mut stream, mut relays) = (source.stream("swarm", 0), source.stream("relays", 0));
        let mut elements = source.stream("elements", 0);
        let mut rendezvous = source.stream("rendezvous", 0);
        let mut exchange = source.stream("exchange", 0);
        let mut wider = source.stream("wider", 0);
        let mut jobs = source.stream("jobs", 0);
        let mut apps = source.stream("apps", 0);
        let mut partings = source.stream("partings", 0);
        let mut mix = source.stream("mix", 0);
        let mut forgetting = source.stream("forgetting", 0);
        let swarm = match source.swarm() {
            Some(swarm) => swarm.clone(),
            None => {
                let mut swarm = Self::drawn(&mut stream, &mut relays);
                swarm.read_by_element(ElementsShape::draw(&mut elements));
                swarm.widen(&mut wider);
                swarm.settings = swarm.with_room(swarm.settings.clone());
                swarm.rendezvous = RendezvousShape::draw(&mut rendezvous);
                swarm.exchange = match swarm.rendezvous {
                    Some(_) => None,
                    None => ExchangeShape::draw(&mut exchange),
                };
                if let Some(coordination) = &mut swarm.coordination {
                    coordination.draw_jobs(&mut jobs);
                    coordination.draw_apps(&mut apps);
                    coordination.draw_partings(&mut partings);
                    // A late registration of a job of the former disk would begin a life of that job's
                    // size, and nobody ends it.
                    if swarm.faults.has(Fault::EmptyDisk) {
                        coordination.namespaces.iter_mut().for_each(|of| of.sizes.clear());
                    }
                    if coordination.has_large_job() {
                        swarm.span_ms = swarm.span_ms.min(LARGE_SPAN_MS_MAX);
                    }
                }
                if let Some(reading) = &mut swarm.reading {
                    reading.draw_closing(&mut partings);
                }
                swarm.mix(&mut mix);
                swarm.forget(&mut forgetting);
                swarm
            }
        };
        let streams = [
            stream, relays, elements, rendezvous, exchange, wider, jobs, apps, partings, mix,
            forgetting,
        ];
        (swarm, streams)
    }

    fn drawn(s: &mut Stream, relays: &mut Stream) -> Self {
        let workers = small(s.between(1, 4));
        let consumers = small(s.between(1, 3));
        let mut swarm = Self {
            span_ms: span_ms(s),
            ending: s.pick(&ENDINGS).copied().unwrap_or(Ending::Cut),
            workers,
            consumers,
            together: s.pick(&[0, consumers, consumers, 1]).copied().unwrap_or(0),
            rogues: small(s.below(2)),
            operators: small(s.below(2)),
            faults: Faults::draw(s),
            weights: Weights::draw(s),
            settings: settings::draw(s, workers),
            journal: JournalShape::draw(s),
            net: NetShape::draw(s),
            pace: Pace::draw(s),
            datasets: datasets(s),
            job_names: small(s.between(1, 4)),
            look_every: s.pick(&[512, 64, 1000]).copied().unwrap_or(512),
            coordination: None,
            reading: None,
            elements: None,
            stock_workers: false,
            rendezvous: None,
            exchange: None,
        };
        swarm.settings.bounds = settings::bounds(s, swarm.ending);
        swarm.come_and_go(s);
        swarm.cut_off_writes(s);
        swarm.fill_disk(s);
        swarm.take_part(s);
        if let Some(coordination) = &mut swarm.coordination {
            coordination.draw_relays(relays);
        }
        // From the stream that was added last, so that older seeds draw all else as they did.
        swarm.read_by_split(ReadingShape::draw(relays));
        swarm
    }

    /// Which systems take part: the dispatcher as it would alone, or the coordination service, or
    /// both.
    fn take_part(&mut self, s: &mut Stream) {
        let systems = s.pick(&[DISPATCHER, DISPATCHER, COORDINATION, COORDINATION, BOTH]);
        let (dispatcher, coordination) = systems.copied().unwrap_or(DISPATCHER);
        if !coordination {
            return;
        }
        self.weights.draw_coordination(s);
        self.coordination = Some(CoordinationShape::draw(s));
        if !dispatcher {
            (self.workers, self.consumers, self.together) = (0, 0, 0);
            (self.rogues, self.operators) = (0, 0);
        }
    }

    /// Readers by split take part beside those who use the dispatcher as TensorFlow does, but for those
    /// who would take splits from an iteration that is none of theirs.
    fn read_by_split(&mut self, reading: Option<ReadingShape>) {
        let Some(shape) = reading.filter(|_| self.workers > 0) else {
            return;
        };
        self.rogues = 0;
        self.settings.reader_timeout = Duration::from_millis(shape.timeout_ms);
        self.reading = Some(shape);
    }

    /// Where some read by element, workers are as Rondo has them, which make nothing before somebody
    /// asks: so all of them do, and nobody reads as models of readers do.
    pub(super) fn read_by_element(&mut self, elements: Option<ElementsShape>) {
        if elements.is_none() || self.workers == 0 {
            return;
        }
        (self.consumers, self.together, self.rogues, self.reading) = (0, 0, 0, None);
        self.elements = elements;
    }

    /// Where all of those who read together have to get on in the end, the node has room for them at
    /// once: whoever has come in waits for the others, and would wait for ever. Without maintenance
    /// those that have died take up room for ever, too.
    pub(super) fn with_room(&self, settings: Config) -> Config {
        if self.ending != Ending::Heal {
            return settings;
        }
        let in_rounds = self.elements.filter(|shape| shape.rounds).map(|shape| shape.readers);
        let together = self.of_those_together() as usize;
        let room = match (together, settings.job_gc_timeout) {
            (0, _) => 0,
            (_, Some(_)) => together,
            (_, None) => Bounds::default().clients,
        };
        let clients = settings.bounds.clients.max(room);
        let (waiting_calls, removal_timeout) = match in_rounds {
            // All of them wait in the votes on all dead workers, and have to come within their time.
            Some(readers) => (
                settings.bounds.waiting_calls.max((readers * self.workers.max(1)) as usize),
                settings.removal_timeout.max(VOTE_MIN),
            ),
            None => (settings.bounds.waiting_calls, settings.removal_timeout),
        };
        let bounds = Bounds { clients, waiting_calls, ..settings.bounds };
        Config { bounds, removal_timeout, ..settings }
    }

    /// How many readers wait for each other.
    fn of_those_together(&self) -> u32 {
        // Readers by split wait for what workers were handed for the others.
        let both = self.reads_both_ways();
        let by_split = self.reading.filter(|shape| both || shape.grouped);
        let by_element = self.elements.filter(|shape| both || shape.rounds);
        let by_split = by_split.map_or(0, |shape| shape.readers);
        by_split.saturating_add(by_element.map_or(0, |shape| shape.readers))
    }

    /// Where consumers read together, workers come and go more often: only then have they to agree on
    /// something.
    fn come_and_go(&mut self, s: &mut Stream) {
        if self.together < 2 || !s.chance(500) {
            return;
        }
        for fault in [Fault::RestartFresh, Fault::RestartSame] {
            let strength = s.pick(&[0, 300, 1000]).copied().unwrap_or(0);
            self.faults.set(fault, self.faults.strength(fault).max(strength));
        }
    }

    /// In some runs the power goes again and again in the midst of writes that pile up behind syncs.
    /// Short ones: in long ones most of the time would go by over journals that are read again.
    fn cut_off_writes(&mut self, s: &mut Stream) {
        if !s.chance(200) || self.span_ms > POWER_SPAN_MS_MAX {
            return;
        }
        for fault in [Fault::KillAtEffect, Fault::PowerCut] {
            self.faults.set(fault, 1000);
        }
        for fault in [Fault::LostWrite, Fault::ReorderedWrite, Fault::TornWrite] {
            let strength = s.pick(&[500, 500, 0]).copied().unwrap_or(0);
            self.faults.set(fault, self.faults.strength(fault).max(strength));
        }
        self.journal.group_bytes_max = s.pick(&[1, 256]).copied().unwrap_or(1);
        self.journal.segment_bytes_max = self.journal.segment_bytes_max.min(16_384);
        self.journal.sync_us_mean = s.pick(&[300_000, 20_000]).copied().unwrap_or(20_000);
    }

    /// In some runs workers come back while the disk is full, about as long as they are waited for.
    fn fill_disk(&mut self, s: &mut Stream) {
        if !s.chance(80) {
            return;
        }
        self.faults.set(Fault::DiskFull, 500);
        self.faults.set(Fault::RestartSame, 1000);
        self.pace.down_ms = self.pace.down_ms.max(3000);
        self.pace.worker_heartbeat_ms = self.pace.worker_heartbeat_ms.min(1000);
    }

    /// The same with the dispatcher alone, for a world where nobody asks the coordination service.
    #[must_use]
    pub fn for_dispatcher(mut self) -> Self {
        (self.reading, self.rendezvous, self.exchange) = (None, None, None);
        if self.elements.take().is_some() {
            self.consumers = 2;
        }
        if self.coordination.take().is_some() && self.workers == 0 {
            // Where the settings list who may register, those are all that come.
            let listed = u32::try_from(self.settings.worker_addresses.len()).unwrap_or(0);
            let workers = if listed > 0 { listed } else { 2 };
            (self.workers, self.consumers) = (workers, 2);
        }
        self
    }

    /// The run that speed is measured with: a minute, five machines, faults.
    pub fn standard(source: &Source) -> Drawn {
        let (mut swarm, streams) = Self::draw(source);
        swarm.span_ms = 60_000;
        swarm.ending = Ending::Cut;
        if swarm.workers > 0 {
            (swarm.workers, swarm.consumers) = (2, 2);
            swarm.together = swarm.together.min(2);
        }
        (swarm.rogues, swarm.operators, swarm.reading) = (0, 0, None);
        (swarm.elements, swarm.rendezvous, swarm.exchange) = (None, None, None);
        if let Some(coordination) = &mut swarm.coordination {
            coordination.meet_standard();
        }
        (swarm, streams)
    }

    /// Settings that the node may have instead from some restart on, with the shape of its journal.
    /// Who may register stays, so that it is known who must get on.
    pub fn other_settings(&self, s: &mut Stream) -> (Config, JournalShape) {
        let worker_addresses = self.settings.worker_addresses.clone();
        let bounds = settings::bounds(s, self.ending);
        let reader_timeout = self.settings.reader_timeout;
        let drawn = settings::draw(s, self.workers);
        let settings = Config { worker_addresses, bounds, reader_timeout, ..drawn };
        (self.with_room(settings), JournalShape::draw(s))
    }
}

/// Mostly a minute, which is enough for everything that timeouts of some seconds bring; now and then
/// long enough for jobs and datasets to be freed while somebody uses others.
fn span_ms(s: &mut Stream) -> u64 {
    if s.chance(40) {
        return 300_000;
    }
    let secs = s.pick(&[20, 5, 10, 20, 30, 30, 40, 50, 60, 90]).copied().unwrap_or(20);
    secs * 1000
}

pub(super) fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl JournalShape {
    fn draw(s: &mut Stream) -> Self {
        Self {
            segment_bytes_max: s.pick(&[1 << 20, 16_384, 4096, 1024]).copied().unwrap_or(1 << 20),
            // With the least of them each step's records are written while a sync is under way.
            group_bytes_max: s.pick(&[1 << 16, 256, 1]).copied().unwrap_or(1 << 16),
            sync_us_min: s.pick(&[50, 500, 5000]).copied().unwrap_or(50),
            sync_us_mean: s.pick(&[50, 1000, 20_000]).copied().unwrap_or(50),
            restart_ms: s.pick(&[10, 200, 3000]).copied().unwrap_or(10),
        }
    }
}

impl NetShape {
    fn draw(s: &mut Stream) -> Self {
        Self {
            delay_us_min: s.pick(&[50, 500, 3000]).copied().unwrap_or(50),
            delay_us_mean: s.pick(&[200, 2000, 50_000]).copied().unwrap_or(200),
            patience_ms: s.pick(&[2000, 500, 12_000]).copied().unwrap_or(2000),
            link_room: s.pick(&[64, 2, 8]).copied().unwrap_or(64),
        }
    }
}

impl Pace {
    fn draw(s: &mut Stream) -> Self {
        Self {
            worker_heartbeat_ms: s.pick(&[1000, 200, 3000]).copied().unwrap_or(1000),
            client_heartbeat_ms: s.pick(&[1000, 250, 2000]).copied().unwrap_or(1000),
            split_ms: s.pick(&[400, 50, 1000, 2000]).copied().unwrap_or(400),
            round_ms: s.pick(&[400, 100, 1000]).copied().unwrap_or(400),
            pause_ms: s.pick(&[500, 50, 5000]).copied().unwrap_or(500),
            act_ms: s.pick(&[2000, 100, 500]).copied().unwrap_or(2000),
            down_ms: s.pick(&[500, 3000, 15_000]).copied().unwrap_or(500),
            rounds: s.pick(&[10, 40]).copied().unwrap_or(10),
        }
    }
}

fn datasets(s: &mut Stream) -> Vec<DatasetShape> {
    let count = s.between(1, 3);
    (0..count).map(|number| dataset(s, number)).collect()
}

fn dataset(s: &mut Stream, number: u64) -> DatasetShape {
    let sources = (0..s.between(1, 3)).map(|_| s.pick(&[6, 0, 1, 2, 25]).copied().unwrap_or(6));
    let sources: Vec<u64> = sources.collect();
    let wished = match s.below(4) {
        0 | 1 => None,
        2 => Some(format!("d{number}")),
        // Where the dispatcher's own numbers will come by, sooner or later.
        _ => Some((1000 + 3 * number).to_string()),
    };
    DatasetShape {
        sources: Some(sources).filter(|_| !s.chance(80)),
        wished,
        large: s.chance(150),
        compressed: !s.chance(200),
    }
}
