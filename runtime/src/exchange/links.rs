//! The links of a process: opened, accepted, read, written and closed. What is said on them is not
//! decided here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;

use super::closing::{Closing, PATIENCE};
use super::link::names::LookUps;
use super::link::{Bounds, Frame, Link, Listener, Placer, Transport};
use crate::tensor::TensorBuffer;
use crate::tensor::cuda::Uuid;

/// A link of this process, by a number that no other has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkId(usize);

/// The token of who wakes the thread that waits.
pub(super) const WAKER: Token = Token(usize::MAX);
/// The tokens of listeners are from here on.
const DOORS: usize = usize::MAX / 2;

/// So many links are waited for one by one.
const FEW_LINKS: usize = 16;
/// How often links are looked at for which GPUs have still to do something.
const LANDING: Duration = Duration::from_micros(200);
/// How long doors are left alone after the system gave no connection for a lack of files or memory.
const DOORS_PAUSE: Duration = Duration::from_millis(100);
/// Least time between two log lines about connections that cannot be accepted.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(10);
/// Connections in a row that may fail before others are looked after.
const FAILURES_MAX: usize = 64;
/// How long the other addresses of a process are preferred to one at which a link has failed. By default a
/// worker counts a server as lost long before that.
const OTHERS_PREFERRED: Duration = Duration::from_secs(10);

/// All links of a process.
pub(super) struct Links {
    registry: Registry,
    transports: Vec<Arc<dyn Transport>>,
    doors: Vec<Box<dyn Listener>>,
    all: BTreeMap<LinkId, Entry>,
    look_ups: LookUps<LinkId>,
    /// Links that will be when their names are found, and by what.
    named: BTreeMap<LinkId, Arc<dyn Transport>>,
    /// Links that go when what was said has left.
    closing: Closing<LinkId>,
    next: usize,
    links_max: usize,
    /// Links with frames that leave with the next ones.
    later: BTreeSet<LinkId>,
    /// Links with frames that GPUs have still to do something for.
    landing: BTreeSet<LinkId>,
    /// What happened to links, oldest first.
    news: VecDeque<(LinkId, News)>,
    /// When to look for who has connected though no event tells of it.
    retry_doors: Option<Instant>,
    /// When a log line told last that a connection could not be accepted.
    complained: Option<Instant>,
    /// Addresses at which a link has failed before it brought anything, and when.
    failed: BTreeMap<Arc<str>, Instant>,
}

struct Entry {
    link: Box<dyn Link>,
    is_open: bool,
    is_closing: bool,
    /// The address at which this process opened it, until it brings something.
    untried: Option<Arc<str>>,
}

/// What happened to a link.
pub(super) enum News {
    /// Somebody has connected.
    Accepted,
    /// It is connected, as was asked.
    Opened,
    /// It is no more.
    Closed(io::Error),
}

impl Links {
    /// No links yet; those that will be are among `transports`, the best first.
    pub(super) fn new(
        registry: Registry,
        transports: Vec<Arc<dyn Transport>>,
        links_max: usize,
        look_ups: LookUps<LinkId>,
    ) -> Self {
        let (doors, all, news) = (Vec::new(), BTreeMap::new(), VecDeque::new());
        let (later, named) = (BTreeSet::new(), BTreeMap::new());
        let closing = Closing::new();
        Self {
            registry,
            transports,
            doors,
            all,
            look_ups,
            named,
            closing,
            next: 0,
            links_max,
            later,
            landing: BTreeSet::new(),
            news,
            retry_doors: None,
            complained: None,
            failed: BTreeMap::new(),
        }
    }

    /// Listens by each transport; the addresses by which others come.
    pub(super) fn listen(&mut self, host: &str, port: u16) -> io::Result<Vec<Arc<str>>> {
        let mut addresses = Vec::new();
        for transport in &self.transports {
            let mut door = transport.listen(host, port)?;
            let token = Token(DOORS.saturating_add(self.doors.len()));
            self.registry.register(door.source(), token, Interest::READABLE)?;
            addresses.push(Arc::from(door.address()));
            self.doors.push(door);
        }
        Ok(addresses)
    }

