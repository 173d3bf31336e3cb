//! How often each oracle reached a judgement.
//!
//! An oracle that is called and never judges proves nothing, and looks like one that does. So each
//! place where an oracle compares what it has seen with what it expects counts a check, and a swarm
//! fails when a check was never reached.
//!
//! A run happens on one thread. The counts are kept there, so that counting needs no argument and
//! costs one addition.

use std::cell::Cell;

use crate::cost;
use crate::named::named;

named! {
    /// A judgement of an oracle: the part of the simulator, the oracle, and the judgement where an
    /// oracle has several.
    Check {
        // The node's world.
        /// A dispatcher's answer fits its call.
        AnswersDispatcher = "world.answers.dispatcher",
        /// Calls under way when the journal became durable are not overdue.
        AnswersDurable = "world.answers.durable",
        /// A coordination service's answer fits its call.
        AnswersCoordination = "world.answers.coordination",
        /// An answer that depends on a record left after the record was durable.
        AcknowledgedAnswer = "world.acknowledged.answer",
        /// A task that a worker reports as finished is finished.
        AcknowledgedFinished = "world.acknowledged.finished",
        /// A task ended by the word of its own worker.
        EndedByItsWorker = "world.acknowledged.ended",
        /// A restart kept the newest acknowledged record.
        AcknowledgedRecovered = "world.acknowledged.recovered",
        /// A recovered state is a prefix of what was written.
        Invented = "world.invented",
        /// The memory equals the records.
        ReplayMemory = "world.replay.memory",
        /// The stored bytes equal the records.
        ReplayStored = "world.replay.stored",
        /// The keys of a namespace equal those of a model.
        KeptKeys = "world.kept.keys",
        /// The tasks that have come to an open barrier equal those of a model.
        KeptBarriers = "world.kept.barriers",
        /// The places of the sources of an iteration equal those of a model.
        KeptSplits = "world.kept.splits",
        /// A split went to its first worker.
        SplitsFirst = "world.splits.first",
        /// A split went to a second worker, after the first was gone.
        SplitsAgain = "world.splits.again",
        /// A pass ended, and its splits are counted.
        ExactlyOncePass = "world.exactly-once.pass",
        /// A position was saved behind what was handed out.
        ExactlyOncePosition = "world.exactly-once.position",
        /// A task was told that a pass is over, or an iteration ended.
        Again = "world.again",
        /// A repetition began in a job of which others were freed.
        Repetitions = "world.repetitions",
        /// A consumer's round is compared with another consumer's.
        Rounds = "world.rounds",
        /// A task joined a coordinated read.
        Agreement = "world.agreement",
        /// A task was given up by a vote.
        Votes = "world.votes",
        /// A finished task made room for another one of its worker.
        TaskReplaced = "world.votes.replaced",
        /// A worker got another task of a read without rounds.
        TaskMade = "world.votes.made",
        /// An id was told a second time.
        Identity = "world.identity",
        /// A worker was told its index under static sharding.
        Shards = "world.shards",
        /// A client was released for its silence.
        CollectionClient = "world.collection.client",
        /// A worker was given up for its silence.
        CollectionWorker = "world.collection.worker",
        /// An iteration was collected.
        CollectionIteration = "world.collection.iteration",
        /// An iteration, a job or a dataset was freed.
        CollectionFreed = "world.collection.freed",
        /// An iteration was abandoned.
        CollectionAbandoned = "world.collection.abandoned",
        /// A lost worker was forgotten.
        CollectionWorkerFreed = "world.collection.worker-freed",
        /// An operator deleted a job.
        CollectionDeleted = "world.collection.deleted",
        /// A worker was told to drop a task.
        CollectionTask = "world.collection.task",
        /// A restart kept the saved positions.
        CollectionPosition = "world.collection.position",
        /// The node is looked at, long after everybody has gone.
        Leftover = "world.leftover",
        /// The invariants of the node.
        InvariantNode = "world.invariant.node",
        /// The invariants of a recovered state.
        InvariantRecovered = "world.invariant.recovered",
        /// The invariants of a relay.
        InvariantRelay = "world.invariant.relay",
        /// A node started or refused to.
        Start = "world.start",
        /// All that should get on have, long after everything healed.
        Liveness = "world.liveness",
        /// An answer fits the history of its key.
        KeysNode = "world.keys.node",
        /// An answer through a relay fits the history of its key.
        KeysRelays = "world.keys.relays",
        /// The order of answers did not explain an answer, and a search for an order began.
        KeysSearched = "world.keys.searched",
        /// Such a search was given up, and the key is judged no more.
        KeysUndecided = "world.keys.undecided",
        /// A relay sent a call.
        RelayForwarded = "world.relay.forwarded",
        /// A relay answered a heartbeat in the server's place.
        RelayStoodIn = "world.relay.stood-in",
        /// A relay blamed the server.
        RelayBlamed = "world.relay.blamed",
        /// A relay refused a call because a bound was reached.
        RelayFull = "world.relay.full",
        /// Calls that a relay has let go wait no longer at the server.
        RelayWithdrew = "world.relay.withdrew",
        /// A relay is looked at between two steps.
        RelayLooked = "world.relay.looked",
        /// A relay is looked at, long after its clients have gone.
        RelayQuiet = "world.relay.quiet",
        /// A task learnt that all have registered.
        BarrierRegistered = "world.barrier.registered",
        /// A task learnt that all have left.
        BarrierLeft = "world.barrier.left",
        /// A task passed a barrier.
        BarrierPassed = "world.barrier.passed",
        /// A barrier counted an arrival.
        BarrierArrival = "world.barrier.arrival",
        /// A barrier let its tasks go.
        BarrierComplete = "world.barrier.complete",
        /// A poll is open in a life in which an error was spread.
        ErrorReachesAll = "world.error-reaches-all",
        /// A call was refused, and left no record.
        RefusedWithoutRecord = "world.nothing-for-nothing.record",
        /// A call was refused, and changed nothing in memory.
        RefusedUnchanged = "world.nothing-for-nothing.memory",
        /// What the node keeps is measured.
        Size = "world.size",
        /// The node wrote a record while its process had no memory for more state.
        MemoryAddsNothing = "world.memory.adds-nothing",
        /// A call was refused for want of memory.
        MemoryRefuses = "world.memory.refuses",
        /// A call to the coordination service was refused.
        RefusedByCoordination = "world.refused",
        /// A task that wanted to leave was told that not all could leave together.
        RefusedToLeave = "world.refused.leave",
        /// A task is told who is alive: all of those have asked.
        AliveAsked = "world.alive",
        /// An agent passed a barrier.
        AgentPassed = "world.agent.passed",
        /// An agent is looked at between two steps.
        AgentLooked = "world.agent.looked",
        /// An agent told its application of an error, and had a cause.
        AgentFailed = "world.agent.failed",
        /// An agent gave up after heartbeats that failed for long enough.
        AgentGaveUp = "world.agent.gave-up",
        /// An agent gave up to register after it had tried for long enough.
        AgentNotRegistered = "world.agent.not-registered",
        /// An agent refused a call by itself, and had to.
        AgentRefused = "world.agent.refused",
        /// A call to the service is under way for each call of an application that waits.
        AgentAsks = "world.agent.asks",
        /// An agent told changes of a watched key that are later than all it had told.
        AgentChanged = "world.agent.changed",
        /// The work of a step of the node is within its bound.
        Cost = "world.cost",
        /// A worker that is not lost has been heard of in time.
        InTimeWorker = "world.in-time.worker",
        /// A relay is forgotten no earlier than after its silence.
        ForgottenRelay = "world.forgotten.relay",
        /// A relay that is remembered has been heard of in time.
        ForgottenInTime = "world.forgotten.in-time",
        /// An answer is compared with the state that a crash would leave.
        Durable = "world.durable",
        /// An answer of the coordination service is compared with the state that a crash would leave.
        DurableService = "world.durable.service",
        /// Another process of a worker named tasks of the one before.
        BalanceFollowed = "world.balance.followed",
        /// A task of which splits were produced is over.
        BalanceOver = "world.balance.over",
        /// The splits of a process that has gone are counted.
        BalanceCounted = "world.balance.counted",
        /// The tasks of a worker begin anew because of a heartbeat.
        BalanceRestart = "world.balance.restart",
        /// A client that was heard is looked at.
        InTimeSilent = "world.in-time.silent",
        /// A client was given up for its silence.
        InTimeReleased = "world.in-time.released",
        /// Consumers of a coordinated read are looked at after faults have stopped.
        Progress = "world.progress",
        /// An acknowledged put is compared with the changes.
        WatchPut = "world.watch.put",
        /// An acknowledged deletion is compared with the keys.
        WatchDelete = "world.watch.delete",
        /// An answer to a watch is compared with the changes.
        WatchChanges = "world.watch.changes",
        /// An answer to a watch must have a deletion.
        WatchDeletion = "world.watch.deletion",
        /// An answer to a watch is compared with all keys.
        WatchKeys = "world.watch.keys",
        /// A call to another life was answered.
        IsolationLife = "world.isolation.life",
        /// A heartbeat of a stale incarnation was answered.
        IsolationStale = "world.isolation.stale",
        /// A call's record is of the call's namespace.
        IsolationNamespace = "world.isolation.namespace",
        /// A barrier timed out, and its time was over.
        SilenceBarrier = "world.silence.barrier",
        /// A task was given up for its silence.
        Silence = "world.silence",
        /// A connected task is looked at, which is not silent for too long.
        PunctualTask = "world.punctual.task",
        /// An open barrier is looked at, which is not over its time.
        PunctualBarrier = "world.punctual.barrier",
        /// A reader acknowledged records.
        ReadingAcknowledged = "world.reading.acknowledged",
        /// A reader was given splits.
        ReadingGiven = "world.reading.given",
        /// A reader handed records on.
        ReadingDelivered = "world.reading.delivered",
        /// A reader was told that all was read.
        ReadingAll = "world.reading.all",
        /// A worker was handed a split that readers could have taken.
        ReadingBesideElements = "world.reading.beside-elements",
        /// A reader of a group of another size was refused for good.
        ReadingOtherGroup = "world.reading.other-group",
        /// A reader's application is told that what it had consumed is acknowledged.
        ConsumedFlushed = "world.consumed.flushed",
        /// A reader was ended, and its progress is that of the durable records.
        ConsumedEnded = "world.consumed.ended",
        /// A reader has left, and the dispatcher knows what was consumed last.
        ConsumedLeft = "world.consumed.left",
        /// A consumer of a coordinated read asked a task again that had not answered.
        RetriedInTime = "world.invariant.retry",
        /// Who waited for an element of a task that was deleted when it was over was answered.
        EndOfDeleted = "world.invariant.end",
        /// A worker stopped in order, and the dispatcher knows which tasks are over.
        EndBeforeStop = "world.invariant.stop",
        /// An element left its worker.
        ElementsLeft = "world.elements.left",
        /// A worker said that a task is over.
        ElementsOver = "world.elements.over",
        /// A worker stopped in order.
        ElementsStopped = "world.elements.stopped",
        /// A reader handed an element on.
        ElementsDelivered = "world.elements.delivered",
        /// A reader handed an element on, of a split that others could have read.
        ElementsBesideReaders = "world.elements.beside-readers",
        /// A reader was told that all elements were read.
        ElementsAll = "world.elements.all",
        /// A consumer received an element of a group.
        CoordinatedGroup = "world.coordinated.group",
        /// A consumer's round is compared with another consumer's.
        CoordinatedRound = "world.coordinated.round",
        // The rendezvous.
        /// A received tensor is compared with the one that was made.
        RendezvousDelivery = "rendezvous.delivery",
        /// A tensor was handed to a receiver in turn.
        RendezvousTurn = "rendezvous.turn",
        /// A call was refused for a reason.
        RendezvousTold = "rendezvous.told",
        /// A waiter of a step that ended was told so.
        RendezvousEnded = "rendezvous.ended",
        /// A sender was taken on where there is room.
        RendezvousRoom = "rendezvous.room",
        /// A request came again.
        RendezvousRepeated = "rendezvous.repeated",
        /// A tensor of another worker was asked for.
        RendezvousFetch = "rendezvous.fetch",
        /// A step was given up because nothing happened with it.
        RendezvousExpiry = "rendezvous.expiry",
        /// The invariants of the machine.
        RendezvousInvariant = "rendezvous.invariant",
        /// A machine is looked at after all its steps.
        RendezvousLeftover = "rendezvous.leftover",
        /// All that should get on have.
        RendezvousLiveness = "rendezvous.liveness",
        // The exchange.
        /// A request began or was completed.
        ExchangeHandler = "exchange.handler",
        /// A completed request's memory is compared with the expected answer.
        ExchangeAnswer = "exchange.answer",
        /// A batch was given out.
        ExchangeBatch = "exchange.batch",
        /// What a unit pushed is compared with the server's memory.
        ExchangeSlot = "exchange.slot",
        /// A write to or a read of a process' memory is allowed.
        ExchangeMemory = "exchange.memory",
        /// A call was refused for a reason.
        ExchangeTold = "exchange.told",
        /// A request that waits for a lost server's return has waited for long enough.
        ExchangeWaited = "exchange.told.waited",
        /// A process was lost, and had had its time.
        ExchangeLost = "exchange.rank.lost",
        /// A worker's or server's word is no breach of the protocol.
        ExchangeProtocol = "exchange.protocol",
        /// A process learnt a membership.
        ExchangeRank = "exchange.rank",
        /// A barrier was passed.
        ExchangeBarrier = "exchange.barrier",
        /// The invariants of the machines.
        ExchangeInvariant = "exchange.invariant",
        /// A process is looked at after all its requests.
        ExchangeLeftover = "exchange.leftover",
        /// All that should get on have.
        ExchangeLiveness = "exchange.liveness",
        // The shell world.
        /// What a caller was told is compared with what the node said.
        Wire = "shell.wire",
    }
}

