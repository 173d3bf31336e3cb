//! Notes which states are reached.

use rondo_core::exchange::server::Partial;
use rondo_core::exchange::{Refusal, member, scheduler, server, worker};

use super::World;
use crate::mark::Mark;
use crate::oracle::exchange::Slice;

impl World {
    pub(super) fn mark_worker(
        &mut self,
        input: &worker::Input<Slice>,
        effects: &[worker::Effect<Slice>],
    ) {
        use rondo_core::exchange::message::{ToServer, ToWorker};
        for effect in effects {
            let mark = match effect {
                worker::Effect::Waited { result: Ok(complete), .. } => {
                    match complete.missing.is_empty() {
                        true => Mark::ExchangeCompleted,
                        false => Mark::ExchangeDidWithout,
                    }
                }
                worker::Effect::Waited { result: Err(refusal), .. } => match refusal {
                    Refusal::Late { .. } => Mark::ExchangeWaitedTooLong,
                    Refusal::PeerLost(_) => Mark::ExchangeServerLost,
                    _ => continue,
                },
                worker::Effect::Send { message: ToServer::Hello(hello), .. }
                    if !hello.open.is_empty() =>
                {
                    Mark::ExchangeGoesOn
                }
                worker::Effect::Send { message: ToServer::Request(_), .. }
                    if matches!(
                        input,
                        worker::Input::Message { message: ToWorker::Released { .. }, .. }
                    ) =>
                {
                    Mark::ExchangeGotCredit
                }
                _ => continue,
            };
            self.mark(mark);
        }
    }

    pub(super) fn mark_server(
        &mut self,
        input: &server::Input<Slice>,
        effects: &[server::Effect<Slice>],
    ) {
        if let server::Input::Release { .. } = input {
            self.mark(Mark::ExchangeReleased);
        }
        let workers = self.shape.workers as usize;
        for effect in effects {
            let mark = match effect {
                server::Effect::Batch { result: Ok(units), .. } if units.len() < workers => {
                    Mark::ExchangeBatchOfSome
                }
                server::Effect::Batch { result: Ok(_), .. } => Mark::ExchangeBatchOfAll,
                server::Effect::Batch { result: Err(Refusal::PeerLost(_)), .. } => {
                    Mark::ExchangeBatchFailed
                }
                server::Effect::Done { result: Err(Refusal::AnsweredBefore { .. }), .. } => {
                    Mark::ExchangeAnsweredTwice
                }
                server::Effect::Done { result: Err(Refusal::PeerLost(_)), .. } => {
                    Mark::ExchangeOrphanAnswered
                }
                _ => continue,
            };
            self.mark(mark);
        }
        if let server::Input::GetBatch { partial: Partial::UpMembersOnly, .. } = input {
            self.mark(Mark::ExchangeUpMembersOnly);
        }
    }

    pub(super) fn mark_scheduler(&mut self, effects: &[scheduler::Effect]) {
        for effect in effects {
            let scheduler::Effect::Observe(event) = effect else {
                continue;
            };
            let mark = match event {
                scheduler::Event::Returned { .. } => Mark::ExchangeRankTaken,
                scheduler::Event::Rebuilt { .. } => Mark::ExchangeRebuilt,
                scheduler::Event::Lost(_) => Mark::ExchangeProcessLost,
                _ => continue,
            };
            self.mark(mark);
        }
    }

    pub(super) fn mark_member(&mut self, event: &member::Event) {
        if let member::Event::Back { .. } = event {
            self.mark(Mark::ExchangeSchedulerBack);
        }
    }
}
