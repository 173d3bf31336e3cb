//! Histories from bytes, as fuzzing makes them: every byte decides something.

use rondo_core::exchange::Policy;
use rondo_core::time::Duration;

use crate::drawing::Dice;
use crate::happening::{Happening, WAITS_MS, live};
use crate::net::Setup;

/// More than that is only slow.
const HAPPENINGS_MAX: usize = 400;

/// Lives the history that these bytes stand for, and says what it was.
pub(crate) fn live_by(bytes: &[u8]) -> Vec<Happening> {
    let mut dice = Dice::new(bytes);
    let setup = dice.setup();
    let history = dice.draw_all(HAPPENINGS_MAX, |dice| dice.happening(setup.breaks));
    live(setup, &history);
    history
}

impl Dice<'_> {
    /// Who there is, and whether anything goes wrong.
    fn setup(&mut self) -> Setup {
        let (sizes, how) = (self.byte(), self.byte());
        let policy = match how % 4 {
            0 => Policy::Partial,
            1 => Policy::WaitForReturn { timeout: Duration::from_millis(4_000) },
            _ => Policy::Fail,
        };
        Setup {
            workers: usize::from(sizes % 3) + 1,
            servers: usize::from(sizes / 3 % 3) + 1,
            policy,
            key_credits: u32::from(how / 4 % 2) + 1,
            batch_fails_on_loss: how / 8 % 2 == 0,
            has_slots: how / 64 % 2 == 1,
            breaks: how / 16 % 4 != 0,
        }
    }

    fn happening(&mut self, breaks: bool) -> Happening {
        match self.byte() % 64 {
            0..14 => {
                let (worker, how, sizes) = (self.byte(), self.byte(), self.byte());
                Happening::Ask { worker, pushes: how % 4, pulls: how / 4, sizes }
            }
            14..20 => {
                let (worker, request) = (self.byte(), self.byte() % 4);
                Happening::Wait { worker, request, timeout: self.byte() }
            }
            20 => Happening::Abandon { worker: self.byte(), request: self.byte() },
            21 => Happening::CancelWait { worker: self.byte() },
            22..28 => {
                let (server, how) = (self.byte(), self.byte());
                Happening::GetBatch { server, how: how % 3, timeout: how / 3 }
            }
            28..34 => Happening::Respond { server: self.byte(), unit: self.byte() },
            34 => Happening::Release { server: self.byte(), unit: self.byte() },
            35 => {
                let (server, worker) = (self.byte(), self.byte());
                Happening::Register { server, worker, sizes: self.byte() }
            }
            36..48 => Happening::Deliver { nth: self.byte(), times: self.byte() },
            48 => Happening::Connect,
            49 => Happening::Again { nth: self.byte(), which: self.byte() },
            50 | 51 => Happening::News { process: self.byte() },
            52..56 => Happening::Pass { millis: WAITS_MS[usize::from(self.byte()) % 7] },
            _ if !breaks => Happening::Connect,
            56 | 57 => Happening::Break { nth: self.byte(), arrive: self.byte() },
            58 | 59 => {
                let pair = self.byte();
                Happening::Cut { pair, is_cut: pair.is_multiple_of(3) }
            }
            60 => Happening::Crash { process: self.byte() },
            61 => {
                let process = self.byte();
                Happening::Gone { process, has_left: (process / 16).is_multiple_of(2) }
            }
            _ => Happening::Return { process: self.byte() },
        }
    }
}
