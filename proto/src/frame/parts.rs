//! Parts of a snapshot ↔ `rondo.journal.v1.Part`.

use prost::Message;
use rondo_core::control::Part;
use rondo_core::dispatcher;

use super::coordination_parts;
use super::error::{FrameError, malformed, required, unknown_kind};
use super::wire::{Wire, message};
use crate::journal;
use journal::dispatcher_part::Kind;
use journal::part::Machine;

message!(Counters { dataset, worker, job, iteration, client, task; ; });
message!(DatasetVersions { name, current, later; ; });
message!(Dataset { id, compression_disabled, used, changed; definition, plan, metadata; });
message!(Worker { id, address, changed, lost; profile; tasks });
message!(Job {
    id, first_id, name, dataset, sharding, consumers, use_cross_trainer_cache, target_workers, anonymous,
    asked, idle_since, finished, departed, abandoned, changed;
    ;
});
message!(Iteration {
    id, job, repetition, sources, tasks, pending, last_release, finished, collected, changed,
    splits_changed, splits, by_split;
    ;
    clients
});
message!(SourcePosition { repetition, index; source; });
message!(PendingTask { task, target_round, failures, ready; ; });
message!(Client { id, iteration, acquired, splits, has_held, changed; ; });
message!(Position { name, job, dataset, definition, saved, finished, abandoned, reading, changed; ; });
message!(Restoration {
    job, position, dataset, definition, finished, abandoned, waiting, changed;
    ;
});
message!(RetiredJob {
    name, id, first_id, dataset, definition, parameters, finished, abandoned, changed;
    ;
});
message!(JobParameters { sharding, use_cross_trainer_cache, target_workers; ; });
message!(SavedRepetition { repetition, sources, splits; ; });
message!(SavedSource { repetition, index; ; });
message!(RepetitionRange { first, last; ; });
message!(Task { id, iteration, worker, starting_round, finished, splits; ; });

/// Encodes one part of a snapshot.
pub fn encode_part(part: &Part) -> Vec<u8> {
    let machine = match part {
        Part::Dispatcher(part) => {
            Machine::Dispatcher(journal::DispatcherPart { kind: Some(encode_dispatcher(part)) })
        }
        Part::Coordination(part) => {
            let kind = Some(coordination_parts::encode(part));
            Machine::Coordination(journal::coordination::Part { kind })
        }
    };
    journal::Part { machine: Some(machine) }.encode_to_vec()
}

/// Decodes one part of a snapshot. What is derived from other parts (a worker's tasks, an
/// iteration's clients) is left empty.
///
/// # Errors
/// When the bytes are no part that this release can read.
pub fn decode_part(bytes: &[u8]) -> Result<Part, FrameError> {
    let part = journal::Part::decode(bytes).map_err(|error| malformed("Part", &error))?;
    let part = match part.machine {
        Some(Machine::Dispatcher(part)) => {
            let part = part.kind.map(decode_dispatcher).transpose()?;
            part.map(Part::Dispatcher)
        }
        Some(Machine::Coordination(part)) => {
            let part = part.kind.map(coordination_parts::decode).transpose()?;
            part.map(Part::Coordination)
        }
        None => None,
    };
    part.ok_or_else(|| unknown_kind(0, bytes))
}

macro_rules! kinds {
    ($($kind:ident),*) => {
        fn encode_dispatcher(part: &dispatcher::Part) -> Kind {
            match part {
                $(dispatcher::Part::$kind(value) => Kind::$kind(value.write()),)*
            }
        }

        fn decode_dispatcher(kind: Kind) -> Result<dispatcher::Part, FrameError> {
            Ok(match kind {
                $(Kind::$kind(message) => dispatcher::Part::$kind(Wire::read(message)?),)*
            })
        }
    };
}

kinds!(
    Counters,
    Dataset,
    Worker,
    Job,
    Iteration,
    Client,
    Task,
    Position,
    Restoration,
    RetiredJob,
    DatasetVersions
);
