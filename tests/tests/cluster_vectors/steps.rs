//! Steps of a case: calls of one resolver, or of a spec.

use rondo_core::cluster::{AnyResolver, ClusterSpec, Error, Fault, Json, MasterOf};
use rondo_proto::convert::{decode_cluster_def, encode_cluster_def};

use super::fake::Fake;
use super::values::{number, text};

fn argument<'a>(step: &'a Json, name: &str) -> Option<&'a Json> {
    step.at(&["args", name]).filter(|value| !value.is_null())
}

/// A step of a resolver's case.
pub(crate) fn of_resolver(
    resolver: &mut AnyResolver,
    fake: &mut Fake,
    step: &Json,
) -> Result<Json, Error> {
    let task_type = argument(step, "task_type").and_then(Json::as_text);
    let task_id = argument(step, "task_id").and_then(Json::as_u32);
    match step.text_at(&["do"]).unwrap() {
        "cluster_spec" => Ok(fake.call(|seen| resolver.cluster_spec(seen))?.to_json()),
        "task" => {
            let job = text(fake.call(|seen| resolver.task_type(seen))?);
            let index = number(fake.call(|seen| resolver.task_id(seen))?);
            Ok(Json::Map(vec![("type".into(), job), ("id".into(), index)]))
        }
        "rpc_layer" => Ok(text(fake.call(|seen| resolver.rpc_layer(seen))?)),
        "environment" => Ok(text(fake.call(|seen| resolver.environment(seen))?)),
        "master" => {
            let rpc_layer = argument(step, "rpc_layer").and_then(Json::as_text);
            let of = MasterOf { task_type, task_id, rpc_layer };
            Ok(Json::Text(fake.call(|seen| resolver.master(seen, &of))?))
        }
        "num_accelerators" => {
            let found =
                fake.call(|seen| resolver.num_accelerators(seen, task_type, task_id, None))?;
            Ok(Json::Map(
                found.into_iter().map(|(kind, count)| (kind, Json::number(count))).collect(),
            ))
        }
        "set" => {
            task_type.map_or(Ok(()), |job| resolver.set_task_type(job))?;
            task_id.map_or(Ok(()), |index| resolver.set_task_id(index))?;
            Ok(Json::Null)
        }
        "cuda_visible_devices" => {
            let gpus = fake.call(|seen| resolver.own_gpus(seen)).unwrap_or_default();
            Ok(text(gpus.map(|gpus| gpus.join(","))))
        }
        "http_log" => Ok(Json::List(fake.requests.clone())),
        "api_calls" => Ok(Json::List(fake.calls.clone())),
        other => Err(unknown(other)),
    }
}

/// A step of a spec's case.
pub(crate) fn of_spec(spec: &ClusterSpec, step: &Json) -> Result<Json, Error> {
    let job = argument(step, "job").and_then(Json::as_text).unwrap_or_default();
    match step.text_at(&["do"]).unwrap() {
        "cluster_spec" => Ok(spec.to_json()),
        "jobs" => Ok(Json::List(spec.jobs().map(Json::text).collect())),
        "bool" => Ok(Json::Bool(!spec.is_empty())),
        "num_tasks" => Ok(Json::number(spec.num_tasks(job)? as u64)),
        "task_indices" => {
            Ok(Json::List(spec.task_indices(job)?.into_iter().map(Json::number).collect()))
        }
        "task_address" => {
            let index = argument(step, "index").and_then(Json::as_u32).unwrap();
            Ok(Json::text(spec.task_address(job, index)?))
        }
        "job_tasks" => {
            let tasks = spec.job_tasks(job)?;
            Ok(Json::List(tasks.into_iter().map(|it| it.map_or(Json::Null, Json::text)).collect()))
        }
        "cluster_def" => {
            let read = decode_cluster_def(&encode_cluster_def(spec))
                .map_err(|status| Error::new(Fault::Malformed, "cluster_def", status.message))?;
            assert_eq!(&read, spec);
            let tasks = |job: &str| {
                let tasks = read.job(job).unwrap().iter();
                Json::Map(
                    tasks
                        .map(|(index, address)| (index.to_string(), Json::text(address)))
                        .collect(),
                )
            };
            Ok(Json::List(
                read.jobs().map(|job| Json::List(vec![Json::text(job), tasks(job)])).collect(),
            ))
        }
        other => Err(unknown(other)),
    }
}

fn unknown(step: &str) -> Error {
    Error::new(Fault::Unsupported, "step", format!("no step {step:?} is known"))
}
