//! Coordinated reads: consumers in step with each other, whatever tasks come and go.
//!
//! The dispatcher is the protocol of docs/round_robin.md for one new task at a time. A worker gives
//! elements to a round once all consumers ask for it, the same ones again when asked again, and
//! refuses a round that is past.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rondo_core::ids::{ClientId, JobId, TaskId};
use rondo_core::limits::ANY_ROUND;
use rondo_core::reader::{
    Answer, ByElement, Config, FetchElement, Fetched, HeartbeatAnswer, Member, Request, RpcId,
    Stall, Task, Way,
};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use crate::consumer::{Consumer, element};

/// A task that consumers are to agree on.
pub(crate) struct Pending {
    task: TaskId,
    target: i64,
    failed: u32,
    ready: BTreeSet<i64>,
}

#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) is_down: bool,
    current: i64,
    /// Who asked for which round.
    waiting: BTreeMap<i64, BTreeSet<i64>>,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) consumers: Vec<Consumer>,
    /// Clients beside them that never change the round of their votes, as TensorFlow's.
    pub(crate) others: Vec<Other>,
    /// In the order of the list, with their first rounds.
    pub(crate) tasks: Vec<(TaskId, i64)>,
    pending: Option<Pending>,
    latest: i64,
    pub(crate) workers: BTreeMap<TaskId, Worker>,
    /// Whether the dispatcher is TensorFlow's, for which no round agrees with all others.
    pub(crate) is_tensorflow: bool,
    /// How long it has votes wait for each other.
    pub(crate) vote_time: Duration,
    /// Who votes in which call on which task in which round, and since when.
    votes: Vec<Vote>,
    last: i64,
    /// Workers whose task was given up.
    returning: usize,
}

type Vote = (usize, RpcId, TaskId, i64, Time);

/// A client of TensorFlow that cannot reach a worker: it votes in the round in which it stands, and
/// after a failed vote it waits, tries the worker, and votes in the same round again.
pub(crate) struct Other {
    pub(crate) task: TaskId,
    pub(crate) round: i64,
    /// When it votes next; `None` while it waits for an answer.
    pub(crate) votes_at: Option<Time>,
    failures: u32,
}

impl Other {
    pub(crate) fn new(task: TaskId, round: i64, votes_at: Time) -> Self {
        Self { task, round, votes_at: Some(votes_at), failures: 0 }
    }

    /// Its pauses are 0.4 ms and then three tenths more each time, up to 10 s.
    fn answered(&mut self, now: Time, is_removed: bool) {
        if is_removed {
            return;
        }
        let mut micros = 1_000_u64;
        for _ in 0..self.failures {
            micros = (micros * 13 / 10).min(10_000_000);
        }
        self.failures += 1;
        self.votes_at = Some(now.after(Duration::from_nanos((400 + micros) * 1_000)));
    }
}

/// How long a vote lasts.
const VOTE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
enum Happening {
    Want(usize, u64),
    Ask(usize, usize),
    Fetch(usize, usize, bool),
    Join,
    Die(usize),
    Wait(u64),
}

impl World {
    fn new(consumers: u32, tasks: i64, buffer: usize) -> Self {
        let consumer = |index| {
            let consumer = Some(Member { index, size: consumers });
            let mut config =
                Config::of(Way::ByElement(ByElement { consumer, ..Default::default() }));
            config.buffer_deliveries_max = buffer;
            Consumer::new(config)
        };
        let mut world = Self {
            now: Time::from_millis(1),
            consumers: (0..consumers).map(consumer).collect(),
            others: Vec::new(),
            tasks: Vec::new(),
            pending: None,
            latest: 0,
            workers: BTreeMap::new(),
            is_tensorflow: false,
            vote_time: VOTE,
            votes: Vec::new(),
            last: 4000,
            returning: 0,
        };
        for _ in 0..tasks {
            let task = world.worker();
            world.tasks.push((task, 0));
        }
        world
    }

    fn worker(&mut self) -> TaskId {
        self.last += 1;
        let task = TaskId::new(self.last);
        self.workers.insert(task, Worker { current: -1, ..Worker::default() });
        task
    }

