//! `rondo cluster --watch`: looks again and again, and tells what changed.

use std::time::Duration;

use rondo_core::cluster::kubernetes::Watch;
use rondo_core::cluster::{Chain, Change, Changes, ClusterSpec, Error, Fault, Json, Report, Rondo};
use tokio::time::sleep;

use super::super::exit::{Exit, Failure};
use super::super::plain::plain;
use super::{ClusterArgs, Format, failure, say};
use crate::resolve::{Announced, may_pass, nothing_tells};
use crate::serve::signals::Signals;

/// Two looks have at least so long between them, whatever watches tell: changes often come together.
const LOOKS_APART: Duration = Duration::from_millis(200);

/// Tells of changes until it is asked to stop. Failures that may pass are told and waited out; at the first
/// look others end it.
pub(super) async fn watch(args: &ClusterArgs, chain: &Chain) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::new(Exit::Other, error))?;
    let mut teller = Teller::new(args.format);
    let mut changes = Changes::new();
    let mut bell = Bell { server: server(args, chain).await, announced: None };
    loop {
        let (looked, watches) = tokio::select! {
            biased;
            () = signals.first() => return Ok(()),
            looked = async {
                bell.listen(args).await;
                look(args, chain).await
            } => looked,
        };
        match looked {
            Ok(spec) => {
                if let Some(change) = changes.look(&spec) {
                    say(&told(&change, args.format))?;
                }
                teller.failed = None;
            }
            Err(error) if changes.last().is_none() && !may_pass(error.fault) => {
                return Err(failure(&error));
            }
            Err(error) => teller.looked(error)?,
        }
        tokio::select! {
            biased;
            () = signals.first() => return Ok(()),
            () = bell.rings(args) => {}
            waited = wait(args, watches, &mut teller) => waited?,
        }
    }
}

/// Where the cluster is looked up, if its tasks announce themselves there.
async fn server(args: &ClusterArgs, chain: &Chain) -> Option<String> {
    let settings = chain.explicit.as_ref()?;
    let is_rondo = settings.text_at(&["resolver"]) == Some("rondo");
    // A mistake in the settings shows at the first look.
    let rondo = is_rondo.then(|| Rondo::of(settings).ok()).flatten()?;
    args.finder().find(|seen| rondo.server(seen)).await.ok()
}

/// Rings when the next look would show something new, where anybody tells.
struct Bell {
    server: Option<String>,
    announced: Option<Announced>,
}

impl Bell {
    /// Listens, so that no change after the next look is missed.
    async fn listen(&mut self, args: &ClusterArgs) {
        let (Some(server), None) = (&self.server, &self.announced) else { return };
        let mut announced = Announced::listen(server);
        let patience = args.request_timeout.std();
        let begun = tokio::time::timeout(patience, announced.changed()).await;
        self.announced = begun.is_ok_and(|begun| begun.is_ok()).then_some(announced);
    }

    /// Waits for the next change; for ever where nobody tells.
    async fn rings(&mut self, args: &ClusterArgs) {
        if let Some(announced) = &mut self.announced
            && announced.changed().await.is_ok()
        {
            return sleep(interval(args).min(LOOKS_APART)).await;
        }
        self.announced = None;
        std::future::pending().await
    }
}

fn interval(args: &ClusterArgs) -> Duration {
    args.interval.std().max(Duration::from_millis(1))
}

/// Waits until it is time to look again: when a watch says so, else after the interval.
async fn wait(args: &ClusterArgs, watches: Vec<Watch>, teller: &mut Teller) -> Result<(), Failure> {
    let interval = interval(args);
    if !watches.is_empty() {
        match args.finder().follow(watches).await {
            Ok(()) => {
                teller.lost = None;
                sleep(interval.min(LOOKS_APART)).await;
                return Ok(());
            }
            Err(error) => teller.lost(error)?,
        }
    }
    sleep(interval).await;
    Ok(())
}

/// Tells failures, each once while it lasts.
struct Teller {
    format: Format,
    /// Of the last look.
    failed: Option<Error>,
    /// Of the last watch.
    lost: Option<Error>,
}

impl Teller {
    const fn new(format: Format) -> Self {
        Self { format, failed: None, lost: None }
    }

    fn looked(&mut self, error: Error) -> Result<(), Failure> {
        let is_new = self.failed.replace(error.clone()).is_none_or(|last| last != error);
        if is_new { say(&told_failure(&error, self.format)) } else { Ok(()) }
    }

    fn lost(&mut self, error: Error) -> Result<(), Failure> {
        // Its URL has a version, which rises.
        let is_new = self.lost.replace(error.clone()).is_none_or(|last| last.text != error.text);
        if is_new { say(&told_failure(&error, self.format)) } else { Ok(()) }
    }
}

/// The cluster as it is now, and what watches it from now on.
async fn look(args: &ClusterArgs, chain: &Chain) -> (Result<ClusterSpec, Error>, Vec<Watch>) {
    let looked = args.finder().find(|seen| Ok((chain.detect(seen)?, chain.watches(seen)?))).await;
    match looked {
        Ok((report, watches)) => (spec(&report), watches),
        Err(error) => (Err(error), Vec::new()),
    }
}

fn spec(report: &Report) -> Result<ClusterSpec, Error> {
    let missing = |text: &str| Error::new(Fault::NotPresent, "cluster_spec", text);
    let nothing = || missing(&plain(&nothing_tells(report)));
    let finding = report.settled()?.ok_or_else(nothing)?;
    finding.spec.clone().ok_or_else(|| {
        missing(&format!("the source {} tells of no tasks that could be watched", finding.source))
    })
}

fn told(change: &Change, format: Format) -> String {
    let kinds = [("added", &change.added), ("removed", &change.removed), ("moved", &change.moved)];
    if format == Format::Table {
        let line = |kind: &str, (job, index, address): &(String, u32, String)| {
            plain(&format!("{}  {kind:<7}  {job}:{index}  {address}", change.version)) + "\n"
        };
        return kinds
            .iter()
            .flat_map(|(kind, tasks)| tasks.iter().map(move |task| line(kind, task)))
            .collect();
    }
    let task = |(job, index, address): &(String, u32, String)| {
        map([
            ("job", Json::text(job)),
            ("index", Json::number(*index)),
            ("address", Json::text(address)),
        ])
    };
    let version = ("version", Json::number(change.version));
    let lists = kinds.map(|(kind, tasks)| (kind, Json::List(tasks.iter().map(task).collect())));
    format!("{}\n", map(std::iter::once(version).chain(lists)))
}

fn told_failure(error: &Error, format: Format) -> String {
    match format {
        Format::Table => plain(&format!("-  failed   {error}")) + "\n",
        Format::Json => {
            let fault = ("fault", Json::text(error.fault.name()));
            format!("{}\n", map([fault, ("error", Json::text(error.to_string()))]))
        }
    }
}

fn map<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    Json::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
