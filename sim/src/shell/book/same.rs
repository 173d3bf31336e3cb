//! What was said and told, sent and taken, are they the same?

use rondo_core::dispatcher::{Reply, Request, SplitPlan, TaskDef};
use rondo_core::status::{Code, Status};

/// Whether two answers are the same. The length of a definition that is a blob is told nobody.
pub(super) fn is_same(said: &Result<Reply, Status>, told: &Result<Reply, Status>) -> bool {
    match (said, told) {
        (Ok(Reply::WorkerHeartbeat(said)), Ok(Reply::WorkerHeartbeat(told))) => {
            let pairs = || said.new_tasks.iter().zip(&told.new_tasks);
            said.tasks_to_delete == told.tasks_to_delete
                && said.new_tasks.len() == told.new_tasks.len()
                && pairs().all(|(said, told)| is_same_task(said, told))
        }
        (Ok(Reply::Definition(said)), Ok(Reply::Definition(told))) => {
            said.digest == told.digest && said.size_bytes == told.size_bytes
        }
        // Answers that never came: the connection broke, or nobody waited any more.
        (_, Err(status)) if said.as_ref().err() != Some(status) => is_of_the_way(status),
        (said, told) => said == told,
    }
}

/// Whether a refusal can come from the way to the node and back.
fn is_of_the_way(status: &Status) -> bool {
    matches!(status.code, Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled)
}

fn is_same_task(said: &TaskDef, told: &TaskDef) -> bool {
    let definition = match said.definition.inline.is_some() {
        true => said.definition.clone(),
        false => told.definition.clone(),
    };
    let digests = said.definition.digest == told.definition.digest;
    digests && TaskDef { definition, ..said.clone() } == *told
}

/// Whether a request is the one that was sent. A graph is read on the way, and who asks for a
/// split is found out there.
pub(super) fn is_what_was_sent(sent: &Request, taken: &Request) -> bool {
    match (sent, taken) {
        (Request::RegisterDataset(sent), Request::RegisterDataset(taken)) => {
            sent.wished == taken.wished
                && sent.metadata.compression == taken.metadata.compression
                && sent.metadata.cardinality == taken.metadata.cardinality
                && match (&sent.plan, &taken.plan) {
                    (SplitPlan::Unsplittable { .. }, SplitPlan::Unsplittable { .. }) => true,
                    (sent, taken) => sent == taken,
                }
        }
        // The service asks for the wished id before it hashes the graph.
        (Request::RegisterDataset(sent), Request::GetRegistered { dataset, metadata }) => {
            sent.wished.as_ref() == Some(dataset)
                && sent.metadata.compression == metadata.compression
                && sent.metadata.cardinality == metadata.cardinality
        }
        (
            Request::GetSplit { iteration, repetition, source, asker },
            Request::GetSplit { iteration: i, repetition: r, source: s, asker: found },
        ) => {
            let named = asker.is_none() || asker == found;
            iteration == i && repetition == r && source == s && named
        }
        (sent, taken) => sent == taken,
    }
}
