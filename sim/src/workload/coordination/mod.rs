//! Those who use the coordination service: tasks of jobs, clients that misbehave, people who reset
//! namespaces.

mod act;
mod agent;
mod marks;
mod meddler;
mod resetter;
mod task;

use std::sync::Arc;

pub use self::agent::AgentTask;
pub use self::meddler::Meddler;
pub use self::resetter::Resetter;
pub use self::task::Task;
use super::actor::{Actor, With};
use crate::rng::Stream;
use crate::swarm::{NamespaceShape, Swarm, namespace_name};

/// Kinds of keys: each is a directory of its own.
const DIRECTORIES: [&str; 3] = ["k", "d", "c"];

/// All actors of a run, the tasks first, job by job.
pub fn cast(swarm: &Swarm) -> Vec<Box<dyn Actor + Send>> {
    let mut cast: Vec<Box<dyn Actor + Send>> = Vec::new();
    let Some(shape) = &swarm.coordination else {
        return cast;
    };
    for (job, namespace) in (0..).zip(&shape.namespaces) {
        for index in 0..namespace.tasks_max() {
            let number = u32::try_from(cast.len()).unwrap_or(0);
            let relay = shape.relay_of(job, index);
            cast.push(match namespace.agents {
                true => Box::new(AgentTask::new(job, index, number, namespace).behind(relay)),
                false => Box::new(Task::new(job, index, number, namespace).behind(relay)),
            });
        }
    }
    for number in 0..shape.meddlers {
        cast.push(Box::new(Meddler::new(number)));
    }
    for number in 0..shape.resetters {
        cast.push(Box::new(Resetter::new(number)));
    }
    cast
}

/// The name of a job's namespace.
fn namespace_of(job: u32) -> Arc<str> {
    namespace_name(job).into()
}

/// Some namespace with its number, mostly one that is there.
fn some_namespace<'a>(with: &mut With<'a>) -> Option<(u32, &'a NamespaceShape)> {
    let shape = with.swarm.coordination.as_ref()?;
    let number = with.stream.below(shape.namespaces.len() as u64);
    let index = usize::try_from(number).ok()?;
    Some((u32::try_from(number).ok()?, shape.namespaces.get(index)?))
}

/// Some key, in the one or the other way to write it.
fn some_key(keys: u64, s: &mut Stream) -> String {
    let directory = s.pick(&DIRECTORIES).copied().unwrap_or("k");
    let number = s.below(keys);
    match s.below(8) {
        6 => format!("//{directory}///{number}/"),
        7 => format!("{directory}/{number}/below"),
        _ => format!("{directory}/{number}"),
    }
}

/// Some barrier.
fn some_barrier(barriers: u64, s: &mut Stream) -> Arc<str> {
    format!("b{}", s.below(barriers)).into()
}
