//! Links that are to go when what was said on them has left, and the patience with those who do not take it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A process that stands still takes nothing, and would keep its link, and memory that waits to be sent.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Links that are closing, by numbers of the kind `K`, the one that began first in front.
pub(super) struct Closing<K> {
    all: VecDeque<(Instant, K)>,
}

impl<K: Copy + PartialEq> Closing<K> {
    pub(super) const fn new() -> Self {
        Self { all: VecDeque::new() }
    }

    /// A link begins to close. Again, it has no more time than before.
    pub(super) fn begin(&mut self, link: K) {
        if !self.all.iter().any(|(_, other)| *other == link) {
            let now = Instant::now();
            self.all.push_back((now.checked_add(PATIENCE).unwrap_or(now), link));
        }
    }

    /// A link has gone.
    pub(super) fn end(&mut self, link: K) {
        self.all.retain(|(_, other)| *other != link);
    }

    /// How long until there is a link whose time is up.
    pub(super) fn due(&self) -> Option<Duration> {
        self.all.front().map(|(until, _)| until.saturating_duration_since(Instant::now()))
    }

    /// A link whose time is up.
    pub(super) fn late(&mut self) -> Option<K> {
        let (until, _) = self.all.front()?;
        if *until > Instant::now() { None } else { self.all.pop_front().map(|(_, link)| link) }
    }
}
