//! Whether the server is there.

use alloc::sync::Arc;

use super::types::Link;
use crate::time::{Duration, Time};

/// Pause after the first try to reach the server, and the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// See [`PAUSE_MIN`].
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a server may take for its first answer when it is back after the relay told clients that it
/// is away. The time doubles whenever the server was too slow. If its connection breaks later, and no
/// call waits for an answer, another outage begins.
const TRIAL: Duration = Duration::from_secs(10);

/// The server as the relay sees it.
#[derive(Clone, Debug)]
pub(super) enum Upstream {
    /// It is there.
    Up {
        link: Link,
        since: Time,
        /// When it last answered anything on this connection.
        heard: Option<Time>,
        /// It was away before, and has not answered anything since.
        trial: Option<Outage>,
    },
    /// It is away.
    Down {
        /// The newest way that was tried.
        link: Link,
        outage: Outage,
        /// When to try the next one; `None` while a try is under way.
        next: Option<Time>,
    },
}

/// A time in which the server is away.
#[derive(Clone, Debug)]
pub(super) struct Outage {
    pub(super) since: Time,
    pub(super) reason: Arc<str>,
    pause: Duration,
    /// Whether it has lasted for too long.
    pub(super) given_up: bool,
    /// How long the server may take for its first answer when it is back.
    trial: Duration,
}

impl Upstream {
    /// Nobody has looked yet.
    pub(super) fn unknown(now: Time) -> Self {
        let reason = "it has not been reached yet".into();
        Self::Down { link: Link(0), outage: Outage::begun(now, reason), next: Some(now) }
    }

    /// The way to it, if it is there.
    pub(super) const fn link(&self) -> Option<Link> {
        match self {
            Self::Up { link, .. } => Some(*link),
            Self::Down { .. } => None,
        }
    }

    /// Since when and why it is away, if it is.
    pub(super) const fn outage(&self) -> Option<&Outage> {
        match self {
            Self::Up { .. } => None,
            Self::Down { outage, .. } => Some(outage),
        }
    }

    /// When to try to reach it.
    pub(super) const fn next_try(&self) -> Option<Time> {
        match self {
            Self::Up { .. } => None,
            Self::Down { next, .. } => *next,
        }
    }

    /// Whether the relay tries to reach the server and has not told clients yet that it takes too long.
    pub(super) const fn is_trying(&self) -> bool {
        matches!(self, Self::Down { next: None, outage: Outage { given_up: false, .. }, .. })
    }

    /// Begins a try, on the way of the number returned.
    pub(super) fn begin_try(&mut self) -> Link {
        match self {
            Self::Up { link, .. } => *link,
            Self::Down { link, next, .. } => {
                *link = Link(link.0.saturating_add(1));
                *next = None;
                *link
            }
        }
    }

    /// The try succeeded. Returns how long the server was away; `None` if this was no try of ours.
    pub(super) fn reached(&mut self, now: Time, at: Link) -> Option<Duration> {
        let Self::Down { link, outage, next: None } = self else {
            return None;
        };
        if *link != at {
            return None;
        }
        let away = now.since(outage.since);
        let trial = Some(outage.clone());
        *self = Self::Up { link: at, since: now, heard: None, trial };
        Some(away)
    }

    /// The try failed. Returns whether it was one of ours.
    pub(super) fn unreachable(
        &mut self,
        now: Time,
        at: Link,
        reason: Arc<str>,
        entropy: u64,
    ) -> bool {
        match self {
            Self::Down { link, outage, next: next @ None } if *link == at => {
                outage.reason = reason;
                *next = Some(now.after(outage.next_pause(entropy)));
                true
            }
            Self::Down { .. } | Self::Up { .. } => false,
        }
    }

    /// Counts what is known of the server as later by `lost`.
    pub(super) fn postpone(&mut self, lost: Duration) {
        match self {
            Self::Up { heard, trial, .. } => {
                *heard = heard.map(|at| at.after(lost));
                if let Some(outage) = trial {
                    outage.since = outage.since.after(lost);
                }
            }
            Self::Down { outage, .. } => outage.since = outage.since.after(lost),
        }
    }

    /// The server has answered something: it is back for good.
    pub(super) fn heard(&mut self, now: Time) {
        if let Self::Up { trial, heard, .. } = self {
            (*trial, *heard) = (None, Some(now));
        }
    }

    /// Since when it has answered nothing, although it was asked something then or before.
    fn silent_since(&self, asked: Option<Time>) -> Option<Time> {
        match self {
            Self::Up { heard, .. } => asked.map(|asked| heard.map_or(asked, |at| at.max(asked))),
            Self::Down { .. } => None,
        }
    }

    /// When it has answered nothing for too long, if it has been asked since `asked`. A server that came
    /// back after clients were told that it was away has less time to show that it answers.
    pub(super) fn silence_ends(&self, asked: Option<Time>, patience: Duration) -> Option<Time> {
        let patience = match self {
            Self::Up { trial: Some(outage), .. } if outage.given_up => patience.min(outage.trial),
            _ => patience,
        };
        Some(self.silent_since(asked)?.after(patience))
    }

    /// It has answered nothing for too long: it counts as away since it was asked. Returns the connection
    /// on which it is silent.
    pub(super) fn fell_silent(
        &mut self,
        now: Time,
        asked: Option<Time>,
        reason: Arc<str>,
    ) -> Option<Link> {
        let since = self.silent_since(asked)?;
        let Self::Up { link, trial, .. } = self else {
            return None;
        };
        let link = *link;
        let outage = match trial.take() {
            Some(outage) if outage.given_up => {
                Outage { reason, trial: outage.trial.plus(outage.trial), ..outage }
            }
            _ => Outage::begun(since, reason),
        };
        *self = Self::Down { link, outage, next: Some(now) };
        Some(link)
    }

    /// The connection to it has failed. `asked` is the time since when a call waits on it that the
    /// server should answer at once. Returns whether it was the present connection.
    ///
    /// The outage before goes on if the server has answered nothing since, and either such a call waits
    /// or its time to answer is not over.
    pub(super) fn lost(
        &mut self,
        now: Time,
        at: Link,
        asked: Option<Time>,
        reason: Arc<str>,
    ) -> bool {
        let Self::Up { link, since, trial, .. } = self else {
            return false;
        };
        if *link != at {
            return false;
        }
        let (link, up) = (*link, now.since(*since));
        let before = trial.take().filter(|outage| asked.is_some() || up < outage.trial);
        let (outage, next) = match before {
            Some(mut outage) => {
                let pause = outage.next_pause(0);
                (Outage { reason, ..outage }, now.after(pause))
            }
            None => (Outage::begun(now, reason), now),
        };
        *self = Self::Down { link, outage, next: Some(next) };
        true
    }

    /// Clients are told that it has been away for too long.
    pub(super) fn give_up(&mut self) {
        if let Self::Down { outage, .. } = self {
            outage.given_up = true;
        }
    }
}

impl Outage {
    const fn begun(since: Time, reason: Arc<str>) -> Self {
        Self { since, reason, pause: PAUSE_MIN, given_up: false, trial: TRIAL }
    }

    /// The pause before the next try: up to a quarter longer, so that not all relays of a job try
    /// in the same moment.
    fn next_pause(&mut self, entropy: u64) -> Duration {
        let pause = self.pause.as_nanos();
        self.pause = Duration::from_nanos(pause.saturating_mul(2)).min(PAUSE_MAX);
        let quarter = (pause / 4).max(1);
        Duration::from_nanos(pause.saturating_add(entropy % quarter))
    }
}
