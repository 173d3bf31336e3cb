//! The agent, a Rust library, against the real binary that is killed, and against JAX's own service.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo::agent::{Agent, Config, KeyWatch, PutCondition, State, Way};
use rondo::clock::Clock;
use rondo::entropy::Entropy;
use rondo::transport::grpc_client::GrpcClient;
use rondo_core::ids::{Incarnation, TaskIndex};
use rondo_core::status::Code;
use rondo_core::time;
use rondo_tests::jax::{self, Release};
use rondo_tests::python::program;
use rondo_tests::server::{Options, Server, run};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(120);
const MINUTE: Duration = Duration::from_secs(60);

fn surviving(address: &str) -> Way {
    Way::surviving(address, &mut Entropy::from_system().unwrap())
}

fn direct(address: &str) -> Way {
    Way::direct(address, Arc::new(GrpcClient::new()))
}

/// An agent of this task that knows who it is. An error of the job is one of the test.
async fn agent(way: Way, task: i32, heartbeat_timeout_ms: u64) -> Agent {
    let incarnation = Incarnation::new(300 + u64::from(task.cast_unsigned()));
    let mut config = Config::of("jax_worker", TaskIndex::new(task), incarnation);
    config.heartbeat_timeout = time::Duration::from_millis(heartbeat_timeout_ms);
    let agent = Agent::start(way, Clock::start(), Entropy::from_system().unwrap());
    agent.initialize(config, |status| println!("an agent is in error: {status}")).await.unwrap();
    agent
}

/// Two agents that take part.
async fn pair(way: impl Fn() -> Way, heartbeat_timeout_ms: u64) -> [Agent; 2] {
    let agents =
        [agent(way(), 0, heartbeat_timeout_ms).await, agent(way(), 1, heartbeat_timeout_ms).await];
    let (one, two) = soon(async { tokio::join!(agents[0].connect(), agents[1].connect()) }).await;
    assert_eq!(one.unwrap(), two.unwrap());
    agents
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("did not happen")
}

/// What a watch tells of one counter until it has come so far.
async fn counted(mut watch: KeyWatch, upto: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&upto) {
        let told = soon(watch.next()).await.unwrap().unwrap();
        assert!(!told.whole || seen.is_empty(), "what was missed would be unknown");
        let values = told.changes.into_iter().filter_map(|change| change.value);
        seen.extend(values.map(|value| String::from_utf8_lossy(&value).parse::<u64>().unwrap()));
    }
    seen
}

