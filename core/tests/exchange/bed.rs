//! One worker or one server, and a test in place of all others.

use rondo_core::exchange::membership::{Member, Membership, Sizes, State};
use rondo_core::exchange::message::{
    Answer, Credits, Hello, Pull, Request, Tensor, ToServer, ToWorker, Welcome,
};
use rondo_core::exchange::server::{self, Answering, Partial, Server, Unit};
use rondo_core::exchange::worker::{self, Complete, Since, Worker};
use rondo_core::exchange::{
    Config, Handler, InstanceIndex, InstanceRank, Key, MembershipVersion, Refusal, RequestNumber,
    Role, ScalarType, ServerRank, Stamps, TensorInfo, UnitHandler, WorkerRank, check_server,
    check_worker,
};
use rondo_core::ids::{CallId, ConnectionId, Incarnation};
use rondo_core::time::{Duration, Time};

/// What a call for a batch was told.
pub(crate) type Batch = Option<Result<Vec<Unit<u32>>, Refusal>>;

/// The run that everybody is of in the beginning.
pub(crate) const RUN: Incarnation = Incarnation::new(70);

pub(crate) fn info(bytes: i64) -> TensorInfo {
    TensorInfo::new(ScalarType::Byte, &[bytes]).unwrap()
}

/// A tensor of 8 bytes.
pub(crate) fn tensor(key: u64, payload: u32) -> Tensor<u32> {
    Tensor { key: Key::new(key), info: info(8), payload }
}

pub(crate) fn number(number: u64) -> RequestNumber {
    RequestNumber::new(number)
}

/// All are up in their first run.
pub(crate) fn membership(version: u64, workers: u32, servers: u32) -> Membership {
    let member = |role: Role, rank: u32| Member {
        role,
        rank: InstanceRank::new(rank),
        incarnation: RUN,
        addresses: vec![format!("{role}{rank}:1").into()],
        host: "here".into(),
        state: State::Up,
    };
    let members = (0..servers).map(|rank| member(Role::Server, rank));
    let members = members.chain((0..workers).map(|rank| member(Role::Worker, rank)));
    let sizes = Sizes { workers, servers, group: 1 };
    Membership { version: MembershipVersion::new(version), sizes, members: members.collect() }
}

/// The same with one of them changed.
pub(crate) fn changed(
    mut membership: Membership,
    role: Role,
    rank: u32,
    run: u64,
    state: State,
) -> Membership {
    let of_it = |member: &&mut Member| (member.role, member.rank.get()) == (role, rank);
    let member = membership.members.iter_mut().find(of_it).unwrap();
    (member.incarnation, member.state) = (Incarnation::new(run), state);
    membership
}

/// The connection to, or from, the one of this rank.
pub(crate) fn connection(rank: u32) -> ConnectionId {
    ConnectionId::new(100 + u64::from(rank))
}

/// A worker.
pub(crate) struct WorkerBed {
    pub(crate) machine: Worker<u32>,
    pub(crate) now: Time,
    pub(crate) told: Vec<worker::Effect<u32>>,
    pub(crate) servers: u32,
    calls: u64,
}

impl WorkerBed {
    /// It knows its servers, and is connected to none.
    pub(crate) fn unconnected(config: Config, servers: u32) -> Self {
        let machine = Worker::start(config, InstanceRank::new(0), RUN).unwrap();
        let now = Time::from_millis(1_000);
        let mut bed = Self { machine, now, told: Vec::new(), servers, calls: 0 };
        bed.step(worker::Input::Membership(membership(1, 1, servers)));
        bed
    }

    /// All servers have welcomed it.
    pub(crate) fn new(config: Config, servers: u32) -> Self {
        let mut bed = Self::unconnected(config, servers);
        (0..servers).for_each(|server| bed.join(server, RUN.get(), 0));
        bed.told.clear();
        bed
    }

    pub(crate) fn step(&mut self, input: worker::Input<u32>) {
        self.machine.step(self.now, input, &mut self.told);
        check_worker(&self.machine).unwrap();
    }

