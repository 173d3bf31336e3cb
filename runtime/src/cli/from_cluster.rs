//! `--cluster`: what nobody gave is taken from the cluster that the process is in.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use rondo_core::cluster::{Chain, Error, Place, SERVER_PORT, named};

use super::cluster::failure;
use super::exit::{Exit, Failure};
use super::layers::{Settings, Source};
use super::plain::plain;
use super::units::Span;
use crate::resolve::{self, Finder};

/// The word for detection, in place of a resolver's name.
const AUTO: &str = "auto";

/// Where addresses and sizes come from that nobody gave.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct FromCluster {
    /// Take addresses and sizes that are not given from the cluster that this process is in: auto, for
    /// what launchers tell, or a resolver's name. `rondo cluster` shows what there is
    #[arg(long, env = "RONDO_CLUSTER", value_name = "auto|RESOLVER", help_heading = "Cluster",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    cluster: Option<String>,

    /// Settings of the resolver that --cluster names, a JSON object
    #[arg(long, env = "RONDO_CLUSTER_SETTINGS", value_name = "JSON", help_heading = "Cluster")]
    cluster_settings: Option<String>,

    /// Where the server listens if the cluster tells its host only
    #[arg(long, env = "RONDO_CLUSTER_PORT", value_name = "PORT", default_value_t = SERVER_PORT,
          value_parser = clap::value_parser!(u16).range(1..), help_heading = "Cluster")]
    cluster_port: u16,

    /// How long to look for the cluster, in all
    #[arg(
        long,
        env = "RONDO_CLUSTER_TIMEOUT",
        value_name = "SPAN",
        default_value = "10s",
        help_heading = "Cluster"
    )]
    cluster_timeout: Span,
}

/// Fills in settings of a command that nobody gave, if it was asked to, and returns them as arguments.
///
/// # Errors
/// As `rondo cluster`; where the cluster does not tell what the command needs.
pub(super) fn fill(command: &str, settings: &mut Settings) -> Result<Vec<OsString>, Failure> {
    // Where nothing is missing nobody has to be asked.
    let is_missing = taken_by(command).iter().any(|key| is_open(settings, key));
    let Some(chain) = chain(settings)?.filter(|_| is_missing) else { return Ok(Vec::new()) };
    let place = find(settings, &chain)?;
    let mut added = Vec::new();
    for (key, value) in wanted(command, &place, settings)? {
        if let Some(setting) = settings.get_mut(key).filter(|it| it.source == Source::Default) {
            added.push(format!("--{}={value}", key.replace('_', "-")).into());
            setting.source = Source::Cluster(place.source());
            setting.value = Some(value);
        }
    }
    Ok(added)
}

/// What was filled in, for the log; `None` where it was not asked for.
pub(super) fn told(settings: &Settings) -> Option<String> {
    let asked = value(settings, "cluster")?;
    let mut from = None;
    let mut flags = Vec::new();
    for (key, setting) in settings {
        if let (Source::Cluster(source), Some(value)) = (setting.source, &setting.value) {
            from = Some(source);
            flags.push(format!("--{} {value}", key.replace('_', "-")));
        }
    }
    let told = match from {
        Some(source) => format!("taken from the cluster ({source}): {}", flags.join(", ")),
        None => format!("--cluster {asked}: nothing was taken"),
    };
    Some(plain(&told))
}

fn value<'a>(settings: &'a Settings, key: &str) -> Option<&'a str> {
    settings.get(key)?.value.as_deref()
}

/// Whether nobody gave it.
fn is_open(settings: &Settings, key: &str) -> bool {
    settings.get(key).is_some_and(|setting| setting.source == Source::Default)
}

