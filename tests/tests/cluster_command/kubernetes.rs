//! An API server of Kubernetes' that has objects: lists in pages, watches with bookmarks, versions that it
//! forgets. As <https://kubernetes.io/docs/reference/using-api/api-concepts/> tells it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::{Api, Reply, Request};

pub(crate) const PODS: &str = "/api/v1/namespaces/ml/pods";
pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/ml/endpointslices";

/// The server.
pub(crate) struct Kubernetes {
    pub(crate) api: Api,
    state: Arc<Mutex<State>>,
}

/// A change: its version, its type, the path of the list, the object.
type Change = (u64, &'static str, String, Value);

#[derive(Default)]
struct State {
    version: u64,
    /// Versions before this one are forgotten.
    oldest: u64,
    /// By the path of the list and by name.
    objects: BTreeMap<(String, String), Value>,
    changes: Vec<Change>,
    watches: Vec<Watch>,
    /// Watches are refused with this status.
    refuses: Option<u16>,
    /// Watches are answered so late.
    late: Duration,
    /// Connections of watches end at once.
    is_hasty: bool,
    /// Whether versions that are forgotten are told as an event, and not as a status.
    tells_by_event: bool,
}

struct Watch {
    path: String,
    selector: String,
    to: Sender<Option<String>>,
}

impl Kubernetes {
    pub(crate) fn start() -> Self {
        let (state, kept) = State::shared();
        let api = Api::start(move |_, request| kept.lock().unwrap().answer(request));
        Self { api, state }
    }

    /// One by TLS, which answers who has the token of the moment.
    pub(crate) fn start_tls(token: Arc<Mutex<String>>) -> Self {
        let (state, kept) = State::shared();
        let api = Api::start_tls(move |_, request| {
            let bearer = format!("Bearer {}", token.lock().unwrap());
            match request.headers.get("authorization") {
                Some(given) if *given == bearer => kept.lock().unwrap().answer(request),
                _ => Reply::status(401),
            }
        });
        Self { api, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Puts an object there, in the place of one of its name.
    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let before = state.objects.insert((path.into(), name), object.clone());
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        state.tell((version, kind, path.into(), object));
    }

    pub(crate) fn delete(&self, path: &str, name: &str) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        let mut object = state.objects.remove(&(path.into(), name.into())).unwrap();
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        state.tell((version, "DELETED", path.into(), object));
    }

    /// Tells all watches which version it is at, and gives it.
    pub(crate) fn bookmark(&self) -> u64 {
        let mut state = self.state();
        // Something else changed, which nobody here watches.
        state.version += 1;
        let version = state.version;
        let object = json!({"kind": "Pod", "metadata": {"resourceVersion": version.to_string()}});
        state.say(&format!("{}\n", json!({"type": "BOOKMARK", "object": object})));
        version
    }

    /// Sends all watches a text that is no event of the server's.
    pub(crate) fn say(&self, text: &str) {
        self.state().say(text);
    }

    /// Forgets all versions before the present one.
    pub(crate) fn forget(&self, tells_by_event: bool) {
        let mut state = self.state();
        state.version += 1;
        state.oldest = state.version;
        state.changes.clear();
        state.tells_by_event = tells_by_event;
    }

    /// Ends all connections of watches as a server does that has had enough of them.
    pub(crate) fn end_watches(&self) {
        self.state().watches.clear();
    }

    /// Breaks them.
    pub(crate) fn break_watches(&self) {
        for watch in self.state().watches.drain(..) {
            let _ = watch.to.send(Some("{\"type\": \"MODI".into()));
            let _ = watch.to.send(None);
        }
    }

    /// Refuses watches from now on, or no more.
    pub(crate) fn refuse_watches(&self, status: Option<u16>) {
        self.state().refuses = status;
    }

    /// Answers watches so late from now on.
    pub(crate) fn delay_watches(&self, late: Duration) {
        self.state().late = late;
    }

    /// Ends connections of watches at once from now on.
    pub(crate) fn be_hasty(&self) {
        self.state().is_hasty = true;
    }

    /// Requests for lists and for watches, so far.
    pub(crate) fn asked(&self) -> (Vec<String>, Vec<String>) {
        let paths = self.api.requests().into_iter().map(|request| request.path);
        paths.partition(|path| !path.contains("watch="))
    }

    /// Waits until so many watches were asked for.
    pub(crate) fn wait_for_watches(&self, count: usize) {
        let began = Instant::now();
        while self.asked().1.len() < count || self.state().watches.is_empty() {
            assert!(began.elapsed().as_secs() < 60, "{:?}", self.asked());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl State {
    fn shared() -> (Arc<Mutex<Self>>, Arc<Mutex<Self>>) {
        let state = Arc::new(Mutex::new(Self { version: 100, ..Self::default() }));
        (Arc::clone(&state), state)
    }

    fn tell(&mut self, change: Change) {
        self.watches.retain(|watch| match event(&change, &watch.path, &watch.selector) {
            Some(line) => watch.to.send(Some(line)).is_ok(),
            None => true,
        });
        self.changes.push(change);
    }

    fn say(&mut self, text: &str) {
        self.watches.retain(|watch| watch.to.send(Some(text.into())).is_ok());
    }

    fn answer(&mut self, request: &Request) -> Reply {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let query: BTreeMap<&str, String> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name, value.replace("%3D", "=").replace("%2F", "/")))
            .collect();
        let text = |name: &str| query.get(name).cloned().unwrap_or_default();
        if request.method != "GET" || ![PODS, SLICES].contains(&path) {
            return Reply::status(404);
        }
        if ["1", "true", "True"].contains(&text("watch").as_str()) {
            let reply = self.watch(path, &text("labelSelector"), &text("resourceVersion"));
            if self.is_hasty {
                self.watches.clear();
            }
            reply.after(self.late)
        } else {
            self.list(path, &text("labelSelector"), &text("limit"), &text("continue"))
        }
    }

    /// A page: the token of the next one is the list's version, and how many were told.
    fn list(&self, path: &str, selector: &str, limit: &str, token: &str) -> Reply {
        let (version, told) = match token.split_once('.') {
            Some((version, told)) => (version.parse().unwrap(), told.parse().unwrap()),
            None => (self.version, 0),
        };
        if version < self.oldest {
            return Reply { status: 410, ..Reply::ok(gone()) };
        }
        let limit = limit.parse().unwrap_or(usize::MAX);
        let all: Vec<&Value> = self
            .objects
            .iter()
            .filter(|((at, _), object)| at == path && is_selected(object, selector))
            .map(|(_, object)| object)
            .collect();
        let page: Vec<&Value> = all.iter().skip(told).take(limit).copied().collect();
        let next = told + page.len();
        let token = if next < all.len() { format!("{version}.{next}") } else { String::new() };
        let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
        Reply::ok(json!({"kind": "List", "metadata": metadata, "items": page}))
    }

    fn watch(&mut self, path: &str, selector: &str, version: &str) -> Reply {
        if let Some(status) = self.refuses {
            return Reply::status(status);
        }
        let (to, texts) = channel();
        let version: u64 = version.parse().unwrap();
        if version < self.oldest && !self.tells_by_event {
            return Reply { status: 410, ..Reply::ok(gone()) };
        }
        if version < self.oldest {
            let line = json!({"type": "ERROR", "object": gone()});
            to.send(Some(format!("{line}\n"))).unwrap();
            return Reply::stream(texts);
        }
        for change in self.changes.iter().filter(|change| change.0 > version) {
            if let Some(line) = event(change, path, selector) {
                to.send(Some(line)).unwrap();
            }
        }
        self.watches.push(Watch { path: path.into(), selector: selector.into(), to });
        Reply::stream(texts)
    }
}

/// What a server says of a version that it has forgotten.
fn gone() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
        "message": "The resourceVersion for the provided watch is too old."
    })
}

fn event((_, kind, at, object): &Change, path: &str, selector: &str) -> Option<String> {
    (at == path && is_selected(object, selector))
        .then(|| format!("{}\n", json!({"type": kind, "object": object})))
}

/// Selectors of one label.
fn is_selected(object: &Value, selector: &str) -> bool {
    let (label, value) = selector.split_once('=').unwrap();
    object["metadata"]["labels"][label] == value
}