/// Calls that wait and watches live through `kill -9`, and nothing is lost or doubled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_not_noticed() {
    const COUNT: u64 = 400;
    for store in ["segment", "sled"] {
        let mut server = Server::start(&Options::store(store).flag("--tasks=2"));
        let address = server.address();
        let [writer, reader] = pair(|| surviving(&address), 10_000).await;
        let outsider = agent(direct(&address), 1, 10_000).await;
        let near = tokio::spawn(counted(reader.watch_key("n").await.unwrap(), COUNT));
        let far = tokio::spawn(counted(outsider.watch_key("n").await.unwrap(), COUNT));
        let waiting = reader.clone();
        let get = tokio::spawn(async move { waiting.get_key_value("end", None).await });
        let came = writer.clone();
        let barrier = tokio::spawn(async move { came.wait_at_barrier("b", MINUTE, &[]).await });
        let counting = writer.clone();
        let counter = tokio::spawn(async move {
            for count in 1..=COUNT {
                let sum = soon(counting.increment_key_value("n", 1)).await.unwrap();
                assert_eq!(sum, count.to_string(), "once each");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            server.kill();
            server.start_again();
        }
        counter.await.unwrap();
        let all: Vec<u64> = (1..=COUNT).collect();
        assert_eq!(near.await.unwrap(), all, "{store}, behind the relay in the process");
        assert_eq!(far.await.unwrap(), all, "{store}, with a connection of its own");
        assert_eq!(soon(reader.wait_at_barrier("b", MINUTE, &[])).await, Ok(0));
        assert_eq!(soon(barrier).await.unwrap(), Ok(0));
        writer.insert_key_value("end", "now").await.unwrap();
        assert_eq!(soon(get).await.unwrap().unwrap(), "now");
        assert_eq!((writer.state(), reader.state()), (State::Running, State::Running));
        let (one, two) = soon(async { tokio::join!(writer.shutdown(), reader.shutdown()) }).await;
        one.and(two).unwrap();
    }
}

/// Task 1 stays at its step while task 0 goes on: everybody who asks is told, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_task_is_named_and_lives_on() {
    let options = Options::store("segment").flag("--tasks=2").flag("--progress-key=/step/");
    let server = Server::start(&options.flag("--progress-timeout=1s"));
    let address = server.address();
    let agents = pair(|| direct(&address), 10_000).await;
    let step = async |task: usize, step: &'static str| {
        let key = format!("step/{task}");
        agents[task].put_key_value(&key, step, PutCondition::Always, false).await.unwrap();
    };
    step(0, "1041").await;
    step(1, "1041").await;
    step(0, "1042").await;
    let why = || run(&["why", "--server", &address]).log;
    let began = Instant::now();
    while !why().contains("STUCK") {
        assert!(began.elapsed() < PATIENCE, "{}", why());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let text = why();
    for part in ["task 1 at 127.0.0.1:", "is STUCK: its key step/1 has been 1041 for", "at 1042"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(text.matches("STUCK").count(), 1, "{text}");
    let status = run(&["status", "--server", &address, "--section=coordinated"]).log;
    assert!(status.contains("connected, STUCK"), "{status}");
    assert!(server.log().contains("tasks make no progress"), "{}", server.log());
    assert_eq!(agents[1].state(), State::Running);
    step(1, "1042").await;
    assert!(!why().contains("STUCK"), "{}", why());
}

/// JAX's own service is one of dialect T, as far as it goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jaxs_own_service_is_one_too() {
    let Some(python) = jax::python(Release::DialectT) else {
        return;
    };
    let service = program(python, "jax_service.py", &["--tasks=2".to_owned()]);
    let line = service.line_with("ready ", PATIENCE);
    let line = line.unwrap_or_else(|| panic!("it ended:\n{}", service.log()));
    let address = line.rsplit(' ').next().unwrap().to_owned();
    let [agent, other] = pair(|| direct(&address), 2000).await;
    agent.insert_key_value("d/a", "1").await.unwrap();
    let twice = agent.insert_key_value("d/a", "2").await.unwrap_err();
    assert_eq!(twice.code, Code::AlreadyExists);
    assert_eq!(other.get_key_value("d/a", Some(PATIENCE)).await.unwrap(), "1");
    assert_eq!(other.increment_key_value("d/n", 3).await.unwrap(), "3");
    assert_eq!(agent.get_key_value_dir("d").await.unwrap().len(), 2);
    agent.delete_key_value("d/a").await.unwrap();
    let gone = other.try_get_key_value("d/a").await.unwrap_err();
    assert_eq!(gone.code, Code::NotFound);
    for instance in 0..2 {
        let (one, two) = tokio::join!(
            agent.wait_at_barrier("b", MINUTE, &[]),
            other.wait_at_barrier("b", MINUTE, &[])
        );
        assert_eq!((one, two), (Ok(instance), Ok(instance)));
    }
    let late = agent.wait_at_barrier("b", Duration::from_millis(100), &[]).await.unwrap_err();
    assert_eq!(late.code, Code::DeadlineExceeded);
    let late = other.wait_at_barrier("b", MINUTE, &[]).await.unwrap_err();
    assert_eq!(late.code, Code::DeadlineExceeded, "the same instance");
    let all = [TaskIndex::new(0), TaskIndex::new(1)];
    let (alive, _) =
        soon(async { tokio::join!(agent.alive_tasks(&all), other.alive_tasks(&all)) }).await;
    assert_eq!(alive.unwrap().len(), 2);
    assert_eq!(soon(agent.watch_job_state(-1)).await.unwrap().tasks.len(), 2);
    // What JAX does not have is refused, not waited for.
    let update = agent.update_key_value("d/n", "4").await.unwrap_err();
    assert_eq!(update.code, Code::Unimplemented, "{update}");
    assert_eq!(agent.watch_key("d").await.map(drop).unwrap_err().code, Code::Unimplemented);
    // Several heartbeats, each told the same life.
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!((agent.state(), other.state()), (State::Running, State::Running));
    let (one, two) = soon(async { tokio::join!(agent.shutdown(), other.shutdown()) }).await;
    one.and(two).unwrap();
    assert_eq!(agent.state(), State::Disconnected);
}
