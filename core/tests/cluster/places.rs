//! Places in a cluster: who keeps one, and clusters that only look whole.

use rondo_core::cluster::{
    Chain, ClusterResolver, Error, Export, Fault, Finding, Jax, Json, KubernetesJob, Service,
    described, torch,
};

use super::world::World;

fn spec_of(world: &mut World, settings: &str) -> Result<String, Error> {
    let mut resolver = described(&Json::parse(settings).unwrap())?;
    Ok(world.call(|seen| resolver.cluster_spec(seen))?.to_json().to_string())
}

fn list(items: &[String]) -> String {
    format!(r#"{{"items": [{}]}}"#, items.join(","))
}

const PODS: &str = r#"{"resolver": "kubernetes", "api_server": "http://api", "namespace": "default",
    "job_to_label_mapping": {"worker": ["app=w"]}}"#;
const PODS_URL: &str = "/api/v1/namespaces/default/pods?labelSelector=app%3Dw&limit=500";

/// A pod that runs, with these labels and more of its metadata.
fn pod(name: &str, ip: &str, labels: &str, more: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "{name}", "uid": "{name}-{ip}", "labels": {{{labels}}}{more}}},
            "status": {{"phase": "Running", "podIP": "{ip}"}}}}"#
    )
}

const LEAVING: &str = r#", "deletionTimestamp": "2026-11-24T03:00:00Z""#;

