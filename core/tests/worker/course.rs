//! The model of one task: which of its elements are where, and what may be said of them.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::status::Code;
use rondo_core::time::Time;
use rondo_core::worker::{Part, RunId, TaskDef};

/// Elements that trainers share are kept within so many bytes.
pub(crate) const CACHE_BYTES: u64 = 40;
/// Elements of the task with this serial number have numbers from here on.
const OF_ONE_TASK: u64 = 1_000_000;
/// Consumers that read in rounds.
pub(crate) const CONSUMERS: usize = 2;

/// Why no more elements come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Over,
    Failed(Code),
    /// The worker stops; other workers have the splits that are left.
    Cut,
}

/// A consumer's place in the rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The round that it wants next.
    pub(crate) round: i64,
    /// The last round that it asked for.
    pub(crate) asked: i64,
    /// The element of its last round has not left: it asks for that again.
    pub(crate) asks_again: bool,
}

/// A trainer's place among the elements.
#[derive(Clone, Debug, Default)]
struct Trainer {
    next: u64,
    has: BTreeSet<u64>,
    again: BTreeSet<u64>,
}

/// One task, from when the worker takes it to when it is deleted or replaced.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) def: TaskDef,
    pub(crate) iteration: i64,
    /// Tells it from other tasks with its number.
    pub(crate) serial: u64,
    pub(crate) run: Option<RunId>,
    /// The bytes of each element made, by its number.
    sizes: Vec<u64>,
    /// Elements that wait for who comes first.
    ready: BTreeSet<u64>,
    /// Elements on their way, by call, with who asked.
    leaving: BTreeMap<u64, (u64, usize)>,
    left: BTreeSet<u64>,
    pub(crate) ending: Option<Ending>,
    /// Since when the dispatcher hands out no split that was asked for.
    pub(crate) splits_away: Option<Time>,
    /// The dispatcher was away for about as long as it may be: whether that ended the task is open.
    pub(crate) may_have_failed: bool,
    /// The split that is being read.
    pub(crate) split: Option<i64>,
    pub(crate) no_more_splits: bool,
    /// The dispatcher has heard of the end.
    pub(crate) is_told: bool,
    pub(crate) compressed: Option<bool>,
    pub(crate) is_open: bool,
    pub(crate) places: [Place; CONSUMERS],
    /// The first element of each round's group; none of a skipped round.
    rounds: BTreeMap<i64, Option<u64>>,
    trainers: BTreeMap<usize, Trainer>,
    /// Elements that trainers have seen together.
    seen: u64,
}

impl Course {
    pub(crate) fn new(def: TaskDef, iteration: i64, serial: u64) -> Self {
        Self {
            def,
            iteration,
            serial,
            run: None,
            sizes: Vec::new(),
            ready: BTreeSet::new(),
            leaving: BTreeMap::new(),
            left: BTreeSet::new(),
            ending: None,
            splits_away: None,
            may_have_failed: false,
            split: None,
            no_more_splits: false,
            is_told: false,
            compressed: None,
            is_open: false,
            places: [Place { round: 0, asked: -1, asks_again: false }; CONSUMERS],
            rounds: BTreeMap::new(),
            trainers: BTreeMap::new(),
            seen: 0,
        }
    }

    pub(crate) fn is_first_come(&self) -> bool {
        self.def.consumers.is_none() && !self.def.uses_cache
    }

    /// Whether all elements have left, and no more come.
    pub(crate) fn is_exhausted(&self) -> bool {
        let is_over = self.ending == Some(Ending::Over);
        is_over && self.is_first_come() && self.ready.is_empty() && self.leaving.is_empty()
    }

    /// Whether it has, or makes, elements that no other worker will.
    pub(crate) fn owes(&self) -> bool {
        let makes = self.is_open && self.ending.is_none();
        self.def.part == Part::Splits && (makes || !self.ready.is_empty())
    }

    /// The bytes of the elements that wait for who comes first.
    pub(crate) fn ready_bytes(&self) -> u64 {
        self.ready.iter().map(|number| self.size(*number)).sum()
    }

    pub(crate) fn ready_count(&self) -> u64 {
        self.ready.len() as u64
    }

