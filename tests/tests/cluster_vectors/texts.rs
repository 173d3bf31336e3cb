//! Texts of launchers: host lists, counts of tasks, torchrun's settings.

use rondo_core::cluster::{Error, Json, Seen, slurm, torch};

use super::Vector;
use super::values::{Verdict, compare, environment, id_of, is_error, verdict};

/// What stands for any free port.
const FREE: &str = "29511";

pub(crate) fn host_lists(section: &Json) -> Vec<Vector> {
    let read = |text: &str| slurm::host_list("SLURM_STEP_NODELIST", text);
    texts("hostlists", section, move |text| {
        read(text).map(|hosts| Json::List(hosts.into_iter().map(Json::Text).collect()))
    })
}

pub(crate) fn task_counts(section: &Json) -> Vec<Vector> {
    texts("tasks_per_node", section, |text| {
        let counts = slurm::task_counts("SLURM_STEP_TASKS_PER_NODE", text)?;
        Ok(Json::List(counts.into_iter().map(Json::number).collect()))
    })
}

fn texts(
    section: &str,
    vectors: &Json,
    read: impl Fn(&str) -> Result<Json, Error> + Copy + 'static,
) -> Vec<Vector> {
    let vector = |it: &Json| {
        let text = it.text_at(&["in"]).unwrap().to_owned();
        let want = it.get("rondo").unwrap().clone();
        let id = format!("{section}.{text:?}");
        let check = move || match (read(&text), want.get("count")) {
            (Ok(got), Some(_)) => compare("the list", &Ok(summary(&got)), &want),
            (got, _) => {
                if let Err(error) = &got {
                    let names_it = error.about.starts_with("SLURM_") && error.text.contains('"');
                    assert!(names_it, "the error does not quote what is wrong: {error}");
                }
                compare("the list", &got, &want)
            }
        };
        Vector { id, check: Box::new(check) }
    };
    vectors.as_list().unwrap().iter().map(vector).collect()
}

fn summary(list: &Json) -> Json {
    let list = list.as_list().unwrap();
    Json::Map(vec![
        ("count".into(), Json::number(list.len() as u64)),
        ("first".into(), list.first().unwrap().clone()),
        ("last".into(), list.last().unwrap().clone()),
    ])
}

pub(crate) fn torch(section: &Json) -> Vec<Vector> {
    let vector = |it: &Json| {
        let it = it.clone();
        Vector { id: id_of(&it), check: Box::new(move || check_torch(&it)) }
    };
    section.as_list().unwrap().iter().map(vector).collect()
}

fn check_torch(vector: &Json) -> Result<(), String> {
    let got = torch_value(vector);
    let want = vector.get("want").unwrap();
    match verdict(vector) {
        Verdict::NotApplicable => Ok(()),
        Verdict::Same => compare("the text", &got, want),
        Verdict::Fixed(Some(want)) => compare("the text", &got, &want),
        Verdict::Fixed(None) if is_error(want) == got.is_err() => Err("is as PyTorch's".into()),
        Verdict::Reject if got.is_ok() => Err(format!("gives {got:?}, wanted an error")),
        Verdict::Fixed(None) | Verdict::Reject => Ok(()),
    }
}

fn torch_value(vector: &Json) -> Result<Json, Error> {
    let text = vector.text_at(&["in"]).unwrap_or_default();
    match vector.text_at(&["kind"]).unwrap() {
        "env_init" => {
            let seen = Seen::new(environment(vector, &[("{FREE}", FREE)]));
            let url = vector.text_at(&["url"]).unwrap_or("env://").replace("{FREE}", FREE);
            let found = torch::init_method(&seen, &url)?;
            let members = [("rank", found.rank), ("size", found.size)];
            Ok(Json::Map(members.map(|(name, value)| (name.into(), Json::number(value))).into()))
        }
        "nnodes" => {
            let (least, most) = torch::node_range("PET_NNODES", text)?;
            Ok(Json::List(vec![Json::number(least), Json::number(most)]))
        }
        "rdzv_conf" => {
            let found = torch::rendezvous_settings("PET_RDZV_CONF", text)?;
            Ok(Json::Map(
                found.into_iter().map(|(name, value)| (name, Json::Text(value))).collect(),
            ))
        }
        "endpoint" => {
            let default = vector.get("default_port").and_then(Json::as_u32).unwrap();
            let default = u16::try_from(default).unwrap();
            let (host, port) = torch::endpoint("PET_RDZV_ENDPOINT", text, default)?;
            Ok(Json::List(vec![Json::Text(host), Json::number(u32::from(port))]))
        }
        other => panic!("unknown kind {other:?}"),
    }
}
