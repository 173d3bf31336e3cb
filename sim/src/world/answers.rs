//! The node's answers, as oracles see them.

use rondo_core::control::Reply;
use rondo_core::coordination;
use rondo_core::dispatcher;
use rondo_core::ids::{CallId, Lsn};
use rondo_core::status::Status;

use super::World;
use super::node::COORDINATION_CALLS;
use crate::oracle::Seen;
use crate::trace::{of_coordination, of_reply};

impl World {
    /// Shows an answer to the oracles, and gives it back.
    pub(super) fn show_answer(
        &mut self,
        call: CallId,
        answer: Result<Reply, Status>,
    ) -> Result<Reply, Status> {
        let durable = self.durable();
        let of_coordination = call.get() >= COORDINATION_CALLS;
        match answer {
            Ok(Reply::Coordination(reply)) => {
                let answer = Ok(reply);
                self.show_told(call, &answer, durable);
                answer.map(Reply::Coordination)
            }
            Ok(Reply::Dispatcher(reply)) => {
                let answer = Ok(reply);
                self.show_answered(call, &answer, durable);
                answer.map(Reply::Dispatcher)
            }
            Err(status) if of_coordination => {
                let answer = Err(status);
                self.show_told(call, &answer, durable);
                answer.map(Reply::Coordination)
            }
            Err(status) => {
                let answer = Err(status);
                self.show_answered(call, &answer, durable);
                answer.map(Reply::Dispatcher)
            }
        }
    }

    fn show_answered(
        &mut self,
        call: CallId,
        answer: &Result<dispatcher::Reply, Status>,
        durable: Lsn,
    ) {
        self.trace.hash(self.now_ns, call.get(), of_reply(answer));
        self.see(&Seen::Answered { call, answer, durable });
    }

    fn show_told(
        &mut self,
        call: CallId,
        answer: &Result<coordination::Reply, Status>,
        durable: Lsn,
    ) {
        self.trace.hash(self.now_ns, call.get(), of_coordination(answer));
        self.see(&Seen::Told { call, answer, durable });
    }
}
