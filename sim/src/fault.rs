//! What can go wrong: every kind has a switch and a strength in the swarm configuration, a counter
//! in the tally, and with the counter a mark.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::rng::Stream;

named! {
    /// A kind of fault.
    Fault {
        // The network.
        /// Messages take longer, each link by its own measure.
        Delay = "delay",
        /// A message overtakes others.
        Reorder = "reorder",
        /// Messages are lost one by one.
        Loss = "loss",
        /// Messages are lost in bursts.
        LossBurst = "loss-burst",
        /// A message arrives twice.
        Duplicate = "duplicate",
        /// A message arrives again much later.
        LateReplay = "late-replay",
        /// A link takes no more messages than it has room for.
        QueueOverflow = "queue-overflow",
        /// Two halves do not hear each other.
        PartitionSymmetric = "partition-symmetric",
        /// One half does not hear the other.
        PartitionAsymmetric = "partition-asymmetric",
        /// One machine is cut off.
        Isolate = "isolate",
        /// Two halves meet in one machine only.
        Bridge = "bridge",
        /// A link keeps everything for a while.
        Clog = "clog",
        /// The links of some machines are clogged one by one, and let go in another order.
        SwizzleClog = "swizzle-clog",
        /// A connection breaks, and what is on it is lost.
        ConnectionReset = "connection-reset",
        /// One end of a connection does not know that it is broken.
        HalfOpen = "half-open",
        /// A call is refused at once.
        ConnectRefused = "connect-refused",
        /// A call hangs.
        ConnectHang = "connect-hang",
        /// The answer is lost after the request took effect.
        ReplyLost = "reply-lost",
        // Processes.
        /// A process is killed.
        Kill = "kill",
        /// The node is killed between two effects of one step.
        KillAtEffect = "kill-at-effect",
        /// The node is killed while it recovers.
        KillInRecovery = "kill-in-recovery",
        /// The node is killed several times in a row.
        KillLoop = "kill-loop",
        /// The power goes with the process.
        PowerCut = "power-cut",
        /// A process stands still and then goes on with what it believed.
        Pause = "pause",
        /// A process takes its time.
        SlowProcess = "slow-process",
        /// A worker comes back as the one it was, in another process.
        RestartSame = "restart-same",
        /// A worker comes back at another address.
        RestartFresh = "restart-fresh",
        /// A process stops in good order.
        GracefulStop = "graceful-stop",
        // Clocks.
        /// A clock is off.
        ClockOffset = "clock-offset",
        /// A clock is too fast or too slow.
        ClockDrift = "clock-drift",
        /// A clock jumps ahead.
        ClockJump = "clock-jump",
        /// The wall clock is behind after a restart.
        ClockBack = "clock-back",
        // Disks.
        /// The last write is torn when the power goes.
        TornWrite = "torn-write",
        /// Writes that were not synced are lost when the power goes.
        LostWrite = "lost-write",
        /// Of writes that were not synced a later one stays and an earlier one is lost.
        ReorderedWrite = "reordered-write",
        /// A write fails.
        WriteFails = "write-fails",
        /// A sync fails, and what it was for is in doubt.
        SyncFails = "sync-fails",
        /// A sync says that it worked and did nothing.
        SyncLies = "sync-lies",
        /// A stored bit flips.
        BitFlip = "bit-flip",
        /// A read brings what was there before.
        StaleRead = "stale-read",
        /// The disk is full for a while.
        DiskFull = "disk-full",
        /// The disk is slow.
        DiskSlow = "disk-slow",
        /// The disk does nothing for a while.
        DiskStall = "disk-stall",
        // Clients.
        /// A request is made again although it was answered.
        RepeatRequest = "repeat-request",
        /// A request names what an earlier life was told.
        StaleRequest = "stale-request",
        /// Rounds are reported out of order.
        RoundsOutOfOrder = "rounds-out-of-order",
        /// A consumer has an index that does not exist.
        ConsumerOutOfRange = "consumer-out-of-range",
        /// A client goes on after it was released.
        AfterRelease = "after-release",
        /// Two workers have one address.
        AddressTwice = "address-twice",
        /// A client takes part and never says anything again.
        NeverReads = "never-reads",
        /// A client asks without waiting for answers.
        Flood = "flood",
        /// A consumer leaves in the middle of a round.
        LeaveMidRound = "leave-mid-round",
        /// Fields hold what nobody would send.
        Malformed = "malformed",
        /// A caller gives up waiting.
        Cancel = "cancel",
        /// The node's disk is replaced by an empty one, and it begins anew.
        EmptyDisk = "empty-disk",
        /// The node comes back with other settings.
        OtherSettings = "other-settings",
        /// The node comes back over a journal that a version without times of use wrote.
        OlderJournal = "older-journal",
        /// A read brings another sector's bytes.
        MisdirectedRead = "misdirected-read",
        // Kinds that were added later: see `LATER`.
        /// A proxy answers a call of the dispatcher in the server's place, with any status.
        ProxyAnswers = "proxy-answers",
        /// The server's process is held up for seconds to minutes; its timers may run out first then.
        HeldUp = "held-up",
        /// An older image of the disk comes back: its note of acknowledged records is older than its journal.
        OlderNote = "older-note",
        /// The note of acknowledged records names some that the journal does not have.
        NewerNote = "newer-note",
        // Kinds that were added after those: see `LATEST`.
        /// The system lacks descriptors or memory for a while: operations of the disk fail and change
        /// nothing.
        Lack = "lack",
        /// The server's process has no memory left for more state, or none at all, for a while.
        ShortMemory = "short-memory",
        /// The server accepts no connection for a while: the system lacks descriptors or memory, or
        /// connections break before that.
        AcceptFails = "accept-fails",
    }
}

