//! Connections between processes. As with TCP, what is on one comes in its order or not at all: when
//! something is lost, both ends notice that the connection is broken, each in its time.

use std::collections::BTreeMap;

use ::bytes::Bytes;
use rondo_core::exchange::ServerRank;
use rondo_core::ids::{ConnectionId, Incarnation};

use super::event::{Event, Letter, What};
use super::reader::Reader;
use super::site::SCHEDULER;
use super::{CALM, MS, World};
use crate::letters::End;
use crate::oracle::exchange::Met;

/// Frames that may come again.
const SENT_MAX: usize = 64;

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Links {
    all: BTreeMap<u64, Link>,
    last: u64,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: Side,
    pub(super) server: Side,
    pub(super) purpose: Purpose,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A process speaks to the scheduler, and calls the connection so.
    Scheduler(ConnectionId),
    /// A worker speaks to this run of a server.
    Server(ServerRank, Incarnation),
}

/// How an end of a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is being made.
    Opening,
    Open,
    /// The process has closed it, and still reads.
    Closing,
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) site: u32,
    /// The process.
    pub(super) life: u32,
    pub(super) standing: Standing,
    pub(super) reader: Reader,
    /// Whether something that it has sent was lost.
    is_lost: bool,
    /// When the last thing that it has sent arrives.
    arrives_ns: u64,
    /// Frames sent to it that may come again.
    frames: Vec<Bytes>,
}

impl Side {
    fn new(site: u32, life: u32) -> Self {
        Self {
            site,
            life,
            standing: Standing::Opening,
            reader: Reader::default(),
            is_lost: false,
            arrives_ns: 0,
            frames: Vec::new(),
        }
    }
}

impl Link {
    pub(super) const fn side(&mut self, end: End) -> &mut Side {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }
}

impl Links {
    pub(super) fn get(&mut self, link: u64) -> Option<&mut Link> {
        self.all.get_mut(&link)
    }

    /// An end is closed; how it stood.
    fn close(&mut self, number: u64, end: End) -> Option<Standing> {
        let link = self.all.get_mut(&number)?;
        let before = std::mem::replace(&mut link.side(end).standing, Standing::Closed);
        if link.side(end.other()).standing == Standing::Closed {
            self.all.remove(&number);
        }
        Some(before)
    }

    /// Ends of a process.
    pub(super) fn of(&self, site: u32) -> Vec<(u64, End)> {
        let ends = self.all.iter().flat_map(|(number, link)| {
            let ends = [(End::Client, &link.client), (End::Server, &link.server)];
            ends.map(|(end, side)| {
                (*number, end, side.site == site && side.standing != Standing::Closed)
            })
        });
        ends.filter(|(_, _, is_its)| *is_its).map(|(number, end, _)| (number, end)).collect()
    }

    /// How many connections there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

impl World {
    /// A process connects to another.
    pub(super) fn connect(&mut self, from: u32, to: u32, purpose: Purpose) -> u64 {
        let life = self.site(from).map_or(0, |site| site.life);
        let to_life = self.site(to).map_or(0, |site| site.life);
        self.links.last = self.links.last.wrapping_add(1);
        let number = self.links.last;
        let (client, server) = (Side::new(from, life), Side::new(to, to_life));
        self.links.all.insert(number, Link { client, server, purpose });
        self.post(number, End::Client, What::Open, 0);
        number
    }

    /// Sends something from one end of a connection to the other, so much later than at once.
    pub(super) fn post(&mut self, number: u64, from: End, what: What, late_ns: u64) {
        let Some(link) = self.links.get(number) else {
            return;
        };
        let ends = (link.side(from).site, link.side(from.other()).site);
        let side = link.side(from);
        if side.is_lost {
            return;
        }
        let before_ns = side.arrives_ns;
        let faults = if self.faults_on() { &self.swarm.faults } else { &CALM };
        let fate = self.net.send(self.now_ns, ends, false, faults, &mut self.tally);
        let Some(at_ns) = fate.arrives_ns else {
            self.see(&Met::Troubled);
            if let Some(link) = self.links.get(number) {
                link.side(from).is_lost = true;
            }
            self.is_broken(number, from);
            self.is_broken(number, from.other());
            return;
        };
        let at_ns = at_ns.saturating_add(late_ns).max(before_ns);
        if let Some(link) = self.links.get(number) {
            link.side(from).arrives_ns = at_ns;
        }
        let place = self.letters.put(Letter { link: number, to: from.other(), what });
        self.queue.plan(at_ns, Event::Letter(place));
    }

    /// A frame goes out, its tensors perhaps much later than its header; and perhaps once more.
    pub(super) fn send_frame(&mut self, number: u64, from: End, frame: Frame) {
        let Frame { bytes, header_bytes, may_repeat } = frame;
        if may_repeat {
            self.repeat(number, from.other(), &bytes);
        }
        let header = bytes.slice(..header_bytes.min(bytes.len()));
        let body = bytes.slice(header_bytes.min(bytes.len())..);
        if body.is_empty() {
            return self.post(number, from, What::Data(header), 0);
        }
        let cut = usize::try_from(self.stream.below(body.len() as u64)).unwrap_or(0);
        let (slow, mean_ms) = (self.shape.slow_bodies, self.shape.body_ms);
        let late_ms = match self.stream.chance(slow) {
            true => self.stream.exponential(mean_ms).max(1),
            false => 0,
        };
        let first: Bytes = header.iter().chain(&body.slice(..cut)).copied().collect();
        self.post(number, from, What::Data(first), 0);
        self.post(number, from, What::Data(body.slice(cut..)), late_ms.saturating_mul(MS));
    }

