//! The exchange of a process: tensors pushed to servers and pulled from them, by the calls that StepMesh
//! has, and some beside them.
//!
//! Calls block the thread that makes them, which reads the links itself while it waits: use them from
//! threads, not from tasks.

mod engine;
mod error;
mod link;
mod links;
mod process;
mod scheduler;
mod server_side;
mod settings;
mod speech;
mod worker_side;

use std::sync::Arc;
use std::time::Duration;

use rondo_core::exchange::member::{Ask, Reply};
use rondo_core::exchange::membership::Membership;
use rondo_core::exchange::message::Scope;
use rondo_core::exchange::server::{self, Answering, Partial, RowsOf, Unit};
use rondo_core::exchange::worker::{self, Complete, Since};
use rondo_core::exchange::{
    Handler, InstanceRank, Key, Mask, MembershipVersion, Offset, Refusal, Role, ServerRank, Stamps,
    TensorInfo, UnitHandler, WorkerRank,
};
use rondo_core::ids::CallId;
use rondo_core::status::{Code, Status};
use rondo_core::time::{self, Time};

pub use self::engine::Interrupted;
pub use self::error::Error;
pub use self::link::{Frame, Link, Listener, Place, Placer, SharedMemory, Tcp, Transport, Unix};
pub use self::scheduler::Scheduler;
pub use self::settings::{Settings, Ways};

use self::engine::Engine;
use self::links::Links;
use self::process::{Process, Side};
use self::server_side::ServerSide;
use self::worker_side::WorkerSide;
use crate::clock::Clock;
use crate::tensor::Region;

/// A tensor under its key, and its memory.
pub type Tensor = rondo_core::exchange::message::Tensor<Region>;

/// Asked now and then by a call that waits: whether it waits on.
pub type GoesOn<'a> = &'a mut dyn FnMut() -> bool;

/// A worker or server of an exchange. Dropping it breaks its connections, and others find it lost;
/// [`Exchange::stop`] leaves in order.
pub struct Exchange {
    engine: Engine<Process>,
    rank: InstanceRank,
    settings: Settings,
    /// Sockets of this process.
    _folder: tempfile::TempDir,
}

impl Exchange {
    /// Takes part: returns when all processes have come.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for settings that do not fit together or contradict those of others, UNAVAILABLE
    /// if this process cannot listen, DEADLINE_EXCEEDED if not all come in time, CANCELLED.
    pub fn start(settings: Settings, goes_on: GoesOn<'_>) -> Result<Self, Error> {
        let (engine, folder) = settings.start()?;
        let timeout = settings.join_timeout.map(span);
        let call =
            engine.with(|process, links, now| process.ask(now, Ask::Join { timeout }, links));
        let reply = engine.wait(|process| process.replies.remove(&call), goes_on);
        match reply.map_err(|_| interrupted())?? {
            Reply::Joined { rank, .. } => Ok(Self { engine, rank, settings, _folder: folder }),
            other => {
                let text = format!("joining was answered with {other:?}: this is a bug in Rondo");
                Err(Status::new(Code::Internal, text).into())
            }
        }
    }

    /// Its rank among those of its role.
    pub const fn rank(&self) -> InstanceRank {
        self.rank
    }

    /// Its role.
    pub const fn role(&self) -> Role {
        self.settings.role
    }

    /// Nanoseconds of this process' clock, which the stamps of traces count too.
    pub fn nanos(&self) -> u64 {
        self.engine.clock().now().as_nanos()
    }

    /// Who takes part, as far as is known here.
    pub fn membership(&self) -> Option<Arc<Membership>> {
        self.engine.with(|process, _, _| process.member().membership().cloned())
    }

    /// Waits until who takes part is not `after` any more; `None` for as long as it takes.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED, CANCELLED, and why this process takes part no more.
    pub fn changed(
        &self,
        after: MembershipVersion,
        timeout: Option<Duration>,
        goes_on: GoesOn<'_>,
    ) -> Result<Arc<Membership>, Error> {
        let ask = Ask::Changed { after, timeout: timeout.map(span) };
        match self.ask(ask, goes_on)? {
            Reply::Membership(membership) => Ok(membership),
            other => {
                let text = format!("it was answered with {other:?}: this is a bug in Rondo");
                Err(Status::new(Code::Internal, text).into())
            }
        }
    }

