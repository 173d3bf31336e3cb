//! The log: on stderr, for people or as JSON.

use std::io::{IsTerminal, stderr};

use tracing::{Dispatch, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::{FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::exit::{Exit, Failure};
use super::line_rate::LineRate;
use super::plain::plain;
use super::serve_args::{LogArgs, LogForm};
use super::variables;

/// Starts logging, raises the limit on open files, and says what is wrong with either.
///
/// # Errors
/// When the filter makes no sense.
pub(super) fn start(args: &LogArgs) -> Result<(), Failure> {
    let directives = directives(args.log_filter.as_deref(), &args.log_level);
    let filter = EnvFilter::try_new(&directives).map_err(|error| {
        Failure::new(Exit::Usage, format!("--log-filter {directives:?}: {error}"))
    })?;
    let started = log(args.log, filter, stderr().is_terminal(), stderr).try_init();
    started.map_err(|error| Failure::new(Exit::Other, format!("cannot start logging: {error}")))?;
    crate::descriptors::raise();
    variables::mistyped().iter().for_each(|line| tracing::warn!("{line}"));
    Ok(())
}

/// The filter of the log. A client that breaks HTTP/2's rules makes the library warn each time. The log
/// leaves these warnings out, unless the level is lower than "info" or the user gives a filter.
fn directives(filter: Option<&str>, level: &str) -> String {
    match (filter, level) {
        (Some(filter), _) => filter.to_owned(),
        (None, "error" | "warn" | "info") => format!("{level},h2=error"),
        (None, level) => level.to_owned(),
    }
}

/// The log in this form, with a bound on lines of one kind.
fn log<W>(form: LogForm, filter: EnvFilter, is_terminal: bool, writer: W) -> Dispatch
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let rate = LineRate::new();
    let writer = rate.clone().noting(form, writer);
    match form {
        LogForm::Human => Dispatch::new(human(filter, is_terminal, writer).with(rate)),
        LogForm::Json => {
            let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
            Dispatch::new(log.json().finish().with(rate))
        }
    }
}

/// The log as people read it.
fn human<W>(filter: EnvFilter, is_terminal: bool, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    log.with_ansi(is_terminal).fmt_fields(harmless_fields()).finish()
}

/// Fields as people read them. Names come from the network: what they hold begins no line of its own, and
/// does not steer the terminal.
fn harmless_fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    debug_fn(|writer, field, value| {
        let value = plain(&format!("{value:?}"));
        match field.name() {
            "message" => write!(writer, "{value}"),
            // Where in a library of the `log` crate: of no use to people.
            name if name.starts_with("log.") => Ok(()),
            name => write!(writer, " {name}={value}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_client_that_breaks_the_rules_of_http_fills_no_log() {
        let said = |directives: String| {
            let kept = tempfile::NamedTempFile::new().unwrap();
            let filter = EnvFilter::try_new(directives).unwrap();
            let log = human(filter, false, Arc::new(kept.reopen().unwrap()));
            tracing::subscriber::with_default(log, || {
                tracing::warn!(target: "h2::proto::ping_pong", "received unexpected PONG");
                tracing::warn!("of our own");
            });
            std::fs::read_to_string(&kept).unwrap().lines().count()
        };
        assert_eq!(["warn", "info", "debug"].map(|level| said(directives(None, level))), [1, 1, 2]);
        assert_eq!(said(directives(Some("info"), "error")), 2);
    }

    #[test]
    fn each_form_has_a_bound_on_lines_of_one_kind() {
        for form in [LogForm::Human, LogForm::Json] {
            let kept = tempfile::NamedTempFile::new().unwrap();
            let writer = Arc::new(kept.reopen().unwrap());
            let log = log(form, EnvFilter::new("info"), false, writer);
            tracing::dispatcher::with_default(&log, || {
                (0..1000).for_each(|number| tracing::info!(number, "once more"));
            });
            let lines = std::fs::read_to_string(&kept).unwrap().lines().count();
            // The note is one of them. A second window may have begun meanwhile.
            assert!((101..300).contains(&lines), "{form:?}: {lines} lines");
        }
    }

    #[test]
    fn names_begin_no_line_and_do_not_steer_the_terminal() {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let log = human(EnvFilter::new("info"), false, Arc::new(kept.reopen().unwrap()));
        tracing::subscriber::with_default(log, || {
            let name = "w\n2026-01-01 ERROR forged \u{1b}[2J";
            tracing::warn!(log.line = 7, worker = %name, count = 3, "lost {name}");
        });
        let text = std::fs::read_to_string(&kept).unwrap();
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
        let name = "w\u{fffd}2026-01-01 ERROR forged \u{fffd}[2J";
        assert!(text.ends_with(&format!(": lost {name} worker={name} count=3\n")), "{text:?}");
    }
}