    /// Opens a link to one of the addresses of a process on the host `to`; this one is on `from`. An address
    /// at which a link has just failed comes behind the others: where the system maps no memory for a link
    /// between two processes, other ways still work.
    pub(super) fn open(
        &mut self,
        addresses: &[Arc<str>],
        from: &str,
        to: &str,
    ) -> io::Result<LinkId> {
        let mut last = None;
        for address in self.in_turn(addresses) {
            let Some((scheme, at)) = address.split_once("://") else { continue };
            let transport = self.transports.iter().find(|it| it.scheme() == scheme);
            let Some(transport) = transport.filter(|it| it.reaches(from, to)) else { continue };
            let begun = match transport.name_in(at) {
                Some(name) => {
                    let transport = Arc::clone(transport);
                    self.look_up(name, transport)
                }
                None => transport.connect(at).and_then(|link| self.add(link, false)),
            };
            match begun {
                Ok(link) => {
                    if let Some(entry) = self.all.get_mut(&link) {
                        entry.untried = Some(Arc::clone(address));
                    }
                    return Ok(link);
                }
                Err(error) => {
                    last = Some(io::Error::new(error.kind(), format!("{address}: {error}")))
                }
            }
        }
        Err(last.unwrap_or_else(|| {
            let known: Vec<&str> = self.transports.iter().map(|it| it.scheme()).collect();
            io::Error::other(format!(
                "none of the addresses {addresses:?} can be reached; known are {}",
                known.join(", ")
            ))
        }))
    }

