//! States that must be reached in some run ("sometimes"), and what happened how often.

use crate::checks::Checks;
use crate::fault::Fault;
use crate::named::named;

named! {
    /// Something that must be true in some run of a long swarm. Every kind of fault is such a
    /// thing too.
    Mark {
        // Crashes.
        /// The node died with records written that were not durable.
        DiedWithUnsynced = "died-with-unsynced",
        /// The node died between writing a group and asking for its sync.
        DiedBetweenAppendAndSync = "died-between-append-and-sync",
        /// The node died with everything durable and answers not yet out.
        DiedBetweenSyncAndReply = "died-between-sync-and-reply",
        /// The node died with calls waiting for consumers to agree.
        DiedWithParkedCalls = "died-with-parked-calls",
        /// The node died while a snapshot was built.
        DiedWhileCompacting = "died-while-compacting",
        /// Recovery was killed three times in a row.
        RecoveryKilledThrice = "recovery-killed-thrice",
        /// Recovery began with a snapshot.
        RecoveredFromSnapshot = "recovered-from-snapshot",
        /// Recovery read several segments.
        RecoveredFromSegments = "recovered-from-segments",
        /// Recovery cut something off the journal's end.
        TailCut = "tail-cut",
        /// Recovery kept records that nobody was told of.
        UntoldKept = "untold-kept",
        /// A start was refused because of damage, and the damage was real.
        DamageRefused = "damage-refused",
        /// A damaged bit made no difference.
        DamageHarmless = "damage-harmless",
        /// A power cut took acknowledged records of a disk that had lied.
        LieLostAcknowledged = "lie-lost-acknowledged",
        // Journal.
        /// A group held several records.
        GroupOfMany = "group-of-many",
        /// A segment was closed.
        SegmentClosed = "segment-closed",
        /// A snapshot took over.
        SnapshotSwitched = "snapshot-switched",
        /// Updates were refused because the disk was full.
        UpdatesRefused = "updates-refused",
        /// The journal took records again.
        UpdatesAccepted = "updates-accepted",
        /// The node halted after a failed sync.
        HaltedAfterSync = "halted-after-sync",
        /// A lease of a worker ended while the node was down or standing still.
        LeaseEndedWhileAway = "lease-ended-while-away",
        // The dispatcher.
        /// A dataset was registered again.
        DatasetShared = "dataset-shared",
        /// A job was joined by name.
        JobShared = "job-shared",
        /// A repetition was joined by a second client.
        IterationShared = "iteration-shared",
        /// An iteration ended.
        IterationFinished = "iteration-finished",
        /// A worker said that another worker's task is over, and the task went on.
        ForeignTaskReported = "foreign-task-reported",
        /// An iteration was collected.
        IterationCollected = "iteration-collected",
        /// An iteration was freed.
        IterationFreed = "iteration-freed",
        /// A job was freed.
        JobFreed = "job-freed",
        /// A named job of which something was read was freed, and its name is remembered.
        JobRetired = "job-retired",
        /// A freed job was asked for again, and what was read of it is known.
        JobBack = "job-back",
        /// An iteration was abandoned.
        IterationAbandoned = "iteration-abandoned",
        /// A lost worker was forgotten.
        WorkerFreed = "worker-freed",
        /// A job was deleted.
        JobDeleted = "job-deleted",
        /// The ids of a new journal began above a number.
        IdsRaised = "ids-raised",
        /// A dataset was replaced, and a job reads its first version.
        DatasetReplaced = "dataset-replaced",
        /// A dataset was freed.
        DatasetFreed = "dataset-freed",
        /// A repetition was asked for that had been finished and freed.
        FinishedAskedAgain = "finished-asked-again",
        /// A silent client was released.
        ClientExpired = "client-expired",
        /// A worker was lost.
        WorkerLost = "worker-lost",
        /// A lost worker came back.
        WorkerReturned = "worker-returned",
        /// A worker came back in another process.
        WorkerReborn = "worker-reborn",
        /// A worker was lost with splits.
        SplitsLost = "splits-lost",
        /// A lost split was handed out again.
        SplitRepeated = "split-repeated",
        /// A task was made only to read what a lost one had.
        ReaderMade = "reader-made",
        /// A pass over a source ended.
        PassEnded = "pass-ended",
        /// A pass ended early because somebody went on.
        PassJumped = "pass-jumped",
        /// A split was asked for after its pass.
        LateForPass = "late-for-pass",
        /// A split went to nobody known.
        SplitUnattributed = "split-unattributed",
        /// A task was to be agreed on.
        TaskPending = "task-pending",
        /// Consumers agreed on a round.
        TaskPromoted = "task-promoted",
        /// A proposed round was too early.
        RoundRejected = "round-rejected",
        /// A proposed round was refused twice for one task.
        RoundRejectedTwice = "round-rejected-twice",
        /// Consumers gave a task up together.
        TaskRemoved = "task-removed",
        /// A vote to give a task up failed.
        RemovalFailed = "removal-failed",
        /// A worker whose task was given up got another one.
        TaskGivenUpReplaced = "task-given-up-replaced",
        /// A consumer finished a round while another one stood still.
        RoundBesidePause = "round-beside-pause",
        /// A position was saved while splits were handed out.
        PositionSaved = "position-saved",
        /// A position was restored.
        PositionRestored = "position-restored",
        /// An iteration began at a position.
        IterationResumed = "iteration-resumed",
        /// A client learnt that its iteration was ended.
        IterationEndedUnder = "iteration-ended-under",
        /// Splits that a reader held went to others.
        SplitsGivenUp = "splits-given-up",
        /// Readers read an iteration to its end.
        ReadToTheEnd = "read-to-the-end",
        /// A split that somebody had begun was gone on with.
        SplitGoneOnWith = "split-gone-on-with",
        /// A compression switch was decided twice.
        CompressionAskedAgain = "compression-asked-again",
        /// A definition was a blob, and forgotten.
        BlobForgotten = "blob-forgotten",
        /// A reader was closed before the end.
        ReaderClosed = "reader-closed",
        /// A reader was closed while it joined.
        ReaderClosedWhileJoining = "reader-closed-while-joining",
        /// What a reader's application had consumed was acknowledged when it asked for that.
        ReaderFlushed = "reader-flushed",
        /// A group that reads by split began anew with another size.
        GroupResized = "group-resized",
        /// Readers of a group of another size took splits of an iteration.
        GroupOfAnotherSize = "group-of-another-size",
        /// A reader was put off, since readers of a group of another size may hold splits.
        FormerGroupRefused = "former-group-refused",
        /// A reader by split and a reader by element have both received something of one iteration.
        SplitAndElementReaders = "split-and-element-readers",
        /// A worker got a task for the sake of a reader by split.
        TaskMadeBySplit = "task-made-by-split",
        /// A worker's task was removed for readers by split, and they get its splits.
        SplitsRecalled = "splits-recalled",
        /// A worker got a split that readers by split had given up.
        SplitGivenUpToWorker = "split-given-up-to-worker",
        /// A reader by split took a split that a worker had taken before.
        SplitOfWorkerHeld = "split-of-worker-held",
        /// A reader has left, and the dispatcher did not say that it knows what was consumed last.
        ReaderLeftUnheard = "reader-left-unheard",
        /// A reader that began anew ended the one before it, and was told how far that one came.
        ReaderEnded = "reader-ended",
        // The coordination service.
        /// All tasks of a job registered.
        AllRegistered = "all-registered",
        /// A job's size was learnt.
        SizeLearnt = "size-learnt",
        /// A relay was silent for so long that it was forgotten.
        RelayForgotten = "relay-forgotten",
        /// A namespace began another life than its first.
        LifeBegunAnew = "life-begun-anew",
        /// A job of another size followed the one before.
        JobOfAnotherSize = "job-of-another-size",
        /// A task that does other things sent no heartbeat for longer than it may.
        TaskQuiet = "task-quiet",
        /// The node stood still as it does again and again.
        NodeStalledAgain = "node-stalled-again",
        /// A task of a large job named all tasks at a barrier.
        LargeBarrierList = "large-barrier-list",
        /// An application shut its agent down.
        AgentShutDown = "agent-shut-down",
        /// An application reset its agent.
        AgentReset = "agent-reset",
        /// An application set an error while its agent registered.
        AgentErrorWhileConnecting = "agent-error-while-connecting",
        /// A call of an agent was lost on its way to the service.
        AgentCallLost = "agent-call-lost",
        /// The service's answer to an agent was lost on its way back.
        AgentAnswerLost = "agent-answer-lost",
        /// A heartbeat of an agent was lost, and the next one was answered.
        AgentBeatAfterLoss = "agent-beat-after-loss",
        /// An application asked its agent again for what it had cancelled.
        AgentAskedAgain = "agent-asked-again",
        /// An agent told its application of changes of a watched key.
        AgentToldOfChanges = "agent-told-of-changes",
        /// A task came back with another incarnation.
        TaskReturned = "task-returned",
        /// A task was set to error.
        TaskFailed = "task-failed",
        /// A task left.
        TaskLeft = "task-left",
        /// An error was spread to all who poll.
        ErrorSpread = "error-spread",
        /// A barrier failed.
        BarrierFailed = "barrier-failed",
        /// Tasks met at a barrier.
        BarrierPassed = "barrier-passed",
        /// The service was held up, and blamed nobody for it.
        HeldUp = "held-up",
        /// Keys went with the task they were leased to.
        LeasesEnded = "leases-ended",
        /// A marked call came again, and happened once.
        MarkedCallAgain = "marked-call-again",
        /// A get that waited got its value.
        GetWaited = "get-waited",
        /// The keys of a watch were told anew, since too little is remembered.
        WatchToldAnew = "watch-told-anew",
        // Relays.
        /// What must not happen twice was sent again by a relay.
        RelaySentAgain = "relay-sent-again",
        /// A relay answered a heartbeat in the server's place.
        RelayStoodIn = "relay-stood-in",
        /// A relay's patience with its server ran out.
        RelayGaveUp = "relay-gave-up",
        /// A relay's server was away again before it had answered anything.
        RelayLostAgain = "relay-lost-again",
        /// What must not happen twice came to its end although its client had gone.
        RelayWentOn = "relay-went-on",
        /// A relay's server came back with another life.
        RelayLifeChanged = "relay-life-changed",
        /// A relay refused a call because a bound was reached.
        RelayFull = "relay-full",
        /// A relay died with calls under way.
        RelayDiedWithCalls = "relay-died-with-calls",
        /// A server that went ended calls of relays with a status of its own.
        ServerEndedCalls = "server-ended-calls",
        /// A task that has left sent a heartbeat.
        TaskLingered = "task-lingered",
        /// A relay told its server that nobody waits for a call any more.
        RelayWithdrew = "relay-withdrew",
        // Reading by element.
        /// A reader by element has read all there was.
        ReadByElement = "read-by-element",
        /// A coordinated read by element came to its last round.
        ReadInRounds = "read-in-rounds",
        /// An element went back since nobody waited for it any more.
        ElementPutBack = "element-put-back",
        /// An element was lost on its way to a reader.
        ElementLost = "element-lost",
        /// A worker stopped in order.
        WorkerStoppedInOrder = "worker-stopped-in-order",
        /// A worker stopped with elements that nobody fetched.
        ElementsLeftBehind = "elements-left-behind",
        // The rendezvous.
        /// A tensor went to somebody who waited for it.
        TensorWaitedFor = "tensor-waited-for",
        /// A tensor was there before anybody wanted it.
        TensorWasThere = "tensor-was-there",
        /// A dead tensor was received.
        DeadTensorReceived = "dead-tensor-received",
        /// What was asked before its step was initialised was carried out then.
        AskedBeforeInitialised = "asked-before-initialised",
        /// Calls before its step was initialised ended with it.
        CleanedUpBeforeInitialised = "cleaned-up-before-initialised",
        /// A step was cleaned up while somebody waited in it.
        CleanedUpUnderWaiters = "cleaned-up-under-waiters",
        /// A receiver was told that its step was aborted.
        ToldOfAbort = "told-of-abort",
        /// A step was aborted by a tensor that was taken on before it was initialised.
        AbortedByWhatWasTakenOn = "aborted-by-what-was-taken-on",
        /// A step that nobody cleaned up was given up.
        StepExpired = "step-expired",
        /// A receive was given up.
        ReceiveCancelled = "receive-cancelled",
        /// A receiver waited for as long as it would.
        ReceiveTimedOut = "receive-timed-out",
        /// A sender was refused for want of room.
        SenderRefused = "sender-refused",
        /// A sender that waited for room was taken on.
        SenderGotRoom = "sender-got-room",
        /// A tensor came from another worker.
        TensorFetched = "tensor-fetched",
        /// A tensor was asked for again because its worker was away.
        TensorFetchedAgain = "tensor-fetched-again",
        /// The rest of a tensor was asked for on another connection.
        TensorResumed = "tensor-resumed",
        /// A tensor was lost with its connection, by a worker that keeps none.
        TensorLost = "tensor-lost",
        /// A worker was away for longer than its receivers wait.
        PeerAwayTooLong = "peer-away-too-long",
        /// A receiver was told that its source is another run of a worker.
        OtherIncarnation = "other-incarnation",
        /// A request came again and was answered as the first time.
        RequestAnsweredAgain = "request-answered-again",
        /// A request came again and was refused.
        RequestRefusedAgain = "request-refused-again",
        /// All steps were over, and nothing was left of any.
        RendezvousEmptied = "rendezvous-emptied",
        // The exchange.
        /// A request was completed, and told to who waited for it.
        ExchangeCompleted = "exchange-completed",
        /// A request was completed without a server that was lost.
        ExchangeDidWithout = "exchange-did-without",
        /// A request failed because a server was lost.
        ExchangeServerLost = "exchange-server-lost",
        /// Somebody waited for a request for as long as he would.
        ExchangeWaitedTooLong = "exchange-waited-too-long",
        /// Requests went on over another connection.
        ExchangeGoesOn = "exchange-goes-on",
        /// A request was sent when a server had released what another one pushed.
        ExchangeGotCredit = "exchange-got-credit",
        /// A batch had a unit of each worker.
        ExchangeBatchOfAll = "exchange-batch-of-all",
        /// A batch had units of some workers.
        ExchangeBatchOfSome = "exchange-batch-of-some",
        /// A batch of those that take part was wanted.
        ExchangeUpMembersOnly = "exchange-up-members-only",
        /// A call for a batch failed because a worker was lost.
        ExchangeBatchFailed = "exchange-batch-failed",
        /// What a unit pushed was released before it was answered.
        ExchangeReleased = "exchange-released",
        /// A unit was answered twice, and that was refused.
        ExchangeAnsweredTwice = "exchange-answered-twice",
        /// A unit was answered whose worker was lost.
        ExchangeOrphanAnswered = "exchange-orphan-answered",
        /// A barrier was passed.
        ExchangeBarrierPassed = "exchange-barrier-passed",
        /// One of each group met.
        ExchangeGroupsMet = "exchange-groups-met",
        /// A barrier failed because somebody was lost.
        ExchangeBarrierFailed = "exchange-barrier-failed",
        /// A process was lost.
        ExchangeProcessLost = "exchange-process-lost",
        /// A process began again.
        ExchangeProcessReturned = "exchange-process-returned",
        /// A process left.
        ExchangeProcessLeft = "exchange-process-left",
        /// Another run of a process took its rank.
        ExchangeRankTaken = "exchange-rank-taken",
        /// A process that lives was given up.
        ExchangeGivenUp = "exchange-given-up",
        /// The scheduler began again.
        ExchangeSchedulerReturned = "exchange-scheduler-returned",
        /// A scheduler learnt from processes who takes part.
        ExchangeRebuilt = "exchange-rebuilt",
        /// A process found the scheduler again.
        ExchangeSchedulerBack = "exchange-scheduler-back",
        /// All requests were over, and nothing was left of any.
        ExchangeQuiet = "exchange-quiet",
        /// All had left, and nothing was left.
        ExchangeEnded = "exchange-ended",
        // Several things at once.
        /// Two partitions overlapped.
        PartitionsOverlapped = "partitions-overlapped",
        /// A worker was lost while the node refused updates.
        FullWhileSilent = "full-while-silent",
        /// The node died while a machine stood still.
        DiedBesidePause = "died-beside-pause",
        /// A call was cancelled whose answer was under way.
        CancelledTooLate = "cancelled-too-late",
        /// A run healed with somebody cut off for ever.
        HealedInPart = "healed-in-part",
        /// After everybody had gone nothing was left.
        NothingLeft = "nothing-left",
        // The node comes back otherwise than it went.
        /// Somebody named what only the replaced disk had known, and was told that it is not there.
        FormerLifeRefused = "former-life-refused",
        /// A client that joined after the disk was replaced has read its iteration to the end.
        IterationAfterEmptyDisk = "iteration-after-empty-disk",
        /// Other settings were used over a snapshot.
        OtherSettingsOverSnapshot = "other-settings-over-snapshot",
        /// A start was refused because a sector came wrong.
        MisreadRefused = "misread-refused",
        // Wider worlds.
        /// A process that says no uid of its own was known by what it runs, after a restart in place.
        StockWorkerReborn = "stock-worker-reborn",
        /// A split whose caller left before the answer did went back.
        SplitTakenBack = "split-taken-back",
        /// Sixteen consumers or more agreed to give a task up.
        CrowdGaveUpTask = "crowd-gave-up-task",
        /// A worker answered while consumers voted to give its task up, and the task stayed.
        HeldAnswerTaken = "held-answer-taken",
        /// A worker answered while consumers voted to give its task up, and all did.
        HeldAnswerLetGo = "held-answer-let-go",
        /// A call was cancelled while the disk was full.
        CancelledWhileFull = "cancelled-while-full",
        /// After the server's process was held up its timers ran out before it read anything.
        TimersFirst = "timers-first",
        /// A note of acknowledged records of a former boot named records that the journal does not have.
        NewerNoteOfFormerBoot = "newer-note-of-former-boot",
    }
}