/// How to look for the cluster, if the settings ask for it.
fn chain(settings: &Settings) -> Result<Option<Chain>, Failure> {
    let usage = |text: String| Failure::new(Exit::Usage, text);
    let given = value(settings, "cluster_settings");
    let Some(cluster) = value(settings, "cluster") else {
        return match given {
            Some(_) => Err(usage("--cluster-settings is of no use without --cluster".into())),
            None => Ok(None),
        };
    };
    let explicit = match (cluster, given) {
        (AUTO, None) => None,
        (AUTO, Some(_)) => {
            let text = "--cluster-settings are those of a resolver: give its name, --cluster NAME";
            return Err(usage(text.into()));
        }
        ("rondo", _) => {
            let text = "--cluster rondo asks the server for the tasks, and so cannot tell where it is: auto \
                        does, or another resolver";
            return Err(usage(text.into()));
        }
        (name, given) => {
            Some(named(name, given).map_err(|error| usage(format!("--cluster-{error}")))?)
        }
    };
    Ok(Some(Chain { explicit, ..Chain::default() }))
}

/// The process's place.
fn find(settings: &Settings, chain: &Chain) -> Result<Place, Failure> {
    // Both can be read: the command line was read before.
    let timeout = value(settings, "cluster_timeout").and_then(|text| text.parse::<Span>().ok());
    let timeout = timeout.map_or(Duration::ZERO, Span::std);
    let port = value(settings, "cluster_port").and_then(|text| text.parse::<u16>().ok());
    let of_finder = resolve::Settings { timeout, ..resolve::Settings::default() };
    let finder = Finder::new(resolve::environment(), of_finder);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Other, error))?;
    let found = resolve::find_place(&finder, chain, port.unwrap_or(SERVER_PORT));
    let found = runtime.block_on(found);
    // A name or a file that nobody waits for any more must not hold up the start.
    runtime.shutdown_background();
    found.map_err(|error| failure(&error))
}

/// The settings that a command may take from the cluster.
fn taken_by(command: &str) -> &'static [&'static str] {
    match command {
        "serve" => &["tasks", "worker_addresses", "listen"],
        "relay" => &["upstream"],
        "read" => &["server"],
        _ => &["server", "listen", "address"],
    }
}

/// What a command takes from its place, of what nobody gave.
fn wanted(
    command: &str,
    place: &Place,
    settings: &Settings,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let is_open = |key: &str| is_open(settings, key);
    let server = |key: &'static str| match is_open(key) {
        true => Ok(vec![(key, place.server().map_err(|error| lacking(&error, key))?)]),
        false => Ok(Vec::new()),
    };
    match command {
        "serve" => of_server(place, &is_open),
        "relay" => server("upstream"),
        "read" => server("server"),
        _ => {
            let mut wanted = server("server")?;
            if (is_open("listen") || is_open("address"))
                && let Some(own) = place.worker().map_err(|error| lacking(&error, "listen"))?
            {
                wanted.extend([("listen", own.clone()), ("address", own)]);
            }
            Ok(wanted)
        }
    }
}

fn of_server(
    place: &Place,
    is_open: &dyn Fn(&str) -> bool,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut wanted = Vec::new();
    if is_open("tasks") {
        let tasks = place.tasks().map_err(|error| lacking(&error, "tasks"))?;
        wanted.push(("tasks", tasks.to_string()));
    }
    if is_open("worker_addresses")
        && let Some(workers) =
            place.workers().map_err(|error| lacking(&error, "worker_addresses"))?
    {
        wanted.push(("worker_addresses", workers.join(",")));
    }
    if !is_open("listen") {
        return Ok(wanted);
    }
    match place.is_server() {
        Some(true) => {
            let server = place.server().map_err(|error| lacking(&error, "listen"))?;
            wanted.push(("listen", server));
        }
        Some(false) if is_open("port") => {
            let server = place.server().map_err(|error| lacking(&error, "listen"))?;
            let text = format!(
                "{}: the server is at {server}, and this process is not the one to run it: start it \
                 there, or give --listen",
                place.source()
            );
            return Err(Failure::new(Exit::Usage, text));
        }
        // Where it listens by default, and who calls that is said elsewhere.
        Some(false) | None => {}
    }
    Ok(wanted)
}

/// A failure to tell something, and what to do about it.
fn lacking(error: &Error, key: &str) -> Failure {
    let Failure { exit, text } = failure(error);
    Failure::new(exit, format!("{text}; or give --{}", key.replace('_', "-")))
}
