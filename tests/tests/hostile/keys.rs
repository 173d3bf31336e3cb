//! Keys of the default namespace, as an honest client puts, reads and deletes them.

use bytes::Bytes;
use rondo_proto::tf;
use rondo_tests::dispatcher::Dispatcher;
use tonic::Status;

/// The service's methods begin so.
pub(crate) const SERVICE: &str = "/tensorflow.CoordinationService/";

/// Puts a key, whether it is there or not.
pub(crate) fn put(
    dispatcher: &Dispatcher,
    key: &str,
    value: impl Into<Bytes>,
) -> Result<(), Status> {
    let kv = Some(tf::KeyValueEntry { key: key.into(), value: value.into() });
    let request = tf::InsertKeyValueRequest { kv, allow_overwrite: true };
    let path = format!("{SERVICE}InsertKeyValue");
    dispatcher.method::<_, tf::InsertKeyValueResponse>(&path, &request).map(drop)
}

/// Reads a key that is there.
pub(crate) fn find(dispatcher: &Dispatcher, key: &str) -> Result<Bytes, Status> {
    let request = tf::TryGetKeyValueRequest { key: key.into() };
    let path = format!("{SERVICE}TryGetKeyValue");
    let found: tf::TryGetKeyValueResponse = dispatcher.method(&path, &request)?;
    Ok(found.kv.expect("a key that is found has a value").value)
}

/// Deletes a directory of keys.
pub(crate) fn delete(dispatcher: &Dispatcher, directory: &str) -> Result<(), Status> {
    let request = tf::DeleteKeyValueRequest { key: directory.into(), is_directory: true };
    let path = format!("{SERVICE}DeleteKeyValue");
    dispatcher.method::<_, tf::DeleteKeyValueResponse>(&path, &request).map(drop)
}
