//! `--cluster`: a server, workers, relays and readers find each other by what a launcher tells each of
//! them, and say what they lack where it does not tell enough.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

use std::fs;
use std::net::TcpListener;
use std::process::{self, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rondo::agent::{Agent, Config, Way};
use rondo::clock::Clock;
use rondo::entropy::Entropy;
use rondo::transport::grpc_client::GrpcClient;
use rondo_core::ids::{Incarnation, TaskIndex};
use rondo_core::status::Code;
use rondo_tests::binary;
use rondo_tests::process::{Ended, Process};
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
const RECORDS: usize = 57;

/// Variables of one process.
type Variables = Vec<(&'static str, String)>;

/// `rondo` with these variables and no others.
fn command(variables: &Variables, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary::rondo());
    command.env_clear().envs(variables.iter().map(|(name, value)| (name, value))).args(arguments);
    command
}

fn ended(variables: &Variables, arguments: &[&str]) -> Ended {
    Process::start("rondo", &mut command(variables, arguments)).wait(PATIENCE)
}

fn assert_ended(ended: &Ended, status: i32, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(status), "{}", ended.log);
    for word in words {
        assert!(ended.log.contains(word), "{word:?} is not in:\n{}", ended.log);
    }
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
}

/// Asserts that a process that runs on says this in its log, which may come behind its output.
fn assert_says(process: &Process, words: &str) {
    let began = Instant::now();
    while !process.log().contains(words) {
        assert!(began.elapsed() < PATIENCE, "{words:?} is not in:\n{}", process.log());
        thread::sleep(Duration::from_millis(5));
    }
}

/// A port that nobody uses, below those that the system gives out, so that nobody is given it either.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = || process::id().wrapping_mul(37).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
    let ports = std::iter::repeat_with(|| 20_000 + u16::try_from(next() % 10_000).unwrap());
    ports.take(10_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// `TF_CONFIG` of a task of this cluster.
fn tf_config(cluster: &Value, job: &str, index: u32) -> Variables {
    let config = json!({"cluster": cluster, "task": {"type": job, "index": index}});
    vec![("TF_CONFIG", config.to_string())]
}

/// A task of a step of Slurm's on this machine.
fn slurm(rank: u32, size: u32) -> Variables {
    let (rank, size) = (rank.to_string(), size.to_string());
    vec![
        ("SLURM_JOB_ID", "100".into()),
        ("SLURM_STEP_NODELIST", "localhost".into()),
        ("SLURM_STEP_NUM_TASKS", size.clone()),
        ("SLURM_STEP_TASKS_PER_NODE", size.clone()),
        ("SLURM_NTASKS", size),
        ("SLURM_PROCID", rank.clone()),
        ("SLURM_LOCALID", rank),
    ]
}

/// A process that torchrun has started on this machine.
fn torchrun(rank: u32, size: u32) -> Variables {
    vec![
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", size.to_string()),
        ("LOCAL_RANK", rank.to_string()),
        ("MASTER_ADDR", "127.0.0.1".into()),
        // Of PyTorch's own store, and never Rondo's.
        ("MASTER_PORT", "1".into()),
    ]
}

/// What each command of a run is told, and what it has to make of it.
struct Launch {
    server: Variables,
    worker: Variables,
    reader: Variables,
    /// Flags that all are given.
    flags: Vec<String>,
    /// Where the server has to listen.
    address: String,
    /// What the others call it.
    called: String,
    /// What it has to say of it.
    serves: String,
    /// Where the worker has to listen, if the cluster tells.
    works_at: Option<String>,
    tasks: u32,
}

/// Asserts that a job of the server's has so many tasks: it refuses a further one.
fn assert_expects(server: &str, tasks: u32) {
    let refused = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let agent = Agent::start(
            Way::direct(server, Arc::new(GrpcClient::new())),
            Clock::start(),
            Entropy::from_system().unwrap(),
        );
        let one_too_many = TaskIndex::new(i32::try_from(tasks).unwrap());
        let config = Config::of("jax_worker", one_too_many, Incarnation::new(7));
        agent.initialize(config, |_| ()).await.unwrap();
        agent.connect().await.unwrap_err()
    });
    assert_eq!(refused.code, Code::InvalidArgument, "{refused}");
    assert!(refused.message.contains(&tasks.to_string()), "{refused}");
}

