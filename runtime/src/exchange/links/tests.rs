//! Links at the edges of what the system tells: an end that comes with the last bytes, and connections that
//! fail while others wait.

use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;

use bytes::Bytes;
use mio::event::Source;
use mio::{Events, Poll, Waker};
use rondo_proto::convert::exchange::{FrameHead, FrameLimits};

use super::super::link::{SystemNames, Tcp, Unix};
use super::*;

const SOON: Duration = Duration::from_secs(20);

/// Links that somebody else may open, and the events that tell of them.
struct Bed {
    poll: Poll,
    links: Links,
    address: String,
}

impl Bed {
    fn new(transport: impl Transport + 'static) -> Self {
        let (poll, mut links) = links(vec![Arc::new(transport)]);
        let addresses = links.listen("127.0.0.1", 0).unwrap();
        let address = addresses[0].strip_prefix("tcp://").unwrap().to_owned();
        Self { poll, links, address }
    }

    /// Looks for events once. The links that may have something to read.
    fn look(&mut self, timeout: Duration) -> Vec<LinkId> {
        let mut events = Events::with_capacity(16);
        self.poll.poll(&mut events, Some(timeout)).unwrap();
        events.iter().filter_map(|event| self.links.happened(event)).collect()
    }

    /// How many links were accepted since this was asked last.
    fn accepted(&mut self) -> usize {
        let news = std::iter::from_fn(|| self.links.news());
        news.filter(|(_, news)| matches!(news, News::Accepted)).count()
    }
}

/// Links by these transports, and the events that tell of them.
fn links(transports: Vec<Arc<dyn Transport>>) -> (Poll, Links) {
    let poll = Poll::new().unwrap();
    let waker = Arc::new(Waker::new(poll.registry(), WAKER).unwrap());
    let look_ups = LookUps::new(Arc::new(SystemNames), SOON, waker);
    let registry = poll.registry().try_clone().unwrap();
    (poll, Links::new(registry, transports, 10, look_ups))
}

fn tcp() -> Tcp {
    Tcp { limits: FrameLimits::default(), insecure: false }
}

/// Sends bytes and their end, which one event tells. How many frames came, and whether the end was noticed.
fn frames_before_the_end(bytes: &[u8]) -> (usize, bool) {
    let mut bed = Bed::new(tcp());
    let mut peer = TcpStream::connect(&bed.address).unwrap();
    peer.write_all(bytes).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    // Both are there when the link is accepted, and before its first event.
    std::thread::sleep(Duration::from_millis(200));
    assert!(bed.look(SOON).is_empty());
    assert_eq!(bed.accepted(), 1);
    let readable = bed.look(SOON);
    assert_eq!(readable.len(), 1);
    let mut frames = 0;
    while bed.links.receive(readable[0], &mut |_, _| Ok(Vec::new())).is_some() {
        frames += 1;
    }
    let is_closed = matches!(bed.links.news(), Some((id, News::Closed(_))) if id == readable[0]);
    (frames, is_closed)
}

#[test]
fn an_end_that_comes_with_the_last_bytes_is_noticed() {
    assert_eq!(frames_before_the_end(&[1]), (0, true));
    let head = FrameHead { header_bytes: 3, body_bytes: 0 }.encode();
    let whole = [&head[..], b"abc"].concat();
    assert_eq!(frames_before_the_end(&whole), (1, true));
    assert_eq!(frames_before_the_end(&[&whole[..], &whole[..]].concat()), (2, true));
    assert_eq!(frames_before_the_end(&[&whole[..], &head[..]].concat()), (1, true));
}

#[test]
fn an_end_before_all_tensors_have_come_is_noticed() {
    let mut bed = Bed::new(tcp());
    let mut peer = TcpStream::connect(&bed.address).unwrap();
    let head = FrameHead { header_bytes: 1, body_bytes: 100 }.encode();
    peer.write_all(&[&head[..], &[0; 41]].concat()).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    bed.look(SOON);
    assert_eq!(bed.accepted(), 1);
    let readable = bed.look(SOON);
    let mut placer = |_: FrameHead, _: &Bytes| Ok(vec![super::super::link::Place::Anywhere(100)]);
    assert!(bed.links.receive(readable[0], &mut placer).is_none());
    assert!(matches!(bed.links.news(), Some((_, News::Closed(_)))));
}

/// TCP whose listeners fail as told before they accept anybody.
struct Failing(Vec<Errno>);

struct FailingDoor {
    door: Box<dyn Listener>,
    failures: VecDeque<Errno>,
}

impl Transport for Failing {
    fn scheme(&self) -> &'static str {
        "tcp"
    }

    fn reaches(&self, _from: &str, _to: &str) -> bool {
        true
    }

    fn listen(&self, host: &str, port: u16) -> io::Result<Box<dyn Listener>> {
        let failures = self.0.iter().copied().collect();
        Ok(Box::new(FailingDoor { door: tcp().listen(host, port)?, failures }))
    }

    fn connect(&self, address: &str) -> io::Result<Box<dyn Link>> {
        tcp().connect(address)
    }
}

