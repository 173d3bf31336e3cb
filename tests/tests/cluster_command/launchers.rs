//! What launchers leave behind is found, and goes on to other programs unchanged.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::{Machine, Said};

const TF_CONFIG: &str = r#"{"cluster": {"chief": ["a:1"], "worker": ["b:2", "c:3"]},
    "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"}"#;
const TORCH: [(&str, &str); 7] = [
    ("RANK", "3"),
    ("WORLD_SIZE", "4"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "2"),
    ("GROUP_RANK", "1"),
    ("MASTER_ADDR", "head"),
    ("MASTER_PORT", "29501"),
];
const SLURM: [(&str, &str); 10] = [
    ("SLURM_JOB_ID", "7"),
    ("SLURM_PROCID", "1"),
    ("SLURM_LOCALID", "0"),
    ("SLURM_NODEID", "1"),
    ("SLURMD_NODENAME", "n10"),
    ("SLURM_GTIDS", "1"),
    ("SLURM_NTASKS", "2"),
    ("SLURM_STEP_NUM_TASKS", "2"),
    ("SLURM_STEP_NODELIST", "n[9-10]"),
    ("SLURM_STEP_TASKS_PER_NODE", "1(x2)"),
];
const OPEN_MPI: [(&str, &str); 8] = [
    ("OMPI_COMM_WORLD_RANK", "1"),
    ("OMPI_COMM_WORLD_SIZE", "2"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ("OMPI_MCA_orte_hnp_uri", "2911830016.0;tcp://10.0.0.1:5555"),
    ("PMIX_RANK", "1"),
    ("PMIX_NAMESPACE", "2911830017"),
    ("SLURM_PROCID", "0"),
];

fn json_of(variables: &[(&str, &str)]) -> Said {
    let said = Machine::bare().run(variables, &["--format", "json"]);
    said.assert(0, &[]);
    said
}

/// What `--export` wrote, as variables.
fn exported(variables: &[(&str, &str)], form: &str) -> Vec<(String, String)> {
    let said = Machine::bare().run(variables, &["--export", form]);
    said.assert(0, &[]);
    let pair = |line: &str| {
        let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
        Some((name.to_owned(), value.strip_prefix('\'')?.strip_suffix('\'')?.to_owned()))
    };
    said.out.lines().map(|line| pair(line).unwrap()).collect()
}

fn verdict(report: &Value, source: &str) -> Value {
    let sources = report["sources"].as_array().unwrap();
    sources.iter().find(|it| it["source"] == source).unwrap().clone()
}

#[test]
fn a_plain_machine_has_no_cluster_and_says_what_each_source_misses() {
    let machine = Machine::bare();
    let said = machine.run(&[], &[]);
    said.assert(1, &["nothing tells of a cluster", "--resolver"]);
    for word in ["TF_CONFIG: is not set", "SLURM_PROCID", "openmpi", "kubernetes_job", "gce"] {
        assert!(said.out.contains(word), "{word} is not in\n{}", said.out);
    }
    assert!(!said.out.contains("chosen") && !said.out.contains("broken"), "{}", said.out);
    assert!(said.took < Duration::from_secs(10), "nobody was asked: {:?}", said.took);
    machine.run(&[], &["--export", "env"]).assert(1, &["nothing tells of a cluster"]);
}

#[test]
fn tf_config_tells_all_and_comes_out_as_it_went_in() {
    let said = json_of(&[("TF_CONFIG", TF_CONFIG)]);
    let found = said.chosen();
    let spec = json!({"chief": ["a:1"], "worker": ["b:2", "c:3"]});
    assert_eq!(found["cluster_spec"], spec);
    assert_eq!((&found["task_type"], &found["task_id"]), (&json!("worker"), &json!(1)));
    assert_eq!(found["master"], "grpc://c:3");
    assert_eq!(found["coordinator"], "a:1");
    let exported = Machine::bare().run(&[("TF_CONFIG", TF_CONFIG)], &["--export", "tf_config"]);
    exported.assert(0, &[]);
    assert_eq!(json_of(&[("TF_CONFIG", &exported.out)]).chosen(), found);
    let text = Machine::bare().run(&[("TF_CONFIG", TF_CONFIG)], &[]);
    text.assert(0, &[]);
    for word in ["worker:1", "grpc://c:3", "Tasks (3)", "c:3      this one", "chosen"] {
        assert!(text.out.contains(word), "{word} is not in\n{}", text.out);
    }
}

#[test]
fn torchrun_tells_ranks_which_go_on_to_jax_and_to_torch() {
    let found = json_of(&TORCH).chosen();
    assert_eq!(found["source"], "torch");
    assert_eq!((&found["rank"], &found["size"]), (&json!(3), &json!(4)));
    assert_eq!(found["coordinator"], "head:29501");
    let again = exported(&TORCH, "torchrun");
    let again: Vec<(&str, &str)> =
        again.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let again = json_of(&again).chosen();
    for field in ["rank", "size", "local_rank", "local_size", "coordinator"] {
        assert_eq!(again[field], found[field], "{field}");
    }
    let jax = exported(&TORCH, "jax");
    let has = |name: &str, value: &str| jax.contains(&(name.into(), value.into()));
    assert!(has("JAX_COORDINATOR_ADDRESS", "head:29501"), "{jax:?}");
    assert!(has("JAX_NUM_PROCESSES", "4") && has("JAX_PROCESS_ID", "3"), "{jax:?}");
    let refused = Machine::bare().run(&TORCH, &["--export", "tf_config"]);
    refused.assert(1, &["cluster_spec", "torch"]);
}

#[test]
fn slurm_places_tasks_in_its_own_order() {
    let found = json_of(&SLURM).chosen();
    assert_eq!(found["source"], "slurm");
    assert_eq!(found["cluster_spec"], json!({"worker": ["n9:8888", "n10:8888"]}));
    assert_eq!((&found["rank"], &found["size"]), (&json!(1), &json!(2)));
    let env = exported(&SLURM, "env");
    assert!(env.contains(&("RONDO_RANK".into(), "1".into())), "{env:?}");
    let tf_config = Machine::bare().run(&SLURM, &["--export", "tf_config"]);
    let again = json_of(&[("TF_CONFIG", &tf_config.out)]).chosen();
    assert_eq!(again["cluster_spec"], found["cluster_spec"]);
    assert_eq!(again["task_id"], found["task_id"]);
}

#[test]
fn under_mpirun_its_variables_win() {
    let said = json_of(&OPEN_MPI);
    let found = said.chosen();
    assert_eq!(found["source"], "openmpi");
    assert_eq!((&found["rank"], &found["size"]), (&json!(1), &json!(2)));
    assert!(found["coordinator"].as_str().unwrap().starts_with("10.0.0.1:"), "{found}");
    assert_eq!(verdict(&said.json(), "pmix")["verdict"], "shadowed");
    assert_eq!(verdict(&said.json(), "slurm")["verdict"], "absent");
    assert_eq!(said.json()["contradictions"], json!([]));
}

#[test]
fn sources_that_contradict_each_other_are_an_error_that_names_both() {
    let one = r#"{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}}"#;
    let mut variables = vec![("TF_CONFIG", one)];
    variables.extend(TORCH);
    let said = Machine::bare().run(&variables, &["--format", "json"]);
    said.assert(2, &["tf_config says that the rank is 0, torch says 3", "size is 2"]);
    assert_eq!(said.json()["contradictions"].as_array().unwrap().len(), 2);
    let text = Machine::bare().run(&variables, &[]);
    assert!(text.out.contains("contradiction: tf_config says"), "{}", text.out);
    Machine::bare().run(&variables, &["--export", "env"]).assert(2, &["torch says 3"]);
}

#[test]
fn accelerators_are_those_of_the_machine_that_the_process_sees() {
    let machine = Machine::bare().file("/dev/nvidia0", "").file("/dev/nvidia1", "");
    let mut variables = TORCH.to_vec();
    let count = |variables: &[(&str, &str)]| {
        let said = machine.run(variables, &["--format", "json"]);
        said.assert(0, &[]);
        said.json()["accelerators"].clone()
    };
    assert_eq!(count(&variables), json!({"GPU": 2}));
    // Those of a source with a resolver are counted by the resolver, by task.
    assert_eq!(count(&[("TF_CONFIG", TF_CONFIG)]), json!({"GPU": 2}));
    variables.push(("CUDA_VISIBLE_DEVICES", "1"));
    assert_eq!(count(&variables), json!({"GPU": 1}));
    variables.pop();
    variables.push(("CUDA_VISIBLE_DEVICES", "-1"));
    assert_eq!(count(&variables), json!({}));
}
