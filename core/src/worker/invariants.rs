//! What holds of a worker between two steps.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;

use super::consumers::Call;
use super::machine::Worker;
use crate::ids::{CallId, TaskId};
use crate::invariant::Invariant;
use crate::time::Time;

/// The invariants of a worker.
pub(crate) const WORKER_INVARIANTS: &[Invariant<Worker>] = &[
    Invariant {
        number: "W1",
        sentence: "every call that waits is known to its task and to no other, and no other waits",
        check: calls_wait_once,
    },
    Invariant {
        number: "W2",
        sentence: "what is counted of elements is what there is: bytes that are ready, and elements on \
                   their way",
        check: counts_are_right,
    },
    Invariant {
        number: "W3",
        sentence: "elements are made for tasks that are open, for each once",
        check: runs_are_of_tasks,
    },
    Invariant {
        number: "W4",
        sentence: "tasks have the alarms they want",
        check: alarms_are_of_tasks,
    },
    Invariant {
        number: "W5",
        sentence: "a task whose end consumers may know has none of its elements left",
        check: ends_are_ends,
    },
];

fn calls_wait_once(worker: &Worker) -> Result<(), String> {
    let mut waiting: BTreeMap<CallId, TaskId> = BTreeMap::new();
    for (id, task) in &worker.tasks {
        for call in task.runner.clone().take_waiting().into_iter().chain(task.readers.clone()) {
            if let Some(other) = waiting.insert(call, *id) {
                return Err(format!("call {call} waits for the tasks {other} and {id}"));
            }
        }
    }
    let known: BTreeMap<CallId, TaskId> = worker
        .consumers
        .iter()
        .filter_map(|(call, it)| match it {
            Call::Waiting(task) => Some((call, *task)),
            Call::Leaving(..) => None,
        })
        .collect();
    match known == waiting {
        true => Ok(()),
        false => Err(format!("{waiting:?} wait, {known:?} are known")),
    }
}

fn counts_are_right(worker: &Worker) -> Result<(), String> {
    let bytes: u64 = worker.tasks.values().map(|task| task.ready.bytes()).sum();
    if bytes != worker.ready_bytes {
        return Err(format!("{bytes} bytes are ready, {} are counted", worker.ready_bytes));
    }
    if !worker.consumers.is_counted() {
        return Err(format!("the calls of connections are counted wrong: {:?}", worker.consumers));
    }
    let mut leaving: BTreeMap<TaskId, usize> = BTreeMap::new();
    for (_, call) in worker.consumers.iter() {
        if let Call::Leaving(task, ..) = call {
            let count = leaving.entry(*task).or_default();
            *count = count.saturating_add(1);
        }
    }
    for (id, task) in &worker.tasks {
        let found = leaving.get(id).copied().unwrap_or(0);
        if found != task.leaving {
            return Err(format!("{found} elements of task {id} leave, {} counted", task.leaving));
        }
    }
    Ok(())
}

fn runs_are_of_tasks(worker: &Worker) -> Result<(), String> {
    let tasks: BTreeSet<TaskId> = worker.runs.values().copied().collect();
    if tasks.len() != worker.runs.len() {
        return Err(format!("a task has two of {:?}", worker.runs));
    }
    for (run, id) in &worker.runs {
        if worker.tasks.get(id).and_then(|task| task.run()) != Some(*run) {
            return Err(format!("{run:?} is none of task {id}"));
        }
    }
    Ok(())
}

fn alarms_are_of_tasks(worker: &Worker) -> Result<(), String> {
    let wanted = worker.tasks.iter().filter_map(|(id, task)| Some((*id, task.deadline()?)));
    let wanted: BTreeMap<TaskId, Time> = wanted.collect();
    match wanted == worker.alarms {
        true => Ok(()),
        false => Err(format!("{wanted:?} are wanted, there are {:?}", worker.alarms)),
    }
}

fn ends_are_ends(worker: &Worker) -> Result<(), String> {
    let told = worker.tasks.values().filter(|task| task.over != super::task::Over::No);
    let mut early = told.filter(|task| !task.is_exhausted());
    match early.next() {
        None => Ok(()),
        Some(task) => Err(format!("task {} has elements left", task.def.task)),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use bytes::Bytes;

    use super::*;
    use crate::ids::{ConnectionId, DatasetId, IterationId};
    use crate::invariant::check_worker;
    use crate::worker::{
        Ask, Config, Effect, ElementAsk, Input, Part, Reply, RpcId, RunId, TaskDef, Then,
    };

    /// A worker with a task that is read: two elements are on their way, one is ready.
    fn worker() -> Worker {
        let mut worker = Worker::new(Config::of("a:1", 9));
        let mut out: Vec<Effect> = Vec::new();
        let mut step = |input| worker.step(Time::ZERO, input, &mut out);
        let answered =
            |rpc, reply| Input::Answered { rpc: RpcId(rpc), result: Ok(reply), entropy: 0 };
        step(Input::Start);
        step(answered(1, Reply::Version(9)));
        let task = TaskDef {
            task: TaskId::new(5),
            iteration: IterationId::new(7),
            dataset: DatasetId::new("numbers"),
            definition: Some(Bytes::new()),
            worker_address: "a:1".into(),
            part: Part::Whole,
            consumers: None,
            uses_cache: false,
        };
        let tasks = Reply::Tasks { new: [task].into(), deleted: Vec::new() };
        step(answered(2, tasks));
        for call in 1..=2 {
            let ask = ElementAsk {
                task: TaskId::new(5),
                round: None,
                skipped_previous_round: false,
                allow_skip: false,
                trainer: String::new(),
            };
            let (call, client) = (CallId::new(call), ConnectionId::new(1));
            step(Input::Asked { call, client, ask: Ask::Element(ask) });
        }
        step(answered(3, Reply::Compression(false)));
        step(Input::Opened { run: RunId(1), result: Ok(-2) });
        let elements = [1, 2, 3].map(|byte| Bytes::copy_from_slice(&[byte])).into();
        step(Input::Produced { run: RunId(1), elements, then: Then::More });
        assert_eq!(check_worker(&worker), Ok(()));
        worker
    }

    #[test]
    fn each_sees_what_breaks_it() {
        type Break = fn(&mut Worker);
        let breaks: [(&str, Break); 7] = [
            ("W1", |worker| {
                worker.consumers.begin(CallId::new(9), ConnectionId::new(1), TaskId::new(5));
            }),
            ("W1", |worker| {
                let task = worker.tasks.values_mut().next().unwrap();
                task.readers.push(CallId::new(9));
            }),
            ("W2", |worker| worker.ready_bytes = 17),
            ("W2", |worker| worker.consumers.end_leaving(TaskId::new(5))),
            ("W3", |worker| {
                worker.runs.insert(RunId(8), TaskId::new(6));
            }),
            ("W4", |worker| {
                worker.alarms.insert(TaskId::new(5), Time::ZERO);
            }),
            ("W5", |worker| {
                worker.tasks.values_mut().for_each(|it| it.over = crate::worker::task::Over::Told);
            }),
        ];
        for (number, broken) in breaks {
            let mut worker = worker();
            broken(&mut worker);
            assert_eq!(check_worker(&worker).map_err(|it| it.number), Err(number));
        }
    }
}