    /// Waits at a barrier for all of the mask; `None` for as long as it takes.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if this process is not of the mask, who of it is lost, DEADLINE_EXCEEDED,
    /// CANCELLED.
    pub fn barrier(
        &self,
        mask: Mask,
        scope: Scope,
        timeout: Option<Duration>,
        goes_on: GoesOn<'_>,
    ) -> Result<(), Error> {
        self.ask(Ask::Barrier { mask, scope, timeout: timeout.map(span) }, goes_on).map(drop)
    }

    /// Waits until everybody stops, and leaves.
    ///
    /// # Errors
    /// Who is lost, DEADLINE_EXCEEDED, CANCELLED; the process has left all the same.
    pub fn stop(self, timeout: Option<Duration>, goes_on: GoesOn<'_>) -> Result<(), Error> {
        let met = self.barrier(Mask::ALL, Scope::Instance, timeout, goes_on);
        self.engine.with(|process, links, now| process.stop(now, links));
        let left = self.ask(Ask::Leave, goes_on).map(drop);
        met.and(left)
    }

    fn ask(&self, ask: Ask, goes_on: GoesOn<'_>) -> Result<Reply, Error> {
        let call = self.engine.with(|process, links, now| process.ask(now, ask, links));
        match self.engine.wait(|process| process.replies.remove(&call), goes_on) {
            Ok(result) => Ok(result?),
            Err(Interrupted) => Err(self.give_up(call)),
        }
    }

    fn give_up(&self, call: CallId) -> Error {
        self.engine.with(|process, links, now| process.cancel(now, call, links));
        interrupted().into()
    }
}

/// What workers do.
impl Exchange {
    /// Pushes tensors to all servers, and pulls others from them: as many of each, those of server 0
    /// first. Their memory is to be let alone until the request is complete. Returns at once, with the
    /// first of the request's handlers.
    ///
    /// # Errors
    /// What is wrong with the tensors or keys, and RESOURCE_EXHAUSTED at a bound.
    pub fn exchange(&self, pushes: Vec<Tensor>, pulls: Vec<Tensor>) -> Result<Handler, Error> {
        self.begin(pushes, pulls, false)
    }

    /// As [`Exchange::exchange`], but pulls beyond a whole number for each server are ignored, as StepMesh
    /// does.
    ///
    /// # Errors
    /// As [`Exchange::exchange`].
    pub fn push_pull(&self, pushes: Vec<Tensor>, pulls: Vec<Tensor>) -> Result<Handler, Error> {
        self.begin(pushes, pulls, true)
    }

    fn begin(
        &self,
        pushes: Vec<Tensor>,
        pulls: Vec<Tensor>,
        ignores_rest: bool,
    ) -> Result<Handler, Error> {
        if let Some(fixed) =
            pulls.iter().find(|it| !it.payload.is_writable() && !it.payload.is_empty())
        {
            let text = format!("pull tensor under key {} cannot be written", fixed.key);
            return Err(Status::new(Code::InvalidArgument, text).into());
        }
        self.with_worker(|side, links, now, call| {
            let input = worker::Input::Exchange { call, pushes, pulls, ignores_rest };
            side.step(now, input, links);
            side.started.remove(&call)
        })?
        .unwrap_or(Err(Refusal::Stopped))
        .map_err(Error::from)
    }

    /// Waits until a request is complete; `None` for as long as it takes. Then it is known no more.
    ///
    /// # Errors
    /// NOT_FOUND for a handler that is none or was waited for, who is lost, DEADLINE_EXCEEDED (the
    /// request goes on), CANCELLED.
    pub fn wait(
        &self,
        handler: Handler,
        timeout: Option<Duration>,
        since: Since,
        goes_on: GoesOn<'_>,
    ) -> Result<Complete, Error> {
        let timeout = timeout.map(span);
        let call = self.with_worker(|side, links, now, call| {
            side.step(now, worker::Input::Wait { call, handler, timeout, since }, links);
            call
        })?;
        let waited = self.engine.wait(|process| process.worker()?.waited.remove(&call), goes_on);
        match waited {
            Ok(result) => Ok(result?),
            Err(Interrupted) => Err(self.give_up(call)),
        }
    }

