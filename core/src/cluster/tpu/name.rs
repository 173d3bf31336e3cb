//! Which TPU is meant.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::asking::{Outcome, Seen, parsed};
use super::super::error::{Error, Fault};
use super::super::metadata;
use super::super::options::{address, check_host, split_address};
use super::super::url::encoded;

const ENDPOINTS: &str = "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS";
const NAME: &str = "TPU_NAME";
const CONFIG: &str = "TPU_CONFIG";
const PORT: u16 = 8470;
const GRPC: &str = "grpc://";
/// Addresses that one text may list.
const ADDRESSES_MAX: usize = 65_536;

/// A TPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The process's own machine: no cluster.
    Local,
    /// These addresses.
    Addresses(Vec<String>),
    /// A node of the API.
    Node { name: String, project: Option<String>, zone: Option<String> },
}

impl Target {
    pub(super) fn of(seen: &Seen, given: Option<&str>) -> Result<Self, Error> {
        let by_variable =
            [ENDPOINTS, NAME].iter().find_map(|name| Some((*name, seen.filled(name)?)));
        let (about, name) = match given {
            Some(name) => ("tpu.tpu", name),
            None => match by_variable {
                Some(found) => found,
                None => return Self::configured(seen),
            },
        };
        if name == "local" {
            return Ok(Self::Local);
        }
        if name.starts_with(GRPC) {
            return addresses(about, name).map(Self::Addresses);
        }
        Ok(Self::Node { name: name.into(), project: None, zone: None })
    }

    fn configured(seen: &Seen) -> Result<Self, Error> {
        let Some(text) = seen.filled(CONFIG) else {
            let text =
                format!("no TPU is given, and none of {ENDPOINTS}, {NAME} and {CONFIG} is set");
            return Err(Error::new(Fault::NotPresent, "tpu.tpu", text));
        };
        let config = parsed(CONFIG, text)?;
        let member = |name: &str| config.text_at(&[name]).map(ToString::to_string);
        let name = member("tpu_node_name")
            .ok_or_else(|| Error::malformed(CONFIG, text, "has no text \"tpu_node_name\""))?;
        Ok(Self::Node { name, project: member("project"), zone: member("zone") })
    }
}

/// Whether the process's variables name its own machine's TPU.
pub(in super::super) fn is_local(seen: &Seen) -> Result<bool, Error> {
    Ok(Target::of(seen, None)? == Target::Local)
}

/// Addresses with commas between, `grpc://` before each or not.
fn addresses(about: &str, text: &str) -> Result<Vec<String>, Error> {
    let parts: Vec<&str> = text
        .split(',')
        .map(str::trim)
        .map(|part| part.strip_prefix(GRPC).unwrap_or(part))
        .collect();
    if parts.len() > ADDRESSES_MAX {
        let text = format!("{} addresses, of at most {ADDRESSES_MAX}", parts.len());
        return Err(Error::new(Fault::TooLarge, about, text));
    }
    let address_of = |part: &&str| {
        let (host, port) = split_address(about, part, PORT)?;
        check_host(about, &host)?;
        Ok(address(&host, port))
    };
    parts.iter().map(address_of).collect()
}

/// The node's whole name.
pub(super) fn node_name(
    seen: &Seen,
    name: &str,
    project: Option<&String>,
    zone: Option<&String>,
) -> Outcome<String> {
    if name.starts_with("projects/") {
        return Ok(name.into());
    }
    let project = match project {
        Some(project) => project.clone(),
        None => metadata::project(seen)?,
    };
    let zone = match zone {
        Some(zone) => zone.clone(),
        None => metadata::zone(seen)?,
    };
    Ok(format!(
        "projects/{}/locations/{}/nodes/{}",
        encoded(&project),
        encoded(&zone),
        encoded(name)
    ))
}
