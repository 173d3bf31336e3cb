//! Values of keys that are too long for a record: put aside as blobs before the node hears of them,
//! and read again for answers.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::coordination::{ChangeKind, KeyEntry, Method, Reply, Value};
use rondo_core::limits::VALUE_INLINE_BYTES_MAX;
use rondo_core::status::{Code, Status};

use super::node_port::NodePort;
use crate::aside::aside;
use crate::node::BlobPin;
use crate::store::blobs::Blob;
use crate::transport::budget::{Budget, Share};

/// Values up to this size are named on the connection's task, in bytes; larger ones, which take
/// milliseconds, on a thread that may block.
const NAMED_INLINE_BYTES_MAX: usize = 1 << 20;

/// Makes a long value durable, and leaves its name in the request.
///
/// # Errors
/// When the blob cannot be put.
pub(super) async fn put_aside(node: &dyn NodePort, method: &mut Method) -> Result<BlobPin, Status> {
    let Method::PutKeyValue { value, .. } = method else { return Ok(BlobPin::none()) };
    let Value::Inline(bytes) = value else { return Ok(BlobPin::none()) };
    let size_bytes = bytes.len() as u64;
    if size_bytes <= VALUE_INLINE_BYTES_MAX {
        return Ok(BlobPin::none());
    }
    let blob = named(bytes.clone()).await?;
    *value = Value::Blob { digest: blob.digest(), size_bytes };
    Box::pin(node.put_blob(blob)).await
}

/// Answers with values up to this size together, in bytes, and with so many keys, are encoded on the
/// connection's task.
const ENCODED_INLINE_BYTES_MAX: u64 = 1 << 20;
const ENCODED_INLINE_KEYS_MAX: usize = 4096;

async fn named(bytes: Bytes) -> Result<Blob, Status> {
    if bytes.len() <= NAMED_INLINE_BYTES_MAX {
        return Ok(Blob::of(bytes));
    }
    aside("naming a value", move || Blob::of(bytes)).await
}

/// Reads the blobs that an answer names, with its share of the memory for large messages.
///
/// # Errors
/// DATA_LOSS when a blob is gone: its key may have been put anew or deleted since.
/// RESOURCE_EXHAUSTED when there are more bytes in the answer than may ever be under way.
pub(super) async fn read_back(
    node: &dyn NodePort,
    budget: &Budget,
    reply: &mut Reply,
) -> Result<Share, Status> {
    let mut size = Size::default();
    if let Reply::Keys { entries, .. } = reply {
        size.keys = keys_of(entries);
    }
    size.values = total(values(reply).into_iter().map(|value| value.size_bytes()));
    let share = room_for(size, budget).await?;
    for value in values(reply) {
        read_blob(node, value).await?;
    }
    Ok(share)
}

/// Reads the blobs that a directory names, with its share of the memory for large messages. What others
/// have of the directory stays as it is.
///
/// # Errors
/// Those of [`read_back`].
pub(super) async fn read_directory(
    node: &dyn NodePort,
    budget: &Budget,
    entries: &mut Arc<Vec<KeyEntry>>,
) -> Result<Share, Status> {
    let values = total(entries.iter().map(|entry| entry.value.size_bytes()));
    let share = room_for(Size { keys: keys_of(entries), values }, budget).await?;
    if entries.iter().any(|entry| entry.value.blob().is_some()) {
        for entry in Arc::make_mut(entries) {
            read_blob(node, &mut entry.value).await?;
        }
    }
    Ok(share)
}

/// What the keys and the values of an answer take, in bytes.
#[derive(Clone, Copy, Default)]
struct Size {
    keys: u64,
    values: u64,
}

/// What an entry takes within an encoded answer beside its key and its value, in bytes, at most.
const ENTRY_BYTES: u64 = 64;

fn keys_of(entries: &[KeyEntry]) -> u64 {
    total(entries.iter().map(|entry| ENTRY_BYTES.saturating_add(entry.key.len() as u64)))
}

fn total(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

/// Waits for the memory that an answer takes.
async fn room_for(Size { keys, values }: Size, budget: &Budget) -> Result<Share, Status> {
    check_length(values, budget)?;
    // A value is in memory twice: as read, and within the encoded answer.
    budget.acquire(values.saturating_mul(2).saturating_add(keys)).await
}

async fn read_blob(node: &dyn NodePort, value: &mut Value) -> Result<(), Status> {
    if let Some(digest) = value.blob() {
        *value = Value::Inline(node.get_blob(digest).await?);
    }
    Ok(())
}

/// Encodes an answer on a thread that may block.
///
/// # Errors
/// When that thread is lost.
pub(super) async fn encode_aside<F>(reply: Reply, encode: F) -> Result<Option<Bytes>, Status>
where
    F: FnOnce(Reply) -> Option<Bytes> + Send + 'static,
{
    aside("encoding an answer", move || encode(reply)).await
}

/// Whether encoding an answer takes milliseconds.
pub(super) fn is_long(reply: &Reply) -> bool {
    match reply {
        Reply::Value { value, .. } => value.size_bytes() > ENCODED_INLINE_BYTES_MAX,
        Reply::Keys { entries, .. } => are_long(entries),
        // At most what is remembered of changes.
        _ => false,
    }
}

/// Whether encoding entries takes milliseconds.
pub(super) fn are_long(entries: &[KeyEntry]) -> bool {
    let sizes = entries.iter().map(|entry| entry.value.size_bytes());
    entries.len() > ENCODED_INLINE_KEYS_MAX
        || sizes.fold(0, u64::saturating_add) > ENCODED_INLINE_BYTES_MAX
}

/// One value always passes: the bound of values is not above this one.
fn check_length(total: u64, budget: &Budget) -> Result<(), Status> {
    let bound = budget.bytes_max();
    if total <= bound {
        return Ok(());
    }
    let text = format!(
        "the values asked for have {total} bytes together; the bound is {bound} bytes \
         (--inflight-size-max)"
    );
    Err(Status::new(Code::ResourceExhausted, text))
}

fn values(reply: &mut Reply) -> Vec<&mut Value> {
    match reply {
        Reply::Value { value, .. } => vec![value],
        Reply::Keys { entries, .. } => entries.iter_mut().map(|entry| &mut entry.value).collect(),
        Reply::Changes { changes, .. } => {
            let put = changes.iter_mut().filter_map(|change| match &mut change.kind {
                ChangeKind::Put(value) => Some(value),
                ChangeKind::Deleted | ChangeKind::DeletedWithAllUnder => None,
            });
            put.collect()
        }
        _ => Vec::new(),
    }
}
