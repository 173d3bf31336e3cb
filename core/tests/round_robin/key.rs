//! States in few bytes, to tell known ones from new ones.

use std::collections::BTreeMap;

use rondo_core::ids::TaskId;

use crate::consumer::{Beat, Call, Consumer, Listed, Rounds};
use crate::dispatcher::Real;

/// A state in bytes; equal for equal states only.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    /// The bytes, shortened: 128 bits tell apart far more states than any search can see.
    pub(crate) fn digest(&self) -> u128 {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let basis = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
        self.0.iter().fold(basis, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
    }

    /// A small number.
    pub(crate) fn number(&mut self, number: i64) {
        let small = i16::try_from(number).expect("a round far off all bounds");
        self.0.extend(small.to_le_bytes());
    }

    fn maybe(&mut self, number: Option<i64>) {
        self.number(number.unwrap_or(i64::from(i16::MIN)));
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    fn task(&mut self, task: TaskId) {
        self.0.push(u8::try_from(task.get() - 4000).unwrap());
    }

    fn tasks(&mut self, tasks: &[TaskId]) {
        self.0.push(u8::try_from(tasks.len()).unwrap());
        tasks.iter().for_each(|task| self.task(*task));
    }

    fn list(&mut self, list: impl ExactSizeIterator<Item = Listed>) {
        self.0.push(u8::try_from(list.len()).unwrap());
        for (task, start) in list {
            self.task(task);
            self.number(start);
        }
    }

    fn rounds(&mut self, rounds: Rounds) {
        self.number(rounds.current);
        self.maybe(rounds.blocked);
    }

    /// Consumers with marks. Which is which makes no difference.
    pub(crate) fn consumers<'a>(
        &mut self,
        consumers: impl Iterator<Item = (&'a Consumer, [bool; 2])>,
    ) {
        let mut each: Vec<Self> = consumers
            .map(|(consumer, marks)| {
                let mut key = Self::default();
                marks.into_iter().for_each(|mark| key.flag(mark));
                key.consumer(consumer);
                key
            })
            .collect();
        each.sort();
        each.iter().for_each(|key| self.0.extend(&key.0));
    }

    fn consumer(&mut self, consumer: &Consumer) {
        self.number(consumer.next);
        self.flag(consumer.open);
        self.maybe(consumer.limit);
        self.list(consumer.list.iter().copied());
        self.tasks(&consumer.asked);
        self.tasks(&consumer.gone);
        match &consumer.beat {
            Beat::None => self.0.push(0),
            Beat::Sent(rounds) => {
                self.0.push(1);
                self.rounds(*rounds);
            }
            Beat::Answered(rounds, told) => {
                self.0.push(2);
                self.rounds(*rounds);
                self.list(told.list.iter().copied());
                self.maybe(told.block_round);
            }
        }
        match consumer.call {
            Call::None => self.0.push(0),
            Call::Waiting(_) => self.0.push(1),
            Call::Answered(_, removed) => self.0.push(2 + u8::from(removed)),
        }
    }

    pub(crate) fn ledger(&mut self, ledger: &BTreeMap<i64, Vec<TaskId>>) {
        self.number(ledger.len() as i64);
        for (round, asked) in ledger {
            self.number(*round);
            self.tasks(asked);
        }
    }

    pub(crate) fn dispatcher(&mut self, real: &Real) {
        let iteration = real.iteration();
        let list = iteration.tasks.iter();
        self.list(list.map(|task| (*task, real.starting_round(*task))));
        self.number(iteration.pending.len() as i64);
        for pending in &iteration.pending {
            self.task(pending.task);
            self.number(pending.target_round);
            self.number(i64::from(pending.failures));
        }
    }
}
