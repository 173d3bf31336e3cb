//! How a run ends: cut off; or healed, where all must get on; and then all leave, and nothing must stay.

use rondo_core::exchange::message::Scope;
use rondo_core::exchange::{Mask, Role, member, scheduler, server, worker};
use rondo_core::ids::CallId;

use super::event::Event;
use super::site::{Being, Call, Process, SCHEDULER, Side};
use super::{MS, Phase, World};
use crate::mark::Mark;
use crate::oracle::Waiting;
use crate::oracle::exchange::Met;
use crate::swarm::Ending;

/// How far all has settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Settling {
    /// Whatever was under way has come; since when all take part again is waited for, in ns.
    Joined(u64),
    /// Old requests have come to their end; since when that is waited for.
    Answered(u64),
    /// Everybody has one last request answered, and has met all others; since when that is waited for.
    Last(u64),
    /// Nothing is left of requests; since when that is waited for.
    Quiet(u64),
    /// All leave; since when.
    Left(u64),
}

/// Longer than anything is under way that is not drawn, in ns.
const UNDER_WAY_NS: u64 = 5000 * MS;
/// Between two looks, in ns.
const CHECK_NS: u64 = 500 * MS;
/// Within so long all must have got on, in ns.
const GETS_ON_NS: u64 = 120_000 * MS;

impl World {
    /// Things have gone wrong long enough.
    pub(super) fn end(&mut self) {
        if self.swarm.ending == Ending::Cut {
            self.phase = Phase::Over;
            return;
        }
        self.phase = Phase::Healed;
        self.net.heal();
        for site in 0..self.count() {
            match self.site(site).map(|site| site.being) {
                Some(Being::Paused) => self.queue.plan(self.now_ns, Event::Resume(site)),
                Some(Being::Down) => self.queue.plan(self.now_ns, Event::Reborn(site)),
                Some(Being::Up) | None => {}
            }
        }
        let settings = self.shape.settings;
        let waits_ms = [self.swarm.net.patience_ms, settings.timeout_ms, settings.grace_ms];
        let waits_ns = waits_ms.iter().sum::<u64>().saturating_mul(MS);
        let after_ns = UNDER_WAY_NS.saturating_add(waits_ns);
        self.settle(after_ns, Settling::Joined(self.now_ns.saturating_add(after_ns)));
    }

    fn settle(&mut self, after_ns: u64, settling: Settling) {
        self.queue.plan(self.now_ns.saturating_add(after_ns), Event::Settled(settling));
    }

    /// All has settled so far.
    pub(super) fn settled(&mut self, settling: Settling) {
        let now_ns = self.now_ns;
        let (waiting, since_ns) = match settling {
            Settling::Joined(since_ns) => (self.not_joined(), since_ns),
            Settling::Answered(since_ns) => (self.not_answered(), since_ns),
            Settling::Last(since_ns) => (self.not_last(), since_ns),
            Settling::Quiet(since_ns) => (self.not_quiet(), since_ns),
            Settling::Left(since_ns) => (self.not_left(), since_ns),
        };
        if !waiting.is_empty() && now_ns.saturating_sub(since_ns) <= GETS_ON_NS {
            return self.settle(CHECK_NS, settling);
        }
        self.see(&Met::HealedLongAgo { waiting: &waiting });
        match settling {
            Settling::Joined(_) if self.swarm.ending == Ending::Drain => {
                self.leave_all();
                self.settle(CHECK_NS, Settling::Left(now_ns));
            }
            Settling::Joined(_) => {
                self.phase = Phase::Ending;
                self.give_up_all();
                self.settle(CHECK_NS, Settling::Answered(now_ns));
            }
            Settling::Answered(_) => {
                self.plan_last();
                self.settle(CHECK_NS, Settling::Last(now_ns));
            }
            Settling::Last(_) => self.settle(CHECK_NS, Settling::Quiet(now_ns)),
            Settling::Quiet(_) => {
                self.mark(Mark::ExchangeQuiet);
                self.leave_all();
                self.settle(CHECK_NS, Settling::Left(now_ns));
            }
            Settling::Left(_) => {
                self.look_what_is_left();
                self.phase = Phase::Over;
            }
        }
    }

    /// Workers and servers of whom something is true that should not be.
    fn waiting(&mut self, of: impl Fn(&super::site::Site) -> Option<String>) -> Vec<Waiting> {
        let members = self.members();
        let sites = self.sites.get(members.start as usize..).unwrap_or_default();
        let waits = sites
            .iter()
            .filter_map(|site| of(site).map(|what| Waiting { who: site.name.clone(), what }));
        waits.collect()
    }

