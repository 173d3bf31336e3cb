//! One run from its seed to its end.

use std::sync::Arc;
use std::time::Duration;

use madsim::Config;
use madsim::runtime::Runtime;

use super::book::elapsed_ns;
use super::ending::end;
use super::trouble;
use super::world::{Machine, World, lock};
use crate::checks::Checks;
use crate::mark::Tally;
use crate::oracle::Broken;
use crate::rng::{Source, Tape};
use crate::swarm::Swarm;
use crate::trace::Trace;
use crate::workload::kind::Outcomes;
use crate::world::{Outcome, RunOptions};

/// How often the supervisor looks whether a process is missing.
const LOOK: Duration = Duration::from_millis(100);

/// Runs a whole run from a seed.
///
/// A run has a thread of its own: what the simulated runtime keeps per thread begins anew.
pub fn run(source: &Source, options: RunOptions) -> Outcome {
    let (swarm, _) = match options.standard {
        true => Swarm::standard(source),
        false => Swarm::draw(source),
    };
    let swarm = swarm.for_dispatcher();
    let (source, of) = (source.clone(), swarm.clone());
    let seed = source.first_of("runtime");
    let thread = std::thread::spawn(move || {
        let runtime = Runtime::with_seed_and_config(seed, Config::default());
        runtime.block_on(live(of, source, options))
    });
    thread.join().unwrap_or_else(|panic| panicked(swarm, panic.as_ref()))
}

/// A panic anywhere is a broken promise too.
fn panicked(swarm: Swarm, panic: &(dyn std::any::Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
    let broken = Broken { promise: "panic".to_owned(), text: text.to_owned() };
    Outcome {
        swarm,
        broken: Some((broken, 0)),
        hash: 0,
        events: 0,
        steps: 0,
        simulated_ns: 0,
        tally: Tally::default(),
        outcomes: Outcomes::default(),
        lines: Vec::new(),
        tape: Tape::default(),
        lanes: Vec::new(),
    }
}

async fn live(swarm: Swarm, source: Source, options: RunOptions) -> Outcome {
    let trace = if options.lines { Trace::with_lines() } else { Trace::default() };
    let world = World::new(swarm, source, trace);
    let mut stream = world.source.stream("supervisor", 0);
    world.start_control();
    for machine in world.machines() {
        if let Machine::Of(id) = machine {
            world.start_actor(id);
        }
    }
    let trouble = trouble::begin(&world);
    let span = Duration::from_millis(world.swarm.span_ms);
    let went_on = supervise(&world, span).await;
    trouble.iter().for_each(tokio::task::JoinHandle::abort);
    if went_on {
        end(&world, &mut stream).await;
    }
    close(&world).await
}

/// Begins processes anew for a span of time; false when that is of no use any more.
pub(super) async fn supervise(world: &Arc<World>, span: Duration) -> bool {
    let mut over = std::pin::pin!(tokio::time::sleep(span));
    loop {
        tokio::select! {
            biased;
            () = world.book.alarm.notified() => {
                let stops = world.book.pages().broken.is_some() || world.control().lost;
                if stops || !world.book.waits_for_a_step() {
                    return !stops;
                }
            }
            () = world.control_ended.notified() => {
                let ended = lock(&world.ended).take();
                if ended.is_some_and(|ended| !world.process_ended(&ended)) {
                    return false;
                }
            }
            () = &mut over => return world.book.pages().broken.is_none(),
            // Whatever ended the last process, the next one begins.
            () = tokio::time::sleep(LOOK) => {
                let wait = Duration::from_millis(world.swarm.journal.restart_ms);
                if world.control().is_down_for(wait) {
                    world.start_control();
                }
            }
        }
    }
}

/// Ends all processes, and says what became of the run.
async fn close(world: &Arc<World>) -> Outcome {
    let simulated_ns = elapsed_ns();
    world.kill_control(false);
    for machine in world.machines() {
        match machine {
            Machine::Of(id) => drop(world.kill_actor(id, false)),
            Machine::Control => {}
        }
    }
    // Their tasks are dropped when they are next looked at.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut lanes = vec!["node".to_owned()];
    for (_, player) in world.cast().players() {
        lanes.push(format!("{:?}", player.role()).to_lowercase());
    }
    let mut pages = world.book.pages();
    let trace = std::mem::take(&mut pages.trace);
    Outcome {
        swarm: world.swarm.clone(),
        broken: pages.broken.take(),
        hash: trace.value(),
        events: pages.events,
        steps: pages.steps,
        simulated_ns,
        tally: pages.tally.clone().with(Checks::take()),
        outcomes: pages.outcomes.clone(),
        lines: trace.into_lines(),
        tape: Tape::default(),
        lanes,
    }
}
