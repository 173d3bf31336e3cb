//! Being asked to stop.

use std::convert::Infallible;
#[cfg(not(madsim))]
use std::pin::pin;

#[cfg(not(madsim))]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once.
#[cfg(not(madsim))]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

#[cfg(not(madsim))]
impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    async fn next(&mut self) -> i32 {
        let terminate = pin!(self.terminate.recv());
        let interrupt = pin!(self.interrupt.recv());
        tokio::select! {
            biased;
            _ = terminate => SignalKind::terminate().as_raw_value(),
            _ = interrupt => SignalKind::interrupt().as_raw_value(),
        }
    }

    pub(crate) async fn first(&mut self) {
        let signal = self.next().await;
        tracing::info!(signal, "asked to stop; a second signal stops at once");
    }

    pub(crate) async fn second(&mut self) -> Infallible {
        let signal = self.next().await;
        tracing::warn!(signal, "stopping at once");
        std::process::exit(128_i32.saturating_add(signal));
    }
}

/// The simulated SIGINT. There is no second one: simulation kills nodes by other means.
#[cfg(madsim)]
pub(crate) struct Signals(());

#[cfg(madsim)]
impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self(()))
    }

    pub(crate) async fn first(&mut self) {
        // It can only say that the signal has come.
        let _ = tokio::signal::ctrl_c().await;
    }

    pub(crate) async fn second(&mut self) -> Infallible {
        std::future::pending().await
    }
}
