//! A journal as a former version left it behind.

use rondo_core::control::{Part, Recovered, Recovery};
use rondo_core::dispatcher;
use rondo_core::ids::Lsn;
use rondo_core::time::Time;

use super::recover::{NoStart, reread};
use super::{acknowledged, compact, segment};
use crate::disk::Disk;

/// Writes the journal anew as a version did that noted no times at which jobs and datasets were
/// used: all of it in a snapshot. The state that is read from it; none when it has no record.
///
/// # Errors
/// When the journal cannot be read or written.
pub fn age(disk: &mut Disk) -> Result<Option<Recovered>, NoStart> {
    let recovered = reread(disk)?;
    let upto = recovered.applied;
    if upto == Lsn::NONE {
        return Ok(None);
    }
    let mut older = Recovery::new();
    for part in Recovery::resuming(recovered).parts() {
        older.restore(without_times(part)).map_err(|error| error.to_string())?;
    }
    older.restored_upto(upto);
    compact::install(disk, &older).map_err(|error| error.to_string())?;
    for (name, ..) in disk.list(segment::DIR) {
        let path = format!("{}/{name}", segment::DIR);
        disk.remove_file(&path).map_err(|error| error.to_string())?;
    }
    disk.sync_dir(segment::DIR);
    acknowledged::note(disk, upto);
    Ok(Some(older.finish()))
}

fn without_times(part: Part) -> Part {
    let Part::Dispatcher(part) = part;
    Part::Dispatcher(match part {
        dispatcher::Part::Job(mut job) => {
            job.asked = Time::ZERO;
            dispatcher::Part::Job(job)
        }
        dispatcher::Part::Dataset(mut dataset) => {
            dataset.used = Time::ZERO;
            dispatcher::Part::Dataset(dataset)
        }
        other => other,
    })
}
