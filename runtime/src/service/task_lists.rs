//! Answers to clients' heartbeats with long lists of tasks: encoded once for all clients of an iteration,
//! until something in them changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use rondo_core::dispatcher::{ClientHeartbeatReply, TaskInfo};
use rondo_core::ids::IterationId;
use rondo_proto::convert;

/// Shorter lists are encoded for each client, which costs less than a look at what others share.
const TASKS_MIN: usize = 32;
/// Bytes of all answers that are kept, with their lists. Above it, those of the oldest iterations go.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// The newest answer of each iteration that has a long list.
#[derive(Default)]
pub(super) struct TaskLists(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// Each with the bytes that it takes, once they are known.
    answers: BTreeMap<IterationId, (Arc<Answer>, usize)>,
    /// All of those together.
    bytes: usize,
}

/// The answer to clients that see this.
struct Answer {
    /// The core's list, which it makes anew for each change. It is held weakly, so that its address is no
    /// other list's, and not kept when the core has dropped it.
    tasks: Weak<[TaskInfo]>,
    /// What else is in the answer.
    rest: ClientHeartbeatReply,
    encoded: OnceLock<Bytes>,
}

impl Answer {
    fn of(reply: &ClientHeartbeatReply) -> Self {
        let tasks = Arc::downgrade(&reply.tasks);
        let rest = ClientHeartbeatReply { tasks: Arc::default(), ..reply.clone() };
        Self { tasks, rest, encoded: OnceLock::new() }
    }

    fn is_of(&self, reply: &ClientHeartbeatReply) -> bool {
        let ClientHeartbeatReply { tasks, iteration_finished, block_round, deployment_mode } =
            reply;
        std::ptr::addr_eq(self.tasks.as_ptr(), Arc::as_ptr(tasks))
            && self.rest.iteration_finished == *iteration_finished
            && self.rest.block_round == *block_round
            && self.rest.deployment_mode == *deployment_mode
    }
}

impl TaskLists {
    /// Encodes an answer, or finds it encoded. Callers who want the same one at once wait for the first.
    pub(super) fn encode(&self, reply: &ClientHeartbeatReply) -> Bytes {
        let Some(first) = reply.tasks.first().filter(|_| reply.tasks.len() >= TASKS_MIN) else {
            return convert::encode_client_heartbeat(reply);
        };
        let answer = self.find(first.iteration, reply);
        let mut is_new = false;
        let encoded = answer.encoded.get_or_init(|| {
            is_new = true;
            convert::encode_client_heartbeat(reply)
        });
        let encoded = encoded.clone();
        if is_new {
            // A list that is held weakly takes its memory too, though it may be empty by then.
            let list = size_of_val(&*reply.tasks);
            self.count(first.iteration, &answer, encoded.len().saturating_add(list));
        }
        encoded
    }

    /// The place of this answer: the one there is, or a new one in place of a former answer's.
    fn find(&self, iteration: IterationId, reply: &ClientHeartbeatReply) -> Arc<Answer> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.answers.get(&iteration);
        if let Some((answer, _)) = known.filter(|(answer, _)| answer.is_of(reply)) {
            return Arc::clone(answer);
        }
        kept.remove(iteration);
        kept.forget_dead();
        let answer = Arc::new(Answer::of(reply));
        kept.answers.insert(iteration, (Arc::clone(&answer), 0));
        answer
    }

    /// Counts an answer that has been encoded, if it is still kept, and keeps to the bound.
    fn count(&self, iteration: IterationId, encoded: &Arc<Answer>, takes: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((answer, bytes)) = kept.answers.get_mut(&iteration) else {
            return;
        };
        if Arc::ptr_eq(answer, encoded) {
            *bytes = takes;
            kept.bytes = kept.bytes.saturating_add(takes);
        }
        kept.keep_to(KEPT_BYTES_MAX);
    }
}

