//! What a reader is opened with, from Python's keywords.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rondo::reader::{Builder, Mode, Reader, ShardingPolicy};

use crate::error::{invalid, seconds};

/// All policies.
const POLICIES: [ShardingPolicy; 6] = [
    ShardingPolicy::Off,
    ShardingPolicy::Dynamic,
    ShardingPolicy::File,
    ShardingPolicy::Data,
    ShardingPolicy::FileOrData,
    ShardingPolicy::Hint,
];
/// The keywords there are.
const KEYWORDS: &str = "job, sharding, mode, group, consumer, repetition, resume, acknowledge_by_hand, \
                        splits, batch_records, buffer, requests_per_task, continue_on_error, \
                        acknowledge_interval, worker_patience, message_bytes_max";

/// What these settings come to, and the job's name. What is `None` is as if it were not given.
///
/// # Errors
/// When a setting is not known, or its value is none that it can have.
pub(super) fn builder(
    py: Python<'_>,
    dispatcher: &str,
    dataset: &str,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Builder, Option<String>)> {
    let mut builder = Reader::builder(dispatcher).dataset(dataset);
    let mut job = None;
    for (keyword, value) in settings.into_iter().flatten() {
        if value.is_none() {
            continue;
        }
        let keyword = keyword.cast::<PyString>()?.to_str()?.to_owned();
        if keyword == "job" {
            job = Some(value.extract::<String>()?);
        }
        builder = set(py, builder, &keyword, &value)?;
    }
    Ok((builder, job))
}

fn set(
    py: Python<'_>,
    builder: Builder,
    keyword: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<Builder> {
    Ok(match keyword {
        "job" => builder.job(value.cast::<PyString>()?.to_str()?),
        "sharding" => builder.sharding(policy(py, &value.extract::<String>()?)?),
        "mode" => builder.mode(mode(py, &value.extract::<String>()?)?),
        "group" => {
            let (index, size) = value.extract()?;
            builder.group(index, size)
        }
        "consumer" => {
            let (index, size) = value.extract()?;
            builder.consumer(index, size)
        }
        "repetition" => builder.repetition(value.extract()?),
        "resume" => builder.resume(value.cast::<PyString>()?.to_str()?),
        "acknowledge_by_hand" if value.is_truthy()? => builder.acknowledge_by_hand(),
        "continue_on_error" if value.is_truthy()? => builder.continue_on_error(),
        "acknowledge_by_hand" | "continue_on_error" => builder,
        "splits" => {
            let (hold, streams) = value.extract()?;
            builder.splits(hold, streams)
        }
        "batch_records" => builder.batch_records(value.extract()?),
        "buffer" => {
            let (bytes, deliveries) = value.extract()?;
            builder.buffer(bytes, deliveries)
        }
        "requests_per_task" => builder.requests_per_task(value.extract()?),
        "acknowledge_interval" => {
            builder.acknowledge_interval(seconds(py, keyword, value.extract()?)?)
        }
        "worker_patience" => builder.worker_patience(seconds(py, keyword, value.extract()?)?),
        "message_bytes_max" => builder.message_bytes_max(value.extract()?),
        _ => {
            return Err(invalid(
                py,
                format!("a reader has no setting {keyword:?}: it has {KEYWORDS}"),
            ));
        }
    })
}

fn policy(py: Python<'_>, name: &str) -> PyResult<ShardingPolicy> {
    let wanted = name.to_ascii_uppercase();
    POLICIES.into_iter().find(|policy| policy.name() == wanted).ok_or_else(|| {
        let names = POLICIES.map(ShardingPolicy::name).join(", ");
        invalid(py, format!("sharding is {name:?}: it is one of {names}"))
    })
}

fn mode(py: Python<'_>, name: &str) -> PyResult<Mode> {
    match name {
        "auto" => Ok(Mode::Auto),
        "split" => Ok(Mode::Split),
        "element" => Ok(Mode::Element),
        _ => Err(invalid(py, format!("mode is {name:?}: it is auto, split or element"))),
    }
}
