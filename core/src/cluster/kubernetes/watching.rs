//! The stream of changes of a kind of objects: one JSON object a line.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};

use super::super::asking::{parsed, refused};
use super::super::error::{Error, Fault, quoted};
use super::super::json::Json;
use super::super::question::{Http, HttpAnswer};
use super::super::url::with_query;

/// A line of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// Something changed: resolve anew. The version is where a watch goes on after it.
    Changed {
        /// The object's version.
        version: String,
    },
    /// Nothing changed, but a watch may go on from this version.
    Bookmark {
        /// The version.
        version: String,
    },
    /// The version is too old: list anew, and watch from there.
    ListAgain,
}

impl WatchEvent {
    /// Reads a line.
    ///
    /// # Errors
    /// MALFORMED for what is no event; UNREACHABLE or FORBIDDEN for an event that tells of a failure.
    pub fn of(line: &str) -> Result<Self, Error> {
        let event = parsed("watch", line)?;
        let version = || {
            let version = event.text_at(&["object", "metadata", "resourceVersion"]);
            version.map(str::to_owned).ok_or_else(|| {
                let text = "an event has no resourceVersion";
                Error::new(Fault::Malformed, "object.metadata.resourceVersion", text)
            })
        };
        match event.text_at(&["type"]) {
            Some("ADDED" | "MODIFIED" | "DELETED") => Ok(Self::Changed { version: version()? }),
            Some("BOOKMARK") => Ok(Self::Bookmark { version: version()? }),
            Some("ERROR") => match event.at(&["object", "code"]).and_then(Json::as_u32) {
                Some(410) => Ok(Self::ListAgain),
                code => Err(failure(code, &event)),
            },
            other => {
                let wanted = "is no type of event: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR";
                Err(Error::malformed("type", other.unwrap_or_default(), wanted))
            }
        }
    }
}

fn failure(code: Option<u32>, event: &Json) -> Error {
    let fault = match code {
        Some(401 | 403) => Fault::Forbidden,
        _ => Fault::Unreachable,
    };
    let said = event.text_at(&["object", "message"]).unwrap_or_default();
    let code = code.map(|code| code.to_string()).unwrap_or_default();
    Error::new(fault, "watch", alloc::format!("failed with code {code}: {}", quoted(said)))
}

/// A watch over the objects that a list had, from the list's version on, by one connection after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    list: Http,
    selector: String,
    version: String,
}

impl Watch {
    /// After so long the server is to end a connection of a watch, which then goes on with the next one.
    pub const CONNECTION_S: u32 = 240;

    /// A watch over what `list`, a URL without a query, has behind a label selector.
    pub(super) fn new(list: Http, selector: &str, version: &str) -> Self {
        Self { list, selector: selector.into(), version: version.into() }
    }

    /// The request of the next connection. Its answer is a line for each event, without an end.
    pub fn request(&self) -> Http {
        let seconds = Self::CONNECTION_S.to_string();
        let query = [
            ("watch", "1"),
            ("resourceVersion", self.version.as_str()),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", seconds.as_str()),
            ("labelSelector", self.selector.as_str()),
        ];
        Http { url: with_query(&self.list.url, &query), ..self.list.clone() }
    }

    /// Takes the status of a connection's answer: whether to look again, since the version is too old.
    ///
    /// # Errors
    /// FORBIDDEN, UNREACHABLE or NOT_PRESENT by the status, as for other requests.
    pub fn answered(&self, answer: &HttpAnswer) -> Result<bool, Error> {
        match answer.status {
            200..=299 => Ok(false),
            410 => Ok(true),
            _ => Err(refused(&self.request(), answer)),
        }
    }

    /// Takes a line: whether to look again. If not, the next connection goes on after it.
    ///
    /// # Errors
    /// As [`WatchEvent::of`], about the watch's URL.
    pub fn line(&mut self, line: &str) -> Result<bool, Error> {
        match WatchEvent::of(line) {
            Ok(WatchEvent::Bookmark { version }) => {
                self.version = version;
                Ok(false)
            }
            Ok(WatchEvent::Changed { .. } | WatchEvent::ListAgain) => Ok(true),
            Err(error) => Err(error.answered_by(&self.request().url)),
        }
    }
}
