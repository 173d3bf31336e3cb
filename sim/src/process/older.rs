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
    let Part::Dispatcher(part) = part else {
        return part;
    };
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

#[cfg(test)]
mod tests {
    use rondo_core::control::Record;
    use rondo_core::dispatcher::{Job, Record as Of, ShardingPolicy, TargetWorkers};
    use rondo_core::ids::{DatasetId, JobId};

    use super::*;
    use crate::process::Recovering;
    use crate::swarm::Swarm;

    #[test]
    fn an_aged_journal_is_the_same_but_for_times_of_use() {
        let (swarm, _) = Swarm::draw(&crate::rng::Source::seed(3));
        let mut disk = Disk::new();
        let job = Of::CreateJob {
            id: JobId::new(5000),
            name: "epoch".into(),
            dataset: DatasetId::new("1000"),
            sharding: ShardingPolicy::Off,
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Auto,
            anonymous: false,
            at: Time::from_millis(77),
        };
        let mut journal = start(&mut disk, &swarm).journal;
        journal.collect(Lsn::new(1), &Record::Dispatcher(job));
        journal.write(&mut disk, Lsn::NONE, false);
        let before = reread(&disk).unwrap();
        let aged = age(&mut disk).unwrap().unwrap();
        assert_eq!(aged, start(&mut disk, &swarm).recovered);
        let mut jobs = aged.dispatcher.jobs().values();
        let (old, new) = (before.dispatcher.jobs().values().next().unwrap(), jobs.next().unwrap());
        assert_eq!((old.asked, new.asked), (Time::from_millis(77), Time::ZERO));
        assert_eq!(Job { asked: old.asked, ..new.clone() }, old.clone());
    }

    fn start(disk: &mut Disk, swarm: &Swarm) -> crate::process::Begun {
        let mut recovering = Recovering::new(swarm.journal);
        loop {
            if let Some(begun) = recovering.go_on(disk, false).unwrap() {
                return begun;
            }
        }
    }
}
