//! Barriers, the clients' and the service's own.

use std::collections::BTreeMap;
use std::mem::discriminant;

use rondo_core::coordination::{Method, Stamp, TaskName};
use rondo_core::ids::CallId;
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use super::tasks::Phase;
use super::{Heard, Model, Waits};

/// Which barrier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    Register,
    Shutdown,
    Devices,
    Named(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Barrier {
    instance: i64,
    /// Who must come, once that was settled.
    members: Option<Vec<i32>>,
    /// Who has come, with their relay's marks.
    here: BTreeMap<i32, Option<Stamp>>,
    pub(super) stands: Stands,
    pub(super) opened: Time,
    pub(super) timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Open,
    Passed,
    Failed(Code),
}

impl Model {
    pub(super) fn barrier(
        &mut self,
        call: CallId,
        (id, counter, timeout): (&str, i64, Duration),
        list: &[i32],
        task: i32,
        stamp: Option<Stamp>,
    ) -> Option<Heard> {
        if !self.has(task) {
            return Some(Heard::Refused(Code::InvalidArgument));
        }
        let name = Name::Named(id.into());
        let restarted = counter == 0 && self.may_return(task);
        let told_before =
            |at: &Barrier| at.stands != Stands::Open && !restarted && at.instance == counter;
        if !self.kept.barriers.get(&name).is_some_and(told_before)
            && let Some(code) = self.absent(task)
        {
            return Some(Heard::Refused(code));
        }
        let instance = match self.kept.barriers.get(&name) {
            None if counter == 0 => 0,
            None => return Some(self.spoil(&name, 0, Code::Internal)),
            Some(at) if at.stands == Stands::Open => match counter == at.instance || restarted {
                true => at.instance,
                false => return Some(self.spoil(&name, at.instance, Code::Internal)),
            },
            Some(at) if counter == at.instance + 1 || restarted => at.instance + 1,
            Some(at) if counter == at.instance => {
                let stands = at.stands;
                return Some(match stands {
                    Stands::Failed(code) => Heard::Refused(code),
                    _ => self.passed(&name, counter),
                });
            }
            Some(_) => return Some(Heard::Refused(Code::Internal)),
        };
        let members = match self.members(&name, list, task) {
            Ok(members) => members,
            Err(code) => return Some(self.spoil(&name, instance, code)),
        };
        let open = self.kept.barriers.get(&name).is_some_and(|at| at.stands == Stands::Open);
        if !open && self.has_lost(&members) {
            return Some(self.spoil(&name, instance, Code::Internal));
        }
        self.come(call, &name, instance, (Some(members), timeout), task, stamp)
    }

    /// Why nobody may count on this task's coming, if nobody may.
    fn absent(&self, task: i32) -> Option<Code> {
        match self.phase(task) {
            Some(Phase::Registering | Phase::Here) => None,
            Some(Phase::Failed(..)) => self.may_return(task).then_some(Code::Aborted),
            Some(Phase::Left) | None => Some(Code::InvalidArgument),
        }
    }

    /// Who must come if this task says so, or what is wrong with that.
    fn members(&self, name: &Name, list: &[i32], task: i32) -> Result<Vec<i32>, Code> {
        let mut members = list.to_vec();
        if members.is_empty() {
            members = (0..self.size).collect();
        }
        members.sort_unstable();
        let twice = members.windows(2).any(|pair| pair[0] == pair[1]);
        if twice || !members.iter().all(|member| self.has(*member)) || !members.contains(&task) {
            return Err(Code::InvalidArgument);
        }
        let settled = self.kept.barriers.get(name).and_then(|at| at.members.clone());
        match settled.is_none_or(|settled| settled == members) {
            true => Ok(members),
            false => Err(Code::InvalidArgument),
        }
    }

    /// An instance fails, with whoever waits there and whoever asked.
    fn spoil(&mut self, name: &Name, instance: i64, code: Code) -> Heard {
        let open = self.kept.barriers.get(name).is_some_and(|at| at.stands == Stands::Open);
        if !open {
            let before = self.kept.barriers.get(name);
            let members = before.and_then(|at| at.members.clone());
            let (opened, timeout) =
                before.map_or((self.now, Duration::ZERO), |at| (at.opened, at.timeout));
            let (here, stands) = (BTreeMap::new(), Stands::Failed(code));
            let failed = Barrier { instance, members, here, stands, opened, timeout };
            self.kept.barriers.insert(name.clone(), failed);
        } else {
            self.fail_barrier(name, code);
        }
        Heard::Refused(code)
    }

    pub(super) fn open(
        &mut self,
        name: &Name,
        instance: i64,
        members: Option<Vec<i32>>,
        timeout: Duration,
    ) {
        let members = Some(members.unwrap_or_else(|| (0..self.size).collect()));
        let (here, stands, opened) = (BTreeMap::new(), Stands::Open, self.now);
        let barrier = Barrier { instance, members, here, stands, opened, timeout };
        self.kept.barriers.insert(name.clone(), barrier);
        self.due.insert(name.clone(), self.now.after(timeout));
    }

    /// A task comes, perhaps as the first; the last one opens the way for all.
    pub(super) fn come(
        &mut self,
        call: CallId,
        name: &Name,
        instance: i64,
        (members, timeout): (Option<Vec<i32>>, Duration),
        task: i32,
        stamp: Option<Stamp>,
    ) -> Option<Heard> {
        let open = self.kept.barriers.get(name).is_some_and(|at| at.stands == Stands::Open);
        if !open {
            self.open(name, instance, members, timeout);
        }
        let place = Waits::At(name.clone(), task);
        let older = match name {
            Name::Register => Code::AlreadyExists,
            _ => Code::Cancelled,
        };
        self.release(&Heard::Refused(older), |waits| *waits == place);
        self.waiting.push((call, place));
        let barrier = self.kept.barriers.get_mut(name).unwrap();
        let known = barrier.here.get(&task).copied();
        if known.is_none() || (stamp.is_some() && known != Some(stamp)) {
            barrier.here.insert(task, stamp);
            if let Some(stamp) = stamp {
                self.kept.note(stamp.acknowledged);
            }
        }
        self.pass_if_complete(name);
        None
    }

    fn pass_if_complete(&mut self, name: &Name) {
        let barrier = self.kept.barriers.get_mut(name).unwrap();
        if barrier.here.len() < barrier.members.as_ref().unwrap().len() {
            return;
        }
        barrier.stands = Stands::Passed;
        let (instance, here) = (barrier.instance, std::mem::take(&mut barrier.here));
        let heard = self.passed(name, instance);
        self.keep_results(name, here, &heard);
        self.due.remove(name);
        self.release(&heard, |waits| matches!(waits, Waits::At(at, _) if at == name));
        match name {
            Name::Register => self.all_registered(),
            Name::Shutdown => self.all_left(),
            Name::Devices | Name::Named(_) => {}
        }
    }

    fn keep_results(&mut self, name: &Name, here: BTreeMap<i32, Option<Stamp>>, heard: &Heard) {
        let task = TaskName::of(0);
        let method = match name {
            Name::Shutdown => Method::ShutdownTask { task },
            _ => Method::Barrier {
                id: "".into(),
                counter: 0,
                timeout_ms: 0,
                tasks: Vec::new(),
                source: task,
            },
        };
        for stamp in here.into_values().flatten() {
            self.kept.keep(stamp, discriminant(&method), heard.clone());
        }
    }

    /// What those who came hear.
    pub(super) fn passed(&self, name: &Name, instance: i64) -> Heard {
        match name {
            Name::Register => Heard::Registered,
            Name::Shutdown => Heard::Left,
            Name::Devices => Heard::Devices(self.kept.devices.values().cloned().collect()),
            Name::Named(_) => Heard::Passed(instance),
        }
    }

    pub(super) fn fail_barrier(&mut self, name: &Name, code: Code) {
        let Some(barrier) = self.kept.barriers.get_mut(name) else {
            return;
        };
        if barrier.stands != Stands::Open {
            return;
        }
        let code = if *name == Name::Shutdown { Code::Internal } else { code };
        barrier.stands = Stands::Failed(code);
        let here = std::mem::take(&mut barrier.here);
        let heard = Heard::Refused(code);
        self.keep_results(name, here, &heard);
        self.due.remove(name);
        self.release(&heard, |waits| matches!(waits, Waits::At(at, _) if at == name));
        match name {
            Name::Register => self.fail_all(code),
            Name::Shutdown => {
                self.fail_all(code);
                if self.kept.polled {
                    self.stick(code);
                }
            }
            Name::Devices | Name::Named(_) => {}
        }
    }

    /// Open barriers of such members fail.
    pub(super) fn fail_barriers(&mut self, which: impl Fn(&[i32]) -> bool) {
        let barriers = self.kept.barriers.iter();
        let open = barriers.filter(|(_, at)| {
            at.stands == Stands::Open && at.members.as_ref().is_some_and(|all| which(all))
        });
        let open: Vec<_> = open.map(|(name, _)| name.clone()).collect();
        for name in open {
            self.fail_barrier(&name, Code::Internal);
        }
    }

    /// A task that may come back has not come.
    pub(super) fn withdraw(&mut self, task: i32) {
        self.withdraw_from(task, |_| true);
    }

    /// A task has not come to these.
    pub(super) fn withdraw_from(&mut self, task: i32, which: impl Fn(&Name) -> bool) {
        for (_, at) in self.kept.barriers.iter_mut().filter(|(name, _)| which(name)) {
            at.here.remove(&task);
        }
        self.release(
            &Heard::Refused(Code::Cancelled),
            |waits| matches!(waits, Waits::At(at, who) if *who == task && which(at)),
        );
    }

    pub(super) fn cancel_barrier(&mut self, id: &str, counter: i64) -> Heard {
        let name = Name::Named(id.into());
        let instance = match self.kept.barriers.get(&name) {
            Some(at) if at.stands != Stands::Open => {
                return Heard::Refused(Code::FailedPrecondition);
            }
            Some(at) => at.instance,
            None => 0,
        };
        if instance != counter {
            return Heard::Refused(Code::FailedPrecondition);
        }
        self.spoil(&name, instance, Code::Cancelled);
        Heard::Cancelled
    }
}