    fn happen(&mut self, happening: Happening) {
        let count = self.consumers.len();
        match happening {
            Happening::Want(nth, more) => self.consumers[nth % count].want(self.now, more),
            Happening::Ask(nth, which) => self.ask(nth % count, which),
            Happening::Fetch(nth, which, is_lost) => self.fetch(nth % count, which, is_lost),
            Happening::Join => self.join(),
            // One worker stays, so that there is always something to read.
            Happening::Die(nth) => {
                if let Some((task, _)) = self.tasks.get(nth % 4).filter(|_| nth % 4 > 0) {
                    self.workers.get_mut(task).unwrap().is_down = true;
                }
            }
            Happening::Wait(millis) => self.wait(millis),
        }
    }

    fn join(&mut self) {
        if self.pending.is_none() && self.tasks.len() < 5 {
            let (task, target) = (self.worker(), self.latest + 1);
            self.pending = Some(Pending { task, target, failed: 0, ready: BTreeSet::new() });
        }
    }

    pub(crate) fn wait(&mut self, millis: u64) {
        if self.returning > 0 && self.pending.is_none() {
            self.returning -= 1;
            self.join();
        }
        for consumer in &mut self.consumers {
            consumer.wait(self.now, millis);
        }
        self.now = self.now.after(Duration::from_millis(millis));
        let now = self.now;
        let is_over = |it: &mut Vote| now.since(it.4) >= self.vote_time;
        let over = self.votes.extract_if(.., is_over);
        // Rondo's dispatcher tells such a call that it ran out of time.
        let (missing, over): (Vec<Vote>, Vec<Vote>) =
            over.partition(|it| !self.is_tensorflow && it.3 == ANY_ROUND);
        for (nth, rpc, ..) in over {
            self.voted(nth, rpc, false);
        }
        for (nth, rpc, ..) in missing {
            let status = Status::new(Code::Unavailable, "consumers are missing");
            self.consumers[nth].answer(self.now, rpc, Err(status));
        }
        for nth in 0..self.others.len() {
            let other = &mut self.others[nth];
            if let Some((task, round)) =
                other.votes_at.take_if(|at| *at <= now).map(|_| (other.task, other.round))
            {
                self.vote(self.consumers.len() + nth, RpcId(0), task, round);
            }
        }
    }

    fn voted(&mut self, nth: usize, rpc: RpcId, is_removed: bool) {
        match nth.checked_sub(self.consumers.len()) {
            Some(other) => self.others[other].answered(self.now, is_removed),
            None => self.consumers[nth].answer(self.now, rpc, Ok(Answer::Removed(is_removed))),
        }
    }

    pub(crate) fn ask(&mut self, nth: usize, which: usize) {
        let consumer = &mut self.consumers[nth];
        let Some(index) = which.checked_rem(consumer.asks.len()) else {
            return;
        };
        let (rpc, request) = consumer.asks.remove(index);
        let answer = match request {
            Request::CreateJob => Answer::Job(JobId::new(1)),
            Request::CreateIteration { .. } => {
                Answer::Client(ClientId::new(i64::try_from(nth).unwrap()))
            }
            Request::Heartbeat { client, current_round, blocked_round } => {
                let block_round = self.heartbeat(client.get(), current_round, blocked_round);
                let tasks = self.tasks.iter().map(|(id, starting_round)| Task {
                    id: *id,
                    worker: format!("w{id}").into(),
                    servers: vec![("grpc".into(), format!("g{id}").into())],
                    starting_round: *starting_round,
                });
                let tasks = tasks.collect();
                Answer::Heartbeat(HeartbeatAnswer { tasks, is_finished: false, block_round })
            }
            Request::RemoveTask { task, consumer, round } => {
                assert_eq!(consumer, i64::try_from(nth).unwrap());
                return self.vote(nth, rpc, task, round);
            }
            other => panic!("{other:?}"),
        };
        self.consumers[nth].answer(self.now, rpc, Ok(answer));
    }

    /// The table of docs/round_robin.md.
    fn heartbeat(
        &mut self,
        client: i64,
        current: Option<i64>,
        blocked: Option<i64>,
    ) -> Option<i64> {
        let current = current.unwrap();
        self.latest = self.latest.max(current);
        let pending = self.pending.as_mut()?;
        if current >= pending.target {
            pending.target = self.latest + 2 * (1 << pending.failed);
            pending.failed += 1;
            pending.ready.clear();
        }
        if blocked.is_some_and(|blocked| blocked <= pending.target) {
            pending.ready.insert(client);
        }
        if pending.ready.len() == self.consumers.len() {
            self.tasks.push((pending.task, pending.target));
            self.pending = None;
            return None;
        }
        Some(pending.target)
    }

