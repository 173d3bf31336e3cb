//! What the rendezvous promises, watched at the border of each worker's machine and at its users'.
//!
//! A ledger follows what goes into a machine and what comes out of it, and knows from that alone who
//! waits and what is held; it shares no code with the machine.

mod book;
mod ending;
mod fetching;
mod ledger;
mod quiet;
mod receiving;
mod refused;
mod sending;

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::element::Tensor;
use rondo_core::ids::StepId;
use rondo_core::rendezvous::{Config, Delivery, Effect, Input, Key, Rendezvous, Value, check};
use rondo_core::time::Time;

use self::book::serial_of;
use self::ledger::Ledger;
use super::{Broken, Waiting, broken};
use crate::checks::{Check, reached};
use crate::turns::InvariantTurns;

/// Names of these promises.
pub const NAMES: [&str; 11] = [
    "delivery",
    "turn",
    "told",
    "ended",
    "room",
    "repeated",
    "fetch",
    "expiry",
    "invariant",
    "leftover",
    "liveness",
];

/// What the oracles see.
#[derive(Clone, Copy, Debug)]
pub enum Met<'a> {
    /// A worker's process began with these settings.
    Began {
        /// The worker.
        worker: u32,
        /// Its name.
        name: &'a str,
        /// The settings.
        config: &'a Config,
    },
    /// A worker's process is gone.
    Died {
        /// The worker.
        worker: u32,
    },
    /// A worker's machine took an input.
    Stepped {
        /// The worker.
        worker: u32,
        /// Its own time.
        now: Time,
        /// The input.
        input: &'a Input<Tensor>,
        /// What came of it.
        effects: &'a [Effect<Tensor>],
        /// The machine afterwards.
        machine: &'a Rendezvous<Tensor>,
    },
    /// A tensor was made to be sent.
    Made {
        /// The step.
        step: StepId,
        /// The key.
        key: &'a Key,
        /// The tensor.
        value: &'a Value<Tensor>,
    },
    /// Somebody who wanted a tensor has it.
    Received {
        /// The step.
        step: StepId,
        /// The key.
        key: &'a Key,
        /// The tensor.
        delivery: &'a Delivery<Tensor>,
    },
    /// All steps of a worker are over, or were given up, and nothing must be left.
    Emptied {
        /// The worker.
        worker: u32,
        /// Its machine.
        machine: &'a Rendezvous<Tensor>,
    },
    /// A worker's machine long after everything healed: nobody waits for a tensor that is there.
    Waits {
        /// The worker that waits.
        worker: u32,
        /// The worker whose tensor it waits for.
        source: u32,
        /// The step.
        step: StepId,
        /// The key.
        key: &'a Key,
    },
    /// Everything healed so long ago that all must have got on.
    HealedLongAgo {
        /// Who has not.
        waiting: &'a [Waiting],
    },
}

/// A tensor as it was made.
#[derive(Clone, Debug)]
struct Made {
    step: StepId,
    key: String,
    value: Value<Tensor>,
}

fn holds(machine: &Rendezvous<Tensor>) -> Result<(), Broken> {
    reached(Check::RendezvousInvariant);
    check(machine).map_err(|violation| broken("invariant", violation.to_string()))
}

/// All that watch the rendezvous of a run.
#[derive(Debug, Default)]
pub struct Oracles {
    turns: InvariantTurns,
    ledgers: BTreeMap<u32, Ledger>,
    made: BTreeMap<u64, Made>,
    received: BTreeSet<u64>,
}

impl Oracles {
    /// Lets them see something.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn see(&mut self, met: &Met<'_>) -> Result<(), Broken> {
        match *met {
            Met::Began { worker, name, config } => {
                self.ledgers.insert(worker, Ledger::new(name, config.clone()));
                Ok(())
            }
            Met::Died { worker } => {
                self.ledgers.remove(&worker);
                Ok(())
            }
            Met::Stepped { worker, now, input, effects, machine } => {
                if self.turns.is_due() {
                    holds(machine)?;
                }
                let ledger = self.ledgers.get_mut(&worker);
                let seen = ledger.map_or(Ok(()), |it| it.see(now, input, effects, machine));
                seen.map_err(|it| Broken { text: format!("worker {worker}: {}", it.text), ..it })
            }
            Met::Made { step, key, value } => {
                let (key, value) = (key.text().to_owned(), value.clone());
                if let Some(serial) = serial_of(&value.tensor) {
                    self.made.insert(serial, Made { step, key, value });
                }
                Ok(())
            }
            Met::Received { step, key, delivery } => self.received(step, key, delivery),
            Met::Emptied { worker, machine } => emptied(worker, machine),
            Met::Waits { worker, source, step, key } => self.waits(worker, source, step, key),
            Met::HealedLongAgo { waiting } => all_got_on(waiting),
        }
    }

    fn received(
        &mut self,
        step: StepId,
        key: &Key,
        delivery: &Delivery<Tensor>,
    ) -> Result<(), Broken> {
        let wrong = |text: String| Err(broken("delivery", text));
        let serial = serial_of(&delivery.value.tensor);
        let Some((serial, made)) =
            serial.and_then(|serial| Some((serial, self.made.get(&serial)?)))
        else {
            return wrong(format!("what was received under {} was never made", key.text()));
        };
        if (made.step, made.key.as_str()) != (step, key.text()) {
            let Made { step: of, key: under, .. } = made;
            return wrong(format!(
                "tensor {serial} of step {of} under {under} was received in step {step} under {}",
                key.text()
            ));
        }
        reached(Check::RendezvousDelivery);
        if made.value != delivery.value {
            return wrong(format!("tensor {serial} is not what it was when it was sent"));
        }
        if !self.received.insert(serial) {
            return wrong(format!("tensor {serial} of step {step} was received twice"));
        }
        Ok(())
    }

    /// Somebody waits, long after all is well; what it waits for must not be there.
    fn waits(&self, worker: u32, source: u32, step: StepId, key: &Key) -> Result<(), Broken> {
        let there = self.ledgers.get(&source).and_then(|ledger| ledger.offers(step, key));
        match there {
            None => Ok(()),
            Some(serial) => Err(broken(
                "liveness",
                format!(
                    "worker {worker} waits in step {step} for {}, and worker {source} has tensor {serial}",
                    key.text()
                ),
            )),
        }
    }
}

fn all_got_on(waiting: &[Waiting]) -> Result<(), Broken> {
    reached(Check::RendezvousLiveness);
    match waiting.first() {
        None => Ok(()),
        Some(Waiting { who, what }) => {
            let all = waiting.len();
            Err(broken("liveness", format!("{who} has not got on: {what} ({all} in all)")))
        }
    }
}

fn emptied(worker: u32, machine: &Rendezvous<Tensor>) -> Result<(), Broken> {
    reached(Check::RendezvousLeftover);
    let report = machine.report();
    if report == rondo_core::rendezvous::Report::default() {
        return Ok(());
    }
    Err(broken("leftover", format!("worker {worker} still has {report:?}")))
}