    pub(crate) fn connected(&mut self, server: u32, run: u64) {
        let (incarnation, connection) = (Incarnation::new(run), connection(server));
        let server = ServerRank::new(server);
        self.step(worker::Input::Connected { server, incarnation, connection });
    }

    /// A server is connected, and has received so many requests.
    pub(crate) fn join(&mut self, server: u32, run: u64, received: u64) {
        self.connected(server, run);
        self.welcomes(server, run, received);
    }

    /// Server 0 is connected again, and has received so many requests.
    pub(crate) fn join_again(&mut self, received: u64) {
        self.welcomes(0, RUN.get(), received);
    }

    fn welcomes(&mut self, server: u32, run: u64, received: u64) {
        let credits = Credits { requests: 4, bytes: 100, per_key: 1 };
        let incarnation = Incarnation::new(run);
        let welcome = Welcome { incarnation, received: number(received), credits };
        self.hear(server, ToWorker::Welcome(welcome));
    }

    pub(crate) fn hear(&mut self, server: u32, message: ToWorker<u32>) {
        let (connection, received) = (connection(server), self.now);
        self.step(worker::Input::Message { connection, received, message });
    }

    pub(crate) fn break_off(&mut self, server: u32) {
        let (connection, why) = (connection(server), "reset".into());
        self.step(worker::Input::Disconnected { connection, why });
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        let end = self.now.after(Duration::from_millis(millis));
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            self.now = at;
            self.step(worker::Input::Tick);
        }
        self.now = end;
    }

    pub(crate) fn call(&mut self) -> CallId {
        self.calls += 1;
        CallId::new(self.calls)
    }

    /// Pushes and pulls tensors of these keys; what is pulled goes to 1000 and more.
    pub(crate) fn exchange(&mut self, pushes: &[u64], pulls: &[u64]) -> Result<Handler, Refusal> {
        let push = |key: &u64| tensor(*key, u32::try_from(*key).unwrap());
        let pull = |(to, key): (u32, &u64)| tensor(*key, to);
        let pushes = pushes.iter().map(push).collect();
        let pulls = (1000..).zip(pulls).map(pull).collect();
        self.exchange_tensors(pushes, pulls)
    }

    pub(crate) fn exchange_tensors(
        &mut self,
        pushes: Vec<Tensor<u32>>,
        pulls: Vec<Tensor<u32>>,
    ) -> Result<Handler, Refusal> {
        let call = self.call();
        self.step(worker::Input::Exchange { call, pushes, pulls, ignores_rest: false });
        let told = self.told.iter().find_map(|effect| match effect {
            worker::Effect::Started { call: of, result } if *of == call => Some(result.clone()),
            _ => None,
        });
        told.expect("it is told at once")
    }

    /// Waits, and says what is told at once.
    pub(crate) fn wait(
        &mut self,
        handler: u64,
        timeout_ms: Option<u64>,
        since: Since,
    ) -> (CallId, Option<Result<Complete, Refusal>>) {
        let (call, handler) = (self.call(), Handler::new(handler));
        let timeout = timeout_ms.map(Duration::from_millis);
        self.step(worker::Input::Wait { call, handler, timeout, since });
        (call, self.waited(call))
    }

    /// What a call was told, once.
    pub(crate) fn waited(&self, call: CallId) -> Option<Result<Complete, Refusal>> {
        let mut told = self.told.iter().filter_map(|effect| match effect {
            worker::Effect::Waited { call: of, result } if *of == call => Some(result.clone()),
            _ => None,
        });
        let first = told.next();
        assert_eq!(told.next(), None, "{call} is told once");
        first
    }

    /// What was said to a server since the last time.
    pub(crate) fn said(&mut self, server: u32) -> Vec<ToServer<u32>> {
        let mut said = Vec::new();
        self.told.retain(|effect| match effect {
            worker::Effect::Send { connection: to, message } if *to == connection(server) => {
                said.push(message.clone());
                false
            }
            _ => true,
        });
        said
    }

    /// Numbers of the requests sent to a server since the last time.
    pub(crate) fn requests(&mut self, server: u32) -> Vec<u64> {
        let requests = self.said(server).into_iter().filter_map(|message| match message {
            ToServer::Request(request) => Some(request.number.get()),
            _ => None,
        });
        requests.collect()
    }

    /// A server answers with these tensors.
    pub(crate) fn answer(&mut self, server: u32, of: u64, tensors: Vec<Tensor<u32>>) {
        let stamps = Stamps::new([1, 2, 30, 31, 40, 41, 0, 0]);
        self.hear(server, ToWorker::Answer(Answer { number: number(of), tensors, stamps }));
    }

    pub(crate) fn pushed(&mut self, server: u32, of: u64) {
        let stamps = Stamps::new([1, 2, 20, 21, 22, 23, 0, 0]);
        self.hear(server, ToWorker::Pushed { number: number(of), stamps });
    }

    /// What was filled: from which source to which destination.
    pub(crate) fn filled(&self) -> Vec<(u32, u32)> {
        let fills = self.told.iter().filter_map(|effect| match effect {
            worker::Effect::Fill { destination, source } => Some((*source, *destination)),
            _ => None,
        });
        fills.collect()
    }
}