    fn vote(&mut self, nth: usize, rpc: RpcId, task: TaskId, round: i64) {
        if self.tasks.iter().all(|(listed, _)| *listed != task) {
            return self.voted(nth, rpc, true);
        }
        self.votes.push((nth, rpc, task, round, self.now));
        let of = |it: &&Vote| it.2 == task;
        let agrees_with_all = |round: i64| !self.is_tensorflow && round == ANY_ROUND;
        let of_task = self.votes.iter().filter(of).map(|it| it.3);
        let rounds: BTreeSet<i64> = of_task.filter(|round| !agrees_with_all(*round)).collect();
        let is_other = rounds.len() > 1;
        let voters: BTreeSet<usize> = self.votes.iter().filter(of).map(|it| it.0).collect();
        let agree = !is_other && voters.len() == self.consumers.len() + self.others.len();
        if agree || is_other {
            let votes = std::mem::take(&mut self.votes);
            let (ended, stay): (Vec<_>, _) = votes.into_iter().partition(|it| it.2 == task);
            self.votes = stay;
            if agree {
                self.tasks.retain(|(listed, _)| *listed != task);
                // A worker that lives comes back with a new task.
                self.returning += usize::from(!self.workers[&task].is_down);
            }
            for (nth, rpc, ..) in ended {
                self.voted(nth, rpc, agree);
            }
        }
    }

    pub(crate) fn fetch(&mut self, nth: usize, which: usize, is_lost: bool) {
        let Some(index) = which.checked_rem(self.consumers[nth].fetches.len()) else {
            return;
        };
        let (rpc, fetch) = self.consumers[nth].fetches[index].clone();
        let Some(result) = self.serve(&fetch, is_lost) else {
            return;
        };
        self.consumers[nth].fetches.remove(index);
        self.consumers[nth].answer(self.now, rpc, result.map(Answer::Element));
    }

    /// What a worker answers; `None` while it waits for other consumers.
    fn serve(&mut self, fetch: &FetchElement, is_lost: bool) -> Option<Result<Fetched, Status>> {
        let unavailable = || Some(Err(Status::new(Code::Unavailable, "gone")));
        let (consumer, round) = fetch.round.unwrap();
        assert!(fetch.allow_skip);
        let everybody = self.consumers.len();
        let worker = self.workers.get_mut(&fetch.task).unwrap();
        if worker.is_down {
            return unavailable();
        }
        assert!(round >= worker.current, "round {round} of {} is past", fetch.task);
        let waiting = worker.waiting.entry(round).or_default();
        waiting.insert(consumer);
        if waiting.len() < everybody {
            return None;
        }
        worker.current = round;
        if is_lost {
            return unavailable();
        }
        // Every seventh round is not ready in time, for nobody.
        if round % 7 == 3 {
            return Some(Ok(Fetched::Skip));
        }
        Some(Ok(Fetched::Element(element(fetch.task.get() * 1000 + round))))
    }

    fn settle(&mut self) {
        let before = self.consumers.iter().map(|it| it.elements.len()).max().unwrap();
        for _ in 0..300 {
            for nth in 0..self.consumers.len() {
                self.consumers[nth].want(self.now, 2);
                for which in 0..6 {
                    self.ask(nth, 0);
                    self.fetch(nth, which, false);
                }
            }
            self.wait(100);
        }
        assert!(self.pending.is_none(), "nobody agrees on the new task");
        for consumer in &self.consumers {
            assert_eq!(consumer.ended, None);
            let read = consumer.elements.len();
            let report = consumer.reader.report(self.now);
            assert!(read > before + 20, "{read} after {before}: {report:?}");
        }
        self.check();
    }

    /// All read the same tasks in the same rounds, in the order of the list.
    fn check(&self) {
        let round = |number: &i64| number % 1000;
        let first = &self.consumers[0].elements;
        let common = self.consumers.iter().filter_map(|it| it.elements.last().map(round)).min();
        let common = common.unwrap();
        let upto = |elements: &[i64]| -> Vec<i64> {
            elements.iter().copied().filter(|number| round(number) < common).collect()
        };
        for consumer in &self.consumers {
            assert!(consumer.elements.is_sorted_by_key(round), "{:?}", consumer.elements);
            assert_eq!(self.living(&upto(&consumer.elements)), self.living(&upto(first)));
            for pair in consumer.elements.windows(2).filter(|it| round(&it[0]) == round(&it[1])) {
                assert!(pair[0] < pair[1], "out of the list's order: {pair:?}");
            }
        }
    }

