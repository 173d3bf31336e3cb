//! What happens by the passing of time: silent clients are released, abandoned iterations
//! collected, waiting calls answered. Silent workers are given up in [`super::lost`].

use alloc::vec::Vec;

use super::machine::{Dispatcher, Effect, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Event;
use super::state::{Client, Iteration};
use super::types::ShardingPolicy;
use crate::ids::{ClientId, IterationId};
use crate::time::Time;

impl Dispatcher {
    /// When maintenance is due, and when a waiting call gives up.
    pub fn deadlines(&self) -> (Time, Option<Time>) {
        (self.next_maintenance, self.removals.deadline())
    }

    /// Does what is due at `turn.now`; nothing when nothing is.
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        self.leases.begin_step(turn.now);
        self.do_what_is_due(turn);
        self.leases.end_step(&self.state);
    }

    fn do_what_is_due(&mut self, turn: &mut Turn<'_>) {
        self.expire_removals(turn);
        self.lose_silent_workers(turn);
        self.give_up_silent_readers(turn);
        if turn.now < self.next_maintenance {
            return;
        }
        self.next_maintenance = turn.now.after(self.config.job_gc_check_interval);
        if turn.log.refuses().is_some() {
            return;
        }
        // A record that does not fit has already asked the node to stop; there is nobody to tell.
        if let Ok(true) = self.maintain(turn) {
            self.next_maintenance = turn.now;
        }
    }

    /// One slice of maintenance. True when there is more to do at once.
    fn maintain(&mut self, turn: &mut Turn<'_>) -> Result<bool, Refusal> {
        let silent = self.silent_clients(turn.now);
        let more = silent.len() >= self.config.bounds.expiries_per_step;
        for client in silent {
            self.part_with(turn, client)?;
            turn.out.push(Effect::Observe(Event::ClientExpired { client }));
        }
        let due = self.iterations_to_end(turn.now);
        let more = more || due.len() >= self.config.bounds.expiries_per_step;
        for (id, ending) in due {
            self.end_iteration(turn, id, ending)?;
        }
        let more = self.free_unused(turn)? || more;
        Ok(more)
    }

    fn silent_clients(&self, now: Time) -> Vec<ClientId> {
        let clients = self.state.clients().values();
        let silent = clients.filter(|client| self.is_silent(client, now));
        silent.take(self.config.bounds.expiries_per_step).map(|client| client.id).collect()
    }

    /// Before its first heartbeat a client is given longer: it may build its pipeline long before
    /// it reads. But not for ever, or a trainer that died in between would pin its iteration.
    /// Those that hold splits are looked at in [`super::readers`]. Time in which the machine was held
    /// up counts for neither.
    fn is_silent(&self, client: &Client, now: Time) -> bool {
        if !client.splits.is_empty() {
            return false;
        }
        match self.leases.client_silence(client.id, now) {
            Some(silence) => silence > self.config.client_timeout,
            None => {
                let awaited = self.leases.client_awaited(client.id, now);
                awaited > self.config.client_first_heartbeat_timeout
            }
        }
    }

    /// Unfinished iterations without clients whose time is over.
    fn iterations_to_end(&self, now: Time) -> Vec<(IterationId, Ending)> {
        let open = self.state.open_iterations().iter();
        let open = open.filter_map(|id| self.state.iterations().get(id));
        let due =
            open.filter_map(|iteration| Some((iteration.id, self.ending_of(iteration, now)?)));
        due.take(self.config.bounds.expiries_per_step).collect()
    }

    fn ending_of(&self, iteration: &Iteration, now: Time) -> Option<Ending> {
        let released = iteration.last_release.filter(|_| iteration.clients.is_empty())?;
        let job = self.state.jobs().get(&iteration.job);
        let is_dynamic = job.is_some_and(|job| job.sharding == ShardingPolicy::Dynamic);
        let is_over = |retention| self.is_over(released, released, retention, now);
        if self.config.gc_dynamic_sharding_jobs || !is_dynamic {
            return is_over(self.config.job_gc_timeout).then_some(Ending::Collected);
        }
        let retention = self.config.abandoned_iteration_retention;
        (is_over(retention) && self.may_free(retention, now)).then_some(Ending::Abandoned)
    }

    fn end_iteration(
        &mut self,
        turn: &mut Turn<'_>,
        id: IterationId,
        ending: Ending,
    ) -> Result<(), Refusal> {
        let at = turn.now;
        let record = match ending {
            Ending::Collected => Record::CollectIteration { id, at },
            Ending::Abandoned => Record::AbandonIteration { id, at },
        };
        self.commit(turn, [record])?;
        self.forget_of_iteration(id);
        let iteration = self.state.iterations().get(&id);
        let job = iteration.and_then(|of| Some((of.repetition, self.state.jobs().get(&of.job)?)));
        turn.out.extend(job.map(|(repetition, job)| {
            let job_name = job.name.clone();
            Effect::Observe(match ending {
                Ending::Collected => Event::IterationCollected { job_name, repetition },
                Ending::Abandoned => Event::IterationAbandoned { job_name, repetition },
            })
        }));
        Ok(())
    }

    /// Nobody reads an iteration any more: drops what only this process remembers of it.
    pub(super) fn forget_of_iteration(&mut self, id: IterationId) {
        self.views.remove(&id);
        self.rounds.remove(&id);
        self.leases.forget_iteration(id);
    }
}

/// How an iteration without clients ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// A client that comes gets a new iteration, as TensorFlow has it.
    Collected,
    /// A client that comes is told that the rest is given up.
    Abandoned,
}
