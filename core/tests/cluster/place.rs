//! What Rondo's commands take from what a source tells.

use rondo_core::cluster::{Chain, Fault, Json, Place, SERVER_PORT, named};

use super::world::World;

fn place(variables: &[(&str, &str)]) -> Place {
    let report = World::of(variables).call(|seen| Chain::default().detect(seen)).unwrap();
    Place::of(report.settled().unwrap().unwrap().clone(), SERVER_PORT)
}

/// The place of a task in a spec, by `TF_CONFIG`.
fn in_spec(cluster: &str, job: &str, index: u32) -> Place {
    let text =
        format!(r#"{{"cluster": {cluster}, "task": {{"type": "{job}", "index": {index}}}}}"#);
    place(&[("TF_CONFIG", &text)])
}

fn step(rank: &str) -> Place {
    let local = if rank == "0" { "0" } else { "1" };
    place(&[
        ("SLURM_JOB_ID", "100"),
        ("SLURM_STEP_NODELIST", "n[9-10]"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_PROCID", rank),
        ("SLURM_LOCALID", local),
    ])
}

const WITH_SERVER: &str =
    r#"{"worker": ["w0:7000", "w1:7001"], "rondo": ["s:6000"], "ps": ["p:1"], "chief": ["c:1"]}"#;

#[test]
fn a_job_named_rondo_is_the_server_and_the_others_are_tasks() {
    let own = in_spec(WITH_SERVER, "worker", 1);
    assert_eq!(own.server().unwrap(), "s:6000");
    assert_eq!(own.is_server(), Some(false));
    assert_eq!(own.worker().unwrap().as_deref(), Some("w1:7001"));
    assert_eq!(own.workers().unwrap().unwrap(), ["w0:7000", "w1:7001"]);
    assert_eq!(own.tasks(), Ok(4));
    let jobs = own.jobs();
    let jobs: Vec<_> = jobs.iter().map(|(job, size)| (job.as_str(), *size)).collect();
    assert_eq!(jobs, [("chief", 1), ("worker", 2), ("ps", 1)]);
}

#[test]
fn every_task_of_a_spec_has_one_number_whatever_the_order_of_its_jobs() {
    let other = r#"{"chief": ["c:1"], "ps": ["p:1"], "rondo": ["s:6000"], "worker": ["w0:7000", "w1:7001"]}"#;
    for spec in [WITH_SERVER, other] {
        let tasks = [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)];
        let numbers: Vec<u32> =
            tasks.iter().map(|(job, index)| in_spec(spec, job, *index).task().unwrap()).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
    }
    let server = in_spec(WITH_SERVER, "rondo", 0);
    assert_eq!(server.is_server(), Some(true));
    assert_eq!(server.worker(), Ok(None));
    let error = server.task().unwrap_err();
    assert!(error.to_string().contains("rondo:0, of the server's job"), "{error}");
}

#[test]
fn the_servers_job_may_be_called_dispatcher_and_tell_no_port() {
    let own = in_spec(r#"{"dispatcher": ["d"], "worker": ["w:1"]}"#, "dispatcher", 0);
    assert_eq!(own.server().unwrap(), "d:5050");
    assert_eq!(own.is_server(), Some(true));
    let both = in_spec(r#"{"dispatcher": ["d:1"], "rondo": ["r:2"]}"#, "dispatcher", 0);
    assert_eq!(both.server().unwrap(), "r:2");
    assert_eq!(both.tasks(), Ok(1), "a second such job is one of tasks");
}

#[test]
fn without_a_servers_job_it_is_on_the_coordinators_host_and_never_on_its_port() {
    let own = in_spec(r#"{"worker": ["w:7000"], "chief": ["c:7000"]}"#, "chief", 0);
    assert_eq!(own.server().unwrap(), "c:5050");
    assert_eq!(own.is_server(), Some(true));
    assert_eq!(own.worker(), Ok(None), "its workers are the program's");
    assert_eq!(own.workers(), Ok(None));
    assert_eq!((own.task(), own.tasks()), (Ok(0), Ok(2)));
    assert_eq!(
        in_spec(r#"{"worker": ["w:7000"], "chief": ["c:7000"]}"#, "worker", 0).is_server(),
        Some(false)
    );
    let alone = in_spec(r#"{"trainer": ["[fd00::1]:7", "t:7"]}"#, "trainer", 1);
    assert_eq!(alone.server().unwrap(), "[fd00::1]:5050");
}

#[test]
fn launchers_that_number_processes_tell_server_task_and_tasks() {
    let first = step("0");
    assert_eq!((first.source(), first.server().unwrap().as_str()), ("slurm", "n9:5050"));
    assert_eq!((first.is_server(), step("3").is_server()), (Some(true), Some(false)));
    assert_eq!((step("3").task(), step("3").tasks()), (Ok(3), Ok(4)));
    let torch = place(&[
        ("RANK", "5"),
        ("WORLD_SIZE", "6"),
        ("MASTER_ADDR", "h0"),
        ("MASTER_PORT", "29400"),
    ]);
    assert_eq!(torch.server().unwrap(), "h0:5050");
    assert_eq!((torch.task(), torch.tasks(), torch.is_server()), (Ok(5), Ok(6), Some(false)));
    assert!(torch.jobs().is_empty());
    let node = place(&[
        ("PET_NNODES", "3"),
        ("PET_NPROC_PER_NODE", "4"),
        ("PET_NODE_RANK", "0"),
        ("PET_MASTER_ADDR", "m"),
    ]);
    assert_eq!(node.server().unwrap(), "m:5050");
    assert_eq!((node.tasks(), node.is_server()), (Ok(12), Some(true)));
    assert_eq!(node.task().unwrap_err().fault, Fault::NotPresent);
}

#[test]
fn what_is_not_told_is_refused_with_what_is() {
    let own = place(&[("PMIX_RANK", "3"), ("PMIX_NAMESPACE", "1")]);
    assert_eq!(own.task(), Ok(3));
    let error = own.server().unwrap_err();
    let wanted = "pmix: does not tell where the server is: a job \"rondo\" of the spec would; it tells \
                  rank 3";
    assert_eq!((error.fault, error.to_string().as_str()), (Fault::NotPresent, wanted));
    assert!(own.tasks().unwrap_err().to_string().starts_with("pmix: does not tell how many tasks"));
    let error = in_spec(r#"{"b": ["b:1"], "a": ["a:1"]}"#, "a", 0).server().unwrap_err();
    assert!(
        error.to_string().ends_with(r#"it tells the jobs "b", "a", the own task a:0"#),
        "{error}"
    );
}

#[test]
fn a_refusal_says_why_the_source_tells_no_more() {
    let error = place(&[
        ("SLURM_JOB_ID", "100"),
        ("SLURM_STEP_NODELIST", "n[9-10]"),
        ("SLURM_STEP_NUM_TASKS", "2"),
        ("SLURM_STEP_TASKS_PER_NODE", "1(x2)"),
        ("SLURM_DISTRIBUTION", "arbitrary"),
        ("SLURM_NTASKS", "2"),
        ("SLURM_PROCID", "1"),
        ("SLURM_LOCALID", "0"),
    ])
    .server()
    .unwrap_err();
    let wanted = "it tells rank 1, size 2 (no cluster spec: SLURM_DISTRIBUTION: ";
    assert!(error.to_string().contains(wanted), "{error}");
}

#[test]
fn a_job_with_holes_has_no_size() {
    let own = in_spec(r#"{"rondo": ["s:1"], "worker": {"0": "a:1", "2": "b:1"}}"#, "worker", 2);
    let error = own.tasks().unwrap_err();
    assert_eq!(error.fault, Fault::Conflict);
    assert!(error.to_string().starts_with("cluster.worker: tf_config tells of 2 tasks"), "{error}");
    assert_eq!((own.task(), own.workers()), (Ok(2), Ok(None)));
}

#[test]
fn addresses_that_are_none_are_refused_by_task() {
    let own = in_spec(r#"{"rondo": ["s:x"], "worker": ["w", "v:0"]}"#, "worker", 0);
    assert!(own.server().unwrap_err().to_string().starts_with("cluster.rondo.0: \"s:x\""));
    let wanted = "cluster.worker.0: \"w\" is no HOST:PORT where a worker could listen";
    assert_eq!(own.worker().unwrap_err().to_string(), wanted);
    assert_eq!(own.workers().unwrap_err().fault, Fault::Malformed);
}

#[test]
fn a_resolver_is_described_by_its_name_and_a_text() {
    let settings = named("slurm", Some(r#"{"port_base": 7000, "resolver": "gce"}"#)).unwrap();
    assert_eq!(settings.to_string(), r#"{"resolver": "slurm", "port_base": 7000}"#);
    assert_eq!(named("tf_config", None).unwrap().get("resolver"), Some(&Json::text("tf_config")));
    for text in ["[]", "{", ""] {
        let error = named("slurm", Some(text)).unwrap_err();
        assert!(error.to_string().starts_with(&format!("settings: {text:?} is no ")), "{error}");
    }
}
