//! A resolver, and one question to it at a time.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use rondo::resolve::{Finder, may_pass};
use rondo_core::cluster::{
    AnyResolver, ClusterSpec, Error, Fault, Json, MasterOf, Outcome, Seen, described,
};
use tokio::sync::Mutex;

use super::looking::{Looking, counts, parsed, told};
use crate::waiting::wait;

/// What `rondo.cluster.Resolver` asks. Answers are JSON.
#[pyclass(name = "_Resolver", frozen, module = "rondo._rondo")]
pub(super) struct Resolver(Mutex<Option<AnyResolver>>);

/// What is asked, and of which task.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Asked {
    question: String,
    task_type: Option<String>,
    task_id: Option<u32>,
    rpc_layer: Option<String>,
    device_count: Option<BTreeMap<String, u32>>,
}

#[pymethods]
impl Resolver {
    #[new]
    const fn new() -> Self {
        Self(Mutex::const_new(None))
    }

    /// Makes it what these settings describe.
    fn describe(&self, py: Python<'_>, settings: &str) -> PyResult<String> {
        let made = described(&parsed(py, "settings", settings)?);
        let done = wait(py, async {
            *self.0.lock().await = Some(made?);
            Ok(Json::Null)
        })?;
        Ok(told(done).to_string())
    }

    /// Says who asks it.
    #[pyo3(signature = (task_type = None, task_id = None))]
    fn set_task(
        &self,
        py: Python<'_>,
        task_type: Option<&str>,
        task_id: Option<u32>,
    ) -> PyResult<String> {
        let done = wait(py, async {
            let mut resolver = self.0.lock().await;
            let resolver = resolver.as_mut().ok_or_else(nothing)?;
            task_type.map_or(Ok(()), |task_type| resolver.set_task_type(task_type))?;
            task_id.map_or(Ok(()), |task_id| resolver.set_task_id(task_id))?;
            Ok(Json::Null)
        })?;
        Ok(told(done).to_string())
    }

    /// Asks it something.
    #[expect(clippy::needless_pass_by_value, reason = "made of what Python gives")]
    fn ask(&self, py: Python<'_>, asked: Asked, looking: Looking) -> PyResult<String> {
        let finder = looking.finder(py)?;
        let answer = wait(py, async {
            let mut resolver = self.0.lock().await;
            answer(finder, resolver.as_mut().ok_or_else(nothing)?, &asked).await
        })?;
        Ok(told(answer).to_string())
    }
}

fn nothing() -> Error {
    Error::new(Fault::NotPresent, "resolver", "nothing describes it")
}

async fn answer(finder: Finder, resolver: &mut AnyResolver, asked: &Asked) -> Result<Json, Error> {
    let finder = match asked.question.as_str() {
        "num_accelerators" => of_own_task(finder, resolver).await?,
        _ => finder,
    };
    let early = |found: &Result<Json, Error>| {
        found.as_ref().err().is_some_and(|error| may_pass(error.fault))
    };
    finder.find_ready(|seen| put(resolver, asked, seen), early).await
}

/// Puts a question to it.
fn put(resolver: &mut AnyResolver, asked: &Asked, seen: &Seen) -> Outcome<Json> {
    let text = |text: Option<String>| text.map_or(Json::Null, Json::text);
    let (task_type, task_id) = (asked.task_type.as_deref(), asked.task_id);
    Ok(match asked.question.as_str() {
        "cluster_spec" => ClusterSpec::to_json(&resolver.cluster_spec(seen)?),
        "master" => {
            let rpc_layer = asked.rpc_layer.as_deref();
            Json::text(resolver.master(seen, &MasterOf { task_type, task_id, rpc_layer })?)
        }
        "num_accelerators" => {
            let most = asked.device_count.as_ref();
            counts(&resolver.num_accelerators(seen, task_type, task_id, most)?)
        }
        "task_type" => text(resolver.task_type(seen)?),
        "task_id" => resolver.task_id(seen)?.map_or(Json::Null, Json::number),
        "rpc_layer" => text(resolver.rpc_layer(seen)?),
        "environment" => text(resolver.environment(seen)?),
        other => {
            let text = format!("{other:?} is nothing that a resolver is asked");
            return Err(Error::new(Fault::Unsupported, "question", text).into());
        }
    })
}

/// Devices are named as those of the process's own task.
async fn of_own_task(finder: Finder, resolver: &mut AnyResolver) -> Result<Finder, Error> {
    let own = move |seen: &Seen| Ok(resolver.task_type(seen)?.zip(resolver.task_id(seen)?));
    Ok(match finder.find(own).await? {
        Some((job, index)) => finder.with_task(&job, index),
        None => finder,
    })
}
