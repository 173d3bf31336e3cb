//! The way to the API server.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::asking::{Outcome, Seen};
use super::super::error::{Error, Fault};
use super::super::json::Json;
use super::super::options::{Options, address, port};
use super::super::question::{Credentials, Http};
use super::super::url::with_query;
use super::watching::Watch;
use crate::limits::{CLUSTER_PAGES_MAX, CLUSTER_TASKS_MAX};

/// Where a pod finds the namespace it is in.
pub const NAMESPACE_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Where it finds its token, which is to be read anew for each request since it changes.
pub const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// Where it finds the certificate authority of the API server.
pub const CA_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

pub(super) const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";
/// Items of one page.
const PAGE: &str = "500";

/// Which API server, and which namespace of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The server's URL without a path; unset: the one of the cluster that the pod is in, with the token of
    /// its service account.
    pub api_server: Option<String>,
    /// The namespace; unset: the pod's own; `*`: all.
    pub namespace: Option<String>,
}

impl Access {
    pub(super) fn of(options: &Options<'_>) -> Result<Self, Error> {
        Ok(Self { api_server: options.text("api_server")?, namespace: options.text("namespace")? })
    }

    /// A request for a path of the API.
    pub(super) fn get(&self, seen: &Seen, path: &str) -> Result<Http, Error> {
        let (base, credentials) = match &self.api_server {
            Some(base) => (base.trim_end_matches('/').to_string(), Credentials::None),
            None => (in_cluster(seen)?, Credentials::ServiceAccount),
        };
        let url = format!("{base}{path}");
        Ok(Http { body: None, url, headers: Vec::new(), credentials })
    }

    /// The path of a kind of objects within the namespace: `/api/v1` and `pods`.
    pub(super) fn path(&self, seen: &Seen, group: &str, kind: &str) -> Outcome<String> {
        Ok(match self.namespace.as_deref() {
            Some("*") => format!("{group}/{kind}"),
            Some(own) => format!("{group}/namespaces/{own}/{kind}"),
            None => format!("{group}/namespaces/{}/{kind}", own_namespace(seen)?),
        })
    }

    /// The request for a page of a list.
    fn page(
        &self,
        seen: &Seen,
        path: &str,
        query: &[(&str, &str)],
        token: &str,
    ) -> Result<Http, Error> {
        let mut query = query.to_vec();
        // In all namespaces TensorFlow's resolver asks for one page, and so does this one then.
        if self.namespace.as_deref() != Some("*") {
            query.push(("limit", PAGE));
        }
        if !token.is_empty() {
            query.push(("continue", token));
        }
        self.get(seen, &with_query(path, &query))
    }

    /// A watch over what [`Self::list`] lists behind a label selector, from then on; `None` if the list has
    /// no version to watch from.
    pub(super) fn watch(&self, seen: &Seen, path: &str, selector: &str) -> Outcome<Option<Watch>> {
        let first = self.page(seen, path, &[("labelSelector", selector)], "")?;
        let version = seen.document(&first)?.text_at(&["metadata", "resourceVersion"]);
        // Version 0 is any that the server still has.
        let Some(version) = version.filter(|version| !["", "0"].contains(version)) else {
            return Ok(None);
        };
        Ok(Some(Watch::new(self.get(seen, path)?, selector, version)))
    }

    /// Says of a failure that what the API lists at this path is at fault.
    pub(super) fn blame(&self, seen: &Seen, path: &str, error: Error) -> Error {
        match self.get(seen, path) {
            Ok(request) => error.answered_by(&request.url),
            Err(_) => error,
        }
    }

    /// All items of a list, page by page.
    pub(super) fn list<'a>(
        &self,
        seen: &'a Seen,
        path: &str,
        query: &[(&str, &str)],
    ) -> Outcome<Vec<&'a Json>> {
        let mut items = Vec::new();
        let mut token = String::new();
        for _ in 0..CLUSTER_PAGES_MAX {
            let request = self.page(seen, path, query, &token)?;
            let page = seen.document(&request)?;
            items.extend(page.get("items").and_then(Json::as_list).unwrap_or_default());
            if items.len() > CLUSTER_TASKS_MAX {
                break;
            }
            match page.text_at(&["metadata", "continue"]).filter(|token| !token.is_empty()) {
                Some(next) => token = next.into(),
                None => return Ok(items),
            }
        }
        let text = format!(
            "the list has more than {CLUSTER_PAGES_MAX} pages or {CLUSTER_TASKS_MAX} items"
        );
        Err(Error::new(Fault::TooLarge, path, text).into())
    }
}

fn in_cluster(seen: &Seen) -> Result<String, Error> {
    let wanted = "Kubernetes sets it in each pod; outside of a cluster give an api_server";
    let host = seen.filled(HOST).ok_or_else(|| Error::missing(HOST, wanted))?;
    let own = seen.filled(PORT).map(|text| port(PORT, text)).transpose()?;
    Ok(format!("https://{}", address(host, own.unwrap_or(443))))
}

fn own_namespace(seen: &Seen) -> Outcome<String> {
    let own = seen.file(NAMESPACE_PATH)?.map(str::trim).filter(|name| !name.is_empty());
    Ok(own.unwrap_or("default").into())
}
