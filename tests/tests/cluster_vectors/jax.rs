//! What `jax.distributed.initialize` finds out.

use rondo_core::cluster::{Error, Jax, JaxProcess, Json};

use super::Vector;
use super::fake::Fake;
use super::values::{Verdict, compare, environment, id_of, number, text, verdict};

pub(crate) fn vectors(section: &Json) -> Vec<Vector> {
    let vector = |it: &Json| {
        let it = it.clone();
        Vector { id: id_of(&it), check: Box::new(move || check(&it)) }
    };
    section.as_list().unwrap().iter().map(vector).collect()
}

fn check(vector: &Json) -> Result<(), String> {
    let given = given(vector);
    let mut fake = fake(vector);
    let got = fake.call(|seen| given.process(seen)).map(|found| resolved(&found));
    let want = vector.at(&["want", "resolved"]).unwrap();
    match verdict(vector) {
        Verdict::NotApplicable => return Ok(()),
        Verdict::Reject => {
            return got.map_or(Ok(()), |got| Err(format!("gives {got}, wanted an error")));
        }
        Verdict::Same => {
            compare("resolved", &got, want)?;
            if let Some(seen) = vector.get("http_seen") {
                compare("http_seen", &Ok(Json::List(fake.requests.clone())), seen)?;
            }
        }
        Verdict::Fixed(Some(Json::Text(coordinator))) => {
            let mut wanted = want.as_list().unwrap().to_vec();
            wanted[0] = Json::Text(coordinator);
            compare("resolved", &got, &Json::List(wanted))?;
        }
        Verdict::Fixed(Some(want)) => compare("resolved", &got, &want)?,
        Verdict::Fixed(None) if compare("resolved", &got, want).is_ok() => {
            return Err("is as JAX's".into());
        }
        Verdict::Fixed(None) => {}
    }
    let detecting = Jax { method: None, ..given };
    let chosen: Result<_, Error> = self::fake(vector).call(|seen| detecting.chosen(seen));
    let chosen = chosen.map(|name| text(name.map(String::from)));
    compare("chosen", &chosen, vector.at(&["want", "chosen"]).unwrap())
}

fn fake(vector: &Json) -> Fake {
    let mut fake = Fake::new(environment(vector, &[]), vector);
    fake.attributes_only = true;
    fake
}

fn given(vector: &Json) -> Jax {
    let argument = |name: &str| vector.at(&["args", name]).filter(|value| !value.is_null());
    let text = |name: &str| argument(name).and_then(Json::as_text).map(String::from);
    let ids = argument("local_device_ids").and_then(Json::as_list);
    Jax {
        coordinator_address: text("coordinator_address"),
        num_processes: argument("num_processes").and_then(Json::as_u32),
        process_id: argument("process_id").and_then(Json::as_u32),
        local_device_ids: ids.map(|ids| ids.iter().map(|id| id.as_u32().unwrap()).collect()),
        method: text("method"),
        ..Jax::default()
    }
}

fn resolved(found: &JaxProcess) -> Json {
    let ids = found.local_device_ids.as_ref();
    let ids =
        ids.map_or(Json::Null, |ids| Json::List(ids.iter().copied().map(Json::number).collect()));
    Json::List(vec![text(found.coordinator.clone()), number(found.size), number(found.rank), ids])
}
