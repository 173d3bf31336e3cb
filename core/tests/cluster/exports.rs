//! What is exported is read again as it was found.

use rondo_core::cluster::{Chain, Export, Fault, Finding};

use super::world::World;

fn found(variables: &[(&str, &str)]) -> Finding {
    let mut world = World::of(variables);
    let report = world.call(|seen| Chain::default().detect(seen)).unwrap();
    report.settled().unwrap().unwrap().clone()
}

/// Lines `export NAME='VALUE'`, as a shell reads them.
fn variables(text: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let (name, value) = line.strip_prefix("export ").unwrap().split_once('=').unwrap();
        let value = value.strip_prefix('\'').unwrap().strip_suffix('\'').unwrap();
        (name.to_owned(), value.replace("'\\''", "'"))
    };
    text.lines().map(line).collect()
}

fn again(text: &str) -> Finding {
    let read = variables(text);
    let pairs: Vec<(&str, &str)> =
        read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    found(&pairs)
}

const TF_CONFIG: &str = r#"{"cluster": {"chief": ["it's:1"], "worker": {"3": "b:1"}}, "task":
        {"type": "worker", "index": 3}, "rpc_layer": "grpc"}"#;
const TORCH: [(&str, &str); 8] = [
    ("RANK", "5"),
    ("LOCAL_RANK", "1"),
    ("WORLD_SIZE", "6"),
    ("LOCAL_WORLD_SIZE", "2"),
    ("GROUP_RANK", "2"),
    ("GROUP_WORLD_SIZE", "3"),
    ("MASTER_ADDR", "fd00::1"),
    ("MASTER_PORT", "29400"),
];

#[test]
fn a_cluster_as_tf_config() {
    let before = found(&[("TF_CONFIG", TF_CONFIG)]);
    let text = Export::TfConfig.write(&before).unwrap();
    assert_eq!(text.lines().count(), 1);
    let after = found(&[("TF_CONFIG", text.trim())]);
    assert_eq!(after, before);
    assert_eq!(after.master.as_deref(), Some("grpc://b:1"));
}

#[test]
fn a_process_as_variables_of_pytorch() {
    let before = found(&TORCH);
    let text = Export::Torchrun.write(&before).unwrap();
    assert!(text.contains("export MASTER_ADDR='fd00::1'\n"), "{text}");
    assert!(text.contains("export PET_NODE_RANK='2'\n"), "{text}");
    let after = again(&text).process;
    assert_eq!(after.coordinator.as_deref(), Some("[fd00::1]:29400"));
    let place =
        |it: &rondo_core::cluster::Process| (it.rank, it.size, it.local_rank, it.local_size);
    assert_eq!(place(&after), place(&before.process));
}

#[test]
fn a_node_as_variables_of_torchrun() {
    let node = [
        ("PET_NNODES", "2"),
        ("PET_NPROC_PER_NODE", "4"),
        ("PET_NODE_RANK", "1"),
        ("PET_MASTER_ADDR", "tj-node-0-0.tj"),
        ("PET_MASTER_PORT", "29400"),
    ];
    let before = found(&node);
    let text = Export::Torchrun.write(&before).unwrap();
    assert!(!text.contains("RANK='") || text.contains("PET_NODE_RANK='1'"), "{text}");
    assert_eq!(again(&text), before);
}

#[test]
fn a_process_as_variables_of_jax() {
    let text = Export::Jax.write(&found(&TORCH)).unwrap();
    assert_eq!(
        text,
        "export JAX_COORDINATOR_ADDRESS='[fd00::1]:29400'\nexport JAX_NUM_PROCESSES='6'\n\
         export JAX_PROCESS_ID='5'\nexport JAX_LOCAL_DEVICE_IDS='1'\n"
    );
}

#[test]
fn values_are_quoted_for_the_shell() {
    let text = Export::Env.write(&found(&[("TF_CONFIG", TF_CONFIG)])).unwrap();
    assert!(text.contains("export RONDO_COORDINATOR='it'\\''s:1'\n"), "{text}");
    let spec = variables(&text).into_iter().find(|(name, _)| name == "RONDO_CLUSTER_SPEC").unwrap();
    assert_eq!(spec.1, r#"{"chief": ["it's:1"], "worker": {"3": "b:1"}}"#);
}

#[test]
fn what_the_source_does_not_tell_is_not_made_up() {
    let torch = found(&TORCH);
    let refused = Export::TfConfig.write(&torch).unwrap_err();
    assert_eq!((refused.fault, refused.about.as_str()), (Fault::NotPresent, "cluster_spec"));
    assert!(refused.text.contains("the source torch does not tell it"), "{refused}");
    let tf = found(&[("TF_CONFIG", TF_CONFIG)]);
    assert_eq!(Export::Jax.write(&tf).unwrap_err().about, "size");
}

/// It was exported as process 5 of 2.
#[test]
fn a_task_that_the_spec_lacks_has_no_rank() {
    let text = r#"{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 5}}"#;
    let tf = found(&[("TF_CONFIG", text)]);
    assert_eq!((tf.process.rank, tf.process.size), (None, Some(2)));
    for form in [Export::Jax, Export::Torchrun] {
        let refused = form.write(&tf).unwrap_err();
        assert_eq!(refused.about, "rank");
        assert!(refused.text.contains("the job has no task 5: it has 2"), "{refused}");
    }
    assert!(!Export::Env.write(&tf).unwrap().contains("RONDO_RANK"));
}
