//! What a resolver wants to know of the outside, as values, and what it was told.
//!
//! A resolver is a function of what was [`Seen`]. Where it misses something it stops with
//! [`Stop::Ask`]; whoever drives it finds the answers out and calls it again with them. An [`Inquiry`]
//! holds the answers of one call between those rounds, and its bound. Nothing outlives a call: the next
//! one asks anew.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use super::error::{Error, Fault, quoted, quoted_upto};
use super::json::{Json, JsonFault};
use super::question::{Answer, Coordinated, Http, HttpAnswer, MpiWorld, Question, Service};
use crate::limits::{CLUSTER_DOCUMENT_BYTES_MAX, CLUSTER_QUESTIONS_MAX};

/// Bytes of a refusal that are read for its message.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// Characters of such a message that are told: the last of them often say what is missing.
const MESSAGE_MAX: usize = 600;

/// The environment of a process.
pub type Environment = BTreeMap<String, String>;

/// Why a resolver stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It needs answers to these, all of which may be sought at once.
    Ask(Vec<Question>),
    /// It failed.
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Fail(error)
    }
}

/// What a resolver answers.
pub type Outcome<T> = Result<T, Stop>;

/// The environment, and the answers so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    environment: Environment,
    answers: BTreeMap<Question, Answer>,
    /// Bodies of answers that are JSON, or why they are not, read once.
    documents: BTreeMap<Question, Result<Json, JsonFault>>,
}

impl Seen {
    /// An environment and no answers.
    pub fn new(environment: Environment) -> Self {
        Self { environment, ..Self::default() }
    }

    /// A variable of the environment, if it is set.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// A variable that is set to something.
    pub fn filled(&self, name: &str) -> Option<&str> {
        self.variable(name).filter(|value| !value.is_empty())
    }

    /// The environment.
    pub const fn environment(&self) -> &Environment {
        &self.environment
    }

    fn answer(&self, question: Question) -> Outcome<&Answer> {
        match self.answers.get(&question) {
            Some(answer) => Ok(answer),
            None => Err(Stop::Ask(alloc::vec![question])),
        }
    }

