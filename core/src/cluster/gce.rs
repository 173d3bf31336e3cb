//! Google Compute Engine: the running instances of an instance group.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::asking::{Outcome, Seen, Stop, parsed};
use super::error::{Error, Fault, quoted};
use super::json::Json;
use super::metadata;
use super::options::{Options, address};
use super::question::{Credentials, Http, Question};
use super::resolver::{ClusterResolver, MasterOf, with_layer};
use super::spec::ClusterSpec;
use super::url::{encoded, with_query};
use crate::limits::CLUSTER_PAGES_MAX;

const API: &str = "https://compute.googleapis.com";
const JOB: &str = "worker";

/// Running instances of a group. Addresses are numbered in their order as texts, as every peer does.
#[derive(Clone, Debug)]
pub struct Gce {
    /// The project; unset: the machine's own, of the metadata server.
    pub project: Option<String>,
    /// The zone of a zonal group; unset: the machine's own.
    pub zone: Option<String>,
    /// The region of a regional group, whose instances are in several zones.
    pub region: Option<String>,
    /// The group.
    pub instance_group: String,
    /// Where each task listens.
    pub port: u16,
    /// The job that all are of.
    pub task_type: String,
    /// The process's index.
    pub task_id: u32,
    /// The layer before addresses.
    pub rpc_layer: Option<String>,
    /// The API's URL without a path.
    pub api_server: String,
}

impl Gce {
    pub(super) fn of(settings: &Json) -> Result<Self, Error> {
        let known = [
            "project",
            "zone",
            "region",
            "instance_group",
            "port",
            "task_type",
            "task_id",
            "rpc_layer",
            "api_server",
        ];
        let options = Options::of("gce", settings, &known)?;
        if options.get("port").is_none() {
            return Err(Error::missing("gce.port", "instances do not tell where tasks listen"));
        }
        let (zone, region) = (options.text("zone")?, options.text("region")?);
        if let (Some(zone), Some(region)) = (&zone, &region) {
            let text = format!(
                "a group is of a zone or of a region, not of {} and of {}",
                quoted(zone),
                quoted(region)
            );
            return Err(Error::new(Fault::Conflict, "gce.region", text));
        }
        Ok(Self {
            project: options.text("project")?,
            zone,
            region,
            instance_group: options.needed_text("instance_group")?,
            port: options.port_or("port", 0)?,
            task_type: options.text("task_type")?.unwrap_or_else(|| JOB.into()),
            task_id: options.number("task_id")?.unwrap_or_default(),
            rpc_layer: options.text_or("rpc_layer", "grpc")?,
            api_server: options.text("api_server")?.unwrap_or_else(|| API.into()),
        })
    }

    /// The project's URL.
    fn project_url(&self, seen: &Seen) -> Outcome<String> {
        let project = match &self.project {
            Some(project) => project.clone(),
            None => metadata::project(seen)?,
        };
        let base = self.api_server.trim_end_matches('/');
        Ok(format!("{base}/compute/v1/projects/{}", encoded(&project)))
    }

    /// Where the group is, below its project.
    fn place(&self, seen: &Seen) -> Outcome<String> {
        Ok(match (&self.region, &self.zone) {
            (Some(region), _) => format!("regions/{}", encoded(region)),
            (None, Some(zone)) => format!("zones/{}", encoded(zone)),
            (None, None) => format!("zones/{}", encoded(&metadata::zone(seen)?)),
        })
    }

    fn addresses(&self, seen: &Seen) -> Outcome<Vec<String>> {
        let project = self.project_url(seen)?;
        let place = self.place(seen)?;
        let name = encoded(&self.instance_group);
        let group = format!("{project}/{place}/instanceGroups/{name}/listInstances");
        let mut found = Vec::new();
        let mut token = String::new();
        for _ in 0..CLUSTER_PAGES_MAX {
            let mut query = Vec::from([("orderBy", "name")]);
            if !token.is_empty() {
                query.push(("pageToken", &token));
            }
            let page = seen.document(&Http {
                body: Some("{\"instanceState\":\"RUNNING\"}".into()),
                ..request(with_query(&group, &query))
            })?;
            found.extend(self.page(seen, &project, &place, page)?);
            match page.text_at(&["nextPageToken"]).filter(|token| !token.is_empty()) {
                Some(next) => token = next.into(),
                None => {
                    found.sort();
                    return Ok(found);
                }
            }
        }
        let text = format!("the group's list has more than {CLUSTER_PAGES_MAX} pages");
        Err(Error::new(Fault::TooLarge, self.instance_group.clone(), text).into())
    }

