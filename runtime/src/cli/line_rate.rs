//! A bound on how many lines of one kind the log has in a while: a stranger who has a line written again and
//! again fills no disk, and hides nothing else.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::Context;

use super::serve_args::LogForm;

/// The most lines of one kind that the log has in a window. Lines are of one kind when one place in the code
/// writes them.
const LINES_MAX: u64 = 100;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts the lines of each kind. Cheap to clone; clones are the same counts.
#[derive(Clone, Debug)]
pub(super) struct LineRate {
    kinds: Arc<Mutex<HashMap<Identifier, Kind>>>,
    window: Duration,
}

/// The lines of one kind.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// The begin of the window.
    since: Instant,
    /// Lines in the window, those that were left out among them.
    lines: u64,
    /// A note that belongs before the next line.
    note: Option<Note>,
}

/// A note by which the log tells that it leaves lines out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    /// The log leaves out the lines of this kind behind the next one.
    Last,
    /// The log has left out so many lines.
    LeftOut(u64),
}

impl LineRate {
    pub(super) fn new() -> Self {
        Self::within(WINDOW)
    }

    fn within(window: Duration) -> Self {
        Self { kinds: Arc::default(), window }
    }

    /// A writer of lines that also writes the notes.
    pub(super) const fn noting<W>(self, form: LogForm, writer: W) -> Noting<W> {
        Noting { rate: self, form, writer }
    }

    fn kinds(&self) -> MutexGuard<'_, HashMap<Identifier, Kind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a line. Whether it is written.
    fn admits(&self, kind: Identifier) -> bool {
        let now = Instant::now();
        let mut kinds = self.kinds();
        let kind = kinds.entry(kind).or_insert(Kind { since: now, lines: 0, note: None });
        if now.duration_since(kind.since) >= self.window {
            let left_out = kind.lines.saturating_sub(LINES_MAX);
            let note = (left_out > 0).then_some(Note::LeftOut(left_out));
            *kind = Kind { since: now, lines: 0, note };
        }
        kind.lines = kind.lines.saturating_add(1);
        if kind.lines == LINES_MAX {
            kind.note = Some(Note::Last);
        }
        kind.lines <= LINES_MAX
    }

    fn take_note(&self, kind: &Identifier) -> Option<Note> {
        self.kinds().get_mut(kind)?.note.take()
    }

    fn text(&self, note: Note) -> String {
        let seconds = self.window.as_secs();
        match note {
            Note::Last => format!(
                "the log has at most {LINES_MAX} lines of one kind in {seconds} s: more lines like the next \
                 one are left out"
            ),
            Note::LeftOut(lines) => format!("{lines} lines like the next one were left out"),
        }
    }
}

/// Lines below "info" pass without a bound: an operator has asked for them.
impl<S: Subscriber> Layer<S> for LineRate {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        *metadata.level() > Level::INFO || self.admits(metadata.callsite())
    }
}

/// Writes notes on lines that were left out, and passes on the others.
#[derive(Debug)]
pub(super) struct Noting<W> {
    rate: LineRate,
    form: LogForm,
    writer: W,
}

impl<W> Noting<W> {
    /// A note as a line of the log.
    fn line(&self, text: &str) -> String {
        let mut time = String::new();
        if SystemTime.format_time(&mut Writer::new(&mut time)).is_err() {
            time.clear();
        }
        match self.form {
            LogForm::Human => format!("{time}  WARN rondo::log: {text}\n"),
            LogForm::Json => format!(
                "{{\"timestamp\":\"{time}\",\"level\":\"WARN\",\"fields\":{{\"message\":\"{text}\"}},\
                 \"target\":\"rondo::log\"}}\n"
            ),
        }
    }
}

impl<'writer, W: MakeWriter<'writer>> MakeWriter<'writer> for Noting<W> {
    type Writer = W::Writer;

    fn make_writer(&'writer self) -> W::Writer {
        self.writer.make_writer()
    }

    fn make_writer_for(&'writer self, metadata: &Metadata<'_>) -> W::Writer {
        let mut writer = self.writer.make_writer_for(metadata);
        if let Some(note) = self.rate.take_note(&metadata.callsite()) {
            let line = self.line(&self.rate.text(note));
            // Who does not read the log's lines does not read this one either.
            drop(writer.write_all(line.as_bytes()));
        }
        writer
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// The lines of a log of this form that `log` has written.
    fn lines(form: LogForm, log: impl FnOnce()) -> Vec<String> {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let rate = LineRate::within(Duration::from_millis(500));
        let writer = rate.clone().noting(form, Arc::new(kept.reopen().unwrap()));
        let all = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_writer(writer)
            .with_ansi(false);
        match form {
            LogForm::Human => tracing::subscriber::with_default(all.finish().with(rate), log),
            LogForm::Json => tracing::subscriber::with_default(all.json().finish().with(rate), log),
        }
        let text = std::fs::read_to_string(&kept).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn flood() {
        (0..1000).for_each(|number| tracing::info!(number, "once more"));
    }

    #[test]
    fn what_repeats_is_left_out_and_counted_and_hides_nothing_else() {
        let shown = lines(LogForm::Human, || {
            flood();
            tracing::info!("of another kind");
            std::thread::sleep(Duration::from_millis(600));
            tracing::info!("of another kind");
            (0..2).for_each(|_| flood());
        });
        let count = |part: &str| shown.iter().filter(|line| line.contains(part)).count();
        // Two windows had the flood.
        assert_eq!(count("once more"), 200);
        assert_eq!(count("at most 100 lines of one kind"), 2);
        assert_eq!(count("900 lines like the next one were left out"), 1);
        assert_eq!(count("of another kind"), 2);
        assert_eq!(shown.len(), 205);
        let last = shown.iter().position(|line| line.contains("at most 100")).unwrap();
        assert!(shown[last + 1].contains("number=99"), "{}", shown[last + 1]);
    }

    #[test]
    fn notes_have_the_form_of_the_log() {
        let shown = lines(LogForm::Json, flood);
        assert_eq!(shown.len(), 101);
        for line in &shown {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(line["timestamp"].is_string() && line["fields"]["message"].is_string());
        }
    }

    #[test]
    fn who_asks_for_more_than_is_usual_gets_it_all() {
        let shown = lines(LogForm::Human, || {
            (0..1000).for_each(|_| tracing::debug!("once more"));
        });
        assert_eq!(shown.len(), 1000);
    }
}
