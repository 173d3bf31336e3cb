//! Histories from bytes, as fuzzing makes them: every byte decides something.

use rondo_core::relay::Kind;

use crate::drawing::Dice;
use crate::happening::{Happening, WAITS_MS, live};
use crate::story::{BARRIER, ONCE, task, who};

/// More than that is only slow.
const HAPPENINGS_MAX: usize = 300;

/// Lives the history that these bytes stand for, and says what it was.
pub(crate) fn live_by(bytes: &[u8]) -> Vec<Happening> {
    let mut dice = Dice::new(bytes);
    let history = dice.draw_all(HAPPENINGS_MAX, Dice::happening);
    live(&history);
    history
}

impl Dice<'_> {
    fn happening(&mut self) -> Happening {
        match self.byte() % 32 {
            0..8 => Happening::Ask(u64::from(self.byte() % 4), self.kind()),
            8..14 => Happening::Deliver(self.which()),
            14..19 => Happening::Answer(self.which(), false),
            19 => Happening::Answer(self.which(), true),
            20..23 => Happening::Find,
            23 | 24 => Happening::Wait(WAITS_MS[self.which() % WAITS_MS.len()]),
            25 => Happening::Cancel(self.which()),
            26 => Happening::Close(u64::from(self.byte() % 4)),
            27 => Happening::Break,
            28 => Happening::Crash(self.byte().is_multiple_of(8)),
            29 => Happening::Restart,
            30 => Happening::Release(self.which()),
            _ => Happening::Expire(self.which()),
        }
    }

    fn kind(&mut self) -> Kind {
        let byte = self.byte();
        let (index, run) = (i32::from(byte >> 6 & 1), u64::from(byte >> 7) + 1);
        match byte % 8 {
            0 | 1 => Kind::Register(who(index, run)),
            2 | 3 => Kind::Heartbeat(who(index, run)),
            4 => Kind::Shutdown(task(index)),
            5 => ONCE,
            6 => BARRIER,
            _ if byte >> 3 & 7 == 7 => Kind::Alive,
            _ => Kind::Again,
        }
    }
}
