//! What servers do.

use std::time::Duration;

use rondo_core::exchange::server::{self, Answering, Partial, RowsOf, Unit};
use rondo_core::exchange::{Key, Refusal, Role, TensorInfo, UnitHandler, WorkerRank};
use rondo_core::ids::CallId;
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use super::links::Links;
use super::process::Side;
use super::server_side::ServerSide;
use super::{Error, Exchange, GoesOn, span, speech};
use crate::tensor::TensorBuffer;

impl Exchange {
    /// Waits for one unit of each worker, and takes them, in the order of the workers' ranks.
    ///
    /// # Errors
    /// Who is lost, CANCELLED.
    pub fn get_batch(&self, goes_on: GoesOn<'_>) -> Result<Vec<Unit<TensorBuffer>>, Error> {
        self.get_batch_within(None, Partial::Never, goes_on)
    }

    /// As [`Exchange::get_batch`], for so long at most (`None` for as long as it takes), and perhaps
    /// without some workers.
    ///
    /// # Errors
    /// As [`Exchange::get_batch`], and DEADLINE_EXCEEDED, naming the workers that have sent none.
    pub fn get_batch_within(
        &self,
        timeout: Option<Duration>,
        partial: Partial,
        goes_on: GoesOn<'_>,
    ) -> Result<Vec<Unit<TensorBuffer>>, Error> {
        let timeout = timeout.map(span);
        let call = self.with_server(|side, links, now, call| {
            side.step(now, server::Input::GetBatch { call, timeout, partial }, links);
            call
        })?;
        let batch =
            self.answer(call, |process| process.server()?.batches.remove(&call), goes_on)??;
        self.taken(&batch)?;
        Ok(batch)
    }

    /// Answers a unit: one tensor for each that it pulls. Their memory is to be let alone until the worker
    /// has the answer: its next request of the same keys says so.
    ///
    /// # Errors
    /// What is wrong with the tensors, NOT_FOUND for a unit that is none, FAILED_PRECONDITION for one that
    /// was answered before, and if its worker is lost.
    pub fn respond(
        &self,
        unit: UnitHandler,
        tensors: Vec<(TensorInfo, TensorBuffer)>,
    ) -> Result<(), Error> {
        self.respond_all(vec![Answering { unit, tensors }])
    }

    /// Answers several units: all, or none if anything is wrong.
    ///
    /// # Errors
    /// As [`Exchange::respond`].
    pub fn respond_all(&self, answers: Vec<Answering<TensorBuffer>>) -> Result<(), Error> {
        let answers = self.to_answer(answers)?;
        self.done(|call| server::Input::Respond { call, answers })
    }

    /// Answers each unit with rows of one buffer. StepMesh's `respond_vec` takes those from row 0 on for
    /// each of them.
    ///
    /// # Errors
    /// As [`Exchange::respond`], and if the buffer has not so many rows.
    pub fn respond_rows(
        &self,
        (info, buffer): (TensorInfo, TensorBuffer),
        of: &[RowsOf],
    ) -> Result<(), Error> {
        let ranges = self.with_server(|side, _, _, _| side.machine.rows(&info, of))??;
        let mut answers = Vec::with_capacity(of.len());
        for (rows, (info, range)) in of.iter().zip(ranges) {
            let offset = usize::try_from(range.start).unwrap_or(usize::MAX);
            let part = buffer.part(offset, speech::length(&info)).ok_or_else(|| {
                let text = format!("bytes {range:?} are not in {buffer:?}");
                Status::new(Code::OutOfRange, text)
            })?;
            answers.push(Answering { unit: rows.unit, tensors: vec![(info, part)] });
        }
        self.respond_all(answers)
    }

    /// What a unit pushed is not read any more, though it is not answered yet: its keys may be pushed
    /// again.
    ///
    /// # Errors
    /// NOT_FOUND for a unit that is none.
    pub fn release(&self, unit: UnitHandler) -> Result<(), Error> {
        self.done(|call| server::Input::Release { call, unit })
    }

    /// Has pushes land in this memory: cut into as many equal slots as workers and keys are named.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it cannot be cut so or be written, FAILED_PRECONDITION for a slot in use.
    ///
    /// # Safety
    /// As long as the exchange lives, a slot on the host is read only from a unit that landed in it, until
    /// the unit is answered or released; and nobody writes it.
    pub unsafe fn register_recv_buffer(
        &self,
        buffer: impl Into<TensorBuffer>,
        workers: Vec<WorkerRank>,
        keys: Vec<Key>,
    ) -> Result<(), Error> {
        let buffer = buffer.into();
        if !buffer.is_writable() {
            let text = format!("{buffer:?} cannot be a receive buffer");
            return Err(Status::new(Code::InvalidArgument, text).into());
        }
        self.check_device(&buffer, "the receive buffer")?;
        let bytes = buffer.len() as u64;
        self.done(|call| server::Input::RegisterBuffer { call, buffer, bytes, workers, keys })
    }

    fn done(&self, input: impl FnOnce(CallId) -> server::Input<TensorBuffer>) -> Result<(), Error> {
        let done = self.with_server(|side, links, now, call| {
            side.step(now, input(call), links);
            side.done.remove(&call)
        })?;
        Ok(done.unwrap_or(Err(Refusal::Stopped))?)
    }

    fn with_server<R>(
        &self,
        ask: impl FnOnce(&mut ServerSide, &mut Links, Time, CallId) -> R,
    ) -> Result<R, Error> {
        self.engine.with(|process, links, now| {
            let call = process.call();
            match &mut process.side {
                Side::Server(side) => Ok(ask(side, links, now, call)),
                _ => Err(self.is_no(Role::Server)),
            }
        })
    }
}
