//! The outside world as a vector tells it, and what was asked of it.

use std::net::IpAddr;

use rondo_core::cluster::{
    Answer, Environment, Error, Http, HttpAnswer, Json, Outcome, Question, Seen, resolve,
};

use super::pods;

/// What stands for `{FAKE}` in variables.
pub(crate) const HOST: &str = "fake.test:8080";
const METADATA: &str = "/computeMetadata/v1/";
const COMPUTE: &str = "/compute/v1/";

/// Answers questions of resolvers.
pub(crate) struct Fake {
    environment: Environment,
    world: Json,
    /// Requests in the words of `http_log`.
    pub(crate) requests: Vec<Json>,
    /// Calls in the words of `api_calls`.
    pub(crate) calls: Vec<Json>,
    /// Whether attributes of an instance are told by name instead of by path.
    pub(crate) attributes_only: bool,
}

impl Fake {
    pub(crate) fn new(environment: Environment, vector: &Json) -> Self {
        let world = vector.get("fake").cloned().unwrap_or(Json::Map(Vec::new()));
        let (requests, calls) = (Vec::new(), Vec::new());
        Self { environment, world, requests, calls, attributes_only: false }
    }

    /// One call of a resolver, with nothing known before.
    pub(crate) fn call<T>(&mut self, call: impl FnMut(&Seen) -> Outcome<T>) -> Result<T, Error> {
        resolve(self.environment.clone(), call, |question| self.answer(question))
    }

    fn answer(&mut self, question: &Question) -> Answer {
        match question {
            Question::File(path) => {
                let is_namespace = path.ends_with("serviceaccount/namespace");
                Answer::File(Ok(is_namespace.then(|| "default".into())))
            }
            Question::Http(request) => Answer::Http(Ok(self.http(request))),
            Question::Host(name) => Answer::Host(Ok(self.host(name))),
            Question::Services(_) => Answer::Services(Ok(Vec::new())),
            Question::Devices => {
                let listed = self.world.get("devices").and_then(Json::as_list).unwrap_or_default();
                Answer::Devices(Ok(listed
                    .iter()
                    .filter_map(Json::as_text)
                    .map(String::from)
                    .collect()))
            }
            Question::Gpus => Answer::Gpus(Ok(0)),
            Question::TpuMachine => {
                Answer::TpuMachine(self.world.get("tpu_vm").and_then(Json::as_bool) == Some(true))
            }
            Question::Mpi => Answer::Mpi(None),
            Question::Coordination(_) => Answer::Coordination(Err("no vector asks this".into())),
        }
    }

    fn host(&self, name: &str) -> Vec<IpAddr> {
        let known = self.world.get("dns").and_then(|dns| dns.text_at(&[name]));
        known.or(Some(name)).and_then(|address| address.parse().ok()).into_iter().collect()
    }

    fn http(&mut self, request: &Http) -> HttpAnswer {
        let path = path_of(&request.url);
        let headers: Vec<String> =
            request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        if let Some(key) = path.strip_prefix(METADATA) {
            let suffix = if self.attributes_only {
                String::new()
            } else {
                format!(" [{}]", headers.join(", "))
            };
            assert_eq!(headers, ["Metadata-Flavor: Google"]);
            self.requests.push(Json::text(format!("GET {path}{suffix}")));
            return self.metadata(key);
        }
        if let Some(rest) = path.strip_prefix(COMPUTE) {
            return self.compute(rest, request);
        }
        if let Some(name) = path.strip_prefix("/v1/") {
            self.calls.push(Json::text(name));
            let node = self.world.get("nodes").and_then(|nodes| nodes.get(name));
            return node.map_or_else(|| status(404), found);
        }
        self.requests.push(Json::text(format!("GET {path}")));
        if let Some(pods) = self.world.get("pods_by_selector") {
            return pods::list(pods, &path).map_or_else(|| status(404), |list| found(&list));
        }
        match self.world.get("k8s").and_then(|answers| answers.get(without_limit(&path))) {
            Some(Json::Number(code)) => status(code.parse().unwrap()),
            Some(answer) => found(answer),
            None => status(404),
        }
    }

    fn metadata(&self, key: &str) -> HttpAnswer {
        let key =
            if self.attributes_only { key.trim_start_matches("instance/attributes/") } else { key };
        let value = self.world.get("metadata").and_then(|known| known.text_at(&[key]));
        value.map_or_else(|| status(404), |text| HttpAnswer { status: 200, body: text.into() })
    }

    /// `projects/P/zones/Z/instances/I` or `…/instanceGroups/G/listInstances`.
    fn compute(&mut self, rest: &str, request: &Http) -> HttpAnswer {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let parts: Vec<&str> = path.split('/').collect();
        let text = |text: &str| Json::text(text);
        let mut members =
            vec![("project".to_string(), text(parts[1])), ("zone".to_string(), text(parts[3]))];
        if parts[4] == "instances" {
            members.push(("instance".into(), text(parts[5])));
            self.calls.push(Json::List(vec![text("get"), Json::Map(members)]));
            let instance = self.world.get("instances").and_then(|all| all.get(parts[5]));
            return instance.map_or_else(|| status(404), found);
        }
        assert_eq!((parts[4], parts[6]), ("instanceGroups", "listInstances"));
        let body = Json::parse(request.body.as_deref().unwrap()).unwrap();
        // The name that the real class gives to the parameter, which the service does not know.
        members.push(("instanceGroups".into(), text(parts[5])));
        members.push(("body".into(), body));
        let (order, token) = query.split_once("&pageToken=").unwrap_or((query, "0"));
        members.push(("orderBy".into(), text(order.strip_prefix("orderBy=").unwrap())));
        let place: usize = token.parse().unwrap();
        if place == 0 {
            self.calls.push(Json::List(vec![text("listInstances"), Json::Map(members)]));
        }
        let pages = self.world.get("pages").and_then(Json::as_list).unwrap();
        let mut page = pages[place].as_map().unwrap().to_vec();
        if place + 1 < pages.len() {
            page.push(("nextPageToken".into(), text(&(place + 1).to_string())));
        }
        found(&Json::Map(page))
    }
}

fn found(body: &Json) -> HttpAnswer {
    HttpAnswer { status: 200, body: body.to_string() }
}

fn status(status: u16) -> HttpAnswer {
    HttpAnswer { status, body: String::new() }
}

/// Path and query of a URL, percent-decoded.
fn path_of(url: &str) -> String {
    let rest = url.split_once("://").expect("a URL has a scheme").1;
    let path = &rest[rest.find('/').expect("a URL has a path")..];
    let mut bytes = Vec::new();
    let mut signs = path.bytes();
    while let Some(sign) = signs.next() {
        if sign == b'%' {
            let digits = [signs.next().unwrap(), signs.next().unwrap()];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
        } else {
            bytes.push(sign);
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// A path without the size of pages, which the real client does not give.
fn without_limit(path: &str) -> &str {
    path.trim_end_matches("&limit=500").trim_end_matches("?limit=500")
}
