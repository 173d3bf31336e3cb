//! Watches over a cluster, followed until it is to be looked at again.

use std::time::Duration;

use reqwest::Response;
use rondo_core::cluster::kubernetes::Watch;
use rondo_core::cluster::{Error, Fault, HttpAnswer};
use rondo_core::limits::CLUSTER_WATCH_LINE_BYTES_MAX;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::Finder;
use super::http::Requests;

/// Connections of one watch follow each other no faster.
const PAUSE: Duration = Duration::from_secs(1);
/// A connection that a server does not end when it should is given up so much later.
const GRACE: Duration = Duration::from_secs(30);

impl Finder {
    /// Waits until one of these watches says that the cluster is to be looked at again. A connection that
    /// ends or breaks is followed by another, which goes on where it was.
    ///
    /// # Errors
    /// Of the first watch that cannot be opened or is refused, or tells what is no event: changes are only
    /// seen by looking then. Never where there is none: then it waits for ever.
    pub async fn follow(&self, watches: Vec<Watch>) -> Result<(), Error> {
        let mut running = JoinSet::new();
        for watch in watches {
            let (machine, settings) = (self.machine.clone(), &self.settings);
            let requests = Requests::new(machine, settings.answers_bytes_max);
            running.spawn(one(requests, settings.question_timeout, watch));
        }
        match running.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => Err(Error::new(Fault::Unreachable, "watch", error.to_string())),
            None => std::future::pending().await,
        }
    }
}

/// Follows one watch; `patience` is how long a connection may take to open.
async fn one(requests: Requests, patience: Duration, mut watch: Watch) -> Result<(), Error> {
    let connection = Duration::from_secs(Watch::CONNECTION_S.into());
    loop {
        let began = Instant::now();
        let request = watch.request();
        let lost = |why: String| Error::new(Fault::Unreachable, request.url.clone(), why);
        let opened = timeout(patience, opened(&requests, &watch)).await;
        let late = |_| lost(format!("no answer within {} ms", patience.as_millis()));
        let (answer, response) = opened.map_err(late)?.map_err(lost)?;
        if watch.answered(&answer)? {
            // A server that has forgotten what it has just listed is not asked on and on.
            sleep_until(began + PAUSE).await;
            return Ok(());
        }
        let by = began + connection + GRACE;
        let read = timeout_at(by, until_told(&mut watch, response)).await;
        if let Ok(told) = read
            && told?
        {
            return Ok(());
        }
        sleep_until(began + PAUSE).await;
    }
}

/// A connection's answer: its status, and the body of one that is no stream; the stream else.
async fn opened(
    requests: &Requests,
    watch: &Watch,
) -> Result<(HttpAnswer, Option<Response>), String> {
    let response = requests.open(&watch.request()).await?;
    let status = response.status();
    if status.is_success() {
        let answer = HttpAnswer { status: status.as_u16(), body: String::new() };
        return Ok((answer, Some(response)));
    }
    Ok((requests.read(response).await?, None))
}

/// Reads lines until one says to look again; false at the end of the connection.
async fn until_told(watch: &mut Watch, response: Option<Response>) -> Result<bool, Error> {
    let Some(mut response) = response else { return Ok(false) };
    let mut line = Vec::new();
    // A connection that breaks is one that ends; the line that it broke in comes again.
    while let Ok(Some(chunk)) = response.chunk().await {
        let mut rest: &[u8] = &chunk;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (end, next) = rest.split_at(at);
            extend(watch, &mut line, end)?;
            if !line.trim_ascii().is_empty() && watch.line(&String::from_utf8_lossy(&line))? {
                return Ok(true);
            }
            line.clear();
            rest = next.get(1..).unwrap_or_default();
        }
        extend(watch, &mut line, rest)?;
    }
    Ok(false)
}

fn extend(watch: &Watch, line: &mut Vec<u8>, more: &[u8]) -> Result<(), Error> {
    if line.len().saturating_add(more.len()) <= CLUSTER_WATCH_LINE_BYTES_MAX {
        line.extend_from_slice(more);
        return Ok(());
    }
    let text = format!(
        "a line of the watch has more than the {CLUSTER_WATCH_LINE_BYTES_MAX} bytes that are allowed"
    );
    Err(Error::new(Fault::TooLarge, watch.request().url, text))
}