    /// A frame may come again, on the same connection.
    fn repeat(&mut self, number: u64, to: End, bytes: &Bytes) {
        use crate::fault::Fault;
        let strength = self.swarm.faults.strength(Fault::Duplicate);
        if !self.faults_on() || !self.stream.chance(strength / 5) {
            return;
        }
        let late_ms = self.stream.exponential(500);
        let Some(link) = self.links.get(number) else {
            return;
        };
        let frames = &mut link.side(to).frames;
        if frames.len() >= SENT_MAX {
            return;
        }
        frames.push(bytes.clone());
        let nth = u32::try_from(frames.len().saturating_sub(1)).unwrap_or(0);
        self.tally.fault(Fault::Duplicate);
        let at_ns = self.now_ns.saturating_add(late_ms.saturating_mul(MS));
        self.queue.plan(at_ns, Event::Again(number, to, nth));
    }

    pub(super) fn again(&mut self, number: u64, to: End, nth: u32) {
        let frame = self.links.get(number).and_then(|link| {
            let is_open = link.side(to.other()).standing == Standing::Open;
            link.side(to).frames.get(nth as usize).filter(|_| is_open).cloned()
        });
        if let Some(frame) = frame {
            self.post(number, to.other(), What::Data(frame), 0);
        }
    }

    /// An end of a connection will notice that it is broken.
    pub(super) fn is_broken(&mut self, number: u64, end: End) {
        let patience_ns = self.swarm.net.patience_ms.saturating_mul(MS);
        let late_ns = self.stream.between(1, patience_ns.max(1));
        self.queue.plan(self.now_ns.saturating_add(late_ns), Event::Breaks(number, end));
    }

    /// Something arrives.
    pub(super) fn arrive(&mut self, place: u32) {
        let Some((number, to)) = self.letters.look(place).map(|it| (it.link, it.to)) else {
            return;
        };
        let Some(site) = self.links.get(number).map(|link| link.side(to).site) else {
            self.letters.take(place);
            return;
        };
        if self.is_held(site, Event::Letter(place)) {
            return;
        }
        let Some(Letter { what, .. }) = self.letters.take(place) else {
            return;
        };
        if let Some(link) = self.links.get(number) {
            let from = link.side(to.other()).site;
            self.net.arrived(from, site);
        }
        match what {
            What::Open => self.is_asked(number),
            What::Opened => self.is_opened(number),
            What::Data(bytes) => self.data(number, to, &bytes),
            What::Fin => self.breaks(number, to),
        }
    }

    /// Somebody connects.
    fn is_asked(&mut self, number: u64) {
        let Some(link) = self.links.get(number) else {
            return;
        };
        let (site, purpose) = (link.server.site, link.purpose);
        let Some(life) = self.listens(site, purpose) else {
            // Nobody listens there.
            self.post(number, End::Server, What::Fin, 0);
            self.links.close(number, End::Server);
            return;
        };
        if let Some(link) = self.links.get(number) {
            (link.server.life, link.server.standing) = (life, Standing::Open);
        }
        self.post(number, End::Server, What::Opened, 0);
        if site == SCHEDULER {
            self.scheduler_connected(number);
        }
    }

    /// The life of the process that listens there.
    fn listens(&mut self, site: u32, purpose: Purpose) -> Option<u32> {
        let site = self.site(site)?;
        let listens = match purpose {
            Purpose::Scheduler(_) => site.process.is_some(),
            // From before it has a rank: who comes too early is told so.
            Purpose::Server(..) => site.server().is_some(),
        };
        listens.then_some(site.life)
    }

    fn is_opened(&mut self, number: u64) {
        let Some(link) = self.links.get(number) else {
            return;
        };
        if link.client.standing != Standing::Opening {
            return;
        }
        link.client.standing = Standing::Open;
        let (site, purpose) = (link.client.site, link.purpose);
        self.connected(site, number, purpose);
    }

    /// An end notices that the connection is over.
    pub(super) fn breaks(&mut self, number: u64, end: End) {
        let Some(link) = self.links.get(number) else {
            return;
        };
        let (site, life, purpose) = (link.side(end).site, link.side(end).life, link.purpose);
        if link.side(end).standing == Standing::Closed {
            return;
        }
        if self.is_held(site, Event::Breaks(number, end)) {
            return;
        }
        let Some(before) = self.links.close(number, end) else {
            return;
        };
        self.post(number, end, What::Fin, 0);
        if self.living(site, life).is_none() {
            return;
        }
        match before {
            Standing::Opening if end == End::Client => self.not_connected(site, number, purpose),
            Standing::Opening => {}
            _ => self.disconnected(site, number, (end, purpose), before == Standing::Closing),
        }
    }

    /// A process closes its end of a connection.
    pub(super) fn close(&mut self, number: u64, end: End) {
        let late_ns = self.stream.below(5).saturating_mul(MS);
        self.post(number, end, What::Fin, 0);
        let Some(link) = self.links.get(number) else {
            return;
        };
        match link.purpose {
            // Nothing more is reported of it.
            Purpose::Scheduler(_) => {
                self.links.close(number, end);
            }
            Purpose::Server(..) => {
                link.side(end).standing = Standing::Closing;
                let at_ns = self.now_ns.saturating_add(late_ns);
                self.queue.plan(at_ns, Event::Breaks(number, end));
            }
        }
    }

    /// The process at an end is gone: the other end notices sooner or later.
    pub(super) fn is_left(&mut self, number: u64, end: End) {
        self.links.close(number, end);
        self.is_broken(number, end.other());
    }
}

/// A frame as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) bytes: Bytes,
    /// How many of them come before the tensors.
    pub(super) header_bytes: usize,
    /// Whether nothing comes of it if it arrives twice.
    pub(super) may_repeat: bool,
}
