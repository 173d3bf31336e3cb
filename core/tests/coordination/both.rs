//! The real service and the model side by side, through one history, answer by answer.

use std::collections::BTreeMap;

use rondo_core::control::Record;
use rondo_core::coordination::{Method, NamespaceConfig, Reply, Stamp};
use rondo_core::ids::{CallId, Lsn, RelayId};
use rondo_core::time::Duration;

use crate::dice::{Happening, TASKS};
use crate::drawing::Dice;
use crate::driver::Driver;
use crate::model::{Heard, Kept, Model, heard};
use crate::world::*;

/// How often things happened, so that a test that reaches nothing is seen.
pub(crate) type Reached = BTreeMap<&'static str, u64>;

/// Lives the history that these bytes stand for, and says what is in the journal then.
pub(crate) fn live_by(bytes: &[u8], reached: &mut Reached) -> Vec<Record> {
    let mut dice = Dice::new(bytes);
    let (settings, prompt) = dice.settings();
    let mut both = Both::start(settings, prompt, reached);
    for happening in dice.history() {
        both.happen(happening);
    }
    both.end()
}

struct Both<'a> {
    real: Driver,
    model: Model,
    settings: NamespaceConfig,
    /// What the model kept at each position at which a step ended.
    kept: Vec<(Lsn, Kept)>,
    /// What calls should hear that have not heard it.
    expected: BTreeMap<CallId, Heard>,
    /// What the relay asked.
    relayed: Vec<(Method, Stamp)>,
    reached: &'a mut Reached,
}