    /// Of those that died, some may have had the last round and others not.
    fn living(&self, elements: &[i64]) -> Vec<i64> {
        let lives = |number: &&i64| !self.workers[&TaskId::new(**number / 1000)].is_down;
        elements.iter().filter(lives).copied().collect()
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..3_usize, 1..4_u64).prop_map(|(nth, more)| Happening::Want(nth, more)),
        8 => (0..3_usize, any::<usize>()).prop_map(|(nth, which)| Happening::Ask(nth, which)),
        24 => (0..3_usize, any::<usize>(), prop::bool::weighted(0.1))
            .prop_map(|(nth, which, is_lost)| Happening::Fetch(nth, which, is_lost)),
        1 => Just(Happening::Join),
        1 => (0..8_usize).prop_map(Happening::Die),
        4 => prop_oneof![Just(1), Just(30), Just(1100)].prop_map(Happening::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_consumers_stay_in_step(
        consumers in 1..4_u32,
        tasks in 1..4_i64,
        buffer in 1..9_usize,
        history in prop::collection::vec(happening(), 0..200),
    ) {
        let mut world = World::new(consumers, tasks, buffer);
        history.into_iter().for_each(|happening| world.happen(happening));
        world.settle();
    }
}

pub(crate) fn begun(consumers: u32, tasks: i64) -> World {
    begun_with(consumers, tasks, 64)
}

fn begun_with(consumers: u32, tasks: i64, buffer: usize) -> World {
    let mut world = World::new(consumers, tasks, buffer);
    world.wait(0);
    for nth in 0..world.consumers.len() {
        (0..3).for_each(|_| world.ask(nth, 0));
    }
    world
}

#[test]
fn a_round_is_asked_of_all_tasks_in_their_order_before_the_next() {
    let world = begun(1, 3);
    let asked: Vec<_> =
        world.consumers[0].fetches.iter().map(|(_, it)| (it.task, it.round)).collect();
    let of = |task| (TaskId::new(task), Some((0, 0)));
    assert_eq!(asked, [of(4001), of(4002), of(4003)]);
}

#[test]
fn a_task_that_skipped_a_round_is_told_so_in_the_next() {
    let mut world = begun(1, 1);
    world.consumers[0].want(world.now, 99);
    let mut skipped = Vec::new();
    for round in 0..6 {
        let (_, fetch) = world.consumers[0].fetches[0].clone();
        assert_eq!(fetch.round, Some((0, round)));
        skipped.push(fetch.skipped_previous_round);
        world.fetch(0, 0, false);
    }
    assert_eq!(skipped, [false, false, false, false, true, false]);
    assert_eq!(world.consumers[0].elements.len(), 5);
}

#[test]
fn it_stops_before_the_round_it_is_told_and_says_so() {
    let mut world = begun(2, 1);
    world.happen(Happening::Join);
    world.wait(1000);
    world.ask(0, 0);
    let (_, request) = &world.consumers[0].asks[0];
    assert!(
        matches!(request, Request::Heartbeat { blocked_round: Some(1), .. }),
        "at once: {request:?}"
    );
    world.ask(0, 0);
    world.ask(1, 0);
    for nth in [0, 1, 0, 1] {
        world.fetch(nth, 0, false);
    }
    world.consumers[0].want(world.now, 9);
    assert!(world.consumers[0].fetches.is_empty(), "round 1 is not begun");
    let stall = world.consumers[0].reader.report(world.now).stall;
    assert_eq!(stall, Some(Stall::Blocked { round: 1 }));
    world.ask(1, 0);
    world.wait(30);
    world.ask(0, 0);
    let asked = world.consumers[0].fetches.iter().map(|(_, fetch)| fetch.task.get());
    assert_eq!(asked.collect::<Vec<_>>(), [4001, 4002]);
}

#[test]
fn a_task_out_of_reach_is_voted_on_from_the_second_failure_on() {
    let mut world = begun(1, 2);
    world.consumers[0].want(world.now, 99);
    let task = TaskId::new(4002);
    world.workers.get_mut(&task).unwrap().is_down = true;
    world.fetch(0, 1, false);
    assert!(world.consumers[0].asks.is_empty(), "it may be a moment's trouble");
    world.wait(5);
    let which = world.consumers[0].fetches.iter().position(|(_, it)| it.task == task).unwrap();
    assert_eq!(world.consumers[0].fetches[which].1.round, Some((0, 0)), "the same round");
    world.fetch(0, which, false);
    let (_, request) = world.consumers[0].asks[0].clone();
    assert_eq!(request, Request::RemoveTask { task, consumer: 0, round: 0 });
    world.ask(0, 0);
    world.fetch(0, 0, false);
    assert_eq!(world.consumers[0].elements, [4_001_000]);
    assert!(world.consumers[0].fetches.iter().all(|(_, fetch)| fetch.task != task));
}

/// The reader has room only for what the living worker gave it. The other consumers wait for its vote.
#[test]
fn a_consumer_votes_on_a_dead_worker_while_its_application_takes_nothing() {
    let mut world = begun_with(1, 2, 1);
    let task = TaskId::new(4002);
    world.workers.get_mut(&task).unwrap().is_down = true;
    for _ in 0..10 {
        (0..2).for_each(|which| world.fetch(0, which, false));
        world.wait(50);
    }
    let vote = Request::RemoveTask { task, consumer: 0, round: 0 };
    let asks = &world.consumers[0].asks;
    assert!(asks.iter().any(|(_, request)| *request == vote), "{asks:?}");
    assert_eq!(world.consumers[0].elements, [], "nothing is wanted");
}

/// The dispatcher has as many waiting calls as it takes, or a proxy answers in its place.
#[test]
fn a_vote_that_cannot_be_taken_now_is_cast_again() {
    for code in [Code::ResourceExhausted, Code::Unknown, Code::Internal, Code::Unavailable] {
        let mut world = begun(1, 2);
        let task = TaskId::new(4001);
        world.workers.get_mut(&task).unwrap().is_down = true;
        let (mut refused, mut voted) = (0, false);
        for _ in 0..100 {
            let consumer = &world.consumers[0];
            let is_vote =
                |(_, request): &(RpcId, Request)| matches!(request, Request::RemoveTask { .. });
            match consumer.asks.iter().position(is_vote) {
                Some(at) if refused < 3 => {
                    let (rpc, _) = world.consumers[0].asks.remove(at);
                    let status = Status::new(code, "not now");
                    world.consumers[0].answer(world.now, rpc, Err(status));
                    refused += 1;
                }
                Some(at) => {
                    world.ask(0, at);
                    voted = true;
                }
                None => (0..4).for_each(|which| world.fetch(0, which, false)),
            }
            world.wait(100);
        }
        assert_eq!(world.consumers[0].ended, None, "{code:?}");
        assert!(voted && refused == 3, "{code:?}: {refused} refusals");
        assert!(world.tasks.iter().all(|(listed, _)| *listed != task), "{code:?}");
    }
}

/// A consumer that has cast a vote on a task, which is the last of what it asks.
fn voting() -> (World, TaskId, RpcId) {
    let mut world = begun(1, 2);
    let task = TaskId::new(4002);
    world.workers.get_mut(&task).unwrap().is_down = true;
    world.fetch(0, 1, false);
    world.wait(5);
    let which = world.consumers[0].fetches.iter().position(|(_, it)| it.task == task).unwrap();
    world.fetch(0, which, false);
    let (vote, request) = world.consumers[0].asks.pop().unwrap();
    assert_eq!(request, Request::RemoveTask { task, consumer: 0, round: 0 });
    (world, task, vote)
}

/// Else a dispatcher that is full, or away, is asked without a pause.
#[test]
fn a_consumer_votes_again_a_moment_after_a_failed_vote() {
    for waited in [0, 10_000] {
        let (mut world, task, vote) = voting();
        world.wait(waited);
        world.consumers[0].asks.clear();
        let status = Status::new(Code::ResourceExhausted, "not now");
        world.consumers[0].answer(world.now, vote, Err(status));
        let votes = |world: &World| {
            let is_vote =
                |of: &Request| matches!(of, Request::RemoveTask { task: of, .. } if *of == task);
            world.consumers[0].asks.iter().filter(|(_, request)| is_vote(request)).count()
        };
        assert_eq!(votes(&world), 0, "not at once, after {waited} ms");
        world.wait(5);
        assert_eq!(votes(&world), 1, "after {waited} ms");
    }
}

#[test]
fn a_vote_that_is_refused_for_good_ends_the_reader() {
    let (mut world, _, vote) = voting();
    let status = Status::new(Code::InvalidArgument, "no round robin here");
    world.consumers[0].answer(world.now, vote, Err(status));
    let ended = world.consumers[0].ended.clone().expect("it ended");
    assert_eq!(ended.unwrap_err().code, Code::InvalidArgument);
}