impl Fault {
    /// Whether only the shell world strikes with it: the core does not have the code that it concerns.
    pub const fn is_of_shell(self) -> bool {
        matches!(self, Self::AcceptFails)
    }
}

/// What a proxy says with each status, so that its answers can be told from the server's.
pub const PROXY_ANSWERS: &str = "a proxy answers in the server's place";

/// Kinds from here on are drawn from a stream of their own, so that older seeds draw what they drew.
const LATER: usize = Fault::ProxyAnswers.index();

/// Kinds from here on are drawn behind all else that comes from that stream. A new kind goes to the end of
/// the list, where it changes no other draw of a known seed.
const LATEST: usize = Fault::Lack.index();

/// How likely each kind from `LATER` on is on, in thousandths.
const LATER_SHARE: u32 = 150;

/// How strong each kind is in a run; 0 is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Fault, u32>", into = "BTreeMap<Fault, u32>")]
pub struct Faults([u32; Fault::COUNT]);

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}

impl From<Faults> for BTreeMap<Fault, u32> {
    fn from(faults: Faults) -> Self {
        faults.on().collect()
    }
}

impl From<BTreeMap<Fault, u32>> for Faults {
    fn from(on: BTreeMap<Fault, u32>) -> Self {
        let mut faults = Self::none();
        on.into_iter().for_each(|(fault, strength)| faults.set(fault, strength));
        faults
    }
}

impl Faults {
    /// None at all.
    pub const fn none() -> Self {
        Self([0; Fault::COUNT])
    }

    /// First whether each kind is on at all, then how strong it is.
    pub fn draw(stream: &mut Stream) -> Self {
        // Some runs have nearly everything, some nearly nothing: each hides other bugs.
        let share = stream.pick(&[60, 0, 150, 300, 600]).copied().unwrap_or(0);
        let mut faults = Self::none();
        for strength in faults.0.iter_mut().take(LATER) {
            *strength = drawn(stream, share);
        }
        faults
    }

    /// The same for the kinds that were added later, but for the latest.
    pub fn draw_later(&mut self, stream: &mut Stream) {
        for strength in self.0.iter_mut().take(LATEST).skip(LATER) {
            *strength = drawn(stream, LATER_SHARE);
        }
    }

    /// The same for the latest kinds. Nothing else is drawn from the stream behind them.
    pub fn draw_latest(&mut self, stream: &mut Stream) {
        for strength in self.0.iter_mut().skip(LATEST) {
            *strength = drawn(stream, LATER_SHARE);
        }
    }

    /// How strong a kind is, from 0 (off) to 1000.
    #[inline]
    pub fn strength(&self, fault: Fault) -> u32 {
        self.0.get(fault.index()).copied().unwrap_or(0)
    }

    /// Whether a kind is on.
    #[inline]
    pub fn has(&self, fault: Fault) -> bool {
        self.strength(fault) > 0
    }

    /// Sets a kind's strength.
    pub fn set(&mut self, fault: Fault, strength: u32) {
        if let Some(place) = self.0.get_mut(fault.index()) {
            *place = strength.min(1000);
        }
    }

    /// The kinds that are on, with their strengths.
    pub fn on(&self) -> impl Iterator<Item = (Fault, u32)> + '_ {
        let all = Fault::ALL.iter().copied();
        all.filter_map(|fault| Some((fault, self.strength(fault))).filter(|(_, on)| *on > 0))
    }
}

/// The strength of a kind that is on so many times of a thousand.
fn drawn(stream: &mut Stream, share: u32) -> u32 {
    if !stream.chance(share) {
        return 0;
    }
    let scale = stream.pick(&[30, 200, 1000]).copied().unwrap_or(30);
    u32::try_from(stream.between(1, scale)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_enough_kinds_with_a_name_each() {
        let names: BTreeSet<_> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        assert!(names.len() >= 30 && names.len() == Fault::COUNT);
        assert_eq!(Fault::named("bit-flip"), Some(Fault::BitFlip));
    }

    #[test]
    fn every_kind_is_on_in_some_runs_and_off_in_others() {
        let drawn = |seed| {
            let mut stream = Stream::of_seed(seed);
            let mut faults = Faults::draw(&mut stream);
            faults.draw_later(&mut stream);
            faults.draw_latest(&mut stream);
            faults
        };
        let drawn: Vec<_> = (0..200).map(drawn).collect();
        for fault in Fault::ALL {
            let on = drawn.iter().filter(|faults| faults.has(*fault)).count();
            assert!((1..200).contains(&on), "{fault}");
        }
    }

    #[test]
    fn the_latest_kinds_are_drawn_behind_the_others() {
        for seed in 0..200 {
            let mut stream = Stream::of_seed(seed);
            let mut faults = Faults::none();
            faults.draw_later(&mut stream);
            assert_eq!(faults.on().find(|(fault, _)| fault.index() >= LATEST), None);
            let before = faults.clone();
            faults.draw_latest(&mut stream);
            for fault in Fault::ALL.iter().filter(|fault| fault.index() < LATEST) {
                assert_eq!(faults.strength(*fault), before.strength(*fault), "{fault}");
            }
        }
    }
}
