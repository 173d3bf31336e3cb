//! A task as its worker is told of it.

use rondo_core::dispatcher::ShardingPolicy;
use rondo_core::ids::{IterationId, TaskId};
use rondo_core::limits::{CONSUMERS_MAX, HEARTBEAT_ITEMS_MAX, SOURCES_MAX};
use rondo_core::status::Status;

use super::{TaskDefinition, WorkerTask};
use crate::convert::check::{Field, field};
use crate::convert::datasets::dataset_id;
use crate::convert::jobs::{decode_sharding, sharding};
use crate::tf::data as wire;

const NAME: &str = "TaskDef";

/// Checks a task that a dispatcher sent.
pub(super) fn decode_task(task: Option<wire::TaskDef>) -> Result<WorkerTask, Status> {
    let missing = || field("ProcessTaskRequest", "task").refuse("missing", "it must be a TaskDef");
    let task = task.ok_or_else(missing)?;
    let mode = task.processing_mode_def.unwrap_or_default();
    let sharding = decode_sharding(mode.sharding_policy)?;
    let (workers, worker_index) = place(sharding, task.num_workers, task.worker_index)?;
    let consumers = field(NAME, "num_consumers");
    let providers = field(NAME, "num_split_providers");
    Ok(WorkerTask {
        task: TaskId::new(task.task_id),
        iteration: IterationId::new(task.iteration_id),
        dataset: dataset_id(NAME, task.dataset_id)?,
        definition: decode_definition(task.dataset)?,
        worker_address: field(NAME, "worker_address").present_name(task.worker_address)?,
        sharding,
        consumers: task
            .num_consumers
            .map(|number| within(consumers, number, 1, CONSUMERS_MAX))
            .transpose()?,
        split_providers: within(providers, task.num_split_providers, 0, SOURCES_MAX as i64)?,
        workers,
        worker_index,
        use_cross_trainer_cache: task.use_cross_trainer_cache,
    })
}

fn within(field: Field, number: i64, least: i64, most: i64) -> Result<i64, Status> {
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err(field.refuse(number, format_args!("it must be from {least} to {most}")))
}

/// The number of workers and the place among them, which count under static sharding only.
fn place(policy: ShardingPolicy, workers: i64, index: i64) -> Result<(i64, i64), Status> {
    let least = i64::from(policy.is_static());
    let workers = within(field(NAME, "num_workers"), workers, least, HEARTBEAT_ITEMS_MAX as i64)?;
    let last = workers.saturating_sub(1).max(0);
    Ok((workers, within(field(NAME, "worker_index"), index, 0, last)?))
}

fn decode_definition(dataset: Option<wire::task_def::Dataset>) -> Result<TaskDefinition, Status> {
    match dataset {
        Some(wire::task_def::Dataset::DatasetDef(bytes)) => Ok(TaskDefinition::Inline(bytes)),
        Some(wire::task_def::Dataset::Path(path)) => {
            field(NAME, "path").name(path).map(TaskDefinition::Path)
        }
        None => Err(field(NAME, "dataset").refuse("missing", "it must be a dataset_def or a path")),
    }
}

/// The task as it stands on the wire.
pub(super) fn encode_task(task: &WorkerTask) -> wire::TaskDef {
    wire::TaskDef {
        dataset: Some(match &task.definition {
            TaskDefinition::Inline(bytes) => wire::task_def::Dataset::DatasetDef(bytes.clone()),
            TaskDefinition::Path(path) => wire::task_def::Dataset::Path(path.clone()),
        }),
        dataset_id: task.dataset.as_str().to_owned(),
        task_id: task.task.get(),
        iteration_id: task.iteration.get(),
        num_consumers: task.consumers,
        worker_address: task.worker_address.clone(),
        num_split_providers: task.split_providers,
        processing_mode_def: Some(wire::ProcessingModeDef {
            sharding_policy: sharding(task.sharding).into(),
        }),
        num_workers: task.workers,
        worker_index: task.worker_index,
        use_cross_trainer_cache: task.use_cross_trainer_cache,
    }
}
