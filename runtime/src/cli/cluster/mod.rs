//! `rondo cluster`.

mod announcing;
mod printing;
mod watching;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rondo_core::cluster::{Chain, Error, Export, Fault, Finding, Json, Report, kubernetes, named};

use super::exit::{Exit, Failure};
use super::plain::plain;
use super::units::Span;
use crate::resolve::{self, Finder};

/// How to find the cluster, and what to show of it.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct ClusterArgs {
    /// Take this resolver, whatever the environment says: simple, union, tf_config, sagemaker, slurm,
    /// kubernetes, kubernetes_job, kubernetes_service, gce, tpu, dns, file or rondo
    #[arg(long, value_name = "NAME")]
    resolver: Option<String>,

    /// Its settings, a JSON object
    #[arg(long, value_name = "JSON", requires = "resolver")]
    settings: Option<String>,

    /// Where tasks listen, for sources that tell hosts only
    #[arg(long, value_name = "PORT", default_value_t = 8470)]
    port: u16,

    /// URL of the Kubernetes API server, instead of the pod's own
    #[arg(long, value_name = "URL")]
    api_server: Option<String>,

    /// Namespace of Kubernetes, instead of the pod's own
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,

    /// Ask sources that cost requests even if another one was found
    #[arg(long)]
    all: bool,

    /// Form of the answer
    #[arg(long, value_name = "FORM", default_value = "table")]
    format: Format,

    /// Write what was found as another program takes it
    #[arg(long, value_name = "FORM", conflicts_with_all = ["format", "watch"])]
    export: Option<Form>,

    /// Tell the others where a task listens: the server that the resolver rondo asks keeps the address
    /// for as long as the task is connected. Waits until it is
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["format", "export", "watch"])]
    announce: Option<String>,

    /// Stay, and tell of tasks that come, go and move: a line each, with --format json an object a line
    #[arg(long)]
    watch: bool,

    /// How long to wait between two looks, with --watch
    #[arg(long, value_name = "SPAN", default_value = "5s", requires = "watch")]
    interval: Span,

    /// How long to look, in all; what is not ready or not reachable is tried again until then
    #[arg(long, env = "RONDO_CLUSTER_TIMEOUT", value_name = "SPAN", default_value = "10s")]
    timeout: Span,

    /// How long to wait for one request, name or file
    #[arg(long, value_name = "SPAN", default_value = "3s")]
    request_timeout: Span,

    /// Tasks to show; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 50)]
    limit: usize,

    /// Look for files and devices below this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables
    Table,
    /// One JSON object
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Variables of Rondo's own, as a shell reads them
    #[value(name = "env")]
    Env,
    /// The value of TF_CONFIG
    #[value(name = "tf_config")]
    TfConfig,
    /// Variables of JAX, as a shell reads them
    #[value(name = "jax")]
    Jax,
    /// Variables of PyTorch and torchrun, as a shell reads them
    #[value(name = "torchrun")]
    Torchrun,
}

impl From<Form> for Export {
    fn from(form: Form) -> Self {
        match form {
            Form::Env => Self::Env,
            Form::TfConfig => Self::TfConfig,
            Form::Jax => Self::Jax,
            Form::Torchrun => Self::Torchrun,
        }
    }
}

/// Finds the cluster and shows it.
pub(super) fn cluster(args: &ClusterArgs) -> Result<(), Failure> {
    let chain = args.chain()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Other, error))?;
    let ended = runtime.block_on(async {
        match &args.announce {
            Some(address) => announcing::announce(args, &chain, address).await,
            None if args.watch => watching::watch(args, &chain).await,
            None => once(args, &chain).await,
        }
    });
    // A name or a file that nobody waits for any more must not hold up the end.
    runtime.shutdown_background();
    ended
}

impl ClusterArgs {
    fn chain(&self) -> Result<Chain, Failure> {
        let access = kubernetes::Access {
            api_server: self.api_server.clone(),
            namespace: self.namespace.clone(),
        };
        Ok(Chain { explicit: self.explicit()?, port: self.port, access, asks_all: self.all })
    }

    fn explicit(&self) -> Result<Option<Json>, Failure> {
        let Some(name) = &self.resolver else { return Ok(None) };
        let settings = named(name, self.settings.as_deref());
        settings.map(Some).map_err(|error| Failure::new(Exit::Usage, format!("--{error}")))
    }

    fn finder(&self) -> Finder {
        let settings = resolve::Settings {
            root: self.root.clone(),
            timeout: self.timeout.std(),
            question_timeout: self.request_timeout.std(),
            ..resolve::Settings::default()
        };
        Finder::new(resolve::environment(), settings)
    }

    const fn limit(&self) -> usize {
        if self.limit == 0 { usize::MAX } else { self.limit }
    }
}

async fn once(args: &ClusterArgs, chain: &Chain) -> Result<(), Failure> {
    let finder = args.finder();
    let report = resolve::detect(&finder, chain).await.map_err(|error| failure(&error))?;
    if let Some(form) = args.export {
        let finding = settled(&report)?;
        return say(&Export::from(form).write(finding).map_err(|error| failure(&error))?);
    }
    let accelerators = match report.chosen() {
        Some(finding) => Some(resolve::accelerators(finder, finding).await),
        None => None,
    };
    match args.format {
        Format::Json => say(&format!("{:#}\n", printing::json(&report, accelerators.as_ref())))?,
        Format::Table => say(&printing::text(&report, accelerators.as_ref(), args.limit()))?,
    }
    settled(&report).map(|_| ())
}

/// What to go by.
fn settled(report: &Report) -> Result<&Finding, Failure> {
    let nothing = || {
        let text = format!(
            "{}; --resolver takes one that the environment does not tell of",
            plain(&resolve::nothing_tells(report))
        );
        Failure::new(Exit::Other, text)
    };
    report.settled().map_err(|error| failure(&error))?.ok_or_else(nothing)
}

/// How a failure ends the program.
pub(super) fn failure(error: &Error) -> Failure {
    let exit = match error.fault {
        Fault::Unreachable => Exit::Unreachable,
        Fault::NotReady => Exit::Unhealthy,
        // What an API answers is nobody's setting.
        Fault::Malformed | Fault::Conflict if !error.about.contains("://") => Exit::Usage,
        _ => Exit::Other,
    };
    Failure::new(exit, error)
}

fn say(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    let said = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    said.map_err(|error| Failure::new(Exit::Other, error))
}
