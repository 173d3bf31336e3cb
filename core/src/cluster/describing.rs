//! Resolvers from their settings as JSON: `{"resolver": "slurm", "port_base": 7000}`.

use alloc::boxed::Box;

use super::dns::Dns;
use super::error::{Error, Fault, quoted};
use super::file::StaticFile;
use super::gce::Gce;
use super::json::Json;
use super::kubernetes::{Kubernetes, KubernetesJob, KubernetesService};
use super::resolver::AnyResolver;
use super::rondo::Rondo;
use super::sage_maker::SageMaker;
use super::simple::Simple;
use super::slurm::Slurm;
use super::tf_config::TfConfig;
use super::tpu::Tpu;
use super::union::Union;

/// Names of all resolvers that can be described.
pub const RESOLVERS: [&str; 13] = [
    "simple",
    "union",
    "tf_config",
    "sagemaker",
    "slurm",
    "kubernetes",
    "kubernetes_job",
    "kubernetes_service",
    "gce",
    "tpu",
    "dns",
    "file",
    "rondo",
];

/// Unions within unions.
const DEPTH_MAX: usize = 8;

/// The resolver that a JSON object describes: `resolver` names it, the other members are its settings.
///
/// # Errors
/// MALFORMED for an unknown resolver, an unknown setting or one of the wrong kind; NOT_PRESENT for one that
/// is needed; TOO_LARGE for unions nested deeper than eight levels.
pub fn described(settings: &Json) -> Result<AnyResolver, Error> {
    build(settings, 0)
}

/// A description ([`described`]) from a resolver's name and its settings as the text of a JSON object;
/// without a text, none.
///
/// # Errors
/// MALFORMED for a text that is no object.
pub fn named(name: &str, settings: Option<&str>) -> Result<Json, Error> {
    let given = settings.unwrap_or("{}");
    let wanted = "a JSON object is wanted, such as {\"port_base\": 7000}";
    let wrong = |why: &str| Error::malformed("settings", given, &alloc::format!("{why}; {wanted}"));
    let members = match Json::parse(given) {
        Ok(Json::Map(members)) => members,
        Ok(_) => return Err(wrong("is no object")),
        Err(fault) => return Err(wrong(&alloc::format!("is no JSON: {fault}"))),
    };
    let others = members.into_iter().filter(|(member, _)| member != "resolver");
    let first = ("resolver".into(), Json::text(name));
    Ok(Json::Map(core::iter::once(first).chain(others).collect()))
}

fn build(settings: &Json, depth: usize) -> Result<AnyResolver, Error> {
    if depth > DEPTH_MAX {
        let text = alloc::format!("unions are nested deeper than {DEPTH_MAX} levels");
        return Err(Error::new(Fault::TooLarge, "union.members", text));
    }
    let name = settings.text_at(&["resolver"]).unwrap_or_default();
    Ok(match name {
        "simple" => Box::new(Simple::of(settings)?),
        "union" => Box::new(Union::of(settings, |member| build(member, depth + 1))?),
        "tf_config" => Box::new(TfConfig::of(settings)?),
        "sagemaker" => Box::new(SageMaker::of(settings)?),
        "slurm" => Box::new(Slurm::of(settings)?),
        "kubernetes" => Box::new(Kubernetes::of(settings)?),
        "kubernetes_job" => Box::new(KubernetesJob::of(settings)?),
        "kubernetes_service" => Box::new(KubernetesService::of(settings)?),
        "gce" => Box::new(Gce::of(settings)?),
        "tpu" => Box::new(Tpu::of(settings)?),
        "dns" => Box::new(Dns::of(settings)?),
        "file" => Box::new(StaticFile::of(settings)?),
        "rondo" => Box::new(Rondo::of(settings)?),
        _ => {
            let wanted = alloc::format!("is no resolver: there are {}", RESOLVERS.join(", "));
            let found =
                if name.is_empty() { quoted(&alloc::format!("{settings}")) } else { name.into() };
            return Err(Error::malformed("resolver", &found, &wanted));
        }
    })
}
