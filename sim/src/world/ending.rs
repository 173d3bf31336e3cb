//! How a run ends: cut off, healed in part, or left by everybody.

use rondo_core::limits::USE_SLACK;
use rondo_core::memory::Memory;
use rondo_core::time::Duration;

use super::event::Event;
use super::machine::Being;
use super::{Phase, World};
use crate::mark::Mark;
use crate::oracle::{Seen, Waiting};
use crate::swarm::Ending;
use crate::workload::Role;

/// Between two looks at who has got on, in ns.
const CHECK_NS: u64 = 500_000_000;
/// Within so long after everything healed, and after the last silent worker has been given up, all of
/// the core must have got on, in ns.
const HEALED_NS: u64 = 300_000_000_000;
/// So long after all timeouts have passed nothing must be left.
const GONE: Duration = Duration::from_secs(60);

/// The patience with a worker whose heartbeats are not known.
const WORKER_PATIENCE: Duration = Duration::from_secs(90);

impl World {
    /// Things have gone wrong long enough.
    pub(super) fn end(&mut self) {
        self.look_now();
        match self.swarm.ending {
            Ending::Cut => self.phase = Phase::Over,
            Ending::Heal => {
                self.heal();
                self.phase = Phase::Healed(self.now_ns);
                self.choose_core();
            }
            Ending::Drain => {
                self.heal();
                self.set_the_clock_right();
                self.phase = Phase::Gone(self.now_ns);
                self.part_with_relays();
            }
        }
        self.queue.plan(self.now_ns.saturating_add(CHECK_NS), Event::Check);
    }

    /// The clock shows what it would show if it had never been set back: what was used is kept by it. For the
    /// node that is a hold-up.
    fn set_the_clock_right(&mut self) {
        let stood = Duration::from_millis(std::mem::take(&mut self.node.behind_ms));
        let is_seen = self.node.being == Being::Up && stood > Duration::ZERO;
        if is_seen {
            self.see(&Seen::StandsStill);
        }
        self.node.clock.jump(self.now_ns, stood);
        if is_seen {
            self.see(&Seen::Resumed { stood });
        }
    }

    /// The network, the disk and the node are as they should be from here on.
    fn heal(&mut self) {
        self.net.heal();
        self.node.disk.set_free_bytes(None);
        self.node.disk_slow = false;
        self.node.disk_stalled_until_ns = self.now_ns;
        self.node.lacks = false;
        self.set_memory(Memory::Enough);
        self.node.slow_until_ns = 0;
        self.node.dies_in = None;
        self.node.loop_left = 0;
        self.queue.plan(self.now_ns, Event::ResumeNode);
        self.heal_relays();
        // What a worker of the former disk told a reader of a task may be of another one by its id.
        let misled = self.swarm.elements.is_some() && self.node.disks > 0;
        for actor in 0..self.machines_of_actors() {
            let Some(machine) = self.actors.get_mut(actor as usize) else {
                continue;
            };
            machine.slow_until_ns = 0;
            // Whoever began before the disk was replaced is started anew, as operators are told to.
            let is_told = { matches!(machine.role, Role::Consumer | Role::Worker | Role::Reader) };
            let may_be_misled = misled && matches!(machine.role, Role::Reader);
            if may_be_misled || is_told && machine.disk != self.node.disks {
                self.kill_actor(actor);
            }
            match self.being(actor) {
                Being::Up => {}
                Being::Paused => self.queue.plan(self.now_ns, Event::Resume(actor)),
                Being::Down => self.queue.plan(self.now_ns, Event::Reborn(actor, false)),
            }
        }
    }

    fn machines_of_actors(&self) -> u32 {
        u32::try_from(self.actors.len()).unwrap_or(0)
    }

    /// Some actors stay broken for ever: dead, or cut off in one direction or both.
    fn choose_core(&mut self) {
        // Without a timeout lost workers are waited for by intent.
        let workers = self.swarm.workers > 0;
        if workers && self.node.settings.worker_timeout.is_none() {
            return;
        }
        self.break_relays();
        let others: Vec<u32> = (0..=self.machines_of_actors()).collect();
        let is_crowd = self.swarm.elements.is_some_and(|shape| shape.is_crowd());
        let by_element = self.those_beside();
        for actor in 0..self.machines_of_actors() {
            let is_last_worker = actor == 0 && workers;
            // A crowd gets on together or not at all.
            let reads = self.actors.get(actor as usize).is_some_and(|it| it.role == Role::Reader);
            let stays = match by_element {
                Some(stays) if self.reads_by_element(actor) => stays,
                _ => is_last_worker || is_crowd && reads || !self.ending_stream.chance(250),
            };
            if stays {
                continue;
            }
            self.tally.mark(Mark::HealedInPart);
            let Some(machine) = self.actors.get_mut(actor as usize) else {
                continue;
            };
            machine.core = false;
            match self.ending_stream.below(3) {
                0 => {
                    machine.being = Being::Down;
                    self.lose_elements(actor);
                }
                1 => self.net.cut(&[actor + 1], &others, true, &mut self.tally),
                _ => {
                    self.net.cut(&[actor + 1], &others, true, &mut self.tally);
                    self.net.cut(&others, &[actor + 1], true, &mut self.tally);
                }
            }
        }
    }

    fn reads_by_element(&self, actor: u32) -> bool {
        self.actors.get(actor as usize).is_some_and(|it| it.actor.reads_by_element())
    }

