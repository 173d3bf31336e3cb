//! From every state, heartbeats alone bring every pending task onto the list.

use std::collections::BTreeSet;

use crate::consumer::{Beat, Call, Consumer};
use crate::world::{Act, Bounds, Event, World};

/// How many rounds a consumer tries to read between two heartbeats: none at all, as many as the
/// others let it, and more than a proposal lies ahead at first.
const PACES: [i64; 3] = [0, 1, 5];
/// How many heartbeats of each consumer may pass until a task is on the list. A proposal fails
/// three times until it lies further ahead than the fastest pace reaches, and one more round of
/// heartbeats brings the agreement; messages on their way take another.
const ROUNDS_PER_TASK_MAX: u32 = 6;

/// Checks, and remembers which states it has come through.
pub(crate) struct Liveness {
    bounds: Bounds,
    /// States without messages on their way that are known to be well.
    settled: BTreeSet<u128>,
    settling: [BTreeSet<u128>; PACES.len()],
    rounds_max: u32,
}

impl Liveness {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self {
            bounds: *bounds,
            settled: BTreeSet::new(),
            settling: Default::default(),
            rounds_max: 0,
        }
    }

    /// The most heartbeats of one consumer that any state took.
    pub(crate) const fn heartbeats_max(&self) -> u32 {
        self.rounds_max
    }

    /// Lets consumers do nothing but read at each pace, heartbeat, and give dead workers up.
    pub(crate) fn check(&mut self, world: &World) -> Result<(), String> {
        if world.unserved.is_some() {
            return Ok(());
        }
        let mut world = world.clone();
        for at in 0..world.consumers.len() {
            self.finish_heartbeat(&mut world, at)?;
        }
        if !self.settled.insert(world.key(&self.bounds)) {
            return Ok(());
        }
        for (pace, rounds) in PACES.into_iter().enumerate() {
            self.settle(&world, pace, rounds)
                .map_err(|text| format!("at a pace of {rounds}: {text}"))?;
        }
        Ok(())
    }

    fn settle(&mut self, world: &World, pace: usize, reads: i64) -> Result<(), String> {
        let tasks = world.real.iteration().pending.len() as u32;
        let mut world = world.clone();
        let mut passed = Vec::new();
        while !world.real.iteration().pending.is_empty() {
            let key = world.key(&self.bounds);
            if self.settling[pace].contains(&key) {
                self.settling[pace].extend(passed);
                return Ok(());
            }
            passed.push(key);
            let rounds = passed.len() as u32;
            if rounds > tasks * ROUNDS_PER_TASK_MAX {
                let left = &world.real.iteration().pending;
                return Err(format!("after {rounds} heartbeats of each consumer {left:?} is left"));
            }
            self.everybody(&mut world, reads)?;
        }
        self.rounds_max = self.rounds_max.max(passed.len() as u32);
        self.settling[pace].extend(passed);
        self.goes_on(world)
    }

    /// Nobody stays blocked, and all hold the whole list. A task may be given up meanwhile, which
    /// one of them hears first.
    fn goes_on(&self, mut world: World) -> Result<(), String> {
        self.everybody(&mut world, 0)?;
        self.everybody(&mut world, 0)?;
        let list = &world.real.iteration().tasks;
        let goes_on = |consumer: &Consumer| {
            let listed = consumer.list.iter().map(|(task, _)| task);
            consumer.limit.is_none() && listed.eq(list)
        };
        match world.consumers.iter().all(goes_on) {
            true => Ok(()),
            false => Err(format!("not all go on: {:?}", world.consumers)),
        }
    }

    /// Each consumer in turn reads and heartbeats.
    fn everybody(&self, world: &mut World, reads: i64) -> Result<(), String> {
        for at in 0..world.consumers.len() {
            for _ in 0..reads {
                self.read(world, at)?;
            }
            self.give_up(world, at)?;
            self.act(world, at, Act::Send { says_blocked: true })?;
            self.finish_heartbeat(world, at)?;
        }
        Ok(())
    }

    fn finish_heartbeat(&self, world: &mut World, at: usize) -> Result<(), String> {
        if matches!(world.consumers[at].beat, Beat::Sent(_)) {
            self.act(world, at, Act::Arrive)?;
        }
        if matches!(world.consumers[at].beat, Beat::Answered(..)) {
            self.act(world, at, Act::Hear)?;
        }
        Ok(())
    }

    fn read(&self, world: &mut World, at: usize) -> Result<(), String> {
        if world.consumers[at].open {
            self.act(world, at, Act::AskedAll)?;
        }
        if world.may_begin(at, &self.bounds) {
            self.act(world, at, Act::Begin)?;
        }
        Ok(())
    }

    fn give_up(&self, world: &mut World, at: usize) -> Result<(), String> {
        if matches!(world.consumers[at].call, Call::Answered(..)) {
            self.act(world, at, Act::HearCall)?;
        }
        if world.may_call(at) {
            self.act(world, at, Act::Call)?;
        }
        Ok(())
    }

    fn act(&self, world: &mut World, at: usize, act: Act) -> Result<(), String> {
        world.happen(Event::Of(at, act), &self.bounds)
    }
}