/// A server.
pub(crate) struct ServerBed {
    pub(crate) machine: Server<u32>,
    pub(crate) now: Time,
    pub(crate) told: Vec<server::Effect<u32>>,
    /// Greetings so far.
    pub(crate) attempts: u64,
    calls: u64,
}

impl ServerBed {
    /// All workers have introduced themselves.
    pub(crate) fn new(config: Config, workers: u32) -> Self {
        let machine = Server::start(config, InstanceRank::new(0), RUN).unwrap();
        let now = Time::from_millis(1_000);
        let mut bed = Self { machine, now, told: Vec::new(), attempts: 0, calls: 0 };
        bed.step(server::Input::Membership(membership(1, workers, 1)));
        (0..workers).for_each(|worker| bed.join(worker, RUN.get(), &[]));
        bed.told.clear();
        bed
    }

    pub(crate) fn step(&mut self, input: server::Input<u32>) {
        self.machine.step(self.now, input, &mut self.told);
        check_server(&self.machine).unwrap();
    }

    /// A worker introduces itself, and says which requests are open.
    pub(crate) fn join(&mut self, worker: u32, run: u64, open: &[u64]) {
        self.join_by(worker, worker, run, open);
    }

    /// The same by the connection of this number.
    pub(crate) fn join_by(&mut self, by: u32, worker: u32, run: u64, open: &[u64]) {
        self.attempts += 1;
        let hello = Hello {
            worker: WorkerRank::new(worker),
            index: InstanceIndex::new(0),
            incarnation: Incarnation::new(run),
            version: MembershipVersion::new(1),
            server: RUN,
            attempt: self.attempts,
            open: open.iter().copied().map(number).collect(),
        };
        self.hear(by, ToServer::Hello(hello));
    }

    pub(crate) fn hear(&mut self, worker: u32, message: ToServer<u32>) {
        let (connection, received) = (connection(worker), self.now);
        self.step(server::Input::Message { connection, received, message });
    }