    /// Whether all who read by element beside others stay in the core, or none does; `None` if it is all
    /// the same. What workers were handed for them nobody else gets, but where splits are handed out
    /// again and the dispatcher gives up those that are gone.
    fn those_beside(&mut self) -> Option<bool> {
        let settings = &self.node.settings;
        let comes_back = settings.reissue_lost_splits && settings.job_gc_timeout.is_some();
        match self.swarm.reads_both_ways() {
            false => None,
            true if !comes_back => Some(true),
            true => self.ending_stream.chance(700).then_some(false),
        }
    }

    /// Looks who has got on.
    pub(super) fn check(&mut self) {
        match self.phase {
            Phase::Healed(since_ns) => self.check_healed(since_ns),
            Phase::Gone(since_ns) => self.check_gone(since_ns),
            Phase::Struck | Phase::Over => return,
        }
        self.queue.plan(self.now_ns.saturating_add(CHECK_NS), Event::Check);
    }

    fn check_healed(&mut self, since_ns: u64) {
        let waiting = self.waiting_since(since_ns, |_| true);
        if self.swarm.elements.is_some_and(|shape| shape.rounds) {
            let in_rounds = self.waiting_since(since_ns, |role| role == Role::Reader);
            let since = Duration::from_nanos(self.now_ns.saturating_sub(since_ns));
            self.see(&Seen::Healing { in_rounds: &in_rounds, since });
        }
        let bound_ns = HEALED_NS.saturating_add(self.patience.longest().as_nanos());
        if waiting.is_empty() || self.now_ns.saturating_sub(since_ns) > bound_ns {
            self.see(&Seen::HealedLongAgo { waiting: &waiting });
            self.look_now();
            self.phase = Phase::Over;
        }
    }

    /// Who of the core has not got on since then, of those with such a role.
    fn waiting_since(&self, since_ns: u64, of: impl Fn(Role) -> bool) -> Vec<Waiting> {
        let Some(node) = &self.node.node else {
            let what = "does not serve".to_owned();
            return vec![Waiting { who: "node".into(), what }];
        };
        let gives_up = node.dispatcher().config().worker_timeout.is_some();
        let served = self.actors.iter().any(|machine| self.is_served(machine));
        let core = self.actors.iter().zip(0_u32..).filter(|(machine, _)| machine.core);
        let core = core.filter(|(machine, _)| of(machine.role));
        let waiting = core.filter_map(|(machine, number)| {
            let since = machine.clock.shows(since_ns);
            let must = match machine.role {
                Role::Worker => self.is_served(machine),
                Role::Consumer => served && gives_up,
                Role::Reader => served && gives_up && self.reads_whole(),
                Role::Task => self.is_whole(machine.actor.job()),
                Role::Rogue | Role::Operator => false,
            };
            let stuck = must && machine.actor.got_on_at() <= since;
            let who = format!("actor {number} ({:?})", machine.role);
            stuck.then(|| Waiting { who, what: machine.actor.state() })
        });
        waiting.collect()
    }

    /// Whether all tasks of a job are of the core.
    fn is_whole(&self, job: Option<u32>) -> bool {
        let mut tasks = self.actors.iter().filter(|machine| machine.actor.job() == job);
        let mut relays = self.relays.all.iter().filter(|it| Some(it.shape.namespace) == job);
        job.is_some() && tasks.all(|machine| machine.core) && relays.all(|relay| relay.core)
    }

    /// Whether no reader is missing of those that read together.
    fn reads_whole(&self) -> bool {
        let grouped = self.swarm.reading.is_some_and(|reading| reading.grouped)
            || self.swarm.elements.is_some_and(|elements| elements.rounds);
        let mut readers = self.actors.iter().filter(|machine| machine.role == Role::Reader);
        !grouped || readers.all(|machine| machine.core)
    }

    /// Whether a machine is a worker of the core that may register.
    fn is_served(&self, machine: &super::ActorMachine) -> bool {
        let listed = &self.swarm.settings.worker_addresses;
        let address = machine.actor.address();
        let admitted = listed.is_empty() || address.is_some_and(|address| address.ends_with(":1"));
        machine.core && machine.role == Role::Worker && admitted
    }

    /// How long until nothing is left: one timeout after the other, by a clock that may be slow by an
    /// eighth. Another process of the node keeps what it finds as if it had just been used.
    fn gone_ns(&self) -> u64 {
        let settings = &self.node.settings;
        let first = settings.client_first_heartbeat_timeout;
        let spans = [
            Some(settings.client_timeout.max(first)),
            Some(settings.removal_timeout),
            settings.job_gc_timeout,
            settings.named_job_retention.max(settings.job_gc_timeout),
            settings.dataset_retention,
            settings.abandoned_iteration_retention,
            settings.lost_worker_retention,
            settings.worker_timeout.map(|timeout| timeout.max(WORKER_PATIENCE)),
            Some(GONE),
        ];
        let spans = spans.iter().flatten().map(|span| span.as_nanos());
        let rounds = settings.job_gc_check_interval.as_nanos().saturating_mul(8);
        let slack = USE_SLACK.as_nanos().saturating_mul(3);
        let all = spans.fold(rounds.saturating_add(slack), u64::saturating_add);
        all.saturating_add(all / 8)
    }

    fn check_gone(&mut self, since_ns: u64) {
        if self.now_ns.saturating_sub(since_ns) <= self.gone_ns() {
            return;
        }
        if let Some(node) = self.node.node.take() {
            self.see(&Seen::GoneLongAgo(&node));
            self.node.node = Some(node);
            self.tally.mark(Mark::NothingLeft);
        }
        self.look_at_quiet_relays();
        self.look_now();
        self.phase = Phase::Over;
    }
}
