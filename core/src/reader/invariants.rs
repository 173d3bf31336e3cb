//! What holds of a reader between two steps.

use super::machine::Reader;
use crate::invariant::Invariant;

/// The invariants of a reader.
pub(crate) const READER_INVARIANTS: &[Invariant<Reader>] = &[
    Invariant {
        number: "E1",
        sentence: "calls to workers, and votes on them, are counted with the tasks they are for",
        check: |reader| reader.of_elements(|room, shared| room.calls_are_counted(shared)),
    },
    Invariant {
        number: "E2",
        sentence: "the bytes counted are those of the elements that wait for the application",
        check: |reader| reader.of_elements(|room, shared| room.bytes_are_counted(shared)),
    },
    Invariant {
        number: "E3",
        sentence: "each place that waits for an element of a round is asked for, and only such",
        check: |reader| reader.of_elements(|room, shared| room.slots_are_asked_for(shared)),
    },
    Invariant {
        number: "E4",
        sentence: "the calls counted of a worker are those it has",
        check: |reader| reader.of_elements(|room, shared| room.loads_are_counted(shared)),
    },
];
