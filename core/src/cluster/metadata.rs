//! Google's metadata server.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::asking::{Outcome, Seen};
use super::error::{Error, Fault, quoted};
use super::question::{Credentials, Http};

/// Variables that say where it is.
const HOSTS: [&str; 2] = ["GCE_METADATA_HOST", "GCE_METADATA_IP"];
const DEFAULT_HOST: &str = "metadata.google.internal";
/// The header that a metadata server wants in each request, and sends in each answer.
pub const METADATA_FLAVOR: &str = "Metadata-Flavor";

/// A request for a value, such as `project/project-id`.
pub(super) fn request(seen: &Seen, path: &str) -> Http {
    let host = HOSTS.iter().find_map(|name| seen.filled(name)).unwrap_or(DEFAULT_HOST);
    Http {
        body: None,
        url: format!("http://{host}/computeMetadata/v1/{path}"),
        headers: Vec::from([(METADATA_FLAVOR.into(), "Google".into())]),
        credentials: Credentials::None,
    }
}

/// A value; `None` where the server has none of that name.
pub(super) fn value(seen: &Seen, path: &str) -> Outcome<Option<String>> {
    let request = request(seen, path);
    let answer = seen.http(&request)?;
    match answer.status {
        200..=299 => Ok(Some(answer.body.trim().to_string())),
        404 => Ok(None),
        status => {
            let text = format!("answers with status {status}: {}", quoted(answer.body.trim()));
            let fault = if status == 403 { Fault::Forbidden } else { Fault::Unreachable };
            Err(Error::new(fault, request.url, text).into())
        }
    }
}

/// A value that has to be there.
pub(super) fn needed(seen: &Seen, path: &str) -> Outcome<String> {
    value(seen, path)?.filter(|value| !value.is_empty()).ok_or_else(|| {
        Error::new(Fault::NotPresent, path, "the metadata server has no such value").into()
    })
}

/// The project that the machine is of.
pub(super) fn project(seen: &Seen) -> Outcome<String> {
    needed(seen, "project/project-id")
}

/// Its zone: the last part of `projects/NUMBER/zones/ZONE`.
pub(super) fn zone(seen: &Seen) -> Outcome<String> {
    let path = needed(seen, "instance/zone")?;
    Ok(path.rsplit('/').next().unwrap_or_default().into())
}

/// An attribute of the instance; `None` where there is none.
pub(super) fn attribute(seen: &Seen, name: &str) -> Outcome<Option<String>> {
    value(seen, &format!("instance/attributes/{name}"))
}
