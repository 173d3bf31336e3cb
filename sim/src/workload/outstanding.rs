//! Calls that wait for an answer.

use rondo_core::time::Time;

use super::actor::Act;

/// Calls under way, each with what it is for and until when it is waited for.
#[derive(Clone, Debug)]
pub(super) struct Outstanding<W> {
    next: u64,
    calls: Vec<(u64, Time, W)>,
}

impl<W> Outstanding<W> {
    /// None, with tokens from `first` on.
    pub(super) const fn new(first: u64) -> Self {
        Self { next: first, calls: Vec::new() }
    }

    /// Adds a call and gives it a token.
    pub(super) fn add(&mut self, until: Time, what: W) -> u64 {
        let token = self.next;
        self.next = self.next.wrapping_add(1);
        self.calls.push((token, until, what));
        token
    }

    /// Takes a call out by its token; `None` when nobody waits for it any more.
    pub(super) fn take(&mut self, token: u64) -> Option<W> {
        let at = self.calls.iter().position(|(of, ..)| *of == token)?;
        Some(self.calls.remove(at).2)
    }

    /// Takes the first call out that is for this, and says which it was.
    pub(super) fn take_one(&mut self, is: impl Fn(&W) -> bool) -> Option<u64> {
        let at = self.calls.iter().position(|(.., what)| is(what))?;
        Some(self.calls.remove(at).0)
    }

    /// Takes a call out that has been waited for long enough.
    pub(super) fn take_overdue(&mut self, now: Time) -> Option<(u64, W)> {
        let at = self.calls.iter().position(|(_, until, _)| *until <= now)?;
        let (token, _, what) = self.calls.remove(at);
        Some((token, what))
    }

    /// Gives up what has been waited for long enough, whatever it was for.
    pub(super) fn give_up_overdue(&mut self, now: Time, acts: &mut Vec<Act>) {
        while let Some((token, _)) = self.take_overdue(now) {
            acts.push(Act::GiveUp { token });
        }
    }

    /// When the first one has been waited for long enough.
    pub(super) fn deadline(&self) -> Time {
        self.calls.iter().map(|(_, until, _)| *until).min().unwrap_or(Time::NEVER)
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.calls.clear();
    }

    /// What is under way.
    pub(super) fn all(&self) -> impl Iterator<Item = &W> {
        self.calls.iter().map(|(.., what)| what)
    }

    /// Whether nothing is.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}
