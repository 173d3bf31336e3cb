//! The resolver `rondo`: tasks that register at a real server and announce their addresses are the cluster,
//! under their numbers, for as long as they are up.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo::agent::{Agent, Config, Way};
use rondo::clock::Clock;
use rondo::entropy::Entropy;
use rondo::resolve::{self, Finder};
use rondo::transport::grpc_client::GrpcClient;
use rondo_core::cluster::{ClusterResolver, Environment, Error, Fault, Json, Rondo};
use rondo_core::ids::{Incarnation, TaskIndex};
use rondo_core::status::Code;
use rondo_core::time;
use rondo_tests::binary;
use rondo_tests::process::{Ended, Process};
use rondo_tests::relay::Relay;
use rondo_tests::server::{Options, Server};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
/// How long a task of these tests may be silent.
const SILENCE_MS: u64 = 4000;

fn server(tasks: u32) -> Server {
    let options = Options::store("segment").flag(&format!("--tasks={tasks}")).flag("--recoverable");
    Server::start(&options.flag("--heartbeat-timeout=4s").flag("--shutdown-timeout=0"))
}

/// A process of a task, which knows who it is.
async fn agent(server: &Server, task: i32, incarnation: u64) -> Agent {
    let way = Way::direct(&server.address(), Arc::new(GrpcClient::new()));
    let mut config = Config::of("jax_worker", TaskIndex::new(task), Incarnation::new(incarnation));
    config.heartbeat_timeout = time::Duration::from_millis(SILENCE_MS);
    config.recoverable = true;
    let agent = Agent::start(way, Clock::start(), Entropy::from_system().unwrap());
    agent.initialize(config, |status| println!("an agent is in error: {status}")).await.unwrap();
    agent
}

/// All tasks of a job, connected.
async fn agents(server: &Server, tasks: i32) -> Vec<Agent> {
    let mut all = Vec::new();
    for task in 0..tasks {
        all.push(agent(server, task, 100).await);
    }
    let connecting: Vec<_> = all
        .iter()
        .map(|agent| {
            let agent = agent.clone();
            tokio::spawn(async move { agent.connect().await })
        })
        .collect();
    for connected in connecting {
        tokio::time::timeout(PATIENCE, connected).await.unwrap().unwrap().unwrap();
    }
    all
}

fn settings(server: &Server, more: &Value) -> Value {
    let mut settings = json!({"resolver": "rondo", "server": server.address()});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    settings
}

/// One look at the cluster, as JSON.
async fn look(settings: &Value) -> Result<Value, Error> {
    let mut resolver = Rondo::of(&Json::parse(&settings.to_string()).unwrap()).unwrap();
    let finder = Finder::new(Environment::new(), resolve::Settings::default());
    let spec = finder.find(|seen| resolver.cluster_spec(seen)).await?;
    Ok(serde_json::from_str(&spec.to_json().to_string()).unwrap())
}

