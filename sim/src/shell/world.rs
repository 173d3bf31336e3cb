//! One run: the control plane's machine, those of everybody else, and what they share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use madsim::net::NetSim;
use madsim::runtime::Handle;
use madsim::task::NodeId;
use rondo::transport::Accepting;
use tokio::sync::Notify;

use super::book::Book;
use super::cast::{Cast, live};
use super::control::{Control, Ended, serve};
use super::disk::Platter;
use crate::rng::Source;
use crate::swarm::Swarm;
use crate::trace::Trace;
use crate::workload::ActorId;

/// One run.
pub(super) struct World {
    pub(super) swarm: Swarm,
    pub(super) source: Source,
    pub(super) book: Arc<Book>,
    pub(super) platter: Arc<Platter>,
    /// Whether the control plane fails to accept connections.
    pub(super) accepting: Accepting,
    pub(super) control: Mutex<Control>,
    pub(super) cast: Mutex<Cast>,
    /// A process of the control plane has ended by itself.
    pub(super) ended: Mutex<Option<Ended>>,
    pub(super) control_ended: Notify,
    nodes: Mutex<Nodes>,
}

/// The machines.
#[derive(Default)]
struct Nodes {
    control: Option<NodeId>,
    actors: Vec<NodeId>,
}

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    /// The control plane's.
    Control,
    /// An actor's.
    Of(ActorId),
}

impl World {
    /// A world with all machines down.
    pub(super) fn new(swarm: Swarm, source: Source, trace: Trace) -> Arc<Self> {
        let book = Book::new(&swarm, trace);
        let streams = (source.stream("disk", 0), source.stream("lack", 0));
        let platter = Platter::new(book.clone(), swarm.journal, swarm.faults.clone(), streams);
        let world = Arc::new(Self {
            control: Mutex::new(Control::new(source.stream("control", 0))),
            cast: Mutex::new(Cast::new(&swarm, &source)),
            book,
            platter,
            accepting: Accepting::default(),
            swarm,
            source,
            ended: Mutex::new(None),
            control_ended: Notify::new(),
            nodes: Mutex::default(),
        });
        world.build();
        world
    }

    fn build(self: &Arc<Self>) {
        let handle = Handle::current();
        let net = NetSim::current();
        let world = Arc::downgrade(self);
        let control = create(&handle, "control", [10, 0, 0, 1], world.clone(), serve);
        net.add_dns_record("control", [10, 0, 0, 1].into());
        let mut actors = Vec::new();
        let count = self.cast().len();
        for number in 0..count {
            let ip = [10, 0, 1, u8::try_from(number).unwrap_or(u8::MAX)];
            let id = ActorId(u32::from(ip[3]));
            let run = move |world| live(world, id);
            actors.push(create(&handle, &format!("actor{number}"), ip, world.clone(), run));
            if let Some(host) = self.cast().host(id) {
                net.add_dns_record(&host, ip.into());
            }
        }
        *lock(&self.nodes) = Nodes { control: Some(control), actors };
    }

    /// The actors.
    pub(super) fn cast(&self) -> MutexGuard<'_, Cast> {
        lock(&self.cast)
    }

    /// The control plane's machine.
    pub(super) fn control(&self) -> MutexGuard<'_, Control> {
        lock(&self.control)
    }

    /// All machines, the control plane's first.
    pub(super) fn machines(&self) -> Vec<Machine> {
        let actors =
            (0..lock(&self.nodes).actors.len()).filter_map(|number| u32::try_from(number).ok());
        std::iter::once(Machine::Control).chain(actors.map(|n| Machine::Of(ActorId(n)))).collect()
    }

    /// A machine as the simulated runtime knows it.
    pub(super) fn node(&self, machine: Machine) -> Option<NodeId> {
        let nodes = lock(&self.nodes);
        match machine {
            Machine::Control => nodes.control,
            Machine::Of(ActorId(number)) => {
                nodes.actors.get(usize::try_from(number).ok()?).copied()
            }
        }
    }

    /// Ends all processes of a machine.
    pub(super) fn kill_node(&self, machine: Machine) {
        if let Some(node) = self.node(machine) {
            // What a machine that stands still has put off is then dropped in the usual way.
            Handle::current().resume(node);
            Handle::current().kill(node);
        }
    }

    /// Begins a machine's process.
    pub(super) fn start_node(&self, machine: Machine) {
        if let Some(node) = self.node(machine) {
            Handle::current().restart(node);
        }
    }
}

/// Locks; what a panicking thread leaves is looked at by nobody.
pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A machine that runs `process` of the world whenever it starts, and is down until then.
fn create<F>(
    handle: &Handle,
    name: &str,
    ip: [u8; 4],
    world: Weak<World>,
    process: impl Fn(Arc<World>) -> F + Send + Sync + Clone + 'static,
) -> NodeId
where
    F: Future<Output = ()> + Send + 'static,
{
    let init = move || {
        let (world, process) = (world.clone(), process.clone());
        async move {
            if let Some(world) = world.upgrade() {
                process(world).await;
            }
        }
    };
    let node = handle.create_node().name(name).ip(ip.into()).init(init).build();
    handle.kill(node.id());
    node.id()
}