    /// The calls whose elements are on their way.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = u64> {
        self.leaving.keys().copied()
    }

    fn size(&self, number: u64) -> u64 {
        self.sizes[usize::try_from(number).unwrap()]
    }

    /// Makes an element of so many bytes. Returns its number among all elements of all tasks.
    pub(crate) fn make(&mut self, bytes: u64) -> u64 {
        let number = self.sizes.len() as u64;
        self.sizes.push(bytes);
        if self.is_first_come() {
            self.ready.insert(number);
        }
        self.serial * OF_ONE_TASK + number
    }

    /// Whether the split in hand was read.
    pub(crate) fn come_to_an_end(&mut self, is_draining: bool) {
        if self.split.take().is_some() {
            return;
        }
        let is_cut = is_draining && self.def.part == Part::Splits && !self.no_more_splits;
        self.ending = Some(if is_cut { Ending::Cut } else { Ending::Over });
    }

    /// A call gets an element, which must be the right one.
    pub(crate) fn deliver(&mut self, call: u64, (who, round): (usize, i64), element: u64) {
        assert_eq!(element / OF_ONE_TASK, self.serial, "call {call} gets another task's element");
        let number = element % OF_ONE_TASK;
        if self.def.consumers.is_some() {
            self.deliver_in_round((who, round), Some(number));
        } else if self.def.uses_cache {
            self.deliver_to_trainer(who, number);
        } else {
            assert_eq!(self.ready.pop_first(), Some(number), "elements come in their order, once");
        }
        self.leaving.insert(call, (number, who));
    }

    /// A consumer gets this element in a round, or hears that the round is skipped.
    pub(crate) fn deliver_in_round(&mut self, (who, round): (usize, i64), number: Option<u64>) {
        let consumers = CONSUMERS as u64;
        assert!(
            self.places.iter().all(|place| place.asked >= round),
            "round {round} begins before all have asked for it"
        );
        let first = number.map(|number| {
            assert_eq!(number % consumers, who as u64, "its own element of the group");
            number - who as u64
        });
        let known = *self.rounds.entry(round).or_insert(first);
        assert_eq!(known, first, "round {round} is the same for all");
        let groups: Vec<u64> = self.rounds.values().flatten().copied().collect();
        let right: Vec<u64> = (0..groups.len() as u64).map(|group| group * consumers).collect();
        assert_eq!(groups, right, "group after group, none lost");
        self.places[who].round = self.places[who].round.max(round + 1);
    }

    /// The first element such that all from it on that were seen fit together.
    fn window(&self) -> u64 {
        let fits =
            |from: &u64| (*from..self.seen).map(|it| self.size(it)).sum::<u64>() <= CACHE_BYTES;
        (0..=self.seen).find(fits).unwrap()
    }

    fn deliver_to_trainer(&mut self, who: usize, number: u64) {
        let at = self.trainers.get(&who).cloned().unwrap_or_default();
        let again = at.again.range(self.window()..).next().copied();
        if again.is_none() && at.next.max(self.window()) >= self.seen {
            self.seen += 1;
        }
        let right = again.unwrap_or_else(|| at.next.max(self.window()));
        assert_eq!(number, right, "trainer {who} gets the oldest element that it has not got");
        let at = self.trainers.entry(who).or_default();
        assert!(at.has.insert(number), "trainer {who} gets element {number} twice");
        at.again.remove(&number);
        at.next = at.next.max(number + 1);
    }

    /// Whether a trainer could get an element now.
    pub(crate) fn has_for_trainer(&self, who: usize) -> bool {
        let at = self.trainers.get(&who).cloned().unwrap_or_default();
        let is_behind = at.next.max(self.window()) < self.seen;
        let again = at.again.range(self.window()..).next().is_some();
        is_behind || again || self.seen < self.sizes.len() as u64
    }

    /// An element has left.
    pub(crate) fn leave(&mut self, call: u64) -> bool {
        let Some((number, _)) = self.leaving.remove(&call) else { return false };
        if self.is_first_come() {
            assert!(self.left.insert(number), "element {number} leaves twice");
        }
        true
    }

    /// An element has not left.
    pub(crate) fn take_back(&mut self, call: u64) -> bool {
        let Some((number, who)) = self.leaving.remove(&call) else { return false };
        if self.is_first_come() {
            self.ready.insert(number);
        } else if self.def.uses_cache {
            let at = self.trainers.entry(who).or_default();
            at.has.remove(&number);
            at.again.insert(number);
        } else {
            self.places[who].asks_again = true;
        }
        true
    }

    /// Consumers that read in rounds agree until now on the rounds before this one.
    pub(crate) fn agreed(&self) -> i64 {
        self.rounds.last_key_value().map_or(-1, |(round, _)| *round)
    }

    /// Every element that was made has left, once.
    pub(crate) fn check_all_left(&self) {
        let all: BTreeSet<u64> = (0..self.sizes.len() as u64).collect();
        assert_eq!(self.left, all, "of task {}", self.def.task);
    }
}
