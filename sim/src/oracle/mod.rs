//! What must hold whatever goes wrong: one promise a file.
//!
//! Oracles see what crosses the node's border and what is on its disk: requests, answers, records,
//! deaths, recovered states. They know no event loop, so both tiers use the same ones.

mod acknowledged;
mod again;
mod agents;
mod agreement;
mod alive;
mod answers;
mod balance;
mod barriers;
mod collection;
mod consumed;
mod coordinated;
mod cost;
mod durable;
mod elements;
mod errors;
mod exactly_once;
pub mod exchange;
mod forgotten;
mod identity;
mod in_time;
mod invariants;
mod invented;
mod isolation;
mod jobs;
mod journaled;
mod kept;
mod keys;
mod leftover;
mod liveness;
mod memory;
mod patience;
mod progress;
mod punctual;
mod reading;
mod refusals;
mod refused;
mod relays;
pub mod rendezvous;
mod repetitions;
mod replay;
mod rounds;
mod seen;
mod seen_kind;
pub mod shadow;
mod shards;
mod silence;
mod size;
mod splits;
mod stalls;
mod start;
mod votes;
mod watches;

use rondo_core::control::Recovered;
use rondo_core::dispatcher::Config;
use rondo_core::time::Time;

pub use self::patience::Patience;
pub use self::seen::{Caller, Relayed, Seen, Waiting};
use self::seen_kind::SeenKind;
use self::shadow::Shadow;
use crate::fault::Faults;
use crate::swarm::{CoordinationShape, ElementsShape, ReadingShape, Swarm};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which one: the oracle's name, and for an invariant its number.
    pub promise: String,
    /// What was seen.
    pub text: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.promise, self.text)
    }
}

/// What an oracle says of what it has seen.
pub type Verdict = Result<(), String>;

/// Says that a promise is broken, and how, if it is.
fn broken_if(is_broken: bool, how: impl FnOnce() -> String) -> Verdict {
    if is_broken { Err(how()) } else { Ok(()) }
}

/// Watches one promise.
pub trait Oracle: Send {
    /// The promise's name.
    fn name(&self) -> &'static str;

    /// Whether what it knows is of others than the node, and stays when the node begins anew.
    fn outlives_disk(&self) -> bool {
        false
    }

    /// What it watches: it is shown nothing else.
    fn watches(&self) -> &'static [SeenKind];

    /// Sees something at the node's own time `now`.
    ///
    /// # Errors
    /// What breaks the promise.
    fn see(&mut self, now: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict;
}

/// All oracles of a run.
pub struct Oracles {
    shadow: Shadow,
    coordination: Option<CoordinationShape>,
    reading: Option<ReadingShape>,
    elements: Option<ElementsShape>,
    faults: Faults,
    all: Vec<Box<dyn Oracle>>,
    /// For each kind of thing, by its number: the places in `all` of those that watch it.
    watching: Vec<Vec<usize>>,
    /// Whether each is shown everything.
    everything: bool,
}

/// What takes part in a run beside the dispatcher's clients.
type Shapes = (Option<CoordinationShape>, Option<ReadingShape>, Option<ElementsShape>);

impl Oracles {
    /// All that watch a run of this configuration.
    pub fn new(swarm: &Swarm) -> Self {
        let shapes = (swarm.coordination.clone(), swarm.reading, swarm.elements);
        Self::with(&swarm.settings, shapes, swarm.faults.clone())
    }

    fn with(settings: &Config, (coordination, reading, elements): Shapes, faults: Faults) -> Self {
        let mut all = all(settings, coordination.as_ref());
        if coordination.as_ref().is_some_and(|shape| !shape.relays.is_empty()) {
            all.push(Box::new(keys::Keys::through_relays()));
        }
        all.push(Box::new(punctual::Punctual::new(coordination.as_ref(), &faults)));
        all.push(Box::new(forgotten::Forgotten::new(&faults)));
        all.push(Box::new(in_time::InTime::new(settings.clone(), &faults)));
        all.push(Box::new(balance::Balance::new(elements.is_none())));
        all.push(Box::new(reading::Reading::new(reading)));
        all.push(Box::new(consumed::Consumed::default()));
        all.push(Box::new(elements::Elements::new(elements)));
        all.push(Box::new(coordinated::Coordinated::new(elements)));
        let watching = watching(&all);
        let (shadow, everything) = (Shadow::default(), false);
        Self { shadow, coordination, reading, elements, faults, all, watching, everything }
    }

    /// Each is shown everything from here on, not only what it says it watches.
    pub fn show_everything(&mut self) {
        self.everything = true;
    }

