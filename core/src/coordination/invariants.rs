//! What holds of the coordination service between two steps.

mod keys;
mod tasks;
#[cfg(test)]
mod tests;
mod waiting;

use super::machine::Coordination;
use super::state::State;
use crate::invariant::Invariant;

/// The invariants of the durable state.
pub(crate) const STATE_INVARIANTS: &[Invariant<State>] = &[
    Invariant {
        number: "C1",
        sentence: "every namespace bears its own id and is found by its name, and by no other",
        check: tasks::names_lead_to_namespaces,
    },
    Invariant {
        number: "C2",
        sentence: "a task's number is below the number of tasks, and it is in error exactly when it has one",
        check: tasks::tasks_are_sound,
    },
    Invariant {
        number: "C3",
        sentence: "tasks wait to register only at the open register barrier, and take part once it passed",
        check: tasks::phases_fit_the_register_barrier,
    },
    Invariant {
        number: "C4",
        sentence: "the tasks counted as present and the incarnations that lead to tasks are those there are",
        check: tasks::indexes_agree,
    },
    Invariant {
        number: "C5",
        sentence: "open barriers are those without an outcome, and only they have arrivals",
        check: tasks::barriers_are_open_or_ended,
    },
    Invariant {
        number: "C6",
        sentence: "whoever has come to a barrier is a participant, and no open barrier is complete",
        check: tasks::arrivals_are_participants,
    },
    Invariant {
        number: "C7",
        sentence: "keys are in normal form, and their sizes and leases are those counted",
        check: keys::entries_are_counted,
    },
    Invariant {
        number: "C8",
        sentence: "the remembered changes are those of the newest revisions, one each, within their bounds",
        check: keys::changes_are_the_newest,
    },
    Invariant {
        number: "C9",
        sentence: "a key dies only with a task that is connected",
        check: keys::leases_are_of_connected_tasks,
    },
    Invariant {
        number: "C10",
        sentence: "a blob is named as often as entries and changes have it",
        check: keys::blobs_are_counted,
    },
    Invariant {
        number: "C11",
        sentence: "no result is kept that its relay has acknowledged",
        check: keys::results_are_not_acknowledged,
    },
    Invariant {
        number: "C12",
        sentence: "the lists of participants are counted, and those of ended barriers are the ones to forget",
        check: tasks::lists_are_counted,
    },
];

/// The invariants of the volatile parts beside the state.
pub(crate) const COORDINATION_INVARIANTS: &[Invariant<Coordination>] = &[
    Invariant {
        number: "C20",
        sentence: "every waiting call has its place, or its answer is on the way, and no place is another's",
        check: waiting::calls_have_places,
    },
    Invariant {
        number: "C21",
        sentence: "alarms are those that tasks, barriers and namespaces have; relays have one",
        check: waiting::alarms_agree,
    },
    Invariant {
        number: "C22",
        sentence: "every connected task is looked at no later than its patience ends",
        check: waiting::connected_tasks_are_watched,
    },
    Invariant {
        number: "C23",
        sentence: "every open barrier has an alarm, or waits for ever, and no other has one",
        check: waiting::open_barriers_end,
    },
    Invariant {
        number: "C24",
        sentence: "nobody waits for a key that is there, an error that is known, or a version that is past",
        check: waiting::nobody_waits_in_vain,
    },
    Invariant {
        number: "C25",
        sentence: "whoever waits at a barrier has come to it, and it is open",
        check: waiting::waiting_calls_have_arrived,
    },
    Invariant {
        number: "C26",
        sentence: "whoever asks who is alive waits for somebody who is connected and has not asked",
        check: waiting::groups_are_incomplete,
    },
];
