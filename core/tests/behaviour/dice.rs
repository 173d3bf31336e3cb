//! Histories from bytes, as fuzzing makes them: every byte decides something, and all histories
//! that can be drawn can be written so.

use rondo_core::dispatcher::Group;

use crate::drawing::Dice;
use crate::happening::{At, Happening, Round, Tasks};

/// Bytes from here on stand for clients that hold splits.
const HOLDS_FROM: u8 = 230;
/// One of those ends a reader.
const END_READER: u8 = 255;
/// And one deletes something.
const DELETE: u8 = 254;
/// More than that is only slow.
const HAPPENINGS_MAX: usize = 200;
/// Enough for all tasks of an epoch to end at once.
const TASKS_MAX: u8 = 12;

impl Dice<'_> {
    /// The rest as a history.
    pub(crate) fn history(&mut self) -> Vec<Happening> {
        self.draw_all(HAPPENINGS_MAX, Self::happening)
    }

    fn happening(&mut self) -> Happening {
        let kind = self.byte();
        if kind == END_READER {
            return self.end_reader();
        }
        if kind == DELETE {
            return self.deletion();
        }
        if kind >= HOLDS_FROM {
            return self.hold();
        }
        match kind % 23 {
            kind @ 0..5 => self.of_clients(kind),
            kind @ 5..11 => self.of_work(kind),
            kind @ 11..19 => self.of_the_rest(kind),
            kind => self.of_positions(kind),
        }
    }

    fn of_clients(&mut self, kind: u8) -> Happening {
        match kind {
            0 => {
                let (dataset, sharding) = (self.at(), self.byte() % 8);
                let name = self.one(&[None, None, Some("one"), Some("two")]);
                let consumers = [None, None, None, Some(1), Some(2), Some(3), Some(0)];
                let (consumers, last) = (self.one(&consumers), self.byte());
                let (same_dataset, cached) = (last % 4 == 3, last.is_multiple_of(10));
                Happening::Job { dataset, sharding, name, same_dataset, consumers, cached }
            }
            1 => Happening::Join { job: self.at(), repetition: self.one(&[0, 0, 0, 1, -1]) },
            2 | 3 => Happening::Client {
                client: self.at(),
                current: self.round(),
                blocked: self.round(),
            },
            _ => Happening::Release { client: self.at() },
        }
    }

    fn end_reader(&mut self) -> Happening {
        Happening::EndReader { client: self.at(), job: self.one(&["one", "one", "two"]) }
    }

    fn deletion(&mut self) -> Happening {
        match self.byte() % 3 {
            0 => Happening::DeleteJob { name: self.one(&["one", "one", "two"]) },
            1 => Happening::DeleteDataset { dataset: self.at() },
            _ => Happening::RemoveWorker { address: self.one(&["w0:1", "w1:1", "w1:2", "w2:1"]) },
        }
    }

    fn hold(&mut self) -> Happening {
        Happening::Hold {
            client: self.at(),
            hold: self.one(&[0, 1, 2, 2, 3, 5]),
            progress: self.some(4, |dice| {
                (dice.at(), u64::from(dice.byte() % 4), dice.byte().is_multiple_of(2))
            }),
            group: self.one(&[
                Group::ALL,
                Group::ALL,
                Group { index: 0, size: 2 },
                Group { index: 1, size: 2 },
                Group { index: 2, size: 3 },
            ]),
        }
    }

    fn of_work(&mut self, kind: u8) -> Happening {
        match kind {
            5 => Happening::Worker {
                address: self.one(&["w0:1", "w1:1", "w1:2", "w2:1"]),
                tasks: self.tasks(),
                uid: self.one(&[1, 1, 1, 2, -1, 1, -1, 2]),
            },
            6 => Happening::Update {
                tasks: self.some(TASKS_MAX, |dice| (dice.at(), !dice.byte().is_multiple_of(4))),
            },
            7 => Happening::Split {
                iteration: self.at(),
                repetition: self.one(&[0, 0, 0, 1, 2, -1, i64::MAX]),
                source: self.one(&[0, 0, 0, 1, 2]),
                asker: self.one(&[None, Some("w0:1"), Some("w1:1"), Some("w1:1"), Some("w2:1")]),
            },
            8 => Happening::Remove {
                task: self.at(),
                consumer: self.one(&[0, 1, 2]),
                round: self.one(&[5, 5, i64::MAX, 6]),
            },
            9 => Happening::Cancel { call: self.at() },
            _ => Happening::Workers,
        }
    }

    fn of_the_rest(&mut self, kind: u8) -> Happening {
        match kind {
            11 => self.registration(),
            12 => self.of_datasets(),
            13 => Happening::Advance {
                millis: self.one(&[0, 10, 1_000, 6_000, 11_000, 31_000, 61_000, 71_000, 121_000]),
            },
            14 => Happening::Sync { upto: self.at() },
            15 => match self.byte() % 2 {
                0 => Happening::MakeRoom,
                _ => Happening::Journal { kind: self.byte() % 6 },
            },
            16 => Happening::Crash { upto: self.at() },
            17 => Happening::Wait { millis: self.one(&[10, 1_000, 6_000, 11_000, 61_000]) },
            _ => Happening::FailSync { upto: self.at() },
        }
    }

    fn registration(&mut self) -> Happening {
        let wished = self.one(&[None, None, Some("a"), Some("1001")]);
        let (content, structure) = (self.byte() % 7, self.one(&[0, 0, 0, 1]));
        let last = self.byte();
        let (compressed, replaces) = (!last.is_multiple_of(5), last % 8 == 7);
        Happening::Register { wished, content, structure, compressed, replaces }
    }

    fn of_datasets(&mut self) -> Happening {
        let (dataset, what) = (self.at(), self.byte());
        match what {
            0..192 => Happening::Read { dataset, what: what % 4 },
            192..208 => Happening::Version { dataset, job: None, position: None },
            208..224 => Happening::Version { dataset, job: None, position: Some("p") },
            224..240 => Happening::Version { dataset, job: Some("one"), position: Some("p") },
            _ => Happening::Version { dataset, job: Some("one"), position: None },
        }
    }

    fn of_positions(&mut self, kind: u8) -> Happening {
        let names = ["p", "p", "q"];
        let jobs = ["one", "one", "two"];
        match kind {
            19 => Happening::Save { name: self.one(&names), job: self.one(&jobs) },
            20 => {
                let (name, job) = (self.one(&names), self.one(&jobs));
                let is_reader = self.one(&[false, true]);
                Happening::Restore { name, job, wanted: is_reader.then(|| self.at()) }
            }
            21 => Happening::Delete { name: self.one(&names) },
            _ => Happening::Positions,
        }
    }

    fn round(&mut self) -> Round {
        match self.byte() % 9 {
            0 | 1 => Round::Absent,
            2 => Round::At(self.one(&[0, 1, 7, -3, i64::MAX])),
            _ => Round::NearTarget(self.one(&[-2, -1, 0, 1])),
        }
    }

    fn tasks(&mut self) -> Tasks {
        match self.byte() % 6 {
            0..3 => Tasks::Right,
            3 | 4 => Tasks::None,
            _ => Tasks::Some(self.some(TASKS_MAX, Self::at)),
        }
    }

    fn some<T>(&mut self, max: u8, each: impl Fn(&mut Self) -> T) -> Vec<T> {
        let count = self.byte() % (max + 1);
        (0..count).map(|_| each(self)).collect()
    }

    fn at(&mut self) -> At {
        At(u64::from(self.byte()))
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()]
    }
}
