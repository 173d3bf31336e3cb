//! Answers with long directories: encoded once for all callers that wait for the same listing.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use rondo_core::coordination::{self, Dialect, KeyEntry};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{self, CoordinationMethod};
use tokio::sync::OnceCell;

use super::node_port::NodePort;
use super::values;
use crate::transport::budget::Budget;

/// The long directories that are being encoded or sent.
#[derive(Default)]
pub(super) struct Directories(Mutex<Vec<Weak<Shared>>>);

/// A method of a dialect.
type DialectMethod = (Dialect, CoordinationMethod);

/// One listing, and its answer to one method. It lives as long as an answer is under way.
struct Shared {
    method: DialectMethod,
    entries: Arc<Vec<KeyEntry>>,
    encoded: OnceCell<Bytes>,
}

impl Directories {
    /// Encodes a listing as the answer of a method. The first caller does it, with the listing's
    /// share of the memory for large messages; the others wait for that. So the share takes no place of
    /// a connection.
    ///
    /// # Errors
    /// Those of [`values::read_back`] and [`values::encode_aside`].
    pub(super) async fn encode(
        &self,
        node: &dyn NodePort,
        budget: &Budget,
        method: DialectMethod,
        entries: Arc<Vec<KeyEntry>>,
    ) -> Result<Bytes, Status> {
        if !values::are_long(&entries) {
            return encode_anew(node, budget, method, entries).await;
        }
        let shared = self.find(method, entries);
        let budget = budget.of_all();
        let encode = || encode_anew(node, &budget, method, Arc::clone(&shared.entries));
        let encoded = shared.encoded.get_or_try_init(encode).await?.clone();
        Ok(Bytes::from_owner(Answer { encoded, _shared: shared }))
    }

    /// The place of a listing's answer: that of others who wait for it, or a new one.
    fn find(&self, method: DialectMethod, entries: Arc<Vec<KeyEntry>>) -> Arc<Shared> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|shared| shared.strong_count() > 0);
        let is_same = |shared: &Arc<Shared>| {
            shared.method == method && Arc::ptr_eq(&shared.entries, &entries)
        };
        if let Some(shared) = all.iter().filter_map(Weak::upgrade).find(is_same) {
            return shared;
        }
        let shared = Arc::new(Shared { method, entries, encoded: OnceCell::new() });
        all.push(Arc::downgrade(&shared));
        shared
    }
}

/// An answer on its way to one caller.
struct Answer {
    encoded: Bytes,
    /// Found by others as long as this answer has not left.
    _shared: Arc<Shared>,
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.encoded
    }
}

