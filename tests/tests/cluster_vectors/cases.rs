//! Scenarios that were run against the real classes.

use rondo_core::cluster::{AnyResolver, ClusterSpec, Environment, Error, Json, described};

use super::Vector;
use super::fake::{Fake, HOST};
use super::pods;
use super::steps;
use super::values::{Verdict, canon, compare, environment, id_of, is_error, verdict};

/// Names of resolvers in vectors and ours.
const RESOLVERS: [(&str, &str); 8] = [
    ("tf.simple", "simple"),
    ("tf.union", "union"),
    ("tf.tfconfig", "tf_config"),
    ("tf.sagemaker", "sagemaker"),
    ("tf.slurm", "slurm"),
    ("tf.kubernetes", "kubernetes"),
    ("tf.gce", "gce"),
    ("tf.tpu", "tpu"),
];

pub(crate) fn vectors(section: &Json) -> Vec<Vector> {
    let vector = |case: &Json| {
        let case = case.clone();
        Vector { id: id_of(&case), check: Box::new(move || check(&case)) }
    };
    section.as_list().unwrap().iter().map(vector).collect()
}

/// What became of a case: whether there was a resolver, and what each step gave.
struct Run {
    built: Result<(), Error>,
    steps: Vec<(Json, Result<Json, Error>)>,
    /// What `cluster_spec` gives to who asks it alone.
    spec: Result<Json, Error>,
}

fn check(case: &Json) -> Result<(), String> {
    let env = environment(case, &[("{FAKE}", HOST)]);
    let is_kubernetes = case.text_at(&["resolver"]) == Some("tf.kubernetes");
    match verdict(case) {
        Verdict::NotApplicable => Ok(()),
        Verdict::Same => same(case, &run(case, &env, is_kubernetes)),
        Verdict::Reject => rejected(&run(case, &env, false)),
        Verdict::Fixed(Some(want)) => fixed(&run(case, &env, false), &want),
        Verdict::Fixed(None) if is_kubernetes => {
            same(case, &run(case, &env, true))?;
            compare("cluster_spec", &run(case, &env, false).spec, &pods::expected(case))
        }
        Verdict::Fixed(None) if case.text_at(&["resolver"]) == Some("tf.tfconfig") => {
            as_unset(case, &env)
        }
        Verdict::Fixed(None) => differs(&run(case, &env, false)),
    }
}

/// Runs a case; `as_before` with the settings that make a resolver answer as the real class does.
fn run(case: &Json, env: &Environment, as_before: bool) -> Run {
    let mut fake = Fake::new(env.clone(), case);
    let steps = case.get("steps").and_then(Json::as_list).unwrap_or_default();
    if case.text_at(&["resolver"]) == Some("tf.cluster_spec") {
        return run_spec(case, steps);
    }
    let settings = settings(case, as_before);
    let spec = described(&settings).and_then(|mut resolver| {
        let mut fake = Fake::new(env.clone(), case);
        fake.call(|seen| resolver.cluster_spec(seen)).map(|spec| spec.to_json())
    });
    match described(&settings) {
        Err(error) => Run { built: Err(error), steps: Vec::new(), spec },
        Ok(mut resolver) => {
            let mut outcome = |step: &Json| (step.clone(), step_of(&mut resolver, &mut fake, step));
            Run { built: Ok(()), steps: steps.iter().map(&mut outcome).collect(), spec }
        }
    }
}

fn step_of(resolver: &mut AnyResolver, fake: &mut Fake, step: &Json) -> Result<Json, Error> {
    steps::of_resolver(resolver, fake, step)
}

fn run_spec(case: &Json, steps: &[Json]) -> Run {
    let spec = ClusterSpec::of_json(case.at(&["args", "cluster"]).unwrap());
    let outcome = |step: &Json| {
        let outcome = spec.clone().and_then(|spec| steps::of_spec(&spec, step));
        (step.clone(), outcome)
    };
    let steps = steps.iter().map(outcome).collect();
    Run { built: spec.clone().map(drop), steps, spec: spec.map(|spec| spec.to_json()) }
}

/// A resolver's settings, as ours are called.
fn settings(case: &Json, as_before: bool) -> Json {
    let Some(name) = case.text_at(&["resolver"]) else { return case.clone() };
    let ours = RESOLVERS.iter().find(|(theirs, _)| *theirs == name);
    let ours = ours.unwrap_or_else(|| panic!("no resolver {name:?} is known")).1;
    let mut members = vec![("resolver".to_owned(), Json::text(ours))];
    for (name, value) in case.get("args").and_then(Json::as_map).unwrap_or_default() {
        let value = match value.as_list().filter(|_| name == "members") {
            Some(list) => {
                Json::List(list.iter().map(|member| settings(member, as_before)).collect())
            }
            None => value.clone(),
        };
        members.push((name.clone(), value));
    }
    if ours == "kubernetes" {
        members.push(("api_server".into(), Json::text("http://fake.test")));
        let choices = [("namespace", "*"), ("address", "host"), ("order", "name")];
        let choices = choices.iter().filter(|_| as_before);
        members.extend(choices.map(|(name, value)| ((*name).to_owned(), Json::text(*value))));
    }
    Json::Map(members)
}

