//! Telling workers of new tasks (`ProcessTask`), beside everything else.

use std::sync::Arc;
use std::time::Duration;

use rondo_core::dispatcher::TaskDef;
use rondo_proto::convert;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::transport::Transport;

/// The time that a push has in all, for its wait and its call. From then on the worker's heartbeat brings the
/// task, and a push that came later could bring back one that has ended.
const PUSH_DEADLINE: Duration = Duration::from_secs(5);
/// How long a push waits for a place at most. What is left of [`PUSH_DEADLINE`] is enough to be sent.
const PLACE_PATIENCE: Duration = Duration::from_secs(4);
/// How long the answer that made a reader's tasks waits for their workers to have them. A reader
/// that comes before its worker knows the task has to ask again.
const REPLY_PATIENCE: Duration = Duration::from_millis(500);
/// How many pushes run at once. Each may need a connection of its own. When one ends, the next begins.
const PUSHES_MAX: usize = 1024;
/// Pushes that wait or are under way. One more is left out: the worker's next heartbeat brings the task.
const PUSHES_KEPT_MAX: usize = 16_384;

/// Sends pushes; a hung worker delays nobody else while fewer than [`PUSHES_MAX`] are hung.
#[derive(Clone)]
pub(super) struct Pushes {
    transport: Arc<dyn Transport>,
    places: Arc<Semaphore>,
    kept: Arc<Semaphore>,
}

impl Pushes {
    pub(super) fn new(transport: Arc<dyn Transport>) -> Self {
        let places = Arc::new(Semaphore::new(PUSHES_MAX));
        Self { transport, places, kept: Arc::new(Semaphore::new(PUSHES_KEPT_MAX)) }
    }

    /// Starts telling a worker of a task, as soon as there is a place; what comes back ends when that is
    /// done or given up.
    pub(super) fn push(&self, task: TaskDef) -> Option<JoinHandle<()>> {
        let Ok(kept) = self.kept.clone().try_acquire_owned() else {
            let (worker, id) = (task.worker_address, task.task);
            tracing::debug!(%worker, task = %id, "too many pushes wait; left out");
            return None;
        };
        Some(tokio::spawn(self.clone().send(task, kept, Instant::now())))
    }

    /// Waits for a place, and sends a push. It is encoded only then: most of those that wait are small.
    async fn send(self, task: TaskDef, _kept: OwnedSemaphorePermit, began: Instant) {
        let (worker, id) = (task.worker_address.clone(), task.task);
        let Ok(Ok(_place)) = timeout(PLACE_PATIENCE, self.places.acquire()).await else {
            tracing::debug!(%worker, task = %id, "no place for a push in time; left out");
            return;
        };
        let message = convert::encode_process_task(&task);
        let left = PUSH_DEADLINE.saturating_sub(began.elapsed());
        let sent = self.transport.unary(&worker, convert::PROCESS_TASK_PATH, message, left);
        if let Err(status) = sent.await {
            tracing::debug!(%worker, task = %id, %status, "push failed");
        }
    }
}

/// Pushes that the next reader's answer waits for.
#[derive(Default)]
pub(super) struct FreshPushes(Vec<JoinHandle<()>>);

impl FreshPushes {
    pub(super) fn add(&mut self, push: JoinHandle<()>) {
        // The next reader may come late: those that have ended do not wait for it.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|push| !push.is_finished());
        }
        self.0.push(push);
    }

    /// Takes them all; `None` if there are none.
    pub(super) fn take(&mut self) -> Option<Vec<JoinHandle<()>>> {
        let pushes = std::mem::take(&mut self.0);
        (!pushes.is_empty()).then_some(pushes)
    }
}

