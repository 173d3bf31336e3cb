//! Requests and answers as numbers for the trace hash.

use std::fmt::{Debug, Write};

use rondo_core::dispatcher::{Reply, Request, TaskDef, TaskInfo};
use rondo_core::status::{Code, Status};

use super::{TraceHash, word_of};
use crate::workload::kind::Kind;

/// A request as a number: its kind and all that the state machine decides by.
pub fn of_request(request: &Request) -> u64 {
    let mut hash = TraceHash::default();
    hash.add(Kind::of(request).index() as u64);
    match request {
        Request::GetSplit { iteration, repetition, source, asker } => {
            let numbers = [iteration.get(), *repetition, *source];
            numbers.iter().for_each(|number| hash.add(number.cast_unsigned()));
            hash.add_bytes(asker.as_deref().unwrap_or_default().as_bytes());
        }
        Request::WorkerHeartbeat(heartbeat) => {
            hash.add_bytes(heartbeat.address.as_bytes());
            hash.add(heartbeat.uid.cast_unsigned());
            heartbeat.current_tasks.iter().for_each(|task| hash.add(task.get().cast_unsigned()));
        }
        Request::ClientHeartbeat(heartbeat) => {
            hash.add(heartbeat.client.get().cast_unsigned());
            hash.add(heartbeat.current_round.unwrap_or(-1).cast_unsigned());
            hash.add(heartbeat.blocked_round.unwrap_or(-1).cast_unsigned());
        }
        Request::RegisterDataset(request) => {
            hash.add_bytes(request.definition.digest.as_bytes());
            hash.add_bytes(request.wished.as_ref().map_or("", |id| id.as_str()).as_bytes());
            hash.add(u64::from(request.replaces));
        }
        Request::GetOrCreateJob(request) => {
            hash.add_bytes(request.name.as_deref().unwrap_or_default().as_bytes());
            hash.add_bytes(request.dataset.as_str().as_bytes());
        }
        Request::GetOrCreateIteration { job, repetition } => {
            hash.add(job.get().cast_unsigned());
            hash.add(repetition.cast_unsigned());
        }
        Request::WorkerUpdate { worker_address, progress } => {
            hash.add_bytes(worker_address.as_bytes());
            progress.iter().for_each(|(task, _)| hash.add(task.get().cast_unsigned()));
        }
        Request::ReleaseClient { client } => hash.add(client.get().cast_unsigned()),
        Request::GetMetadata { dataset } | Request::GetDefinition { dataset } => {
            hash.add_bytes(dataset.as_str().as_bytes());
        }
        Request::DisableCompression { dataset, disable } => {
            hash.add_bytes(dataset.as_str().as_bytes());
            hash.add(u64::from(*disable));
        }
        Request::MaybeRemoveTask { task, consumer_index, round } => {
            let numbers = [task.get(), *consumer_index, *round];
            numbers.iter().for_each(|number| hash.add(number.cast_unsigned()));
        }
        Request::GetConfig | Request::GetWorkers | Request::Report | Request::ListPositions => {}
        // The rare ones, whole.
        _ => whole(request, &mut hash),
    }
    hash.value()
}

/// An answer as a number.
pub fn of_reply(answer: &Result<Reply, Status>) -> u64 {
    let mut hash = TraceHash::default();
    match answer {
        Ok(Reply::Split(split)) => hash.add(split.unwrap_or(i64::MIN).cast_unsigned()),
        Ok(Reply::ClientHeartbeat(reply)) => {
            hash.add(u64::from(reply.iteration_finished));
            hash.add(reply.block_round.unwrap_or(-1).cast_unsigned());
            reply.tasks.iter().for_each(|task| info(task, &mut hash));
        }
        Ok(Reply::WorkerHeartbeat(reply)) => {
            reply.new_tasks.iter().for_each(|task| def(task, &mut hash));
            reply.tasks_to_delete.iter().for_each(|task| hash.add(task.get().cast_unsigned()));
        }
        Ok(Reply::Client(id)) => hash.add(id.get().cast_unsigned()),
        Ok(Reply::Job(id)) => hash.add(id.get().cast_unsigned()),
        Ok(Reply::TaskRemoved(removed)) => hash.add(u64::from(*removed)),
        Ok(Reply::WorkerUpdated | Reply::ClientReleased) => hash.add(1),
        Ok(Reply::Report(report)) => {
            let sizes = [report.tasks.len(), report.clients.len(), report.iterations.len()];
            sizes.iter().for_each(|size| hash.add(*size as u64));
        }
        Ok(Reply::Dataset(id)) => hash.add_bytes(id.as_str().as_bytes()),
        Ok(Reply::Metadata(metadata)) => hash.add_bytes(metadata),
        Ok(Reply::Compression(disabled)) => {
            hash.add(disabled.map_or(2, u64::from));
        }
        Ok(Reply::Definition(definition)) => {
            hash.add_bytes(definition.digest.as_bytes());
            hash.add(definition.size_bytes);
        }
        Ok(Reply::Workers(workers)) => {
            workers.iter().for_each(|worker| hash.add_bytes(worker.as_bytes()));
        }
        Ok(reply) => whole(reply, &mut hash),
        Err(status) => of_error(status.code, &status.message, &mut hash),
    }
    hash.value()
}

/// Takes an error's code and text.
pub(super) fn of_error(code: Code, message: &str, hash: &mut TraceHash) {
    hash.add(u64::from(code.number().unsigned_abs()));
    hash.add_bytes(message.as_bytes());
}

/// Takes the whole `Debug` text of a value.
pub(crate) fn whole(value: &impl Debug, hash: &mut TraceHash) {
    let mut words = Words { hash, word: 0, bytes: 0 };
    // Writing into a hash cannot fail.
    let _ = write!(words, "{value:?}");
    words.finish();
}

/// Packs text into words of eight bytes, since `Debug` writes pieces of a few bytes each.
struct Words<'a> {
    hash: &'a mut TraceHash,
    /// The bytes that do not fill a word yet, the first one lowest.
    word: u64,
    /// The bytes written so far.
    bytes: u64,
}

impl Words<'_> {
    /// Takes the last, unfinished word and the length of the text.
    fn finish(self) {
        self.hash.add(self.word);
        self.hash.add(self.bytes);
    }
}

impl Write for Words<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let filled = self.bytes % 8;
            let room = usize::try_from(8_u64.saturating_sub(filled)).unwrap_or(8);
            let (piece, behind) = rest.split_at(rest.len().min(room));
            self.word |= word_of(piece) << (filled * 8);
            self.bytes = self.bytes.wrapping_add(piece.len() as u64);
            if self.bytes.is_multiple_of(8) {
                self.hash.add(self.word);
                self.word = 0;
            }
            rest = behind;
        }
        Ok(())
    }
}

fn info(task: &TaskInfo, hash: &mut TraceHash) {
    hash.add(task.task.get().cast_unsigned());
    hash.add(task.iteration.get().cast_unsigned());
    hash.add(task.starting_round.cast_unsigned());
    hash.add_bytes(task.worker_address.as_bytes());
}

fn def(task: &TaskDef, hash: &mut TraceHash) {
    hash.add(task.task.get().cast_unsigned());
    hash.add(task.iteration.get().cast_unsigned());
    hash.add(task.worker_index.cast_unsigned());
    hash.add_bytes(task.dataset.as_str().as_bytes());
}