    /// Addresses in the order in which they are tried.
    fn in_turn<'a>(&mut self, addresses: &'a [Arc<str>]) -> Vec<&'a Arc<str>> {
        self.failed.retain(|_, at| at.elapsed() < OTHERS_PREFERRED);
        let mut in_turn: Vec<&Arc<str>> = addresses.iter().collect();
        in_turn.sort_by_key(|address| self.failed.get(*address).copied());
        in_turn
    }

    /// A link that will be when a name is found.
    fn look_up(&mut self, name: &str, transport: Arc<dyn Transport>) -> io::Result<LinkId> {
        let id = self.room()?;
        self.look_ups.begin(id, name)?;
        self.named.insert(id, transport);
        Ok(id)
    }

    /// Connects to those whose names were found.
    pub(super) fn see_to_names(&mut self) {
        while let Some((id, found)) = self.look_ups.next() {
            let Some(transport) = self.named.remove(&id) else { continue };
            let link = found.and_then(|address| transport.connect(&address.to_string()));
            if let Err(error) = link.and_then(|link| self.insert(id, link, false)) {
                self.news.push_back((id, News::Closed(error)));
            }
        }
    }

    /// Gives up the links that close and whose other ends did not take in time what was said.
    pub(super) fn see_to_closing(&mut self) {
        while let Some(id) = self.closing.late() {
            let ms = PATIENCE.as_millis();
            let text = format!("it was closed here, and its other end took nothing for {ms} ms");
            self.remove(id, io::Error::new(io::ErrorKind::TimedOut, text));
        }
    }

    /// Accepts those who have connected while the system gave no connections.
    pub(super) fn see_to_doors(&mut self) {
        let now = Instant::now();
        if self.retry_doors.take_if(|at| *at <= now).is_some() {
            (0..self.doors.len()).for_each(|door| self.accept(door));
        }
    }

    /// How long until something has taken too long, looking up a name or closing a link, or until links are
    /// to be looked at for which GPUs do something, or doors.
    pub(super) fn due(&self) -> Option<Duration> {
        let landing = (!self.landing.is_empty()).then_some(LANDING);
        let doors = self.retry_doors.map(|at| at.saturating_duration_since(Instant::now()));
        [self.look_ups.due(), self.closing.due(), landing, doors].into_iter().flatten().min()
    }

    /// Links that may have something to receive though nothing became readable.
    pub(super) fn landing(&self) -> Vec<LinkId> {
        self.landing.iter().copied().collect()
    }

    fn add(&mut self, link: Box<dyn Link>, is_open: bool) -> io::Result<LinkId> {
        let id = self.room()?;
        self.insert(id, link, is_open)?;
        Ok(id)
    }

    /// The number of another link, if there may be one.
    fn room(&mut self) -> io::Result<LinkId> {
        let max = self.links_max;
        if self.all.len().saturating_add(self.look_ups.len()) >= max {
            return Err(io::Error::other(format!("there are {max} links, the bound")));
        }
        let id = LinkId(self.next);
        self.next = self.next.saturating_add(1);
        Ok(id)
    }

    fn insert(&mut self, id: LinkId, mut link: Box<dyn Link>, is_open: bool) -> io::Result<()> {
        self.registry.register(
            link.source(),
            Token(id.0),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        self.all.insert(id, Entry { link, is_open, is_closing: false, untried: None });
        Ok(())
    }

    /// Bounds the frames that come on a link from now on.
    pub(super) fn set_bounds(&mut self, id: LinkId, bounds: Bounds) {
        if let Some(entry) = self.all.get_mut(&id) {
            entry.link.set_bounds(bounds);
        }
    }

    /// Sends a frame; what cannot leave now leaves when there is room. Nothing happens if the link is no
    /// more.
    pub(super) fn send(&mut self, id: LinkId, frame: Frame) {
        if let Some(entry) = self.all.get_mut(&id).filter(|entry| !entry.is_closing) {
            entry.link.send(frame);
            self.flush(id);
        }
    }

    /// Sends a frame with the next one, or when [`Links::flush_later`] is called.
    pub(super) fn send_later(&mut self, id: LinkId, frame: Frame) {
        if let Some(entry) = self.all.get_mut(&id).filter(|entry| !entry.is_closing) {
            entry.link.send(frame);
            self.later.insert(id);
        }
    }

    /// Whether frames wait for others to leave with.
    pub(super) fn has_later(&self) -> bool {
        !self.later.is_empty()
    }

    /// Sends what waits for others to leave with.
    pub(super) fn flush_later(&mut self) {
        for id in std::mem::take(&mut self.later) {
            self.flush(id);
        }
    }

    fn flush(&mut self, id: LinkId) {
        let Some(entry) = self.all.get_mut(&id).filter(|entry| entry.is_open) else { return };
        match entry.link.flush() {
            Ok(is_empty) if entry.is_closing && is_empty => {
                self.remove(id, io::Error::other("it was closed here"));
            }
            Ok(_) => drop(self.later.remove(&id)),
            Err(error) => self.fail(id, error),
        }
    }

    /// Closes a link when all that was sent has left, or soon. [`News::Closed`] comes of it.
    pub(super) fn close(&mut self, id: LinkId) {
        if self.named.remove(&id).is_some() {
            self.look_ups.give_up(id);
            let why = io::Error::other("it was closed here");
            self.news.push_back((id, News::Closed(why)));
        }
        if let Some(entry) = self.all.get_mut(&id) {
            entry.is_closing = true;
            if entry.is_open {
                self.closing.begin(id);
                self.flush(id);
            } else {
                self.remove(id, io::Error::other("it was closed here"));
            }
        }
    }

    /// Gives up a link that has failed.
    fn fail(&mut self, id: LinkId, why: io::Error) {
        let untried = self.all.get_mut(&id).and_then(|entry| entry.untried.take());
        if let Some(address) = untried {
            self.failed.insert(address, Instant::now());
        }
        self.remove(id, why);
    }

    /// Gives a link up.
    pub(super) fn remove(&mut self, id: LinkId, why: io::Error) {
        self.later.remove(&id);
        self.landing.remove(&id);
        self.closing.end(id);
        if let Some(mut entry) = self.all.remove(&id) {
            if let Err(error) = self.registry.deregister(entry.link.source()) {
                tracing::debug!(%error, "a link that is closed stays registered");
            }
            self.news.push_back((id, News::Closed(why)));
        }
    }

    /// What has happened since this was asked last.
    pub(super) fn news(&mut self) -> Option<(LinkId, News)> {
        self.news.pop_front()
    }

    /// What becomes readable when something comes; `None` if there are more than a few, or another kind.
    pub(super) fn descriptors(&self) -> Option<Vec<RawFd>> {
        if self.all.len() > FEW_LINKS {
            return None;
        }
        // Those that are landing are not read, and would not let sleep who waits.
        let read = self.all.iter().filter(|(id, _)| !self.landing.contains(id));
        read.map(|(_, entry)| entry.link.descriptor()).collect()
    }

    /// Whether the other end of a link takes tensors from the memory of this GPU by itself.
    pub(super) fn sees(&self, id: LinkId, device: Uuid) -> bool {
        self.all.get(&id).is_some_and(|entry| entry.link.sees(device))
    }

    /// What a link is, for people.
    pub(super) fn describe(&self, id: LinkId) -> String {
        self.all.get(&id).map_or_else(|| "no link".into(), |entry| entry.link.describe())
    }

    /// Sees to what an event says; the link that may have something to read.
    pub(super) fn happened(&mut self, event: &Event) -> Option<LinkId> {
        let Token(token) = event.token();
        if token >= DOORS {
            self.accept(token.saturating_sub(DOORS));
            return None;
        }
        let id = LinkId(token);
        let entry = self.all.get_mut(&id)?;
        if event.is_read_closed() || event.is_error() {
            entry.link.end_is_near();
        }
        if !entry.is_open {
            match entry.link.is_connected() {
                Ok(false) => return None,
                Ok(true) => {
                    entry.is_open = true;
                    self.news.push_back((id, News::Opened));
                }
                Err(error) => {
                    self.fail(id, error);
                    return None;
                }
            }
        }
        if event.is_writable() {
            self.flush(id);
        }
        Some(id)
    }

    /// Accepts all pending connections: no other event tells of those that are left. The failure of one
    /// connection keeps no other waiting; where the system has no room, the next look is a pause later.
    fn accept(&mut self, door: usize) {
        let mut failures = 0_usize;
        loop {
            let Some(door) = self.doors.get_mut(door) else { return };
            match door.accept() {
                Ok(Some(link)) => match self.add(link, true) {
                    Ok(id) => self.news.push_back((id, News::Accepted)),
                    Err(error) => tracing::warn!(%error, "a connection is turned away"),
                },
                Ok(None) => return,
                Err(error) => {
                    if self.complained.is_none_or(|at| at.elapsed() >= COMPLAINT_PAUSE) {
                        self.complained = Some(Instant::now());
                        let address = door.address();
                        tracing::warn!(%error, address, "cannot accept a connection");
                    }
                    failures = failures.saturating_add(1);
                    if lacks_room(&error) || failures >= FAILURES_MAX {
                        let now = Instant::now();
                        self.retry_doors = Some(now.checked_add(DOORS_PAUSE).unwrap_or(now));
                        return;
                    }
                }
            }
        }
    }

    /// Receives the next frame of a link, if it is whole.
    pub(super) fn receive(&mut self, id: LinkId, placer: Placer<'_>) -> Option<Vec<TensorBuffer>> {
        let entry = self.all.get_mut(&id).filter(|entry| entry.is_open)?;
        let received = entry.link.receive(placer);
        match entry.link.is_landing() {
            true => self.landing.insert(id),
            false => self.landing.remove(&id),
        };
        match received {
            Ok(frame) => {
                if frame.is_some() {
                    entry.untried = None;
                }
                frame
            }
            Err(error) => {
                self.fail(id, error);
                None
            }
        }
    }
}

/// Whether the system gives no connection because it has no files or memory left.
fn lacks_room(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS))
}

#[cfg(test)]
mod tests;
