//! The exchange of a process: tensors pushed to servers and pulled from them, by the calls that StepMesh
//! has, and some beside them.
//!
//! Calls block the thread that makes them, which reads the links itself while it waits: use them from
//! threads, not from tasks.

mod closing;
mod device;
mod engine;
mod error;
mod folder;
mod link;
mod links;
mod of_process;
mod process;
mod recording;
mod scheduler;
mod server_calls;
mod server_side;
mod settings;
mod speech;
mod worker_calls;
mod worker_side;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rondo_core::exchange::member::{Ask, Reply};
use rondo_core::exchange::membership::Membership;
use rondo_core::exchange::message::Scope;
use rondo_core::exchange::{InstanceRank, Mask, MembershipVersion, Role};
use rondo_core::ids::CallId;
use rondo_core::status::{Code, Status};
use rondo_core::time;

pub use self::error::Error;
pub use self::link::{
    Bounds, Frame, HeaderRoom, Link, Listener, Names, Place, Placer, SharedMemory, Sharing,
    SystemNames, Tcp, Transport, Unix,
};
pub use self::recording::{Bounds as RecordingBounds, Recorded, Recording};
pub use self::scheduler::Scheduler;
pub use self::settings::{Settings, Ways};

use self::device::Pulling;
use self::engine::Engine;
use self::folder::Folder;
use self::links::Links;
use self::of_process::OfProcess;
use self::process::Process;
use crate::clock::Clock;
use crate::tensor::TensorBuffer;
use crate::tensor::cuda::Cuda;
use crate::transport::exposure::Exposed;

/// A tensor under its key, and its memory.
pub type Tensor = rondo_core::exchange::message::Tensor<TensorBuffer>;

/// Asked now and then by a call that waits: whether it waits on.
pub type GoesOn<'a> = &'a mut dyn FnMut() -> bool;

/// A worker or server of an exchange. Dropping it breaks its connections, and others find it lost;
/// [`Exchange::stop`] leaves in order.
pub struct Exchange {
    engine: Engine<Process>,
    rank: InstanceRank,
    settings: Settings,
    /// Memory of GPUs that requests pull into which nobody has waited for.
    pulling: OfProcess<Pulling>,
    /// The sockets of a server.
    _folder: Option<Folder>,
}

impl Exchange {
    /// Takes part: returns when all processes have come.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for settings that do not fit together or contradict those of others, and for an
    /// address that other machines can reach without [`Settings::insecure`]; UNAVAILABLE if this process
    /// cannot listen, DEADLINE_EXCEEDED if not all come in time, CANCELLED.
    pub fn start(settings: Settings, goes_on: GoesOn<'_>) -> Result<Self, Error> {
        let (engine, folder) = settings.start()?;
        let timeout = settings.join_timeout.map(span);
        let call =
            engine.with(|process, links, now| process.ask(now, Ask::Join { timeout }, links));
        let reply = engine.wait(|process| process.replies.remove(&call), goes_on);
        match reply.map_err(|_| interrupted())?? {
            Reply::Joined { rank, .. } => {
                let pulling = OfProcess::new(Pulling::default());
                Ok(Self { engine, rank, settings, pulling, _folder: folder })
            }
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

    /// The GPUs that it exchanges tensors from and to.
    pub const fn cuda(&self) -> Option<&Cuda> {
        self.settings.cuda.as_ref()
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
        Ok(self.answer(call, |process| process.replies.remove(&call), goes_on)??)
    }

    /// What is refused to a process of another role.
    fn is_no(&self, wanted: Role) -> Error {
        let role = self.settings.role;
        let text = format!("this process is a {role}; only a {wanted} can do that");
        Status::new(Code::FailedPrecondition, text).into()
    }

    /// Waits for the answer to a call. One that came just when who waits was interrupted is not lost.
    fn answer<R>(
        &self,
        call: CallId,
        mut take: impl FnMut(&mut Process) -> Option<R>,
        goes_on: GoesOn<'_>,
    ) -> Result<R, Error> {
        if let Ok(found) = self.engine.wait(&mut take, goes_on) {
            return Ok(found);
        }
        self.engine.with(|process, links, now| {
            take(process).ok_or_else(|| {
                process.cancel(now, call, links);
                interrupted().into()
            })
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
    process: impl FnOnce(&mut Links) -> io::Result<Process>,
) -> Result<Engine<Process>, Error> {
    let links_max = usize::try_from(settings.config.processes_max).unwrap_or(usize::MAX);
    let names = (Arc::clone(&settings.names), settings.lookup_timeout);
    let started = Engine::start(transports, links_max, names, clock, settings.spin, process);
    started.map_err(|error| cannot_listen(&settings.host, settings.port, &error).into())
}

/// Why a process cannot listen.
fn cannot_listen(host: &str, port: u16, error: &io::Error) -> Status {
    match error.get_ref().and_then(|error| error.downcast_ref::<Exposed>()) {
        Some(exposed) => Status::new(Code::InvalidArgument, exposed.to_string()),
        None => {
            let text = format!("cannot listen on {host}:{port}: {error}");
            Status::new(Code::Unavailable, text)
        }
    }
}
