//! Handed-out splits ↔ `rondo.journal.v1`. What is all zero or empty is left out.

use std::collections::BTreeMap;

use rondo_core::dispatcher::{BySplit, DepartedReader, IterationSplits, SplitSet, TaskSplits};
use rondo_core::ids::{ClientId, WorkerId};

use super::error::FrameError;
use super::wire::{Wire, message};
use crate::journal;

message!(SplitRun { source, repetition, first, count; ; });
message!(Doubt { from, upto, count; ; });
message!(SavedSplit { place, records; ; });
message!(SplitProgress { place, records, finished; ; });

impl Wire for SplitSet {
    type Message = Vec<journal::SplitRun>;

    fn write(&self) -> Self::Message {
        self.runs().map(|run| run.write()).collect()
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        message.into_iter().map(Wire::read).collect()
    }
}

/// Workers that were lost, with the number of unattributed splits then.
type Strays = BTreeMap<WorkerId, u64>;

impl Wire for Strays {
    type Message = Vec<journal::Stray>;

    fn write(&self) -> Self::Message {
        let stray = |(worker, unattributed): (&WorkerId, &u64)| journal::Stray {
            worker: worker.write(),
            unattributed: *unattributed,
        };
        self.iter().map(stray).collect()
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        let stray = |stray: journal::Stray| Ok((Wire::read(stray.worker)?, stray.unattributed));
        message.into_iter().map(stray).collect()
    }
}

impl Wire for TaskSplits {
    type Message = Option<journal::TaskSplits>;

    fn write(&self) -> Self::Message {
        (*self != Self::default()).then(|| journal::TaskSplits {
            remembered: self.remembered.write(),
            forgotten: self.forgotten,
            unattributed_before: self.unattributed_before,
        })
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        let message = message.unwrap_or_default();
        Ok(Self {
            remembered: Wire::read(message.remembered)?,
            forgotten: message.forgotten,
            unattributed_before: message.unattributed_before,
        })
    }
}

impl Wire for IterationSplits {
    type Message = Option<journal::IterationSplits>;

    fn write(&self) -> Self::Message {
        (*self != Self::default()).then(|| journal::IterationSplits {
            unattributed: self.unattributed,
            doubt: Some(self.doubt.write()),
            lost: self.lost,
            again: self.again.write(),
            tried: self.tried,
            strays: self.strays.write(),
        })
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        let message = message.unwrap_or_default();
        Ok(Self {
            unattributed: message.unattributed,
            doubt: Wire::read(message.doubt.unwrap_or_default())?,
            lost: message.lost,
            again: Wire::read(message.again)?,
            tried: message.tried,
            strays: Wire::read(message.strays)?,
        })
    }
}

/// Splits by place, with the records acknowledged.
type Places = BTreeMap<u64, u64>;

impl Wire for Places {
    type Message = Vec<journal::SavedSplit>;

    fn write(&self) -> Self::Message {
        let split = |(place, records): (&u64, &u64)| journal::SavedSplit {
            place: *place,
            records: *records,
        };
        self.iter().map(split).collect()
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        Ok(message.into_iter().map(|split| (split.place, split.records)).collect())
    }
}

/// Readers that left, by client.
type Departed = BTreeMap<ClientId, DepartedReader>;

impl Wire for Departed {
    type Message = Vec<journal::DepartedReader>;

    fn write(&self) -> Self::Message {
        let reader = |(client, reader): (&ClientId, &DepartedReader)| journal::DepartedReader {
            client: client.write(),
            iteration: reader.iteration.write(),
            repetition: reader.repetition,
            splits: reader.splits.iter().map(Wire::write).collect(),
            left: reader.left.write(),
        };
        self.iter().map(reader).collect()
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        let reader = |reader: journal::DepartedReader| {
            let iteration = Wire::read(reader.iteration)?;
            let splits = Wire::read(reader.splits)?;
            let left = Wire::read(reader.left)?;
            let repetition = reader.repetition;
            let departed = DepartedReader { iteration, repetition, splits, left };
            Ok((Wire::read(reader.client)?, departed))
        };
        message.into_iter().map(reader).collect()
    }
}

impl Wire for BySplit {
    type Message = Option<journal::BySplit>;

    fn write(&self) -> Self::Message {
        let derived = Self { held: self.held, ..Self::default() };
        (*self != derived).then(|| journal::BySplit {
            waiting: self.waiting.write(),
            group_size: self.group_size,
            acknowledged: self.acknowledged,
        })
    }

    fn read(message: Self::Message) -> Result<Self, FrameError> {
        let message = message.unwrap_or_default();
        Ok(Self {
            waiting: Wire::read(message.waiting)?,
            held: 0,
            group_size: message.group_size,
            acknowledged: message.acknowledged,
        })
    }
}