    fn page(&self, seen: &Seen, project: &str, place: &str, page: &Json) -> Outcome<Vec<String>> {
        let items = page.get("items").and_then(Json::as_list).unwrap_or_default();
        let request_of = |item: &Json| {
            let url = item.text_at(&["instance"]).unwrap_or_default();
            let instance = instance_at(url, place).ok_or_else(|| {
                let wanted =
                    "names no instance: a URL that ends in zones/ZONE/instances/NAME is wanted";
                Error::malformed("items[].instance", url, wanted)
                    .answered_by(&format!("{project}/{place}"))
            })?;
            Ok::<_, Error>(request(format!("{project}/{instance}")))
        };
        let requests = items.iter().map(request_of).collect::<Result<Vec<_>, _>>()?;
        seen.prepare(requests.iter().cloned().map(Question::Http))?;
        requests.iter().map(|request| self.address_of(seen, request)).collect()
    }

    fn address_of(&self, seen: &Seen, request: &Http) -> Outcome<String> {
        let name = request.url.rsplit('/').next().unwrap_or_default();
        let not_ready = |why: &str| {
            let text = format!("the instance {name:?} {why}");
            Stop::Fail(Error::new(Fault::NotReady, self.instance_group.clone(), text))
        };
        let instance = match seen.document(request) {
            Err(Stop::Fail(error)) if error.fault == Fault::NotPresent => {
                return Err(not_ready("is gone since the group was listed"));
            }
            other => other?,
        };
        let interfaces = instance.get("networkInterfaces").and_then(Json::as_list);
        let first = interfaces.unwrap_or_default().first();
        let ip = first.and_then(|first| first.text_at(&["networkIP"]));
        let ip = ip.ok_or_else(|| not_ready("has no networkInterfaces[0].networkIP yet"))?;
        Ok(address(ip, self.port))
    }
}

/// Where an instance is below its project, by its URL; where that names no zone, in the group's.
fn instance_at(url: &str, place: &str) -> Option<String> {
    let mut parts = url.rsplit('/');
    let name = parts.next().filter(|name| !name.is_empty())?;
    let zone = match (parts.next(), parts.next(), parts.next()) {
        (Some("instances"), Some(zone), Some("zones")) => format!("zones/{}", encoded(zone)),
        _ => Some(place).filter(|place| place.starts_with("zones/"))?.into(),
    };
    Some(format!("{zone}/instances/{}", encoded(name)))
}

fn request(url: String) -> Http {
    Http { body: None, url, headers: Vec::new(), credentials: Credentials::Google }
}

/// The request for an access token of the machine's own account.
pub fn token_request(seen: &Seen) -> Http {
    metadata::request(seen, "instance/service-accounts/default/token")
}

/// The token in its answer, and after how many seconds it expires.
///
/// # Errors
/// MALFORMED for a document without a token; the token is not in the text.
pub fn read_token(body: &str) -> Result<(String, u32), Error> {
    let about = "instance/service-accounts/default/token";
    let document = parsed(about, body)
        .map_err(|_| Error::new(Fault::Malformed, about, "the answer is no JSON"))?;
    let missing = || Error::new(Fault::Malformed, about, "the answer has no access_token");
    let token = document.text_at(&["access_token"]).ok_or_else(missing)?.to_string();
    let expires_s = document.get("expires_in").and_then(Json::as_u32).unwrap_or_default();
    Ok((token, expires_s))
}

impl ClusterResolver for Gce {
    fn name(&self) -> &'static str {
        "gce"
    }

    fn cluster_spec(&mut self, seen: &Seen) -> Outcome<ClusterSpec> {
        Ok(ClusterSpec::dense(&self.task_type, self.addresses(seen)?)?)
    }

    fn master(&mut self, seen: &Seen, of: &MasterOf<'_>) -> Outcome<String> {
        let spec = self.cluster_spec(seen)?;
        let job = of.task_type.unwrap_or(&self.task_type);
        let layer = of.rpc_layer.or(self.rpc_layer.as_deref());
        Ok(with_layer(spec.task_address(job, of.task_id.unwrap_or(self.task_id))?, layer))
    }

    fn task_type(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(Some(self.task_type.clone()))
    }

    fn task_id(&self, _: &Seen) -> Outcome<Option<u32>> {
        Ok(Some(self.task_id))
    }

    fn rpc_layer(&self, _: &Seen) -> Outcome<Option<String>> {
        Ok(self.rpc_layer.clone())
    }

    fn set_task_id(&mut self, task_id: u32) -> Result<(), Error> {
        self.task_id = task_id;
        Ok(())
    }
}
