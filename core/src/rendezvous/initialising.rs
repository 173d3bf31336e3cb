//! How a step learns which worker it is of, and what was asked of it before is carried out.

use alloc::vec::Vec;

use super::machine::Rendezvous;
use super::refusal;
use super::step::{Deferred, Home};
use super::types::{Effect, Session};
use crate::ids::StepId;
use crate::limits::RENDEZVOUS_ITEMS_PER_STEP_MAX;
use crate::status::Status;
use crate::time::Time;

impl<T: Clone> Rendezvous<T> {
    /// A step is of this worker. The same once more changes nothing.
    pub(super) fn initialize(
        &mut self,
        now: Time,
        id: StepId,
        session: &Session,
    ) -> Result<(), Status> {
        let home = Home::of(session)?;
        let step = self.open(now, id)?;
        match &step.home {
            Some(before) if *before == home => Ok(()),
            Some(before) => Err(refusal::double_init(&before.name, &home.name)),
            None => {
                step.home = Some(home);
                if !step.contents.deferred.is_empty() {
                    self.beginning.insert(id);
                }
                Ok(())
            }
        }
    }

    /// Carries out some of what was asked of steps before they were initialised, in its order. What is
    /// asked of them meanwhile goes behind it.
    pub(super) fn carry_out_deferred(&mut self, now: Time, out: &mut Vec<Effect<T>>) {
        for _ in 0..RENDEZVOUS_ITEMS_PER_STEP_MAX {
            let Some(id) = self.beginning.first().copied() else {
                return;
            };
            let deferred = self.steps.get_mut(&id).map(|step| &mut step.contents.deferred);
            let next = deferred.and_then(|all| Some((all.pop_first()?.1, all.is_empty())));
            if next.as_ref().is_none_or(|(_, is_last)| *is_last) {
                self.beginning.remove(&id);
            }
            if let Some((deferred, _)) = next {
                self.carry_out(now, id, deferred, out);
            }
        }
    }

    fn carry_out(
        &mut self,
        now: Time,
        id: StepId,
        deferred: Deferred<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        match deferred {
            Deferred::Recv { call, key, args } => self.recv_deferred(call, id, key, args, out),
            Deferred::RecvLocal { call, key, kept } => {
                self.recv_local_deferred(call, id, key, kept, out);
            }
            Deferred::Send { key, args, value, sender } => {
                let home = self.steps.get(&id).and_then(|step| step.home.as_ref());
                let refused = home.filter(|home| !home.has(&key.source()));
                let refused = refused.map(|home| refusal::not_ours("src", &key, &home.name));
                match (refused, sender) {
                    (None, None) => self.put_accepted(id, key, args, value, out),
                    (None, Some(call)) => {
                        self.calls.end(call);
                        if let Some(result) = self.put(id, key, args, value, sender, out) {
                            out.push(Effect::Sent { call, result });
                        }
                    }
                    (Some(status), Some(call)) => {
                        self.calls.end(call);
                        out.push(Effect::Sent { call, result: Err(status) });
                    }
                    // Its sender was told that it is taken on, so the step learns that it is lost.
                    (Some(status), None) => {
                        self.room.held.take(value.bytes);
                        self.abort(now, id, status, out);
                        self.fill_room(None, out);
                    }
                }
            }
        }
    }
}
