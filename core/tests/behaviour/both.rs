//! The real dispatcher and the model side by side, through one history.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::control::{Health, Record};
use rondo_core::dispatcher::{ClientHeartbeatReply, Config, Reply, Request};
use rondo_core::ids::{CallId, Lsn};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::asking;
use crate::driver::{Answer, Driver, Journal};
use crate::happening::{At, Happening};
use crate::model::splitting::Holder;
use crate::model::{Heard, Job, Kept, Model};
use crate::world;

/// How often things happened over all histories, so that a test that reaches nothing is seen.
pub(crate) type Reached = BTreeMap<&'static str, u64>;

pub(crate) struct Both<'a> {
    real: Driver,
    model: Model,
    config: Config,
    /// What the model kept at each position of the journal.
    kept: Vec<(Lsn, Kept)>,
    /// What calls should hear that have not been answered yet.
    expected: BTreeMap<CallId, Heard>,
    /// What those calls ask.
    asked: BTreeMap<CallId, Request>,
    /// What may be given out only once.
    given: BTreeSet<String>,
    reached: &'a mut Reached,
}

impl<'a> Both<'a> {
    pub(crate) fn start(config: Config, reached: &'a mut Reached) -> Self {
        let real = Driver::with(config.clone());
        let model = Model::start(config.clone(), Kept::default(), real.now);
        let kept = vec![(Lsn::NONE, Kept::default())];
        Self {
            real,
            model,
            config,
            kept,
            expected: BTreeMap::new(),
            asked: BTreeMap::new(),
            given: BTreeSet::new(),
            reached,
        }
    }

