//! Notes which states were reached, from what oracles see.

use rondo_core::control::Record;
use rondo_core::coordination::{self, BarrierKey};
use rondo_core::dispatcher::{self, Event, Reply, Request, State};
use rondo_core::ids::{CallId, ClientId, IterationId, TaskId};
use rondo_core::relay;
use rondo_core::status::{Code, Status};
use std::collections::{BTreeMap, BTreeSet};

use crate::mark::{Mark, Tally};
use crate::oracle::{Relayed, Seen};
use crate::swarm::{CROWD_MIN, UID_OF_ANY_PROCESS};
use crate::workload::elements::OfElements;

/// Tasks of a large job.
const LARGE: usize = 64;

/// What a call asked that its answer tells something of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Split,
    Removal,
    Heartbeat,
    Holding,
}

/// Follows a run and marks what it reaches.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    asked: BTreeMap<CallId, Asked>,
    /// Gets under way, with whether a key was put since.
    gets: BTreeMap<CallId, bool>,
    /// Watches under way of those who know something.
    watches: BTreeSet<CallId>,
    /// Marks of relays that calls have borne.
    marks: BTreeSet<(u64, u64)>,
    relays: BTreeMap<u32, OfRelay>,
    /// Iterations of which somebody has received something by split, and by element.
    received: BTreeMap<IterationId, (bool, bool)>,
}

/// What is known of a relay.
#[derive(Clone, Debug, Default)]
struct OfRelay {
    /// What must not happen twice and was sent.
    sent: BTreeSet<CallId>,
    /// Calls whose clients have gone.
    alone: BTreeSet<CallId>,
    /// Whether the server has answered nothing since it was reached.
    unheard: bool,
}

impl OfRelay {
    fn took(&mut self, input: &relay::Input, tally: &mut Tally) {
        match input {
            relay::Input::Cancel { call } if self.sent.contains(call) => {
                self.alone.insert(*call);
            }
            relay::Input::Answered { call, .. } => {
                self.unheard = false;
                mark_if(self.alone.remove(call), Mark::RelayWentOn, tally);
            }
            relay::Input::Reached { .. } => self.unheard = true,
            _ => {}
        }
    }

    fn did(&mut self, effect: &relay::Effect, tally: &mut Tally) {
        match effect {
            relay::Effect::Forward { call, forwarding, .. } if forwarding.stamp.is_some() => {
                mark_if(!self.sent.insert(*call), Mark::RelaySentAgain, tally);
            }
            relay::Effect::Withdraw { .. } => tally.mark(Mark::RelayWithdrew),
            relay::Effect::Abandon { .. } => mark_if(self.unheard, Mark::RelayLostAgain, tally),
            relay::Effect::Reply { result: Err(refused), .. } => {
                mark_if(refused.message.contains("relay keeps"), Mark::RelayFull, tally);
            }
            _ => {}
        }
    }
}

/// The dispatcher has answered.
fn answered(asked: Option<&Asked>, answer: &Result<Reply, Status>, tally: &mut Tally) {
    match (asked, answer) {
        (Some(Asked::Removal), Ok(Reply::TaskRemoved(false))) => tally.mark(Mark::RemovalFailed),
        (Some(Asked::Heartbeat), Err(status)) if status.message.contains("ended") => {
            tally.mark(Mark::IterationEndedUnder);
        }
        (Some(Asked::Holding), Err(status)) if status.code == Code::Unavailable => {
            let is_groups = status.message.contains("group_size");
            mark_if(is_groups, Mark::FormerGroupRefused, tally);
        }
        _ => {}
    }
}

