//! A dispatcher, its consumers, and everything that can happen to them.

use std::collections::BTreeMap;
use std::rc::Rc;

use rondo_core::dispatcher::Reply;
use rondo_core::ids::{CallId, ClientId, TaskId};

use crate::checks;
use crate::consumer::{Beat, Call, Consumer, Counting, Rounds, Told};
use crate::dispatcher::{Outcome, Real};
use crate::key::Key;

/// The first task, whose worker may die.
pub(crate) const FIRST: TaskId = TaskId::new(4000);

/// How far a search goes, and what happens in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) consumers: usize,
    /// Workers that are there when the read begins.
    pub(crate) workers: u8,
    /// Workers that come later, each with a task to agree on.
    pub(crate) joins: u8,
    /// Rounds that consumers read.
    pub(crate) rounds: i64,
    /// Answers and requests that are lost or repeated, calls given up, restarts.
    pub(crate) accidents: u8,
    pub(crate) counting: Counting,
    /// How slow messages may be.
    pub(crate) delay: Delay,
    /// Whether a worker holds a round back until all consumers ask for it, as workers do.
    pub(crate) lockstep: bool,
    /// Whether a consumer may leave it unsaid that it will stop until it has stopped.
    pub(crate) reticent: bool,
    /// Whether the first worker dies, its task is given up, and the worker comes back.
    pub(crate) death: bool,
    /// Whether a worker gives its pending task back as done.
    pub(crate) done: bool,
}

/// How slow messages may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delay {
    /// Anything can happen while a heartbeat or its answer is on its way.
    Any,
    /// The same, but a heartbeat arrives at once.
    OfAnswers,
    /// A heartbeat is answered at once.
    None,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A new worker registers.
    Join,
    /// The first worker serves no round from here on that it has not served to all.
    Die,
    /// The same, and the answer of the last round it served never reaches this consumer.
    DieAnswering(usize),
    /// The first worker, whose task was given up, heartbeats again.
    Return,
    /// The task under negotiation is reported as done.
    Done,
    /// The dispatcher restarts.
    Restart,
    /// All calls that wait have waited too long.
    Expire,
    /// A consumer does something, or something is done to its messages.
    Of(usize, Act),
}

/// What a consumer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Sends a heartbeat.
    Send { says_blocked: bool },
    /// Its heartbeat reaches the dispatcher.
    Arrive,
    /// The answer reaches it.
    Hear,
    /// The answer is lost, and the same heartbeat is sent again.
    Repeat,
    /// The heartbeat or its answer is lost, and the consumer does without.
    GiveUp,
    /// Begins a round.
    Begin,
    /// Has asked for everything in its round.
    AskedAll,
    /// Calls to give the first task up.
    Call,
    /// Hears the answer to that.
    HearCall,
    /// Leaves such a call, or its answer is lost.
    LeaveCall,
}

/// All there is.
#[derive(Clone)]
pub(crate) struct World {
    /// Shared between states that differ elsewhere only.
    pub(crate) real: Rc<Real>,
    pub(crate) consumers: Vec<Consumer>,
    /// What the first consumer to begin each round asked for, while others have yet to begin it.
    pub(crate) ledger: BTreeMap<i64, Vec<TaskId>>,
    /// The highest round a heartbeat has brought since the dispatcher started.
    pub(crate) latest: i64,
    /// The first round that the first worker serves to nobody.
    pub(crate) dead_from: Option<i64>,
    /// Who lacks its answer of the round before that. The consumers then meet the failure in
    /// different rounds, and wait for the worker to come back.
    pub(crate) unserved: Option<usize>,
    joined: u8,
    accidents: u8,
    is_back: bool,
    is_done: bool,
}

