//! Random histories with crashes: the service and the model side by side, answer by answer.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use rondo_core::coordination::{Condition, Method, NamespaceConfig};
use rondo_core::ids::{CallId, Lsn, Revision};
use rondo_core::time::Duration;

use crate::driver::{Driver, settings};
use crate::model::{Heard, Kept, Model, heard};
use crate::world::*;

const TASKS: i32 = 3;

#[derive(Clone, Debug)]
enum Happening {
    Asks(Method),
    /// All tasks come to a barrier, one after the other.
    AllCome(&'static str, i64),
    Cancel(usize),
    /// The disk catches up.
    Sync,
    /// The process dies; the disk had so many of the steps it need not have had.
    Crash(usize),
}

fn key() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "a/b", "/a//b/", "a/b/c", "ab", "n", "n", ""])
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        Just(Condition::Absent),
        Just(Condition::Always),
        Just(Condition::Present),
        (0_u64..8).prop_map(|revision| Condition::Revision(Revision::new(revision))),
    ]
}

fn of_keys() -> impl Strategy<Value = Method> {
    let value = select(vec!["1", "-7", "9223372036854775807", "text"]);
    prop_oneof![
        4 => (key(), value, condition()).prop_map(|(key, value, when)| put(key, value, when)),
        3 => key().prop_map(get),
        2 => key().prop_map(try_get),
        2 => (key(), select(vec![1, -1, i64::MAX, i64::MIN])).prop_map(|(key, by)| increment(key, by)),
        2 => key().prop_map(|key| Method::GetKeyValueDir { directory: key.into() }),
        1 => key().prop_map(delete),
    ]
}

fn of_tasks() -> impl Strategy<Value = Method> {
    let task = || select(vec![0, 0, 1, 1, 2, 2, 3]);
    let set = select(vec![vec![0, 1, 2], vec![0, 1], vec![1, 0, 1], vec![2]]);
    prop_oneof![
        2 => (task(), select(vec![1_u64, 1, 1, 2])).prop_map(|(task, run)| register(task, run)),
        4 => (select(vec!["x", "x", "y"]), select(vec![0, 0, 0, 1, 1, 2]), task())
            .prop_map(|(id, counter, task)| barrier_for(id, counter, task, NO_TASKS, i64::MAX)),
        2 => (task(), set).prop_map(|(task, set)| alive(task, &set)),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => of_keys().prop_map(Happening::Asks),
        8 => of_tasks().prop_map(Happening::Asks),
        2 => (select(vec!["x", "y"]), select(vec![0, 1, 2]))
            .prop_map(|(id, counter)| Happening::AllCome(id, counter)),
        2 => any::<usize>().prop_map(Happening::Cancel),
        2 => Just(Happening::Sync),
        1 => any::<usize>().prop_map(Happening::Crash),
    ]
}

/// Most histories begin with all tasks registered.
fn history() -> impl Strategy<Value = Vec<Happening>> {
    let all = (0..TASKS).map(|task| Happening::Asks(register(task, 1))).collect::<Vec<_>>();
    let beginning = prop_oneof![3 => Just(all), 1 => Just(Vec::new())];
    (beginning, prop::collection::vec(happening(), 0..60)).prop_map(|(mut history, rest)| {
        history.extend(rest);
        history
    })
}

struct Both {
    real: Driver,
    model: Model,
    /// What the model kept at each position at which a step ended.
    kept: Vec<(Lsn, Kept)>,
    /// What calls should hear that have not heard it.
    expected: BTreeMap<CallId, Heard>,
    calls: Vec<CallId>,
}

type Reached = BTreeMap<&'static str, u64>;

impl Both {
    fn new(prompt: bool) -> Self {
        let never = Duration::from_nanos(u64::MAX);
        let settings = NamespaceConfig {
            recoverable: true,
            heartbeat_timeout: never,
            register_timeout: never,
            ..settings(TASKS as u32)
        };
        let mut real = Driver::with(settings);
        real.prompt = prompt;
        let model = Model::of(TASKS);
        let kept = vec![(Lsn::NONE, model.kept.clone())];
        Self { real, model, kept, expected: BTreeMap::new(), calls: Vec::new() }
    }

    fn go_through(&mut self, history: Vec<Happening>, reached: &mut Reached) {
        for happening in history {
            match happening {
                Happening::Asks(method) => self.ask(&method, reached),
                Happening::AllCome(id, counter) => self.all_come(id, counter, reached),
                Happening::Cancel(which) => self.cancel(which),
                Happening::Sync => self.real.sync(),
                Happening::Crash(upto) => self.crash(upto, reached),
            }
            self.compare(reached);
        }
        self.real.sync();
        self.compare(reached);
        assert_eq!(self.expected, BTreeMap::new(), "answers that never came");
    }

    fn ask(&mut self, method: &Method, reached: &mut Reached) {
        let call = self.real.start_call(method.clone());
        self.calls.push(call);
        self.expected.extend(self.model.take(call, method));
        self.kept.push((self.real.node.last(), self.model.kept.clone()));
        *reached.entry(name_of(method)).or_default() += 1;
    }

    fn all_come(&mut self, id: &str, counter: i64, reached: &mut Reached) {
        for task in 0..TASKS {
            self.ask(&barrier_for(id, counter, task, NO_TASKS, i64::MAX), reached);
            self.compare(reached);
        }
    }

    fn cancel(&mut self, which: usize) {
        if self.calls.is_empty() {
            return;
        }
        let call = self.calls[which % self.calls.len()];
        self.real.cancel(call);
        self.model.cancel(call);
    }

    /// An answer that leaves is the one expected. Which are held back, the driver judges.
    fn compare(&mut self, reached: &mut Reached) {
        for (call, answer) in self.real.take_all() {
            let expected = self.expected.remove(&call);
            assert_eq!(expected, Some(heard(&answer)), "call {call} heard {answer:?}");
            if let Ok(rondo_core::coordination::Reply::BarrierPassed { .. }) = answer {
                *reached.entry("passes").or_default() += 1;
            }
        }
        if self.real.prompt {
            assert_eq!(self.expected, BTreeMap::new(), "answers that did not come at once");
        }
    }

    fn crash(&mut self, upto: usize, reached: &mut Reached) {
        let points = self.real.crash_points();
        let upto = points[upto % points.len()];
        let kept = self.kept.iter().rev().find(|(lsn, _)| *lsn <= upto).unwrap().1.clone();
        self.kept.retain(|(lsn, _)| *lsn <= upto);
        self.real.restart_from(upto);
        self.model.crash(kept);
        self.expected.clear();
        *reached.entry("crashes").or_default() += 1;
    }
}

fn name_of(method: &Method) -> &'static str {
    match method {
        Method::RegisterTask { .. } => "register",
        Method::Barrier { .. } => "barrier",
        Method::GetAliveTasks { .. } => "alive",
        _ => "keys",
    }
}

/// Every answer of every history is the model's, and what a crash may not take stays.
#[test]
fn the_service_is_as_the_model_says() {
    let reached = RefCell::new(Reached::new());
    let config = ProptestConfig { cases: 400, ..ProptestConfig::default() };
    proptest!(config, |(prompt in any::<bool>(), history in history())| {
        Both::new(prompt).go_through(history, &mut reached.borrow_mut());
    });
    let reached = reached.into_inner();
    for what in ["register", "barrier", "alive", "keys", "passes", "crashes"] {
        let count = reached.get(what).copied().unwrap_or_default();
        assert!(count > 100, "{what} happened {count} times: {reached:?}");
    }
}
