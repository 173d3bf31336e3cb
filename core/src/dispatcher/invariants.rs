//! What holds of the dispatcher between two steps.

mod by_split;
mod graph;
mod lost;
mod progress;
#[cfg(test)]
mod tests;
mod volatile;

pub(crate) use volatile::DISPATCHER_INVARIANTS;

use super::state::State;
use crate::invariant::Invariant;

/// The invariants of the durable state.
pub(crate) const STATE_INVARIANTS: &[Invariant<State>] = &[
    Invariant {
        number: "D1",
        sentence: "every task's iteration and worker, every iteration's job and every client's \
                   iteration exist",
        check: graph::references_resolve,
    },
    Invariant {
        number: "D2",
        sentence: "a task stands exactly once in the active list or the pending queue of its own \
                   iteration, and nothing else stands there",
        check: graph::tasks_are_placed_once,
    },
    Invariant {
        number: "D3",
        sentence: "a worker's task set is the set of its unfinished tasks",
        check: graph::workers_have_their_unfinished_tasks,
    },
    Invariant {
        number: "D4",
        sentence: "the open indexes hold the unfinished iterations, and those of coordinated reads",
        check: graph::open_indexes_agree,
    },
    Invariant {
        number: "D5",
        sentence: "an iteration's clients are the clients that name it",
        check: graph::clients_agree,
    },
    Invariant {
        number: "D6",
        sentence: "a finished iteration has neither unfinished nor pending tasks; a collected one \
                   is finished",
        check: progress::finished_iterations_are_over,
    },
    Invariant {
        number: "D7",
        sentence: "only iterations with DYNAMIC sharding have split positions, each within its \
                   source and in a pass from 0 on",
        check: progress::split_positions_are_in_range,
    },
    Invariant {
        number: "D8",
        sentence: "every counter is above all ids given, and the next dataset id is free",
        check: graph::counters_are_ahead,
    },
    Invariant {
        number: "D9",
        sentence: "the consumers ready for a pending task are clients of its iteration and fewer \
                   than num_consumers",
        check: progress::ready_consumers_are_clients,
    },
    Invariant {
        number: "D10",
        sentence: "names, addresses and keys lead to what bears them",
        check: graph::names_lead_to_their_bearers,
    },
    Invariant {
        number: "D11",
        sentence: "a job's repetition has at most one iteration that is not collected, its newest",
        check: progress::one_live_iteration_per_key,
    },
    Invariant {
        number: "D12",
        sentence: "pending tasks are unfinished and belong to coordinated reads; only the front \
                   one has been negotiated",
        check: progress::pending_tasks_are_negotiable,
    },
    Invariant {
        number: "D13",
        sentence: "num_consumers is absent or from 1 to its bound",
        check: progress::consumer_counts_are_in_range,
    },
    Invariant {
        number: "D14",
        sentence: "datasets with equal content share one definition, kept as long as one has it",
        check: graph::definitions_are_shared,
    },
    Invariant {
        number: "D18",
        sentence: "the idle index holds the iterations, jobs and datasets that nobody uses, by the \
                   time since when",
        check: graph::idle_index_agrees,
    },
    Invariant {
        number: "D19",
        sentence: "a job waits at a position that exists, to begin there what is not finished there",
        check: graph::positions_agree,
    },
    Invariant {
        number: "D20",
        sentence: "a job that was freed has another name than those that are there; no job continues a \
                   later one; the tasks of each worker are known",
        check: graph::what_is_left_agrees,
    },
    Invariant {
        number: "D41",
        sentence: "a worker has at most one unfinished task of an iteration, found by both; a lost \
                   worker has unfinished tasks in coordinated reads only",
        check: lost::tasks_are_where_workers_are,
    },
    Invariant {
        number: "D42",
        sentence: "a split that was handed out is with at most one unfinished task, or waits to be \
                   handed out again; finished tasks have none",
        check: lost::splits_are_in_one_place,
    },
    Invariant {
        number: "D43",
        sentence: "nothing waits to be handed out again in a finished iteration, nor is held; without \
                   coordination an open one whose tasks are all finished has something that does or is",
        check: lost::iterations_stay_open_for_splits,
    },
    Invariant {
        number: "D44",
        sentence: "no more unattributed splits are in doubt, or lie before a task, than were handed \
                   out",
        check: lost::doubts_are_bounded,
    },
    Invariant {
        number: "D45",
        sentence: "a split that was handed to a client is held by at most one, or waits for one, and \
                   no task has it",
        check: by_split::held_splits_are_in_one_place,
    },
];
