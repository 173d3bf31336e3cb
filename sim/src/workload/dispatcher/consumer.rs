//! A consumer: registers a dataset, joins a job and its iterations, reads them, leaves.

use rondo_core::dispatcher::{ClientHeartbeat, ClientHeartbeatReply, Reply, Request};
use rondo_core::ids::{ClientId, DatasetId, JobId, TaskId};
use rondo_core::status::Status;
use rondo_core::time::Time;

use super::plan::Plan;
use super::reader::{ReadState, Reader};
use super::{dataset, is_passing, ms, patience, pause};
use crate::fault::Fault;
use crate::workload::actor::{Act, Actor, Happening, Read, ReadAnswer, Role, With};
use crate::workload::kind::Kind;
use crate::workload::outstanding::Outstanding;

/// Wait before something is tried again, in ms.
const RETRY_MS: u64 = 150;
/// An iteration that brings nothing for so long is left, in ms.
const BORED_MS: u64 = 20_000;

/// A consumer.
#[derive(Clone, Debug)]
pub struct Consumer {
    number: u32,
    /// Whether it reads in rounds with others.
    together: bool,
    phase: Phase,
    /// When it goes on.
    at: Time,
    heartbeat_at: Time,
    plan: Option<Plan>,
    dataset: Option<DatasetId>,
    job: Option<JobId>,
    repetition: i64,
    client: Option<ClientId>,
    reader: Reader,
    calls: Outstanding<For>,
    got_on_at: Time,
    joined_at: Time,
}

/// What it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Rest,
    Register,
    Look,
    Job,
    Join,
    Read,
    Leave,
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// The phase.
    Phase(Phase),
    Heartbeat,
    Read(TaskId),
    Removal(TaskId),
}

impl Consumer {
    /// The consumer of this number, not yet begun.
    pub fn new(number: u32, together: bool) -> Self {
        Self {
            number,
            together,
            phase: Phase::Rest,
            at: Time::ZERO,
            heartbeat_at: Time::NEVER,
            plan: None,
            dataset: None,
            job: None,
            repetition: 0,
            client: None,
            reader: Reader::default(),
            calls: Outstanding::new(1),
            got_on_at: Time::ZERO,
            joined_at: Time::ZERO,
        }
    }

    fn call(&mut self, now: Time, what: For, request: Request, with: &mut With<'_>) {
        let token = self.calls.add(patience(now, with), what);
        with.acts.push(Act::Call { token, request });
    }

    fn wake(&mut self, now: Time, with: &mut With<'_>) {
        while let Some((token, what)) = self.calls.take_overdue(now) {
            with.acts.push(Act::GiveUp { token });
            self.unanswered(now, what);
        }
        if self.phase == Phase::Read {
            self.read(now, with);
        } else if now >= self.at && self.calls.is_empty() {
            self.begin(now, with);
        }
    }

    /// Begins what the phase is for.
    fn begin(&mut self, now: Time, with: &mut With<'_>) {
        if self.phase == Phase::Rest {
            self.set_out(with);
        }
        match self.request(with) {
            Some(request) => self.call(now, For::Phase(self.phase), request, with),
            None => self.rest(now, with),
        }
    }

    fn set_out(&mut self, with: &mut With<'_>) {
        self.plan = Some(match self.together {
            true => Plan::together(with),
            false => Plan::alone(with),
        });
        (self.repetition, self.dataset, self.job) = (0, None, None);
        self.phase = Phase::Register;
    }

    fn request(&mut self, with: &mut With<'_>) -> Option<Request> {
        let plan = self.plan.as_ref()?;
        Some(match self.phase {
            Phase::Rest | Phase::Read => return None,
            Phase::Register => Request::RegisterDataset(dataset::registration(plan.shape(with)?)),
            Phase::Look => look(self.dataset.clone()?, with),
            Phase::Job => Request::GetOrCreateJob(plan.job(self.dataset.clone()?)),
            Phase::Join => {
                Request::GetOrCreateIteration { job: self.job?, repetition: self.repetition }
            }
            Phase::Leave => Request::ReleaseClient { client: self.client? },
        })
    }

    fn rest(&mut self, now: Time, with: &mut With<'_>) {
        if let Some(plan) = self.plan.take().filter(|_| self.together) {
            let next = plan.generation.saturating_add(1);
            with.known.generation = with.known.generation.max(next);
        }
        (self.phase, self.client) = (Phase::Rest, None);
        self.heartbeat_at = Time::NEVER;
        self.reader = Reader::default();
        self.at = now.after(pause(with.stream, with.swarm.pace.pause_ms));
    }

    fn answered(
        &mut self,
        now: Time,
        token: u64,
        answer: Result<Reply, Status>,
        with: &mut With<'_>,
    ) {
        let Some(what) = self.calls.take(token) else {
            return;
        };
        match (what, answer) {
            (_, Err(status)) if is_passing(&status) => self.unanswered(now, what),
            (For::Phase(phase), Ok(reply)) => self.done(now, phase, reply, with),
            (For::Heartbeat, Ok(Reply::ClientHeartbeat(reply))) => self.hear(now, &reply, with),
            (For::Removal(task), Ok(Reply::TaskRemoved(removed))) => {
                self.voted(now, task, removed, with);
            }
            // It is refused for good: something else, then.
            (For::Phase(_) | For::Heartbeat, _) => {
                self.got_on_at = now;
                self.rest(now, with);
            }
            (For::Removal(_) | For::Read(_), _) => self.unanswered(now, what),
        }
        self.wake(now, with);
    }