    /// The node begins anew with nothing, on another disk: all that was told before is over.
    pub fn begin_anew(&mut self, settings: &Config) {
        let kept = std::mem::take(&mut self.all).into_iter().filter(|of| of.outlives_disk());
        let kept: Vec<_> = kept.collect();
        let shapes = (self.coordination.take(), self.reading, self.elements);
        let everything = self.everything;
        *self = Self::with(settings, shapes, self.faults.clone());
        self.all.retain(|of| !of.outlives_disk());
        self.all.extend(kept);
        self.watching = watching(&self.all);
        self.everything = everything;
    }

    /// The journal was written anew while the node was down, and makes this state.
    pub fn journal_rewritten(&mut self, state: &Recovered) {
        self.shadow.replace(state);
    }

    /// Names of all of them, and of what the shadow watches.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.all.iter().map(|oracle| oracle.name())
    }

    /// The durable state that the records seen so far make.
    pub const fn shadow(&self) -> &Shadow {
        &self.shadow
    }

    /// Lets those of them see something that watch it.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn see(&mut self, now: Time, seen: &Seen<'_>) -> Result<(), Broken> {
        let replay = |text| broken("replay", text);
        self.shadow.before(seen).map_err(replay)?;
        let kind = SeenKind::of(seen);
        if self.everything {
            for oracle in self.all.iter_mut().filter(|of| !of.watches().contains(&kind)) {
                show(oracle.as_mut(), now, seen, &self.shadow)?;
            }
        }
        for place in self.watching.get(kind as usize).into_iter().flatten() {
            if let Some(oracle) = self.all.get_mut(*place) {
                show(oracle.as_mut(), now, seen, &self.shadow)?;
            }
        }
        self.shadow.after(seen).map_err(replay)
    }
}

/// Shows an oracle something.
fn show(
    oracle: &mut dyn Oracle,
    now: Time,
    seen: &Seen<'_>,
    shadow: &Shadow,
) -> Result<(), Broken> {
    oracle.see(now, seen, shadow).map_err(|text| broken(oracle.name(), text))
}

/// For each kind of thing: the places of those that watch it.
fn watching(all: &[Box<dyn Oracle>]) -> Vec<Vec<usize>> {
    let places = |kind: &SeenKind| {
        let watch = all.iter().enumerate().filter(|(_, oracle)| oracle.watches().contains(kind));
        watch.map(|(place, _)| place).collect()
    };
    SeenKind::ALL.iter().map(places).collect()
}

/// One of each, for these settings.
fn all(settings: &Config, coordination: Option<&CoordinationShape>) -> Vec<Box<dyn Oracle>> {
    vec![
        Box::new(answers::Answers::default()),
        Box::new(acknowledged::Acknowledged::default()),
        Box::new(durable::Durable::default()),
        Box::new(invented::Invented),
        Box::new(replay::Replay),
        Box::new(kept::KeptState::default()),
        Box::new(splits::Splits::new(settings.reissue_lost_splits)),
        Box::new(exactly_once::ExactlyOnce::new(settings.reissue_lost_splits)),
        Box::new(again::Again::new(settings.reissue_lost_splits)),
        Box::new(repetitions::Repetitions::default()),
        Box::new(rounds::Rounds::default()),
        Box::new(agreement::Agreement::default()),
        Box::new(votes::Votes::default()),
        Box::new(identity::Identity::default()),
        Box::new(shards::Shards::new(settings)),
        Box::new(collection::Collection::new(settings.clone())),
        Box::new(invariants::Invariants),
        Box::new(start::Start),
        Box::new(liveness::Liveness),
        Box::new(progress::Progress::new(settings.clone())),
        Box::new(leftover::Leftover::new(settings.clone())),
        Box::new(keys::Keys::default()),
        Box::new(relays::Relays::default()),
        Box::new(barriers::Barriers::new(coordination)),
        Box::new(refused::Refused::default()),
        Box::new(agents::Agents::default()),
        Box::new(alive::Alive::default()),
        Box::new(errors::Errors::new(coordination)),
        Box::new(watches::Watches::default()),
        Box::new(isolation::Isolation::default()),
        Box::new(silence::Silence::new(coordination)),
        Box::new(refusals::Refusals::default()),
        Box::new(size::Size::default()),
        Box::new(cost::Cost),
        Box::new(memory::MemoryLeft::default()),
    ]
}

/// An invariant's number belongs to the promise.
fn broken(name: &str, text: String) -> Broken {
    let number = text.split(' ').next().filter(|_| name == "invariant");
    let promise = number.map_or_else(|| name.to_owned(), |number| format!("{name} {number}"));
    Broken { promise, text }
}
