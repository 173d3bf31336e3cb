//! Answers of `rondo.v1.Coordination`.

use prost::Message;
use rondo_core::coordination::{Change, ChangeKind, KeyEntry, Reply};
use rondo_core::ids::Revision;

use super::CoordinationMethod as M;
use super::names::inline;
use crate::admin as wire;
use wire::key_change::Kind;

/// Encodes `reply` as the answer of `method`.
pub(super) fn encode(method: M, reply: Reply) -> Option<Vec<u8>> {
    Some(match (method, reply) {
        (M::PutKey, Reply::Put { revision }) => {
            wire::PutKeyResponse { revision: revision.get() }.encode_to_vec()
        }
        (M::DeleteKey, Reply::Deleted { revision }) => {
            wire::DeleteKeyResponse { revision: revision.get() }.encode_to_vec()
        }
        (M::WatchKeys, Reply::Keys { entries, upto }) => {
            let entries = entries.into_iter().map(present);
            watched(true, entries.collect::<Option<_>>()?, upto)
        }
        (M::WatchKeys, Reply::Changes { changes, upto }) => {
            let changes = changes.into_iter().map(change);
            watched(false, changes.collect::<Option<_>>()?, upto)
        }
        _ => return None,
    })
}

fn watched(is_whole: bool, changes: Vec<wire::KeyChange>, upto: Revision) -> Vec<u8> {
    wire::WatchKeysResponse { is_whole, changes, upto: upto.get() }.encode_to_vec()
}

fn present(entry: KeyEntry) -> Option<wire::KeyChange> {
    let KeyEntry { key, value, revision } = entry;
    change(Change { key, kind: ChangeKind::Put(value), revision })
}

fn change(change: Change) -> Option<wire::KeyChange> {
    let kind = match change.kind {
        ChangeKind::Put(value) => Kind::Put(inline(value)?),
        ChangeKind::Deleted => Kind::Deleted(wire::KeyDeleted { with_all_under: false }),
        ChangeKind::DeletedWithAllUnder => Kind::Deleted(wire::KeyDeleted { with_all_under: true }),
    };
    let revision = change.revision.get();
    Some(wire::KeyChange { key: change.key.to_string(), revision, kind: Some(kind) })
}
