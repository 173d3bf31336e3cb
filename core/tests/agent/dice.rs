//! Histories from bytes, as fuzzing makes them: every byte decides something.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::agent::{Ask, Request};
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::drawing::Dice;
use crate::happening::{Happening, How, WAITS_MS, live};

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
            0 | 1 => Happening::Initialize { anew: self.byte().is_multiple_of(4) },
            2..10 => Happening::Ask(self.ask()),
            10 => Happening::Cancel(self.which()),
            11..20 => Happening::Answer(self.which(), How::Well),
            20 => Happening::Answer(self.which(), How::OtherLife),
            21 => Happening::Answer(self.which(), How::Refused),
            22..25 => Happening::Answer(self.which(), How::Broken),
            25 => Happening::Answer(self.which(), How::Nonsense),
            _ => Happening::Wait(WAITS_MS[self.which() % WAITS_MS.len()]),
        }
    }

    fn ask(&mut self) -> Ask {
        let byte = self.byte();
        let key: Arc<str> = ["a", "a/b"][usize::from(byte >> 7)].into();
        match byte % 16 {
            0..4 => Ask::Connect,
            4 => Ask::WaitForAllTasks { devices: Bytes::new() },
            5 => Ask::ReportError { code: Code::Internal, message: "broken".into() },
            6 => Ask::Reset,
            7 => Ask::Shutdown,
            8 | 9 => Ask::Barrier { id: key, timeout: Duration::from_secs(9), tasks: Vec::new() },
            10 => Ask::CancelBarrier { id: key },
            11 => Ask::StartWatch { key },
            12 => Ask::StopWatch { key },
            13 => Ask::ActivateWatch { key, changes: Vec::new() },
            14 => Ask::SetError { status: Status::new(Code::Aborted, "set") },
            _ => Ask::Call(Request::Get { key: key.to_string() }),
        }
    }
}
