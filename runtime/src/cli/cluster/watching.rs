//! `rondo cluster --watch`: looks again and again, and tells what changed.

use std::time::Duration;

use rondo_core::cluster::{Chain, Change, Changes, ClusterSpec, Error, Fault, Json};

use super::super::exit::{Exit, Failure};
use super::super::plain::plain;
use super::{ClusterArgs, Output, failure, say};
use crate::resolve::may_pass;
use crate::serve::signals::Signals;

/// Tells of changes until it is asked to stop. Failures that may pass are told and waited out; at the first
/// look others end it.
pub(super) async fn watch(args: &ClusterArgs, chain: &Chain) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::new(Exit::Other, error))?;
    let pause = Duration::from_millis(args.interval_ms.max(1));
    let mut changes = Changes::new();
    let mut failed = None;
    loop {
        let looked = tokio::select! {
            biased;
            () = signals.first() => return Ok(()),
            looked = look(args, chain) => looked,
        };
        match looked {
            Ok(spec) => {
                if let Some(change) = changes.look(&spec) {
                    say(&told(&change, args.output))?;
                }
                failed = None;
            }
            Err(error) if changes.last().is_none() && !may_pass(error.fault) => {
                return Err(failure(&error));
            }
            Err(error) => {
                if failed.as_ref() != Some(&error) {
                    say(&told_failure(&error, args.output))?;
                }
                failed = Some(error);
            }
        }
        tokio::select! {
            biased;
            () = signals.first() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn look(args: &ClusterArgs, chain: &Chain) -> Result<ClusterSpec, Error> {
    let report = args.finder().find(|seen| chain.detect(seen)).await?;
    let missing = |text: &str| Error::new(Fault::NotPresent, "cluster_spec", text);
    let finding = report.settled()?.ok_or_else(|| missing("nothing tells of a cluster"))?;
    finding.spec.clone().ok_or_else(|| {
        missing(&format!("the source {} tells of no tasks that could be watched", finding.source))
    })
}

fn told(change: &Change, output: Output) -> String {
    let kinds = [("added", &change.added), ("removed", &change.removed), ("moved", &change.moved)];
    if output == Output::Table {
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

fn told_failure(error: &Error, output: Output) -> String {
    match output {
        Output::Table => plain(&format!("-  failed   {error}")) + "\n",
        Output::Json => {
            let fault = ("fault", Json::text(error.fault.name()));
            format!("{}\n", map([fault, ("error", Json::text(error.to_string()))]))
        }
    }
}

fn map<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    Json::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