impl Watch {
    /// Sees something; `state` is that before it.
    pub fn see(&mut self, seen: &Seen<'_>, state: &State, tally: &mut Tally) {
        match seen {
            Seen::Taken { call, request, .. } => self.taken(*call, request, state, tally),
            Seen::Recorded { record: Record::Dispatcher(record), during, .. } => {
                of_record(record, state, tally);
                of_rare_record(record, state, tally);
                let asked = during.and_then(|call| self.asked.get(&call));
                if asked == Some(&Asked::Holding) {
                    for_reader_by_split(record, state, tally);
                }
            }
            Seen::Recorded { record: Record::Coordination(record), .. } => {
                if matches!(record, coordination::Record::PutKey { .. }) {
                    self.gets.values_mut().for_each(|put| *put = true);
                }
                of_coordination_record(record, tally);
            }
            Seen::Answered { call, answer, .. } => {
                let asked = self.asked.remove(call);
                answered(asked.as_ref(), answer, tally);
            }
            Seen::Delivered(what) => {
                let of = state.clients().get(&what.client).map(|client| client.iteration);
                self.received(of, (true, false), tally);
            }
            Seen::Elements(OfElements::Received(_, id, None)) => {
                let of = state.tasks().get(&id.task).map(|task| task.iteration);
                self.received(of, (false, true), tally);
            }
            Seen::Relay { relay, what: Relayed::Took(input), .. } => {
                self.relays.entry(*relay).or_default().took(input, tally);
            }
            Seen::Relay { relay, what: Relayed::Did(effect), .. } => {
                self.relays.entry(*relay).or_default().did(effect, tally);
            }
            Seen::Asked { call, asked, .. } => self.coordinated(*call, asked, tally),
            Seen::Told { call, answer, .. } => {
                let waited = self.gets.remove(call).unwrap_or(false);
                mark_if(waited && answer.is_ok(), Mark::GetWaited, tally);
                let anew = matches!(answer, Ok(coordination::Reply::Keys { .. }));
                mark_if(self.watches.remove(call) && anew, Mark::WatchToldAnew, tally);
            }
            Seen::Died => {
                self.gets.clear();
                self.watches.clear();
                if self.asked.values().any(|asked| *asked == Asked::Removal) {
                    tally.mark(Mark::DiedWithParkedCalls);
                }
                self.asked.clear();
            }
            _ => {}
        }
    }

    /// Somebody has received something of an iteration, by split or by element.
    fn received(&mut self, of: Option<IterationId>, by: (bool, bool), tally: &mut Tally) {
        let Some(of) = of else {
            return;
        };
        let known = self.received.entry(of).or_default();
        let before = *known;
        *known = (before.0 || by.0, before.1 || by.1);
        mark_if(*known == (true, true) && before != *known, Mark::SplitAndElementReaders, tally);
    }

    fn coordinated(&mut self, call: CallId, asked: &coordination::Call, tally: &mut Tally) {
        use coordination::Method;
        match &asked.method {
            Method::Barrier { tasks, .. } => {
                mark_if(tasks.len() >= LARGE, Mark::LargeBarrierList, tally);
            }
            Method::GetKeyValue { .. } => drop(self.gets.insert(call, false)),
            Method::WatchKeys { from: Some(_), .. } => {
                self.watches.insert(call);
            }
            _ => {}
        }
        let mark = asked.caller.stamp.map(|stamp| (stamp.relay.get(), stamp.sequence));
        let again = mark.is_some_and(|mark| !self.marks.insert(mark));
        mark_if(again, Mark::MarkedCallAgain, tally);
    }

    fn taken(&mut self, call: CallId, request: &Request, state: &State, tally: &mut Tally) {
        match request {
            Request::GetSplit { iteration, repetition, source, .. } => {
                self.asked.insert(call, Asked::Split);
                let of = state.iterations().get(iteration);
                let source = usize::try_from(*source).ok();
                let position = of.zip(source).and_then(|(of, source)| of.sources.get(source));
                if let Some(position) = position {
                    let late = *repetition < position.repetition;
                    let ahead = *repetition > position.repetition;
                    mark_if(late, Mark::LateForPass, tally);
                    mark_if(ahead && position.index > 0, Mark::PassJumped, tally);
                }
            }
            Request::HoldSplits(_) => drop(self.asked.insert(call, Asked::Holding)),
            Request::MaybeRemoveTask { .. } => drop(self.asked.insert(call, Asked::Removal)),
            Request::ClientHeartbeat(_) => drop(self.asked.insert(call, Asked::Heartbeat)),
            Request::RegisterDataset(request) => {
                let known = request.wished.as_ref();
                let known = known.is_some_and(|id| state.datasets().contains_key(id));
                mark_if(known, Mark::DatasetShared, tally);
            }
            Request::GetRegistered { dataset, .. } => {
                mark_if(state.datasets().contains_key(dataset), Mark::DatasetShared, tally);
            }
            Request::GetOrCreateJob(request) => {
                let known =
                    request.name.as_deref().is_some_and(|name| state.job_named(name).is_some());
                mark_if(known, Mark::JobShared, tally);
            }
            Request::WorkerUpdate { worker_address, progress } => {
                let foreign = |(id, is_over): &(TaskId, bool)| {
                    let task = state.tasks().get(id).filter(|task| *is_over && !task.finished);
                    let worker = task.and_then(|task| state.workers().get(&task.worker));
                    worker.is_some_and(|worker| *worker.address != **worker_address)
                };
                mark_if(progress.iter().any(foreign), Mark::ForeignTaskReported, tally);
            }
            Request::DisableCompression { dataset, .. } => {
                let known = state.datasets().get(dataset);
                let decided = known.is_some_and(|dataset| dataset.compression_disabled.is_some());
                mark_if(decided, Mark::CompressionAskedAgain, tally);
            }
            _ => {}
        }
    }
}

