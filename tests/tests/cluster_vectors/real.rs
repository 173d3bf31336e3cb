//! Environments of real srun, sbatch, salloc and mpirun, and where each rank really ran.

use rondo_core::cluster::{Chain, Environment, Fault, Finding, Json, Report, Slurm};
use rondo_core::cluster::{ClusterResolver, Verdict};

use super::Vector;
use super::fake::Fake;
use super::values::{canon, id_of};

pub(crate) fn vectors(section: &Json) -> Vec<Vector> {
    let vector = |it: &Json| {
        let it = it.clone();
        Vector { id: id_of(&it), check: Box::new(move || check(&it)) }
    };
    section.as_list().unwrap().iter().map(vector).collect()
}

fn check(vector: &Json) -> Result<(), String> {
    let tasks = vector.get("tasks").and_then(Json::as_list).unwrap();
    let truth = vector.get("truth").and_then(Json::as_list).unwrap_or_default();
    for (place, env) in tasks.iter().enumerate() {
        let env: Environment = env
            .as_map()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), value.as_text().unwrap().to_owned()))
            .collect();
        let report = report(&env);
        let rondo = vector.get("rondo").unwrap();
        let wanted = rondo.get("detector").and_then(Json::as_text);
        let chosen = report.settled().map_err(|error| format!("task {place}: {error}"))?;
        if chosen.map(|chosen| chosen.source) != wanted {
            return Err(format!("task {place} is found by {:?}", report.chosen()));
        }
        if let Some(chosen) = chosen {
            told(vector, place, &env, chosen)?;
            in_truth(truth.get(place), chosen)?;
        }
    }
    Ok(())
}

fn report(env: &Environment) -> Report {
    let mut fake = Fake::new(env.clone(), &Json::Null);
    fake.call(|seen| Chain::default().detect(seen)).expect("questions are answered")
}

/// What the vector says of one task.
fn told(vector: &Json, place: usize, env: &Environment, found: &Finding) -> Result<(), String> {
    let rondo = vector.get("rondo").unwrap();
    let process = &found.process;
    let listed = |name: &str| rondo.get(name)?.as_list()?.get(place)?.as_u32();
    for (name, got) in [("ranks", process.rank), ("locals", process.local_rank)] {
        if let Some(want) = listed(name).filter(|want| got != Some(*want)) {
            return Err(format!("task {place}: {name} {got:?}, wanted {want}"));
        }
    }
    if let Some(size) =
        rondo.get("size").and_then(Json::as_u32).filter(|size| process.size != Some(*size))
    {
        return Err(format!("task {place}: size {:?}, wanted {size}", process.size));
    }
    let is_derivable = vector.get("derivable_from_one_env").and_then(Json::as_bool);
    if is_derivable == Some(false) && found.source == "slurm" {
        let mut fake = Fake::new(env.clone(), &Json::Null);
        let refused = fake.call(|seen| Slurm::default().cluster_spec(seen));
        let is_unknown =
            refused.as_ref().is_err_and(|error| error.fault == Fault::PlacementUnknown);
        return if is_unknown { Ok(()) } else { Err(format!("task {place}: gives {refused:?}")) };
    }
    let Some(want) = rondo.get("cluster_spec").filter(|want| !want.is_null()) else {
        return Ok(());
    };
    match &found.spec {
        Some(spec) if canon(&spec.to_json()) == canon(want) => Ok(()),
        other => Err(format!("task {place}: {other:?}, wanted {want}")),
    }
}

/// The process's own task is where it really ran.
fn in_truth(truth: Option<&Json>, found: &Finding) -> Result<(), String> {
    let Some(truth) = truth else { return Ok(()) };
    let number = |name: &str| truth.get(name).and_then(Json::as_u32);
    let process = &found.process;
    if process.rank != number("rank") || process.local_rank != number("local") {
        return Err(format!("{truth} thinks it is {process:?}"));
    }
    let own = found.task_type.as_deref().zip(found.task_id);
    let (Some(spec), Some((job, index))) = (&found.spec, own) else { return Ok(()) };
    let address = spec.task_address(job, index).map_err(|error| error.to_string())?;
    let host = truth.text_at(&["host"]).unwrap();
    let is_there = address.rsplit_once(':').is_some_and(|(found, _)| found == host);
    if is_there { Ok(()) } else { Err(format!("{truth} thinks it is at {address}")) }
}

/// The source that a report chose, for other sections.
pub(crate) fn chosen(env: &Environment) -> Result<Option<Finding>, String> {
    let report = report(env);
    if let Err(error) = report.settled() {
        return Err(error.to_string());
    }
    Ok(report.entries.into_iter().find_map(|entry| match entry.verdict {
        Verdict::Chosen(finding) => Some(finding),
        _ => None,
    }))
}