/// Starts a server, a worker and a relay, and reads a file through them.
fn run_together(launch: &Launch) {
    let folder = TempDir::new().unwrap();
    let lines: String = (0..RECORDS).map(|line| format!("line {line}\n")).collect();
    let data = folder.path().join("lines.txt");
    fs::write(&data, lines).unwrap();
    let pipeline = folder.path().join("pipeline.yaml");
    fs::write(&pipeline, format!("source: {{text: {{files: [{data:?}]}}}}\n")).unwrap();
    let flags: Vec<&str> = launch.flags.iter().map(String::as_str).collect();
    let with = |own: &[&'static str]| [own, &["--cluster=auto"], &flags].concat();

    let serve = with(&["serve", "--fault-tolerant=false"]);
    let server = Process::start("rondo serve", &mut command(&launch.server, &serve));
    let ready = server.line_with(" ready on ", PATIENCE);
    assert!(ready.unwrap().contains(&launch.address), "{}", server.log());
    assert_says(&server, &launch.serves);
    assert_expects(&launch.address, launch.tasks);

    let work = with(&["worker", "--heartbeat-interval=200ms"]);
    let worker = Process::start("rondo worker", &mut command(&launch.worker, &work));
    let ready = worker.line_with(" worker ready on ", PATIENCE);
    let ready = ready.unwrap_or_else(|| panic!("{}", worker.log()));
    if let Some(address) = &launch.works_at {
        assert!(ready.contains(address), "{ready}");
    }
    assert_says(&worker, &format!("--server {}", launch.called));

    let relay = with(&["relay", "--listen=127.0.0.1:0"]);
    let relay = Process::start("rondo relay", &mut command(&launch.reader, &relay));
    relay.line_with(" relay ready on ", PATIENCE).unwrap_or_else(|| panic!("{}", relay.log()));
    assert_says(&relay, &format!("--upstream {}", launch.called));

    let mut read = with(&["read", "--job=all"]);
    let pipeline = format!("--pipeline={}", pipeline.display());
    read.push(&pipeline);
    let read = ended(&launch.reader, &read);
    assert_ended(&read, 0, &[&format!("read {RECORDS} records"), "taken from the cluster ("]);
}

#[test]
fn commands_find_each_other_by_tf_config() {
    let server = format!("127.0.0.1:{}", free_port());
    let worker = format!("127.0.0.1:{}", free_port());
    let cluster = json!({"worker": [worker], "rondo": [server], "chief": ["c:1"], "ps": ["p:1"]});
    run_together(&Launch {
        server: tf_config(&cluster, "rondo", 0),
        worker: tf_config(&cluster, "worker", 0),
        reader: tf_config(&cluster, "chief", 0),
        flags: vec![],
        serves: format!(
            "taken from the cluster (tf_config): --listen {server}, --tasks 3, --worker-addresses \
             {worker}"
        ),
        called: server.clone(),
        address: server,
        works_at: Some(worker),
        tasks: 3,
    });
}

#[test]
fn commands_find_each_other_in_a_step_of_slurms() {
    let port = free_port();
    run_together(&Launch {
        server: slurm(0, 3),
        worker: slurm(1, 3),
        reader: slurm(2, 3),
        flags: vec![format!("--cluster-port={port}")],
        serves: format!("taken from the cluster (slurm): --listen localhost:{port}, --tasks 3"),
        address: format!("127.0.0.1:{port}"),
        called: format!("localhost:{port}"),
        works_at: None,
        tasks: 3,
    });
}

#[test]
fn commands_find_each_other_under_torchrun() {
    let port = free_port();
    run_together(&Launch {
        server: torchrun(0, 2),
        worker: torchrun(0, 2),
        reader: torchrun(1, 2),
        flags: vec![format!("--cluster-port={port}")],
        serves: format!("taken from the cluster (torch): --listen 127.0.0.1:{port}, --tasks 2"),
        address: format!("127.0.0.1:{port}"),
        called: format!("127.0.0.1:{port}"),
        works_at: None,
        tasks: 2,
    });
}

/// Lines of `--print-config` without those of settings that nobody gave.
fn printed(variables: &Variables, arguments: &[&str]) -> Vec<String> {
    let all = [&["serve", "--print-config"], arguments].concat();
    let mut variables = variables.clone();
    variables.push(("HOME", "/nowhere".into()));
    let ended = ended(&variables, &all);
    assert_ended(&ended, 0, &[]);
    let lines = ended.log.lines().filter(|line| !line.starts_with('#'));
    lines.filter(|line| !line.ends_with("# default")).map(str::to_owned).collect()
}

#[test]
fn what_is_given_comes_before_what_the_cluster_tells() {
    let mut variables = slurm(0, 4);
    variables.push(("RONDO_CLUSTER", "auto".into()));
    let told =
        ["cluster: \"auto\"  # environment", "listen: \"localhost:5050\"  # cluster (slurm)"];
    let sized = |line| [&told[..], &[line]].concat();
    assert_eq!(printed(&variables, &[]), sized("tasks: 4  # cluster (slurm)"));
    assert_eq!(printed(&variables, &["--tasks=7"]), sized("tasks: 7  # flag"));
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("rondo.yaml");
    fs::write(&file, "cluster: auto\ntasks: 5\ncluster_port: 6000\n").unwrap();
    let from_file = [
        "cluster: \"auto\"  # file",
        "cluster_port: 6000  # file",
        "listen: \"localhost:6000\"  # cluster (slurm)",
        "tasks: 5  # file",
    ];
    let config = format!("--config={}", file.display());
    assert_eq!(printed(&slurm(0, 4), &[&config]), from_file);
    // Who listens elsewhere than the cluster says has told so, wherever this process is.
    let given = printed(&slurm(3, 4), &["--cluster=auto", "--listen=127.0.0.1:9"]);
    assert_eq!(given[1..], ["listen: \"127.0.0.1:9\"  # flag", "tasks: 4  # cluster (slurm)"]);
    let settings = r#"--cluster-settings={"jobs": {"rondo": 1, "worker": 3}, "port_base": 7000}"#;
    let given = printed(&slurm(0, 4), &["--cluster=slurm", settings]);
    assert!(given.contains(&"tasks: 3  # cluster (explicit)".to_owned()), "{given:?}");
    assert!(given.contains(&"listen: \"localhost:7000\"  # cluster (explicit)".to_owned()));
}

#[test]
fn where_all_is_given_nobody_is_asked() {
    // No source is there.
    let all = ["--cluster=auto", "--tasks=2", "--listen=127.0.0.1:0", "--worker-addresses="];
    let given = printed(&vec![], &all);
    assert!(given.contains(&"tasks: 2  # flag".to_owned()), "{given:?}");
    let open =
        ["serve", "--cluster=auto", "--tasks=2", "--listen=0.0.0.0:0", "--worker-addresses="];
    let more = ["--fault-tolerant=false"];
    let words = ["--cluster auto: nothing was taken", "--insecure"];
    assert_ended(&ended(&vec![], &[&open[..], &more].concat()), 2, &words);
}

#[test]
fn without_a_cluster_it_ends_as_rondo_cluster_does() {
    for all in [&["serve"][..], &["relay"], &["worker"], &["read", "--job=j"]] {
        let words = ["cluster: nothing tells of a cluster", "`rondo cluster`"];
        assert_ended(&ended(&vec![], &[all, &["--cluster=auto"]].concat()), 1, &words);
    }
}

#[test]
fn sources_that_contradict_each_other_are_an_error() {
    let both = [torchrun(1, 4), slurm(2, 4)].concat();
    let words = ["torch says that the rank is 1, slurm says 2"];
    assert_ended(&ended(&both, &["read", "--job=j", "--cluster=auto"]), 2, &words);
    let broken = vec![("TF_CONFIG", "{".into())];
    assert_ended(&ended(&broken, &["relay", "--cluster=auto"]), 2, &["TF_CONFIG", "no JSON"]);
}

#[test]
fn what_the_cluster_does_not_tell_has_to_be_given() {
    let rank_only = vec![("PMIX_RANK", "3".into()), ("PMIX_NAMESPACE", "1".into())];
    let needs = |own: &[&str], flag: &str| {
        let words = ["pmix: does not tell", "it tells rank 3", flag];
        assert_ended(&ended(&rank_only, &[own, &["--cluster=auto"]].concat()), 1, &words);
    };
    needs(&["serve"], "or give --tasks");
    needs(&["relay"], "or give --upstream");
    needs(&["worker"], "or give --server");
    needs(&["read", "--job=j"], "or give --server");
    assert_ended(&ended(&vec![], &["relay"]), 2, &["--upstream HOST:PORT is missing"]);
}

#[test]
fn a_server_starts_only_where_the_others_look_for_it() {
    let cluster = json!({"worker": ["w:1"], "rondo": ["10.1.2.3:6000"]});
    let words = ["tf_config: the server is at 10.1.2.3:6000", "give --listen"];
    let own = tf_config(&cluster, "worker", 0);
    assert_ended(&ended(&own, &["serve", "--cluster=auto"]), 2, &words);
    // An address that others reach takes more than a launcher's word.
    let own = tf_config(&json!({"rondo": ["0.0.0.0:0"], "worker": ["w:1"]}), "rondo", 0);
    let all = ["serve", "--cluster=auto", "--fault-tolerant=false"];
    assert_ended(&ended(&own, &all), 2, &["can be reached by other machines", "--insecure"]);
}

#[test]
fn a_resolver_that_is_named_has_its_settings_checked() {
    let serve = |more: &[&str]| ended(&vec![], &[&["serve"], more].concat());
    assert_ended(&serve(&["--cluster=bogus"]), 2, &["\"bogus\" is no resolver", "slurm"]);
    let lone = serve(&["--cluster-settings={}"]);
    assert_ended(&lone, 2, &["--cluster-settings", "without --cluster"]);
    let auto = serve(&["--cluster=auto", "--cluster-settings={}"]);
    assert_ended(&auto, 2, &["--cluster NAME"]);
    let list = serve(&["--cluster=slurm", "--cluster-settings=[]"]);
    assert_ended(&list, 2, &["--cluster-settings: \"[]\" is no object"]);
    let many = ended(&torchrun(0, 70_000), &["serve", "--cluster=auto"]);
    assert_ended(&many, 2, &["what the cluster tells", "'70000' for '--tasks <COUNT>'"]);
}