    pub(crate) fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Cancel { call } => {
                self.cancel(*call);
            }
            Happening::Advance { millis } => self.advance(*millis),
            Happening::Wait { millis } => self.wait(*millis),
            Happening::Sync { upto } => {
                let upto = *upto.get(&self.real.crash_points());
                self.real.sync_upto(upto);
            }
            Happening::Journal { kind } => self.set_journal(*kind),
            Happening::MakeRoom => self.make_room(),
            Happening::Crash { upto } => self.crash(*upto),
            Happening::FailSync { upto } => {
                let stopped = self.model.waiting().into_iter();
                self.expected.extend(stopped.map(|call| (call, Err(Code::Unavailable))));
                self.real.fail_sync();
                self.hear();
                assert!(self.expected.is_empty(), "not told: {:?}", self.expected);
                self.crash(*upto);
            }
            asked => {
                let request = asking::request(&self.model.kept, asked);
                // The dispatcher's service asks this before each registration.
                if let Some(first) = asking::without_definition(&request) {
                    self.ask(first);
                }
                self.ask(request);
            }
        }
        self.hear();
        self.remember();
    }

    /// A caller goes that waits for others, or for a split to be durable.
    fn cancel(&mut self, at: At) {
        let mut waiting = self.model.waiting();
        let voting = waiting.len();
        let splits = self.expected.iter();
        let splits = splits.filter(|(_, heard)| matches!(heard, Ok(Reply::Split(Some(_)))));
        waiting.extend(splits.map(|(call, _)| *call));
        if waiting.is_empty() {
            return;
        }
        let which = at.index(waiting.len());
        let call = waiting[which];
        match which < voting {
            true => {
                self.model.cancel(call);
                self.mark("cancelled");
            }
            false => {
                self.model.lose_caller(call, self.refuses());
                self.expected.remove(&call);
                self.asked.remove(&call);
                self.mark("split taken back");
            }
        }
        self.real.cancel(call);
    }

    /// Ends the history, and says what is in the journal then.
    pub(crate) fn end(mut self) -> Vec<Record> {
        self.audit();
        self.real.into_journal()
    }

    /// Asks for everything once more, so that nothing the history did goes unseen.
    fn audit(&mut self) {
        self.make_room();
        self.real.sync();
        self.hear();
        let kept = self.model.kept.clone();
        for client in kept.clients.keys() {
            self.ask(world::client(*client));
        }
        for worker in &kept.workers {
            self.ask(Request::WorkerHeartbeat(worker.clone()));
        }
        for iteration in &kept.iterations {
            for source in 0..iteration.sources.len() {
                self.ask(world::split(iteration.id, 0, source as i64));
            }
        }
        for dataset in kept.datasets.into_keys() {
            self.ask(Request::DisableCompression { dataset, disable: true });
        }
        // The journal may have been full without anybody having noticed.
        self.make_room();
        self.real.sync();
        self.hear();
        let unheard = self.expected.keys().filter(|call| !self.model.waiting().contains(call));
        assert_eq!(unheard.count(), 0, "calls without an answer: {:?}", self.expected);
    }

    fn ask(&mut self, request: Request) {
        let refuses = self.refuses();
        let before = (self.model.clone(), self.real.node.last());
        let call = self.real.send(request.clone());
        self.asked.insert(call, request.clone());
        let heard = self.model.request(self.real.now, call, &request, refuses);
        self.expected.extend(heard);
        let changed = self.model.kept != before.0.kept;
        self.note_readers(&before.0.kept);
        if self.model.kept.lost.len() < before.0.kept.lost.len() {
            self.mark("worker back");
        }
        for (mark, kept) in [
            ("resumed", self.model.kept.resumed > before.0.kept.resumed),
            ("recalled", self.model.kept.recalled > before.0.kept.recalled),
            ("job came back", self.model.kept.came_back > before.0.kept.came_back),
            ("dataset replaced", self.model.kept.later_versions() > before.0.kept.later_versions()),
            ("seen finished", self.model.kept.seen_finished > before.0.kept.seen_finished),
        ] {
            if kept {
                self.mark(mark);
            }
        }
        assert_eq!(changed, self.real.node.last() > before.1, "who records {request:?}?");
        if let (false, Some(answer)) = (changed, self.real.peek(call)) {
            let answer = answer.clone();
            self.check_shows_only_durable(before.0, call, &request, &answer);
        }
        self.hear();
        self.remember();
    }

    /// An answer given at once must be the one that the durable state gives.
    fn check_shows_only_durable(
        &self,
        mut ghost: Model,
        call: CallId,
        request: &Request,
        answer: &Answer,
    ) {
        let answer = answer.clone().map_err(|status| status.code);
        // That no dataset has an id promises nothing: a registration follows.
        if matches!(answer, Err(Code::Unavailable) | Ok(Reply::NotRegistered)) {
            return;
        }
        let durable = self.real.durable();
        let then = self.kept.iter().rev().find(|(lsn, _)| *lsn <= durable).unwrap();
        ghost.kept = then.1.clone();
        let heard = ghost.request(self.real.now, call, request, false);
        let promises = matches!(request, Request::WorkerUpdate { .. });
        assert!(
            !promises || ghost.kept == then.1,
            "{request:?} is acknowledged, and a crash now would undo what it tells"
        );
        if ghost.kept == then.1
            && let Some((_, heard)) = heard.first()
            && !gives_fewer_orders(&answer, heard)
        {
            assert_eq!(answer, *heard, "{request:?} shows what may yet be lost");
        }
    }

    /// Compares all answers that have come with what should be heard.
    fn hear(&mut self) {
        for (call, answer) in self.real.take_all() {
            let expected = self.expected.remove(&call);
            let expected = expected.unwrap_or_else(|| panic!("{call} should wait: {answer:?}"));
            let answer = answer.map_err(|status| status.code);
            if answer == Err(Code::Unavailable) && self.may_be_unavailable() {
                self.mark("unavailable");
                continue;
            }
            let request = self.asked.remove(&call).expect("an answer to nothing");
            assert_eq!(answer, expected, "{request:?}");
            self.check_given_once(&request, &answer);
            match (&request, &answer) {
                (Request::GetRegistered { .. }, Ok(Reply::Dataset(_))) => {
                    self.mark("registered dataset found");
                }
                (Request::SavePosition { .. }, Ok(_)) => self.mark("position saved"),
                (Request::RestorePosition { .. }, Ok(_)) => self.mark("position restored"),
                _ => {}
            }
            self.take_note(&answer);
        }
    }

    fn may_be_unavailable(&self) -> bool {
        let unsynced = self.real.node.durable() < self.real.node.last();
        self.real.halted.is_some() || self.refuses() && unsynced
    }

    fn refuses(&self) -> bool {
        matches!(self.real.node.health(), Health::RefusingUpdates(_))
    }

    fn take_note(&mut self, answer: &Heard) {
        match answer {
            Ok(Reply::Client(_)) => self.mark("joined"),
            Ok(Reply::Split(Some(_))) => self.mark("split"),
            Ok(Reply::Split(None)) => self.mark("end of splits"),
            Ok(Reply::TaskRemoved(true)) => self.mark("removed"),
            Ok(Reply::TaskRemoved(false)) => self.mark("not removed"),
            Ok(Reply::WorkerHeartbeat(reply)) if !reply.tasks_to_delete.is_empty() => {
                self.mark("task told off");
            }
            Ok(Reply::ClientHeartbeat(reply)) => self.note_list(reply),
            Ok(Reply::SplitsHeld(held)) => {
                let begun = held.splits.iter().any(|split| split.records > 0);
                self.mark(if begun { "begun split held" } else { "held" });
                if held.finished {
                    self.mark("read to the end");
                }
            }
            Ok(Reply::PositionDeleted) => self.mark("position deleted"),
            Ok(Reply::JobDeleted) => self.mark("job deleted"),
            Ok(Reply::DatasetDeleted) => self.mark("dataset deleted"),
            Ok(Reply::WorkerRemoved) => self.mark("worker removed"),
            Ok(_) => self.mark("other answer"),
            Err(Code::NotFound) => self.mark("not found"),
            Err(Code::InvalidArgument) => self.mark("invalid"),
            Err(Code::FailedPrecondition) => self.mark("failed precondition"),
            Err(Code::Unimplemented) => self.mark("unsplittable"),
            Err(_) => self.mark("other refusal"),
        }
    }

    fn note_list(&mut self, reply: &ClientHeartbeatReply) {
        if reply.tasks.iter().any(|task| task.starting_round > 0) {
            self.mark("promoted");
        }
        if reply.block_round.is_some() {
            self.mark("asked to block");
        }
        if reply.iteration_finished {
            self.mark("finished");
        }
    }

    /// Ids that are new and splits of one pass are given out once, whatever crashes in between.
    fn check_given_once(&mut self, request: &Request, answer: &Heard) {
        let given = match (request, answer) {
            (_, Ok(Reply::Client(id))) => format!("client {id}"),
            (Request::GetOrCreateJob(job), Ok(Reply::Job(id))) if job.name.is_none() => {
                format!("job {id}")
            }
            (Request::RegisterDataset(dataset), Ok(Reply::Dataset(id)))
                if dataset.wished.is_none() =>
            {
                format!("dataset {id}")
            }
            (
                Request::GetSplit { iteration, repetition, source, .. },
                Ok(Reply::Split(Some(split))),
            ) if !self.config.reissue_lost_splits => {
                format!("split {split} of {iteration}, {repetition}, {source}")
            }
            _ => return,
        };
        assert!(self.given.insert(given.clone()), "given twice: {given}");
    }

    fn note_readers(&mut self, before: &Kept) {
        let again = |kept: &Kept| -> usize {
            let given = kept.iterations.iter().map(|iteration| &iteration.given);
            given.map(|given| given.count(&Holder::Again)).sum()
        };
        let tried = |kept: &Kept| {
            let mut given = kept.iterations.iter().map(|iteration| &iteration.given);
            given.any(|given| given.tried.is_some())
        };
        if again(before) == again(&self.model.kept) + 1 {
            self.mark("split again");
        }
        if !tried(before) && tried(&self.model.kept) {
            self.mark("reader made");
        }
    }

    /// The report says of every iteration what is missing, and never too little.
    fn check_missing(&mut self) {
        let report = self.real.node.dispatcher().report(self.real.now);
        let kept = self.model.kept.iterations.clone();
        for (iteration, seen) in kept.iter().zip(&report.iterations) {
            assert_eq!(iteration.id.get(), seen.id);
            let count = |holder| iteration.given.count(&holder) as u64;
            assert_eq!(seen.splits_lost, count(Holder::Lost), "{iteration:?}");
            assert_eq!(seen.splits_again, count(Holder::Again), "{iteration:?}");
            let doubted = iteration.given.doubted.len() as u64;
            assert!(seen.splits_in_doubt >= doubted, "{seen:?} {iteration:?}");
            assert_eq!(seen.splits_held, self.model.kept.held(iteration.id) as u64);
            let shared = &iteration.shared;
            assert_eq!(seen.splits_waiting, shared.waiting.len() as u64, "{iteration:?}");
            assert_eq!(seen.records_acknowledged, shared.acknowledged, "{iteration:?}");
            if shared.waiting.values().any(|records| *records > 0) {
                self.mark("begun split waits");
            }
            let has = |task| iteration.given.count(&Holder::Task(task)) > 0;
            if iteration.pending.iter().any(|pending| has(pending.task)) {
                self.mark("split for a task that waits to join");
            }
            if seen.splits_lost > 0 {
                self.mark("splits lost");
            }
            if seen.splits_again > 0 {
                self.mark("splits wait");
            }
            if doubted > 0 {
                self.mark("splits in doubt");
            }
        }
    }

    fn mark(&mut self, what: &'static str) {
        *self.reached.entry(what).or_default() += 1;
    }

    fn remember(&mut self) {
        self.check_missing();
        let last = self.real.node.last();
        if self.kept.last().is_none_or(|(lsn, _)| *lsn < last) {
            self.kept.push((last, self.model.kept.clone()));
        }
    }

    fn wait(&mut self, millis: u64) {
        let until = self.real.now.after(Duration::from_millis(millis));
        while let Some((at, _)) = self.real.node.deadline().filter(|(at, _)| *at <= until) {
            self.real.now = self.real.now.max(at);
            self.look();
            self.hear();
            self.remember();
        }
        self.real.now = until;
    }

    fn advance(&mut self, millis: u64) {
        self.real.now = self.real.now.after(Duration::from_millis(millis));
        self.look();
    }

    fn look(&mut self) {
        let refuses = self.refuses();
        let collected = |kept: &Kept| kept.iterations.iter().filter(|i| i.collected).count();
        let before = (collected(&self.model.kept), self.model.kept.clients.len());
        let lost = self.model.kept.lost.len();
        let (kept, blobs) = (self.model.kept.clone(), self.real.blobs.len());
        self.expected.extend(self.model.tick(self.real.now, refuses));
        self.real.tick();
        if collected(&self.model.kept) > before.0 {
            self.mark("collected");
        }
        if self.model.kept.clients.len() < before.1 {
            self.mark("client expired");
        }
        if self.model.kept.lost.len() > lost {
            self.mark("worker lost");
        }
        self.note_freed(&kept, blobs);
    }

    fn note_freed(&mut self, before: &Kept, blobs: usize) {
        let after = &self.model.kept;
        let abandoned = |kept: &Kept| kept.jobs.iter().any(Job::is_abandoned);
        let freed = [
            ("iteration abandoned", !abandoned(before) && abandoned(after)),
            ("job retired", after.retired_jobs() > before.retired_jobs()),
            ("worker freed", after.workers.len() < before.workers.len()),
            ("iteration freed", after.iterations.len() < before.iterations.len()),
            ("job freed", after.jobs.len() < before.jobs.len()),
            ("dataset freed", after.datasets.len() < before.datasets.len()),
            ("blob forgotten", self.real.blobs.len() < blobs),
        ];
        for (mark, is_so) in freed {
            if is_so {
                self.mark(mark);
            }
        }
    }

    fn set_journal(&mut self, kind: u8) {
        if !self.refuses() {
            self.real.journal = match kind {
                0 => Journal::Prompt,
                1 => Journal::Full,
                _ => Journal::Slow,
            };
        }
    }

    fn make_room(&mut self) {
        if self.refuses() {
            self.model.take_back();
            self.real.make_room();
            self.hear();
            self.mark("room again");
        }
    }

    fn crash(&mut self, upto: At) {
        let upto = *upto.get(&self.real.crash_points());
        if upto < self.real.node.last() {
            self.mark("crash with a loss");
        }
        self.kept.retain(|(lsn, _)| *lsn <= upto);
        let kept = self.kept.last().unwrap().1.clone();
        self.real.restart_from(upto);
        self.real.journal = Journal::Slow;
        self.model = Model::start(self.config.clone(), kept, self.real.now);
        self.expected.clear();
    }
}

/// Whether an answer to a worker tells it to drop fewer tasks than another one, which is the same else. That
/// promises nothing: what readers hold need not be durable for a worker to keep a task for them.
fn gives_fewer_orders(answer: &Heard, other: &Heard) -> bool {
    let (Ok(Reply::WorkerHeartbeat(answer)), Ok(Reply::WorkerHeartbeat(other))) = (answer, other)
    else {
        return false;
    };
    let mut told = answer.tasks_to_delete.iter();
    answer.new_tasks == other.new_tasks && told.all(|task| other.tasks_to_delete.contains(task))
}
