//! Detection: the order of sources, why others are not taken, and where they disagree.

use rondo_core::cluster::{Chain, Fault, Json, Report, Verdict};

use super::world::World;

const STEP: [(&str, &str); 7] = [
    ("SLURM_JOB_ID", "100"),
    ("SLURM_STEP_NODELIST", "n[8-9]"),
    ("SLURM_STEP_NUM_TASKS", "2"),
    ("SLURM_STEP_TASKS_PER_NODE", "1(x2)"),
    ("SLURM_NTASKS", "2"),
    ("SLURM_PROCID", "1"),
    ("SLURM_LOCALID", "0"),
];
const TORCH: [(&str, &str); 4] =
    [("RANK", "5"), ("WORLD_SIZE", "6"), ("MASTER_ADDR", "h0"), ("MASTER_PORT", "29400")];
const TF_CONFIG: (&str, &str) = (
    "TF_CONFIG",
    r#"{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}"#,
);

fn detect(variables: &[&[(&str, &str)]]) -> (Report, World) {
    let mut world = World::of(&variables.concat());
    let report = world.call(|seen| Chain::default().detect(seen)).unwrap();
    (report, world)
}

fn why(report: &Report, source: &str) -> String {
    let entry = report.entries.iter().find(|entry| entry.source == source).unwrap();
    match &entry.verdict {
        Verdict::Absent(error) => format!("absent: {error}"),
        Verdict::Broken(error) => format!("broken: {error}"),
        Verdict::Chosen(_) => "chosen".into(),
        Verdict::Shadowed(_) => "shadowed".into(),
        Verdict::NotAsked => "not asked".into(),
    }
}

#[test]
fn on_a_plain_machine_each_source_says_what_is_missing() {
    let (report, world) = detect(&[]);
    assert_eq!(report.settled(), Ok(None));
    let reasons = [
        ("explicit", "absent: explicit: no resolver was given"),
        ("tf_config", "absent: TF_CONFIG: is not set: it would hold a cluster and a task"),
        ("torch", "absent: RANK: is not set: torchrun and Kubeflow set it in each process"),
        ("openmpi", "absent: OMPI_COMM_WORLD_RANK: is not set: mpirun sets it in each process"),
        ("slurm", "absent: SLURM_PROCID: is not set: srun sets it in each task of a step"),
        (
            "kubernetes_job",
            "absent: KUBERNETES_SERVICE_HOST: is not set: Kubernetes sets it in pods",
        ),
        ("tpu_gce", "absent: TPU: this is no TPU machine of Compute Engine"),
        ("gce", "absent: /sys/class/dmi/id/product_name: this is no machine of Compute Engine"),
    ];
    for (source, wanted) in reasons {
        assert!(why(&report, source).starts_with(wanted), "{}", why(&report, source));
    }
    assert!(report.entries.iter().all(|entry| matches!(entry.verdict, Verdict::Absent(_))));
    assert!(world.asked.is_empty(), "{:?}", world.asked);
}

#[test]
fn a_step_of_slurm_is_told_in_full() {
    let (report, _) = detect(&[&STEP]);
    let found = report.settled().unwrap().unwrap();
    assert_eq!(found.source, "slurm");
    assert_eq!(
        found.spec.as_ref().unwrap().to_json().to_string(),
        r#"{"worker": ["n8:8888", "n9:8888"]}"#
    );
    assert_eq!((found.task_type.as_deref(), found.task_id), (Some("worker"), Some(1)));
    assert_eq!(found.master.as_deref(), Some("grpc://n9:8888"));
    assert_eq!(found.process.coordinator.as_deref(), Some("n8:61540"));
    assert_eq!((found.process.rank, found.process.size), (Some(1), Some(2)));
    assert_eq!(why(&report, "tpu_gce"), "not asked");
}

#[test]
fn an_arbitrary_layout_tells_ranks_only() {
    let (report, _) = detect(&[&STEP, &[("SLURM_DISTRIBUTION", "arbitrary")]]);
    let found = report.settled().unwrap().unwrap();
    assert_eq!((found.spec.as_ref(), found.process.coordinator.as_ref()), (None, None));
    assert_eq!((found.process.rank, found.process.size), (Some(1), Some(2)));
    assert!(found.notes[0].contains("\"arbitrary\" lays ranks out"), "{:?}", found.notes);
}