impl Listener for FailingDoor {
    fn source(&mut self) -> &mut dyn Source {
        self.door.source()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Link>>> {
        match self.failures.pop_front() {
            Some(errno) => Err(errno.into()),
            None => self.door.accept(),
        }
    }

    fn address(&self) -> String {
        self.door.address()
    }
}

#[test]
fn a_connection_that_fails_keeps_nobody_behind_it_waiting() {
    let mut bed = Bed::new(Failing(vec![Errno::CONNABORTED, Errno::INTR, Errno::PROTO]));
    let _peers = [(); 2].map(|()| TcpStream::connect(&bed.address).unwrap());
    std::thread::sleep(Duration::from_millis(100));
    bed.look(SOON);
    assert_eq!(bed.accepted(), 2, "no other event tells of them");
}

#[test]
fn who_waits_while_there_are_no_files_is_accepted_after_a_pause() {
    for lack in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS] {
        let mut bed = Bed::new(Failing(vec![lack]));
        let _peer = TcpStream::connect(&bed.address).unwrap();
        bed.look(SOON);
        assert_eq!(bed.accepted(), 0);
        let pause = bed.links.due().expect("the doors are due");
        assert!(pause <= DOORS_PAUSE, "{pause:?}");
        std::thread::sleep(pause);
        bed.links.see_to_doors();
        assert_eq!((bed.accepted(), bed.links.due()), (1, None));
    }
}

#[test]
fn a_door_that_only_fails_leaves_time_for_others() {
    let mut bed = Bed::new(Failing(vec![Errno::INVAL; 10 * FAILURES_MAX]));
    let _peer = TcpStream::connect(&bed.address).unwrap();
    bed.look(SOON);
    assert_eq!(bed.accepted(), 0);
    assert!(bed.links.due().is_some(), "the doors are due");
}

/// A process that listens by a Unix socket and by TCP, and one that opens links to it.
struct TwoWays {
    bed: Bed,
    unix: UnixListener,
    tcp: TcpListener,
    addresses: [Arc<str>; 2],
    _folder: tempfile::TempDir,
}

impl TwoWays {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("door.sock");
        let unix = UnixListener::bind(&path).unwrap();
        let far = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = far.local_addr().unwrap().to_string();
        let addresses = [format!("unix://{}", path.display()), format!("tcp://{address}")];
        let by_unix = Unix { limits: FrameLimits::default(), directory: folder.path().to_owned() };
        let (poll, links) = links(vec![Arc::new(by_unix), Arc::new(tcp())]);
        let addresses = addresses.map(Arc::from);
        Self { bed: Bed { poll, links, address }, unix, tcp: far, addresses, _folder: folder }
    }

    /// Opens a link, which must be at the address of this scheme.
    fn open_by(&mut self, scheme: &str) -> LinkId {
        let id = self.bed.links.open(&self.addresses, "here", "here").unwrap();
        let what = self.bed.links.describe(id);
        assert_eq!(what.split_once("://").unwrap().0, scheme);
        id
    }

    /// Looks for events, and receives what there is, until a link is closed.
    fn until_closed(&mut self, wanted: LinkId) {
        let began = Instant::now();
        while began.elapsed() < SOON {
            for id in self.bed.look(Duration::from_millis(10)) {
                while self.bed.links.receive(id, &mut |_, _| Ok(Vec::new())).is_some() {}
            }
            let mut news = std::iter::from_fn(|| self.bed.links.news());
            if news.any(|(id, news)| id == wanted && matches!(news, News::Closed(_))) {
                return;
            }
        }
        panic!("{wanted:?} stays open");
    }
}

#[test]
fn an_address_at_which_a_link_has_failed_is_tried_behind_the_others() {
    let mut ways = TwoWays::new();
    for expected in ["unix", "tcp", "unix"] {
        let id = ways.open_by(expected);
        match expected {
            "unix" => drop(ways.unix.accept().unwrap()),
            _ => drop(ways.tcp.accept().unwrap()),
        }
        ways.until_closed(id);
    }
}

#[test]
fn an_address_at_which_a_link_brought_something_is_tried_first_again() {
    let mut ways = TwoWays::new();
    for _ in 0..2 {
        let id = ways.open_by("unix");
        let (mut peer, _) = ways.unix.accept().unwrap();
        let head = FrameHead { header_bytes: 3, body_bytes: 0 }.encode();
        peer.write_all(&[&head[..], b"abc"].concat()).unwrap();
        drop(peer);
        ways.until_closed(id);
    }
}

#[test]
fn an_address_whose_link_was_closed_here_is_tried_first_again() {
    let mut ways = TwoWays::new();
    for _ in 0..2 {
        let id = ways.open_by("unix");
        ways.bed.links.remove(id, io::Error::other("it was closed here"));
        ways.until_closed(id);
    }
}
