//! The stream of changes of pods: one JSON object a line.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};

use super::super::asking::{Outcome, Seen, parsed};
use super::super::error::{Error, Fault, quoted};
use super::super::json::Json;
use super::super::question::Http;
use super::super::url::with_query;
use super::access::Access;

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

/// The request of a watch over pods from a version on.
///
/// # Errors
/// NOT_PRESENT outside of a cluster without an `api_server`; the question for the namespace.
pub fn watch_pods(seen: &Seen, access: &Access, selector: &str, version: &str) -> Outcome<Http> {
    let path = access.path(seen, "/api/v1", "pods")?;
    let query = [
        ("watch", "1"),
        ("resourceVersion", version),
        ("allowWatchBookmarks", "true"),
        ("labelSelector", selector),
    ];
    Ok(access.get(seen, &with_query(&path, &query))?)
}
