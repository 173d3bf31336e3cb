//! Each invariant against a worker or a server in which only it was broken.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::{check_server, check_worker};
use crate::exchange::membership::{Member, Membership, Sizes, State};
use crate::exchange::message::{
    Credits, Hello, Pull, Request, Tensor, ToServer, ToWorker, Welcome,
};
use crate::exchange::server::{self, Partial, Server};
use crate::exchange::worker::{self, Link, Part, Since, Worker};
use crate::exchange::{
    Config, Handler, InstanceIndex, InstanceRank, Key, MembershipVersion, RequestNumber, Role,
    ScalarType, ServerRank, Stamps, TensorInfo, UnitHandler, WorkerRank,
};
use crate::ids::{CallId, ConnectionId, Incarnation};
use crate::time::{Duration, Time};

const NOW: Time = Time::from_millis(1_000);
const HERE: ConnectionId = ConnectionId::new(50);
/// Connected, and lost.
const READY: ServerRank = ServerRank::new(0);
const AWAY: ServerRank = ServerRank::new(1);
/// A request that was sent to one server and is being answered, one that waits, and a call that waits.
const SENT: Handler = Handler::new(0);
const WAITS: Handler = Handler::new(2);
const CALL: CallId = CallId::new(9);

fn membership(workers: u32, servers: u32) -> Membership {
    let member = |role, rank| Member {
        role,
        rank: InstanceRank::new(rank),
        incarnation: Incarnation::new(7),
        addresses: Vec::new(),
        host: Arc::from("here"),
        state: State::Up,
    };
    let members = (0..servers).map(|rank| member(Role::Server, rank));
    let members = members.chain((0..workers).map(|rank| member(Role::Worker, rank)));
    let sizes = Sizes { workers, servers, group: 1 };
    Membership { version: MembershipVersion::new(1), sizes, members: members.collect() }
}

fn tensor(key: u64, payload: u8) -> Tensor<u8> {
    let info = TensorInfo::new(ScalarType::Byte, &[5]).unwrap();
    Tensor { key: Key::new(key), info, payload }
}

/// A worker of two servers, one of which it cannot reach.
fn worker() -> Worker<u8> {
    let config = Config { key_credits: 1, ..Config::default() };
    let mut it = Worker::start(config, InstanceRank::new(0), Incarnation::new(7)).unwrap();
    let mut step = |input| it.step(NOW, input, &mut Vec::new());
    let incarnation = Incarnation::new(7);
    step(worker::Input::Membership(membership(1, 2)));
    step(worker::Input::Connected { server: READY, incarnation, connection: HERE });
    let credits = Credits { requests: 4, bytes: 1_000, per_key: 1 };
    let welcome = Welcome { incarnation, received: RequestNumber::new(0), credits };
    let message = ToWorker::Welcome(welcome);
    step(worker::Input::Message { connection: HERE, received: NOW, message });
    step(worker::Input::NotConnected { server: AWAY, incarnation, why: "away".into() });
    for call in [1, 2] {
        let (pushes, pulls) = (vec![tensor(1, 1)], vec![tensor(2, 2), tensor(2, 3)]);
        let call = CallId::new(call);
        step(worker::Input::Exchange { call, pushes, pulls, ignores_rest: false });
    }
    let (timeout, since) = (Some(Duration::from_secs(9)), Since::Call);
    step(worker::Input::Wait { call: CALL, handler: SENT, timeout, since });
    let landing = it.land(HERE, RequestNumber::new(1), &[tensor(2, 0)]);
    assert_eq!(landing, worker::Landing::At(vec![2]));
    assert_eq!(check_worker(&it), Ok(()));
    it
}

#[track_caller]
fn assert_worker(number: &str, plant: impl FnOnce(&mut Worker<u8>)) {
    let mut worker = worker();
    plant(&mut worker);
    let violation = check_worker(&worker).unwrap_err();
    assert_eq!(violation.number, number, "{violation}");
}

#[test]
fn x1_sees_calls_that_nobody_answers() {
    assert_worker("X1", |it| it.batches.get_mut(&SENT).unwrap().calls.clear());
    assert_worker("X1", |it| it.batches.get_mut(&WAITS).unwrap().calls.push(CALL));
    assert_worker("X1", |it| it.dues.retain(|(_, due)| !matches!(due, worker::Due::Call(_))));
    assert_worker("X1", |it| {
        it.landings.clear();
        let batch = it.batches.get_mut(&SENT).unwrap();
        (batch.missing, batch.landings) = (0, 0);
    });
}

