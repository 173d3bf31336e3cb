//! What must hold of every step and every state.

use rondo_core::dispatcher::{PendingTask, Record};
use rondo_core::ids::TaskId;

use crate::consumer::{Call, Consumer, Listed, Told};
use crate::dispatcher::{Outcome, Real};
use crate::world::{World, client_of};

/// A step keeps the list's order, raises proposals only, and adds no task that some consumer may
/// begin to read a round without.
pub(crate) fn step(before: &Real, world: &World) -> Result<(), String> {
    let iteration = world.real.iteration();
    let list = &before.iteration().tasks;
    let mut kept = list.clone();
    kept.retain(|task| iteration.tasks.contains(task));
    if !iteration.tasks.starts_with(&kept) {
        return Err(format!("the list {:?} became {:?}", list, iteration.tasks));
    }
    for task in &iteration.tasks[kept.len()..] {
        promoted(world, *task)?;
    }
    for pending in &iteration.pending {
        proposed(before, world, pending)?;
    }
    Ok(())
}

fn proposed(before: &Real, world: &World, pending: &PendingTask) -> Result<(), String> {
    let (task, target) = (pending.task, pending.target_round);
    let known = before.iteration().pending.iter().find(|p| p.task == task);
    let earlier = known.map_or(i64::MIN, |p| p.target_round);
    if target < earlier {
        return Err(format!("the proposal for {task} went from {earlier} to {target}"));
    }
    if target > earlier && target <= world.latest {
        let latest = world.latest;
        return Err(format!("{target} is proposed for {task}, but {latest} was reported"));
    }
    Ok(())
}

fn promoted(world: &World, task: TaskId) -> Result<(), String> {
    let round = world.real.starting_round(task);
    for (at, consumer) in world.consumers.iter().enumerate() {
        if !stops_before(consumer, round) {
            return Err(format!(
                "task {task} is added from round {round} on, but consumer {at} may be past it"
            ));
        }
    }
    Ok(())
}

/// Whether a consumer has not begun a round, and will not until it hears an answer to a heartbeat
/// that it has yet to hear.
fn stops_before(consumer: &Consumer, round: i64) -> bool {
    consumer.next <= round && consumer.limit.is_some_and(|limit| limit <= round)
}

/// Whoever counts as ready waits.
pub(crate) fn ready(world: &World) -> Result<(), String> {
    if let Some(front) = world.real.iteration().pending.front() {
        for (at, consumer) in world.consumers.iter().enumerate() {
            let counts = front.ready.contains(&client_of(at));
            if counts && !stops_before(consumer, front.target_round) {
                return Err(format!(
                    "consumer {at} counts as ready for {}, but is not",
                    front.task
                ));
            }
        }
    }
    Ok(())
}

/// A heartbeat's answer has the whole list, in order, and the proposal for the front task.
pub(crate) fn told(world: &World, told: &Told) -> Result<(), String> {
    let iteration = world.real.iteration();
    let list = iteration.tasks.iter();
    let list: Vec<Listed> = list.map(|task| (*task, world.real.starting_round(*task))).collect();
    let front = iteration.pending.front();
    let block_round = front.map(|front| front.target_round);
    let right = Told { list, block_round };
    if *told != right {
        return Err(format!("{told:?} instead of {right:?}"));
    }
    Ok(())
}

/// A consumer that begins a round asks for what all others ask for in it, in the same order.
pub(crate) fn begun(world: &mut World, at: usize) -> Result<(), String> {
    let consumer = &world.consumers[at];
    let round = consumer.begun();
    let others = world.ledger.entry(round);
    let others = others.or_insert_with(|| consumer.asked.clone());
    if *others != consumer.asked {
        return Err(format!(
            "in round {round} consumer {at} reads {:?}, another {others:?}",
            consumer.asked
        ));
    }
    Ok(())
}

/// A task is given up only when all consumers wait for that, in one round.
pub(crate) fn removed(world: &World, outcome: &Outcome) -> Result<(), String> {
    for record in &outcome.records {
        let Record::RemoveTask { id, again: false } = record else {
            return Err(format!("a call to give a task up leads to {record:?}"));
        };
        let round = world.consumers[0].begun();
        let agree =
            |consumer: &Consumer| consumer.call == Call::Waiting(*id) && consumer.begun() == round;
        if !world.consumers.iter().all(agree) {
            return Err(format!("task {id} is given up, but not by all in one round"));
        }
    }
    Ok(())
}
