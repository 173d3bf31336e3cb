//! The control plane's machine: its processes live and die, and begin again over what the disk has.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rondo::clock::Clock;
use rondo::config::{Bounds, Config, Listen, Storage};
use rondo::memory::Ceiling;
use rondo::node::NodeConfig;
use rondo::serve::{Machine as Runs, ServeError, StartError, run, start_node};
use rondo::store::{DirectoryError, StoreConfig, StoreKind};
use tokio::time::Instant;

use super::world::{Machine, World, lock};
use crate::fault::Fault;
use crate::mark::Mark;
use crate::oracle::Seen;
use crate::rng::Stream;

/// Where the dispatcher listens.
pub(super) const ADDRESS: &str = "control:5050";
/// The port there.
const PORT: u16 = 5050;
/// A wall clock is set back by at most so much, in ms.
const SET_BACK_MS: u64 = 30_000;
/// Space set aside at once for a segment, in bytes: little, since all of it is kept in memory.
const PREALLOCATE_BYTES: u64 = 512;
/// Memory that the process may have, in bytes. Nothing is ever read of it but what faults say.
const MEMORY_BYTES_MAX: u64 = 1 << 40;
/// Space that appending leaves free, in bytes.
const RESERVE_BYTES: u64 = 4096;

/// The control plane's machine as the run sees it.
pub(super) struct Control {
    stream: Stream,
    up: bool,
    /// When the last process ended.
    down_since: Instant,
    /// How far its wall clock is off, in ms, and how much too fast it runs, in millionths.
    skew: Option<(i64, i32)>,
    /// By how much its wall clock has gone back in all.
    set_back: Duration,
    /// What was promised to be durable is gone: nothing can be held against anybody.
    pub(super) lost: bool,
    /// The bound on the memory of the process that began last.
    ceiling: Ceiling,
}

impl Control {
    /// A machine that has not begun.
    pub(super) fn new(stream: Stream) -> Self {
        let (down_since, set_back) = (Instant::now(), Duration::ZERO);
        let ceiling = Ceiling::none();
        Self { stream, up: false, down_since, skew: None, set_back, lost: false, ceiling }
    }

    /// Whether a process is there.
    pub(super) const fn is_up(&self) -> bool {
        self.up
    }

    /// By how much its wall clock has gone back in all.
    pub(super) const fn set_back(&self) -> Duration {
        self.set_back
    }

    /// Whether there has been no process for so long.
    pub(super) fn is_down_for(&self, span: Duration) -> bool {
        !self.up && self.down_since.elapsed() >= span
    }
}

/// How a process ended by itself.
pub(super) type Ended = Result<(), ServeError>;

impl World {
    /// The process has no memory left for more state, or none `at_all`.
    pub(super) fn run_short_of_memory(&self, at_all: bool) {
        let ceiling = &self.control().ceiling;
        let bound = ceiling.bytes_max();
        ceiling.see(if at_all { bound } else { bound / 8 * 7 });
    }

    /// The process has enough memory again.
    pub(super) fn free_memory(&self) {
        self.control().ceiling.see(0);
    }

    /// Begins a process of the control plane, unless there is one.
    pub(super) fn start_control(&self) {
        {
            let mut control = self.control();
            if control.up {
                return;
            }
            control.up = true;
        }
        self.start_node(Machine::Control);
    }

    /// Ends the process of the control plane where it stands; says whether there was one.
    pub(super) fn kill_control(&self, power_too: bool) -> bool {
        if !std::mem::take(&mut self.control().up) {
            return false;
        }
        self.kill_node(Machine::Control);
        self.bury(power_too);
        true
    }

    /// What follows from a death.
    fn bury(&self, power_too: bool) {
        self.control().down_since = Instant::now();
        self.platter.end_life();
        self.book.end_life();
        if power_too {
            self.platter.cut_power();
        }
    }

    /// Takes note of how a process ended by itself, and says whether another one may begin.
    pub(super) fn process_ended(&self, ended: &Ended) -> bool {
        if !std::mem::take(&mut self.control().up) {
            return true;
        }
        self.control().down_since = Instant::now();
        // What is left of it, such as its sockets.
        self.kill_node(Machine::Control);
        let left = self.platter.end_life();
        let damaged = self.platter.is_damaged();
        let mut again = true;
        match ended {
            Ok(()) => {}
            Err(ServeError::Halted(reason)) => {
                self.book.mark(Mark::HaltedAfterSync);
                self.book.see(&Seen::Halted { reason, disk_failed: left.failed });
            }
            // A disk that fails while a process starts or stops keeps it from doing so, and so does a lack.
            // But no lack halts a process that serves.
            Err(ServeError::Start(error)) if left.failed && !is_damage(error) => {}
            Err(ServeError::Start(error)) if left.lacked && is_of_system(error) => {}
            Err(ServeError::Shutdown(_)) if left.failed || left.stalled || left.lacked => {}
            Err(ServeError::Start(error)) => {
                self.book.see(&Seen::StartRefused { reason: &error.to_string(), damaged });
                again = self.after_refusal(damaged);
            }
            Err(error) => self.book.broken("start", error.to_string()),
        }
        self.book.end_life();
        again
    }

