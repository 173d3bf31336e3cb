//! Answers that are rows of one buffer.

use alloc::vec::Vec;
use core::ops::Range;

use super::answering::Known;
use super::machine::Server;
use crate::exchange::ids::UnitHandler;
use crate::exchange::info::TensorInfo;
use crate::exchange::refusal::Refusal;

/// Which rows of a buffer answer a unit. StepMesh's `respond_vec` answers every unit from row 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsOf {
    /// The unit.
    pub unit: UnitHandler,
    /// The first row.
    pub first: u64,
    /// How many.
    pub rows: u64,
}

impl<T: Clone> Server<T> {
    /// Which bytes of a buffer are the rows that answer these units, and what tensor each is: what
    /// [`super::Answering`] is made of.
    ///
    /// # Errors
    /// What is wrong with a unit, or that its rows are not all in the buffer or of another size than
    /// what it pulls, which must be one tensor.
    pub fn rows(
        &self,
        buffer: &TensorInfo,
        of: &[RowsOf],
    ) -> Result<Vec<(TensorInfo, Range<u64>)>, Refusal> {
        of.iter().map(|rows| self.rows_of(buffer, *rows)).collect()
    }

    fn rows_of(
        &self,
        buffer: &TensorInfo,
        RowsOf { unit, first, rows }: RowsOf,
    ) -> Result<(TensorInfo, Range<u64>), Refusal> {
        let (has, row) = buffer.rows();
        let refused = Refusal::Rows { unit, first, rows, has };
        let Some(end) = first.checked_add(rows).filter(|end| *end <= has) else {
            return Err(refused);
        };
        let mut shape: Vec<i64> = buffer.shape().to_vec();
        if let (Some(outermost), Ok(rows)) = (shape.first_mut(), i64::try_from(rows)) {
            *outermost = rows;
        }
        let Ok(info) = TensorInfo::new(buffer.dtype(), &shape) else {
            return Err(refused);
        };
        if let Known::Open { pulls, .. } = self.known(unit)? {
            let [pull] = pulls else {
                return Err(Refusal::AnswerCount { unit, tensors: 1, pulls: pulls.len() });
            };
            let (key, bytes, wanted) = (pull.key, info.bytes(), pull.info.bytes());
            if bytes != wanted {
                return Err(Refusal::AnswerSize { unit, index: 0, key, bytes, wanted });
            }
        }
        Ok((info, first.saturating_mul(row)..end.saturating_mul(row)))
    }
}
