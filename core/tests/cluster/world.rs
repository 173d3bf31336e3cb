//! A world that answers a resolver's questions from tables.

use std::collections::BTreeMap;

use rondo_core::cluster::{
    Answer, Coordinated, Environment, Error, HttpAnswer, Outcome, Question, Seen, Service, resolve,
};

/// What is there, and what was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) environment: Environment,
    pub(crate) files: BTreeMap<String, String>,
    /// Answers by URL, without scheme and host; a number alone is a status.
    pub(crate) pages: BTreeMap<String, String>,
    pub(crate) hosts: BTreeMap<String, Vec<std::net::IpAddr>>,
    pub(crate) services: Vec<Service>,
    pub(crate) gpus: u32,
    pub(crate) is_tpu: bool,
    pub(crate) coordinated: Option<Coordinated>,
    pub(crate) asked: Vec<String>,
}

impl World {
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self { environment: variables.iter().map(pair).collect(), ..Self::default() }
    }

    pub(crate) fn page(mut self, url: &str, body: &str) -> Self {
        self.pages.insert(url.into(), body.into());
        self
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }

    pub(crate) fn host(mut self, name: &str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
        self.hosts.insert(name.into(), addresses);
        self
    }

    /// One call of a resolver.
    pub(crate) fn call<T>(&mut self, call: impl FnMut(&Seen) -> Outcome<T>) -> Result<T, Error> {
        resolve(self.environment.clone(), call, |question| self.answer(question))
    }

    fn answer(&mut self, question: &Question) -> Answer {
        match question {
            Question::File(path) => Answer::File(Ok(self.files.get(path).cloned())),
            Question::Http(request) => {
                let path = request.url.split_once("://").unwrap().1;
                let path = &path[path.find('/').unwrap()..];
                self.asked.push(path.into());
                Answer::Http(Ok(self.page_at(path)))
            }
            Question::Host(name) => {
                Answer::Host(Ok(self.hosts.get(name).cloned().unwrap_or_default()))
            }
            Question::Services(_) => Answer::Services(Ok(self.services.clone())),
            Question::Devices => Answer::Devices(Ok(Vec::new())),
            Question::Gpus => Answer::Gpus(Ok(self.gpus)),
            Question::TpuMachine => Answer::TpuMachine(self.is_tpu),
            Question::Mpi => Answer::Mpi(None),
            Question::Coordination(server) => {
                self.asked.push(server.clone());
                Answer::Coordination(self.coordinated.clone().ok_or_else(|| "no answer".into()))
            }
        }
    }

    fn page_at(&self, path: &str) -> HttpAnswer {
        match self.pages.get(path) {
            None => HttpAnswer { status: 404, body: String::new() },
            Some(body) => match body.parse() {
                Ok(status) => HttpAnswer { status, body: String::new() },
                Err(_) => HttpAnswer { status: 200, body: body.clone() },
            },
        }
    }
}
