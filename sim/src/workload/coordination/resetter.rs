//! Somebody at the command line who resets namespaces, and looks at them.

use rondo_core::coordination::{Call, Caller, Dialect, Method};
use rondo_core::time::Time;

use super::task::ms;
use super::{namespace_of, some_namespace};
use crate::workload::actor::{Act, Actor, Happening, Role, With};
use crate::workload::outstanding::Outstanding;

/// An operator of namespaces.
#[derive(Clone, Debug)]
pub struct Resetter {
    number: u32,
    at: Time,
    calls: Outstanding<()>,
}

impl Resetter {
    /// The one of this number.
    pub const fn new(number: u32) -> Self {
        Self { number, at: Time::ZERO, calls: Outstanding::new(1) }
    }

    fn act(&mut self, now: Time, with: &mut With<'_>) {
        let Some((job, _)) = some_namespace(with) else {
            return;
        };
        let method = match with.stream.chance(400) {
            true => Method::ResetNamespace,
            false => Method::GetJobState { job: "jax_worker".into() },
        };
        let caller = Caller { dialect: Dialect::Rondo, ..Caller::default() };
        let token = self.calls.add(now.after(ms(with.swarm.net.patience_ms)), ());
        let call = Call { namespace: namespace_of(job), caller, method };
        with.acts.push(Act::Coordinate { token, call: Box::new(call) });
    }
}

impl Actor for Resetter {
    fn role(&self) -> Role {
        Role::Operator
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        match what {
            Happening::Wake | Happening::Reborn { .. } => {
                self.calls.give_up_overdue(now, with.acts);
                if now >= self.at {
                    let first = self.at == Time::ZERO;
                    self.at = now.after(ms(2000 + with.stream.exponential(8000)));
                    if !first && !with.calm {
                        self.act(now, with);
                    }
                }
            }
            Happening::Coordinated { token, .. } => drop(self.calls.take(token)),
            Happening::Answered { .. }
            | Happening::Pushed(_)
            | Happening::Asked { .. }
            | Happening::Told { .. }
            | Happening::Element(_) => {}
        }
    }

    fn wake_at(&self) -> Time {
        self.at.min(self.calls.deadline())
    }

    fn state(&self) -> String {
        format!("resetter {} waits for {:?}", self.number, self.calls)
    }
}
