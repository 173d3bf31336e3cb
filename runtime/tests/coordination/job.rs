//! A job that goes on with its work while others misbehave.

use std::time::{Duration, Instant};

use rondo_proto::xla;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::world::{Client, World, both_x, in_life, soon};

/// Two tasks that beat, count, read and meet at a barrier, round after round.
pub(crate) struct Job {
    pub(crate) life: u64,
    stop: oneshot::Sender<()>,
    works: JoinHandle<Duration>,
}

impl Job {
    /// Registers both tasks, works through a first round, and goes on from then on.
    pub(crate) async fn start(world: &World) -> Self {
        let (tasks, life) = both_x(world).await;
        tasks[0].insert("job/constant", b"constant").await.unwrap();
        round(&tasks, life, 0).await;
        let (stop, mut stopped) = oneshot::channel();
        let works = tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            for number in 1.. {
                let began = Instant::now();
                round(&tasks, life, number).await;
                slowest = slowest.max(began.elapsed());
                if stopped.try_recv().is_ok() {
                    break;
                }
            }
            slowest
        });
        Self { life, stop, works }
    }

    /// It has had no trouble, and another round to its end; says how long the slowest one took.
    pub(crate) async fn end(self) -> Duration {
        self.stop.send(()).unwrap();
        soon(self.works).await.unwrap()
    }
}

async fn round(tasks: &[Client; 2], life: u64, counter: i64) {
    let [first, second] = tasks;
    let both =
        async { tokio::join!(work(first, life, 0, counter), work(second, life, 1, counter)) };
    soon(both).await;
}

async fn work(task: &Client, life: u64, index: i32, counter: i64) {
    let incarnations = in_life(life);
    let incarnation = 100 + u64::from(index.cast_unsigned());
    let beat = xla::HeartbeatRequest { incarnations, incarnation, source_task_id: index };
    let answer: xla::HeartbeatResponse = task.x("Heartbeat", beat).await.unwrap();
    assert_eq!(answer.service_incarnation, life);
    let key = format!("job/count/{index}");
    let count = xla::IncrementKeyValueRequest { incarnations, key, increment: 1 };
    let counted: xla::IncrementKeyValueResponse = task.x("IncrementKeyValue", count).await.unwrap();
    assert_eq!(counted.kv.unwrap().value, (counter + 1).to_string());
    assert_eq!(task.get("job/constant").await.unwrap(), &b"constant"[..]);
    let come = xla::BarrierRequest {
        incarnations,
        barrier_id: "job".into(),
        barrier_timeout_in_ms: 300_000,
        source_task_id: index,
        counter,
        ..Default::default()
    };
    let met: xla::BarrierResponse = task.x("Barrier", come).await.unwrap();
    assert_eq!(met.counter, counter);
}
