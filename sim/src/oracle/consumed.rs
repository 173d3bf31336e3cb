//! What an application has consumed when it asks for acknowledgements is in the durable records when it is
//! told that this is done, and so is what it consumed last when its reader has left well. The progress of a
//! reader that is ended is what the durable records say of it.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, DepartedReader, Reply, Request};
use rondo_core::ids::{CallId, ClientId, Lsn};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::workload::OfReader;

/// Records of splits, from the beginning of each, by place.
type Records = BTreeMap<u64, u64>;

/// One reader.
#[derive(Debug, Default)]
struct OneReader {
    consumed: Records,
    /// What the durable records say.
    acknowledged: Records,
    /// Splits that are acknowledged to their end.
    finished: BTreeSet<u64>,
    /// What was consumed when each flush was asked for.
    flushes: BTreeMap<CallId, Records>,
}

impl OneReader {
    fn is_acknowledged(&self, records: &Records) -> Verdict {
        let known = |place: &u64| self.acknowledged.get(place).copied().unwrap_or(0);
        match records.iter().find(|(place, records)| known(place) < **records) {
            Some((place, records)) => Err(format!(
                "split {place} was consumed up to record {records}, of which {} are recorded",
                known(place)
            )),
            None => Ok(()),
        }
    }
}

impl OneReader {
    /// Whether these are all the splits that it held at its end, with what it had acknowledged.
    fn ended(&self, left: &DepartedReader) -> Verdict {
        let held: Records = left.splits.iter().map(|split| (split.place, split.records)).collect();
        let wrong = |(place, records): &(&u64, &u64)| match held.get(place) {
            Some(told) => told != *records || self.finished.contains(place),
            None => !self.finished.contains(place),
        };
        match self.acknowledged.iter().find(wrong) {
            Some((place, records)) => Err(format!(
                "split {place} was acknowledged up to record {records}, finished: {}; it is told \
                 that the reader held {held:?}",
                self.finished.contains(place)
            )),
            None => Ok(()),
        }
    }
}

/// A record about a split: the client, the place, the records acknowledged, and whether those are all.
type Told = (ClientId, u64, u64, bool);

/// All readers of records.
#[derive(Debug, Default)]
pub(super) struct Consumed {
    readers: BTreeMap<ClientId, OneReader>,
    /// Records that are not durable yet.
    written: Vec<(Lsn, Told)>,
    /// Calls that end a reader.
    ending: BTreeMap<CallId, ClientId>,
    /// Whether the disk has broken its word: nobody knows what is durable then.
    is_over: bool,
}

impl Consumed {
    fn recorded(&mut self, lsn: Lsn, record: &dispatcher::Record) {
        let dispatcher::Record::HoldSplits { client, progress, .. } = record else {
            return;
        };
        let told =
            progress.iter().map(|told| (lsn, (*client, told.place, told.records, told.finished)));
        self.written.extend(told);
    }

    fn durable(&mut self, upto: Lsn) {
        let is_durable = |(lsn, _): &(Lsn, Told)| *lsn <= upto;
        let (durable, written) =
            std::mem::take(&mut self.written).into_iter().partition(is_durable);
        self.written = written;
        let durable: Vec<_> = durable;
        for (_, (client, place, records, finished)) in durable {
            let reader = self.readers.entry(client).or_default();
            let known = reader.acknowledged.entry(place).or_default();
            *known = records.max(*known);
            if finished {
                reader.finished.insert(place);
            }
        }
    }

    fn ended(&mut self, client: ClientId, left: &DepartedReader) -> Verdict {
        reached(Check::ConsumedEnded);
        let reader = self.readers.entry(client).or_default();
        reader.ended(left).map_err(|text| format!("client {client} was ended: {text}"))
    }

    fn reads(&mut self, client: ClientId, what: OfReader) -> Verdict {
        let reader = self.readers.entry(client).or_default();
        let verdict = match what {
            OfReader::Consumed { place, records } => {
                let known = reader.consumed.entry(place).or_default();
                *known = records.max(*known);
                Ok(())
            }
            OfReader::Flushing(call) => {
                reader.flushes.insert(call, reader.consumed.clone());
                Ok(())
            }
            OfReader::Flushed(call) => {
                reached(Check::ConsumedFlushed);
                let asked = reader.flushes.remove(&call).unwrap_or_default();
                reader.is_acknowledged(&asked)
            }
            OfReader::Left(true) => {
                reached(Check::ConsumedLeft);
                reader.is_acknowledged(&reader.consumed)
            }
            OfReader::Left(false) => Ok(()),
        };
        verdict.map_err(|text| format!("client {client}, {what:?}: {text}"))
    }
}

impl Oracle for Consumed {
    fn name(&self) -> &'static str {
        "consumed"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Durable,
            SeenKind::Answered,
            SeenKind::GivenUp,
            SeenKind::Recovered,
            SeenKind::Reads,
            SeenKind::DispatcherRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        if self.is_over {
            return Ok(());
        }
        match seen {
            Seen::Taken { call, request: Request::EndReader { client, .. }, .. } => {
                self.ending.insert(*call, *client);
            }
            Seen::Answered { call, answer, .. } => {
                if let (Some(client), Ok(Reply::ReaderEnded(left))) =
                    (self.ending.remove(call), answer)
                {
                    return self.ended(client, left);
                }
            }
            Seen::GivenUp { call } => drop(self.ending.remove(call)),
            Seen::Recorded { lsn, record: Record::Dispatcher(record), .. } => {
                self.recorded(*lsn, record);
            }
            Seen::Durable(upto) => self.durable(*upto),
            Seen::Recovered { state, disk_lied } => {
                self.written.retain(|(lsn, ..)| *lsn <= state.applied);
                self.durable(state.applied);
                self.ending.clear();
                self.is_over = *disk_lied;
            }
            Seen::Reads { client, what } => return self.reads(*client, **what),
            _ => {}
        }
        Ok(())
    }
}
