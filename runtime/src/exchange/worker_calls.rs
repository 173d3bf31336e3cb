//! What workers do.

use std::time::Duration;

use rondo_core::exchange::worker::{self, Complete, Since};
use rondo_core::exchange::{Handler, Offset, Refusal, Role, ServerRank, Stamps};
use rondo_core::ids::CallId;
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use super::links::Links;
use super::process::Side;
use super::worker_side::WorkerSide;
use super::{Error, Exchange, GoesOn, Tensor, span};

impl Exchange {
    /// Pushes tensors to all servers, and pulls others from them: as many of each, those of server 0
    /// first. Returns at once, with the first of the request's handlers.
    ///
    /// # Errors
    /// What is wrong with the tensors or keys, and RESOURCE_EXHAUSTED at a bound.
    ///
    /// # Safety
    /// Until the request is complete, nobody else reads or writes the host memory of `pulls`, and nobody
    /// writes that of `pushes`. A request is complete when [`Exchange::wait`] or [`Exchange::abandon`] says
    /// so, or when the exchange is gone. If `wait` says that the request failed or that a server is missing,
    /// and after `abandon`, frames on their way are still read from `pushes`: nobody writes these before the
    /// exchange is gone.
    pub unsafe fn exchange(
        &self,
        pushes: Vec<Tensor>,
        pulls: Vec<Tensor>,
    ) -> Result<Handler, Error> {
        self.begin(pushes, pulls, false)
    }

    /// As [`Exchange::exchange`], but pulls beyond a whole number for each server are ignored, as StepMesh
    /// does.
    ///
    /// # Errors
    /// As [`Exchange::exchange`].
    ///
    /// # Safety
    /// As [`Exchange::exchange`].
    pub unsafe fn push_pull(
        &self,
        pushes: Vec<Tensor>,
        pulls: Vec<Tensor>,
    ) -> Result<Handler, Error> {
        self.begin(pushes, pulls, true)
    }

    fn begin(
        &self,
        pushes: Vec<Tensor>,
        pulls: Vec<Tensor>,
        ignores_rest: bool,
    ) -> Result<Handler, Error> {
        if let Some(fixed) =
            pulls.iter().find(|it| !it.payload.is_writable() && !it.payload.is_empty())
        {
            let text = format!("pull tensor under key {} cannot be written", fixed.key);
            return Err(Status::new(Code::InvalidArgument, text).into());
        }
        let pushes = self.to_send(pushes, |push| (push.key, &mut push.payload))?;
        let pulling = self.to_fill(&pulls)?;
        let handler = self
            .with_worker(|side, links, now, call| {
                let input = worker::Input::Exchange { call, pushes, pulls, ignores_rest };
                side.step(now, input, links);
                side.started.remove(&call)
            })?
            .unwrap_or(Err(Refusal::Stopped))?;
        self.pulling.begin(handler, pulling);
        Ok(handler)
    }

    /// Waits until a request is complete; `None` for as long as it takes. Then it is known no more.
    ///
    /// # Errors
    /// NOT_FOUND for a handler that is none or was waited for, who is lost, DEADLINE_EXCEEDED (the
    /// request goes on), CANCELLED, and why what came does not get onto a GPU.
    pub fn wait(
        &self,
        handler: Handler,
        timeout: Option<Duration>,
        since: Since,
        goes_on: GoesOn<'_>,
    ) -> Result<Complete, Error> {
        let timeout = timeout.map(span);
        let call = self.with_worker(|side, links, now, call| {
            side.step(now, worker::Input::Wait { call, handler, timeout, since }, links);
            call
        })?;
        let waited =
            self.answer(call, |process| process.worker()?.waited.remove(&call), goes_on)?;
        self.waited(handler, waited)
    }

    /// Nobody will wait for a request, and nothing more is written to where it pulls to once this returns.
    /// The exchange may still read and send the tensors that the request pushes.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if this is no worker.
    pub fn abandon(&self, handler: Handler) -> Result<(), Error> {
        self.with_worker(|side, links, now, _| {
            side.step(now, worker::Input::Abandon { handler }, links);
        })?;
        self.abandoned(handler)
    }

    /// All handlers of a request that nobody has waited for; of another one, it alone.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if this is no worker.
    pub fn get_all_handlers(&self, handler: Handler) -> Result<Vec<Handler>, Error> {
        self.with_worker(|side, _, _, _| side.machine.all_handlers(handler))
    }

    /// When a request and its answer passed where.
    ///
    /// # Errors
    /// NOT_FOUND for a handler that is none, or of which the trace is not kept any more.
    pub fn fetch_trace(&self, handler: Handler) -> Result<Stamps, Error> {
        Ok(self.with_worker(|side, _, _, _| side.machine.trace(handler))??)
    }

    /// How far the clock of a server is ahead of this process'.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if this is no worker.
    pub fn offset(&self, server: ServerRank) -> Result<Option<Offset>, Error> {
        self.with_worker(|side, _, _, _| side.machine.offset(server))
    }

    fn with_worker<R>(
        &self,
        ask: impl FnOnce(&mut WorkerSide, &mut Links, Time, CallId) -> R,
    ) -> Result<R, Error> {
        self.engine.with(|process, links, now| {
            let call = process.call();
            match &mut process.side {
                Side::Worker(side) => Ok(ask(side, links, now, call)),
                _ => Err(self.is_no(Role::Worker)),
            }
        })
    }
}
