//! `TF_CONFIG` of any text.

use rondo_core::cluster::{ClusterResolver, ClusterSpec, Json, MasterOf, TfConfig};

use super::world::World;

/// `TF_CONFIG` of any text: each accessor answers, or refuses and names the variable.
pub(crate) fn tf_config(text: &str) {
    let mut world = World::of(&[("TF_CONFIG", text)]);
    let mut resolver = TfConfig::default();
    let spec = world.call(|seen| resolver.cluster_spec(seen));
    let task =
        (world.call(|seen| resolver.task_type(seen)), world.call(|seen| resolver.task_id(seen)));
    let master = world.call(|seen| resolver.master(seen, &MasterOf::default()));
    let errors = [spec.as_ref().err(), task.0.as_ref().err(), task.1.as_ref().err()];
    for error in errors.into_iter().flatten() {
        assert!(error.about.starts_with("TF_CONFIG"), "{error}");
        assert!(error.text.len() < 4096, "{error}");
    }
    if let Ok(spec) = &spec {
        assert_eq!(ClusterSpec::of_json(&spec.to_json()).as_ref(), Ok(spec));
    }
    if let (Ok(spec), Ok(Some(job)), Ok(Some(index)), Ok(master)) = (spec, task.0, task.1, master)
        && Json::parse(text).is_ok_and(|it| it.get("session_master").is_none())
        && !master.is_empty()
    {
        assert!(master.ends_with(spec.task_address(&job, index).unwrap()), "{text:?}: {master}");
    }
}