    /// A node that refuses to start over damaged bytes starts when they are put back; what is lost
    /// for good ends the run.
    fn after_refusal(&self, damaged: bool) -> bool {
        if damaged {
            self.book.mark(Mark::DamageRefused);
        }
        self.platter.repair();
        !self.platter.is_damaged()
    }

    /// Asks the process to stop in good order.
    pub(super) fn stop_control(&self) {
        if let Some(node) = self.node(Machine::Control).filter(|_| self.control().up) {
            let handle = madsim::runtime::Handle::current();
            handle.send_ctrl_c(node);
            // A process that does not listen for signals yet dies of one.
            if handle.is_exit(node) {
                self.kill_control(false);
            }
        }
    }

    /// What a process is configured with.
    fn config(&self) -> Config {
        Config {
            listen: Listen { host: "10.0.0.1".into(), port: PORT },
            insecure: true,
            storage: Storage::Directory {
                path: PathBuf::from("/data"),
                store: Some(StoreKind::Segment),
                free_space_reserve_bytes: RESERVE_BYTES,
                segment_bytes_max: self.swarm.journal.segment_bytes_max,
            },
            dispatcher: self.swarm.settings.clone(),
            coordination: Default::default(),
            namespace_ports: Vec::new(),
            rendezvous: None,
            protocol_version: 9,
            bounds: self.bounds(),
            accepting: self.accepting.clone(),
        }
    }

    fn bounds(&self) -> Bounds {
        let mut control = self.control();
        let stream = &mut control.stream;
        let mut pick = |of: &[u64]| stream.pick(of).copied().unwrap_or(64);
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Bounds {
            message_bytes_max: 1 << 20,
            memory_bytes_max: Some(MEMORY_BYTES_MAX),
            inflight_bytes_max: 1 << 20,
            connections_max: 64,
            calls_per_connection_max: 64,
            shared_memory_bytes_max: 0,
            queue_calls_max: size(pick(&[64, 1, 4])),
            batch_calls_max: size(pick(&[64, 1, 4])),
            shutdown_grace: Duration::from_millis(pick(&[500, 10, 2000])),
        }
    }

    /// How a machine's clock is off: its wall clock in ms, and its pace in millionths.
    pub(super) fn skew(&self, stream: &mut Stream) -> (i64, i32) {
        let drawn = |stream: &mut Stream, fault, scale: u64| {
            let strength = u64::from(self.swarm.faults.strength(fault));
            if strength == 0 {
                return 0;
            }
            self.book.fault(fault);
            let size = i32::try_from(stream.below(strength.saturating_mul(scale))).unwrap_or(0);
            if stream.chance(500) { -size } else { size }
        };
        let offset_ms = drawn(stream, Fault::ClockOffset, 20);
        (offset_ms.into(), drawn(stream, Fault::ClockDrift, 100))
    }

    /// The clock of the next process of the control plane. The wall clock is asked at a start
    /// only, so that is when it can have gone back.
    fn control_clock(&self) -> Clock {
        let mut stream = self.control().stream.clone();
        let skew = self.control().skew;
        let (mut offset_ms, drift_ppm) = skew.unwrap_or_else(|| self.skew(&mut stream));
        let back = self.swarm.faults.strength(Fault::ClockBack) / 2;
        if skew.is_some() && stream.chance(back) {
            self.book.fault(Fault::ClockBack);
            let back_ms = stream.between(1, SET_BACK_MS);
            offset_ms = offset_ms.saturating_sub_unsigned(back_ms);
            self.control().set_back += Duration::from_millis(back_ms);
        }
        let mut control = self.control();
        (control.skew, control.stream) = (Some((offset_ms, drift_ppm)), stream);
        Clock::start_askew(offset_ms.saturating_mul(1_000_000), drift_ppm)
    }

    /// A process has its state and is about to serve.
    pub(super) fn served(&self, lost: bool) {
        self.platter.served();
        if lost {
            self.book.mark(Mark::LieLostAcknowledged);
            self.control().lost = true;
            self.book.alarm.notify_one();
        }
    }
}

const fn is_damage(error: &StartError) -> bool {
    matches!(
        error,
        StartError::JournalDamaged(_) | StartError::Directory(DirectoryError::Damaged { .. })
    )
}

/// Whether an error says no more than that the system refused something.
const fn is_of_system(error: &StartError) -> bool {
    matches!(error, StartError::Other(_) | StartError::Directory(DirectoryError::Failed(_)))
}

/// One process of the control plane, from its start to its end.
pub(super) async fn serve(world: Arc<World>) {
    let watch = world.book.begin_life(&world);
    let machine = Runs {
        disk: Arc::new(world.platter.begin_life()),
        clock: world.control_clock(),
        pid: 1,
        store: StoreConfig { preallocate_bytes: PREALLOCATE_BYTES, ..StoreConfig::default() },
        node: NodeConfig { compaction_retry: Duration::from_secs(1), ..NodeConfig::default() },
        watch: Arc::new(watch),
    };
    let control = Arc::clone(&world);
    let start = |config, transport, ceiling: Ceiling| async move {
        control.control().ceiling = ceiling.clone();
        start_node(&config, machine, transport, ceiling).await
    };
    let ended = run(world.config(), start).await;
    *lock(&world.ended) = Some(ended);
    world.control_ended.notify_one();
}
