//! The latest listing of a directory, shared by the answers that are under way: many processes ask
//! for the same directory at once.

use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

use super::key::normal;
use super::keys::{check_key, listed};
use super::machine::{Answer, Coordination, Said};
use super::refusal::Refusal;
use super::reply::{KeyEntry, Reply};
use crate::ids::{Lsn, NamespaceId};

/// The latest listing of a namespace. It does not keep the entries in memory: the answers do.
#[derive(Clone, Debug, Default)]
pub(super) struct LatestListing {
    directory: String,
    /// The newest change of keys that the listing shows.
    upto: Lsn,
    entries: Weak<Vec<KeyEntry>>,
}

impl LatestListing {
    /// The listing of a directory as of a change of keys, if an answer with it is under way.
    fn find(&self, directory: &str, upto: Lsn) -> Option<Arc<Vec<KeyEntry>>> {
        let is_same = self.upto == upto && self.directory == directory;
        is_same.then(|| self.entries.upgrade()).flatten()
    }
}

impl Coordination {
    /// `GetKeyValueDir`.
    pub(super) fn directory(&mut self, id: NamespaceId, directory: &str) -> Answer {
        check_key(directory)?;
        let directory = normal(directory);
        let upto = self.namespace(id)?.head.keys_changed;
        let entries = match self.live(id)?.latest_listing.find(&directory, upto) {
            Some(entries) => entries,
            None => self.list(id, &directory, upto)?,
        };
        Ok(Said::Now(Reply::Directory(entries), upto))
    }

    /// Lists a directory, and remembers the listing.
    fn list(
        &mut self,
        id: NamespaceId,
        directory: &str,
        upto: Lsn,
    ) -> Result<Arc<Vec<KeyEntry>>, Refusal> {
        let store = &self.namespace(id)?.store;
        // "" lists nothing: no key begins with a slash.
        let entries = match directory.is_empty() {
            true => Vec::new(),
            false => listed(store, store.under(directory))?,
        };
        let shared = Arc::new(entries);
        let (directory, entries) = (directory.into(), Arc::downgrade(&shared));
        self.live_mut(id)?.latest_listing = LatestListing { directory, upto, entries };
        Ok(shared)
    }
}
