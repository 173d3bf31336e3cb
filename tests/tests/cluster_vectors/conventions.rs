//! What operators are documented to set.

use rondo_core::cluster::{Json, Process};

use super::Vector;
use super::real::chosen;
use super::values::{compare, environment, id_of, number, text};

pub(crate) fn vectors(section: &Json) -> Vec<Vector> {
    let vector = |it: &Json| {
        let it = it.clone();
        Vector { id: id_of(&it), check: Box::new(move || check(&it)) }
    };
    section.as_list().unwrap().iter().map(vector).collect()
}

fn check(vector: &Json) -> Result<(), String> {
    let found = chosen(&environment(vector, &[]))?;
    let process = found.as_ref().map(|found| found.process.clone()).unwrap_or_default();
    for (name, want) in vector.get("rondo").and_then(Json::as_map).unwrap() {
        let got = match name.as_str() {
            "detector" => text(found.as_ref().map(|found| found.source.into())),
            other => field(&process, other).ok_or_else(|| format!("unknown field {other:?}"))?,
        };
        compare(name, &Ok(got), want)?;
    }
    Ok(())
}

fn field(process: &Process, name: &str) -> Option<Json> {
    Some(match name {
        "coordinator" => text(process.coordinator.clone()),
        "size" => number(process.size),
        "rank" => number(process.rank),
        "local" => number(process.local_rank),
        "nodes" => number(process.nodes),
        "node_rank" => number(process.node_rank),
        "per_node" => number(process.per_node),
        _ => return None,
    })
}
