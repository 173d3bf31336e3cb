//! Records ↔ `rondo.journal.v1.Group`, the payload of a journal frame.

use prost::Message;
use rondo_core::control::Record;
use rondo_core::dispatcher;

use super::coordination;
use super::error::{FrameError, malformed, required, unknown_kind};
use super::wire::Wire;
use crate::journal;
use journal::dispatcher_record::Kind;
use journal::entry::Machine;

/// What `Group.entries` begin with on the wire.
const ENTRY_KEY: usize = 0x0a;

/// Encodes the records of a commit group, in order.
pub fn encode_records(records: &[Record]) -> Vec<u8> {
    let entries = records.iter().map(encode_entry).collect();
    journal::Group { entries }.encode_to_vec()
}

/// Decodes the records of a commit group, in order.
///
/// # Errors
/// When the bytes are no group, or hold a record that this release cannot read.
pub fn decode_records(payload: &[u8]) -> Result<Vec<Record>, FrameError> {
    records(payload).collect()
}

/// The records of a commit group, in order, each decoded when it is asked for. An error, as of
/// [`decode_records`], ends them.
pub fn records(payload: &[u8]) -> impl Iterator<Item = Result<Record, FrameError>> {
    let mut rest = payload;
    let mut index = 0_usize;
    std::iter::from_fn(move || {
        let decoded = decode_next(&mut rest, index).transpose()?;
        index = index.saturating_add(1);
        if decoded.is_err() {
            rest = &[];
        }
        Some(decoded)
    })
}

/// Takes the record number `index` off the front; `None` where there is no more.
fn decode_next(rest: &mut &[u8], index: usize) -> Result<Option<Record>, FrameError> {
    if rest.is_empty() {
        return Ok(None);
    }
    let broken = |error| malformed("Group", &error);
    let key = prost::decode_length_delimiter(&mut *rest).map_err(broken)?;
    if key != ENTRY_KEY {
        let reason = format!("key {key} where an entry should begin, with key {ENTRY_KEY}");
        return Err(FrameError::Malformed { message: "Group", reason });
    }
    let before = *rest;
    let entry = journal::Entry::decode_length_delimited(&mut *rest).map_err(broken)?;
    match decode_entry(entry)? {
        Some(record) => Ok(Some(record)),
        None => Err(unknown_kind(index, unprefixed(before))),
    }
}

/// The message that these bytes begin with, without its length.
fn unprefixed(mut bytes: &[u8]) -> &[u8] {
    let len = prost::decode_length_delimiter(&mut bytes).unwrap_or_default();
    bytes.get(..len).unwrap_or_default()
}

fn encode_entry(record: &Record) -> journal::Entry {
    let machine = match record {
        Record::Dispatcher(record) => {
            Machine::Dispatcher(journal::DispatcherRecord { kind: Some(encode(record)) })
        }
        Record::Coordination(record) => {
            let kind = Some(coordination::encode(record));
            Machine::Coordination(journal::coordination::Record { kind })
        }
    };
    journal::Entry { machine: Some(machine) }
}

/// `None` when the entry is of no kind known here.
fn decode_entry(entry: journal::Entry) -> Result<Option<Record>, FrameError> {
    let record = match entry.machine {
        Some(Machine::Dispatcher(record)) => {
            let record = record.kind.map(decode).transpose()?;
            record.map(Record::Dispatcher)
        }
        Some(Machine::Coordination(record)) => {
            let record = record.kind.map(coordination::decode).transpose()?;
            record.map(Record::Coordination)
        }
        None => None,
    };
    Ok(record)
}

/// Maps a machine's records to its kinds: fields of the same names, then required submessages of
/// the same names.
macro_rules! kinds {
    (
        $machine:ident in $messages:ident ;
        $($kind:ident { $($plain:ident),* ; $($nested:ident),* })*
    ) => {
        pub(super) fn encode(record: &$machine::Record) -> Kind {
            match record {
                $($machine::Record::$kind { $($plain,)* $($nested),* } => {
                    let message = $messages::$kind {
                        $($plain: $plain.write(),)*
                        $($nested: Some($nested.write()),)*
                    };
                    Kind::$kind(message.into())
                })*
            }
        }

        pub(super) fn decode(kind: Kind) -> Result<$machine::Record, FrameError> {
            Ok(match kind {
                $(Kind::$kind(message) => $machine::Record::$kind {
                    $($plain: Wire::read(message.$plain)?,)*
                    $($nested: {
                        let field = concat!(stringify!($kind), ".", stringify!($nested));
                        Wire::read(required(field, message.$nested)?)?
                    },)*
                },)*
            })
        }
    };
}
pub(super) use kinds;

kinds! {
    dispatcher in journal;
    RegisterDataset { id, at; definition, plan, metadata }
    DecideCompression { id, disabled; }
    RegisterWorker { id, address; profile }
    UpdateWorker { id; profile }
    CreateJob {
        id, name, dataset, sharding, consumers, use_cross_trainer_cache, target_workers, anonymous, at;
    }
    CreateIteration { id, job, repetition, sources; }
    CreateTask { id, iteration, worker; }
    CreatePendingTask { id, iteration, worker, target_round; }
    AcquireClient { id, iteration, at; }
    ReleaseClient { id, at; }
    ProduceSplit { iteration, source, repetition, finished, task; }
    RejectRound { iteration, target_round; }
    AcceptRound { iteration, client; }
    FinishTask { id; }
    RemoveTask { id, again; }
    CollectIteration { id, at; }
    LoseWorker { id, again; }
    ReturnWorker { id, reborn; }
    RestartTasks { worker, again; }
    RepeatSplit { iteration, source, repetition, task; }
    TakeBackSplit { iteration, source, repetition, place, task; }
    FreeIteration { id, at; }
    FreeJob { id, at; }
    FreeDataset { id; }
    UseJob { id, at; }
    UseDataset { id, at; }
    CreateFinishedIteration { id, job, repetition; }
    ResumeIteration { id, job, repetition, sources, waiting; }
    SavePosition { name, job, at, finished, abandoned, reading; }
    RestorePosition { name, job, at; }
    DeletePosition { name; }
    HoldSplits { client, progress, taken, group_size; }
    HandOutWaiting { iteration, place, task; }
    FinishIteration { id; }
    RetireJob { id, at; }
    AbandonIteration { id, at; }
    FreeWorker { id; }
    DeleteJob { name, at; }
    RaiseIds { above; }
    ReplaceDataset { name, id, at; definition, plan, metadata }
}