#[test]
fn an_arbitrary_layout_of_the_first_component_hides_rank_0() {
    let components = [
        ("SLURM_HET_SIZE", "2"),
        ("SLURM_JOB_NODELIST_HET_GROUP_0", "n[8-9]"),
        ("SLURM_JOB_NODELIST_HET_GROUP_1", "g1"),
    ];
    let coordinator = |layout: &str| {
        let layout = [("SLURM_DISTRIBUTION", layout)];
        let (report, _) = detect(&[&STEP, &components, &layout]);
        report.settled().unwrap().unwrap().process.coordinator.clone()
    };
    assert_eq!(coordinator("arbitrary"), None);
    assert_eq!(coordinator("block").as_deref(), Some("n8:61540"));
}

#[test]
fn an_allocation_is_no_step() {
    let (report, _) =
        detect(&[&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n1"), ("SLURM_PROCID", "0")]]);
    assert!(why(&report, "slurm").contains("in an allocation of Slurm's, but not in a step"));
    assert_eq!(report.settled(), Ok(None));
}

#[test]
fn under_mpirun_slurms_variables_are_its_daemons() {
    let mpi = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")];
    let (report, _) = detect(&[&STEP, &mpi]);
    let found = report.settled().unwrap().unwrap();
    assert_eq!((found.source, found.process.rank), ("openmpi", Some(3)));
    assert!(why(&report, "slurm").contains("mpirun started this process"));
}

#[test]
fn sources_that_disagree_are_told_and_none_is_gone_by() {
    let (report, _) = detect(&[&[TF_CONFIG], &STEP]);
    assert_eq!(report.chosen().unwrap().source, "tf_config");
    assert_eq!(why(&report, "slurm"), "shadowed");
    let refused = report.settled().unwrap_err();
    assert_eq!(refused.fault, Fault::Conflict);
    assert_eq!(refused.text, "tf_config says that the rank is 0, slurm says 1");
    let json = report.to_json();
    assert_eq!(json.text_at(&["chosen"]), Some("tf_config"));
    assert_eq!(json.get("contradictions").unwrap().as_list().unwrap().len(), 1);
}

#[test]
fn a_launcher_of_hosts_within_another_is_no_contradiction() {
    let nodes = [("GROUP_RANK", "1"), ("GROUP_WORLD_SIZE", "2")];
    let (report, _) = detect(&[&TORCH, &nodes, &STEP]);
    let found = report.settled().unwrap().unwrap();
    assert_eq!(
        (found.source, found.process.rank, found.process.node_rank),
        ("torch", Some(5), Some(1))
    );
    let (report, _) = detect(&[&TORCH, &STEP]);
    assert_eq!(report.contradictions.len(), 2, "{:?}", report.contradictions);
}

#[test]
fn a_broken_source_is_not_passed_over() {
    let (report, _) = detect(&[&[("TF_CONFIG", "{worker:")], &STEP]);
    assert_eq!((why(&report, "slurm").as_str(), report.chosen()), ("shadowed", None));
    let refused = report.settled().unwrap_err();
    assert_eq!(refused.about, "TF_CONFIG");
    assert!(refused.text.contains("(source tf_config)"), "{refused}");
    let (report, _) = detect(&[&[("TF_CONFIG", "")], &STEP]);
    assert!(why(&report, "tf_config").contains("set but empty, which counts as unset"));
    assert_eq!(report.settled().unwrap().unwrap().source, "slurm");
}

#[test]
fn what_is_given_wins_and_must_be_there() {
    let settings =
        r#"{"resolver": "simple", "cluster_spec": {"w": ["x:1"]}, "task_type": "w", "task_id": 0}"#;
    let chain = Chain { explicit: Some(Json::parse(settings).unwrap()), ..Chain::default() };
    let mut world = World::of(&[TF_CONFIG]);
    let report = world.call(|seen| chain.detect(seen)).unwrap();
    assert_eq!(report.chosen().unwrap().source, "explicit");
    let settings = r#"{"resolver": "file", "path": "/etc/none"}"#;
    let chain = Chain { explicit: Some(Json::parse(settings).unwrap()), ..Chain::default() };
    let report = world.call(|seen| chain.detect(seen)).unwrap();
    assert_eq!(report.settled().unwrap_err().about, "/etc/none");
    // A setting that is missing is no reason to look elsewhere either.
    let chain = Chain { explicit: Json::parse(r#"{"resolver": "file"}"#).ok(), ..Chain::default() };
    let report = world.call(|seen| chain.detect(seen)).unwrap();
    assert_eq!(report.settled().unwrap_err().about, "file.path");
}

#[test]
fn oddities_are_noted() {
    let text = r#"{"cluster": {"ps": ["a:1"]}, "cluster": {"worker": ["a:1"], "ps": ["a:1"]}, "task":
        {"type": "evaluator", "index": 0}}"#;
    let (report, _) = detect(&[&[("TF_CONFIG", text)]]);
    let notes = report.settled().unwrap().unwrap().notes.join("\n");
    for wanted in [
        "no master: \"evaluator\": is no job of the cluster: it has \"worker\", \"ps\"",
        "TF_CONFIG has \"cluster\" twice: the last one counts",
        "worker:0, ps:0 have the same address, \"a:1\"",
    ] {
        assert!(notes.contains(wanted), "{notes} lacks {wanted}");
    }
}

#[test]
fn instances_of_a_group_find_themselves() {
    let metadata = "/computeMetadata/v1/";
    let api = "/compute/v1/projects/p/zones/z";
    let mut world = World::default()
        .file("/sys/class/dmi/id/product_name", "Google Compute Engine\n")
        .page(
            &format!("{metadata}instance/attributes/created-by"),
            "projects/1/zones/z/instanceGroupManagers/g",
        )
        .page(&format!("{metadata}instance/network-interfaces/0/ip"), "10.0.0.2")
        .page(&format!("{metadata}project/project-id"), "p")
        .page(&format!("{metadata}instance/zone"), "projects/1/zones/z")
        .page(
            &format!("{api}/instanceGroups/g/listInstances?orderBy=name"),
            r#"{"items": [{"instance": "x/i-1"}, {"instance": "x/i-2"}]}"#,
        )
        .page(
            &format!("{api}/instances/i-1"),
            r#"{"networkInterfaces": [{"networkIP": "10.0.0.1"}]}"#,
        )
        .page(
            &format!("{api}/instances/i-2"),
            r#"{"networkInterfaces": [{"networkIP": "10.0.0.2"}]}"#,
        );
    let report = world.call(|seen| Chain::default().detect(seen)).unwrap();
    let found = report.settled().unwrap().unwrap();
    assert_eq!((found.source, found.task_id), ("gce", Some(1)));
    assert_eq!((found.process.rank, found.process.size), (Some(1), Some(2)));
}

#[test]
fn where_nothing_is_there_what_left_traces_is_a_hint() {
    let hints = |variables: &[(&str, &str)]| {
        let mut world = World::of(variables);
        world.call(|seen| Chain::default().detect(seen)).unwrap().hints
    };
    assert_eq!(hints(&[("HOME", "/root")]), [""; 0]);
    let slurm = hints(&[("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n1")]);
    assert_eq!(slurm.len(), 1);
    assert!(slurm[0].starts_with("slurm: ") && slurm[0].contains("start the program with srun"));
    let pod = hints(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]);
    assert!(pod[0].starts_with("kubernetes_job: JOB_COMPLETION_INDEX"), "{pod:?}");
    let found = [("SLURM_JOB_ID", "7"), ("TF_CONFIG", r#"{"cluster": {"worker": ["a:1"]}}"#)];
    assert_eq!(hints(&found), [""; 0], "another one is there");
}

#[test]
fn what_costs_requests_is_not_asked_where_another_one_is_there() {
    let config = ("TF_CONFIG", r#"{"cluster": {"worker": ["a:1"]}}"#);
    let mut world = World::of(&[config, ("TPU_NAME", "mine")]);
    let report = world.call(|seen| Chain::default().detect(seen)).unwrap();
    let tpu = report.entries.iter().find(|entry| entry.source == "tpu").unwrap();
    assert_eq!(tpu.verdict, Verdict::NotAsked);
    assert!(world.asked.is_empty(), "{:?}", world.asked);
    assert!(report.to_json().to_string().contains(r#""not_asked""#));
}

/// Tasks 0 and 2 are no group of two: who would be rank 1?
#[test]
fn a_job_with_holes_has_neither_size_nor_ranks() {
    for index in [0, 2] {
        let tasks = r#"{"cluster": {"worker": {"0": "a:1", "2": "c:1"}}, "task""#;
        let config = format!(r#"{tasks}: {{"type": "worker", "index": {index}}}}}"#);
        let (report, _) = detect(&[&[("TF_CONFIG", &config)]]);
        let found = report.settled().unwrap().unwrap();
        assert_eq!(
            (found.task_id, found.process.coordinator.as_deref()),
            (Some(index), Some("a:1"))
        );
        assert_eq!((found.process.rank, found.process.size), (None, None));
    }
}
