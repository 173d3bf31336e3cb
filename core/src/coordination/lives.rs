//! Lives of a namespace: each begins with nothing.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::config::NamespaceConfig;
use super::live::{Live, Seat};
use super::machine::{Coordination, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Event;
use crate::ids::{CallId, Lsn, NamespaceId, ServiceIncarnation};

impl Coordination {
    /// Begins a life: whoever waits in the old one waits no more.
    pub(super) fn begin_life(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        settings: Arc<NamespaceConfig>,
        entropy: u64,
    ) -> Result<ServiceIncarnation, Refusal> {
        let before = self.state.namespaces.get(&id).map(|namespace| namespace.head.incarnation);
        let drawn = entropy.max(1);
        let incarnation = match before {
            Some(before) if before.get() == drawn => drawn.wrapping_add(1).max(1),
            _ => drawn,
        };
        let incarnation = ServiceIncarnation::new(incarnation);
        let after = self.commit(
            turn,
            Record::BeginLife {
                namespace: id,
                name: settings.name.clone(),
                incarnation,
                tasks: settings.tasks,
                at: turn.now,
            },
        )?;
        self.clear(turn, id, settings, after)?;
        let head = &self.namespace(id)?.head;
        let (namespace, life) = (head.name.clone(), head.life);
        self.observe(turn, Event::LifeBegun { namespace, life, incarnation });
        Ok(incarnation)
    }

    /// Nobody waits, nobody was heard.
    fn clear(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        settings: Arc<NamespaceConfig>,
        after: Lsn,
    ) -> Result<(), Refusal> {
        let head = &self.namespace(id)?.head;
        let (ours, version) = (head.incarnation, head.version);
        self.alarms.retain(|(_, of, _)| *of != id);
        let before = self.lives.insert(id, Live::new(settings, version));
        let Some(before) = before else {
            return Ok(());
        };
        self.live_mut(id)?.refused = before.refused;
        let mine = |(call, (of, seat)): (&CallId, &(NamespaceId, Seat))| {
            (*of == id && before.is_seated(*call, seat)).then_some(*call)
        };
        let calls: Vec<_> = self.calls.iter().filter_map(mine).collect();
        self.answer_all(turn, calls, Err(Refusal::LifeEnded { ours }), after);
        Ok(())
    }
}
