//! The agent's whole interface, through a relay in its process and directly.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rondo::agent::{Agent, Config, KeyChange, PutCondition, State, Told, Way};
use rondo::clock::Clock;
use rondo::entropy::Entropy;
use rondo::transport::grpc_client::GrpcClient;
use rondo_core::ids::{Incarnation, Revision, TaskIndex};
use rondo_core::status::{Code, Status};
use rondo_core::time;

use crate::world::{SOON, World, pair, soon};

const MINUTE: Duration = Duration::from_secs(60);

/// Errors that agents told of.
type Errors = Arc<Mutex<Vec<Status>>>;

fn way_to(address: &str, direct: bool) -> Way {
    match direct {
        true => Way::direct(address, Arc::new(GrpcClient::new())),
        false => Way::surviving(address, &mut Entropy::from_system().unwrap()),
    }
}

fn config(task: i32) -> Config {
    let incarnation = Incarnation::new(500 + u64::from(task.cast_unsigned()));
    Config::of("jax_worker", TaskIndex::new(task), incarnation)
}

/// An agent that knows who it is.
async fn agent(world: &World, task: i32, direct: bool) -> (Agent, Errors) {
    let agent =
        Agent::start(way_to(world.address(), direct), Clock::start(), Entropy::from_seed(3));
    assert!(!agent.is_initialized());
    let errors = Errors::default();
    let told = Arc::clone(&errors);
    agent.initialize(config(task), move |status| told.lock().unwrap().push(status)).await.unwrap();
    (agent, errors)
}

/// Both agents of a pair, taking part.
async fn both(world: &World, direct: bool) -> [(Agent, Errors); 2] {
    let agents = [agent(world, 0, direct).await, agent(world, 1, direct).await];
    let (life, other) =
        soon(async { tokio::join!(agents[0].0.connect(), agents[1].0.connect()) }).await;
    assert_eq!(life.unwrap(), other.unwrap());
    agents
}

fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.unwrap_err().code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_on_either_way() {
    for direct in [false, true] {
        let world = World::start(&[pair()]);
        let [(agent, _), (other, _)] = both(&world, direct).await;
        agent.insert_key_value("d/a", "1").await.unwrap();
        assert_eq!(code(agent.insert_key_value("d/a", "2").await), Code::AlreadyExists);
        assert_eq!(code(agent.update_key_value("d/none", "2").await), Code::NotFound);
        let second = agent.update_key_value("d/a", "2").await.unwrap();
        assert_eq!(other.try_get_key_value("d/a").await.unwrap(), "2");
        let old = Revision::new(second.get() - 1);
        assert_eq!(code(other.compare_and_swap("d/a", old, "3").await), Code::FailedPrecondition);
        let third = other.compare_and_swap("d/a", second, "3").await.unwrap();
        assert!(third > second);
        assert_eq!(other.increment_key_value("d/n", 5).await.unwrap(), "5");
        assert_eq!(agent.increment_key_value("d/n", -7).await.unwrap(), "-2");
        let all = agent.get_key_value_dir("d").await.unwrap();
        let expected = [("d/a".to_owned(), Bytes::from("3")), ("d/n".into(), Bytes::from("-2"))];
        assert_eq!(all, expected);
        agent.delete_key_value("d").await.unwrap();
        assert_eq!(code(agent.try_get_key_value("d/a").await), Code::NotFound);
        let timeout = Some(Duration::from_millis(20));
        assert_eq!(code(agent.get_key_value("later", timeout).await), Code::DeadlineExceeded);
        let (sender, told) = tokio::sync::oneshot::channel();
        agent.get_key_value_async("later", |value| sender.send(value).unwrap());
        other.insert_key_value("later", "now").await.unwrap();
        assert_eq!(soon(told).await.unwrap().unwrap(), "now");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_and_barriers_on_either_way() {
    for direct in [false, true] {
        let world = World::start(&[pair()]);
        let [(agent, errors), (other, _)] = both(&world, direct).await;
        assert_eq!(agent.state(), State::Running);
        let status = agent.task_status("jax_worker", TaskIndex::new(1)).await.unwrap();
        assert_eq!((status.state, status.error), (State::Running, None));
        let nobody = agent.task_status("jax_worker", TaskIndex::new(7)).await;
        assert_eq!(code(nobody), Code::InvalidArgument);
        let devices = [Bytes::from_static(b"\x0a\x01a"), Bytes::from_static(b"\x0a\x01b")];
        let (one, two) = tokio::join!(
            agent.wait_for_all_tasks(&devices[..1]),
            other.wait_for_all_tasks(&devices[1..])
        );
        one.and(two).unwrap();
        assert_eq!(agent.cluster_device_attributes().unwrap(), devices);
        for instance in 0..3 {
            let (one, two) = tokio::join!(
                agent.wait_at_barrier("step", MINUTE, &[]),
                other.wait_at_barrier("step", MINUTE, &[])
            );
            assert_eq!((one.unwrap(), two.unwrap()), (instance, instance));
        }
        // The next instance comes after one that failed, too.
        let short = Duration::from_millis(30);
        let failed = agent.wait_at_barrier("step", short, &[]).await.unwrap_err();
        assert_eq!(failed.code, Code::DeadlineExceeded);
        assert!(failed.message.starts_with("Barrier timed out. Id: step::3."), "{failed}");
        assert_eq!(code(other.wait_at_barrier("step", short, &[]).await), Code::DeadlineExceeded);
        let (waited, cancelled) = tokio::join!(agent.wait_at_barrier("step", MINUTE, &[]), async {
            world.until_waiting(3).await;
            other.cancel_barrier("step").await
        });
        assert_eq!(code(waited), Code::Cancelled);
        cancelled.unwrap();
        let all = [TaskIndex::new(0), TaskIndex::new(1)];
        let (alive, _) = tokio::join!(agent.alive_tasks(&all), other.alive_tasks(&all));
        assert_eq!(
            alive.unwrap(),
            [(all[0], config(0).incarnation), (all[1], config(1).incarnation)]
        );
        let (one, two) = tokio::join!(agent.shutdown(), other.shutdown());
        one.and(two).unwrap();
        assert_eq!(agent.state(), State::Disconnected);
        assert!(errors.lock().unwrap().is_empty(), "leaving is no error");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_reaches_everybody_and_is_reset() {
    for direct in [false, true] {
        let world = World::start(&[pair()]);
        let [(agent, errors), (other, others)] = both(&world, direct).await;
        let job = agent.watch_job_state(-1).await.unwrap();
        let (changed, reported) = tokio::join!(
            agent.watch_job_state(job.version),
            other.report_error(Code::DataLoss, "a disk is gone")
        );
        reported.unwrap();
        let (task, status) = &changed.unwrap().tasks[1];
        assert_eq!((*task, status.state), (TaskIndex::new(1), State::Error));
        assert_eq!(status.error.as_ref().unwrap().code, Code::DataLoss);
        until("the other agent is told", || !errors.lock().unwrap().is_empty()).await;
        until("the agent is told of its own", || !others.lock().unwrap().is_empty()).await;
        assert_eq!((agent.state(), other.state()), (State::Error, State::Error));
        let told = errors.lock().unwrap()[0].clone();
        assert!(told.code == Code::DataLoss && told.message.contains("a disk is gone"), "{told}");
        assert_eq!(others.lock().unwrap().len(), 1, "once");
        assert_eq!(code(other.initialize(config(1), |_| {}).await), Code::FailedPrecondition);
        assert_eq!(code(other.wait_at_barrier("b", MINUTE, &[]).await), Code::FailedPrecondition);
        other.reset().await.unwrap();
        assert_eq!((other.state(), other.error()), (State::Disconnected, None));
        other.set_error(Status::new(Code::Aborted, "by hand")).await.unwrap();
        assert_eq!(other.error().unwrap().message, "by hand");
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn values(told: &Told) -> Vec<(String, Option<Bytes>)> {
    told.changes.iter().map(|change| (change.key.to_string(), change.value.clone())).collect()
}

fn value(key: &str, value: &'static str) -> (String, Option<Bytes>) {
    (key.to_owned(), Some(Bytes::from_static(value.as_bytes())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_on_either_way() {
    for direct in [false, true] {
        let world = World::start(&[pair()]);
        let [(agent, _), (other, _)] = both(&world, direct).await;
        other.insert_key_value("d/a", "1").await.unwrap();
        let mut watch = soon(agent.watch_key("d")).await.unwrap();
        let first = soon(watch.next()).await.unwrap().unwrap();
        assert!(first.whole);
        assert_eq!(values(&first), [value("d/a", "1")]);
        assert_eq!(code(agent.watch_key("d").await.map(drop)), Code::FailedPrecondition);
        let revision = other.update_key_value("d/a", "2").await.unwrap();
        let next = soon(watch.next()).await.unwrap().unwrap();
        assert_eq!((values(&next), next.whole), (vec![value("d/a", "2")], false));
        assert_eq!(next.changes[0].revision, revision, "from which a swap may go on");
        let made_up = KeyChange { key: "d/x".into(), value: None, ..next.changes[0].clone() };
        agent.activate_watch("d", vec![made_up.clone()]).await.unwrap();
        assert_eq!(soon(watch.next()).await.unwrap().unwrap().changes, [made_up]);
        agent.stop_watch_key("d").await.unwrap();
        assert_eq!(soon(watch.next()).await, Ok(None));
        assert_eq!(code(agent.stop_watch_key("d").await), Code::NotFound);
        // With a callback, and for the second time.
        let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
        agent.start_watch_key("d", move |news| sender.send(news).unwrap()).await.unwrap();
        let all = soon(told.recv()).await.unwrap().unwrap();
        assert_eq!((values(&all), all.whole), (vec![value("d/a", "2")], true));
        let (one, two) = tokio::join!(agent.shutdown(), other.shutdown());
        one.and(two).unwrap();
        let end = soon(told.recv()).await.unwrap();
        assert_eq!(code(end), Code::Cancelled, "the task has left");
        assert!(soon(told.recv()).await.is_none());
    }
}

/// An application may drop the handle of a watch that it has stopped after it watches the key again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_handle_of_a_watch_does_not_end_the_next_one() {
    for direct in [false, true] {
        let world = World::start(&[pair()]);
        let [(agent, _), (other, _)] = both(&world, direct).await;
        let former = soon(agent.watch_key("d")).await.unwrap();
        agent.stop_watch_key("d").await.unwrap();
        let mut watch = soon(agent.watch_key("d")).await.unwrap();
        assert!(soon(watch.next()).await.unwrap().unwrap().whole);
        drop(former);
        // The agent's loop hears of the handle before it answers this.
        assert_eq!(code(agent.watch_key("d").await.map(drop)), Code::FailedPrecondition);
        other.insert_key_value("d/a", "1").await.unwrap();
        let next = soon(watch.next()).await.unwrap().unwrap();
        assert_eq!(values(&next), [value("d/a", "1")]);
    }
}

/// Who does not listen holds up nobody: the changes wait at the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_taken_waits_at_the_server() {
    const COUNT: usize = 200;
    for direct in [false, true] {
        let world = World::start(&[pair()]);
        let [(agent, _), (other, _)] = both(&world, direct).await;
        let mut watch = agent.watch_key("n").await.unwrap();
        for count in 1..=COUNT {
            // All of them are remembered, and few have room on the way.
            let value = Bytes::from(vec![u8::try_from(count).unwrap(); 16 << 10]);
            other.put_key_value("n", value.clone(), PutCondition::Always, false).await.unwrap();
            assert_eq!(agent.try_get_key_value("n").await.unwrap(), value);
        }
        let mut tellings = 0;
        let mut seen: Vec<usize> = Vec::new();
        while seen.last() != Some(&COUNT) {
            let told = soon(watch.next()).await.unwrap().unwrap();
            tellings += 1;
            let values = told.changes.iter().flat_map(|change| change.value.clone());
            seen.extend(values.map(|value| usize::from(value[0])));
        }
        assert_eq!(seen, (1..=COUNT).collect::<Vec<_>>(), "each once and in order");
        assert!(tellings < 20, "{tellings}: most came together");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leased_key_dies_with_its_task() {
    let mut namespace = pair();
    namespace.heartbeat_timeout = time::Duration::from_millis(400);
    let world = World::start(&[namespace]);
    let agents = [agent(&world, 0, true).await.0, agent(&world, 1, true).await.0];
    for (index, agent) in (0..).zip(&agents) {
        let mut own = config(index);
        own.heartbeat_timeout = time::Duration::from_millis(400);
        agent.initialize(own, |_| {}).await.unwrap();
    }
    let early = agents[1].put_key_value("early", "v", PutCondition::Absent, true).await;
    assert_eq!(code(early), Code::FailedPrecondition, "no lease without its task");
    let (one, two) = tokio::join!(agents[0].connect(), agents[1].connect());
    one.and(two).unwrap();
    let [agent, other] = agents;
    other.put_key_value("alive/1", "v", PutCondition::Absent, true).await.unwrap();
    other.insert_key_value("stays", "v").await.unwrap();
    let mut watch = agent.watch_key("alive").await.unwrap();
    assert_eq!(values(&watch.next().await.unwrap().unwrap()), [value("alive/1", "v")]);
    drop(other);
    let gone = soon(watch.next()).await.unwrap().unwrap();
    assert_eq!(values(&gone), [("alive/1".to_owned(), None)]);
    assert_eq!(agent.try_get_key_value("stays").await.unwrap(), "v");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_calls_are_refused_and_leaving_is_not() {
    let world = World::start(&[pair()]);
    let [(agent, _), (other, _)] = both(&world, true).await;
    let gets: Vec<_> = (0..1024)
        .map(|number| {
            let agent = agent.clone();
            let get = async move { agent.get_key_value(&format!("never/{number}"), None).await };
            tokio::spawn(get)
        })
        .collect();
    // Both polls for errors wait too.
    world.until_waiting(1024 + 2).await;
    let refused = agent.try_get_key_value("k").await.unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert!(refused.message.contains("1024 calls"), "{refused}");
    gets[0].abort();
    world.until_waiting(1023 + 2).await;
    assert_eq!(code(agent.try_get_key_value("k").await), Code::NotFound, "there is room again");
    let (one, two) = soon(async { tokio::join!(agent.shutdown(), other.shutdown()) }).await;
    one.and(two).unwrap();
    for get in gets.into_iter().skip(1) {
        assert_eq!(code(soon(get).await.unwrap()), Code::Cancelled, "the task has left");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_a_direct_call_fails_and_says_where() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let way = way_to(&nobody.to_string(), true);
    let agent = Agent::start(way, Clock::start(), Entropy::from_seed(3));
    let early = agent.try_get_key_value("k").await.unwrap_err();
    assert_eq!(early.code, Code::FailedPrecondition, "{early}");
    agent.initialize(config(0), |_| {}).await.unwrap();
    let status = agent.try_get_key_value("k").await.unwrap_err();
    assert_eq!(status.code, Code::Unavailable);
    assert!(status.message.contains(&nobody.to_string()), "{status}");
}
