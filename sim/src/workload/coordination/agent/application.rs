//! What an application does with its agent.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::agent::{Ask, Input, PutCondition, Request, State};
use rondo_core::ids::TaskIndex;
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use super::super::some_barrier;
use super::super::task::ms;
use super::{AgentTask, app_shape};
use crate::mark::Mark;
use crate::workload::actor::{Act, With};
use crate::workload::agents::{AppCall, OfAgent};

/// Calls of an application that wait at once.
const CALLS_MAX: usize = 3;

impl AgentTask {
    /// The application does something, mostly what makes sense.
    pub(super) fn act(&mut self, now: Time, with: &mut With<'_>) {
        let shape = with.swarm.coordination.as_ref();
        let barriers = shape.map_or(1, |shape| shape.barriers);
        let crowded = self.calls.len() >= CALLS_MAX;
        if let Some(again) = self.again.take() {
            return self.make_again(now, again, with);
        }
        let often = app_shape(with).map_or(0, |shape| shape.watches);
        if with.stream.chance(often) {
            return self.watch(now, crowded, with);
        }
        let chosen = with.stream.below(40);
        if chosen == 0 || (crowded && chosen < 10) {
            return self.cancel(now, with);
        }
        if chosen == 1 {
            return self.set_error(now, with);
        }
        match (self.agent.state(), chosen) {
            (State::Error, 2..4) | (State::Disconnected, 2) => self.end(now, with),
            (State::Error, _) if !crowded => {
                with.tally.mark(Mark::AgentReset);
                self.ask(now, AppCall::Reset, Ask::Reset, with);
            }
            (State::Disconnected, _) if !self.agent.is_connecting() => {
                self.ask(now, AppCall::Connect, Ask::Connect, with);
            }
            (State::Running, 2..5) if !with.calm => {
                with.tally.mark(Mark::AgentShutDown);
                self.ask(now, AppCall::Shutdown, Ask::Shutdown, with);
            }
            (State::Running, 5) if !with.calm => {
                let (code, message) = (Code::Internal, format!("task {} found it", self.index));
                self.ask(now, AppCall::Error, Ask::ReportError { code, message }, with);
            }
            (_, 6..30) if !crowded => self.come(now, barriers, with),
            (State::Running, 30..) if !crowded => self.share(now, with),
            _ => {}
        }
    }

    fn come(&mut self, now: Time, barriers: u64, with: &mut With<'_>) {
        let id = some_barrier(barriers, with.stream);
        self.come_to(now, id, with);
    }

    fn come_to(&mut self, now: Time, id: Arc<str>, with: &mut With<'_>) {
        let all = (0..self.shape.tasks).map(|index| i32::try_from(index).unwrap_or(0));
        let tasks = match with.stream.chance(300) {
            true => all.map(TaskIndex::new).collect(),
            false => Vec::new(),
        };
        let timeout = ms(with.stream.pick(&[4000, 1000, 15_000]).copied().unwrap_or(4000));
        let ask = Ask::Barrier { id: id.clone(), timeout, tasks };
        self.ask(now, AppCall::Barrier(id), ask, with);
    }

    fn share(&mut self, now: Time, with: &mut With<'_>) {
        let number = with.stream.below(3);
        let key = format!("k/{number}");
        let request = match with.stream.chance(500) {
            true => Request::Get { key },
            false => Request::Put {
                key,
                value: Bytes::from(format!("{}.{}", self.number, self.next_call)),
                condition: PutCondition::Always,
                leased: false,
            },
        };
        self.ask(now, AppCall::Plain, Ask::Call(request), with);
    }

    fn set_error(&mut self, now: Time, with: &mut With<'_>) {
        if self.agent.is_connecting() {
            with.tally.mark(Mark::AgentErrorWhileConnecting);
        }
        let status = Status::new(Code::Internal, "the application says so");
        self.ask(now, AppCall::Error, Ask::SetError { status }, with);
    }

    fn cancel(&mut self, now: Time, with: &mut With<'_>) {
        let place = with.stream.below(self.calls.len() as u64);
        let place = usize::try_from(place).unwrap_or(0);
        let Some(call) = self.calls.keys().nth(place).copied() else {
            return;
        };
        let what = self.calls.remove(&call);
        let again = app_shape(with).map_or(0, |shape| shape.again);
        if with.stream.chance(again) {
            self.again = what;
        }
        with.acts.push(Act::Agent(OfAgent::Cancelled { call }));
        self.step(now, Input::Cancel { call }, with);
    }

    /// Asks for what was cancelled before.
    fn make_again(&mut self, now: Time, what: AppCall, with: &mut With<'_>) {
        with.tally.mark(Mark::AgentAskedAgain);
        match what {
            AppCall::Connect => self.ask(now, what, Ask::Connect, with),
            AppCall::Shutdown => self.ask(now, what, Ask::Shutdown, with),
            AppCall::Barrier(id) => self.come_to(now, id, with),
            AppCall::StartWatch(key) => self.start_watch(now, key, with),
            AppCall::StopWatch(key) => self.stop_watch(now, key, with),
            AppCall::Reset => self.ask(now, what, Ask::Reset, with),
            AppCall::Error | AppCall::Plain if self.agent.state() == State::Running => {
                self.share(now, with);
            }
            AppCall::Error | AppCall::Plain => {}
        }
    }

    /// Begins or stops a watch, waits for something that others may bring, or gives it up.
    fn watch(&mut self, now: Time, crowded: bool, with: &mut With<'_>) {
        let key = with.stream.pick(&["k", "k/0", "d"]).copied().unwrap_or("k");
        let chosen = with.stream.below(10);
        // Only who has registered does anything with keys.
        let is_here = self.agent.state() == State::Running;
        match chosen {
            0..3 if !crowded => self.start_watch(now, key.into(), with),
            3..5 => self.stop_watch(now, key.into(), with),
            5 if !crowded => {
                // What a stopped watch left is not taken for one that begins anew.
                self.stop_watch(now, key.into(), with);
                self.start_watch(now, key.into(), with);
            }
            6 if is_here && !crowded => {
                let request = Request::Get { key: format!("d/{}", with.stream.below(2)) };
                self.ask(now, AppCall::Plain, Ask::Call(request), with);
            }
            7 if is_here && !crowded => self.change(now, with),
            8 => self.cancel(now, with),
            _ => {
                let id = some_barrier(1, with.stream);
                self.ask(now, AppCall::Plain, Ask::CancelBarrier { id }, with);
            }
        }
    }

    fn start_watch(&mut self, now: Time, key: Arc<str>, with: &mut With<'_>) {
        let ask = Ask::StartWatch { key: key.clone() };
        self.ask(now, AppCall::StartWatch(key), ask, with);
    }

    fn stop_watch(&mut self, now: Time, key: Arc<str>, with: &mut With<'_>) {
        let ask = Ask::StopWatch { key: key.clone() };
        self.ask(now, AppCall::StopWatch(key), ask, with);
    }

    /// Changes a key that others may wait for.
    fn change(&mut self, now: Time, with: &mut With<'_>) {
        let key = format!("d/{}", with.stream.below(2));
        let request = match with.stream.below(3) {
            0 => Request::Put {
                key,
                value: Bytes::from(format!("{}.{}", self.number, self.next_call)),
                condition: PutCondition::Always,
                leased: with.stream.chance(300),
            },
            1 => Request::Delete { key },
            _ => Request::TryGet { key },
        };
        self.ask(now, AppCall::Plain, Ask::Call(request), with);
    }
}
