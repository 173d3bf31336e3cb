//! Every transport: frames arrive as they were sent, where they shall lie.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use rondo_proto::convert::exchange::{FrameHead, FrameLimits};

use super::inbox::Inbox;
use super::{Frame, Link, Listener, Place, SharedMemory, Sharing, Tcp, Transport, Unix};
use crate::arena::Allowance;
use crate::tensor::Region;
use crate::tensor::cuda::{CudaMemory, Ordinal};

#[path = "../../../tensor/tests/double/mod.rs"]
#[allow(dead_code, reason = "the double's own tests ask it more")]
mod double;

const SOON: Duration = Duration::from_secs(20);
const LIMITS: FrameLimits =
    FrameLimits { header_bytes_max: 100_000, body_bytes_max: 64 << 20, tensors_max: 1000 };

fn transports(folder: &Path) -> Vec<Arc<dyn Transport>> {
    let directory = folder.to_owned();
    vec![
        Arc::new(Tcp { limits: LIMITS, insecure: false }),
        Arc::new(Unix { limits: LIMITS, directory: directory.clone() }),
        Arc::new(SharedMemory {
            limits: LIMITS,
            directory,
            bytes: 8 << 20,
            allowance: Allowance::new(1 << 30),
            devices: Sharing::default(),
        }),
    ]
}

/// A header that says how long its tensors are, with the lengths in front of it, and the tensors.
fn frame(tensors: &[Vec<u8>], note: usize) -> Frame {
    let mut header = BytesMut::new();
    for tensor in tensors {
        header.put_u32_le(tensor.len() as u32);
    }
    header.put_bytes(9, note * 4);
    let mut whole = BytesMut::new();
    whole.put_u32_le(header.len() as u32);
    whole.put_u64_le(tensors.iter().map(|tensor| tensor.len() as u64).sum());
    whole.put(header);
    let body = tensors.iter().map(|it| Region::from(Bytes::copy_from_slice(it)).into());
    let body = body.collect();
    Frame { header: whole.freeze(), body }
}

/// The lengths in a header, but for its note.
fn lengths(header: &Bytes) -> Vec<usize> {
    let numbers = header.chunks_exact(4).map(|it| u32::from_le_bytes(it.try_into().unwrap()));
    numbers.filter(|number| *number != 0x0909_0909).map(|number| number as usize).collect()
}

/// Both ends of a link.
fn pair(transport: &dyn Transport) -> (Box<dyn Link>, Box<dyn Link>, Box<dyn Listener>) {
    let mut door = transport.listen("127.0.0.1", 0).unwrap();
    let address = door.address();
    let (scheme, at) = address.split_once("://").unwrap();
    assert_eq!(scheme, transport.scheme());
    let mut near = transport.connect(at).unwrap();
    let far = soon(|| door.accept().unwrap());
    soon(|| near.is_connected().unwrap().then_some(()));
    (near, far, door)
}

fn soon<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < SOON, "it does not happen");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Where the tensors of frames went: every other one into memory that was there, the rest anywhere.
fn received(from: &mut dyn Link, to: &mut dyn Link) -> Vec<Vec<u8>> {
    let mut wanted = Vec::new();
    let tensors = soon(|| {
        from.flush().unwrap();
        to.flush().unwrap();
        let mut placer = |_: FrameHead, header: &Bytes| {
            let places =
                lengths(header).into_iter().enumerate().map(|(index, length)| match index % 2 {
                    0 => Place::Into(Region::allocate(length)),
                    _ => Place::Anywhere(length),
                });
            wanted = places.collect();
            Ok(wanted.clone())
        };
        to.receive(&mut placer).unwrap()
    });
    assert_eq!(tensors.len(), wanted.len());
    let regions: Vec<Region> = tensors.iter().map(|it| it.host().unwrap().clone()).collect();
    for (region, place) in regions.iter().zip(&wanted) {
        if let Place::Into(there) = place {
            assert!(there.is_empty() || there.as_ptr() == region.as_ptr(), "it lies elsewhere");
        }
    }
    regions.iter().map(Region::to_vec).collect()
}

fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 7) as u8).collect()
}

#[test]
fn frames_of_any_size_arrive_in_order_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    for transport in transports(folder.path()) {
        let (mut near, mut far, _door) = pair(transport.as_ref());
        let frames: Vec<(Vec<Vec<u8>>, usize)> = vec![
            (vec![], 0),
            (vec![noise(1)], 1),
            (vec![vec![], noise(10), vec![], noise(4096)], 3),
            (vec![noise(20_000), noise(31)], 20_000),
            (vec![noise(1 << 20), vec![], noise(3 << 20), noise(7)], 0),
            (vec![noise(40_000); 150], 2),
            // More than the memory that is shared.
            (vec![noise(9 << 20)], 0),
            (vec![], 5000),
        ];
        for _ in 0..2 {
            for (tensors, note) in &frames {
                near.send(frame(tensors, *note));
            }
            for (tensors, _) in &frames {
                let found = received(near.as_mut(), far.as_mut());
                assert!(found == *tensors, "{}", transport.scheme());
            }
            std::mem::swap(&mut near, &mut far);
        }
        assert_eq!((near.unsent_bytes(), far.unsent_bytes()), (0, 0));
    }
}

