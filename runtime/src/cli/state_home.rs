//! Where the default data directory lies: on a new machine that place may not be there yet.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::exit::{Exit, Failure};

/// For nobody but its owner, as the XDG base directory specification wants.
const MODE: u32 = 0o700;

/// Creates what is missing above the data directory, durably: what is acknowledged in it must not go
/// with a name that was never on the disk.
pub(super) fn create_above(data: &Path) -> Result<(), Failure> {
    let Some(above) = data.parent() else { return Ok(()) };
    let above: Vec<&Path> = above.ancestors().collect();
    let missing = above.iter().take_while(|folder| !folder.exists()).count();
    for folder in above.iter().take(missing).rev() {
        create(folder).map_err(|error| {
            let text =
                format!("cannot create {} for the data directory: {error}", folder.display());
            Failure::new(Exit::DataDirectory, text)
        })?;
    }
    Ok(())
}

fn create(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(MODE).create(folder) {
        // Another server was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => created?,
    }
    folder.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}