    /// The text of a file; `None` if there is none.
    ///
    /// # Errors
    /// UNREACHABLE where it cannot be read; TOO_LARGE.
    pub fn file(&self, path: &str) -> Outcome<Option<&str>> {
        match self.answer(Question::File(path.into()))? {
            Answer::File(Ok(text)) => {
                bounded(path, text.as_deref().unwrap_or_default())?;
                Ok(text.as_deref())
            }
            Answer::File(Err(why)) => Err(unreachable(path, why).into()),
            other => Err(astray(path, other).into()),
        }
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// UNREACHABLE where there is none; TOO_LARGE.
    pub fn http(&self, request: &Http) -> Outcome<&HttpAnswer> {
        match self.answer(Question::Http(request.clone()))? {
            Answer::Http(Ok(answer)) => {
                bounded(&request.url, &answer.body)?;
                Ok(answer)
            }
            Answer::Http(Err(why)) => Err(unreachable(&request.url, why).into()),
            other => Err(astray(&request.url, other).into()),
        }
    }

    /// Stops for all of these that have no answer yet, so that they are asked together.
    ///
    /// # Errors
    /// The questions that are open, if any.
    pub fn prepare(&self, questions: impl IntoIterator<Item = Question>) -> Outcome<()> {
        let mut open: Vec<Question> = Vec::new();
        open.extend(questions.into_iter().filter(|question| !self.answers.contains_key(question)));
        if open.is_empty() { Ok(()) } else { Err(Stop::Ask(open)) }
    }

    /// The JSON in the answer to a request.
    ///
    /// # Errors
    /// UNREACHABLE where there is no answer, or one that tells to try again (408, 409, 410, 425, 429) or of
    /// the server's failure (5xx), NOT_PRESENT for 404, FORBIDDEN for every other status but 2xx, MALFORMED
    /// for what is no JSON; TOO_LARGE.
    pub fn document(&self, request: &Http) -> Outcome<&Json> {
        let answer = self.http(request)?;
        match answer.status {
            200..=299 => Ok(self.body(request, answer)?),
            _ => Err(refused(request, answer).into()),
        }
    }

    fn body(&self, request: &Http, answer: &HttpAnswer) -> Result<&Json, Error> {
        let not_json = |why: String| {
            let wanted = format!("is no JSON: {why}");
            Error::malformed(request.url.clone(), &answer.body, &wanted)
        };
        match self.documents.get(&Question::Http(request.clone())) {
            Some(Ok(document)) => Ok(document),
            Some(Err(fault)) => Err(not_json(fault.to_string())),
            None => Err(not_json("it was not read".into())),
        }
    }

    /// The addresses of a host name, ascending.
    ///
    /// # Errors
    /// UNREACHABLE where it does not resolve.
    pub fn host(&self, name: &str) -> Outcome<Vec<IpAddr>> {
        match self.answer(Question::Host(name.into()))? {
            Answer::Host(Ok(found)) if found.is_empty() => {
                Err(unreachable(name, "the name does not resolve").into())
            }
            Answer::Host(Ok(found)) => {
                let mut found = found.clone();
                found.sort();
                found.dedup();
                Ok(found)
            }
            Answer::Host(Err(why)) => Err(unreachable(name, why).into()),
            other => Err(astray(name, other).into()),
        }
    }

    /// The SRV records of a name.
    ///
    /// # Errors
    /// UNREACHABLE where they cannot be asked for.
    pub fn services(&self, name: &str) -> Outcome<&[Service]> {
        match self.answer(Question::Services(name.into()))? {
            Answer::Services(Ok(found)) => Ok(found),
            Answer::Services(Err(why)) => Err(unreachable(name, why).into()),
            other => Err(astray(name, other).into()),
        }
    }

    /// Names of the devices that the runtime lists.
    ///
    /// # Errors
    /// UNREACHABLE where they cannot be listed.
    pub fn devices(&self) -> Outcome<&[String]> {
        match self.answer(Question::Devices)? {
            Answer::Devices(Ok(found)) => Ok(found),
            Answer::Devices(Err(why)) => Err(unreachable("devices", why).into()),
            other => Err(astray("devices", other).into()),
        }
    }

    /// How many GPUs this host has.
    ///
    /// # Errors
    /// UNREACHABLE where they cannot be counted.
    pub fn gpus(&self) -> Outcome<u32> {
        match self.answer(Question::Gpus)? {
            Answer::Gpus(Ok(count)) => Ok(*count),
            Answer::Gpus(Err(why)) => Err(unreachable("GPUs", why).into()),
            other => Err(astray("GPUs", other).into()),
        }
    }

    /// Whether this is a TPU machine.
    ///
    /// # Errors
    /// None but the question itself.
    pub fn is_tpu_machine(&self) -> Outcome<bool> {
        match self.answer(Question::TpuMachine)? {
            Answer::TpuMachine(yes) => Ok(*yes),
            other => Err(astray("TPU machine", other).into()),
        }
    }

    /// What MPI says of its world.
    ///
    /// # Errors
    /// None but the question itself.
    pub fn mpi(&self) -> Outcome<Option<&MpiWorld>> {
        match self.answer(Question::Mpi)? {
            Answer::Mpi(world) => Ok(world.as_ref()),
            other => Err(astray("MPI", other).into()),
        }
    }

    /// What a coordination service (`HOST:PORT`) tells of its job.
    ///
    /// # Errors
    /// UNREACHABLE where it does not answer, or refuses.
    pub fn coordination(&self, server: &str) -> Outcome<&Coordinated> {
        match self.answer(Question::Coordination(server.into()))? {
            Answer::Coordination(Ok(told)) => Ok(told),
            Answer::Coordination(Err(why)) => Err(unreachable(server, why).into()),
            other => Err(astray(server, other).into()),
        }
    }
}

/// The failure that a status tells of which is no success.
pub(super) fn refused(request: &Http, answer: &HttpAnswer) -> Error {
    let fault = match answer.status {
        404 => Fault::NotPresent,
        // Of a list in pages 410 says that it has to be begun again.
        408 | 409 | 410 | 425 | 429 | 500.. => Fault::Unreachable,
        // Also of redirects, which are not followed, and of requests that the server cannot read: that
        // something is absent was not said.
        _ => Fault::Forbidden,
    };
    let text = format!("answers with status {}: {}", answer.status, said(answer.body.trim()));
    Error::new(fault, request.url.clone(), text)
}

/// What a server says of its refusal: the message of Kubernetes' `Status` or of Google's `error`, else the
/// body.
fn said(body: &str) -> String {
    // A page of a gateway is no message, and nothing long is read for one.
    let read = if body.len() <= REFUSAL_BYTES_MAX { Json::parse(body).ok() } else { None };
    let at = |path: &[&str]| read.as_ref()?.text_at(path);
    match at(&["message"]).or_else(|| at(&["error", "message"])) {
        Some(message) => quoted_upto(message, MESSAGE_MAX),
        None => quoted(body),
    }
}

/// Reads JSON that came from `about`.
pub(super) fn parsed(about: &str, text: &str) -> Result<Json, Error> {
    Json::parse(text)
        .map_err(|fault| Error::malformed(about, text, &format!("is no JSON: {fault}")))
}

fn bounded(about: &str, text: &str) -> Result<(), Error> {
    if text.len() <= CLUSTER_DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    let size = text.len();
    let text = format!(
        "{size} bytes, more than the {CLUSTER_DOCUMENT_BYTES_MAX} that a document may have"
    );
    Err(Error::new(Fault::TooLarge, about, text))
}

fn unreachable(about: &str, why: &str) -> Error {
    Error::new(Fault::Unreachable, about, why)
}

/// A driver gave an answer of another kind.
fn astray(about: &str, answer: &Answer) -> Error {
    let text = format!("the driver answered another question: {}", quoted(&format!("{answer:?}")));
    Error::new(Fault::Malformed, about, text)
}

/// How far a call got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<T> {
    /// Answers are wanted: [`Inquiry::tell`] each, then [`Inquiry::step`] again.
    Ask(Vec<Question>),
    /// It is over.
    Done(Result<T, Error>),
}