    fn done(&mut self, now: Time, phase: Phase, reply: Reply, with: &mut With<'_>) {
        self.at = now;
        self.phase = match (phase, reply) {
            (Phase::Register, Reply::Dataset(id)) => {
                self.dataset = Some(id);
                match with.stream.chance(300) {
                    true => Phase::Look,
                    false => Phase::Job,
                }
            }
            (Phase::Look, _) => Phase::Job,
            (Phase::Job, Reply::Job(id)) => {
                self.job = Some(id);
                Phase::Join
            }
            (Phase::Join, Reply::Client(id)) => {
                self.join(now, id, with);
                Phase::Read
            }
            _ => return self.next(now, with),
        };
    }

    fn join(&mut self, now: Time, client: ClientId, with: &mut With<'_>) {
        self.client = Some(client);
        self.reader = Reader::default();
        self.reader.counts_next = self.number.is_multiple_of(2);
        (self.heartbeat_at, self.joined_at) = (now, now);
        let strength = with.swarm.faults.strength(Fault::NeverReads);
        if !with.calm && with.stream.chance(strength / 4) {
            with.tally.fault(Fault::NeverReads);
            self.heartbeat_at = Time::NEVER;
        }
    }

    /// After an iteration: mostly the next repetition of the job.
    fn next(&mut self, now: Time, with: &mut With<'_>) {
        if self.together || !with.stream.chance(700) {
            return self.rest(now, with);
        }
        self.client = None;
        self.repetition = self.repetition.saturating_add(1);
        self.phase = Phase::Join;
        self.at = now.after(pause(with.stream, with.swarm.pace.pause_ms));
    }

    fn hear(&mut self, now: Time, reply: &ClientHeartbeatReply, with: &mut With<'_>) {
        if self.phase != Phase::Read {
            return;
        }
        if reply.iteration_finished {
            self.got_on_at = now;
            return self.leave(now);
        }
        if self.together {
            self.reader.hear(reply);
            let enough = self.reader.round() >= i64::try_from(with.swarm.pace.rounds).unwrap_or(10);
            let others_went =
                self.plan.as_ref().map(|plan| plan.generation) < Some(with.known.generation);
            if enough || others_went && with.stream.chance(300) {
                return self.leave(now);
            }
            let strength = with.swarm.faults.strength(Fault::LeaveMidRound);
            if !with.calm && self.reader.open && with.stream.chance(strength / 8) {
                with.tally.fault(Fault::LeaveMidRound);
                self.calls.clear();
                return self.rest(now, with);
            }
        }
        // Alone, nobody is waited for but workers, and those that are gone are given up.
        if (self.together || !with.calm)
            && now.since(self.joined_at.max(self.got_on_at)) > ms(BORED_MS)
        {
            self.leave(now);
        }
    }

    fn leave(&mut self, now: Time) {
        self.calls.clear();
        self.heartbeat_at = Time::NEVER;
        (self.phase, self.at) = (Phase::Leave, now);
    }

    fn read(&mut self, now: Time, with: &mut With<'_>) {
        if self.heartbeat_at == Time::NEVER {
            // It took part and never says anything again: it sets out afresh without a word.
            return self.rest(now, with);
        }
        let beats = self.calls.all().any(|what| *what == For::Heartbeat);
        if let Some(client) = self.client.filter(|_| now >= self.heartbeat_at && !beats) {
            self.heartbeat_at = now.after(ms(with.swarm.pace.client_heartbeat_ms));
            let heartbeat = match self.together {
                true => self.reader.heartbeat(client),
                false => plain_heartbeat(client),
            };
            self.call(now, For::Heartbeat, Request::ClientHeartbeat(heartbeat), with);
        }
        if self.together {
            self.go_round(now, with);
        }
    }

    /// Goes on with the present round, or begins the next one.
    fn go_round(&mut self, now: Time, with: &mut With<'_>) {
        if now >= self.at {
            self.reader.begin(now);
        }
        let (consumer, round) = (i64::from(self.number), self.reader.round());
        let mut asks = Vec::new();
        for read in self.reader.reads().iter_mut().filter(|read| read.retry_at <= now) {
            match read.state {
                ReadState::Due => {
                    read.state = ReadState::Asked;
                    asks.push((For::Read(read.task), read.address.clone()));
                }
                ReadState::Hopeless => {
                    read.state = ReadState::Voting;
                    asks.push((For::Removal(read.task), read.address.clone()));
                }
                _ => {}
            }
        }
        for (what, address) in asks {
            match what {
                For::Read(task) => {
                    let token = self.calls.add(patience(now, with), what);
                    let read = Read { task, consumer, round, split: None };
                    with.acts.push(Act::Ask { address, token, read });
                }
                For::Removal(task) => {
                    let request =
                        Request::MaybeRemoveTask { task, consumer_index: consumer, round };
                    let token = self.calls.add(removal_awaited(now, with), what);
                    with.acts.push(Act::Call { token, request });
                }
                For::Phase(_) | For::Heartbeat => {}
            }
        }
        self.end_round(now, with);
    }

