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
        if take(watch, &mut line, &chunk)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes what came behind `line`, the beginning of one, until a line says to look again.
fn take(watch: &mut Watch, line: &mut Vec<u8>, chunk: &[u8]) -> Result<bool, Error> {
    let mut rest = chunk;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
        let (end, next) = rest.split_at(at);
        extend(watch, line, end)?;
        if !line.trim_ascii().is_empty() && watch.line(&String::from_utf8_lossy(line))? {
            return Ok(true);
        }
        line.clear();
        rest = next.get(1..).unwrap_or_default();
    }
    extend(watch, line, rest)?;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;
    use rondo_core::cluster::{
        Answer, Environment, HttpAnswer, Json, Question, described, resolve,
    };

    use super::*;

    /// A watch over pods, from version 7 on.
    fn watch() -> Watch {
        let settings =
            r#"{"resolver": "kubernetes", "api_server": "http://api", "namespace": "default"}"#;
        let resolver = described(&Json::parse(settings).unwrap()).unwrap();
        let body = r#"{"items": [], "metadata": {"resourceVersion": "7"}}"#;
        let page = HttpAnswer { status: 200, body: body.into() };
        let answer = |question: &Question| match question {
            Question::Http(_) => Answer::Http(Ok(page.clone())),
            other => panic!("{other:?}"),
        };
        let watches = resolve(Environment::new(), |seen| resolver.watches(seen), answer);
        watches.unwrap().remove(0)
    }

    /// The lines between line feeds, one by one, until one says to look again.
    fn line_by_line(watch: &mut Watch, bytes: &[u8]) -> Result<bool, Error> {
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        // The last one has no end.
        lines.pop();
        for line in lines {
            let text = String::from_utf8_lossy(line);
            let is_blank = text.bytes().all(|byte| byte.is_ascii_whitespace());
            if !is_blank && watch.line(&text)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    const PIECES: [&str; 8] = [
        r#"{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}"#,
        r#"{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}"#,
        r#"{"type": "BOOKMARK", "#,
        r#""object": {"metadata": {"resourceVersion": "10"}}}"#,
        r#"{"type": "DELETED", "object": {"metadata": {"resourceVersion": "11"}}}"#,
        "\n",
        "\n",
        " \n\r\n",
    ];

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            12 => select(&PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..4),
        ]
    }

    proptest! {
        #[test]
        fn lines_are_the_same_wherever_their_bytes_are_cut(
            pieces in prop::collection::vec(piece(), 0..20),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let bytes = pieces.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let (mut whole, mut cut, mut line) = (watch(), watch(), Vec::new());
            let (mut last, mut told) = (0, Ok(false));
            for end in cuts.into_iter().chain([bytes.len()]) {
                told = take(&mut cut, &mut line, &bytes[last..end]);
                last = end;
                if told != Ok(false) {
                    break;
                }
            }
            prop_assert_eq!(told, line_by_line(&mut whole, &bytes));
            prop_assert_eq!(cut, whole);
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused_at_its_bound() {
        let (mut watch, mut line) = (watch(), Vec::new());
        let mebibyte = vec![b'x'; 1 << 20];
        for _ in 0..CLUSTER_WATCH_LINE_BYTES_MAX >> 20 {
            assert_eq!(take(&mut watch, &mut line, &mebibyte), Ok(false));
        }
        let refused = take(&mut watch, &mut line, b"x").unwrap_err();
        assert_eq!(refused.fault, Fault::TooLarge, "{refused}");
        assert!(refused.text.contains("4194304 bytes"), "{refused}");
    }
}