/// A frame that finds no shared memory left goes over the socket.
#[test]
fn links_share_a_bound_of_shared_memory_and_miss_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let transport = SharedMemory {
        limits: LIMITS,
        directory: folder.path().to_owned(),
        bytes: 8 << 20,
        allowance: Allowance::new(1 << 20),
        devices: Sharing::default(),
    };
    let mut pairs = [pair(&transport), pair(&transport)];
    let tensors = vec![noise(900 << 10)];
    for _ in 0..2 {
        for (near, _, _) in &mut pairs {
            near.send(frame(&tensors, 0));
        }
        for (near, far, _) in &mut pairs {
            assert!(received(near.as_mut(), far.as_mut()) == tensors);
        }
    }
}

#[test]
fn who_does_not_read_holds_up_nobody_and_misses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for transport in transports(folder.path()) {
        let (mut near, mut far, _door) = pair(transport.as_ref());
        let tensors = vec![noise(1 << 20)];
        for _ in 0..30 {
            near.send(frame(&tensors, 0));
            near.flush().unwrap();
        }
        assert!(near.unsent_bytes() > 0, "{}", transport.scheme());
        for _ in 0..30 {
            assert!(received(near.as_mut(), far.as_mut()) == tensors);
        }
        assert!(near.flush().unwrap());
    }
}

#[test]
fn a_link_that_is_closed_says_so_at_its_other_end() {
    let folder = tempfile::tempdir().unwrap();
    for transport in transports(folder.path()) {
        let (mut near, far, _door) = pair(transport.as_ref());
        drop(far);
        soon(|| near.receive(&mut |_, _| Ok(Vec::new())).err());
    }
}

#[test]
fn nobody_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for transport in transports(folder.path()) {
        let address = {
            let door = transport.listen("127.0.0.1", 0).unwrap();
            door.address().split_once("://").unwrap().1.to_owned()
        };
        match transport.connect(&address) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(mut link) => drop(soon(|| link.is_connected().err())),
        }
    }
}

/// What a link says of bytes that a peer without manners sends.
fn said_of(bytes: &[u8]) -> io::Error {
    let door = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = Tcp { limits: LIMITS, insecure: false };
    let mut link = tcp.connect(&door.local_addr().unwrap().to_string()).unwrap();
    let (mut peer, _) = door.accept().unwrap();
    peer.write_all(bytes).unwrap();
    let error = soon(|| {
        let placed = |_: FrameHead, header: &Bytes| {
            Ok(lengths(header).into_iter().map(Place::Anywhere).collect())
        };
        link.receive(&mut { placed }).err()
    });
    drop(link);
    let _ = peer.read(&mut [0; 1]);
    error
}

#[test]
fn frames_that_mean_nothing_are_refused_with_what_they_are() {
    let lengths =
        |header: u32, body: u64| [&header.to_le_bytes()[..], &body.to_le_bytes()[..]].concat();
    let error = said_of(&lengths(100_001, 0)).to_string();
    assert!(error.contains("100001") && error.contains("100000"), "{error}");
    let error = said_of(&lengths(0, u64::MAX)).to_string();
    assert!(error.contains(&u64::MAX.to_string()), "{error}");
    let shorter = [lengths(4, 10), vec![3, 0, 0, 0]].concat();
    let error = said_of(&shorter).to_string();
    assert!(error.contains("10 bytes") && error.contains("of 3"), "{error}");
}

#[test]
fn memory_that_cannot_be_written_is_no_place() {
    let folder = tempfile::tempdir().unwrap();
    for transport in transports(folder.path()) {
        let (mut near, mut far, _door) = pair(transport.as_ref());
        near.send(frame(&[noise(5)], 0));
        let fixed = Region::from(Bytes::from_static(b"fixed"));
        let error = soon(|| {
            near.flush().unwrap();
            far.flush().unwrap();
            far.receive(&mut |_, _| Ok(vec![Place::Into(fixed.clone())])).err()
        });
        assert!(error.to_string().contains("read-only"), "{error}");
        assert_eq!(fixed.to_vec(), b"fixed");
    }
}

