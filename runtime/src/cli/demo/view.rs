//! Shows the board: live on a terminal, line by line elsewhere.

use std::io::{IsTerminal, Stdout, Write, stdout};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Gauge, Paragraph, Row, Table};
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

use super::board::{Board, Happened, Picture, Seat};

/// Time between two pictures on a terminal.
const FRAME: Duration = Duration::from_millis(100);
/// Time between two lines of progress elsewhere.
const LINE: Duration = Duration::from_secs(2);
/// Lines of the picture: processes and consumers, progress, and the end of the story.
const HEIGHT: u16 = 18;
/// Lines of the story in it.
const STORY: u16 = 8;

/// How the board is shown.
pub(super) enum View {
    /// As a picture that changes in place.
    Live(Box<Terminal<CrosstermBackend<Stdout>>>),
    /// As lines, one for each thing that happens.
    Plain {
        /// Lines of the story that were printed.
        printed: usize,
        /// When progress was printed last.
        progress: Duration,
    },
}

impl View {
    /// A live view if stdout is a terminal that can show one, else a plain one.
    pub(super) fn new(plain: bool) -> Self {
        let options = TerminalOptions { viewport: Viewport::Inline(HEIGHT) };
        let live = || Terminal::with_options(CrosstermBackend::new(stdout()), options).ok();
        let is_seen = !plain && stdout().is_terminal();
        match is_seen.then(live).flatten() {
            Some(terminal) => Self::Live(Box::new(terminal)),
            None => Self::Plain { printed: 0, progress: Duration::ZERO },
        }
    }

    /// Shows the board until the future is done, and then its last state.
    pub(super) async fn during<T>(mut self, board: &Board, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break done,
                () = tokio::time::sleep(FRAME) => self.show(&board.picture()),
            }
        };
        self.show(&board.picture());
        if matches!(self, Self::Live(_)) {
            // Behind the picture; as below.
            let _ = writeln!(stdout());
        }
        done
    }

    fn show(&mut self, picture: &Picture) {
        match self {
            // Whoever closed the terminal does not want to see.
            Self::Live(terminal) => drop(terminal.draw(|frame| draw(frame, picture))),
            Self::Plain { printed, progress } => print(picture, printed, progress),
        }
    }
}

fn print(picture: &Picture, printed: &mut usize, progress: &mut Duration) {
    let mut out = stdout();
    // Whoever closed stdout does not want to know.
    for happened in picture.story.iter().skip(*printed) {
        let _ = writeln!(out, "{:>6.2} s  {}", happened.at.as_secs_f64(), happened.what);
    }
    *printed = picture.story.len();
    if picture.at.saturating_sub(*progress) >= LINE {
        *progress = picture.at;
        let seats: Vec<String> = picture.seats.iter().map(seat_text).collect();
        let (at, text) = (picture.at.as_secs_f64(), progress_text(picture));
        let _ = writeln!(out, "{at:>6.2} s  {text}: {}", seats.join("; "));
    }
}

fn seat_text(seat: &Seat) -> String {
    match (seat.pid, seat.doing.as_str()) {
        (None, "") => format!("{} is dead", seat.name),
        (_, "") => format!("{} runs", seat.name),
        (_, doing) => format!("{} {doing}", seat.name),
    }
}

fn progress_text(picture: &Picture) -> String {
    let pass = picture.records.checked_div(picture.pass).unwrap_or(0);
    let passes = picture.total.checked_div(picture.pass).unwrap_or(0);
    let (now, records, total) = ((pass + 1).min(passes), picture.records, picture.total);
    format!("pass {now} of {passes}, {records} of {total} records")
}

fn draw(frame: &mut Frame<'_>, picture: &Picture) {
    let seats = u16::try_from(picture.seats.len()).unwrap_or(HEIGHT);
    let rooms = [Constraint::Length(1), Constraint::Length(seats), Constraint::Length(STORY)];
    let [gauge, table, story] = Layout::vertical(rooms).areas(frame.area());
    draw_progress(frame, gauge, picture);
    draw_seats(frame, table, &picture.seats);
    draw_story(frame, story, &picture.story);
}

fn draw_progress(frame: &mut Frame<'_>, area: Rect, picture: &Picture) {
    let percent = picture.records.saturating_mul(100).checked_div(picture.total).unwrap_or(0);
    let gauge = Gauge::default()
        .gauge_style(Style::new().fg(Color::Cyan).bg(Color::DarkGray))
        .percent(u16::try_from(percent.min(100)).unwrap_or(100))
        .label(progress_text(picture));
    frame.render_widget(gauge, area);
}

fn draw_seats(frame: &mut Frame<'_>, area: Rect, seats: &[Seat]) {
    let row = |seat: &Seat| {
        let state = match seat.pid {
            Some(pid) => Span::from(format!("process {pid}")).green(),
            None if seat.name.starts_with("consumer") => Span::from("in this process").green(),
            None => Span::from("dead").red().bold(),
        };
        Row::new([Span::from(seat.name.clone()), state, Span::from(seat.doing.clone())])
    };
    let widths = [Constraint::Length(14), Constraint::Length(18), Constraint::Fill(1)];
    frame.render_widget(Table::new(seats.iter().map(row), widths), area);
}

fn draw_story(frame: &mut Frame<'_>, area: Rect, story: &[Happened]) {
    let line = |happened: &Happened| {
        let text = format!("{:>6.2} s  {}", happened.at.as_secs_f64(), happened.what);
        if happened.is_crash { Line::from(text).red() } else { Line::from(text) }
    };
    let newest = story.len().saturating_sub(usize::from(STORY));
    let lines: Vec<Line<'_>> = story.iter().skip(newest).map(line).collect();
    frame.render_widget(Paragraph::new(lines), area);
}
