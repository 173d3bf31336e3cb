//! What there is to see of the demo: who runs, how far the reading is, and what happened when.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines of the story that are kept to be shown.
const STORY_MAX: usize = 64;

/// A process, as people see it.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    /// What it is called.
    pub(super) name: String,
    /// Its process; none while it is dead.
    pub(super) pid: Option<u32>,
    /// What it does.
    pub(super) doing: String,
}

/// What happened.
#[derive(Clone, Debug)]
pub(super) struct Happened {
    /// Since the reading began.
    pub(super) at: Duration,
    /// In words.
    pub(super) what: String,
    /// Whether it is a crash.
    pub(super) is_crash: bool,
}

/// What is seen at one moment.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    /// Since the reading began.
    pub(super) at: Duration,
    /// The processes and consumers, in the order in which they came.
    pub(super) seats: Vec<Seat>,
    /// Records delivered.
    pub(super) records: u64,
    /// Records to deliver.
    pub(super) total: u64,
    /// Records of one pass over the data.
    pub(super) pass: u64,
    /// The story so far.
    pub(super) story: Vec<Happened>,
}

/// Shared by all who have something to tell and by who shows it.
#[derive(Clone)]
pub(super) struct Board {
    began: Instant,
    shown: Arc<Mutex<Picture>>,
}

impl Board {
    /// Of a reading of so many records, in passes of so many, that begins now.
    pub(super) fn new(total: u64, pass: u64) -> Self {
        let at = Duration::ZERO;
        let picture = Picture { at, seats: Vec::new(), records: 0, total, pass, story: Vec::new() };
        Self { began: Instant::now(), shown: Arc::new(Mutex::new(picture)) }
    }

    /// Time since the reading began.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// What is seen now.
    pub(super) fn picture(&self) -> Picture {
        Picture { at: self.elapsed(), ..self.lock().clone() }
    }

    /// Says who runs as which process.
    pub(super) fn runs(&self, name: &str, pid: Option<u32>) {
        self.seat(name, |seat| seat.pid = pid);
    }

    /// Says what somebody does.
    pub(super) fn does(&self, name: &str, doing: String) {
        self.seat(name, |seat| seat.doing = doing);
    }

    /// Whether it runs as a process.
    pub(super) fn is_alive(&self, name: &str) -> bool {
        self.lock().seats.iter().any(|seat| seat.name == name && seat.pid.is_some())
    }

    /// Says that records were delivered.
    pub(super) fn delivered(&self, records: u64) {
        let mut shown = self.lock();
        shown.records = shown.records.saturating_add(records);
    }

    /// Adds to the story.
    pub(super) fn tell(&self, what: String, is_crash: bool) {
        let at = self.elapsed();
        let mut shown = self.lock();
        if shown.story.len() < STORY_MAX {
            shown.story.push(Happened { at, what, is_crash });
        }
    }

    fn seat(&self, name: &str, change: impl FnOnce(&mut Seat)) {
        let mut shown = self.lock();
        if let Some(seat) = shown.seats.iter_mut().find(|seat| seat.name == name) {
            return change(seat);
        }
        let mut seat = Seat { name: name.to_owned(), pid: None, doing: String::new() };
        change(&mut seat);
        shown.seats.push(seat);
    }

    fn lock(&self) -> MutexGuard<'_, Picture> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