#[test]
fn all_that_is_there_is_received_without_another_event() {
    let folder = tempfile::tempdir().unwrap();
    for transport in transports(folder.path()) {
        let (mut near, mut far, _door) = pair(transport.as_ref());
        // Behind its header on each of them.
        let tensors = vec![noise(100); 300];
        near.send(frame(&tensors, 0));
        soon(|| {
            far.flush().unwrap();
            near.flush().unwrap().then_some(())
        });
        std::thread::sleep(Duration::from_millis(200));
        let mut placer = |_: FrameHead, header: &Bytes| {
            Ok(lengths(header).into_iter().map(Place::Anywhere).collect())
        };
        let received = far.receive(&mut placer).unwrap();
        assert_eq!(received.map(|it| it.len()), Some(300), "{}", transport.scheme());
    }
}

/// Gives one piece after the other, as a socket does that has nothing to read between two pieces.
struct Pieces(VecDeque<Vec<u8>>);

impl Read for Pieces {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let Some(mut piece) = self.0.pop_front() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let read = to.len().min(piece.len());
        to[..read].copy_from_slice(&piece[..read]);
        if read < piece.len() {
            self.0.push_front(piece.split_off(read));
        }
        Ok(read)
    }
}

/// A GPU that copies nothing before it is let, and memory onto which such a copy is under way: it takes all
/// the pinned memory that there is for tensors of this length.
struct Busy {
    _hardware: double::Hardware,
    gate: Arc<AtomicBool>,
    copied: CudaMemory,
    free: CudaMemory,
}

impl Busy {
    fn new(length: usize) -> Self {
        let hardware = double::Hardware::new(1, 1 << 30);
        let cuda = hardware.process(&[0], length.next_multiple_of(64 << 10));
        let stream = hardware.stream();
        let gate = hardware.gate(stream);
        let allocate = || cuda.allocate(Ordinal(0), length).unwrap();
        let (copied, free) = (allocate().after(stream).unwrap(), allocate());
        copied.fill(Region::allocate(length)).unwrap();
        Self { _hardware: hardware, gate, copied, free }
    }

    fn end(&self) {
        self.gate.store(true, Ordering::SeqCst);
        self.copied.wait().unwrap();
    }
}

#[test]
fn what_came_while_there_was_no_pinned_memory_is_received_without_another_event() {
    let (busy, sent) = (Busy::new(100_000), frame(&[noise(100_000)], 0));
    let mut from = Pieces([[&sent.header[..], &noise(100_000)[..100]].concat()].into());
    let mut inbox = Inbox::new(LIMITS);
    let places = vec![Place::Onto(busy.free.clone())];
    let places = inbox.header(&mut from, &mut |_, _| Ok(places.clone())).unwrap().unwrap();
    inbox.expect_body(places).unwrap();
    assert!(inbox.body(&mut from).unwrap().is_none() && inbox.is_landing());
    // The only event of what has come meanwhile.
    from.0.push_back(noise(100_000)[100..].to_vec());
    assert!(inbox.body(&mut from).unwrap().is_none() && inbox.is_landing());
    busy.end();
    assert!(inbox.body(&mut from).unwrap().is_some(), "nobody comes back to this link");
    assert_eq!(busy.free.to_host().unwrap().to_vec(), noise(100_000));
}

#[test]
fn what_came_while_tensors_were_copied_is_received_without_another_event() {
    let (busy, folder) = (Busy::new(100_000), tempfile::tempdir().unwrap());
    let transport = SharedMemory {
        limits: LIMITS,
        directory: folder.path().to_owned(),
        bytes: 8 << 20,
        allowance: Allowance::new(1 << 30),
        devices: Sharing::default(),
    };
    let (mut near, mut far, _door) = pair(&transport);
    let mut receive = || {
        let mut placer = |_: FrameHead, header: &Bytes| {
            let places = lengths(header).into_iter().map(|length| match length {
                100_000 => Place::Onto(busy.free.clone()),
                _ => Place::Anywhere(length),
            });
            Ok(places.collect())
        };
        far.flush().unwrap();
        let received = far.receive(&mut placer).unwrap();
        received.map(|tensors| tensors[0].len())
    };
    let mut send = |length: usize| {
        near.send(frame(&[noise(length)], 0));
        near.flush().unwrap();
        std::thread::sleep(Duration::from_millis(100));
    };
    receive();
    send(100_000);
    assert_eq!(receive(), None, "no pinned memory is left");
    send(7);
    // The only event of what came.
    assert_eq!(receive(), None);
    busy.end();
    assert_eq!((receive(), receive()), (Some(100_000), Some(7)), "nobody comes back to this link");
}

#[test]
fn a_lack_of_pinned_memory_ends_the_sharing_of_one_link() {
    let hardware = double::Hardware::new(2, 1 << 30);
    let sharing = Sharing::of(Some(hardware.process(&[0, 1], 1 << 20)));
    let devices = sharing.begin();
    assert_eq!(devices.count(), 2);
    devices.pause();
    assert_eq!((sharing.begin().count(), sharing.begin().count()), (0, 2));
    devices.give_up();
    assert_eq!((sharing.begin().count(), sharing.begin().count()), (0, 0));
}
