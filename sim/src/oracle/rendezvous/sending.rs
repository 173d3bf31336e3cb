//! Senders: taken on where there is room, and only there.

use rondo_core::ids::CallId;
use rondo_core::rendezvous::{Held, Input, Key};
use rondo_core::status::{Code, Status};

use super::book::{Call, Role, Sent, State, add, serial_of};
use super::ledger::{Ledger, Seen, Turn, wrong};
use crate::checks::{Check, reached};

impl Ledger {
    pub(super) fn asked_to_send(&mut self, turn: &Turn<'_>) {
        let Input::Send { call, step, key, args, value, waits } = turn.input else {
            return;
        };
        self.begin(turn.now, *step);
        let role = Role::Sender { waits: *waits };
        let asked = Call { step: *step, key: key.clone(), role, due: None, ends: None };
        self.calls.insert(*call, asked);
        let serial = serial_of(&value.tensor).unwrap_or_default();
        let state = State::Asked(*call);
        let is_home = self.is_home(key);
        let sent = Sent { serial, is_home, value: value.clone(), args: *args, state };
        if let Some(book) = self.steps.get_mut(step) {
            book.lines.entry(key.text().to_owned()).or_default().tensors.push_back(sent);
        }
    }

    /// Whether a tensor fits beside what is held.
    pub(super) fn fits(&self, held: Held, bytes: u64) -> bool {
        let config = &self.config;
        held.bytes.saturating_add(bytes) <= config.step_bytes_max
            && held.tensors < config.step_tensors_max
            && self.held.bytes.saturating_add(bytes) <= config.bytes_max
            && self.held.tensors < config.tensors_max
    }

    /// Whether it would if nothing else were held.
    fn ever_fits(&self, bytes: u64) -> bool {
        let config = &self.config;
        let (tensors, most) = (config.step_tensors_max.min(config.tensors_max), config.bytes_max);
        bytes <= config.step_bytes_max.min(most) && tensors > 0
    }

    pub(super) fn sent(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        result: &Result<(), Status>,
    ) -> Seen {
        turn.is_answered |= turn.own == Some(call);
        let Some(waiting) = self.calls.remove(&call) else {
            return wrong("told", format!("sender {call} is answered, and does not wait"));
        };
        let Role::Sender { waits } = waiting.role else {
            return wrong("told", format!("{call} is answered as a sender, and is none"));
        };
        match result {
            Ok(()) => self.taken_on(turn, call, &waiting),
            Err(status) => {
                self.refused(turn, call, &waiting, status, waits)?;
                self.forget_tensor(call, &waiting);
                Ok(())
            }
        }
    }

    fn taken_on(&mut self, turn: &Turn<'_>, call: CallId, waiting: &Call) -> Seen {
        if waiting.ends.is_some() {
            return wrong(
                "ended",
                format!("sender {call} is told that all is well after its step"),
            );
        }
        let step = waiting.step;
        if self.steps.get(&step).is_none_or(|book| book.status.is_some()) {
            return wrong(
                "ended",
                format!("sender {call} is taken on by step {step}, which ended"),
            );
        }
        let is_home = self.is_home(&waiting.key);
        let is_initialized = self.steps.get(&step).is_some_and(|book| book.is_initialized);
        if is_initialized && !is_home {
            let key = waiting.key.text();
            return wrong("told", format!("a tensor of another worker is taken on: {key}"));
        }
        let held = self.steps.get(&step).map(|book| book.held).unwrap_or_default();
        let queues = self.queues(step, waiting.key.text());
        let tensors = queues.map(|queues| &mut queues.tensors).into_iter().flatten();
        let Some(sent) = tensors.into_iter().find(|sent| sent.state == State::Asked(call)) else {
            // Somebody has it already.
            return Ok(());
        };
        if turn.delivered.contains(&sent.serial) {
            sent.state = State::Passing;
            return Ok(());
        }
        sent.state = State::Held;
        let (serial, bytes) = (sent.serial, sent.value.bytes);
        reached(Check::RendezvousRoom);
        if !self.fits(held, bytes) {
            let all = self.held;
            return wrong(
                "room",
                format!(
                    "tensor {serial} of {bytes} bytes is taken on where {held:?} of {all:?} are held"
                ),
            );
        }
        add(&mut self.held, bytes);
        if let Some(book) = self.steps.get_mut(&step) {
            add(&mut book.held, bytes);
        }
        Ok(())
    }

    fn refused(
        &self,
        turn: &Turn<'_>,
        call: CallId,
        waiting: &Call,
        status: &Status,
        waits: bool,
    ) -> Seen {
        if self.is_told_of_end(turn, call, waiting, status)? {
            reached(Check::RendezvousEnded);
            return Ok(());
        }
        reached(Check::RendezvousTold);
        let is_own = turn.own == Some(call);
        let book = self.steps.get(&waiting.step);
        let is_expected = match status.code {
            _ if is_own && book.and_then(|book| book.status.as_ref()) == Some(status) => true,
            Code::Cancelled => is_own && matches!(turn.input, Input::Cancel { .. }),
            Code::InvalidArgument => !self.is_home(&waiting.key),
            Code::ResourceExhausted if is_own => self.is_refused_for_room(turn, waiting, waits),
            // Where all who wait are too many, one that had waited before may go as well.
            Code::ResourceExhausted => book.is_some_and(|book| !book.is_initialized),
            _ => false,
        };
        if is_expected {
            return Ok(());
        }
        let promise = if status.code == Code::ResourceExhausted { "room" } else { "told" };
        wrong(promise, format!("sender {call} in step {} is refused: {status}", waiting.step))
    }

    fn is_refused_for_room(&self, turn: &Turn<'_>, waiting: &Call, waits: bool) -> bool {
        let Some(book) = self.steps.get(&waiting.step) else {
            return self.steps.len() >= self.config.steps_max;
        };
        let Input::Send { value, .. } = turn.input else {
            return false;
        };
        let is_full = turn.waited >= self.config.calls_max;
        let fits = self.fits(book.held, value.bytes);
        // What was in steps that ended counts until it is seen to.
        let is_known = self.is_quiet;
        (!fits || !is_known) && (!waits || is_full || !self.ever_fits(value.bytes))
    }

    /// A sender waits only where there is no room.
    pub(super) fn waits_for_room(&self, call: CallId) -> Seen {
        let Some(waiting) = self.calls.get(&call) else {
            return Ok(());
        };
        let Some(book) = self.steps.get(&waiting.step) else {
            return wrong("told", format!("sender {call} waits in no step"));
        };
        let queues = book.lines.get(waiting.key.text());
        let tensors = queues.map(|queues| &queues.tensors).into_iter().flatten();
        let mut asked = tensors.filter(|sent| sent.state == State::Asked(call));
        let fits = asked.next().is_some_and(|sent| self.fits(book.held, sent.value.bytes));
        if fits && self.is_quiet {
            return wrong("room", format!("sender {call} waits for room, and there is some"));
        }
        Ok(())
    }

    /// A sender gave up or was refused, and its tensor is not there.
    fn forget_tensor(&mut self, call: CallId, waiting: &Call) {
        let key = waiting.key.text();
        if let Some(queues) = self.queues(waiting.step, key) {
            queues.tensors.retain(|sent| sent.state != State::Asked(call));
        }
    }

    /// Whether the source of a key is this worker.
    pub(super) fn is_home(&self, key: &Key) -> bool {
        let source = key.source();
        source.is_implicit() || source.worker().is_some_and(|it| it.to_string() == self.name)
    }
}
