//! Machines: the node with its disk, and the actors.

use rondo_core::control::Node;
use rondo_core::dispatcher::Config;
use rondo_core::journal::Noted;
use rondo_core::memory::Memory;
use rondo_core::time::{Duration, Time};

use super::letter::CallOf;
use super::relay::RelayDesk;
use crate::call_map::CallMap;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::fault::{Fault, Faults};
use crate::process::{Journal, Recovering};
use crate::rng::{Source, Stream};
use crate::swarm::{JournalShape, Swarm};
use crate::workload::kind::Kind;
use crate::workload::{Actor, Role};

/// The node's clock shows this when a run begins.
const BEGINNING: Time = Time::from_millis(1_000_000_000);

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Being {
    /// It runs.
    Up,
    /// It stands still, and what arrives waits.
    Paused,
    /// Its process is gone, for ever if nothing starts it again.
    Down,
}

/// The node's machine.
#[derive(Debug)]
pub(super) struct NodeMachine {
    pub(super) being: Being,
    /// How many processes there have been.
    pub(super) life: u64,
    pub(super) node: Option<Node>,
    pub(super) journal: Option<Journal>,
    pub(super) recovering: Option<Recovering>,
    pub(super) disk: Disk,
    /// Disks replaced by empty ones so far.
    pub(super) disks: u32,
    /// Settings of the next process.
    pub(super) settings: Config,
    /// Whether they are other ones than those of the process before.
    pub(super) settings_changed: bool,
    /// How the next process keeps its journal.
    pub(super) shape: JournalShape,
    /// Whether a sector of the disk reads wrong.
    pub(super) misread: bool,
    pub(super) clock: Clock,
    /// Messages that arrived while it stood still.
    pub(super) held: Vec<u32>,
    /// What its process knows of relays.
    pub(super) relays: RelayDesk,
    /// Calls that wait for an answer.
    pub(super) waiting: CallMap<CallOf>,
    pub(super) next_call: u64,
    /// The process dies after so many more effect boundaries; with it the power if true.
    pub(super) dies_in: Option<(u64, bool)>,
    /// How often it is to be killed soon after its start.
    pub(super) loop_left: u64,
    /// Recoveries killed one after the other.
    pub(super) recoveries_killed: u64,
    pub(super) tick_at_ns: u64,
    pub(super) slow_until_ns: u64,
    pub(super) disk_slow: bool,
    pub(super) disk_stalled_until_ns: u64,
    /// Whether the system lacks what the journal needs to take records.
    pub(super) lacks: bool,
    /// How much memory the process has left.
    pub(super) memory: Memory,
    pub(super) disk_failed: bool,
    /// The power was cut since the last process served.
    pub(super) power_was_cut: bool,
    /// The disk has broken its word, so that acknowledged records may be gone.
    pub(super) broke_word: bool,
    /// What the note of acknowledged records said before it came to name records that are not there.
    pub(super) note_before: Option<Noted>,
    /// When it began to stand still, as its clock shows it.
    pub(super) paused_at: Time,
    /// Whether its timers run out before it reads what came while it stood still.
    pub(super) timers_first: bool,
    /// The machine asked for another try to write what was refused.
    pub(super) retry: bool,
    pub(super) down_since_ns: u64,
    /// By how much its clock was set back altogether, in ms.
    pub(super) behind_ms: u64,
    pub(super) stream: Stream,
    pub(super) disk_stream: Stream,
}

impl NodeMachine {
    pub(super) fn new(source: &Source, swarm: &Swarm) -> Self {
        let mut stream = source.stream("node", 0);
        let clock = drawn_clock(&swarm.faults, &mut stream);
        Self {
            being: Being::Up,
            life: 0,
            node: None,
            journal: None,
            recovering: None,
            disk: Disk::new(),
            disks: 0,
            settings: swarm.settings.clone(),
            settings_changed: false,
            shape: swarm.journal,
            misread: false,
            clock,
            held: Vec::new(),
            relays: RelayDesk::default(),
            waiting: CallMap::default(),
            next_call: 1,
            dies_in: None,
            loop_left: 0,
            recoveries_killed: 0,
            tick_at_ns: u64::MAX,
            slow_until_ns: 0,
            disk_slow: false,
            disk_stalled_until_ns: 0,
            lacks: false,
            memory: Memory::Enough,
            disk_failed: false,
            power_was_cut: false,
            broke_word: false,
            note_before: None,
            paused_at: Time::ZERO,
            timers_first: false,
            retry: false,
            down_since_ns: 0,
            behind_ms: 0,
            stream,
            disk_stream: source.stream("disk", 0),
        }
    }
}

/// A clock as it happens to be.
pub(super) fn drawn_clock(faults: &Faults, stream: &mut Stream) -> Clock {
    let mut beginning = BEGINNING;
    if faults.has(Fault::ClockOffset) {
        beginning = beginning.after(Duration::from_millis(stream.below(100_000_000)));
    }
    let mut drift = 0;
    if faults.has(Fault::ClockDrift) {
        let most = u64::from(faults.strength(Fault::ClockDrift)).saturating_mul(100);
        drift = i32::try_from(stream.below(most)).unwrap_or(0);
        if stream.chance(500) {
            drift = -drift;
        }
    }
    Clock::showing(beginning, drift)
}

/// An actor's machine.
pub(super) struct ActorMachine {
    pub(super) actor: Box<dyn Actor + Send>,
    pub(super) role: Role,
    pub(super) being: Being,
    pub(super) life: u32,
    /// On which of the node's disks it last began.
    pub(super) disk: u32,
    pub(super) clock: Clock,
    pub(super) held: Vec<u32>,
    /// Its calls to the node that wait for an answer.
    pub(super) open: Vec<(u64, Kind)>,
    pub(super) wake_at_ns: u64,
    pub(super) woken_at_ns: u64,
    pub(super) slow_until_ns: u64,
    /// Whether it takes part after the rest has healed.
    pub(super) core: bool,
    pub(super) stream: Stream,
}

impl ActorMachine {
    pub(super) fn new(
        number: u32,
        actor: Box<dyn Actor + Send>,
        source: &Source,
        faults: &Faults,
    ) -> Self {
        let mut stream = source.stream("actor", number);
        let clock = drawn_clock(faults, &mut stream);
        Self {
            role: actor.role(),
            actor,
            being: Being::Up,
            life: 0,
            disk: 0,
            clock,
            held: Vec::new(),
            open: Vec::new(),
            wake_at_ns: u64::MAX,
            woken_at_ns: 0,
            slow_until_ns: 0,
            core: true,
            stream,
        }
    }
}
