//! What every worker and server does with the scheduler: it joins, comes to barriers, leaves.

use std::collections::BTreeMap;

use rondo_core::exchange::member::{Ask, Identity, Input, Member, Reply, Settings};
use rondo_core::exchange::message::{Failure, Scope};
use rondo_core::exchange::scheduler::{self, Scheduler};
use rondo_core::exchange::{InstanceRank, Mask, Role, server, worker};
use rondo_core::ids::{CallId, Incarnation};
use rondo_core::status::Status;
use rondo_core::time::Duration;

use super::event::Event;
use super::site::{Being, Call, Last, Process, Running, Side};
use super::{MS, Phase, World};
use crate::mark::Mark;
use crate::oracle::exchange::{Memory, Met};

/// Whoever is not let in tries again after so long, in ms.
const AGAIN_MS: u64 = 200;

impl World {
    /// A process begins, as another one than any before: what it had is gone.
    pub(super) fn reborn(&mut self, number: u32) {
        let is_down = self.site(number).is_some_and(|site| site.being == Being::Down);
        if !is_down || self.phase == Phase::Leaving {
            return;
        }
        let role = self.role(number);
        let process = match role {
            Role::Scheduler => self.new_scheduler(),
            _ => self.new_member(number),
        };
        let Some(site) = self.site(number) else {
            return;
        };
        site.being = Being::Up;
        site.life = site.life.wrapping_add(1);
        site.wakes_at_ns = None;
        site.process = process;
        let life = site.life;
        self.trace.hash(self.now_ns, 0xbe, u64::from(life));
        self.note(number, || format!("begins, for the {life}th time"));
        if life > 1 {
            let mark = match role {
                Role::Scheduler => Mark::ExchangeSchedulerReturned,
                _ => Mark::ExchangeProcessReturned,
            };
            self.mark(mark);
        }
        if role != Role::Scheduler {
            self.join(number);
            self.plan_act(number);
        }
    }

    fn new_scheduler(&mut self) -> Option<Process> {
        let settings = self.shape.settings;
        let says = self.stream.chance(500);
        let settings = scheduler::Settings {
            config: settings.config(),
            sizes: Some(self.shape.sizes()).filter(|_| says),
            takes_part: false,
            goes_on_without_lost: settings.goes_on_without_lost,
        };
        Scheduler::start(settings).ok().map(|machine| Process::Scheduler(Box::new(machine)))
    }

    fn new_member(&mut self, number: u32) -> Option<Process> {
        self.last_incarnation = self.last_incarnation.wrapping_add(1);
        let incarnation = Incarnation::new(self.last_incarnation.wrapping_mul(0x9e37_79b9) | 1);
        let (any_rank, settings) = (self.shape.any_rank, self.shape.settings);
        let sizes = self.shape.sizes();
        let site = self.site(number)?;
        let has_rank = !site.stream.chance(any_rank);
        let identity = Identity {
            role: site.role,
            rank: Some(InstanceRank::new(site.rank)).filter(|_| has_rank),
            incarnation,
            addresses: vec![site.name.as_str().into()],
            host: "here".into(),
            sizes,
        };
        let config = settings.config();
        let settings = Settings { identity, config, scheduler_patience: settings.patience() };
        let member = Member::start(settings).ok()?;
        Some(Process::Member(Box::new(Running {
            member,
            incarnation,
            memory: Memory::default(),
            ways: BTreeMap::new(),
            rank: None,
            side: Side::None,
            calls: BTreeMap::new(),
            leaves: false,
            last: Last::default(),
        })))
    }

    fn join(&mut self, number: u32) {
        self.ask(number, Call::Join, Ask::Join { timeout: None });
    }

    pub(super) fn ask(&mut self, number: u32, as_: Call, ask: Ask) -> CallId {
        let call = self.next_call();
        if let Some(running) = self.site(number).and_then(|it| it.running()) {
            running.calls.insert(call, as_);
        }
        self.step_member(number, Input::Asked { call, ask });
        call
    }

    /// The scheduler, or what stands for it, has answered.
    pub(super) fn scheduler_told(
        &mut self,
        number: u32,
        call: CallId,
        result: Result<Reply, Failure>,
    ) {
        let Some(running) = self.site(number).and_then(|it| it.running()) else {
            return;
        };
        let Some(of) = running.calls.remove(&call) else {
            return;
        };
        match (of, result) {
            (Call::Join, Ok(Reply::Joined { rank, .. })) => self.begin_side(number, rank),
            (Call::Join, _) => self.goes(number),
            (Call::Barrier(_, scope), Ok(_)) => self.mark(match scope {
                Scope::Instance => Mark::ExchangeBarrierPassed,
                Scope::Group => Mark::ExchangeGroupsMet,
            }),
            (Call::Barrier(..), Err(Failure::PeerLost(_))) => {
                self.mark(Mark::ExchangeBarrierFailed);
            }
            (Call::Barrier(..), Err(_)) => {}
            (Call::LastBarrier, result) => running.last.has_met = result.is_ok(),
            (Call::Leave, _) => {
                running.last.has_left = true;
                self.goes(number);
            }
        }
    }

    /// A process takes part no more, without having asked for it.
    pub(super) fn is_over(&mut self, number: u32, status: &Status) {
        self.note(number, || format!("is given up: {status}"));
        self.mark(Mark::ExchangeGivenUp);
        self.stop_side(number);
        self.goes(number);
    }

