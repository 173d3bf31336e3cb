//! Dynamic sharding: splits handed out one by one, pass after pass.

use alloc::format;

use super::machine::{Answer, Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Reply;
use super::state::{Iteration, SourcePosition};
use super::types::ShardingPolicy;
use crate::ids::{IterationId, Lsn};

impl Dispatcher {
    /// Hands out the next split of a source, or the end of its pass.
    ///
    /// The first worker to meet the end moves the source to its next pass; the others, still asking
    /// for the old pass, are told its end. A worker asking for a later pass (the shorter side of a
    /// zip) starts that pass for all.
    pub(super) fn get_split(
        &mut self,
        turn: &mut Turn<'_>,
        id: IterationId,
        repetition: i64,
        source: i64,
    ) -> Answer {
        let iteration = self.iteration(id)?;
        self.check_dynamic(iteration)?;
        let (source, position) = source_at(iteration, source)?;
        // The last number of all is left out, so that every pass has a next one.
        if !(0..i64::MAX).contains(&repetition) {
            let expected = format!("from 0 to {}", i64::MAX - 1);
            return Err(Refusal::OutOfRange { field: "repetition", value: repetition, expected });
        }
        if repetition < position.repetition || iteration.collected {
            let after: Lsn = iteration.splits_changed.max(iteration.changed);
            return Ok((Reply::Split(None), after));
        }
        let index = if repetition > position.repetition { 0 } else { position.index };
        let split = position.source.split_at(index);
        let finished = split.is_none();
        let record = Record::ProduceSplit { iteration: id, source, repetition, finished };
        let lsn = self.commit(turn, [record])?;
        Ok((Reply::Split(split), lsn))
    }

    fn check_dynamic(&self, iteration: &Iteration) -> Result<(), Refusal> {
        let job = self.state.jobs().get(&iteration.job);
        let policy = job.map_or(ShardingPolicy::Off, |job| job.sharding);
        if policy == ShardingPolicy::Dynamic {
            return Ok(());
        }
        Err(Refusal::NotDynamic { iteration: iteration.id, policy: policy.name() })
    }
}

/// The source a worker names by number. TensorFlow does not check the number; a wrong one reads
/// memory out of bounds there.
fn source_at(iteration: &Iteration, index: i64) -> Result<(u32, &SourcePosition), Refusal> {
    let position = usize::try_from(index).ok().and_then(|at| iteration.sources.get(at));
    match (u32::try_from(index), position) {
        (Ok(source), Some(position)) => Ok((source, position)),
        _ => Err(Refusal::OutOfRange {
            field: "split_provider_index",
            value: index,
            expected: format!(
                "from 0 to {} for iteration {}",
                iteration.sources.len().saturating_sub(1),
                iteration.id
            ),
        }),
    }
}