    /// Nobody will wait for a request, and nothing more is written to where it pulls to once this returns.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if this is no worker.
    pub fn abandon(&self, handler: Handler) -> Result<(), Error> {
        self.with_worker(|side, links, now, _| {
            side.step(now, worker::Input::Abandon { handler }, links);
        })
    }

    /// All handlers of a request that nobody has waited for; of another one, it alone.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if this is no worker.
    pub fn get_all_handlers(&self, handler: Handler) -> Result<Vec<Handler>, Error> {
        self.with_worker(|side, _, _, _| side.machine.all_handlers(handler))
    }

    /// When a request and its answer passed where.
    ///
    /// # Errors
    /// NOT_FOUND for a handler that is none, or of which the trace is not kept any more.
    pub fn fetch_trace(&self, handler: Handler) -> Result<Stamps, Error> {
        Ok(self.with_worker(|side, _, _, _| side.machine.trace(handler))??)
    }

    /// How far the clock of a server is ahead of this process'.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if this is no worker.
    pub fn offset(&self, server: ServerRank) -> Result<Option<Offset>, Error> {
        self.with_worker(|side, _, _, _| side.machine.offset(server))
    }

    fn with_worker<R>(
        &self,
        ask: impl FnOnce(&mut WorkerSide, &mut Links, Time, CallId) -> R,
    ) -> Result<R, Error> {
        self.engine.with(|process, links, now| {
            let call = process.call();
            match &mut process.side {
                Side::Worker(side) => Ok(ask(side, links, now, call)),
                _ => Err(self.is_no(Role::Worker)),
            }
        })
    }

    fn is_no(&self, wanted: Role) -> Error {
        let role = self.settings.role;
        let text = format!("this process is a {role}; only a {wanted} can do that");
        Status::new(Code::FailedPrecondition, text).into()
    }
}

/// What servers do.
impl Exchange {
    /// Waits for one unit of each worker, and takes them, in the order of the workers' ranks.
    ///
    /// # Errors
    /// Who is lost, CANCELLED.
    pub fn get_batch(&self, goes_on: GoesOn<'_>) -> Result<Vec<Unit<Region>>, Error> {
        self.get_batch_within(None, Partial::Never, goes_on)
    }

    /// As [`Exchange::get_batch`], for so long at most (`None` for as long as it takes), and perhaps
    /// without some workers.
    ///
    /// # Errors
    /// As [`Exchange::get_batch`], and DEADLINE_EXCEEDED, naming the workers that have sent none.
    pub fn get_batch_within(
        &self,
        timeout: Option<Duration>,
        partial: Partial,
        goes_on: GoesOn<'_>,
    ) -> Result<Vec<Unit<Region>>, Error> {
        let timeout = timeout.map(span);
        let call = self.with_server(|side, links, now, call| {
            side.step(now, server::Input::GetBatch { call, timeout, partial }, links);
            call
        })?;
        let taken = self.engine.wait(|process| process.server()?.batches.remove(&call), goes_on);
        match taken {
            Ok(result) => Ok(result?),
            Err(Interrupted) => Err(self.give_up(call)),
        }
    }

    /// Answers a unit: one tensor for each that it pulls. Their memory is to be let alone until the worker
    /// has the answer: its next request of the same keys says so.
    ///
    /// # Errors
    /// What is wrong with the tensors, NOT_FOUND for a unit that is none, FAILED_PRECONDITION for one that
    /// was answered before, and if its worker is lost.
    pub fn respond(
        &self,
        unit: UnitHandler,
        tensors: Vec<(TensorInfo, Region)>,
    ) -> Result<(), Error> {
        self.respond_all(vec![Answering { unit, tensors }])
    }

