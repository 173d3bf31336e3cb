//! How far a server's life has come, and waiting until it is there.

#[cfg(madsim)]
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(madsim)]
use tokio::sync::Notify;
#[cfg(not(madsim))]
use tokio::sync::watch;

/// How far a server's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Takes connections and calls.
    Serving,
    /// Takes no new ones; calls under way go on, but streams, which never end by themselves.
    Draining,
    /// Calls under way are refused.
    Cutting,
}

/// Says how far a server's life has come.
#[cfg(not(madsim))]
pub(super) struct PhaseSender(watch::Sender<Phase>);

/// Waits for a server's life to get somewhere.
#[cfg(not(madsim))]
#[derive(Clone)]
pub(super) struct PhaseReceiver(watch::Receiver<Phase>);

/// Both ends, at the beginning of a life.
#[cfg(not(madsim))]
pub(super) fn phases() -> (PhaseSender, PhaseReceiver) {
    let (sender, receiver) = watch::channel(Phase::Serving);
    (PhaseSender(sender), PhaseReceiver(receiver))
}

#[cfg(not(madsim))]
impl PhaseSender {
    /// The life has come as far as this.
    pub(super) fn advance(&self, to: Phase) {
        self.0.send_replace(to);
    }
}

#[cfg(not(madsim))]
impl PhaseReceiver {
    /// Waits until the life has come as far as this, or is over.
    pub(super) async fn reached(&mut self, phase: Phase) {
        // Without a sender it is over.
        let _ = self.0.wait_for(|now| *now >= phase).await;
    }
}

/// Says how far a server's life has come. In simulation not by tokio's `watch`, which wakes those
/// who wait in an order drawn from the operating system's randomness.
#[cfg(madsim)]
pub(super) struct PhaseSender(Arc<Shared>);

/// Waits for a server's life to get somewhere.
#[cfg(madsim)]
#[derive(Clone)]
pub(super) struct PhaseReceiver(Arc<Shared>);

#[cfg(madsim)]
struct Shared {
    phase: Mutex<Phase>,
    changed: Notify,
}

/// Both ends, at the beginning of a life.
#[cfg(madsim)]
pub(super) fn phases() -> (PhaseSender, PhaseReceiver) {
    let shared = Shared { phase: Mutex::new(Phase::Serving), changed: Notify::new() };
    let shared = Arc::new(shared);
    (PhaseSender(shared.clone()), PhaseReceiver(shared))
}

#[cfg(madsim)]
impl PhaseSender {
    /// The life has come as far as this.
    pub(super) fn advance(&self, to: Phase) {
        *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner) = to;
        self.0.changed.notify_waiters();
    }
}

#[cfg(madsim)]
impl PhaseReceiver {
    /// Waits until the life has come as far as this.
    pub(super) async fn reached(&mut self, phase: Phase) {
        loop {
            let changed = self.0.changed.notified();
            let now = *self.0.phase.lock().unwrap_or_else(PoisonError::into_inner);
            if now >= phase {
                return;
            }
            changed.await;
        }
    }
}
