//! What must hold of a machine that has nothing to do at once.

use rondo_core::element::Tensor;
use rondo_core::rendezvous::{Held, Rendezvous};
use rondo_core::time::Time;

use super::book::{Book, Role, Sent, State};
use super::ledger::{Ledger, Seen, wrong};

impl Ledger {
    pub(super) fn quiet(&mut self, now: Time, machine: &Rendezvous<Tensor>) -> Seen {
        for book in self.steps.values_mut() {
            book.lines.retain(|_, it| !it.tensors.is_empty() || !it.receivers.is_empty());
        }
        self.all_told(now)?;
        self.nobody_waits_beside_a_tensor()?;
        self.steps_are_used(now)?;
        self.counts(machine)?;
        self.room_is_used()
    }

    /// Who waited in a step that ended was told, and who waits too long.
    fn all_told(&self, now: Time) -> Seen {
        for (call, waiting) in &self.calls {
            let step = waiting.step;
            if let Some(status) = &waiting.ends {
                return wrong("ended", format!("{call} still waits in step {step}: {status}"));
            }
            if waiting.due.is_some_and(|due| due <= now) {
                return wrong("told", format!("{call} of step {step} waits beyond its time"));
            }
        }
        Ok(())
    }

    fn nobody_waits_beside_a_tensor(&self) -> Seen {
        for (step, book) in self.steps.iter().filter(|(_, book)| book.is_initialized) {
            for (key, queues) in &book.lines {
                if let (Some(sent), Some(receiver)) =
                    (queues.tensors.front(), queues.receivers.front())
                {
                    let (serial, calls) = (sent.serial, &receiver.calls);
                    return wrong(
                        "turn",
                        format!(
                            "{calls:?} wait in step {step} under {key}, where tensor {serial} is"
                        ),
                    );
                }
            }
        }
        Ok(())
    }

    fn steps_are_used(&self, now: Time) -> Seen {
        let Some(expiry) = self.config.step_expiry else {
            return Ok(());
        };
        match self.steps.iter().find(|(_, book)| book.used.after(expiry) <= now) {
            None => Ok(()),
            Some((step, book)) => {
                let idle = now.since(book.used).as_millis();
                wrong("expiry", format!("step {step} is there after {idle} idle ms"))
            }
        }
    }

    /// The machine reports what there must be.
    fn counts(&self, machine: &Rendezvous<Tensor>) -> Seen {
        let (report, waiting) = (machine.report(), self.calls.len());
        let awaited = self.calls_of_kept();
        let kept = self.given.len().saturating_add(awaited);
        let found = (report.steps, report.held, report.waiting, report.kept, report.parked);
        let parked = self.parked().count();
        let expected = (self.steps.len(), self.held, waiting, kept, parked);
        if found != expected {
            return wrong(
                "room",
                format!(
                    "steps, held, waiting, kept, parked: {found:?} are told, and there are {expected:?}"
                ),
            );
        }
        for (step, (id, book)) in machine.each_step().zip(&self.steps) {
            let found = (step.step, step.is_initialized, step.is_aborted, step.held);
            let expected = (*id, book.is_initialized, book.status.is_some(), book.held);
            if found != expected {
                return wrong("room", format!("step {found:?} is told, which is {expected:?}"));
            }
        }
        Ok(())
    }

    /// Receivers whose answer will be kept.
    fn calls_of_kept(&self) -> usize {
        let lines = self.steps.values().flat_map(|book| book.lines.values());
        let receivers = lines.flat_map(|queues| &queues.receivers);
        receivers.filter(|receiver| receiver.request.is_some()).count()
    }

    /// Senders that wait for room in steps that are initialised.
    fn parked(&self) -> impl Iterator<Item = (&Book, &Sent)> {
        let books = self.steps.values().filter(|book| book.is_initialized);
        let sent = books.flat_map(|book| {
            let tensors = book.lines.values().flat_map(|queues| &queues.tensors);
            tensors.map(move |sent| (book, sent))
        });
        sent.filter(|(_, sent)| matches!(sent.state, State::Asked(_)))
    }

    /// Where each of those who wait for room would fit, somebody has been taken on.
    fn room_is_used(&self) -> Seen {
        let is_empty = self.held == Held::default();
        let mut parked = self.parked().peekable();
        let Some((_, first)) = parked.peek() else {
            return Ok(());
        };
        let serial = first.serial;
        if is_empty || parked.all(|(book, sent)| self.fits(book.held, sent.value.bytes)) {
            let senders = self.calls.values().filter(|it| matches!(it.role, Role::Sender { .. }));
            let count = senders.count();
            return wrong("room", format!("tensor {serial} and {count} senders wait, and fit"));
        }
        Ok(())
    }
}
