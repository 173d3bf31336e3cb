//! One call of a resolver, driven to its end.

use std::sync::Arc;
use std::time::Duration;

use rondo_core::cluster::{
    Answer, Environment, Error, Fault, Inquiry, Outcome, Progress, Question, Seen, Service,
};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout_at};

use super::http::Requests;
use super::machine::Machine;
use super::{Settings, coordination, names, srv};

/// How long is waited before what was not ready is looked at again; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// And no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Finds out what resolvers ask, in one environment.
#[derive(Clone, Debug)]
pub struct Finder {
    environment: Environment,
    pub(super) settings: Settings,
    pub(super) machine: Machine,
}

/// What one call has in common with all its questions.
#[derive(Debug)]
struct Call {
    machine: Machine,
    requests: Requests,
    question_timeout: Duration,
    deadline: Instant,
}

impl Finder {
    /// A finder for a process of this environment.
    pub fn new(environment: Environment, settings: Settings) -> Self {
        let machine = Machine::new(settings.root.clone(), environment.clone());
        Self { environment, settings, machine }
    }

    /// Names devices as those of this task, once it is known: resolvers count by task.
    #[must_use]
    pub fn with_task(mut self, job: &str, index: u32) -> Self {
        self.machine.task = Some((job.to_owned(), index));
        self
    }

    /// Runs a call once, to its end. It is called again from its beginning with more that was found out, so
    /// it has to be the same each time.
    ///
    /// # Errors
    /// As the call; UNREACHABLE where something did not answer in time.
    pub async fn find<T>(&self, mut call: impl FnMut(&Seen) -> Outcome<T>) -> Result<T, Error> {
        self.find_by(Instant::now() + self.settings.timeout, &mut call).await
    }

    /// Runs a call again and again until what comes of it is not `early`, or the time is up.
    ///
    /// # Errors
    /// As [`Self::find`], of the last run that had its time.
    pub async fn find_ready<T>(
        &self,
        mut call: impl FnMut(&Seen) -> Outcome<T>,
        early: impl Fn(&Result<T, Error>) -> bool,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + self.settings.timeout;
        let mut pause = PAUSE_MIN;
        let mut found = self.find_by(deadline, &mut call).await;
        while early(&found) && Instant::now() + pause < deadline {
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            let again = self.find_by(deadline, &mut call).await;
            // A run that the deadline cut off tells less than the one before.
            if early(&again) && Instant::now() >= deadline {
                break;
            }
            found = again;
        }
        found
    }

    async fn find_by<T>(
        &self,
        deadline: Instant,
        call: &mut impl FnMut(&Seen) -> Outcome<T>,
    ) -> Result<T, Error> {
        let of_call = Arc::new(Call {
            machine: self.machine.clone(),
            requests: Requests::new(self.machine.clone(), self.settings.answers_bytes_max),
            question_timeout: self.settings.question_timeout,
            deadline,
        });
        let mut inquiry = Inquiry::new(self.environment.clone());
        loop {
            match inquiry.step(&mut *call) {
                Progress::Done(result) => return result,
                Progress::Ask(questions) => {
                    self.find_out(&of_call, &mut inquiry, questions).await?
                }
            }
        }
    }

    /// Finds out all of these, so many at once.
    async fn find_out(
        &self,
        call: &Arc<Call>,
        inquiry: &mut Inquiry,
        questions: Vec<Question>,
    ) -> Result<(), Error> {
        let mut waiting = questions.into_iter();
        let mut running = JoinSet::new();
        let ask = |question| Arc::clone(call).answer(question);
        for question in waiting.by_ref().take(self.settings.at_once_max.max(1)) {
            running.spawn(ask(question));
        }
        while let Some(ended) = running.join_next().await {
            let (question, answer) = ended
                .map_err(|error| Error::new(Fault::Unreachable, "resolver", error.to_string()))?;
            inquiry.tell(question, answer);
            if let Some(next) = waiting.next() {
                running.spawn(ask(next));
            }
        }
        Ok(())
    }
}

impl Call {
    async fn answer(self: Arc<Self>, question: Question) -> (Question, Answer) {
        let began = Instant::now();
        let by = self.deadline.min(began + self.question_timeout);
        let answer = match timeout_at(by, self.find_out(&question)).await {
            Ok(answer) => answer,
            Err(_) => {
                let waited = by.saturating_duration_since(began).as_millis();
                failed(&question, format!("no answer within {waited} ms"))
            }
        };
        (question, answer)
    }

    async fn find_out(&self, question: &Question) -> Answer {
        match question {
            Question::File(path) => {
                let path = path.clone();
                Answer::File(self.blocking(move |it| it.file(&path)).await.and_then(|it| it))
            }
            Question::Http(request) => Answer::Http(self.requests.ask(request).await),
            Question::Host(name) => Answer::Host(names::addresses(name).await),
            Question::Services(name) => Answer::Services(self.services(name).await),
            Question::Devices => {
                Answer::Devices(self.blocking(|it| it.devices()).await.and_then(|it| it))
            }
            Question::Gpus => Answer::Gpus(self.blocking(|it| it.gpus()).await.and_then(|it| it)),
            Question::TpuMachine => Answer::TpuMachine(
                self.blocking(|it| it.is_tpu_machine()).await.unwrap_or_default(),
            ),
            // MPI is asked by way of a Python module, which is not ours to load.
            Question::Mpi => Answer::Mpi(None),
            Question::Coordination(server) => {
                Answer::Coordination(coordination::ask(server, self.question_timeout).await)
            }
        }
    }

    async fn services(&self, name: &str) -> Result<Vec<Service>, String> {
        let configuration = self.blocking(|it| it.file(srv::CONFIGURATION)).await.and_then(|it| it);
        let configuration =
            configuration.map_err(|why| format!("{}: {why}", srv::CONFIGURATION))?;
        srv::services(&configuration.unwrap_or_default(), name).await
    }

    /// Something that may wait for a disk, on a thread of its own.
    async fn blocking<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> Result<T, String> {
        let machine = self.machine.clone();
        spawn_blocking(move || ask(&machine)).await.map_err(|error| error.to_string())
    }
}

/// The answer to a question that was not found out.
fn failed(question: &Question, why: String) -> Answer {
    match question {
        Question::File(_) => Answer::File(Err(why)),
        Question::Http(_) => Answer::Http(Err(why)),
        Question::Host(_) => Answer::Host(Err(why)),
        Question::Services(_) => Answer::Services(Err(why)),
        Question::Devices => Answer::Devices(Err(why)),
        Question::Gpus => Answer::Gpus(Err(why)),
        Question::TpuMachine => Answer::TpuMachine(false),
        Question::Mpi => Answer::Mpi(None),
        Question::Coordination(_) => Answer::Coordination(Err(why)),
    }
}