fn same(case: &Json, run: &Run) -> Result<(), String> {
    if is_error(case.get("construct").unwrap()) {
        return match (&run.built, &run.spec) {
            (Ok(()), Ok(spec)) => Err(format!("gives {spec}, wanted an error")),
            _ => Ok(()),
        };
    }
    run.built.as_ref().map_err(|error| format!("is not built: {error}"))?;
    for (step, got) in &run.steps {
        let what = format!(
            "{} {}",
            step.text_at(&["do"]).unwrap(),
            step.get("args").unwrap_or(&Json::Null)
        );
        compare(&what, got, step.get("want").unwrap())?;
    }
    Ok(())
}

fn rejected(run: &Run) -> Result<(), String> {
    let fails = |(step, got): &(Json, Result<Json, Error>)| {
        got.is_err() && !is_error(step.get("want").unwrap())
    };
    let is_refused = run.built.is_err() || run.spec.is_err() || run.steps.iter().any(fails);
    if is_refused { Ok(()) } else { Err(format!("is not refused: {:?}", run.spec)) }
}

fn fixed(run: &Run, want: &Json) -> Result<(), String> {
    run.built.as_ref().map_err(|error| format!("is not built: {error}"))?;
    let names: Vec<&str> = run.steps.iter().filter_map(|(step, _)| step.text_at(&["do"])).collect();
    let members = want.as_map().unwrap_or_default();
    let is_task = members.len() == 2 && want.get("type").is_some() && want.get("id").is_some();
    let by_step =
        !members.is_empty() && members.iter().all(|(name, _)| names.contains(&name.as_str()));
    let whole = if is_task { "task" } else { "cluster_spec" };
    let mut compared = 0;
    for (step, got) in &run.steps {
        let name = step.text_at(&["do"]).unwrap();
        let wanted = if by_step { want.get(name) } else { Some(want).filter(|_| name == whole) };
        if let Some(wanted) = wanted {
            compare(name, got, wanted)?;
            compared += 1;
        }
    }
    consistent(run)?;
    if compared == 0 { compare("cluster_spec", &run.spec, want) } else { Ok(()) }
}

/// The master of a task that knows itself is that task, in the spec that was given.
fn consistent(run: &Run) -> Result<(), String> {
    let last = |name: &str| {
        let steps = run
            .steps
            .iter()
            .filter(|(step, _)| step.text_at(&["do"]) == Some(name) && step.get("args").is_none());
        steps.filter_map(|(_, got)| got.as_ref().ok()).next_back()
    };
    let (Some(task), Some(Json::Text(master))) = (last("task"), last("master")) else {
        return Ok(());
    };
    let (Some(job), Some(index), Ok(spec)) =
        (task.text_at(&["type"]), task.get("id").and_then(Json::as_u32), &run.spec)
    else {
        return Ok(());
    };
    let spec = ClusterSpec::of_json(spec).unwrap();
    let address = spec.task_address(job, index).map_err(|error| error.to_string())?;
    let is_its_own = master.is_empty() || master.ends_with(address);
    if is_its_own {
        Ok(())
    } else {
        Err(format!("{job}:{index} is at {address}, its master at {master}"))
    }
}

/// An empty variable counts as none.
fn as_unset(case: &Json, env: &Environment) -> Result<(), String> {
    let rest = env.iter().filter(|(_, value)| !value.is_empty());
    let rest = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
    let (with, without) = (run(case, env, false), run(case, &rest, false));
    for ((step, with), (_, without)) in with.steps.iter().zip(&without.steps) {
        let without = without.as_ref().map_err(ToString::to_string)?;
        compare(step.text_at(&["do"]).unwrap(), with, without)?;
    }
    Ok(())
}

/// Nothing but that it is fixed is told: at least one step is another than the real class's.
fn differs(run: &Run) -> Result<(), String> {
    let is_other = |(step, got): &(Json, Result<Json, Error>)| {
        let want = step.get("want").unwrap();
        match got {
            Ok(got) => is_error(want) || canon(got) != canon(want),
            Err(_) => !is_error(want),
        }
    };
    if run.steps.iter().any(is_other) { Ok(()) } else { Err("is as the real class's".into()) }
}