impl Kept {
    fn remove(&mut self, iteration: IterationId) {
        if let Some((_, bytes)) = self.answers.remove(&iteration) {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// Removes the answers of the oldest iterations until so many bytes are left.
    fn keep_to(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some((oldest, _)) = self.answers.first_key_value() else {
                return;
            };
            self.remove(*oldest);
        }
    }

    /// Removes the answers whose lists the core has dropped.
    fn forget_dead(&mut self) {
        self.answers.retain(|_, (answer, _)| answer.tasks.strong_count() > 0);
        self.bytes = self.answers.values().map(|(_, bytes)| bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use rondo_core::dispatcher::{DeploymentMode, Reply};
    use rondo_core::ids::TaskId;
    use rondo_proto::convert::Encoded;

    use super::*;

    fn list(iteration: i64, len: usize, tag: &str) -> Arc<[TaskInfo]> {
        let task = |number| TaskInfo {
            worker_address: format!("worker{number}:5000").into(),
            task: TaskId::new(4000 + number),
            iteration: IterationId::new(iteration),
            starting_round: 0,
            worker_tags: [tag.to_owned()].into(),
            worker_uid: number,
            transfer_servers: Arc::default(),
        };
        (0_i64..).take(len).map(task).collect()
    }

    fn reply(tasks: &Arc<[TaskInfo]>) -> ClientHeartbeatReply {
        ClientHeartbeatReply {
            tasks: Arc::clone(tasks),
            iteration_finished: false,
            block_round: None,
            deployment_mode: DeploymentMode::Remote,
        }
    }

    /// Encodes an answer, which must be what the plain encoding makes of it.
    fn encode(lists: &TaskLists, reply: &ClientHeartbeatReply) -> Bytes {
        let encoded = lists.encode(reply);
        let plain = convert::encode_reply(Reply::ClientHeartbeat(reply.clone()));
        assert_eq!(Encoded::Message(encoded.clone()), plain);
        encoded
    }

    #[test]
    fn clients_share_one_answer_until_something_in_it_changes() {
        let lists = TaskLists::default();
        let tasks = list(1, 5000, "a");
        let first = encode(&lists, &reply(&tasks));
        assert_eq!(encode(&lists, &reply(&tasks)).as_ptr(), first.as_ptr());
        let changes: [fn(&mut ClientHeartbeatReply); 4] = [
            |reply| reply.iteration_finished = true,
            |reply| reply.block_round = Some(7),
            |reply| reply.deployment_mode = DeploymentMode::Hybrid,
            |reply| reply.tasks = list(1, 5000, "b"),
        ];
        for change in changes {
            let mut other = reply(&tasks);
            change(&mut other);
            let changed = encode(&lists, &other);
            assert_ne!(changed, first);
            assert_eq!(encode(&lists, &other).as_ptr(), changed.as_ptr());
        }
        assert_eq!(lists.0.lock().unwrap().answers.len(), 1, "only the newest one is kept");
    }

    #[test]
    fn a_list_at_a_dropped_ones_address_is_another_list() {
        let lists = TaskLists::default();
        for turn in 0..100 {
            encode(&lists, &reply(&list(1, TASKS_MIN, &turn.to_string())));
        }
    }

    #[test]
    fn short_lists_are_not_kept() {
        let lists = TaskLists::default();
        encode(&lists, &reply(&list(1, 0, "")));
        encode(&lists, &reply(&list(1, TASKS_MIN - 1, "")));
        assert!(lists.0.lock().unwrap().answers.is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded_and_goes_with_the_lists() {
        let lists = TaskLists::default();
        let tasks: Vec<_> = (1..4).map(|iteration| list(iteration, 100, "")).collect();
        let takes = |of: &Arc<[TaskInfo]>| encode(&lists, &reply(of)).len() + size_of_val(&**of);
        let bytes: Vec<_> = tasks.iter().map(takes).collect();
        let mut kept = lists.0.lock().unwrap();
        assert_eq!(kept.bytes, bytes.iter().sum::<usize>());
        kept.keep_to(bytes[2] + 1);
        assert_eq!((kept.answers.len(), kept.bytes), (1, bytes[2]));
        drop((kept, tasks));
        let next = list(4, 100, "");
        let length = takes(&next);
        let kept = lists.0.lock().unwrap();
        assert_eq!((kept.answers.len(), kept.bytes), (1, length));
    }

    /// Three of these lists fit, a fourth one does not.
    #[test]
    fn the_newest_answers_stay_within_the_bound() {
        let lists = TaskLists::default();
        let tag = "t".repeat(KEPT_BYTES_MAX / TASKS_MIN * 3 / 10);
        for iteration in 1..5 {
            let one = list(iteration, 1, &tag).first().cloned().unwrap();
            let tasks: Arc<[TaskInfo]> = vec![one; TASKS_MIN].into();
            // The core keeps it.
            std::mem::forget(Arc::clone(&tasks));
            lists.encode(&reply(&tasks));
            assert!(lists.0.lock().unwrap().bytes <= KEPT_BYTES_MAX);
        }
        let kept = lists.0.lock().unwrap();
        let iterations: Vec<_> = kept.answers.keys().map(|iteration| iteration.get()).collect();
        assert_eq!(iterations, [2, 3, 4]);
    }

    #[test]
    fn an_answer_whose_place_was_taken_while_it_was_encoded_is_not_counted() {
        let lists = TaskLists::default();
        let (tasks, newer) = (list(1, 100, "a"), list(1, 100, "b"));
        let former = lists.find(IterationId::new(1), &reply(&tasks));
        let length = encode(&lists, &reply(&newer)).len() + size_of_val(&*newer);
        lists.count(IterationId::new(1), &former, 7);
        let kept = lists.0.lock().unwrap();
        assert_eq!(kept.bytes, length);
        assert_eq!(kept.answers.values().map(|(_, bytes)| bytes).sum::<usize>(), length);
    }
}
