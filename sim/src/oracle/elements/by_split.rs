//! Readers by split deliver records of iterations that others read by element: each record comes one way.

use rondo_core::dispatcher::Record;
use rondo_core::ids::IterationId;

use super::super::again::is_lost;
use super::super::{Shadow, Verdict};
use super::{Elements, key_of};
use crate::checks::{Check, reached};
use crate::workload::Delivered;
use crate::workload::elements::ElementId;

impl Elements {
    /// A reader by split delivers records. One that was given up without knowing it delivers for nobody.
    pub(super) fn delivered_by_split(&mut self, what: &Delivered, shadow: &Shadow) -> Verdict {
        let Delivered { client, place, first, count } = *what;
        let of = shadow.state().clients().get(&client);
        let Some(of) = of.filter(|of| of.splits.contains_key(&place)) else {
            return Ok(());
        };
        let (iteration, end) = (of.iteration, first.saturating_add(count));
        let upto = self.by_split.entry((iteration, place)).or_default();
        *upto = end.max(*upto);
        let elements = self.makers(iteration, place).flat_map(|(_, task)| self.elements_of(task));
        let mut elements = elements.filter(|of| of.is_delivered && of.id.split == place);
        match elements.find(|of| (first..end).contains(&of.id.offset)) {
            Some(of) if !self.is_given_up(iteration) => {
                Err(format!("{what:?} brings a record that was delivered as {:?}", of.id))
            }
            _ => Ok(()),
        }
    }

    /// Nobody has brought the record of this element by split.
    pub(super) fn not_by_split(&self, iteration: IterationId, id: &ElementId) -> Verdict {
        if !self.by_split.is_empty() {
            reached(Check::ElementsBesideReaders);
        }
        let Some(upto) = self.by_split.get(&(iteration, id.split)) else {
            return Ok(());
        };
        let is_gone = self.ended.contains(&id.made.by)
            || self.tasks.get(&key_of(id)).is_some_and(|task| task.is_dropped);
        match id.offset < *upto && !is_gone && !self.is_given_up(iteration) {
            true => Err(format!("{id:?} was delivered by split before")),
            false => Ok(()),
        }
    }

    /// Learns from a record which splits go from readers by split to workers, or back.
    pub(super) fn of_readers_by_split(&mut self, record: &Record, shadow: &Shadow) {
        let state = shadow.state();
        match record {
            Record::HandOutWaiting { iteration, place, .. } => {
                self.by_split.remove(&(*iteration, *place));
            }
            Record::HoldSplits { client, taken, .. } => {
                let of = state.clients().get(client).map(|client| client.iteration);
                let of = of.and_then(|of| state.iterations().get(&of));
                if let Some(of) = of.filter(|of| taken.iter().any(|place| is_lost(of, *place))) {
                    self.repeated.insert(of.id);
                }
            }
            Record::RemoveTask { id, again: true } => {
                self.repeated.extend(state.tasks().get(id).map(|task| task.iteration));
            }
            Record::RestartTasks { worker, .. } => {
                let tasks = state.tasks().values().filter(|task| task.worker == *worker);
                self.restarted.extend(tasks.map(|task| task.id));
            }
            _ => {}
        }
    }
}