impl World {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let real = Real::reading(bounds.consumers, bounds.workers);
        Self {
            real: Rc::new(real),
            consumers: vec![Consumer::new(); bounds.consumers],
            ledger: BTreeMap::new(),
            latest: 0,
            dead_from: None,
            unserved: None,
            joined: 0,
            accidents: 0,
            is_back: false,
            is_done: false,
        }
    }

    /// What can happen next.
    pub(crate) fn events(&self, bounds: &Bounds) -> Vec<Event> {
        let spare = self.accidents < bounds.accidents;
        let waiting = |consumer: &Consumer| matches!(consumer.call, Call::Waiting(_));
        let gave_up = !self.real.state().tasks().contains_key(&FIRST);
        let mut events = Vec::new();
        if let Some(at) = self.in_a_hurry(bounds.delay) {
            return vec![at];
        }
        let mut add = |may: bool, event| {
            if may {
                events.push(event);
            }
        };
        add(self.joined < bounds.joins, Event::Join);
        add(bounds.death && self.dead_from.is_none(), Event::Die);
        for at in 0..self.consumers.len() {
            let missing = self.consumers[at].begun() == self.everybody_begun();
            let asked = self.consumers[at].asked.contains(&FIRST);
            let dies = bounds.death && self.dead_from.is_none();
            add(dies && missing && asked, Event::DieAnswering(at));
        }
        add(bounds.death && gave_up && !self.is_back, Event::Return);
        let negotiates = !self.real.iteration().pending.is_empty();
        add(bounds.done && !self.is_done && negotiates, Event::Done);
        add(spare, Event::Restart);
        add(spare && self.consumers.iter().any(waiting), Event::Expire);
        for at in 0..self.consumers.len() {
            let acts = self.acts(at, bounds, spare);
            events.extend(acts.into_iter().map(|act| Event::Of(at, act)));
        }
        events
    }

    /// The message that cannot wait.
    fn in_a_hurry(&self, delay: Delay) -> Option<Event> {
        let hurries = |(at, consumer): (usize, &Consumer)| match (&consumer.beat, delay) {
            (Beat::Sent(_), Delay::OfAnswers | Delay::None) => Some(Event::Of(at, Act::Arrive)),
            (Beat::Answered(..), Delay::None) => Some(Event::Of(at, Act::Hear)),
            _ => None,
        };
        self.consumers.iter().enumerate().find_map(hurries)
    }

    fn acts(&self, at: usize, bounds: &Bounds, spare: bool) -> Vec<Act> {
        let consumer = &self.consumers[at];
        let mut acts = Vec::new();
        match &consumer.beat {
            Beat::None => {
                acts.push(Act::Send { says_blocked: true });
                let stands = consumer.limit.is_none_or(|limit| consumer.next >= limit);
                if bounds.reticent && !stands {
                    let says_blocked = false;
                    acts.push(Act::Send { says_blocked });
                }
            }
            Beat::Sent(_) => acts.push(Act::Arrive),
            Beat::Answered(..) => acts.push(Act::Hear),
        }
        if spare && consumer.beat != Beat::None {
            acts.push(Act::GiveUp);
        }
        if spare && matches!(consumer.beat, Beat::Answered(..)) {
            acts.push(Act::Repeat);
        }
        if consumer.open {
            acts.push(Act::AskedAll);
        }
        if consumer.next < bounds.rounds && self.may_begin(at, bounds) {
            acts.push(Act::Begin);
        }
        match consumer.call {
            Call::None if self.may_call(at) => acts.push(Act::Call),
            Call::Answered(..) => acts.push(Act::HearCall),
            _ => {}
        }
        if spare && consumer.call != Call::None {
            acts.push(Act::LeaveCall);
        }
        acts
    }

    /// Whether a consumer can begin its next round: it wants to, and has all of the last one.
    pub(crate) fn may_begin(&self, at: usize, bounds: &Bounds) -> bool {
        let consumer = &self.consumers[at];
        let all_asked = self.everybody_begun() >= consumer.begun();
        let held = bounds.lockstep && !all_asked && !consumer.asked.is_empty();
        consumer.wants_next_round() && !held && !self.lacks_first(at)
    }

    /// Whether a consumer meets the first worker dead, and does nothing about it yet.
    pub(crate) fn may_call(&self, at: usize) -> bool {
        self.consumers[at].call == Call::None && self.lacks_first(at)
    }

    fn lacks_first(&self, at: usize) -> bool {
        let consumer = &self.consumers[at];
        let earlier = i64::from(self.unserved == Some(at));
        let unserved = self.dead_from.is_some_and(|from| consumer.begun() >= from - earlier);
        unserved && consumer.asked.contains(&FIRST)
    }

    /// The last round that all consumers have begun.
    fn everybody_begun(&self) -> i64 {
        self.consumers.iter().map(Consumer::begun).min().unwrap()
    }

    /// Lets something happen, and checks that it was right.
    pub(crate) fn happen(&mut self, event: Event, bounds: &Bounds) -> Result<(), String> {
        let before = self.real.clone();
        match event {
            Event::Join => {
                let newcomer = bounds.workers + self.joined;
                self.real_mut().worker(newcomer);
                self.joined += 1;
            }
            Event::Die => self.dead_from = Some(self.everybody_begun() + 1),
            Event::DieAnswering(at) => {
                self.dead_from = Some(self.everybody_begun() + 1);
                self.unserved = Some(at);
            }
            Event::Return => {
                self.real_mut().worker(0);
                self.is_back = true;
            }
            Event::Done => self.finish_front(),
            Event::Restart => self.restart(),
            Event::Expire => {
                self.accidents += 1;
                let outcome = self.real_mut().let_calls_expire();
                self.answer_calls(outcome);
            }
            Event::Of(at, act) => self.act(at, act, bounds)?,
        }
        checks::ready(self)?;
        if Rc::ptr_eq(&before, &self.real) {
            return Ok(());
        }
        checks::step(&before, self)
    }

    fn real_mut(&mut self) -> &mut Real {
        Rc::make_mut(&mut self.real)
    }

    fn finish_front(&mut self) {
        let front = self.real.iteration().pending.front().unwrap().task;
        self.real_mut().finish(front);
        self.is_done = true;
    }

    fn restart(&mut self) {
        self.accidents += 1;
        self.real_mut().restart();
        self.latest = 0;
        for consumer in &mut self.consumers {
            if matches!(consumer.call, Call::Waiting(_)) {
                consumer.call = Call::None;
            }
        }
    }

    fn act(&mut self, at: usize, act: Act, bounds: &Bounds) -> Result<(), String> {
        if matches!(act, Act::Repeat | Act::GiveUp | Act::LeaveCall) {
            self.accidents += 1;
        }
        let consumer = &mut self.consumers[at];
        match act {
            Act::Send { says_blocked } => {
                let current = consumer.current(bounds.counting);
                let blocked = consumer.limit.filter(|_| says_blocked);
                consumer.beat = Beat::Sent(Rounds { current, blocked });
            }
            Act::Repeat => {
                if let Beat::Answered(rounds, _) = consumer.beat {
                    consumer.beat = Beat::Sent(rounds);
                }
            }
            Act::Hear => {
                if let Beat::Answered(_, told) = std::mem::replace(&mut consumer.beat, Beat::None) {
                    consumer.hear(told, bounds.counting);
                }
            }
            Act::GiveUp => consumer.beat = Beat::None,
            Act::AskedAll => consumer.open = false,
            Act::HearCall => {
                if let Call::Answered(task, true) = consumer.call {
                    consumer.asked.retain(|asked| *asked != task);
                    consumer.gone.push(task);
                }
                consumer.call = Call::None;
            }
            Act::LeaveCall => {
                consumer.call = Call::None;
                self.real_mut().cancel(call_of(at));
            }
            Act::Arrive => return self.arrive(at),
            Act::Begin => return self.begin(at, bounds),
            Act::Call => return self.call(at),
        }
        Ok(())
    }

    fn arrive(&mut self, at: usize) -> Result<(), String> {
        let Beat::Sent(rounds) = self.consumers[at].beat else {
            return Ok(());
        };
        self.latest = self.latest.max(rounds.current);
        let client = client_of(at);
        let (_, reply) = self.real_mut().heartbeat(client, Some(rounds.current), rounds.blocked);
        let listed = reply.tasks.iter();
        let told = Told {
            list: listed.map(|info| (info.task, info.starting_round)).collect(),
            block_round: reply.block_round,
        };
        checks::told(self, &told)?;
        self.consumers[at].beat = Beat::Answered(rounds, told);
        Ok(())
    }

    fn begin(&mut self, at: usize, bounds: &Bounds) -> Result<(), String> {
        let consumer = &mut self.consumers[at];
        let round = consumer.next;
        consumer.asked = consumer.tasks_of(round);
        consumer.next += 1;
        // Between two tasks of one round only, and only there it makes a difference.
        consumer.open = bounds.counting == Counting::Next && consumer.asked.len() > 1;
        checks::begun(self, at)?;
        let passed = self.everybody_begun();
        self.ledger.retain(|round, _| *round > passed);
        Ok(())
    }

    fn call(&mut self, at: usize) -> Result<(), String> {
        self.consumers[at].call = Call::Waiting(FIRST);
        let round = self.consumers[at].begun();
        let outcome = self.real_mut().remove(call_of(at), FIRST, at, round);
        checks::removed(self, &outcome)?;
        self.answer_calls(outcome);
        Ok(())
    }

    fn answer_calls(&mut self, outcome: Outcome) {
        for (call, reply) in outcome.answers {
            let at = usize::try_from(call.get()).unwrap() - 1;
            let Reply::TaskRemoved(removed) = reply else {
                panic!("{reply:?}");
            };
            self.consumers[at].call = Call::Answered(FIRST, removed);
        }
    }

    /// Whatever can make a difference to what happens from here on.
    pub(crate) fn key(&self, bounds: &Bounds) -> u128 {
        let mut key = Key::default();
        let front = self.real.iteration().pending.front();
        let ready = |at| front.is_some_and(|front| front.ready.contains(&client_of(at)));
        let consumers = self.consumers.iter().enumerate();
        key.consumers(consumers.map(|(at, consumer)| {
            let marks = [ready(at), self.unserved == Some(at)];
            (consumer, marks)
        }));
        key.ledger(&self.ledger);
        key.dispatcher(&self.real);
        key.number(self.latest);
        key.number(self.dead_from.unwrap_or(-1));
        key.number(i64::from(bounds.accidents.saturating_sub(self.accidents)));
        key.number(i64::from(self.joined));
        key.flag(self.is_back);
        key.flag(self.is_done);
        key.digest()
    }
}

/// The client of a consumer.
pub(crate) fn client_of(at: usize) -> ClientId {
    ClientId::new(3000 + at as i64)
}

const fn call_of(at: usize) -> CallId {
    CallId::new(at as u64 + 1)
}
