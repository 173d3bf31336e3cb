//! `rondo cluster --announce`: tells the others where a task listens.

use rondo_core::cluster::{Chain, Json, Rondo};

use super::super::exit::{Exit, Failure};
use super::super::plain::plain;
use super::{ClusterArgs, failure, say};
use crate::resolve;

/// Announces an address as that of a task, once it is connected, and ends: the address stays for as long
/// as the task does.
pub(super) async fn announce(
    args: &ClusterArgs,
    chain: &Chain,
    address: &str,
) -> Result<(), Failure> {
    let usage = |text: String| Failure::new(Exit::Usage, text);
    let own = Json::Map(Vec::new());
    let settings = chain.explicit.as_ref().unwrap_or(&own);
    let resolver = settings.text_at(&["resolver"]).unwrap_or("rondo");
    if resolver != "rondo" {
        let text =
            format!("--announce needs the resolver \"rondo\", and --resolver is {resolver:?}");
        return Err(usage(text));
    }
    let rondo = Rondo::of(settings).map_err(|error| failure(&error))?;
    let told = args.finder().find(|seen| Ok((rondo.server(seen)?, rondo.task(seen)?))).await;
    let (server, task) = told.map_err(|error| failure(&error))?;
    let task = task.ok_or_else(|| {
        let text = "--announce: which task this is, is not told: give --resolver rondo --settings \
                    '{\"server\": \"HOST:PORT\", \"task_id\": N}'";
        usage(text.into())
    })?;
    let timeout = args.timeout.std();
    let announced = resolve::announce(&server, task, address, timeout).await;
    announced.map_err(|error| failure(&error))?;
    say(&(plain(&format!("announced task {task} at {address}, to {server}")) + "\n"))
}
