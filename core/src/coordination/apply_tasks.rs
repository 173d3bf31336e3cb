//! Records of tasks.

use alloc::format;
use alloc::sync::Arc;

use super::record::Record;
use super::state::{Namespace, Task};
use super::types::{BarrierKey, Fault, Phase};
use crate::ids::{Lsn, TaskIndex};
use crate::log::{ApplyError, missing};
use crate::time::Time;

impl Namespace {
    pub(super) fn apply_task(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match record {
            Record::RegisterTask { .. } | Record::ConnectTask { .. } => {
                self.take_in(lsn, record)?;
            }
            Record::DisconnectTask { task, at, .. } => {
                self.turn(*task, Phase::Disconnected, None, *at, lsn)?;
            }
            Record::FailTask { task, fault, at, .. } => {
                self.turn(*task, Phase::Error, Some(Arc::new(fault.clone())), *at, lsn)?;
            }
            Record::FailAllTasks { fault, at, .. } => self.fail_all(lsn, fault, *at)?,
            Record::OfferDevices { task, devices, .. } => {
                let task = self.tasks.get_mut(task).ok_or_else(|| missing("task", task))?;
                task.devices = Some(devices.clone());
                task.changed = lsn;
                return Ok(());
            }
            _ => return Err(ApplyError("the record is of no kind that tasks have".into())),
        }
        self.head.version = self.head.version.saturating_add(1);
        Ok(())
    }

    /// A task registers, or takes part at once.
    fn take_in(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        let (Record::RegisterTask { task, incarnation, recoverable, dialect, at, .. }
        | Record::ConnectTask { task, incarnation, recoverable, dialect, at, .. }) = record
        else {
            return Ok(());
        };
        if !self.can_have(*task) {
            let bound = self.bound();
            return Err(ApplyError(format!("task {task} is not one of {bound}")));
        }
        let connects = matches!(record, Record::ConnectTask { .. });
        if connects != self.has_begun() {
            return Err(ApplyError(format!("task {task} cannot take part in this way now")));
        }
        let phase = if connects { Phase::Connected } else { Phase::Registering };
        let before = self.tasks.get(task);
        let devices = before.and_then(|task| task.devices.clone());
        let old_phase = before.map(|task| task.phase);
        if let Some(old) = before.map(|task| task.incarnation) {
            self.index.by_incarnation.remove(&(old, *task));
        }
        self.index.by_incarnation.insert((*incarnation, *task));
        self.count_present(old_phase, phase);
        let taken_in = Task {
            index: *task,
            incarnation: *incarnation,
            recoverable: *recoverable,
            dialect: *dialect,
            phase,
            fault: None,
            since: *at,
            devices,
            changed: lsn,
        };
        self.tasks.insert(*task, taken_in);
        Ok(())
    }

    fn turn(
        &mut self,
        index: TaskIndex,
        phase: Phase,
        fault: Option<Arc<Fault>>,
        at: Time,
        lsn: Lsn,
    ) -> Result<(), ApplyError> {
        let task = self.tasks.get_mut(&index).ok_or_else(|| missing("task", index))?;
        let before = core::mem::replace(&mut task.phase, phase);
        (task.fault, task.since, task.changed) = (fault, at, lsn);
        self.count_present(Some(before), phase);
        Ok(())
    }

    fn fail_all(&mut self, lsn: Lsn, fault: &Fault, at: Time) -> Result<(), ApplyError> {
        let fault = Arc::new(fault.clone());
        let here = |task: &&Task| matches!(task.phase, Phase::Registering | Phase::Connected);
        let here: alloc::vec::Vec<_> =
            self.tasks.values().filter(here).map(|task| task.index).collect();
        for index in here {
            self.turn(index, Phase::Error, Some(fault.clone()), at, lsn)?;
        }
        Ok(())
    }

    /// All who wait to register take part, or all who take part leave.
    pub(super) fn turn_all(&mut self, barrier: &BarrierKey, at: Time, lsn: Lsn) {
        let (from, to) = match barrier {
            BarrierKey::Register => (Phase::Registering, Phase::Connected),
            BarrierKey::Shutdown => (Phase::Connected, Phase::Disconnected),
            BarrierKey::Devices | BarrierKey::Named(_) => return,
        };
        let mut turned: usize = 0;
        for task in self.tasks.values_mut().filter(|task| task.phase == from) {
            (task.phase, task.since, task.changed) = (to, at, lsn);
            turned = turned.saturating_add(1);
        }
        if to == Phase::Disconnected {
            self.index.present = self.index.present.saturating_sub(turned);
        }
        self.head.version = self.head.version.saturating_add(1);
    }
}
