//! Histories from bytes, as fuzzing makes them: every byte decides something.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::exchange::member::{Ask, Standing};
use rondo_core::exchange::message::Scope;
use rondo_core::exchange::scheduler::{Event, Settings};
use rondo_core::exchange::{Mask, MembershipVersion, Role};
use rondo_core::time::Duration;

use crate::drawing::Dice;
use crate::process::{Kind, Process, config};
use crate::world::World;

/// More than that is only slow.
const BYTES_MAX: usize = 600;
/// Worlds: workers, servers, processes of each group.
const WORLDS: [(u32, u32, u32); 4] = [(1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 1, 2)];
const WAITS_MS: [u64; 8] = [1, 20, 90, 120, 310, 350, 1100, 6000];
const TIMEOUTS_MS: [u64; 4] = [5, 50, 400, 3000];
/// The kinds of barrier that processes come to.
pub(crate) const KINDS: [Kind; 5] = [
    (Mask::ALL, Scope::Instance),
    (Mask::WORKERS, Scope::Instance),
    (Mask::SERVERS, Scope::Instance),
    (Mask::ALL, Scope::Group),
    (Mask::WORKERS, Scope::Group),
];

/// Lives the history that these bytes stand for; then all troubles end, and all must come to rest.
pub(crate) fn live_by(bytes: &[u8]) -> World {
    let mut dice = Dice::new(bytes.get(..BYTES_MAX).unwrap_or(bytes));
    let how = dice.byte();
    let (workers, servers, group) = WORLDS[usize::from(how) % WORLDS.len()];
    let sizes = World::new(workers, servers, group).sizes;
    let settings = Settings {
        config: config(),
        sizes: (how & 4 == 0).then_some(sizes),
        takes_part: false,
        goes_on_without_lost: how & 8 != 0,
    };
    let mut world = World::with(sizes, settings);
    for process in 0..world.processes.len() {
        world.start(process);
    }
    if how & 16 == 0 {
        world.calm(20);
    }
    while !dice.is_over() {
        dice.happens(&mut world);
    }
    comes_to_rest(&mut world);
    world
}

/// All is well from now on: everybody takes part again, knows the same, and barriers are passed.
fn comes_to_rest(world: &mut World) {
    world.start_scheduler();
    world.calm(3000);
    // Twice: a run that is refused because one before it was not known to be dead comes again.
    for _ in 0..2 {
        for process in 0..world.processes.len() {
            let standing = world.standing(process);
            if !matches!(standing, Some(Standing::Joined | Standing::Joining)) {
                world.kill(process, false);
                world.start(process);
            }
        }
        world.calm(3000);
    }
    let membership = world.scheduler.as_ref().unwrap().membership().cloned();
    let membership = membership.expect("there is a membership");
    for process in 0..world.processes.len() {
        let of = &world.processes[process];
        assert!(world.is_joined(process), "{of:?}");
        let known = of.member.as_ref().unwrap().membership();
        assert_eq!(known, Some(&membership), "everybody knows the same");
        let itself = membership.member(of.role, of.rank).unwrap();
        assert_eq!(itself.incarnation, of.incarnation, "{of:?}");
    }
    for kind in KINDS {
        meet(world, kind);
    }
    leave(world);
}

/// As soon as everybody has come to the barriers at which somebody waits, nobody waits there.
fn meet(world: &mut World, kind: Kind) {
    let unit = |world: &World, process: usize| {
        let Process { role, rank, .. } = &world.processes[process];
        let unit = match kind.1 {
            Scope::Instance => rank.get(),
            Scope::Group => world.sizes.group_of(*rank),
        };
        kind.0.contains(*role).then_some((*role, unit))
    };
    // One of each unit; and who waits in its place.
    let mut units = BTreeMap::new();
    for process in 0..world.processes.len() {
        units.extend(unit(world, process).map(|unit| (unit, process)));
    }
    // One call may wait behind another one of its process.
    for _ in 0..100 {
        let waits = |of: &Process| of.waiting.values().any(|it| *it == Some(kind));
        let waiting: BTreeSet<_> = (0..world.processes.len())
            .filter(|process| waits(&world.processes[*process]))
            .filter_map(|process| unit(world, process))
            .collect();
        if waiting.is_empty() {
            break;
        }
        for (_, process) in units.iter().filter(|(unit, _)| !waiting.contains(unit)) {
            world.come(*process, kind.0, kind.1);
        }
        world.calm(50);
    }
    let calls: Vec<_> =
        units.values().map(|process| (*process, world.come(*process, kind.0, kind.1))).collect();
    world.calm(50);
    for (process, call) in calls {
        assert!(world.told(process, call).is_ok(), "{:?}", world.told(process, call));
    }
}

