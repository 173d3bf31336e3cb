//! Where files are: this machine's, and object stores by the scheme of their URL.

mod credentials;
mod file;
mod list;
mod remote;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use url::Url;

use crate::error::DataError;
use crate::limits::Limits;
pub(crate) use file::StoredFile;

/// The name under which failures to read files of this machine are counted.
const LOCAL: &str = "file";

/// How patiently stores are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How often one request is sent again.
    pub retries: usize,
    /// How long one request may take with all its retries.
    pub request: Duration,
    /// How long a store may fail all requests before it is given up: until then its failures are
    /// [`DataError::Unavailable`], from then on [`DataError::Store`].
    pub store: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let (request, store) = (Duration::from_secs(30), Duration::from_secs(120));
        Self { retries: 4, request, store }
    }
}

/// Files, wherever they are. Clones share what they know.
#[derive(Clone, Debug)]
pub struct Stores {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    local: Arc<dyn ObjectStore>,
    memory: Arc<InMemory>,
    /// By scheme and host.
    remote: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>,
    /// Stores that have failed every request: since when, and when they failed last.
    failing: Mutex<BTreeMap<String, (Instant, Instant)>>,
    /// What object stores are configured by.
    environment: Vec<(String, String)>,
    limits: Limits,
    patience: Patience,
}

/// A store and a place in it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// What the store's failures are counted by.
    pub(crate) name: String,
    pub(crate) path: Path,
    pub(crate) is_local: bool,
}

impl Stores {
    /// Stores with these bounds, configured by these variables (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
    pub fn new(
        limits: Limits,
        patience: Patience,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let inner = Inner {
            local: Arc::new(LocalFileSystem::new()),
            memory: Arc::new(InMemory::new()),
            remote: Mutex::default(),
            failing: Mutex::default(),
            environment: environment.into_iter().collect(),
            limits,
            patience,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Stores configured by this process's environment, with default bounds.
    pub fn from_env() -> Self {
        // Variables that are no Unicode configure no store.
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let environment = std::env::vars_os().filter_map(text);
        Self::new(Limits::default(), Patience::default(), environment)
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// The store of URLs `memory:///…`, which lasts as long as these stores: for tests.
    pub fn memory(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.inner.memory) as Arc<dyn ObjectStore>
    }

    /// The store in which a file is, by its absolute path or URL.
    pub(crate) fn place(&self, location: &str) -> Result<Place, DataError> {
        let wrong = |what: String| DataError::pipeline(format!("{location:?} is no file: {what}"));
        let Some(url) = url_of(location).map_err(&wrong)? else {
            let path = Path::from_absolute_path(location).map_err(|it| wrong(it.to_string()))?;
            let (store, name) = (Arc::clone(&self.inner.local), LOCAL.to_owned());
            return Ok(Place { store, name, path, is_local: true });
        };
        let path = Path::from_url_path(url.path()).map_err(|it| wrong(it.to_string()))?;
        if url.scheme() == "memory" {
            let name = "memory".to_owned();
            return Ok(Place { store: self.memory(), name, path, is_local: false });
        }
        let name = format!("{}://{}", url.scheme(), url.authority());
        let mut remote = self.inner.remote.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = remote.get(&name) {
            return Ok(Place { store: Arc::clone(store), name, path, is_local: false });
        }
        let store = remote::open(&url, &self.inner.environment, &self.inner.patience)
            .map_err(|what| DataError::Store { file: location.to_owned(), what })?;
        remote.insert(name.clone(), Arc::clone(&store));
        Ok(Place { store, name, path, is_local: false })
    }

    /// Notes that a store answered.
    fn answered(&self, name: &str) {
        let mut failing = self.inner.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.remove(name);
    }

    /// Notes that a store failed; whether it may be tried again.
    fn failed(&self, name: &str) -> bool {
        let mut failing = self.inner.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let patience = self.inner.patience.store;
        let (since, last) = failing.entry(name.to_owned()).or_insert((now, now));
        if now.duration_since(*last) > patience.saturating_mul(2) {
            // The store was not asked for so long that the former failure says nothing of this one.
            *since = now;
        }
        *last = now;
        now.duration_since(*since) < patience
    }
}

/// The URL that a location is; nothing if it is a path. `file:` URLs are paths.
pub(crate) fn url_of(location: &str) -> Result<Option<Url>, String> {
    if !location.contains("://") {
        return Ok(None);
    }
    Url::parse(location).map(Some).map_err(|error| error.to_string())
}
