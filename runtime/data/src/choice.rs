//! Which of a source's records are read, by their numbers: what `take`, `skip` and `shard` directly
//! behind a source come to.

use crate::pipeline::Operation;

/// Records with the numbers `first`, `first + stride`, …: `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) first: u64,
    pub(crate) stride: u64,
    pub(crate) count: u64,
}

impl Choice {
    /// What the operations leave of so many records.
    pub(crate) fn of(operations: &[Operation], records: u64) -> Self {
        let all = Self { first: 0, stride: 1, count: records };
        operations.iter().fold(all, Self::after)
    }

    fn after(self, operation: &Operation) -> Self {
        match operation {
            Operation::Take(count) => Self { count: self.count.min(*count), ..self },
            Operation::Skip(count) => self.without(*count),
            Operation::Shard(shard) => {
                let rest = self.without(shard.index);
                let stride = self.stride.saturating_mul(shard.count.max(1));
                Self { stride, count: rest.count.div_ceil(shard.count.max(1)), ..rest }
            }
            _ => self,
        }
    }

    fn without(self, count: u64) -> Self {
        let count = count.min(self.count);
        let first = self.first.saturating_add(self.stride.saturating_mul(count));
        Self { first, count: self.count.saturating_sub(count), ..self }
    }

    /// Of `records` records from the number `from` on: how many come before the first one chosen,
    /// and how many are chosen.
    pub(crate) fn within(&self, from: u64, records: u64) -> (u64, u64) {
        let before =
            |number: u64| number.saturating_sub(self.first).div_ceil(self.stride).min(self.count);
        let (start, end) = (before(from), before(from.saturating_add(records)));
        let first = self.first.saturating_add(self.stride.saturating_mul(start));
        (first.saturating_sub(from), end.saturating_sub(start))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::ShardOf;

    fn operation() -> impl Strategy<Value = Operation> {
        let shard = (1_u64..5).prop_flat_map(|count| (0..count, Just(count)));
        prop_oneof![
            (0_u64..40).prop_map(Operation::Take),
            (0_u64..20).prop_map(Operation::Skip),
            shard.prop_map(|(index, count)| Operation::Shard(ShardOf { index, count })),
        ]
    }

    fn on_a_list(list: Vec<u64>, operation: &Operation) -> Vec<u64> {
        match operation {
            Operation::Take(count) => list.into_iter().take(*count as usize).collect(),
            Operation::Skip(count) => list.into_iter().skip(*count as usize).collect(),
            Operation::Shard(it) => {
                list.into_iter().skip(it.index as usize).step_by(it.count as usize).collect()
            }
            other => panic!("{other:?} chooses nothing"),
        }
    }

    proptest! {
        #[test]
        fn it_is_what_the_operations_do_to_a_list(
            operations in prop::collection::vec(operation(), 0..5),
            lengths in prop::collection::vec(0_u64..30, 0..6),
        ) {
            let total: u64 = lengths.iter().sum();
            let wanted = operations.iter().fold((0..total).collect(), on_a_list);
            let choice = Choice::of(&operations, total);
            let (mut found, mut from) = (Vec::new(), 0);
            for length in lengths {
                let (skip, take) = choice.within(from, length);
                found.extend((0..take).map(|place| from + skip + place * choice.stride));
                prop_assert!(found.last().is_none_or(|last| *last < from + length));
                from += length;
            }
            prop_assert_eq!(found, wanted);
        }
    }
}