/// How often each thing happened.
#[derive(Clone, Debug)]
pub struct Tally {
    /// How often oracles judged.
    pub checks: Checks,
    faults: [u64; Fault::COUNT],
    marks: [u64; Mark::COUNT],
}

impl Default for Tally {
    fn default() -> Self {
        Self { checks: Checks::default(), faults: [0; Fault::COUNT], marks: [0; Mark::COUNT] }
    }
}

impl Tally {
    /// The same with these judgements of oracles.
    #[must_use]
    pub fn with(self, checks: Checks) -> Self {
        Self { checks, ..self }
    }

    /// Notes that a fault struck.
    #[inline]
    pub fn fault(&mut self, fault: Fault) {
        if let Some(count) = self.faults.get_mut(fault.index()) {
            *count = count.saturating_add(1);
        }
    }

    /// Notes that a state was reached.
    #[inline]
    pub fn mark(&mut self, mark: Mark) {
        if let Some(count) = self.marks.get_mut(mark.index()) {
            *count = count.saturating_add(1);
        }
    }

    /// How often a fault struck.
    pub fn of_fault(&self, fault: Fault) -> u64 {
        self.faults.get(fault.index()).copied().unwrap_or(0)
    }

    /// How often a state was reached.
    pub fn of_mark(&self, mark: Mark) -> u64 {
        self.marks.get(mark.index()).copied().unwrap_or(0)
    }

    /// Everything with its count: faults first.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let faults = Fault::ALL.iter().map(|fault| (fault.name(), self.of_fault(*fault)));
        faults.chain(Mark::ALL.iter().map(|mark| (mark.name(), self.of_mark(*mark))))
    }
}