#[test]
fn x2_sees_wrong_sums_and_too_much() {
    assert_worker("X2", |it| it.peers.get_mut(&READY).unwrap().bytes = 0);
    assert_worker("X2", |it| it.peers.get_mut(&READY).unwrap().keys.clear());
    assert_worker("X2", |it| it.peers.get_mut(&READY).unwrap().credits.requests = 0);
    assert_worker("X2", |it| it.peers.get_mut(&READY).unwrap().credits.per_key = 0);
    assert_worker("X2", |it| it.peers.get_mut(&READY).unwrap().last = RequestNumber::new(0));
}

#[test]
fn x3_sees_requests_that_are_nowhere_or_in_two_places() {
    assert_worker("X3", |it| it.peers.get_mut(&AWAY).unwrap().queue.clear());
    assert_worker("X3", |it| {
        it.peers.get_mut(&READY).unwrap().queue.insert(SENT);
    });
    assert_worker("X3", |it| {
        it.peers.get_mut(&AWAY).unwrap().queue.insert(Handler::new(99));
    });
    assert_worker("X3", |it| {
        let open = it.peers.get_mut(&READY).unwrap().open.values_mut();
        open.for_each(|open| open.is_over = true);
    });
}

#[test]
fn x4_sees_parts_that_are_not_counted() {
    assert_worker("X4", |it| it.batches.get_mut(&WAITS).unwrap().missing = 1);
    assert_worker("X4", |it| it.batches.get_mut(&SENT).unwrap().landings = 0);
    assert_worker("X4", |it| {
        let (connection, written) = it.landings.pop_first().unwrap();
        it.landings.insert(ConnectionId::new(connection.get() + 1), written);
    });
}

#[test]
fn x5_sees_too_many_and_handlers_of_two() {
    assert_worker("X5", |it| it.config.handlers_max = 1);
    assert_worker("X5", |it| it.config.calls_max = 0);
    assert_worker("X5", |it| it.batches.get_mut(&SENT).unwrap().trace.handlers = 3);
    assert_worker("X5", |it| it.next = WAITS);
}

#[test]
fn x6_sees_servers_that_nobody_tries() {
    assert_worker("X6", |it| it.peers.get_mut(&AWAY).unwrap().link = Link::Idle);
    assert_worker("X6", |it| it.dues.retain(|(_, due)| !matches!(due, worker::Due::Retry(_))));
    assert_worker("X6", |it| it.dues.retain(|(_, due)| !matches!(due, worker::Due::Grace(_))));
    assert_worker("X6", |it| it.peers.get_mut(&READY).unwrap().down = Some(NOW));
}

/// The tests above plant in what is there: it is.
#[test]
fn all_that_a_worker_can_have_in_hand_it_has() {
    let it = worker();
    assert_eq!((it.batches.len(), it.calls.len(), it.landings.len()), (2, 1, 1));
    let of = |server| &it.peers[&server];
    assert_eq!((of(READY).open.len(), of(READY).queue.len(), of(AWAY).queue.len()), (1, 1, 2));
    assert!(matches!(it.batches[&SENT].parts[..], [Part::Sent { .. }, Part::Queued]));
}

const FIRST: WorkerRank = WorkerRank::new(0);
const SECOND: WorkerRank = WorkerRank::new(1);
const LOST: WorkerRank = WorkerRank::new(2);
const OTHER: ConnectionId = ConnectionId::new(51);

fn request(number: u64, keys: &[u64], pulls: usize) -> Request<u8> {
    let pull = Pull { key: Key::new(9), info: tensor(9, 0).info };
    Request {
        number: RequestNumber::new(number),
        acknowledged: Vec::new(),
        pushes: keys.iter().map(|key| tensor(*key, 1)).collect(),
        pulls: vec![pull; pulls],
        stamps: Stamps::default(),
    }
}