    fn end_round(&mut self, now: Time, with: &mut With<'_>) {
        let Some(tasks) = self.reader.end() else {
            return;
        };
        self.got_on_at = now;
        self.at = now.after(ms(with.swarm.pace.round_ms));
        if let Some(iteration) = self.reader.iteration {
            let (consumer, round) = (i64::from(self.number), self.reader.round());
            with.acts.push(Act::RoundRead { iteration, consumer, round, tasks });
        }
    }

    fn told(&mut self, now: Time, token: u64, answer: Option<ReadAnswer>, with: &mut With<'_>) {
        let Some(For::Read(task)) = self.calls.take(token) else {
            return;
        };
        if let Some(read) = self.reader.reading(task)
            && read.state == ReadState::Asked
        {
            match answer {
                Some(ReadAnswer::Element) => read.state = ReadState::Read,
                Some(_) | None => read.failed(now.after(ms(RETRY_MS))),
            }
        }
        self.wake(now, with);
    }

    fn voted(&mut self, now: Time, task: TaskId, removed: bool, with: &mut With<'_>) {
        let retry_at = now.after(ms(with.swarm.pace.round_ms));
        if let Some(read) = self.reader.reading(task)
            && read.state == ReadState::Voting
        {
            match removed {
                true => read.state = ReadState::Gone,
                false => read.stays(retry_at),
            }
        }
    }

    fn unanswered(&mut self, now: Time, what: For) {
        let again = now.after(ms(RETRY_MS));
        match what {
            For::Phase(_) => self.at = again,
            For::Heartbeat => self.heartbeat_at = self.heartbeat_at.min(again),
            For::Read(task) => {
                if let Some(read) = self.reader.reading(task) {
                    read.failed(again);
                }
            }
            // Nobody knows whether the others agreed: it asks again before it reads on.
            For::Removal(task) => {
                if let Some(read) = self.reader.reading(task)
                    && read.state == ReadState::Voting
                {
                    (read.state, read.retry_at) = (ReadState::Hopeless, again);
                }
            }
        }
    }
}

/// Until when a removal is waited for. The others may have to be waited for, too: as long as the
/// dispatcher does that. Not everybody is so patient.
fn removal_awaited(now: Time, with: &mut With<'_>) -> Time {
    let others = with.swarm.settings.removal_timeout;
    let strength = with.swarm.faults.strength(Fault::Cancel);
    if !with.calm && with.stream.chance(strength / 2) {
        with.tally.fault(Fault::Cancel);
        return now.after(others.min(ms(with.swarm.net.patience_ms / 4)));
    }
    now.after(others).after(ms(with.swarm.net.patience_ms))
}

fn plain_heartbeat(client: ClientId) -> ClientHeartbeat {
    ClientHeartbeat {
        client,
        current_round: None,
        blocked_round: None,
        target_processing_time_ns: 0,
    }
}

/// One of the things that a client may want to know beforehand.
fn look(dataset: DatasetId, with: &mut With<'_>) -> Request {
    let kinds = [Kind::GetMetadata, Kind::GetConfig, Kind::DisableCompression];
    match with.swarm.weights.pick(&kinds, with.stream) {
        Some(Kind::GetConfig) => Request::GetConfig,
        Some(Kind::DisableCompression) => Request::DisableCompression { dataset, disable: true },
        _ => Request::GetMetadata { dataset },
    }
}

impl Actor for Consumer {
    fn role(&self) -> Role {
        Role::Consumer
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        match what {
            Happening::Wake => self.wake(now, with),
            Happening::Answered { token, answer } => self.answered(now, token, answer, with),
            Happening::Told { token, answer } => self.told(now, token, answer, with),
            Happening::Reborn { .. } => {
                self.calls.clear();
                self.rest(now, with);
            }
            Happening::Coordinated { .. }
            | Happening::Pushed(_)
            | Happening::Asked { .. }
            | Happening::Element(_) => {}
        }
    }

    fn wake_at(&self) -> Time {
        let calls = self.calls.deadline();
        if self.phase != Phase::Read {
            let at = if self.calls.is_empty() { self.at } else { Time::NEVER };
            return at.min(calls);
        }
        let beats = self.calls.all().any(|what| *what == For::Heartbeat);
        let heartbeat = if beats { Time::NEVER } else { self.heartbeat_at };
        calls.min(heartbeat).min(self.reader.wake_at(self.at))
    }

    fn got_on_at(&self) -> Time {
        self.got_on_at
    }

    fn state(&self) -> String {
        let Self { phase, client, repetition, calls, plan, .. } = self;
        let job = plan.as_ref().and_then(|plan| plan.name.as_deref()).unwrap_or("-");
        format!("{phase:?} {job}/{repetition} as {client:?}, waits for {calls:?}")
    }
}
