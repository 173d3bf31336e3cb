//! Barriers this task waits at, and the instances that come next.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::calls::Purpose;
use super::errors;
use super::machine::Agent;
use super::types::{Effect, Reply, Request, State};
use crate::ids::{CallId, ServiceIncarnation, TaskIndex};
use crate::status::{Detail, Status};
use crate::time::Duration;

/// All barriers.
#[derive(Clone, Debug, Default)]
pub(super) struct Barriers {
    /// The next instance of those used before.
    next: BTreeMap<Arc<str>, i64>,
    waiting: BTreeSet<Arc<str>>,
    /// The namespace's life in which they are counted, once the task has registered.
    life: Option<ServiceIncarnation>,
}

impl Barriers {
    pub(super) const fn new() -> Self {
        Self { next: BTreeMap::new(), waiting: BTreeSet::new(), life: None }
    }

    /// The task takes part in a life of the namespace. Another life counts from 0.
    pub(super) fn begin(&mut self, life: ServiceIncarnation) {
        if self.life.is_some_and(|before| before != life) {
            self.next.clear();
        }
        self.life = Some(life);
    }

    /// The instance that is going on, or comes next.
    pub(super) fn counter(&self, id: &str) -> i64 {
        self.next.get(id).copied().unwrap_or(0)
    }

    /// A barrier has ended. The server knows best which instance that was; if the call never
    /// reached it, the same instance comes next.
    pub(super) fn end(&mut self, id: &Arc<str>, result: &Result<Reply, Status>) {
        self.waiting.remove(id);
        let ended = match result {
            Ok(Reply::Barrier { counter }) => Some(*counter),
            Ok(_) => None,
            Err(status) => status.details.iter().find_map(|detail| match detail {
                Detail::Barrier { counter, .. } => Some(*counter),
                _ => None,
            }),
        };
        if let Some(ended) = ended {
            self.next.insert(id.clone(), ended.saturating_add(1));
        }
    }

    /// Nobody waits for a barrier any more.
    pub(super) fn abandon(&mut self, id: &str) {
        self.waiting.remove(id);
    }

    /// The task takes no part any more. The server counts on in the same life, and so does the task
    /// when it returns; a task that may restart counts from 0 then, which the server understands.
    pub(super) fn leave(&mut self, recoverable: bool) {
        self.waiting.clear();
        if recoverable {
            self.next.clear();
        }
    }

    /// The agent becomes another task, or another run of it.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Agent {
    pub(super) fn barrier(
        &mut self,
        call: CallId,
        (id, timeout, tasks): (Arc<str>, Duration, Vec<TaskIndex>),
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        if self.state == State::Error {
            return Err(errors::wrong_state("Barrier", "RUNNING", self.state));
        }
        if !self.barriers.waiting.insert(id.clone()) {
            return Err(errors::already(&format!("this task waits at the barrier {id:?}")));
        }
        let counter = self.barriers.counter(&id);
        let request = Request::Barrier { id: id.clone(), counter, timeout, tasks };
        self.send(Purpose::Barrier(call, id), request, None, out);
        Ok(())
    }
}
