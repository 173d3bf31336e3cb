//! One call of a resolver, driven to its end.

use std::sync::Arc;
use std::time::Duration;

use rondo_core::cluster::{
    Answer, Environment, Error, Fault, Inquiry, Json, JsonFault, Outcome, Progress, Question, Seen,
    Service, document_of,
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
/// Bytes of a document that is read where other tasks may wait for it: less than a millisecond's work.
const READ_AT_ONCE_MAX: usize = 64 << 10;

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
            let (question, answer, document) = ended
                .map_err(|error| Error::new(Fault::Unreachable, "resolver", error.to_string()))?;
            inquiry.tell_read(question, answer, document);
            if let Some(next) = waiting.next() {
                running.spawn(ask(next));
            }
        }
        Ok(())
    }
}

impl Call {
    /// An answer, and the document in it.
    async fn answer(self: Arc<Self>, question: Question) -> (Question, Answer, Option<Document>) {
        let began = Instant::now();
        let by = self.deadline.min(began + self.question_timeout);
        let answer = match timeout_at(by, self.find_out(&question)).await {
            Ok(answer) => answer,
            Err(_) => {
                let waited = by.saturating_duration_since(began).as_millis();
                failed(&question, format!("no answer within {waited} ms"))
            }
        };
        let (answer, document) = read(answer).await;
        (question, answer, document)
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
        let configuration = self.blocking(srv::Configuration::read).await.and_then(|it| it);
        srv::services(configuration?, name).await
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

/// The JSON of an answer, or why it is none.
type Document = Result<Json, JsonFault>;

/// Reads the document in an answer: a long one on a thread of its own, since others wait on this one.
async fn read(answer: Answer) -> (Answer, Option<Document>) {
    let is_long = matches!(&answer, Answer::Http(Ok(it)) if it.body.len() > READ_AT_ONCE_MAX);
    if !is_long {
        let document = document_of(&answer);
        return (answer, document);
    }
    let reading = spawn_blocking(move || {
        let document = document_of(&answer);
        (answer, document)
    });
    reading.await.unwrap_or_else(|error| (Answer::Http(Err(error.to_string())), None))
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::task::Poll;

    use rondo_core::cluster::{Credentials, Http, HttpAnswer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server of HTTP that answers every request with this status and these headers. Counts how many
    /// requests were open at once, and how many came.
    async fn answering(head: String) -> (String, Arc<(AtomicUsize, AtomicUsize)>) {
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", door.local_addr().unwrap());
        let asked = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let (counts, open) = (Arc::clone(&asked), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move {
            while let Ok((mut peer, _)) = door.accept().await {
                let (head, counts, open) = (head.clone(), Arc::clone(&counts), Arc::clone(&open));
                tokio::spawn(async move {
                    let _ = peer.read(&mut [0; 4096]).await;
                    let now = open.fetch_add(1, Ordering::SeqCst) + 1;
                    counts.0.fetch_max(now, Ordering::SeqCst);
                    counts.1.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_millis(50)).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                    let text = format!(
                        "HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    );
                    let _ = peer.write_all(text.as_bytes()).await;
                });
            }
        });
        (url, asked)
    }

    fn get(url: String) -> Http {
        Http { body: None, url, headers: Vec::new(), credentials: Credentials::None }
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_and_is_not_followed() {
        let (elsewhere, followed) = answering("200 OK".into()).await;
        let (url, asked) = answering(format!("302 Found\r\nlocation: {elsewhere}/token")).await;
        let finder = Finder::new(Environment::new(), Settings::default());
        let request = get(format!("{url}/token"));
        let status = finder.find(|seen| Ok(seen.http(&request)?.status)).await.unwrap();
        assert_eq!((status, asked.1.load(Ordering::SeqCst)), (302, 1));
        assert_eq!(followed.1.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn the_answers_of_one_call_have_a_bound_together() {
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", door.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut peer, _)) = door.accept().await {
                let _ = peer.read(&mut [0; 4096]).await;
                let head = "HTTP/1.1 200 OK\r\ncontent-length: 600\r\nconnection: close\r\n\r\n";
                let _ = peer.write_all(format!("{head}{:600}", "").as_bytes()).await;
            }
        });
        let settings = Settings { answers_bytes_max: 1000, ..Settings::default() };
        let finder = Finder::new(Environment::new(), settings);
        let [first, second] = ["a", "b"].map(|name| get(format!("{url}/{name}")));
        let alone = finder.find(|seen| Ok(seen.http(&first)?.body.len())).await;
        assert_eq!(alone, Ok(600));
        let both = finder
            .find(|seen| Ok(seen.http(&first)?.body.len() + seen.http(&second)?.body.len()))
            .await;
        let refused = both.unwrap_err().to_string();
        assert!(refused.contains("more than 1000 bytes together"), "{refused}");
    }

    #[tokio::test]
    async fn no_more_is_asked_at_once_than_is_allowed_and_in_the_end_everything() {
        assert_eq!(Settings::default().at_once_max, 32);
        let (url, asked) = answering("200 OK".into()).await;
        let settings = Settings { at_once_max: 3, ..Settings::default() };
        let finder = Finder::new(Environment::new(), settings);
        let requests: Vec<_> = (0..10).map(|number| get(format!("{url}/{number}"))).collect();
        let ask = |seen: &Seen| seen.prepare(requests.iter().cloned().map(Question::Http));
        finder.find(ask).await.unwrap();
        assert_eq!((asked.0.load(Ordering::SeqCst), asked.1.load(Ordering::SeqCst)), (3, 10));
    }

    /// An answer with a document of this many bytes.
    fn answer_of(bytes: usize) -> Answer {
        let blanks = " ".repeat(bytes.saturating_sub(3));
        Answer::Http(Ok(HttpAnswer { status: 200, body: format!("[1]{blanks}") }))
    }

    async fn polled_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
    }

    /// A task holds the only thread for blocking work, so a document that is read meanwhile is read on the
    /// runtime's own thread.
    #[test]
    fn only_short_documents_are_read_on_the_runtimes_thread() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        let (give_back, taken) = mpsc::channel::<()>();
        let expected = Some(Json::parse("[1]"));
        runtime.block_on(async {
            let blocking = spawn_blocking(move || taken.recv());
            let long = answer_of(READ_AT_ONCE_MAX + 1);
            let mut reading = pin!(read(long.clone()));
            assert_eq!(polled_once(reading.as_mut()).await, Poll::Pending);
            let short = answer_of(READ_AT_ONCE_MAX);
            let read_at_once = polled_once(pin!(read(short.clone()))).await;
            assert_eq!(read_at_once, Poll::Ready((short, expected.clone())));
            assert_eq!(polled_once(reading.as_mut()).await, Poll::Pending);
            give_back.send(()).unwrap();
            assert_eq!(reading.await, (long, expected));
            blocking.await.unwrap().unwrap();
        });
    }
}
