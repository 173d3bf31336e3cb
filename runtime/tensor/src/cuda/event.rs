//! Events and streams that end with who has them.

use std::sync::Arc;

use super::driver::{CallError, Driver, EventHandle, Ordinal, StreamHandle};
use super::error::CudaError;

/// An event, which ends with this.
#[derive(Debug)]
pub(super) struct Event {
    driver: Arc<dyn Driver>,
    device: Ordinal,
    handle: EventHandle,
}

impl Event {
    /// An event that is done when all is that is on a stream now.
    pub(super) fn after(
        driver: &Arc<dyn Driver>,
        device: Ordinal,
        stream: StreamHandle,
    ) -> Result<Self, CudaError> {
        let event = Self::new(driver, device)?;
        event.record(stream)?;
        Ok(event)
    }

    /// An event that nothing was recorded for.
    pub(super) fn new(driver: &Arc<dyn Driver>, device: Ordinal) -> Result<Self, CudaError> {
        let handle = driver.make_event(device).map_err(said(device))?;
        Ok(Self { driver: Arc::clone(driver), device, handle })
    }

    /// It is done when all is that is on a stream now.
    pub(super) fn record(&self, stream: StreamHandle) -> Result<(), CudaError> {
        self.driver.record(self.device, self.handle, stream).map_err(said(self.device))
    }

    /// A stream's next work waits for it.
    pub(super) fn hold(&self, stream: StreamHandle) -> Result<(), CudaError> {
        self.driver.order(self.device, stream, self.handle).map_err(said(self.device))
    }

    /// Waits for it on this thread.
    pub(super) fn wait(&self) -> Result<(), CudaError> {
        self.driver.wait(self.device, self.handle).map_err(said(self.device))
    }

    /// Whether it is done.
    pub(super) fn is_done(&self) -> Result<bool, CudaError> {
        self.driver.is_done(self.device, self.handle).map_err(said(self.device))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Err(error) = self.driver.end_event(self.device, self.handle) {
            tracing::warn!(%error, device = %self.device, "an event does not end");
        }
    }
}

/// Streams of a device on which copies are made, one for each direction, so that none waits for another.
#[derive(Debug)]
pub(super) struct Streams {
    driver: Arc<dyn Driver>,
    device: Ordinal,
    /// Onto the device.
    pub(super) up: StreamHandle,
    /// To the host.
    pub(super) down: StreamHandle,
    /// From one place of devices to another.
    pub(super) across: StreamHandle,
    /// To the host, from other processes' memory: nothing on it waits for a program's work.
    pub(super) fetched: StreamHandle,
}

impl Streams {
    pub(super) fn new(driver: &Arc<dyn Driver>, device: Ordinal) -> Result<Self, CudaError> {
        let begin = || driver.begin_stream(device).map_err(said(device));
        let (up, down, across, fetched) = (begin()?, begin()?, begin()?, begin()?);
        Ok(Self { driver: Arc::clone(driver), device, up, down, across, fetched })
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        for stream in [self.up, self.down, self.across, self.fetched] {
            if let Err(error) = self.driver.end_stream(self.device, stream) {
                tracing::warn!(%error, device = %self.device, "a stream does not end");
            }
        }
    }
}

/// What the driver says, of this device.
pub(super) fn said(device: Ordinal) -> impl Fn(CallError) -> CudaError {
    move |error| CudaError::Call { device, error }
}