/// How often each check was reached in a run.
#[derive(Clone, Debug)]
pub struct Checks([u64; Check::COUNT]);

impl Default for Checks {
    fn default() -> Self {
        Self([0; Check::COUNT])
    }
}

thread_local! {
    static REACHED: [Cell<u64>; Check::COUNT] = const { [const { Cell::new(0) }; Check::COUNT] };
}

impl Checks {
    /// The counts of this thread since they were last taken.
    #[must_use]
    pub fn take() -> Self {
        let mut counts = Self::default();
        REACHED.with(|reached| {
            for (count, cell) in counts.0.iter_mut().zip(reached) {
                *count = cell.take();
            }
        });
        counts
    }

    /// How often a check was reached.
    #[must_use]
    pub fn of(&self, check: Check) -> u64 {
        self.0.get(check.index()).copied().unwrap_or(0)
    }
}

/// Notes that an oracle reached a judgement.
#[inline]
pub fn reached(check: Check) {
    REACHED.with(|reached| {
        if let Some(count) = reached.get(check.index()) {
            count.set(count.get().saturating_add(1));
        }
    });
}

/// Whether a world of this tier must reach a check.
#[must_use]
pub fn is_expected(check: Check, in_the_shell: bool) -> bool {
    let is_of_tier = check.name().starts_with("shell.") == in_the_shell;
    let is_counted = check != Check::Cost || cost::is_measured();
    check != Check::KeysUndecided && is_of_tier && is_counted
}

#[cfg(test)]
mod tests {
    use super::{Check, Checks, reached};

    #[test]
    fn checks_are_counted_for_one_run_each() {
        drop(Checks::take());
        reached(Check::Votes);
        reached(Check::Votes);
        let counts = Checks::take();
        assert_eq!((counts.of(Check::Votes), counts.of(Check::Rounds)), (2, 0));
        assert_eq!(Checks::take().of(Check::Votes), 0);
    }
}