async fn until(settings: &Value, wanted: &Value) {
    let began = Instant::now();
    loop {
        let found = look(settings).await;
        if found.as_ref() == Ok(wanted) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{found:?} is not {wanted}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cluster_is_the_tasks_that_are_up_under_their_numbers() {
    let server = server(3);
    let all = settings(&server, &json!({}));
    let up = settings(&server, &json!({"unready": "leave_out"}));
    assert_eq!(look(&all).await.unwrap_err().fault, Fault::NotReady);
    assert_eq!(look(&up).await.unwrap(), json!({"worker": {}}));
    let mut agents = agents(&server, 3).await;
    let silent = look(&all).await.unwrap_err();
    assert!(
        silent.to_string().starts_with("worker:0: the task is connected, and has announced no")
    );
    for (task, agent) in agents.iter().enumerate() {
        agent.announce(&format!("10.0.0.{task}:7000")).await.unwrap();
    }
    let whole = json!({"worker": ["10.0.0.0:7000", "10.0.0.1:7000", "10.0.0.2:7000"]});
    assert_eq!(look(&all).await.unwrap(), whole);

    // It dies, and nobody tells.
    drop(agents.remove(1));
    let others = json!({"worker": {"0": "10.0.0.0:7000", "2": "10.0.0.2:7000"}});
    until(&up, &others).await;
    let dead = look(&all).await.unwrap_err();
    assert_eq!(dead.fault, Fault::NotReady);
    assert!(dead.to_string().starts_with("worker:1: the task is in error: "), "{dead}");
    let three = settings(&server, &json!({"unready": "leave_out", "wait_for": 3}));
    let short = look(&three).await.unwrap_err();
    assert!(short.to_string().starts_with("worker: 2 of 3 tasks"), "{short}");

    // A new process of it is not up before it has announced where it is.
    let again = agent(&server, 1, 101).await;
    tokio::time::timeout(PATIENCE, again.connect()).await.unwrap().unwrap();
    assert_eq!(look(&up).await.unwrap(), others);
    again.announce("10.0.9.1:7000").await.unwrap();
    let moved = json!({"worker": ["10.0.0.0:7000", "10.0.9.1:7000", "10.0.0.2:7000"]});
    assert_eq!(look(&three).await.unwrap(), moved);

    // Who leaves in order is gone at once.
    agents[1].shutdown().await.unwrap();
    assert_eq!(look(&up).await.unwrap(), json!({"worker": ["10.0.0.0:7000", "10.0.9.1:7000"]}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_announced_outlives_the_server() {
    let mut server = server(1);
    let agents = agents(&server, 1).await;
    agents[0].announce("a:1").await.unwrap();
    let all = settings(&server, &json!({"job": "trainer"}));
    assert_eq!(look(&all).await.unwrap(), json!({"trainer": ["a:1"]}));
    server.kill();
    let gone = look(&all).await.unwrap_err();
    assert_eq!((gone.fault, gone.about), (Fault::Unreachable, server.address()));
    server.start_again();
    assert_eq!(look(&all).await.unwrap(), json!({"trainer": ["a:1"]}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_announces_only_addresses_and_only_while_it_is_connected() {
    let server = server(1);
    let agent = agent(&server, 0, 100).await;
    assert_eq!(agent.announce("a:1").await.unwrap_err().code, Code::FailedPrecondition);
    agent.connect().await.unwrap();
    let refused = agent.announce("").await.unwrap_err();
    assert_eq!(refused.code, Code::InvalidArgument, "{refused}");
    agent.announce("a:1").await.unwrap();
    agent.announce("b:1").await.unwrap();
    let moved = look(&settings(&server, &json!({}))).await;
    assert_eq!(moved.unwrap(), json!({"worker": ["b:1"]}));
}

/// Processes that only know the relay of their machine resolve and announce by way of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_in_between_changes_nothing() {
    let server = server(2);
    let relay = tokio::task::block_in_place(|| Relay::start(&server.address()));
    let agents = agents(&server, 2).await;
    agents[0].announce("a:1").await.unwrap();
    resolve::announce(&relay.address(), 1, "b:1", PATIENCE).await.unwrap();
    let by_relay = json!({"resolver": "rondo", "server": relay.address()});
    assert_eq!(look(&by_relay).await.unwrap(), json!({"worker": ["a:1", "b:1"]}));
    agents[1].shutdown().await.unwrap();
    let up = json!({"resolver": "rondo", "server": relay.address(), "unready": "leave_out"});
    assert_eq!(look(&up).await.unwrap(), json!({"worker": ["a:1"]}));
}

/// `rondo cluster` with these arguments and the resolver.
fn command(server: &Server, more: &Value, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary::rondo());
    let settings = settings(server, more).to_string();
    command.env_clear().args(["cluster", "--resolver=rondo", "--settings", &settings]);
    command.args(arguments);
    command
}

fn assert_ended(ended: &Ended, status: i32, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(status), "{}", ended.log);
    for word in words {
        assert!(ended.log.contains(word), "{word:?} is not in:\n{}", ended.log);
    }
}

fn ended(mut command: Command) -> Ended {
    tokio::task::block_in_place(|| Process::start("rondo cluster", &mut command).wait(PATIENCE))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_tells_at_once_who_comes_and_who_dies() {
    let server = server(2);
    let mut agents = agents(&server, 2).await;
    agents[0].announce("a:1").await.unwrap();
    // Much longer than the test's patience: what is told was not looked for.
    let arguments = ["--watch", "--interval=600000ms", "--format", "json"];
    let mut watch = command(&server, &json!({"unready": "leave_out"}), &arguments);
    let watch = Process::start("rondo cluster --watch", &mut watch);
    let next = || -> Value {
        let line = tokio::task::block_in_place(|| watch.next_line(PATIENCE)).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let task =
        |index: u32, address: &str| json!([{"job": "worker", "index": index, "address": address}]);
    assert_eq!(next(), json!({"version": 1, "added": task(0, "a:1"), "removed": [], "moved": []}));
    agents[1].announce("b:1").await.unwrap();
    assert_eq!(next(), json!({"version": 2, "added": task(1, "b:1"), "removed": [], "moved": []}));
    agents[1].announce("c:1").await.unwrap();
    assert_eq!(next(), json!({"version": 3, "added": [], "removed": [], "moved": task(1, "c:1")}));
    drop(agents.remove(0));
    assert_eq!(next(), json!({"version": 4, "added": [], "removed": task(0, "a:1"), "moved": []}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_announces_for_programs_that_do_not() {
    let server = server(2);
    let own = json!({"task_id": 1});
    let early = ended(command(&server, &own, &["--announce=b:7", "--timeout=2000ms"]));
    assert_ended(&early, 8, &["not connected"]);
    // It waits for the task.
    let mut waiting = command(&server, &own, &["--announce=b:7", "--timeout=60000ms"]);
    let mut waiting = Process::start("rondo cluster --announce", &mut waiting);
    let agents = agents(&server, 2).await;
    let announced = tokio::task::block_in_place(|| waiting.wait(PATIENCE));
    let said = format!("announced task 1 at b:7, to {}", server.address());
    assert_ended(&announced, 0, &[&said]);
    agents[0].announce("a:7").await.unwrap();
    let shown = ended(command(&server, &own, &["--export=tf_config"]));
    assert_ended(&shown, 0, &[]);
    let shown: Value = serde_json::from_str(&shown.log).unwrap();
    assert_eq!(shown["cluster"], json!({"worker": ["a:7", "b:7"]}));
    assert_eq!(shown["task"], json!({"type": "worker", "index": 1}));
    // The address goes with the task, not with the command.
    agents[1].shutdown().await.unwrap();
    assert_eq!(look(&settings(&server, &json!({}))).await.unwrap_err().fault, Fault::NotReady);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_says_what_it_lacks() {
    let mut server = server(1);
    // Time enough for an answer, which there is at once.
    let quick = ["--timeout=2000ms"];
    let nobody = ended(command(&server, &json!({}), &quick));
    assert_ended(&nobody, 8, &["worker:0: the task is not there: it never registered"]);
    let unsized_one = Server::start(&Options::store("segment"));
    let nobody = ended(command(&unsized_one, &json!({}), &quick));
    assert_ended(&nobody, 8, &["worker: no task has registered at 127.0.0.1:"]);
    let numberless = ended(command(&server, &json!({}), &["--announce=a:1"]));
    assert_ended(&numberless, 2, &["which task this is", "task_id"]);
    for (more, word) in
        [(json!({"wait_for": "x"}), "wait_for"), (json!({"unready": "no"}), "unready")]
    {
        assert_ended(&ended(command(&server, &more, &[])), 2, &[word]);
    }
    let mut other = Command::new(binary::rondo());
    other.env_clear().args(["cluster", "--resolver=slurm", "--announce=a:1"]);
    assert_ended(&ended(other), 2, &["--announce needs the resolver \"rondo\""]);
    let mut nowhere = Command::new(binary::rondo());
    nowhere.env_clear().args(["cluster", "--resolver=rondo"]);
    assert_ended(&ended(nowhere), 2, &["rondo.server: is not set"]);
    server.kill();
    let own = json!({"task_id": 0});
    for arguments in [&quick[..], &["--announce=a:1", quick[0]]] {
        assert_ended(&ended(command(&server, &own, arguments)), 7, &[&server.address()]);
    }
    let mut circle = Command::new(binary::rondo());
    circle.env_clear().args(["relay", "--cluster=rondo"]);
    assert_ended(&ended(circle), 2, &["cannot tell where it is"]);
}

/// A launcher tells each process where the server is and who it is, and nothing has to be given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_a_launcher_it_needs_no_settings() {
    let server = server(2);
    let agents = agents(&server, 2).await;
    agents[0].announce("a:7").await.unwrap();
    let config = json!({
        "cluster": {"rondo": [server.address()], "worker": ["x:1", "y:1"]},
        "task": {"type": "worker", "index": 1}
    });
    let run = |arguments: &[&str]| {
        let mut command = Command::new(binary::rondo());
        command.env_clear().env("TF_CONFIG", config.to_string()).arg("cluster").args(arguments);
        ended(command)
    };
    assert_ended(&run(&["--announce=b:7"]), 0, &["announced task 1 at b:7"]);
    let shown = run(&["--resolver=rondo", "--export=tf_config"]);
    assert_ended(&shown, 0, &[r#""worker": ["a:7", "b:7"]"#, r#""index": 1"#]);
}
