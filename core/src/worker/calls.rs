//! Calls to the dispatcher, what they are for, and what their answers mean.

use alloc::vec::Vec;

use super::machine::Worker;
use super::task::Opening;
use super::types::{Effect, Reply, Request, RpcId};
use crate::ids::TaskId;
use crate::status::{Code, Status};
use crate::time::Time;

/// What a call to the dispatcher is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Version,
    Heartbeat,
    Update(Vec<TaskId>),
    Split(TaskId),
    Compression(TaskId),
    Definition(TaskId),
}

impl Worker {
    /// Calls the dispatcher.
    pub(super) fn send(
        &mut self,
        purpose: Purpose,
        request: Request,
        out: &mut Vec<Effect>,
    ) -> RpcId {
        self.last_rpc = self.last_rpc.saturating_add(1);
        let rpc = RpcId(self.last_rpc);
        self.rpcs.insert(rpc, purpose);
        out.push(Effect::Send { rpc, request });
        rpc
    }

    pub(super) fn answered(
        &mut self,
        now: Time,
        rpc: RpcId,
        (result, entropy): (Result<Reply, Status>, u64),
        out: &mut Vec<Effect>,
    ) {
        let Some(purpose) = self.rpcs.remove(&rpc) else { return };
        match purpose {
            Purpose::Version => {
                let version = wanted(result, |reply| match reply {
                    Reply::Version(version) => Some(version),
                    _ => None,
                });
                self.version_answered(now, version, entropy, out);
            }
            Purpose::Heartbeat => {
                let tasks = wanted(result, |reply| match reply {
                    Reply::Tasks { new, deleted } => Some((new, deleted)),
                    _ => None,
                });
                self.heartbeat_answered(now, tasks, entropy, out);
            }
            Purpose::Update(completed) => {
                self.update_answered(now, completed, result.map(drop), out);
            }
            Purpose::Split(id) | Purpose::Compression(id) | Purpose::Definition(id) => {
                self.answered_for(now, id, rpc, (result, entropy), out);
            }
        }
    }

    /// An answer for a task, if that is still the one that asked.
    fn answered_for(
        &mut self,
        now: Time,
        id: TaskId,
        rpc: RpcId,
        (result, entropy): (Result<Reply, Status>, u64),
        out: &mut Vec<Effect>,
    ) {
        let Some(mut task) = self.tasks.remove(&id) else { return };
        if task.supply.getting == Some(rpc) {
            let split = wanted(result, |reply| match reply {
                Reply::Split(split) => Some(split),
                _ => None,
            });
            self.split_answered(now, &mut task, split, entropy);
        } else if task.opening == Opening::Definition(rpc) {
            let definition = wanted(result, |reply| match reply {
                Reply::Definition(definition) => Some(definition),
                _ => None,
            });
            self.definition_answered(&mut task, definition, out);
        } else if task.opening == Opening::Compression(rpc) {
            let compressed = wanted(result, |reply| match reply {
                Reply::Compression(compressed) => Some(compressed),
                _ => None,
            });
            self.compression_answered(now, &mut task, (compressed, entropy), out);
        }
        self.tasks.insert(id, task);
        self.with_task(now, id, out, |_| {});
    }
}

/// The answer as it is wanted.
fn wanted<T>(
    result: Result<Reply, Status>,
    take: impl FnOnce(Reply) -> Option<T>,
) -> Result<T, Status> {
    let broken = || Status::new(Code::Internal, "the dispatcher answers another question");
    result.and_then(|reply| take(reply).ok_or_else(broken))
}