fn mark_if(reached: bool, mark: Mark, tally: &mut Tally) {
    if reached {
        tally.mark(mark);
    }
}

fn of_record(record: &dispatcher::Record, state: &State, tally: &mut Tally) {
    use dispatcher::Record as R;
    let mark = match record {
        R::ProduceSplit { finished: true, .. } => Mark::PassEnded,
        R::ProduceSplit { task: None, .. } => Mark::SplitUnattributed,
        R::RepeatSplit { .. } => Mark::SplitRepeated,
        R::CreatePendingTask { iteration, worker, .. } => {
            let had =
                state.tasks().values().any(|t| t.iteration == *iteration && t.worker == *worker);
            let known = state.workers().contains_key(worker);
            mark_if(known && !had, Mark::TaskGivenUpReplaced, tally);
            Mark::TaskPending
        }
        R::RejectRound { iteration, .. } => {
            let front = state.iterations().get(iteration).and_then(|of| of.pending.front());
            mark_if(front.is_some_and(|front| front.failures > 0), Mark::RoundRejectedTwice, tally);
            Mark::RoundRejected
        }
        R::AcquireClient { iteration, .. } => {
            let of = state.iterations().get(iteration);
            mark_if(of.is_some_and(|of| !of.clients.is_empty()), Mark::IterationShared, tally);
            return;
        }
        R::CreateTask { iteration, .. } => {
            let of = state.iterations().get(iteration);
            let again = of.is_some_and(|of| !of.splits.again.is_empty());
            mark_if(again, Mark::ReaderMade, tally);
            return;
        }
        R::FinishTask { .. } => Mark::IterationFinished,
        R::FinishIteration { .. } => Mark::ReadToTheEnd,
        R::HoldSplits { client, taken, group_size, .. } => {
            return of_holding(*client, taken, *group_size, state, tally);
        }
        R::CollectIteration { .. } => Mark::IterationCollected,
        R::FreeIteration { .. } => Mark::IterationFreed,
        R::FreeJob { .. } => Mark::JobFreed,
        R::RetireJob { .. } => Mark::JobRetired,
        R::AbandonIteration { .. } => Mark::IterationAbandoned,
        R::FreeWorker { .. } => Mark::WorkerFreed,
        R::DeleteJob { .. } => Mark::JobDeleted,
        R::RaiseIds { .. } => Mark::IdsRaised,

        R::CreateJob { name, .. } => {
            mark_if(state.retired().get(name).is_some(), Mark::JobBack, tally);
            return;
        }
        R::FreeDataset { .. } => Mark::DatasetFreed,
        R::CreateFinishedIteration { .. } => Mark::FinishedAskedAgain,
        R::ResumeIteration { .. } => Mark::IterationResumed,
        R::SavePosition { .. } => Mark::PositionSaved,
        R::RestorePosition { .. } => Mark::PositionRestored,
        R::RestartTasks { .. } => Mark::WorkerReborn,
        _ => return,
    };
    tally.mark(mark);
}

fn of_holding(client: ClientId, taken: &[u64], group_size: u32, state: &State, tally: &mut Tally) {
    let of = state.clients().get(&client).map(|client| client.iteration);
    let of = of.and_then(|of| state.iterations().get(&of));
    let size = of.and_then(|of| of.by_split.group_size);
    let is_other = !taken.is_empty() && size.is_some_and(|size| size != group_size);
    mark_if(is_other, Mark::GroupOfAnotherSize, tally);
    let begun = |place: &u64| {
        let waiting = of.and_then(|of| of.by_split.waiting.get(place));
        waiting.is_some_and(|records| *records > 0)
    };
    mark_if(taken.iter().any(begun), Mark::SplitGoneOnWith, tally);
}