/// When all have left it is over, and nobody waits for anything.
fn leave(world: &mut World) {
    for process in 0..world.processes.len() {
        world.ask(process, Ask::Leave);
    }
    world.calm(2000);
    for process in &world.processes {
        assert!(process.waiting.is_empty(), "{process:?}");
    }
    let is_over = world.events.iter().any(|event| matches!(event, Event::Ended { .. }));
    assert!(is_over);
    let report = world.scheduler.as_ref().unwrap().report();
    assert_eq!((report.members.len(), report.connections, report.barriers.len()), (0, 0, 0));
    assert_eq!(world.scheduler.as_ref().unwrap().deadline(), None);
}

impl Dice<'_> {
    fn happens(&mut self, world: &mut World) {
        match self.byte() % 32 {
            0..9 => self.one_arrives(world),
            9..12 => world.drain(),
            12..18 => self.somebody_asks(world),
            18 | 19 => {
                let call = self.byte();
                let process = self.process(world);
                let waiting = &world.processes[process].waiting;
                let call = waiting.keys().nth(usize::from(call) % waiting.len().max(1)).copied();
                if let Some(call) = call {
                    world.cancel(process, call);
                }
            }
            20..23 => world.calm(WAITS_MS[self.which() % WAITS_MS.len()]),
            23 | 24 => world.stall(WAITS_MS[self.which() % WAITS_MS.len()]),
            25 | 26 => {
                let line = self.which() % world.lines.len().max(1);
                world.break_line(line);
            }
            27 => {
                let process = self.process(world);
                let is_silent = self.byte().is_multiple_of(2);
                world.kill(process, is_silent);
            }
            28 | 29 => {
                let process = self.process(world);
                let is_silent = self.byte().is_multiple_of(4);
                world.kill(process, is_silent);
                world.start(process);
            }
            30 => world.kill_scheduler(),
            _ => world.start_scheduler(),
        }
    }

    fn one_arrives(&mut self, world: &mut World) {
        let deliveries = world.deliveries();
        if let Some(delivery) = deliveries.get(self.which() % deliveries.len().max(1)) {
            world.deliver(*delivery);
        }
    }

    fn somebody_asks(&mut self, world: &mut World) {
        let process = self.process(world);
        let how = self.byte();
        let after = Duration::from_millis(TIMEOUTS_MS[usize::from(how >> 6)]);
        let timeout = (how & 32 != 0).then_some(after);
        let (mask, scope) = KINDS[usize::from(how) % KINDS.len()];
        let is_in = mask.contains(world.processes[process].role);
        let ask = match how % 32 {
            0 => Ask::Leave,
            1 | 2 => Ask::Changed { after: MembershipVersion::new(u64::from(how >> 5)), timeout },
            3 => Ask::Join { timeout },
            _ if is_in => Ask::Barrier { mask, scope, timeout },
            _ => Ask::Barrier { mask: mask_of(world.processes[process].role), scope, timeout },
        };
        world.ask(process, ask);
    }

    fn process(&mut self, world: &World) -> usize {
        self.which() % world.processes.len()
    }
}

const fn mask_of(role: Role) -> Mask {
    match role {
        Role::Server => Mask::SERVERS,
        Role::Worker | Role::Scheduler => Mask::WORKERS,
    }
}