impl<'a> Both<'a> {
    fn start(settings: NamespaceConfig, prompt: bool, reached: &'a mut Reached) -> Self {
        let mut real = Driver::with(settings.clone());
        let model = Model::start(&settings, Kept::default(), real.now);
        // The first call begins the first life.
        real.refused(try_get("a"), rondo_core::status::Code::NotFound);
        real.prompt = prompt;
        let kept = vec![(real.node.last(), model.kept.clone())];
        let (expected, relayed) = (BTreeMap::new(), Vec::new());
        Self { real, model, settings, kept, expected, relayed, reached }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Asks(method) => self.ask(method, None),
            Happening::Relayed(method, unacknowledged) => self.relay(method, unacknowledged),
            Happening::Again(which) => self.again(which),
            Happening::AllRegister(run) => {
                (0..TASKS).for_each(|task| self.ask(register(task, run), None));
            }
            Happening::AllCome(id, counter) => {
                (0..TASKS).for_each(|task| {
                    self.ask(barrier_for(id, counter, task, NO_TASKS, 5_000), None);
                });
            }
            Happening::AllLeave => (0..TASKS).for_each(|task| self.ask(shutdown(task), None)),
            Happening::AllTellDevices => (0..TASKS).for_each(|index| {
                let devices = bytes::Bytes::from(vec![b'd'; index as usize]);
                self.ask(Method::WaitForAllTasks { task: task(index), devices }, None);
            }),
            Happening::Watches(key, less) => {
                let newest = self.real.namespace().head().revision.get();
                self.ask(watch(key, newest.checked_sub(less)), None);
            }
            Happening::WatchesTasks => {
                let version = self.real.namespace().head().version;
                self.ask(Method::WatchTasks { version }, None);
            }
            Happening::Wait(millis, beating) => self.wait(millis, beating),
            Happening::Cancel(which) => self.cancel(which),
            Happening::Sync => self.real.sync(),
            Happening::Crash(upto) => self.crash(upto),
        }
        self.compare();
    }

    fn end(mut self) -> Vec<Record> {
        self.real.sync();
        self.compare();
        assert_eq!(self.expected, BTreeMap::new(), "answers that never came");
        self.real.into_journal()
    }

    fn ask(&mut self, method: Method, stamp: Option<Stamp>) {
        let before = (self.model.kept.clone(), self.real.node.last());
        let call = self.real.send(stamped(stamp, method.clone()));
        let heard = self.model.take(self.real.now, call, &method, stamp);
        self.expected.extend(heard);
        let (changed, wrote) = (self.model.kept != before.0, self.real.node.last() > before.1);
        assert_eq!(changed, wrote, "who records {method:?}?");
        self.remember();
        self.compare();
    }

    fn relay(&mut self, method: Method, unacknowledged: u8) {
        let sequence = self.relayed.len() as u64 + 1;
        let acknowledged = (sequence - 1).saturating_sub(u64::from(unacknowledged));
        let stamp = Stamp { relay: RelayId::new(7), sequence, acknowledged };
        self.relayed.push((method.clone(), stamp));
        self.ask(method, Some(stamp));
    }

    fn again(&mut self, which: u8) {
        let newest = self.relayed.iter().rev().nth(usize::from(which) % 4).cloned();
        if let Some((method, stamp)) = newest {
            self.mark("asked again");
            self.ask(method, Some(stamp));
        }
    }

    /// Time passes; the node is woken whenever it wants.
    fn wait(&mut self, millis: u64, beating: u8) {
        for task in (0..TASKS).filter(|task| beating & (1 << task) != 0) {
            self.ask(beat(task, 1), None);
        }
        let until = self.real.now.after(Duration::from_millis(millis));
        while let Some((at, _)) = self.real.node.deadline().filter(|(at, _)| *at <= until) {
            self.real.now = self.real.now.max(at);
            let before = (self.model.kept.clone(), self.real.node.last());
            self.expected.extend(self.model.tick(self.real.now));
            self.real.tick();
            let (changed, wrote) = (self.model.kept != before.0, self.real.node.last() > before.1);
            assert_eq!(changed, wrote, "who records what is due?");
            if changed {
                self.mark("due");
            }
            self.remember();
            self.compare();
        }
        self.real.now = until;
    }

    fn cancel(&mut self, which: u8) {
        let waiting = self.model.waiting();
        if waiting.is_empty() {
            return;
        }
        let call = waiting[usize::from(which) % waiting.len()];
        self.real.cancel(call);
        self.model.cancel(call);
    }

    fn crash(&mut self, upto: u8) {
        let points = self.real.crash_points();
        let upto = points[usize::from(upto) % points.len()];
        self.kept.retain(|(lsn, _)| *lsn <= upto);
        let kept = self.kept.last().unwrap().1.clone();
        self.real.restart_from(upto);
        self.model = Model::start(&self.settings, kept, self.real.now);
        self.expected.clear();
        self.mark("crash");
    }

    fn remember(&mut self) {
        let last = self.real.node.last();
        if self.kept.last().is_none_or(|(lsn, _)| *lsn < last) {
            self.kept.push((last, self.model.kept.clone()));
        }
    }

    /// An answer that leaves is the one expected. Which are held back, the driver judges.
    fn compare(&mut self) {
        for (call, answer) in self.real.take_all() {
            let expected = self.expected.remove(&call);
            assert_eq!(expected, Some(heard(&answer)), "call {call} heard {answer:?}");
            self.mark(kind(&answer.map_err(|status| status.code)));
        }
        if self.real.prompt {
            assert_eq!(self.expected, BTreeMap::new(), "answers that did not come at once");
        }
    }

    fn mark(&mut self, what: &'static str) {
        *self.reached.entry(what).or_default() += 1;
    }
}

fn stamped(stamp: Option<Stamp>, method: Method) -> rondo_core::coordination::Request {
    let caller = rondo_core::coordination::Caller { stamp, ..Default::default() };
    call(caller, method)
}

fn kind(answer: &Result<Reply, rondo_core::status::Code>) -> &'static str {
    use rondo_core::status::Code;
    match answer {
        Ok(Reply::Registered(_)) => "registered",
        Ok(Reply::ShutDown) => "left",
        Ok(Reply::Reset) => "reset",
        Ok(Reply::ErrorReported) => "reported",
        Ok(Reply::LifeBegun(_)) => "life begun",
        Ok(Reply::TaskStates(_)) => "states",
        Ok(Reply::Tasks { .. }) => "tasks",
        Ok(Reply::Changes { .. }) => "changes",
        Ok(Reply::Keys { .. }) => "keys",
        Ok(Reply::BarrierPassed { .. }) => "passed",
        Ok(Reply::BarrierCancelled) => "barrier cancelled",
        Ok(Reply::Alive(_)) => "alive",
        Ok(Reply::Devices(_)) => "devices",
        Ok(_) => "other answer",
        Err(Code::DeadlineExceeded) => "timed out",
        Err(Code::Cancelled) => "superseded",
        Err(Code::Unavailable) => "told of silence",
        Err(Code::Internal) => "internal",
        Err(Code::Aborted) => "aborted",
        Err(_) => "other refusal",
    }
}
