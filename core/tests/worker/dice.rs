//! Histories from bytes, as fuzzing makes them: every byte decides something.

use crate::drawing::Dice;
use crate::happening::{Behind, Happening, How, ITERATIONS, TASKS, WAITS_MS, live};

/// More than that is only slow.
const HAPPENINGS_MAX: usize = 400;

/// Lives the history that these bytes stand for, and says what it was.
pub(crate) fn live_by(bytes: &[u8]) -> Vec<Happening> {
    let mut dice = Dice::new(bytes);
    let history = dice.draw_all(HAPPENINGS_MAX, Dice::happening);
    live(&history);
    history
}

impl Dice<'_> {
    fn happening(&mut self) -> Happening {
        match self.byte() % 64 {
            0..14 => {
                let byte = self.which();
                Happening::Ask(self.task(), byte % 4, byte >= 128)
            }
            14 => Happening::Dataset(self.task()),
            15 => Happening::Tasks,
            16..19 => Happening::Push(self.task(), self.iteration()),
            19 => Happening::Bring(self.task(), self.iteration()),
            20 => Happening::Delete(self.task()),
            21..24 => Happening::Cancel(self.which()),
            24..32 => Happening::Left(self.which()),
            32..40 => Happening::Answer(self.which(), How::Well),
            40 => Happening::Answer(self.which(), How::Away),
            41 => Happening::Answer(self.which(), How::Proxy),
            42 => Happening::Answer(self.which(), How::Unknown),
            43 => Happening::Answer(self.which(), How::Nonsense),
            44..47 => Happening::Open(self.which(), true),
            47 => Happening::Open(self.which(), false),
            48..56 => self.make(),
            56 => Happening::Late(self.which()),
            // A worker that stops does little more.
            57 if self.byte().is_multiple_of(4) => Happening::Drain,
            _ => Happening::Wait(WAITS_MS[self.which() % WAITS_MS.len()]),
        }
    }

    fn make(&mut self) -> Happening {
        let (which, byte) = (self.which(), self.byte());
        let behind = match byte % 16 {
            0..8 => Behind::More,
            8..15 => Behind::End,
            _ => Behind::Failed,
        };
        Happening::Make(which, u64::from(byte >> 4) % 6, behind)
    }

    fn task(&mut self) -> i64 {
        i64::from(self.byte()) % TASKS + 1
    }

    fn iteration(&mut self) -> i64 {
        i64::from(self.byte().is_multiple_of(8)) % ITERATIONS
    }
}