fn member(name: &str, ip: &str, more: &str) -> String {
    pod(name, ip, &format!(r#""statefulset.kubernetes.io/pod-name": "{name}""#), more)
}

fn left_out(settings: &str) -> String {
    settings.replace("\"api_server\"", "\"unready\": \"leave_out\", \"api_server\"")
}

#[test]
fn a_pod_that_is_replaced_under_its_name_keeps_its_place() {
    let pods = [
        member("web-0", "10.0.0.1", ""),
        member("web-1", "10.0.0.2", LEAVING),
        member("web-2", "10.0.0.3", ""),
    ];
    let mut world = World::default().page(PODS_URL, &list(&pods));
    let refused = spec_of(&mut world, PODS).unwrap_err();
    assert_eq!((refused.fault, refused.about.as_str()), (Fault::NotReady, "worker:1"));
    assert!(refused.text.contains("\"web-1\" is not ready: it is being deleted"), "{refused}");
    assert_eq!(
        spec_of(&mut world, &left_out(PODS)).unwrap(),
        r#"{"worker": {"0": "10.0.0.1:8470", "2": "10.0.0.3:8470"}}"#
    );
    // The label of newer controllers says the same, and the name need not.
    let labelled = [pod("a", "10.0.0.9", r#""apps.kubernetes.io/pod-index": "4""#, "")];
    let mut world = World::default().page(PODS_URL, &list(&labelled));
    assert_eq!(spec_of(&mut world, PODS).unwrap(), r#"{"worker": {"4": "10.0.0.9:8470"}}"#);
}

#[test]
fn two_ended_pods_of_one_place_do_not_take_the_others_numbers() {
    let index = |number| format!(r#""batch.kubernetes.io/job-completion-index": "{number}""#);
    let ended = |name: &str| pod(name, "10.0.0.8", &index(0), "").replace("Running", "Failed");
    let pods = [ended("a"), ended("b"), pod("c", "10.0.0.1", &index(1), "")];
    let mut world = World::default().page(PODS_URL, &list(&pods));
    assert_eq!(
        spec_of(&mut world, &left_out(PODS)).unwrap(),
        r#"{"worker": {"1": "10.0.0.1:8470"}}"#
    );
    assert_eq!(spec_of(&mut world, PODS).unwrap_err().about, "worker:0");
    // Two Jobs behind one selector are numbered by place, with the ended pod of each for itself.
    let owner = |name: &str| owner("Job", name, "1");
    let both = [
        pod("x", "10.0.0.1", &index(0), &owner("1")),
        pod("y", "10.0.0.2", &index(0), &owner("2")),
        pod("z", "10.0.0.3", &index(0), &owner("2")).replace("Running", "Failed"),
    ];
    let mut world = World::default().page(PODS_URL, &list(&both));
    assert_eq!(
        spec_of(&mut world, PODS).unwrap(),
        r#"{"worker": ["10.0.0.1:8470", "10.0.0.2:8470"]}"#
    );
}

fn owner(kind: &str, name: &str, uid: &str) -> String {
    format!(
        r#", "ownerReferences": [{{"kind": "{kind}", "name": "{name}", "uid": "{uid}", "controller": true}}]"#
    )
}

#[test]
fn a_master_does_not_take_the_place_of_a_worker() {
    let index = |role: &str, number| {
        let key = "training.kubeflow.org/replica";
        format!(r#""{key}-type": "{role}", "{key}-index": "{number}""#)
    };
    let owner = owner("PyTorchJob", "t", "1");
    let all = |phase: &str, more: &str| {
        let more = format!("{owner}{more}");
        list(&[
            pod("t-master-0", "10.0.0.1", &index("master", 0), &owner),
            pod("t-worker-0", "10.0.0.2", &index("worker", 0), &more).replace("Running", phase),
            pod("t-worker-1", "10.0.0.3", &index("worker", 1), &owner),
        ])
    };
    let spec = |pods: &str| spec_of(&mut World::default().page(PODS_URL, pods), PODS);
    let three = r#"{"worker": ["10.0.0.1:8470", "10.0.0.2:8470", "10.0.0.3:8470"]}"#;
    assert_eq!(spec(&all("Running", "")).unwrap(), three);
    for pods in [all("Pending", ""), all("Failed", ""), all("Running", LEAVING)] {
        let refused = spec(&pods).unwrap_err();
        assert_eq!(refused.fault, Fault::NotReady, "{refused}");
        assert!(refused.text.contains("t-worker-0"), "{refused}");
    }
}

#[test]
fn a_job_that_is_made_again_takes_the_places_of_the_old_one() {
    let index = |number| format!(r#""batch.kubernetes.io/job-completion-index": "{number}""#);
    let old = format!("{}{LEAVING}", owner("Job", "t", "1"));
    let new = owner("Job", "t", "2");
    let pods = list(&[
        pod("t-0-aaaaa", "10.0.0.1", &index(0), &old),
        pod("t-1-aaaaa", "10.0.0.2", &index(1), &old),
        pod("t-0-bbbbb", "10.0.0.3", &index(0), &new),
        pod("t-1-bbbbb", "10.0.0.4", &index(1), &new),
    ]);
    let two = r#"{"worker": ["10.0.0.3:8470", "10.0.0.4:8470"]}"#;
    for settings in [PODS, &left_out(PODS)] {
        let mut world = World::default().page(PODS_URL, &pods);
        assert_eq!(spec_of(&mut world, settings).unwrap(), two);
    }
}

#[test]
fn a_pod_that_two_selectors_match_is_told() {
    let pods = list(&[member("web-0", "10.0.0.1", "")]);
    let mut world = World::default()
        .page(PODS_URL, &pods)
        .page(&PODS_URL.replace("app%3Dw", "tier%3Dgpu"), &pods);
    let refused = spec_of(&mut world, &PODS.replace("\"app=w\"", "\"app=w\", \"tier=gpu\""));
    let refused = refused.unwrap_err();
    assert_eq!(refused.fault, Fault::Conflict);
    assert!(refused.text.contains("\"web-0\" is matched by two selectors"), "{refused}");
}

const SERVICE: &str = r#"{"resolver": "kubernetes_service", "service": "s", "namespace": "ml",
    "api_server": "http://api"}"#;
const SLICES_URL: &str = "/apis/discovery.k8s.io/v1/namespaces/ml/endpointslices?labelSelector=\
    kubernetes.io%2Fservice-name%3Ds&limit=500";

fn slice(family: &str, endpoints: &[String]) -> String {
    format!(
        r#"{{"addressType": "{family}", "ports": [{{"port": 7}}], "endpoints": [{}]}}"#,
        endpoints.join(",")
    )
}

fn endpoint(ip: &str, host: &str, more: &str) -> String {
    format!(r#"{{"addresses": ["{ip}"], "hostname": "{host}"{more}}}"#)
}

#[test]
fn a_pod_with_addresses_of_both_families_is_one_task() {
    let slices = [
        slice("IPv6", &[endpoint("fd00::1", "w-0", ""), endpoint("fd00::2", "w-1", "")]),
        slice("IPv4", &[endpoint("10.0.0.1", "w-0", "")]),
    ];
    let mut world = World::default().page(SLICES_URL, &list(&slices));
    assert_eq!(
        spec_of(&mut world, SERVICE).unwrap(),
        r#"{"worker": ["10.0.0.1:7", "[fd00::2]:7"]}"#
    );
    // Without names nothing tells which addresses are of one pod.
    let bare = |ip: &str| format!(r#"{{"addresses": ["{ip}"]}}"#);
    let slices = [slice("IPv6", &[bare("fd00::1")]), slice("IPv4", &[bare("10.0.0.1")])];
    let mut world = World::default().page(SLICES_URL, &list(&slices));
    let refused = spec_of(&mut world, SERVICE).unwrap_err();
    assert_eq!(refused.fault, Fault::Conflict);
    assert!(refused.text.contains("no name tells which of them are of one task"), "{refused}");
}

#[test]
fn an_endpoint_that_leaves_or_has_no_address_keeps_its_place() {
    let leaving = r#", "conditions": {"terminating": true, "ready": false}"#;
    let both = |second: String| list(&[slice("IPv4", &[endpoint("10.0.0.1", "w-0", ""), second])]);
    let mut world = World::default().page(SLICES_URL, &both(endpoint("10.0.0.2", "w-1", leaving)));
    let refused = spec_of(&mut world, SERVICE).unwrap_err();
    assert_eq!((refused.fault, refused.about.as_str()), (Fault::NotReady, "worker:1"));
    let none = r#"{"addresses": [], "hostname": "w-1"}"#.to_owned();
    let mut world = World::default().page(SLICES_URL, &both(none));
    let refused = spec_of(&mut world, SERVICE).unwrap_err();
    assert!(refused.text.contains("it has no address yet"), "{refused}");
    assert_eq!(spec_of(&mut world, &left_out(SERVICE)).unwrap(), r#"{"worker": ["10.0.0.1:7"]}"#);
    // A pod of a Deployment is replaced under another name.
    let other = endpoint("10.0.0.2", "web-7d9f-x2b", leaving);
    let mut world = World::default().page(SLICES_URL, &both(other));
    assert_eq!(spec_of(&mut world, SERVICE).unwrap(), r#"{"worker": ["10.0.0.1:7"]}"#);
}

#[test]
fn an_address_in_a_hosts_name_is_no_index() {
    let settings = r#"{"resolver": "dns", "name": "_grpc._tcp.s"}"#;
    let told = |targets: &[&str]| {
        let service =
            |target: &&str| Service { priority: 0, weight: 1, target: (*target).into(), port: 1 };
        let services = targets.iter().map(service).collect();
        spec_of(&mut World { services, ..World::default() }, settings)
    };
    for (targets, wanted) in [
        (["10-244-1-7.s", "10-244-1-5.s"], r#"{"worker": ["10-244-1-5.s:1", "10-244-1-7.s:1"]}"#),
        (["ip-10-0-3-9", "ip-10-0-3-1"], r#"{"worker": ["ip-10-0-3-1:1", "ip-10-0-3-9:1"]}"#),
        (["fd00--9.s", "fd00--5.s"], r#"{"worker": ["fd00--5.s:1", "fd00--9.s:1"]}"#),
        // Members of two sets have no numbers in common.
        (["a-3.s", "b-7.s"], r#"{"worker": ["a-3.s:1", "b-7.s:1"]}"#),
        (["w-7.s", "w-3.s"], r#"{"worker": {"3": "w-3.s:1", "7": "w-7.s:1"}}"#),
        // A version is no address.
        (
            ["v-3-1-8-0.s", "v-3-1-8-2.s"],
            r#"{"worker": {"0": "v-3-1-8-0.s:1", "2": "v-3-1-8-2.s:1"}}"#,
        ),
        // A pod's random name may be of digits alone.
        (["web-7d9f8c6b5-48927.s", "."], r#"{"worker": ["web-7d9f8c6b5-48927.s:1"]}"#),
        // The root is no host.
        (["w-7.s", "."], r#"{"worker": {"7": "w-7.s:1"}}"#),
    ] {
        assert_eq!(told(&targets).unwrap(), wanted);
    }
    assert_eq!(told(&["."]).unwrap_err().fault, Fault::Unreachable);
}

/// A Job of a JobSet of three, whose pods are in the domain that `network.subdomain` says.
fn job(name: &str, global: u32, more: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "{name}", "labels": {{"jobset.sigs.k8s.io/jobset-name": "set",
            "jobset.sigs.k8s.io/job-global-index": "{global}"{more}}}}}, "spec": {{"parallelism": 1}}}}"#
    )
}

const OF_THREE: &str = r#", "jobset.sigs.k8s.io/global-replicas": "3""#;
const OWN_POD: &str = r#"{"metadata": {"name": "w-0-abc", "labels": {"job-name": "set-w-0"},
    "ownerReferences": [{"kind": "Job", "controller": true}]},
    "spec": {"subdomain": "net", "hostname": "p"}, "status": {"phase": "Running"}}"#;

fn in_pod(pods: &[&str]) -> World {
    let pods: Vec<String> = pods.iter().map(|pod| (*pod).to_owned()).collect();
    World::of(&[
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
        ("HOSTNAME", "p"),
        ("JOB_COMPLETION_INDEX", "0"),
    ])
    .file("/var/run/secrets/kubernetes.io/serviceaccount/namespace", "ml")
    .host("p", &["10.1.0.5"])
    .page("/api/v1/namespaces/ml/pods?fieldSelector=status.podIP%3D10.1.0.5", &list(&pods))
}

fn in_set(jobs: &[String]) -> World {
    let siblings = "/apis/batch/v1/namespaces/ml/jobs?labelSelector=\
                    jobset.sigs.k8s.io%2Fjobset-name%3Dset&limit=500";
    in_pod(&[OWN_POD])
        .page("/apis/batch/v1/namespaces/ml/jobs/set-w-0", &jobs[0])
        .page(siblings, &list(jobs))
}

fn of_job(world: &mut World) -> Result<String, Error> {
    let spec = world.call(|seen| KubernetesJob::default().cluster_spec(seen))?;
    Ok(spec.to_json().to_string())
}

#[test]
fn a_jobset_is_not_told_before_all_its_jobs_are_there() {
    let all =
        [job("set-w-0", 0, OF_THREE), job("set-w-1", 1, OF_THREE), job("set-w-2", 2, OF_THREE)];
    for some in [&all[..1], &all[..2], &[all[0].clone(), all[1].clone(), all[1].clone()]] {
        let refused = of_job(&mut in_set(some)).unwrap_err();
        assert_eq!(refused.fault, Fault::NotReady);
        assert!(refused.text.contains("of its 3 Jobs"), "{refused}");
    }
    assert_eq!(
        of_job(&mut in_set(&all)).unwrap(),
        r#"{"worker": ["set-w-0-0.net:8470", "set-w-1-0.net:8470", "set-w-2-0.net:8470"]}"#,
        "in the domain of the JobSet's network.subdomain"
    );
}

#[test]
fn a_jobset_that_does_not_say_how_many_jobs_it_has_is_not_guessed() {
    let of = |replicas: u32| {
        let label = format!(r#", "jobset.sigs.k8s.io/replicatedjob-replicas": "{replicas}""#);
        move |name: &str| job(name, 0, &label)
    };
    for jobs in [vec![of(2)("set-w-0")], vec![of(1)("set-w-0"), of(1)("set-driver-0")]] {
        let refused = of_job(&mut in_set(&jobs)).unwrap_err();
        assert_eq!(refused.fault, Fault::PlacementUnknown);
        assert!(refused.text.contains("JobSet 0.7 and newer set it"), "{refused}");
    }
    let alone = of_job(&mut in_set(&[of(1)("set-w-0")])).unwrap();
    assert_eq!(alone, r#"{"worker": ["set-w-0-0.net:8470"]}"#);
}

#[test]
fn the_own_pod_is_the_one_that_runs_and_has_the_hosts_name() {
    let job = r#"{"metadata": {"name": "set-w-0"}, "spec": {"parallelism": 1}}"#;
    let told = |pods: &[&str]| {
        of_job(&mut in_pod(pods).page("/apis/batch/v1/namespaces/ml/jobs/set-w-0", job))
    };
    let ended = OWN_POD.replace("Running", "Succeeded").replace("w-0-abc", "old");
    let other = OWN_POD.replace("\"p\"", "\"q\"").replace("w-0-abc", "on-the-same-host");
    let wanted = r#"{"worker": ["set-w-0-0.net:8470"]}"#;
    for pods in [&[OWN_POD, &ended][..], &[&ended, OWN_POD], &[&other, OWN_POD]] {
        assert_eq!(told(pods).unwrap(), wanted);
    }
    assert_eq!(told(&[&other, &other]).unwrap_err().fault, Fault::Conflict);
    assert_eq!(told(&[&ended]).unwrap_err().fault, Fault::NotReady, "it may be listed yet");
    // The API knows a pod of two families by its first address only.
    let ipv6 = "/api/v1/namespaces/ml/pods?fieldSelector=status.podIP%3Dfd00%3A%3A5";
    let mut world = in_pod(&[])
        .host("p", &["10.1.0.5", "fd00::5"])
        .page(ipv6, &list(&[OWN_POD.into()]))
        .page("/apis/batch/v1/namespaces/ml/jobs/set-w-0", job);
    assert_eq!(of_job(&mut world).unwrap(), wanted);
}

fn chosen(world: &mut World) -> Result<Option<Finding>, Error> {
    let report = world.call(|seen| Chain::default().detect(seen))?;
    Ok(report.settled()?.cloned())
}

const PRODUCT: &str = "/sys/class/dmi/id/product_name";
const CREATED_BY: &str = "/computeMetadata/v1/instance/attributes/created-by";

#[test]
fn the_nodes_of_a_pod_are_not_its_cluster() {
    let on_google = |world: World| {
        let group = "projects/7/zones/z/instanceGroupManagers/gke-pool";
        world.file(PRODUCT, "Google Compute Engine\n").page(CREATED_BY, group)
    };
    let mut plain = on_google(World::of(&[("KUBERNETES_SERVICE_HOST", "10.96.0.1")]));
    assert_eq!(chosen(&mut plain).unwrap(), None);
    // An indexed Job that the API does not have is a failure, and nothing else is taken instead.
    let refused = chosen(&mut on_google(in_pod(&[OWN_POD]))).unwrap_err();
    assert_eq!(refused.fault, Fault::NotReady);
    assert!(refused.text.contains("404") && refused.text.contains("kubernetes_job"), "{refused}");
}

const GROUP: &str = r#"{"resolver": "gce", "instance_group": "g", "port": 8470, "project": "p"}"#;

#[test]
fn an_instance_that_went_since_the_list_is_not_a_group_that_is_not_there() {
    let settings = GROUP.replace("\"project\"", "\"zone\": \"z\", \"project\"");
    let mut world = World::default().page(
        "/compute/v1/projects/p/zones/z/instanceGroups/g/listInstances?orderBy=name",
        r#"{"items": [{"instance": "https://c/compute/v1/projects/p/zones/z/instances/i-1"}]}"#,
    );
    let refused = spec_of(&mut world, &settings).unwrap_err();
    assert_eq!(refused.fault, Fault::NotReady);
    assert!(refused.text.contains("\"i-1\" is gone since the group was listed"), "{refused}");
}

#[test]
fn a_regional_group_has_instances_in_several_zones() {
    let instance = |ip: &str| format!(r#"{{"networkInterfaces": [{{"networkIP": "{ip}"}}]}}"#);
    let url = "https://c/compute/v1/projects/p/zones";
    let listed = format!(
        r#"{{"items": [{{"instance": "{url}/r-a/instances/i-1"}},
            {{"instance": "{url}/r-b/instances/i-1"}}]}}"#
    );
    let mut world = World::default()
        .page(
            "/compute/v1/projects/p/regions/r/instanceGroups/g/listInstances?orderBy=name",
            &listed,
        )
        .page("/compute/v1/projects/p/zones/r-a/instances/i-1", &instance("10.0.0.2"))
        .page("/compute/v1/projects/p/zones/r-b/instances/i-1", &instance("10.0.0.1"));
    let settings = GROUP.replace("\"project\"", "\"region\": \"r\", \"project\"");
    let wanted = r#"{"worker": ["10.0.0.1:8470", "10.0.0.2:8470"]}"#;
    assert_eq!(spec_of(&mut world, &settings).unwrap(), wanted);
    // A machine that such a group made finds it by itself.
    let mut machine = world
        .file(PRODUCT, "Google Compute Engine\n")
        .page(CREATED_BY, "projects/7/regions/r/instanceGroupManagers/g")
        .page("/computeMetadata/v1/project/project-id", "p")
        .page("/computeMetadata/v1/instance/network-interfaces/0/ip", "10.0.0.2");
    let found = chosen(&mut machine).unwrap().unwrap();
    assert_eq!((found.source, found.task_id), ("gce", Some(1)));
    let both = settings.replace("\"region\"", "\"zone\": \"z\", \"region\"");
    assert_eq!(described(&Json::parse(&both).unwrap()).unwrap_err().fault, Fault::Conflict);
}

/// A task of a step of Slurm's: eight tasks on one host.
fn step(variables: &[(&str, &str)]) -> World {
    let mut world = World::of(&[
        ("SLURM_JOB_ID", "7"),
        ("SLURM_STEP_NODELIST", "h1"),
        ("SLURM_STEP_TASKS_PER_NODE", "4"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_PROCID", "3"),
        ("SLURM_LOCALID", "3"),
    ]);
    for (name, value) in variables {
        world.environment.insert((*name).into(), (*value).into());
    }
    world
}

#[test]
fn an_interactive_step_has_its_own_tasks_and_not_the_allocations() {
    let mut world = step(&[
        ("SLURM_STEP_TASKS_PER_NODE", "1"),
        ("SLURM_STEP_NUM_TASKS", "1"),
        ("SLURM_NTASKS", "8"),
        ("SLURM_PROCID", "0"),
        ("SLURM_LOCALID", "0"),
    ]);
    let found = chosen(&mut world).unwrap().unwrap();
    assert_eq!((found.process.size, found.process.rank), (Some(1), Some(0)));
    assert!(found.notes.iter().any(|note| note.contains("the allocation \"8\"")), "{found:?}");
    // The step's own number is enough.
    world.environment.remove("SLURM_NTASKS");
    let found = chosen(&mut world).unwrap().unwrap();
    assert_eq!((found.source, found.process.size), ("slurm", Some(1)));
    assert_eq!(found.notes, Vec::<String>::new());
}

fn own_gpus(world: &mut World) -> (Option<String>, Option<String>) {
    let found = chosen(world).unwrap().unwrap();
    let jax = Export::Jax.write(&found).unwrap();
    let ids = jax.lines().find_map(|line| line.strip_prefix("export JAX_LOCAL_DEVICE_IDS="));
    (found.gpus.map(|gpus| gpus.join(",")), ids.map(str::to_owned))
}

#[test]
fn gpus_of_a_task_are_those_that_it_sees_or_its_share_of_the_hosts() {
    let answer = |gpus: &str, ids: &str| (Some(gpus.to_owned()), Some(format!("'{ids}'")));
    // Nothing says what is visible: the host is asked, and its GPUs are shared out.
    let mut world = World { gpus: 8, ..step(&[]) };
    assert_eq!(own_gpus(&mut world), answer("6,7", "3"));
    let visible = |ids: &str, more: &[(&str, &str)]| {
        let mut world = step(more);
        world.environment.insert("CUDA_VISIBLE_DEVICES".into(), ids.into());
        own_gpus(&mut world)
    };
    assert_eq!(visible("0,1,2,3,4,5,6,7", &[]), answer("6,7", "3"));
    // Each task sees its own only, under the first number or under one of the host's.
    assert_eq!(visible("0", &[]), answer("0", "0"));
    let per_task = [("SLURM_GPUS_PER_TASK", "2")];
    assert_eq!(visible("4,5", &per_task), answer("4,5", "0,1"));
    let of_two_types = [("SLURM_GPUS_PER_TASK", "a100:2,v100:1")];
    assert_eq!(visible("4,5,6", &of_two_types), answer("4,5,6", "0,1,2"));
    let with_sum = [("SLURM_TRES_PER_TASK", "cpu=4,gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1")];
    assert_eq!(visible("4,5,6", &with_sum), answer("4,5,6", "0,1,2"));
    let tres = [("SLURM_TRES_PER_TASK", "cpu=4,gres/gpu:a100=4")];
    assert_eq!(visible("0,1,2,3", &tres), answer("0,1,2,3", "0,1,2,3"));
    // Asked for each task, yet visible to all: they are shared out.
    assert_eq!(visible("0,1,2,3,4,5,6,7", &per_task), answer("6,7", "3"));
}

#[test]
fn a_process_on_a_tpu_machine_uses_all_that_it_sees() {
    let mut world = World { is_tpu: true, ..step(&[("TPU_SKIP_MDS_QUERY", "1")]) };
    assert_eq!(own_gpus(&mut world).1, None);
    let process = world.call(|seen| Jax::default().process(seen)).unwrap();
    assert_eq!((process.rank, process.local_device_ids), (Some(3), None));
    world.is_tpu = false;
    let process = world.call(|seen| Jax::default().process(seen)).unwrap();
    assert_eq!(process.local_device_ids, Some(vec![3]));
}

/// `squeue` shows the components of a heterogeneous job so. They belong to one job, and so has its
/// coordinator one port.
#[test]
fn the_id_of_a_component_is_read_as_its_jobs() {
    let coordinator = |id: &str| {
        let mut world = step(&[("SLURM_JOB_ID", id)]);
        world.call(|seen| Jax::default().process(seen)).map(|process| process.coordinator)
    };
    assert!(coordinator("12").unwrap().is_some());
    assert_eq!(coordinator("12+1").unwrap(), coordinator("12").unwrap());
    assert_ne!(coordinator("13").unwrap(), coordinator("12").unwrap());
    assert_eq!(coordinator("+1").unwrap_err().fault, Fault::Malformed);
}

#[test]
fn a_negative_job_of_open_mpis_is_refused() {
    let process = |uri: &str| {
        let variables = [("OMPI_MCA_orte_hnp_uri", uri), ("OMPI_COMM_WORLD_RANK", "1")];
        let more = [("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_LOCAL_RANK", "0")];
        let mut world = World::default();
        for (name, value) in variables.iter().chain(&more) {
            world.environment.insert((*name).into(), (*value).into());
        }
        world.call(|seen| Jax::default().process(seen))
    };
    let address = process("1234.0;tcp://10.0.0.1:99").unwrap().coordinator.unwrap();
    assert!(address.starts_with("10.0.0.1:"), "{address}");
    let refused = process("-1234.0;tcp://10.0.0.1:99").unwrap_err();
    assert_eq!(refused.fault, Fault::Malformed);
    assert_eq!(refused.about, "OMPI_MCA_orte_hnp_uri");
}

#[test]
fn an_unknown_or_empty_method_of_detection_is_refused() {
    for method in ["", "Slurm", "mesos"] {
        let jax = Jax { method: Some(method.into()), ..Jax::default() };
        let refused = step(&[]).call(|seen| jax.process(seen)).unwrap_err();
        assert_eq!(refused.about, "cluster_detection_method");
        assert!(refused.text.contains("slurm"), "{refused}");
    }
}

#[test]
fn a_tpu_resolver_has_no_task_id_to_set() {
    for task in ["null", "1"] {
        let settings = format!(r#"{{"resolver": "tpu", "tpu": "v4", "task_id": {task}}}"#);
        let refused = spec_of(&mut World::default(), &settings).unwrap_err();
        assert_eq!(refused.fault, Fault::Malformed);
        assert!(
            refused.text.contains("\"task_id\" is no setting of the tpu resolver"),
            "{refused}"
        );
    }
}

#[test]
fn hosts_of_a_tpu_slice_are_counted_as_they_are() {
    let mut world = World { is_tpu: true, ..World::default() }.host("t0", &["10.0.0.1"]);
    for (name, value) in
        [("TPU_SKIP_MDS_QUERY", "1"), ("TPU_WORKER_HOSTNAMES", "t0,t1,"), ("TPU_WORKER_ID", "1")]
    {
        world.environment.insert(name.into(), value.into());
    }
    let found = chosen(&mut world).unwrap().unwrap();
    assert_eq!((found.process.size, found.process.rank), (Some(2), Some(1)));
    world.environment.insert("TPU_WORKER_HOSTNAMES".into(), "t0,,t1".into());
    assert_eq!(chosen(&mut world).unwrap_err().fault, Fault::Malformed);
    // The machine's own TPU is no cluster that would hide the slice.
    world.environment.insert("TPU_WORKER_HOSTNAMES".into(), "t0,t1".into());
    world.environment.insert("TPU_NAME".into(), "local".into());
    assert_eq!(chosen(&mut world).unwrap().unwrap().source, "tpu_gke");
}

#[test]
fn endpoints_of_a_tpu_machine_may_be_of_ipv6() {
    let attributes = "/computeMetadata/v1/instance/attributes";
    let coordinator = |endpoints: &str| {
        // Blanks, since a page that is a number alone is a status.
        let mut world = World { is_tpu: true, ..World::default() }
            .page(&format!("{attributes}/agent-worker-number"), " 1 ")
            .page(&format!("{attributes}/worker-network-endpoints"), endpoints)
            .host("2001:db8::5", &["2001:db8::5"])
            .host("10.0.0.1", &["10.0.0.1"]);
        chosen(&mut world).map(|found| found.unwrap().process)
    };
    let process = coordinator("2001:db8::5,2001:db8::6").unwrap();
    assert_eq!(process.coordinator.as_deref(), Some("[2001:db8::5]:8482"));
    assert_eq!(process.size, Some(2));
    let process = coordinator("n0:0:2001:db8::5,n1:1:2001:db8::6").unwrap();
    assert_eq!(process.coordinator.as_deref(), Some("[2001:db8::5]:8482"));
    let process = coordinator("n0:0:10.0.0.1,n1:1:10.0.0.2").unwrap();
    assert_eq!(process.coordinator.as_deref(), Some("10.0.0.1:8482"));
    for wrong in ["a:1,b:2", "n0:0:,n1:1:h", "n0:0:h:9,n1:1:h"] {
        assert_eq!(coordinator(wrong).unwrap_err().fault, Fault::Malformed, "{wrong}");
    }
}

#[test]
fn addresses_that_only_one_machine_understands_are_refused() {
    for (endpoints, wanted) in [
        ("grpc://[fe80::1%eth0]:8470", "has a zone"),
        ("grpc://10.0.0.1,,grpc://10.0.0.2", "is no host"),
        ("grpc://10.0 .0.1", "is no host"),
    ] {
        let mut world = World::of(&[("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", endpoints)]);
        let refused = spec_of(&mut world, r#"{"resolver": "tpu"}"#).unwrap_err();
        assert!(refused.text.contains(wanted), "{refused}");
    }
    let mut world =
        World::of(&[("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "grpc://10.0.0.1:1, grpc://10.0.0.2")]);
    assert_eq!(
        spec_of(&mut world, r#"{"resolver": "tpu"}"#).unwrap(),
        r#"{"worker": ["10.0.0.1:1", "10.0.0.2:8470"]}"#
    );
}

#[test]
fn a_host_that_is_listed_twice_is_told() {
    let hosts = |list: &str| World::of(&[("SM_HOSTS", list), ("SM_CURRENT_HOST", "algo-1")]);
    let settings = r#"{"resolver": "sagemaker"}"#;
    let refused = spec_of(&mut hosts(r#"["algo-2", "algo-1", "algo-2"]"#), settings).unwrap_err();
    assert_eq!(refused.to_string(), "SM_HOSTS: the host \"algo-2\" is listed twice");
    assert!(spec_of(&mut hosts(r#"["algo-2", "algo-1"]"#), settings).is_ok());
    assert!(spec_of(&mut hosts(r#"["algo-1", ""]"#), settings).is_err());
}

#[test]
fn numbers_of_nodes_may_have_blanks_and_are_not_zero() {
    assert_eq!(torch::node_range("n", " 2 "), Ok((2, 2)));
    assert_eq!(torch::node_range("n", "1: 4"), Ok((1, 4)));
    for none in ["0", "0:4", "", " "] {
        assert_eq!(torch::node_range("n", none).unwrap_err().fault, Fault::Malformed, "{none}");
    }
}

#[test]
fn a_document_has_a_bound_of_values() {
    let most = 4 << 20;
    let document = |values: usize| format!("[0{}]", ",0".repeat(values - 2));
    assert!(Json::parse(&document(most)).is_ok());
    let refused = Json::parse(&document(most + 1)).unwrap_err();
    assert!(refused.to_string().contains("more than the 4194304 values"), "{refused}");
}
