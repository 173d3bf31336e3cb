//! The table of heartbeats in `docs/round_robin.md`, row by row: in every situation exactly one row
//! speaks, and the dispatcher does what it says.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::dispatcher::{Part, PendingTask, Record, State};
use rondo_core::ids::{ClientId, TaskId};

use crate::dispatcher::Real;
use crate::table_language::{Fate, Ready, Row, Situation, rows};
use crate::world::client_of;

const PAGE: &str = include_str!("../../../docs/round_robin.md");
/// The first task that came after the read had begun with one worker.
const FRONT: TaskId = TaskId::new(4001);
/// The proposal for the front task, and for the one behind it.
const TARGETS: (i64, i64) = (10, 12);

#[test]
fn the_dispatcher_does_what_the_table_says() {
    let rows = rows(PAGE);
    assert_eq!(rows.len(), 8, "rows of the table");
    let mut spoken: BTreeMap<usize, u32> = BTreeMap::new();
    for situation in situations() {
        for queued in [false, true] {
            let speak: Vec<usize> =
                (0..rows.len()).filter(|row| rows[*row].is_about(&situation)).collect();
            let [row] = speak[..] else {
                panic!("rows {speak:?} speak of {situation:?}");
            };
            *spoken.entry(row).or_default() += 1;
            try_row(&rows[row], &situation, queued);
        }
    }
    let silent = (0..rows.len()).filter(|row| !spoken.contains_key(row));
    assert_eq!(silent.count(), 0, "rows are about nothing: {spoken:?}");
}

/// Every number of consumers, ready set, heartbeat around what matters, and rounds of the others.
fn situations() -> Vec<Situation> {
    let mut situations = Vec::new();
    for n in 1..=3 {
        for (ready, client_is_ready) in readies(n) {
            for failures in [0, 1, 3] {
                for others_latest in [0, 7, 9] {
                    for c in [None, Some(0), Some(8), Some(9), Some(10), Some(11), Some(40)] {
                        let situation = Situation {
                            n,
                            front: Some((TARGETS.0, failures)),
                            ready,
                            client_is_ready,
                            c,
                            b: None,
                            others_latest,
                        };
                        situations.extend(blocked(&situation));
                    }
                }
            }
        }
    }
    let idle = Situation { front: None, ready: 0, client_is_ready: false, ..situations[0] };
    situations.extend([None, Some(0), Some(10)].map(|c| Situation { c, ..idle }));
    situations
}

/// How many may be ready, and whether the client is among them.
fn readies(n: usize) -> Vec<(usize, bool)> {
    let sizes = 0..n;
    sizes
        .flat_map(|ready| [(ready, false), (ready, true)])
        .filter(|(ready, client)| *ready > 0 || !client)
        .collect()
}

/// The same heartbeat with every blocked round around the proposals.
fn blocked(situation: &Situation) -> Vec<Situation> {
    let (target, next) = (TARGETS.0, situation.next_target());
    let rounds = BTreeSet::from([0, target - 1, target, target + 1, next - 1, next, next + 1]);
    let rounds = rounds.into_iter().map(Some).chain([None]);
    rounds.map(|b| Situation { b, ..*situation }).collect()
}

#[track_caller]
fn try_row(row: &Row, situation: &Situation, queued: bool) {
    let mut real = dispatcher(situation, queued);
    let before = ready(&real);
    if situation.n > 1 || situation.others_latest > 0 {
        // Somebody who is not blocked, and not past the proposal, changes nothing but this.
        let other = client_of(situation.n);
        let (records, _) = real.heartbeat(other, Some(situation.others_latest), None);
        assert_eq!(records, []);
    }
    let client = client_of(0);
    let (records, reply) = real.heartbeat(client, situation.c, situation.b);
    let names: Vec<&str> = records.iter().map(name).collect();
    assert_eq!(names, row.records, "{row:?} in {situation:?}");
    let after = queued.then_some(TARGETS.1);
    let block_round = situation.block_round(&row.block_round, after);
    assert_eq!(reply.block_round, block_round, "{row:?} in {situation:?}");
    let fate = situation.becomes(&row.state);
    check_fate(&real, fate, &before, queued);
    let promoted = matches!(fate, Fate::Promoted(_));
    assert_eq!(reply.tasks.len(), 1 + usize::from(promoted), "{row:?}");
    real.check().unwrap();
}

#[track_caller]
fn check_fate(real: &Real, fate: Fate, before: &BTreeSet<ClientId>, queued: bool) {
    let front = real.iteration().pending.front();
    let (target, failures, who) = match fate {
        Fate::None => return assert_eq!(front, None),
        Fate::Promoted(round) => {
            assert_eq!(real.iteration().tasks.last(), Some(&FRONT));
            assert_eq!(real.starting_round(FRONT), round);
            return assert_eq!(real.iteration().pending.len(), usize::from(queued));
        }
        Fate::Pending { target, failures, ready } => (target, failures, ready),
    };
    let client = BTreeSet::from([client_of(0)]);
    let ready = match who {
        Ready::AsBefore => before.clone(),
        Ready::AndClient => before | &client,
        Ready::Nobody => BTreeSet::new(),
        Ready::Client => client,
    };
    let expected = PendingTask { task: FRONT, target_round: target, failures, ready };
    assert_eq!(front, Some(&expected));
}

fn ready(real: &Real) -> BTreeSet<ClientId> {
    let front = real.iteration().pending.front();
    front.map(|front| front.ready.clone()).unwrap_or_default()
}

fn name(record: &Record) -> &'static str {
    match record {
        Record::AcceptRound { .. } => "AcceptRound",
        Record::RejectRound { .. } => "RejectRound",
        other => panic!("a heartbeat writes {other:?}"),
    }
}

/// A dispatcher in the situation, with one more client than consumers, and a second pending task.
fn dispatcher(situation: &Situation, queued: bool) -> Real {
    let mut real = Real::reading(situation.n, 1);
    real.join();
    let Some((target, failures)) = situation.front else {
        return real;
    };
    real.worker(1);
    if queued {
        real.worker(2);
    }
    let mut state = State::default();
    for part in real.state().parts() {
        let part = match part {
            Part::Iteration(mut iteration) => {
                for pending in &mut iteration.pending {
                    pending.target_round = TARGETS.1;
                }
                let front = iteration.pending.front_mut().unwrap();
                (front.target_round, front.failures) = (target, failures);
                front.ready = ready_clients(situation);
                Part::Iteration(iteration)
            }
            other => other,
        };
        state.restore(part).unwrap();
    }
    let real = Real::of(state);
    real.check().unwrap();
    real
}

/// Clients from the second on, but for the first if it is among them.
fn ready_clients(situation: &Situation) -> BTreeSet<ClientId> {
    let first = usize::from(!situation.client_is_ready);
    (first..first + situation.ready).map(client_of).collect()
}