    fn stop_side(&mut self, number: u32) {
        match self.role(number) {
            Role::Worker => self.step_worker(number, worker::Input::Stop),
            _ => self.step_server(number, server::Input::Stop),
        }
    }

    /// A process is on its way out, and ends a little later.
    fn goes(&mut self, number: u32) {
        self.see(&Met::Troubled);
        let Some(site) = self.site(number) else {
            return;
        };
        let life = site.life;
        if let Some(running) = site.running() {
            running.leaves = true;
        }
        self.queue.plan(self.now_ns.saturating_add(10 * MS), Event::Act(number, life));
    }

    /// A process ends in good order.
    pub(super) fn leave(&mut self, number: u32) {
        self.see(&Met::Troubled);
        if let Some(running) = self.site(number).and_then(|it| it.running()) {
            if std::mem::replace(&mut running.leaves, true) {
                return;
            }
            self.stop_side(number);
            self.mark(Mark::ExchangeProcessLeft);
            self.ask(number, Call::Leave, Ask::Leave);
        }
    }

    /// Time for the application of a process to do something.
    pub(super) fn act(&mut self, number: u32, life: u32) {
        if self.living(number, life).is_none() || self.is_held(number, Event::Act(number, life)) {
            return;
        }
        let Some(running) = self.site(number).and_then(|it| it.running()) else {
            return;
        };
        if running.leaves {
            let waits = running.calls.values().any(|call| *call == Call::Leave);
            if !waits {
                self.ends(number);
            }
            return;
        }
        self.plan_act(number);
        if self.stream.chance(self.shape.barriers) && self.phase <= Phase::Healed {
            self.comes_to_barrier(number);
        }
        match self.role(number) {
            Role::Worker => self.act_worker(number),
            _ => self.act_server(number),
        }
    }

    /// A process is gone of its own will, and another one comes later.
    fn ends(&mut self, number: u32) {
        self.gone(number);
        if self.phase != Phase::Leaving {
            let at_ns = self.now_ns.saturating_add(AGAIN_MS.saturating_mul(MS));
            self.queue.plan(at_ns, Event::Reborn(number));
        }
    }

    pub(super) fn plan_act(&mut self, number: u32) {
        let (act_ms, slower) = (self.shape.act_ms, self.shape.slower);
        let is_brisk = self.phase >= Phase::Ending;
        let role = self.role(number);
        let now_ns = self.now_ns;
        let Some(site) = self.site(number) else {
            return;
        };
        let mean_ms = match role {
            _ if is_brisk => 100,
            Role::Server => act_ms.saturating_mul(slower),
            _ => act_ms,
        };
        let pause_ms = site.stream.exponential(mean_ms).saturating_add(1);
        let (at_ns, life) = (now_ns.saturating_add(pause_ms.saturating_mul(MS)), site.life);
        self.queue.plan(at_ns, Event::Act(number, life));
    }

    fn comes_to_barrier(&mut self, number: u32) {
        let role = self.role(number);
        let own = if role == Role::Worker { Mask::WORKERS } else { Mask::SERVERS };
        let both = Mask::WORKERS.or(Mask::SERVERS);
        let mask = self.stream.pick(&[own, own, both, Mask::ALL]).copied().unwrap_or(own);
        let scope = match self.stream.chance(250) {
            true => Scope::Group,
            false => Scope::Instance,
        };
        let timeout = self.some_timeout();
        let joined = self
            .site(number)
            .and_then(|it| it.running())
            .is_some_and(|running| running.rank.is_some() && running.calls.len() < 3);
        if joined {
            let ask = Ask::Barrier { mask, scope, timeout };
            let call = self.ask(number, Call::Barrier(mask, scope), ask);
            self.maybe_give_up(number, call);
        }
    }

    pub(super) fn some_timeout(&mut self) -> Option<Duration> {
        let is_timed = self.stream.chance(self.shape.timed);
        is_timed.then(|| Duration::from_millis(self.stream.exponential(1500)))
    }

    pub(super) fn maybe_give_up(&mut self, number: u32, call: CallId) {
        if self.stream.chance(self.shape.cancelled) {
            let life = self.site(number).map_or(0, |site| site.life);
            let late_ms = self.stream.exponential(500);
            let at_ns = self.now_ns.saturating_add(late_ms.saturating_mul(MS));
            self.queue.plan(at_ns, Event::GiveUp(number, life, call));
        }
    }

    /// A call is given up, if it still waits.
    pub(super) fn give_up(&mut self, number: u32, life: u32, call: CallId) {
        if self.is_held(number, Event::GiveUp(number, life, call)) {
            return;
        }
        let Some(running) = self.living(number, life).and_then(|site| site.running()) else {
            return;
        };
        if running.calls.remove(&call).is_some() {
            return self.step_member(number, Input::Cancel { call });
        }
        let (of_worker, of_server) = match &mut running.side {
            Side::Worker(side) => (side.waits.remove(&call).is_some(), false),
            Side::Server(side) => (false, side.waits.remove(&call).is_some()),
            Side::None => (false, false),
        };
        if of_worker {
            self.step_worker(number, worker::Input::Cancel { call });
        }
        if of_server {
            self.step_server(number, server::Input::Cancel { call });
        }
    }
}