/// A server of three workers: one has units given out that owe an answer and owe none, and one that
/// waits; one has nothing; one is lost, and a unit of it was given out.
fn server() -> Server<u8> {
    let config = Config { batch_fails_on_loss: false, ..Config::default() };
    let mut it = Server::start(config, InstanceRank::new(0), Incarnation::new(7)).unwrap();
    let hello = |worker| Hello {
        worker,
        index: InstanceIndex::new(0),
        incarnation: Incarnation::new(7),
        version: MembershipVersion::new(1),
        server: Incarnation::new(7),
        attempt: 1,
        open: Vec::new(),
    };
    let mut step = |input| it.step(NOW, input, &mut Vec::new());
    let say = |connection, message| server::Input::Message { connection, received: NOW, message };
    let at_once = |call| server::Input::GetBatch {
        call: CallId::new(call),
        timeout: Some(Duration::ZERO),
        partial: Partial::AtDeadline,
    };
    step(server::Input::Membership(membership(3, 1)));
    for (connection, worker) in [(HERE, FIRST), (OTHER, LOST)] {
        step(say(connection, ToServer::Hello(hello(worker))));
        step(server::Input::RegisterBuffer {
            call: CallId::new(1),
            buffer: 0,
            bytes: 20,
            workers: vec![worker; 2],
            keys: vec![Key::new(1), Key::new(2)],
        });
    }
    for (connection, number, keys, pulls) in
        [(HERE, 1, &[1][..], 1), (OTHER, 1, &[1], 1), (HERE, 2, &[3, 4], 0), (HERE, 3, &[2], 1)]
    {
        let request = request(number, keys, pulls);
        let landing = it.land(connection, &request);
        assert!(matches!(landing, server::Landing::At(_)));
        let message = ToServer::Request(request);
        let mut step = |input| it.step(NOW, input, &mut Vec::new());
        step(say(connection, message));
        if number < 3 {
            step(at_once(number));
        }
    }
    let mut gone = membership(3, 1);
    gone.version = MembershipVersion::new(2);
    gone.members.last_mut().unwrap().state = State::Lost;
    let mut step = |input| it.step(NOW, input, &mut Vec::new());
    step(server::Input::Membership(gone));
    let (call, timeout) = (CALL, Some(Duration::from_secs(9)));
    step(server::Input::GetBatch { call, timeout, partial: Partial::Never });
    assert_eq!(check_server(&it), Ok(()));
    it
}

#[track_caller]
fn assert_server(number: &str, plant: impl FnOnce(&mut Server<u8>)) {
    let mut server = server();
    plant(&mut server);
    let violation = check_server(&server).unwrap_err();
    assert_eq!(violation.number, number, "{violation}");
}

#[test]
fn x7_sees_units_of_no_request_and_of_two() {
    assert_server("X7", |it| it.units.clear());
    assert_server("X7", |it| {
        it.units.insert(UnitHandler::new(1), (FIRST, RequestNumber::new(9)));
    });
    assert_server("X7", |it| it.next = UnitHandler::new(0));
    assert_server("X7", |it| {
        it.unowing.insert(UnitHandler::new(0));
    });
    assert_server("X7", |it| {
        it.excused.insert(UnitHandler::new(0));
    });
    assert_server("X7", |it| {
        it.excused.insert(it.next);
    });
}

#[test]
fn x8_sees_queues_that_are_not_of_what_waits() {
    assert_server("X8", |it| it.peers.get_mut(&FIRST).unwrap().queue.clear());
    assert_server("X8", |it| {
        it.ready.insert(SECOND);
    });
    assert_server("X8", |it| {
        it.up.remove(&FIRST);
    });
}

#[test]
fn x9_sees_wrong_sums_and_too_much() {
    assert_server("X9", |it| it.peers.get_mut(&FIRST).unwrap().bytes = 1);
    assert_server("X9", |it| it.peers.get_mut(&FIRST).unwrap().keys.clear());
    assert_server("X9", |it| it.config.key_credits = 0);
    assert_server("X9", |it| {
        it.peers.get_mut(&FIRST).unwrap().received = RequestNumber::new(1);
    });
}

#[test]
fn x10_sees_slots_that_are_free_and_read_or_read_twice() {
    assert_server("X10", |it| it.slots.values_mut().for_each(|slot| slot.is_taken = false));
    assert_server("X10", |it| {
        it.orphans.values_mut().for_each(|orphan| orphan.worker = FIRST);
    });
    assert_server("X10", |it| {
        let records = it.peers.get_mut(&FIRST).unwrap().records.values_mut();
        records.for_each(|record| record.slots = vec![Key::new(1)]);
    });
}

#[test]
fn x11_sees_calls_that_wait_in_vain() {
    assert_server("X11", |it| {
        it.parked[0].partial = Partial::UpMembersOnly;
        it.up.remove(&SECOND);
    });
    assert_server("X11", |it| it.dues.clear());
    assert_server("X11", |it| it.config.calls_max = 0);
}

#[test]
fn x12_sees_what_a_lost_worker_still_has() {
    assert_server("X12", |it| {
        it.up.insert(LOST);
    });
    assert_server("X12", |it| it.peers.get_mut(&FIRST).unwrap().connection = Some(OTHER));
    assert_server("X12", |it| {
        it.connections.insert(OTHER, SECOND);
    });
}