    /// Answers several units: all, or none if anything is wrong.
    ///
    /// # Errors
    /// As [`Exchange::respond`].
    pub fn respond_all(&self, answers: Vec<Answering<Region>>) -> Result<(), Error> {
        self.done(|call| server::Input::Respond { call, answers })
    }

    /// Answers each unit with rows of one buffer. StepMesh's `respond_vec` takes those from row 0 on for
    /// each of them.
    ///
    /// # Errors
    /// As [`Exchange::respond`], and if the buffer has not so many rows.
    pub fn respond_rows(
        &self,
        (info, buffer): (TensorInfo, Region),
        of: &[RowsOf],
    ) -> Result<(), Error> {
        let ranges = self.with_server(|side, _, _, _| side.machine.rows(&info, of))??;
        let mut answers = Vec::with_capacity(of.len());
        for (rows, (info, range)) in of.iter().zip(ranges) {
            let offset = usize::try_from(range.start).unwrap_or(usize::MAX);
            let part = buffer.part(offset, speech::length(&info)).ok_or_else(|| {
                let text = format!("bytes {range:?} are not in {buffer:?}");
                Status::new(Code::OutOfRange, text)
            })?;
            answers.push(Answering { unit: rows.unit, tensors: vec![(info, part)] });
        }
        self.respond_all(answers)
    }

    /// What a unit pushed is not read any more, though it is not answered yet: its keys may be pushed
    /// again.
    ///
    /// # Errors
    /// NOT_FOUND for a unit that is none.
    pub fn release(&self, unit: UnitHandler) -> Result<(), Error> {
        self.done(|call| server::Input::Release { call, unit })
    }

    /// Has pushes land in this memory: cut into as many equal slots as workers and keys are named.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it cannot be cut so or be written, FAILED_PRECONDITION for a slot in use.
    pub fn register_recv_buffer(
        &self,
        buffer: Region,
        workers: Vec<WorkerRank>,
        keys: Vec<Key>,
    ) -> Result<(), Error> {
        if !buffer.is_writable() {
            let text = format!("{buffer:?} cannot be a receive buffer");
            return Err(Status::new(Code::InvalidArgument, text).into());
        }
        let bytes = buffer.len() as u64;
        self.done(|call| server::Input::RegisterBuffer { call, buffer, bytes, workers, keys })
    }

    fn done(&self, input: impl FnOnce(CallId) -> server::Input<Region>) -> Result<(), Error> {
        let done = self.with_server(|side, links, now, call| {
            side.step(now, input(call), links);
            side.done.remove(&call)
        })?;
        Ok(done.unwrap_or(Err(Refusal::Stopped))?)
    }

    fn with_server<R>(
        &self,
        ask: impl FnOnce(&mut ServerSide, &mut Links, Time, CallId) -> R,
    ) -> Result<R, Error> {
        self.engine.with(|process, links, now| {
            let call = process.call();
            match &mut process.side {
                Side::Server(side) => Ok(ask(side, links, now, call)),
                _ => Err(self.is_no(Role::Server)),
            }
        })
    }
}

/// The core's word for a span of time.
fn span(span: Duration) -> time::Duration {
    time::Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// Who waited was told to stop.
fn interrupted() -> Status {
    Status::new(Code::Cancelled, "who waited was interrupted")
}

/// Begins to see to the links of a process.
fn engine(
    settings: &Settings,
    transports: Vec<Arc<dyn Transport>>,
    clock: Clock,
    process: impl FnOnce(&mut Links) -> std::io::Result<Process>,
) -> Result<Engine<Process>, Error> {
    let links_max = usize::try_from(settings.config.processes_max).unwrap_or(usize::MAX);
    let started = Engine::start(transports, links_max, clock, settings.spin, process);
    started.map_err(|error| {
        let (host, port) = (&settings.host, settings.port);
        let text = format!("cannot listen on {host}:{port}: {error}");
        Status::new(Code::Unavailable, text).into()
    })
}
