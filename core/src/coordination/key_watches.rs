//! Whoever waits for keys: blocking gets, and watches with revisions that see every change once.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::key::{is_under, normal, with_directories};
use super::keys::{check_key, listed};
use super::live::Seat;
use super::machine::{Answer, Asked, Coordination, Said, Turn};
use super::record::{Change, ChangeKind, Changes};
use super::refusal::Refusal;
use super::reply::Reply;
use crate::ids::{CallId, Lsn, NamespaceId, Revision};
use crate::limits::CHANGES_PER_ANSWER_MAX;

impl Coordination {
    /// `rondo.v1`'s watch of a key or a directory.
    pub(super) fn watch_keys(
        &mut self,
        asked: Asked<'_>,
        key: &str,
        from: Option<Revision>,
    ) -> Answer {
        let Asked { id, call, .. } = asked;
        check_key(key)?;
        let normal = normal(key);
        let namespace = self.namespace(id)?;
        let head = &namespace.head;
        let (newest, after) = (head.revision, head.keys_changed);
        let Some(from) = from.filter(|from| *from >= head.forgotten) else {
            let itself = namespace.store.get(&normal).into_iter();
            let all = itself.chain(namespace.store.under(&normal));
            let entries = listed(&namespace.store, all)?;
            return Ok(Said::Now(Reply::Keys { entries, upto: newest }, after));
        };
        if from > newest {
            let (asked, newest) = (from.get(), newest.get());
            return Err(Refusal::FutureRevision { asked, newest });
        }
        let changes =
            namespace.store.changes_after(from).filter(|change| concerns(change, &normal));
        let changes: Vec<_> = changes.take(CHANGES_PER_ANSWER_MAX).cloned().collect();
        if !changes.is_empty() {
            let last = changes.last().map_or(newest, |change| change.revision);
            let upto = if changes.len() < CHANGES_PER_ANSWER_MAX { newest } else { last };
            return Ok(Said::Now(Reply::Changes { changes, upto }, after));
        }
        let key: Arc<str> = match self.live(id)?.key_watches.get_key_value(&*normal) {
            Some((key, _)) => key.clone(),
            None => Arc::from(&*normal),
        };
        self.park(call, id, Seat::KeyWatch(key.clone()))?;
        self.live_mut(id)?.key_watches.entry(key).or_default().insert(call);
        Ok(Said::Later)
    }

    /// Answers whoever waits for what one record changed.
    pub(super) fn tell_changes(
        &mut self,
        turn: &Turn<'_>,
        id: NamespaceId,
        changes: &[Change],
        after: Lsn,
    ) {
        for change in changes {
            self.tell_gets(turn, id, change, after);
        }
        let Some(upto) = changes.last().map(|change| change.revision) else {
            return;
        };
        for (key, changes) in self.watches_of(id, changes) {
            let calls = self.lives.get_mut(&id).and_then(|live| live.key_watches.remove(&key));
            let reply = Reply::Changes { changes, upto };
            self.answer_all(turn, calls.unwrap_or_default(), Ok(reply), after);
        }
    }

    fn tell_gets(&mut self, turn: &Turn<'_>, id: NamespaceId, change: &Change, after: Lsn) {
        let ChangeKind::Put(value) = &change.kind else {
            return;
        };
        let gets = self.lives.get_mut(&id).and_then(|live| live.gets.remove(&change.key));
        let calls: Vec<CallId> = gets.unwrap_or_default().into_keys().collect();
        let reply = Reply::Value { value: value.clone(), revision: change.revision };
        self.answer_all(turn, calls, Ok(reply), after);
    }

    /// Watched keys that changes concern, each with its changes in order.
    fn watches_of(&self, id: NamespaceId, changes: &[Change]) -> BTreeMap<Arc<str>, Changes> {
        let mut concerned: BTreeMap<Arc<str>, Changes> = BTreeMap::new();
        let Some(watches) = self.lives.get(&id).map(|live| &live.key_watches) else {
            return concerned;
        };
        if watches.is_empty() {
            return concerned;
        }
        for change in changes {
            let above = with_directories(&change.key).filter_map(|key| watches.get_key_value(key));
            let all_under = change.kind == ChangeKind::DeletedWithAllUnder;
            let below = watches.range::<str, _>((
                core::ops::Bound::Excluded(&*change.key),
                core::ops::Bound::Unbounded,
            ));
            let below = below.take_while(|(key, _)| all_under && key.starts_with(&*change.key));
            let below = below.filter(|(key, _)| is_under(key, &change.key));
            for (key, _) in above.chain(below) {
                concerned.entry(key.clone()).or_default().push(change.clone());
            }
        }
        concerned
    }
}

/// Whether a change is one of a watched key or of what is under it.
fn concerns(change: &Change, watched: &str) -> bool {
    let same = *change.key == *watched;
    let all_under = change.kind == ChangeKind::DeletedWithAllUnder;
    same || is_under(&change.key, watched) || (all_under && is_under(watched, &change.key))
}