    pub(crate) fn break_off(&mut self, worker: u32) {
        let (connection, why) = (connection(worker), "reset".into());
        self.step(server::Input::Disconnected { connection, why });
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        let end = self.now.after(Duration::from_millis(millis));
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            self.now = at;
            self.step(server::Input::Tick);
        }
        self.now = end;
    }

    pub(crate) fn call(&mut self) -> CallId {
        self.calls += 1;
        CallId::new(self.calls)
    }

    /// A request of these keys arrives; tensors are what their keys say.
    pub(crate) fn request(&mut self, worker: u32, of: u64, pushes: &[u64], pulls: usize) {
        self.arrives(worker, request(of, pushes, pulls));
    }

    /// A request arrives as its beginning was announced.
    pub(crate) fn arrives(&mut self, worker: u32, request: Request<u32>) {
        match self.machine.land(connection(worker), &request) {
            server::Landing::At(places) => {
                assert_eq!(places.len(), request.pushes.len());
                self.hear(worker, ToServer::Request(request));
            }
            server::Landing::Nowhere(refusal) => {
                let (connection, acknowledged) = (connection(worker), request.acknowledged);
                let number = request.number;
                let input = server::Input::NotTaken { connection, number, acknowledged, refusal };
                self.step(input);
            }
        }
    }

    /// Wants a batch, and says what is told at once.
    pub(crate) fn get_batch(
        &mut self,
        partial: Partial,
        timeout_ms: Option<u64>,
    ) -> (CallId, Batch) {
        let call = self.call();
        let timeout = timeout_ms.map(Duration::from_millis);
        self.step(server::Input::GetBatch { call, timeout, partial });
        (call, self.batch(call))
    }

    /// What a call for a batch was told, once.
    pub(crate) fn batch(&self, call: CallId) -> Batch {
        let mut told = self.told.iter().filter_map(|effect| match effect {
            server::Effect::Batch { call: of, result } if *of == call => Some(result.clone()),
            _ => None,
        });
        let first = told.next();
        assert_eq!(told.next(), None, "{call} is told once");
        first
    }

    /// Units of whoever has sent one.
    pub(crate) fn take(&mut self) -> Vec<Unit<u32>> {
        let (_, told) = self.get_batch(Partial::AtDeadline, Some(0));
        told.expect("it is told at once").unwrap()
    }

    /// Answers a unit with tensors of these sizes.
    pub(crate) fn respond(&mut self, unit: u64, bytes: &[i64]) -> Result<(), Refusal> {
        let tensors = (500..).zip(bytes).map(|(payload, bytes)| (info(*bytes), payload)).collect();
        self.respond_all(vec![Answering { unit: UnitHandler::new(unit), tensors }])
    }

    pub(crate) fn respond_all(&mut self, answers: Vec<Answering<u32>>) -> Result<(), Refusal> {
        let call = self.call();
        self.step(server::Input::Respond { call, answers });
        self.done(call)
    }

    pub(crate) fn release(&mut self, unit: u64) -> Result<(), Refusal> {
        let (call, unit) = (self.call(), UnitHandler::new(unit));
        self.step(server::Input::Release { call, unit });
        self.done(call)
    }

    /// Registers slots of a buffer, each for a worker and a key.
    pub(crate) fn register(&mut self, bytes: u64, slots: &[(u32, u64)]) -> Result<(), Refusal> {
        let (call, buffer) = (self.call(), 900);
        let workers = slots.iter().map(|(worker, _)| WorkerRank::new(*worker)).collect();
        let keys = slots.iter().map(|(_, key)| Key::new(*key)).collect();
        self.step(server::Input::RegisterBuffer { call, buffer, bytes, workers, keys });
        self.done(call)
    }

    fn done(&self, call: CallId) -> Result<(), Refusal> {
        let told = self.told.iter().find_map(|effect| match effect {
            server::Effect::Done { call: of, result } if *of == call => Some(result.clone()),
            _ => None,
        });
        told.expect("it is told at once")
    }

    /// What was said to a worker since the last time.
    pub(crate) fn said(&mut self, worker: u32) -> Vec<ToWorker<u32>> {
        let mut said = Vec::new();
        self.told.retain(|effect| match effect {
            server::Effect::Send { connection: to, message } if *to == connection(worker) => {
                said.push(message.clone());
                false
            }
            _ => true,
        });
        said
    }
}

pub(crate) fn request(of: u64, pushes: &[u64], pulls: usize) -> Request<u32> {
    let push = |key: &u64| tensor(*key, u32::try_from(*key).unwrap());
    Request {
        number: number(of),
        acknowledged: Vec::new(),
        pushes: pushes.iter().map(push).collect(),
        pulls: vec![Pull { key: Key::new(7), info: info(8) }; pulls],
        stamps: Stamps::default(),
    }
}
