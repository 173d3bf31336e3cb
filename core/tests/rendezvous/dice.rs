//! Histories from bytes, as fuzzing makes them: every byte decides something.

use crate::drawing::Dice;
use crate::happening::{Happening, WAITS_MS, live};

/// More than that is only slow.
const HAPPENINGS_MAX: usize = 300;

/// Lives the history that these bytes stand for, and says what it was.
pub(crate) fn live_by(bytes: &[u8]) -> Vec<Happening> {
    let mut dice = Dice::new(bytes);
    let is_home = dice.byte() % 2 == 1;
    let history = dice.draw_all(HAPPENINGS_MAX, Dice::happening);
    live(is_home, &history);
    history
}

impl Dice<'_> {
    fn happening(&mut self) -> Happening {
        match self.byte() % 32 {
            0..8 => self.send(),
            8..12 => {
                let (step, key) = self.place();
                Happening::Recv { step, key, timeout: self.byte() }
            }
            12..15 => {
                let (step, key) = self.place();
                Happening::RecvLocal { step, key, timeout: self.byte() }
            }
            15..19 => self.request(),
            19 => Happening::Finished(self.byte()),
            20 | 21 => Happening::Cancel(self.which()),
            22 => Happening::Fetched(self.which()),
            23 | 24 => Happening::NotFetched(self.which(), self.byte()),
            25 => Happening::Initialize(self.byte(), self.byte().is_multiple_of(8)),
            26 => Happening::Find(self.byte()),
            27 => Happening::Abort(self.byte(), self.byte()),
            28 => Happening::Cleanup(self.byte()),
            29 => match self.byte() % 8 {
                0 => Happening::CleanupAll,
                step => Happening::Initialize(step, false),
            },
            _ => Happening::Wait(WAITS_MS[self.which() % WAITS_MS.len()]),
        }
    }

    fn send(&mut self) -> Happening {
        let (step, key) = self.place();
        let (bytes, how) = (self.byte(), self.byte());
        Happening::Send { step, key, bytes, waits: how % 2 == 1, is_dead: how / 2 % 8 == 0 }
    }

    fn request(&mut self) -> Happening {
        let ((step, key), timeout, how) = (self.place(), self.byte(), self.byte());
        let (request, keeps) = (how / 4, how % 4 != 0);
        Happening::Request { step, key, timeout, request, keeps }
    }

    /// A step and a key of it.
    fn place(&mut self) -> (u8, u8) {
        let byte = self.byte();
        (byte >> 5, byte & 31)
    }
}