/// Waits for pushes, but not for a hung worker.
pub(super) async fn settled(pushes: Vec<JoinHandle<()>>) {
    let all = async {
        for push in pushes {
            // How a push ended is logged where it is made.
            let _ = push.await;
        }
    };
    let _ = timeout(REPLY_PATIENCE, all).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use rondo_core::dispatcher::{Definition, ShardingPolicy};
    use rondo_core::ids::{DatasetId, Digest, IterationId, TaskId};
    use rondo_core::status::{Code, Status};
    use tokio::time::sleep;

    use super::*;
    use crate::transport::{BoxFuture, MessageStream};

    /// How workers take pushes.
    #[derive(Clone, Copy, PartialEq)]
    enum Workers {
        Answer,
        Hang,
    }

    /// Counts pushes: under way, the most of them at once, and over.
    struct Counting(Workers, Mutex<(usize, usize, usize)>);

    struct Counted(Arc<Counting>);

    impl Transport for Counted {
        fn unary(
            &self,
            _: &str,
            _: &'static str,
            _: Bytes,
            deadline: Duration,
        ) -> BoxFuture<'static, Result<Bytes, Status>> {
            let counting = Arc::clone(&self.0);
            Box::pin(async move {
                {
                    let (now, most, _) = &mut *counting.1.lock().unwrap();
                    *now += 1;
                    *most = (*most).max(*now);
                }
                let takes = match counting.0 {
                    Workers::Answer => Duration::from_millis(2),
                    Workers::Hang => deadline,
                };
                sleep(takes).await;
                let mut counts = counting.1.lock().unwrap();
                counts.0 -= 1;
                counts.2 += 1;
                match counting.0 {
                    Workers::Answer => Ok(Bytes::new()),
                    Workers::Hang => Err(Status::new(Code::DeadlineExceeded, "hung")),
                }
            })
        }

        fn streaming(&self, _: &str, _: &'static str, _: Bytes) -> MessageStream {
            unreachable!("pushes are no streams")
        }
    }

    fn task(number: i64) -> TaskDef {
        TaskDef {
            task: TaskId::new(number),
            iteration: IterationId::new(2000),
            dataset: DatasetId::new("1000"),
            definition: Definition { digest: Digest::new([0; 32]), size_bytes: 9, inline: None },
            worker_address: format!("worker{number}:5000").into(),
            sharding: ShardingPolicy::Off,
            consumers: None,
            split_providers: 0,
            workers: 0,
            worker_index: 0,
            use_cross_trainer_cache: false,
        }
    }

    /// Pushes so many tasks, waits until all pushes have ended, and says how many began, how many were
    /// under way at once, and how many were left out.
    async fn push_all(workers: Workers, tasks: i64) -> (usize, usize, usize) {
        let counting = Arc::new(Counting(workers, Mutex::default()));
        let pushes = Pushes::new(Arc::new(Counted(Arc::clone(&counting))));
        let started: Vec<_> = (0..tasks).map(|number| pushes.push(task(number))).collect();
        let left_out = started.iter().filter(|push| push.is_none()).count();
        for push in started.into_iter().flatten() {
            push.await.unwrap();
        }
        let (_, most, over) = *counting.1.lock().unwrap();
        assert_eq!(pushes.places.available_permits(), PUSHES_MAX);
        assert_eq!(pushes.kept.available_permits(), PUSHES_KEPT_MAX);
        (over, most, left_out)
    }

    #[tokio::test]
    async fn all_workers_of_an_epoch_are_told_by_a_bounded_number_of_pushes_at_once() {
        let began = Instant::now();
        assert_eq!(push_all(Workers::Answer, 5000).await, (5000, PUSHES_MAX, 0));
        assert!(began.elapsed() < PUSH_DEADLINE, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn pushes_that_wait_are_bounded_too() {
        let more = PUSHES_KEPT_MAX as i64 + 3;
        assert_eq!(push_all(Workers::Answer, more).await, (PUSHES_KEPT_MAX, PUSHES_MAX, 3));
    }

    /// A push that waited for hung workers must not arrive when the task may long be over.
    #[tokio::test]
    async fn what_waits_for_hung_workers_is_given_up_in_time() {
        let began = Instant::now();
        let (begun, most, left_out) = push_all(Workers::Hang, 3000).await;
        assert_eq!((begun, most, left_out), (PUSHES_MAX, PUSHES_MAX, 0));
        assert!(began.elapsed() < PUSH_DEADLINE * 2, "{:?}", began.elapsed());
    }

    #[test]
    fn an_answer_waits_for_a_slow_worker_but_not_for_a_hung_one() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let told = Arc::new(AtomicBool::new(false));
            let slow = told.clone();
            let slow = tokio::spawn(async move {
                sleep(Duration::from_millis(50)).await;
                slow.store(true, Ordering::SeqCst);
            });
            settled(vec![slow]).await;
            assert!(told.load(Ordering::SeqCst));
            let began = Instant::now();
            settled(vec![tokio::spawn(std::future::pending())]).await;
            assert!(began.elapsed() >= REPLY_PATIENCE);
        });
    }

    /// Notes how long calls may take.
    #[derive(Default)]
    struct Noting(Mutex<Vec<Duration>>);

    impl Transport for Noting {
        fn unary(
            &self,
            _: &str,
            _: &'static str,
            _: Bytes,
            deadline: Duration,
        ) -> BoxFuture<'static, Result<Bytes, Status>> {
            self.0.lock().unwrap().push(deadline);
            Box::pin(std::future::ready(Ok(Bytes::new())))
        }

        fn streaming(&self, _: &str, _: &'static str, _: Bytes) -> MessageStream {
            unreachable!("pushes are no streams")
        }
    }

    /// The wait for a place and the call together end before a heartbeat brings the task.
    #[tokio::test]
    async fn a_push_that_waited_has_less_time_for_its_call() {
        let noting = Arc::new(Noting::default());
        let pushes = Pushes::new(noting.clone());
        let waited = Duration::from_millis(200);
        let all = pushes.places.clone().acquire_many_owned(PUSHES_MAX as u32).await.unwrap();
        let push = pushes.push(task(1)).unwrap();
        sleep(waited).await;
        drop(all);
        push.await.unwrap();
        let left = noting.0.lock().unwrap()[0];
        assert!(left <= PUSH_DEADLINE - waited, "{left:?}");
    }

    #[tokio::test]
    async fn pushes_that_have_ended_are_not_kept_for_a_reader_that_does_not_come() {
        let (mut fresh, hung) = (FreshPushes::default(), tokio::spawn(std::future::pending()));
        fresh.add(hung);
        for _ in 0..10_000 {
            let ended = tokio::spawn(async {});
            while !ended.is_finished() {
                tokio::task::yield_now().await;
            }
            fresh.add(ended);
        }
        let kept = fresh.take().unwrap();
        assert!(kept.len() < 100, "{} pushes are kept", kept.len());
        assert!(kept.iter().any(|push| !push.is_finished()), "the one under way is forgotten");
        assert!(fresh.take().is_none());
    }

    #[tokio::test]
    async fn an_answer_waits_for_many_hung_workers_as_long_as_for_one() {
        let began = Instant::now();
        settled((0..20).map(|_| tokio::spawn(std::future::pending())).collect()).await;
        assert!(began.elapsed() < REPLY_PATIENCE * 10, "{:?}", began.elapsed());
    }
}
