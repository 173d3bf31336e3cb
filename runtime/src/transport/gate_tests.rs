//! Turns and the gate on real connections, whose bytes a client writes by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use rondo_core::status::Status;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::frames::{PREFACE, frame};
use super::gate::{Gate, Passage, Way, crowded};
use super::grpc_running::Running;
use super::turns::end_turn;
use super::{BoxFuture, Call, ConnectionId, ServerConfig, Service};

/// Counts calls, and answers none.
#[derive(Default)]
struct Parking {
    begun: AtomicUsize,
    closed: AtomicUsize,
}

impl Parking {
    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

impl Service for Parking {
    fn closed(&self, _: ConnectionId) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }

    fn unary(&self, _: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

/// A client that makes so many short calls at once.
async fn client(server: &Running<Parking>, calls: u32) -> TcpStream {
    let mut first = vec![0x83, 0x86];
    for (name, value) in [(":path", "/test/Wait"), ("content-type", "application/grpc")] {
        first.push(0x40);
        for text in [name, value] {
            first.push(u8::try_from(text.len()).unwrap());
            first.extend(text.bytes());
        }
    }
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for number in 0..calls {
        let head = if number == 0 { &first[..] } else { &[0x83, 0x86, 0x80 | 63, 0x80 | 62] };
        bytes.extend(frame(1, 4, 2 * number + 1, head));
        bytes.extend(frame(0, 1, 2 * number + 1, &[0; 5]));
    }
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    stream
}

/// Waits until this is what is counted.
async fn until(what: impl Fn() -> usize, count: usize) {
    let waiting = async {
        while what() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(done.is_ok() && what() == count, "{} of {count}", what());
}

/// A gate whose places others have.
fn closed_gate() -> (Arc<Gate>, Vec<Way>) {
    let (gate, mut crowd) = crowded();
    let mut others: Vec<_> = (0..4).map(|_| Way::new(&gate, "10.0.0.1".parse().unwrap())).collect();
    for other in &mut others {
        assert_eq!(other.pass(&mut Context::from_waker(Waker::noop())), Passage::Place);
    }
    crowd.append(&mut others);
    (gate, crowd)
}

#[tokio::test]
async fn a_turn_of_a_real_connection_begins_few_calls() {
    let server = Running::<Parking>::start(ServerConfig::default());
    let _client = client(&server, 2000).await;
    let service = Arc::clone(&server.service);
    // A task has its turns between those of the connection.
    let watching = tokio::spawn(async move {
        let (mut begun, mut most, mut turns) = (0, 0, 0);
        while begun < 2000 {
            end_turn().await;
            let now = service.begun();
            most = most.max(now - begun);
            turns += usize::from(now > begun);
            begun = now;
        }
        (most, turns)
    });
    let (most, turns) = watching.await.unwrap();
    assert!(most <= 19 && turns >= 2000 / 19, "{most} calls in a turn, {turns} turns");
}

#[tokio::test]
async fn a_busy_connection_waits_at_the_gate_and_others_go_on() {
    let (gate, mut others) = closed_gate();
    let server = Running::<Parking>::start(ServerConfig { gate, ..ServerConfig::default() });
    let _busy = client(&server, 200).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = server.service.begun();
    assert!((1..=7).contains(&begun), "{begun}");
    let _quiet = client(&server, 1).await;
    until(|| server.service.begun(), begun + 1).await;
    others.pop();
    until(|| server.service.begun(), 201).await;
}

#[tokio::test]
async fn a_connection_that_waits_at_the_gate_ends_when_its_client_leaves() {
    let (gate, _others) = closed_gate();
    let server = Running::<Parking>::start(ServerConfig { gate, ..ServerConfig::default() });
    let busy = client(&server, 2000).await;
    // It looks more than once meanwhile.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(server.service.closed.load(Ordering::SeqCst), 0);
    drop(busy);
    until(|| server.service.closed.load(Ordering::SeqCst), 1).await;
}