/// One call of a resolver and the answers it was given so far.
#[derive(Clone, Debug, Default)]
pub struct Inquiry {
    seen: Seen,
    asked: usize,
}

impl Inquiry {
    /// A call in this environment.
    pub fn new(environment: Environment) -> Self {
        Self { seen: Seen::new(environment), asked: 0 }
    }

    /// Runs a call as far as it gets with the answers so far. The same one each time.
    pub fn step<T>(&mut self, call: impl FnOnce(&Seen) -> Outcome<T>) -> Progress<T> {
        let mut questions = match call(&self.seen) {
            Ok(value) => return Progress::Done(Ok(value)),
            Err(Stop::Fail(error)) => return Progress::Done(Err(error)),
            Err(Stop::Ask(questions)) => questions,
        };
        let mut known = BTreeSet::new();
        questions.retain(|question| known.insert(question.clone()));
        self.asked += questions.len();
        if self.asked <= CLUSTER_QUESTIONS_MAX {
            return Progress::Ask(questions);
        }
        let text = format!("{} questions, of at most {CLUSTER_QUESTIONS_MAX}", self.asked);
        Progress::Done(Err(Error::new(Fault::TooLarge, "one call of a resolver", text)))
    }

    /// The answer to a question, read at once.
    pub fn tell(&mut self, question: Question, answer: Answer) {
        let document = document_of(&answer);
        self.tell_read(question, answer, document);
    }

    /// The answer to a question, and its [`document_of`], which a driver may have read where nobody waits
    /// for it.
    pub fn tell_read(
        &mut self,
        question: Question,
        answer: Answer,
        document: Option<Result<Json, JsonFault>>,
    ) {
        if let Some(document) = document {
            self.seen.documents.insert(question.clone(), document);
        }
        self.seen.answers.insert(question, answer);
    }
}

/// The JSON in an answer, or why it is none; `None` for an answer that has no such body.
pub fn document_of(answer: &Answer) -> Option<Result<Json, JsonFault>> {
    match answer {
        Answer::Http(Ok(HttpAnswer { status: 200..=299, body })) => Some(Json::parse(body)),
        _ => None,
    }
}

/// Runs a call to its end with answers that are there at once, as tests and simulations have them.
///
/// # Errors
/// As the call.
pub fn resolve<T>(
    environment: Environment,
    mut call: impl FnMut(&Seen) -> Outcome<T>,
    mut answer: impl FnMut(&Question) -> Answer,
) -> Result<T, Error> {
    let mut inquiry = Inquiry::new(environment);
    loop {
        match inquiry.step(&mut call) {
            Progress::Done(result) => return result,
            Progress::Ask(questions) => {
                for question in questions {
                    let answer = answer(&question);
                    inquiry.tell(question, answer);
                }
            }
        }
    }
}
