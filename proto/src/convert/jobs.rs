//! Creating jobs.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{GetOrCreateJob, Request, ShardingPolicy, TargetWorkers};
use rondo_core::ids::JobId;
use rondo_core::limits::CONSUMERS_MAX;
use rondo_core::status::{Code, Status};

use super::check::{field, message};
use super::datasets::dataset_id;
use crate::tf::data as wire;
use wire::processing_mode_def::ShardingPolicy as WirePolicy;

const NAME: &str = "GetOrCreateJobRequest";

/// Decodes `GetOrCreateJobRequest`.
pub(super) fn decode_job(bytes: &Bytes) -> Result<Request, Status> {
    job_of(message(NAME, bytes)?).map(Request::GetOrCreateJob)
}

/// The job that a message asks for.
pub(super) fn job_of(request: wire::GetOrCreateJobRequest) -> Result<GetOrCreateJob, Status> {
    let mode = request.processing_mode_def.unwrap_or_default();
    // A name that is present counts, even the empty one: so TensorFlow has it.
    let name = request.job_name.map(|name| field(NAME, "job_name").name(name)).transpose()?;
    Ok(GetOrCreateJob {
        dataset: dataset_id(NAME, request.dataset_id)?,
        same_dataset: request.same_dataset,
        sharding: decode_sharding(mode.sharding_policy)?,
        name,
        consumers: request.num_consumers.map(decode_consumers).transpose()?,
        use_cross_trainer_cache: request.use_cross_trainer_cache,
        target_workers: decode_target(request.target_workers)?,
    })
}

/// The sharding policy of this number.
pub(super) fn decode_sharding(number: i32) -> Result<ShardingPolicy, Status> {
    Ok(match WirePolicy::try_from(number) {
        Ok(WirePolicy::Off) => ShardingPolicy::Off,
        Ok(WirePolicy::Dynamic) => ShardingPolicy::Dynamic,
        Ok(WirePolicy::File) => ShardingPolicy::File,
        Ok(WirePolicy::Data) => ShardingPolicy::Data,
        Ok(WirePolicy::FileOrData) => ShardingPolicy::FileOrData,
        Ok(WirePolicy::Hint) => ShardingPolicy::Hint,
        Err(_) => {
            let text = format!(
                "ProcessingMode sharding_policy: {number} does not specify a valid sharding \
                 policy; it must be 0 (OFF), 1 (DYNAMIC), 2 (FILE), 3 (DATA), 4 (FILE_OR_DATA) \
                 or 5 (HINT)"
            );
            return Err(Status::new(Code::Internal, text));
        }
    })
}

fn decode_consumers(number: i64) -> Result<i64, Status> {
    if (1..=CONSUMERS_MAX).contains(&number) {
        return Ok(number);
    }
    let right = format_args!("a coordinated read has 1 to {CONSUMERS_MAX} consumers").to_string();
    Err(field(NAME, "num_consumers").refuse(number, right))
}

fn decode_target(number: i32) -> Result<TargetWorkers, Status> {
    Ok(match wire::TargetWorkers::try_from(number) {
        Ok(wire::TargetWorkers::Unspecified) => TargetWorkers::Unspecified,
        Ok(wire::TargetWorkers::Auto) => TargetWorkers::Auto,
        Ok(wire::TargetWorkers::Any) => TargetWorkers::Any,
        Ok(wire::TargetWorkers::Local) => TargetWorkers::Local,
        Err(_) => {
            return Err(field(NAME, "target_workers")
                .refuse(number, "it must be 0 (unspecified), 1 (auto), 2 (any) or 3 (local)"));
        }
    })
}

/// The sharding policy as it stands on the wire.
pub(super) const fn sharding(policy: ShardingPolicy) -> WirePolicy {
    match policy {
        ShardingPolicy::Off => WirePolicy::Off,
        ShardingPolicy::Dynamic => WirePolicy::Dynamic,
        ShardingPolicy::File => WirePolicy::File,
        ShardingPolicy::Data => WirePolicy::Data,
        ShardingPolicy::FileOrData => WirePolicy::FileOrData,
        ShardingPolicy::Hint => WirePolicy::Hint,
    }
}

/// Encodes `GetOrCreateJobResponse`.
pub(super) fn encode_job(id: JobId) -> Bytes {
    wire::GetOrCreateJobResponse { job_id: id.get() }.encode_to_vec().into()
}