    fn not_joined(&mut self) -> Vec<Waiting> {
        let servers = self.shape.servers as usize;
        self.waiting(|site| match &site.process {
            Some(Process::Member(running)) if !running.leaves => match &running.side {
                Side::None => Some("it takes no part".to_owned()),
                Side::Worker(side) if side.machine.report().ready < servers => {
                    Some("it is not connected to all servers".to_owned())
                }
                _ => None,
            },
            _ => Some("it is not there".to_owned()),
        })
    }

    /// What was asked for before waits no longer, but for what waits for ever.
    fn give_up_all(&mut self) {
        for number in self.members() {
            let Some(running) = self.site(number).and_then(|it| it.running()) else {
                continue;
            };
            let calls: Vec<CallId> = std::mem::take(&mut running.calls).into_keys().collect();
            let (waits, wants): (Vec<CallId>, Vec<CallId>) = match &mut running.side {
                Side::Worker(side) => {
                    (std::mem::take(&mut side.waits).into_keys().collect(), Vec::new())
                }
                Side::Server(side) => {
                    (Vec::new(), std::mem::take(&mut side.waits).into_keys().collect())
                }
                Side::None => (Vec::new(), Vec::new()),
            };
            for call in calls {
                self.step_member(number, member::Input::Cancel { call });
            }
            for call in waits {
                self.step_worker(number, worker::Input::Cancel { call });
            }
            for call in wants {
                self.step_server(number, server::Input::Cancel { call });
            }
        }
    }

    fn not_answered(&mut self) -> Vec<Waiting> {
        self.waiting(|site| match &site.process {
            Some(Process::Member(running)) => match &running.side {
                Side::Worker(side) if !side.requests.is_empty() => {
                    Some(format!("{} requests are not over", side.requests.len()))
                }
                _ => None,
            },
            _ => Some("it is not there".to_owned()),
        })
    }

    /// Each worker asks all servers for something, and all meet.
    fn plan_last(&mut self) {
        for number in self.members() {
            if self.role(number) == Role::Worker {
                self.makes_request(number, true);
            } else if let Some(running) = self.site(number).and_then(|it| it.running()) {
                running.last.is_answered = true;
            }
            let (mask, scope) = (Mask::ALL, Scope::Instance);
            let ask = member::Ask::Barrier { mask, scope, timeout: None };
            self.ask(number, Call::LastBarrier, ask);
        }
    }

    fn not_last(&mut self) -> Vec<Waiting> {
        self.waiting(|site| match &site.process {
            Some(Process::Member(running)) => match running.last {
                last if !last.is_answered => Some("its last request is not answered".to_owned()),
                last if !last.has_met => Some("it has not met the others".to_owned()),
                _ => None,
            },
            _ => Some("it is not there".to_owned()),
        })
    }

    fn not_quiet(&mut self) -> Vec<Waiting> {
        let servers = self.shape.servers as usize;
        self.waiting(|site| match &site.process {
            Some(Process::Member(running)) => match &running.side {
                Side::Worker(side) => {
                    let report = side.machine.report();
                    let expected = worker::Report { ready: servers, ..worker::Report::default() };
                    (report != expected).then(|| format!("{report:?}"))
                }
                Side::Server(side) => {
                    let report = side.machine.report();
                    let server::Report { slots, connected, calls, .. } = report;
                    let expected =
                        server::Report { slots, connected, calls, ..server::Report::default() };
                    (report != expected).then(|| format!("{report:?}"))
                }
                Side::None => Some("it takes no part".to_owned()),
            },
            _ => Some("it is not there".to_owned()),
        })
    }

    fn leave_all(&mut self) {
        self.phase = Phase::Leaving;
        for number in self.members() {
            self.leave(number);
        }
    }

    fn not_left(&mut self) -> Vec<Waiting> {
        self.waiting(|site| match &site.process {
            Some(Process::Member(_)) => Some("it has not left".to_owned()),
            _ => None,
        })
    }

    /// Nobody takes part any more: nothing is left with the scheduler.
    fn look_what_is_left(&mut self) {
        self.step_scheduler(scheduler::Input::Tick);
        let links = self.links.len();
        let site = self.sites.get(SCHEDULER as usize).and_then(|site| site.process.as_ref());
        let Some(Process::Scheduler(machine)) = site else {
            return;
        };
        let report = machine.report();
        let is_empty = report.members.is_empty()
            && report.parked == 0
            && report.connections == 0
            && report.barriers.is_empty()
            && links == 0;
        let text = format!("{report:?} and {links} connections");
        let left = Some(text.as_str()).filter(|_| !is_empty);
        self.see(&Met::Emptied { site: SCHEDULER, left });
        self.mark(Mark::NothingLeft);
        self.mark(Mark::ExchangeEnded);
    }
}
