//! What holds of reading by element between two steps.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Elements, Slot};
use crate::ids::TaskId;
use crate::reader::shared::{Purpose, Shared};

impl Elements {
    /// Calls under way are counted with the tasks they are to.
    pub(in crate::reader) fn calls_are_counted(&self, shared: &Shared) -> Result<(), String> {
        let mut found: BTreeMap<TaskId, usize> = BTreeMap::new();
        for task in self.calls.values().map(|call| call.task) {
            let count = found.entry(task).or_default();
            *count = count.saturating_add(1);
        }
        let counted = self.tasks.iter().filter(|(_, progress)| progress.calls > 0);
        let counted: BTreeMap<TaskId, usize> =
            counted.map(|(task, progress)| (*task, progress.calls)).collect();
        match found == counted {
            true => self.votes_are_counted(shared),
            false => Err(format!("{found:?} calls are under way, {counted:?} are counted")),
        }
    }

    /// A task is voted on exactly while a call for that is under way, one at a time.
    fn votes_are_counted(&self, shared: &Shared) -> Result<(), String> {
        let votes = shared.purposes.values().filter_map(|purpose| match purpose {
            Purpose::Remove(task) => Some(*task),
            _ => None,
        });
        let mut found: Vec<TaskId> = votes.collect();
        found.sort_unstable();
        let voting = self.tasks.iter().filter(|(_, progress)| progress.doubt.is_voting());
        let counted: Vec<TaskId> = voting.map(|(task, _)| *task).collect();
        match found == counted {
            true => Ok(()),
            false => Err(format!("votes on {found:?} are under way, {counted:?} are counted")),
        }
    }

    /// What is counted of elements that have come is what there is.
    pub(in crate::reader) fn bytes_are_counted(&self, _: &Shared) -> Result<(), String> {
        let sizes = self.slots.iter().map(|slot| match slot {
            Slot::Ready(element) => element.size_bytes(),
            Slot::Waiting(..) | Slot::Passed => 0,
        });
        let found = sizes.fold(0, u64::saturating_add);
        match found == self.buffered_bytes {
            true => Ok(()),
            false => Err(format!("{found} bytes wait, {} are counted", self.buffered_bytes)),
        }
    }

    /// Each place that waits for an element of a round waits for one that is asked for, once.
    pub(in crate::reader) fn slots_are_asked_for(&self, _: &Shared) -> Result<(), String> {
        let waits = |slot: &Slot| match slot {
            Slot::Waiting(task, round) => Some((*task, *round)),
            Slot::Ready(_) | Slot::Passed => None,
        };
        let count = self.slots.iter().filter_map(waits).count();
        let waiting: BTreeSet<(TaskId, i64)> = self.slots.iter().filter_map(waits).collect();
        let asked = self.tasks.iter();
        let asked = asked.filter_map(|(task, progress)| Some((*task, progress.round?)));
        let asked: BTreeSet<(TaskId, i64)> = asked.collect();
        match waiting == asked && count == waiting.len() {
            true => Ok(()),
            false => Err(format!("{count} places wait for {waiting:?}, asked for is {asked:?}")),
        }
    }

    /// Workers have the load of the calls that they have.
    pub(in crate::reader) fn loads_are_counted(&self, shared: &Shared) -> Result<(), String> {
        let mut found: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for call in self.calls.values() {
            let count = found.entry(&call.worker).or_default();
            *count = count.saturating_add(1);
        }
        let loaded = shared.workers.iter().filter(|(_, worker)| worker.load > 0);
        let counted: BTreeMap<&Arc<str>, usize> =
            loaded.map(|(name, worker)| (name, worker.load)).collect();
        match found == counted {
            true => Ok(()),
            false => Err(format!("workers have {found:?} calls, {counted:?} are counted")),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::ids::{ClientId, JobId};
    use crate::invariant::check_reader;
    use crate::reader::{
        Answer, ByElement, Config, Effect, HeartbeatAnswer, Input, Member, Reader, RpcId, Task, Way,
    };
    use crate::time::Time;

    /// A vote that nobody has cast.
    const VOTE: Option<(RpcId, Time)> = Some((RpcId(99), Time::ZERO));

    /// A consumer of a coordinated read that has asked both tasks there are in its first round.
    fn reader() -> Reader {
        let consumer = Some(Member { index: 0, size: 2 });
        let way = Way::ByElement(ByElement { consumer, ..ByElement::default() });
        let mut reader = Reader::new(Config::of(way), 0);
        let task = |id: i64| Task {
            id: TaskId::new(id),
            worker: format!("w{id}").into(),
            servers: Vec::new(),
            starting_round: 0,
        };
        let heartbeat = HeartbeatAnswer { tasks: vec![task(1), task(2)], ..Default::default() };
        let answers = [
            Answer::Job(JobId::new(1)),
            Answer::Client(ClientId::new(2)),
            Answer::Heartbeat(heartbeat),
        ];
        let mut out = Vec::new();
        reader.step(Time::ZERO, Input::Tick, &mut out);
        for answer in answers {
            let asked = out.iter().rev().find_map(|effect| match effect {
                Effect::Ask { rpc, .. } => Some(*rpc),
                _ => None,
            });
            let answered = Input::Answered { rpc: asked.unwrap(), result: Ok(answer), entropy: 0 };
            reader.step(Time::ZERO, answered, &mut out);
        }
        let fetches = out.iter().filter(|effect| matches!(effect, Effect::Fetch { .. })).count();
        assert!(fetches >= 2, "{out:?}");
        assert_eq!(check_reader(&reader), Ok(()));
        reader
    }

    #[test]
    fn each_sees_what_breaks_it() {
        type Break = fn(&mut Elements, &mut Shared);
        let breaks: [(&str, Break); 6] = [
            ("E1", |room, _| room.tasks.values_mut().for_each(|task| task.calls = 0)),
            ("E1", |room, _| room.tasks.values_mut().for_each(|it| it.doubt.vote = VOTE)),
            ("E2", |room, _| room.buffered_bytes = 17),
            ("E3", |room, _| room.slots.clear()),
            ("E3", |room, _| room.tasks.values_mut().for_each(|task| task.round = None)),
            ("E4", |_, shared| shared.workers.clear()),
        ];
        for (number, broken) in breaks {
            let mut reader = reader();
            let (room, shared) = reader.elements_mut().unwrap();
            broken(room, shared);
            assert_eq!(check_reader(&reader).map_err(|it| it.number), Err(number));
        }
    }
}