/// Marks what only wider worlds bring.
fn of_rare_record(record: &dispatcher::Record, state: &State, tally: &mut Tally) {
    use dispatcher::Record as R;
    match record {
        R::ReplaceDataset { name, .. } => {
            let is_read = state.jobs().values().any(|job| job.dataset == *name);
            mark_if(is_read, Mark::DatasetReplaced, tally);
        }
        R::TakeBackSplit { .. } => tally.mark(Mark::SplitTakenBack),
        R::HandOutWaiting { .. } => tally.mark(Mark::SplitGivenUpToWorker),
        R::RestartTasks { worker, .. } => {
            let uid = state.workers().get(worker).map(|worker| worker.profile.uid);
            mark_if(uid == Some(UID_OF_ANY_PROCESS), Mark::StockWorkerReborn, tally);
        }
        R::RemoveTask { id, .. } => {
            let of = state.tasks().get(id).and_then(|it| state.iterations().get(&it.iteration));
            let consumers = of.and_then(|of| state.jobs().get(&of.job)?.consumers);
            let is_crowd = consumers.is_some_and(|count| count >= i64::from(CROWD_MIN));
            mark_if(is_crowd, Mark::CrowdGaveUpTask, tally);
        }
        _ => {}
    }
}

/// Marks what happens to tasks and their splits while a reader by split is served.
fn for_reader_by_split(record: &dispatcher::Record, state: &State, tally: &mut Tally) {
    use dispatcher::Record as R;
    match record {
        R::CreateTask { .. } => tally.mark(Mark::TaskMadeBySplit),
        R::RemoveTask { again: true, .. } => tally.mark(Mark::SplitsRecalled),
        R::HoldSplits { client, taken, .. } => {
            let of = state.clients().get(client).map(|client| client.iteration);
            let of = of.and_then(|of| state.iterations().get(&of));
            let again = of.is_some_and(|of| !of.splits.again.is_empty());
            let is_waiting =
                |place: &u64| of.is_some_and(|of| of.by_split.waiting.contains_key(place));
            let before = of.and_then(|of| of.sources.first()).map_or(0, |source| source.index);
            let mut handed_out =
                taken.iter().filter(|place| **place < before && !is_waiting(place));
            mark_if(again && handed_out.next().is_some(), Mark::SplitOfWorkerHeld, tally);
        }
        _ => {}
    }
}

/// Marks what the coordination service itself tells.
pub fn of_coordination_event(event: &coordination::Event, tally: &mut Tally) {
    use coordination::Event as E;
    let mark = match event {
        E::LifeBegun { life: 1, .. } | E::NoProgress { .. } | E::ProgressAgain { .. } => return,
        E::LifeBegun { .. } => Mark::LifeBegunAnew,
        E::SizeLearnt { .. } => Mark::SizeLearnt,
        E::RelaysForgotten { .. } => Mark::RelayForgotten,
        E::AllRegistered { .. } => Mark::AllRegistered,
        E::TaskReturned { .. } => Mark::TaskReturned,
        E::TaskFailed { .. } => Mark::TaskFailed,
        E::TaskLeft { .. } => Mark::TaskLeft,
        E::ErrorSpread { .. } => Mark::ErrorSpread,
        E::BarrierFailed { .. } => Mark::BarrierFailed,
        E::HeldUp { .. } => Mark::HeldUp,
    };
    tally.mark(mark);
}

/// Marks what a relay itself tells.
pub fn of_relay_event(event: &relay::Event, tally: &mut Tally) {
    let mark = match event {
        relay::Event::HeartbeatAnswered { .. } => Mark::RelayStoodIn,
        relay::Event::GaveUp { .. } => Mark::RelayGaveUp,
        relay::Event::LifeChanged { .. } => Mark::RelayLifeChanged,
        _ => return,
    };
    tally.mark(mark);
}

fn of_coordination_record(record: &coordination::Record, tally: &mut Tally) {
    use coordination::Record as R;
    match record {
        R::EndLeases { .. } => tally.mark(Mark::LeasesEnded),
        R::EndBarrier { barrier: BarrierKey::Named(_), fault: None, .. } => {
            tally.mark(Mark::BarrierPassed);
        }
        _ => {}
    }
}

/// Marks what the node itself tells.
pub fn of_event(event: &Event, tally: &mut Tally) {
    let mark = match event {
        Event::WorkerLost { .. } => Mark::WorkerLost,
        Event::WorkerReturned { .. } => Mark::WorkerReturned,
        Event::ClientExpired { .. } => Mark::ClientExpired,
        Event::TaskPromoted { .. } => Mark::TaskPromoted,
        Event::TaskRemoved { .. } => Mark::TaskRemoved,
        Event::SplitsLost { .. } | Event::LaterPassesLost { .. } => Mark::SplitsLost,
        Event::SplitsGivenUp { .. } => Mark::SplitsGivenUp,
        _ => return,
    };
    tally.mark(mark);
}
