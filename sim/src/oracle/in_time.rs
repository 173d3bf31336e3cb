//! A client is given up no earlier than after its timeout of silence, as the dispatcher could hear it,
//! and no later than after its timeout and all the time for which the dispatcher stood still since.

mod workers;

use std::collections::BTreeMap;

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Config, Request};
use rondo_core::ids::ClientId;
use rondo_core::time::{Duration, Time};

use self::workers::Workers;
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::fault::{Fault, Faults};
use crate::turns::Turns;

/// A hold-up is seen when it is longer than this: the dispatcher looks every second, and clocks may be
/// slow.
const SEEN_FROM: Duration = Duration::from_secs(3);
/// So much later than it should be a client may be given up: maintenance takes turns.
const SLACK: Duration = Duration::from_secs(30);
/// What keeps the dispatcher from recording that it gives a client up, or moves its clock.
const UNSURE: [Fault; 4] = [Fault::DiskFull, Fault::ClockJump, Fault::WriteFails, Fault::Lack];
/// Every how many calls it is looked for clients that are given up too late.
const LOOK_EVERY: u64 = 32;

/// A client's last sign of life.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Time,
    /// Whether that was a heartbeat, or a request for splits to hold, which counts as one.
    beat: bool,
}

pub(super) struct InTime {
    config: Config,
    is_unsure: bool,
    heard: BTreeMap<ClientId, Heard>,
    workers: Workers,
    began: Time,
    /// When the dispatcher went on after it stood still, and for how long it had.
    stood: Vec<(Time, Duration)>,
    turns: Turns<LOOK_EVERY>,
}

impl InTime {
    pub(super) fn new(config: Config, faults: &Faults) -> Self {
        Self {
            config,
            is_unsure: UNSURE.iter().any(|fault| faults.has(*fault)),
            heard: BTreeMap::new(),
            workers: Workers::default(),
            began: Time::ZERO,
            stood: Vec::new(),
            turns: Turns::default(),
        }
    }

    /// How long the dispatcher stood still since then, by hold-ups of at least this length.
    fn stood_since(&self, since: Time, at_least: Duration) -> u64 {
        let stood = self.stood.iter().filter(|(end, stood)| *end > since && *stood > at_least);
        stood.map(|(_, stood)| stood.as_nanos()).fold(0, u64::saturating_add)
    }

    fn patience(&self, heard: Heard) -> Duration {
        match heard.beat {
            true => self.config.client_timeout,
            false => self.config.client_first_heartbeat_timeout,
        }
    }

    fn taken(&mut self, now: Time, request: &Request, shadow: &Shadow) -> Verdict {
        let client = match request {
            Request::ClientHeartbeat(heartbeat) => Some(heartbeat.client),
            Request::HoldSplits(holds) => Some(holds.client),
            _ => None,
        };
        if let Request::WorkerHeartbeat(heartbeat) = request {
            let may_be_first = heartbeat.current_tasks.is_empty();
            self.workers.heard(now, &heartbeat.address, may_be_first);
        }
        self.heard.extend(client.map(|client| (client, Heard { at: now, beat: true })));
        if !self.turns.is_due() || self.is_unsure {
            return Ok(());
        }
        // Clocks may be slow by an eighth.
        let stood = |since| {
            let stood = self.stood_since(since, Duration::ZERO);
            Duration::from_nanos(stood.saturating_add(stood / 8))
        };
        self.workers.check(now, &self.config, shadow.state(), stood)?;
        if self.config.job_gc_timeout.is_none() {
            return Ok(());
        }
        let clients = shadow.state().clients().values().filter(|client| client.splits.is_empty());
        for client in clients {
            let Some(heard) = self.heard.get(&client.id) else {
                continue;
            };
            let since = heard.at.max(self.began);
            let rounds = self.config.job_gc_check_interval.as_nanos().saturating_mul(4);
            let longest =
                self.config.client_timeout.max(self.config.client_first_heartbeat_timeout);
            let most = longest.as_nanos().saturating_add(rounds).saturating_add(SLACK.as_nanos());
            let most = most.saturating_add(stood(since).as_nanos());
            reached(Check::InTimeSilent);
            if now.since(since).as_nanos() > most {
                return Err(format!(
                    "client {} has been silent for {} ms and is still there",
                    client.id,
                    now.since(since).as_millis()
                ));
            }
        }
        Ok(())
    }

    fn released(&mut self, now: Time, id: ClientId, asked_for: bool, shadow: &Shadow) -> Verdict {
        let Some(heard) = self.heard.remove(&id).filter(|_| !asked_for) else {
            return Ok(());
        };
        if shadow.state().clients().get(&id).is_some_and(|client| !client.splits.is_empty()) {
            return Ok(());
        }
        let since = heard.at.max(self.began);
        let patience = self.patience(heard);
        let stood = self.stood_since(since, SEEN_FROM);
        // As above.
        let stood = stood.saturating_sub(stood / 8);
        let silent = now.since(since).as_nanos().saturating_sub(stood);
        reached(Check::InTimeReleased);
        match silent > patience.as_nanos() {
            true => Ok(()),
            false => Err(format!(
                "client {id} was given up {} ms after it was heard, in which the dispatcher stood \
                 still for about {} ms; it may be silent for {} ms",
                now.since(since).as_millis(),
                Duration::from_nanos(stood).as_millis(),
                patience.as_millis()
            )),
        }
    }

    /// All whom another process finds count as just heard.
    fn recovered(&mut self, now: Time) {
        self.began = now;
        self.stood.clear();
        self.workers.recovered(now);
        self.heard.values_mut().for_each(|heard| *heard = Heard { at: now, beat: true });
    }
}

impl Oracle for InTime {
    fn name(&self) -> &'static str {
        "in-time"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Resumed,
            SeenKind::Recovered,
            SeenKind::Configured,
            SeenKind::DispatcherRecord,
        ]
    }

    fn see(&mut self, now: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { request, .. } => return self.taken(now, request, shadow),
            Seen::Recorded { record: Record::Dispatcher(record), during, .. } => match record {
                dispatcher::Record::AcquireClient { id, .. } => {
                    self.heard.insert(*id, Heard { at: now, beat: false });
                }
                dispatcher::Record::ReleaseClient { id, .. } => {
                    return self.released(now, *id, during.is_some(), shadow);
                }
                dispatcher::Record::UpdateWorker { id, profile } => {
                    let before = shadow.state().workers().get(id);
                    if let Some(worker) = before.filter(|it| it.profile.uid != profile.uid) {
                        self.workers.began_anew(&worker.address);
                    }
                }
                dispatcher::Record::LoseWorker { id, .. }
                | dispatcher::Record::RestartTasks { worker: id, .. } => {
                    if let Some(worker) = shadow.state().workers().get(id) {
                        self.workers.began_anew(&worker.address);
                    }
                }
                _ => {}
            },
            Seen::Resumed { stood } => self.stood.push((now, *stood)),
            Seen::Configured(config) => self.config.clone_from(config),
            Seen::Recovered { .. } => self.recovered(now),
            _ => {}
        }
        Ok(())
    }
}
