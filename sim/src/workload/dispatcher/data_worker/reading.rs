//! Readers by split at a data worker: it serves records of the splits of each task that it has.

use bytes::Bytes;
use rondo_core::dispatcher::TransferServer;
use rondo_core::status::Status;
use rondo_core::time::Time;
use rondo_core::worker::{Answer, Ask, Input};

use super::DataWorker;
use crate::workload::actor::{Act, ActorId, Read, ReadAnswer, WantedRecords, With};
use crate::workload::dispatcher::record_bytes;

/// Who waits for records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    from: ActorId,
    token: u64,
    wanted: WantedRecords,
}

impl Reads {
    /// The worker has said whether it has the task.
    pub(super) fn answer(self, result: &Result<Answer, Status>, with: &mut With<'_>) {
        let answer = match (result, &with.swarm.reading) {
            (Ok(Answer::Dataset(_)), Some(shape)) => record_bytes::answer(shape, self.wanted),
            _ => ReadAnswer::NoTask,
        };
        with.acts.push(Act::Tell { to: self.from, token: self.token, answer });
    }
}

impl DataWorker {
    /// The protocols that it serves; that of readers by split where there are any.
    pub(super) fn servers(&self, with: &With<'_>) -> Vec<TransferServer> {
        let mut protocols = vec!["grpc"];
        protocols.extend(with.swarm.reading.map(|_| "rondo"));
        let server = |protocol: &str| TransferServer {
            protocol: protocol.into(),
            address: self.address.to_string(),
            compatibility_info: Bytes::new(),
            fall_back_to_grpc_at_client_creation_time: true,
            fall_back_to_grpc_at_get_element_time: true,
        };
        protocols.into_iter().map(server).collect()
    }

    /// A reader by split asks for records.
    pub(super) fn asked_to_read(
        &mut self,
        now: Time,
        (from, token): (ActorId, u64),
        read: &Read,
        with: &mut With<'_>,
    ) {
        let Some(wanted) = read.split.filter(|_| self.machine.is_some()) else {
            let answer = ReadAnswer::NoTask;
            return with.acts.push(Act::Tell { to: from, token, answer });
        };
        let call = self.name_call();
        self.reads.insert(call, Reads { from, token, wanted });
        let ask = Ask::Dataset { task: read.task };
        self.step(now, Input::Asked { call, client: from.connection(), ask }, with);
    }
}
