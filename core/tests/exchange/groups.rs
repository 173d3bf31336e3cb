//! Groups of several processes: who talks to whom.

use rondo_core::exchange::membership::{Member, Membership, Sizes, State};
use rondo_core::exchange::message::{Hello, ToServer, ToWorker};
use rondo_core::exchange::server::{self, Server};
use rondo_core::exchange::worker::{self, Worker};
use rondo_core::exchange::{
    Config, InstanceIndex, InstanceRank, MembershipVersion, Role, ServerRank, WorkerRank,
};
use rondo_core::ids::Incarnation;
use rondo_core::status::Code;
use rondo_core::time::Time;

use crate::bed::{RUN, connection};

/// Two groups of workers and two of servers, of two processes each.
fn membership() -> Membership {
    let member = |role: Role, rank: u32| Member {
        role,
        rank: InstanceRank::new(rank),
        incarnation: Incarnation::new(u64::from(rank) + 70),
        addresses: vec![format!("{role}{rank}:1").into()],
        host: "here".into(),
        state: State::Up,
    };
    let members = (0..4).map(|rank| member(Role::Server, rank));
    let members = members.chain((0..4).map(|rank| member(Role::Worker, rank)));
    let sizes = Sizes { workers: 2, servers: 2, group: 2 };
    Membership { version: MembershipVersion::new(1), sizes, members: members.collect() }
}

#[test]
fn a_worker_talks_to_the_process_of_its_index_in_each_group_of_servers() {
    let run = Incarnation::new(73);
    let mut machine: Worker<u32> =
        Worker::start(Config::default(), InstanceRank::new(3), run).unwrap();
    let mut told = Vec::new();
    machine.step(Time::ZERO, worker::Input::Membership(membership()), &mut told);
    let connects = told.drain(..).map(|effect| match effect {
        worker::Effect::Connect { server, addresses, .. } => {
            (server.get(), addresses[0].to_string())
        }
        other => panic!("{other:?}"),
    });
    let expected = [(0, "server1:1".to_owned()), (1, "server3:1".to_owned())];
    assert_eq!(connects.collect::<Vec<_>>(), expected);
    let (server, incarnation) = (ServerRank::new(1), Incarnation::new(73));
    let input = worker::Input::Connected { server, incarnation, connection: connection(1) };
    machine.step(Time::ZERO, input, &mut told);
    let hello = Hello {
        worker: WorkerRank::new(1),
        index: InstanceIndex::new(1),
        incarnation: run,
        version: MembershipVersion::new(1),
        server: incarnation,
        attempt: 1,
        open: Vec::new(),
    };
    let message = ToServer::Hello(hello);
    assert_eq!(told, [worker::Effect::Send { connection: connection(1), message }]);
}

#[test]
fn a_server_serves_the_workers_of_its_index_by_the_rank_of_their_group() {
    let mut machine: Server<u32> =
        Server::start(Config::default(), InstanceRank::new(1), Incarnation::new(71)).unwrap();
    let mut told = Vec::new();
    machine.step(Time::ZERO, server::Input::Membership(membership()), &mut told);
    let mut greeted = 0;
    let mut greet = |worker: u32, index: u32, run: u64| {
        greeted += 1;
        let hello = Hello {
            worker: WorkerRank::new(worker),
            index: InstanceIndex::new(index),
            incarnation: Incarnation::new(run),
            version: MembershipVersion::new(1),
            server: Incarnation::new(71),
            attempt: 1,
            open: Vec::new(),
        };
        let (connection, received) = (connection(greeted), Time::ZERO);
        let message = ToServer::Hello(hello);
        let mut told = Vec::new();
        let input = server::Input::Message { connection, received, message };
        machine.step(Time::ZERO, input, &mut told);
        match told.into_iter().find_map(|effect| match effect {
            server::Effect::Send { message, .. } => Some(message),
            _ => None,
        }) {
            Some(ToWorker::Rejected(status)) => Err(status.code),
            Some(ToWorker::Welcome(welcome)) => Ok(welcome.incarnation),
            other => panic!("{other:?}"),
        }
    };
    let here = Incarnation::new(71);
    assert_eq!((greet(0, 1, 71), greet(1, 1, 73)), (Ok(here), Ok(here)));
    assert_eq!(greet(1, 0, 72), Err(Code::InvalidArgument), "of another index");
    assert_eq!(greet(2, 1, 75), Err(Code::InvalidArgument), "of another group than there are");
    assert_eq!(greet(1, 1, RUN.get()), Err(Code::Unavailable), "of another run");
}
