//! Small files that are replaced as a whole or not at all.

use std::io;
use std::path::Path;

use bytes::Bytes;

use super::StoreError;
use super::config::SMALL_FILE_BYTES_MAX;
use super::disk::Disk;

/// What a file's name has behind it while the file is written.
pub(super) const UNFINISHED: &str = ".new";

/// Reads a small file; `None` if there is none.
pub(super) async fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Bytes>, StoreError> {
    let failed = |error: io::Error| StoreError::new("cannot read", path, &error);
    let file = match disk.open(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(failed)?,
    };
    let bytes = file.read_at(0, SMALL_FILE_BYTES_MAX + 1).await.map_err(failed)?;
    if bytes.len() > SMALL_FILE_BYTES_MAX {
        let reason = format!("it has more than the {SMALL_FILE_BYTES_MAX} bytes it may have");
        return Err(failed(io::Error::other(reason)));
    }
    Ok(Some(bytes))
}

/// Writes a small file of the directory `dir`, in place of the one that has the name. Durable on
/// return; after a crash the old one or the new one is there, whole.
pub(super) async fn replace(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
    bytes: Bytes,
) -> Result<(), StoreError> {
    let path = dir.join(name);
    let unfinished = dir.join(format!("{name}{UNFINISHED}"));
    let write = async {
        remove_if_there(disk, &unfinished).await?;
        let file = disk.create(&unfinished).await?;
        file.write_at(0, bytes).await?;
        file.sync_data().await?;
        disk.rename(&unfinished, &path).await?;
        disk.sync_dir(dir).await
    };
    write.await.map_err(|error| StoreError::new("cannot replace", &path, &error))
}

/// Removes a file that may be there.
pub(super) async fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