async fn encode_anew(
    node: &dyn NodePort,
    budget: &Budget,
    method: DialectMethod,
    mut entries: Arc<Vec<KeyEntry>>,
) -> Result<Bytes, Status> {
    let share = values::read_directory(node, budget, &mut entries).await?;
    let is_long = values::are_long(&entries);
    let encode = move |reply| convert::encode_coordination(method, (String::new(), ""), reply);
    let reply = coordination::Reply::Directory(entries);
    let encoded = match is_long {
        true => values::encode_aside(reply, encode).await?,
        false => encode(reply),
    };
    let defect = || {
        let text = format!("the node answered {} with a directory", method.1.name());
        Status::new(Code::Internal, text)
    };
    encoded.map(|encoded| share.with(encoded)).ok_or_else(defect)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rondo_core::coordination::Value;
    use rondo_core::ids::{Digest, Revision};

    use super::*;
    use crate::service::node_double::{NodeDouble, no_answer};

    const METHOD: DialectMethod = (Dialect::X, CoordinationMethod::GetKeyValueDir);
    const VALUE_BYTES: usize = 2 << 20;

    /// A node that has one blob. Counts how often it is read.
    fn one_blob(reads: &Arc<AtomicUsize>) -> impl NodePort {
        let reads = Arc::clone(reads);
        let blob = move |_| match reads.fetch_add(1, Ordering::Relaxed) {
            // At first it is gone.
            0 => Err(Status::new(Code::DataLoss, "gone")),
            _ => Ok(vec![7; VALUE_BYTES].into()),
        };
        NodeDouble { call: no_answer, blob }
    }

    fn listing() -> Arc<Vec<KeyEntry>> {
        let (digest, size_bytes) = (Digest::new([1; 32]), VALUE_BYTES as u64);
        let value = Value::Blob { digest, size_bytes };
        Arc::new(vec![KeyEntry { key: "d/k".into(), value, revision: Revision::new(1) }])
    }

    #[tokio::test]
    async fn callers_at_once_share_one_answer_and_one_error_is_one_callers() {
        let (directories, reads) = (Directories::default(), Arc::default());
        let node = one_blob(&reads);
        let budget = Budget::new(64 << 20, 32 << 20);
        let entries = listing();
        let ask = || directories.encode(&node, &budget, METHOD, Arc::clone(&entries));
        let (first, second, third) = tokio::join!(ask(), ask(), ask());
        assert_eq!(first.unwrap_err().code, Code::DataLoss);
        let (second, third) = (second.unwrap(), third.unwrap());
        assert_eq!(second.as_ptr(), third.as_ptr());
        assert_eq!(reads.load(Ordering::Relaxed), 2);
        assert!(second.len() > VALUE_BYTES && second.ends_with(&[7; 64]));
        assert_eq!(entries[0].value, listing()[0].value, "the node's listing is as it was");
    }

    #[tokio::test]
    async fn another_listing_and_another_dialect_are_encoded_apart() {
        let (directories, node) =
            (Directories::default(), one_blob(&Arc::new(AtomicUsize::new(1))));
        let budget = Budget::new(64 << 20, 32 << 20);
        let (entries, others) = (listing(), listing());
        let ask = |method, entries: &Arc<_>| {
            directories.encode(&node, &budget, method, Arc::clone(entries))
        };
        let answer = ask(METHOD, &entries).await.unwrap();
        let dialect_t = ask((Dialect::T, METHOD.1), &entries).await.unwrap();
        let newer = ask(METHOD, &others).await.unwrap();
        assert_ne!(answer.as_ptr(), dialect_t.as_ptr());
        assert_ne!(answer.as_ptr(), newer.as_ptr());
        assert_eq!(directories.0.lock().unwrap().len(), 3);
        drop((answer, dialect_t, newer));
        ask(METHOD, &entries).await.unwrap();
        assert_eq!(directories.0.lock().unwrap().len(), 1, "what has left is forgotten");
        assert_eq!(Arc::strong_count(&entries), 1);
    }

    /// The answer counts in the memory for large messages until it has left.
    #[tokio::test]
    async fn an_answer_has_its_share_of_the_memory_while_it_is_under_way() {
        let (directories, node) =
            (Directories::default(), one_blob(&Arc::new(AtomicUsize::new(1))));
        let budget = Budget::new(8 * VALUE_BYTES as u64, 4 * VALUE_BYTES as u64);
        let answer = directories.encode(&node, &budget, METHOD, listing()).await.unwrap();
        let soon = std::time::Duration::from_millis(50);
        // A message above the pool takes the turn: then only the pool is left.
        let _turn = budget.acquire(u64::MAX).await.unwrap();
        // Each value counts twice: as read, and within the answer.
        let more = async |bytes: usize| {
            tokio::time::timeout(soon, budget.acquire(bytes as u64)).await.is_ok()
        };
        let left = 2 * VALUE_BYTES;
        assert!(more(left - (64 << 10)).await && !more(left + (64 << 10)).await);
        drop(answer);
        assert!(more(4 * VALUE_BYTES).await);
    }

    /// Keys without values take memory, too.
    #[tokio::test]
    async fn the_keys_of_an_answer_have_their_share_of_the_memory() {
        const KEYS: usize = 1024;
        let budget = Budget::new(8 << 20, 4 << 20);
        let node = NodeDouble { call: no_answer, blob: |_| Ok(Bytes::new()) };
        let entry = |number: usize| KeyEntry {
            key: format!("d/{number:04090}").into(),
            value: Value::Inline(Bytes::new()),
            revision: Revision::new(1),
        };
        let entries: Vec<_> = (0..KEYS / 2).map(entry).collect();
        let directories = Directories::default();
        let answer = directories.encode(&node, &budget, METHOD, Arc::new(entries)).await.unwrap();
        let soon = std::time::Duration::from_millis(50);
        let more =
            async |bytes: u64| tokio::time::timeout(soon, budget.acquire(bytes)).await.is_ok();
        let _turn = budget.acquire(u64::MAX).await.unwrap();
        assert!(!more((4 << 20) - answer.len() as u64 + (64 << 10)).await);
        drop(answer);
        assert!(more(4 << 20).await);
    }
}
