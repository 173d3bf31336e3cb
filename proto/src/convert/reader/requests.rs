//! What a reader asks of the dispatcher.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{GetOrCreateJob, Group, HoldSplits, SplitProgress, TargetWorkers};
use rondo_core::reader::{self, Request};

use crate::admin;
use crate::convert::jobs::sharding;
use crate::convert::{HOLD_SPLITS_PATH, Method, RESTORE_POSITION_PATH, encode_hold};
use crate::tf::data as wire;

/// The path and the message of a request by a reader of this job.
pub fn encode_reader_request(job: &GetOrCreateJob, request: &Request) -> (&'static str, Bytes) {
    match request {
        Request::CreateJob => (Method::GetOrCreateJob.path(), encoded(&job_message(job))),
        Request::CreateIteration { job, repetition } => {
            let (job_id, repetition) = (job.get(), *repetition);
            let request = wire::GetOrCreateIterationRequest { job_id, repetition };
            (Method::GetOrCreateIteration.path(), encoded(&request))
        }
        Request::Heartbeat { client, current_round, blocked_round } => {
            let request = wire::ClientHeartbeatRequest {
                iteration_client_id: client.get(),
                current_round: *current_round,
                blocked_round: *blocked_round,
                ..Default::default()
            };
            (Method::ClientHeartbeat.path(), encoded(&request))
        }
        Request::HoldSplits { client, hold, progress, group } => {
            let told = |told: &reader::SplitProgress| SplitProgress {
                place: told.place,
                records: told.records,
                finished: told.is_finished,
            };
            let request = HoldSplits {
                client: *client,
                hold: usize::try_from(*hold).unwrap_or(usize::MAX),
                progress: progress.iter().map(told).collect(),
                group: group
                    .map_or(Group::ALL, |member| Group { index: member.index, size: member.size }),
            };
            (HOLD_SPLITS_PATH, encode_hold(&request))
        }
        Request::RemoveTask { task, consumer, round } => {
            let (task_id, consumer_index, round) = (task.get(), *consumer, *round);
            let request = wire::MaybeRemoveTaskRequest { task_id, consumer_index, round };
            (Method::MaybeRemoveTask.path(), encoded(&request))
        }
        Request::Release { client } => {
            let iteration_client_id = client.get();
            let request = wire::ReleaseIterationClientRequest { iteration_client_id };
            (Method::ReleaseIterationClient.path(), encoded(&request))
        }
    }
}

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// The path and the message that take the job of a reader back to a position.
pub fn encode_restoration(position: &str, job: &GetOrCreateJob) -> (&'static str, Bytes) {
    let mut wanted = job_message(job);
    let (name, job) = (position.to_owned(), wanted.job_name.take().unwrap_or_default());
    let request = admin::RestorePositionRequest { name, job, wanted: Some(wanted) };
    (RESTORE_POSITION_PATH, encoded(&request))
}

fn job_message(job: &GetOrCreateJob) -> wire::GetOrCreateJobRequest {
    let target = match job.target_workers {
        TargetWorkers::Unspecified => wire::TargetWorkers::Unspecified,
        TargetWorkers::Auto => wire::TargetWorkers::Auto,
        TargetWorkers::Any => wire::TargetWorkers::Any,
        TargetWorkers::Local => wire::TargetWorkers::Local,
    };
    wire::GetOrCreateJobRequest {
        dataset_id: job.dataset.as_str().to_owned(),
        processing_mode_def: Some(wire::ProcessingModeDef {
            sharding_policy: sharding(job.sharding).into(),
        }),
        job_name: job.name.clone(),
        num_consumers: job.consumers,
        use_cross_trainer_cache: job.use_cross_trainer_cache,
        target_workers: target.into(),
        same_dataset: job.same_dataset,
    }
}
