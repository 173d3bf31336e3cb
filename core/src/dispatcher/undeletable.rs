//! Why an operator cannot delete something.

use alloc::sync::Arc;

use crate::ids::DatasetId;

/// Why a job, a dataset or a worker cannot be deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undeletable {
    /// A job that is to be deleted has clients.
    #[error(
        "job {name:?} is in use: {clients} clients read it, and their calls may be under way. End them \
         before the job is deleted"
    )]
    JobInUse {
        /// The job's name.
        name: Arc<str>,
        /// How many clients it has.
        clients: usize,
    },
    /// A dataset that is to be deleted has jobs.
    #[error(
        "dataset {id} is in use by job {job:?} and {others} others: delete its jobs before the dataset"
    )]
    DatasetInUse {
        /// The dataset.
        id: DatasetId,
        /// One of its jobs.
        job: Arc<str>,
        /// How many jobs it has besides.
        others: usize,
    },
    /// A dataset that is to be deleted has an id that the dispatcher would choose for other data.
    #[error(
        "dataset {0} cannot be deleted yet: its id is a number that is still to be given to a dataset \
         without an id, and would then name other data"
    )]
    NumberToCome(DatasetId),
    /// A dataset that is to be deleted is the current version of one whose other versions are there.
    #[error("{id} is the current version of dataset {name}: delete {name}, with all its versions")]
    CurrentVersion {
        /// The version's id.
        id: DatasetId,
        /// The dataset's name.
        name: DatasetId,
    },
    /// A worker that is to be removed is heard.
    #[error("worker {0} is alive: stop it and wait until it counts as lost before it is removed")]
    WorkerLives(Arc<str>),
    /// A worker that is to be removed never counts as lost.
    #[error(
        "worker {0} cannot be removed: with --worker-timeout=-1 no worker counts as lost. Start the \
         server with a time-out"
    )]
    WorkerNeverLost(Arc<str>),
    /// Without a worker that is to be removed, another one would get another index.
    #[error(
        "worker {address} keeps its place in --worker-addresses: without it, worker {follower} of the same \
         host would get another index under static sharding. Remove that one first, when it is lost"
    )]
    WorkerHasFollower {
        /// The worker's address.
        address: Arc<str>,
        /// The other one's.
        follower: Arc<str>,
    },
    /// A worker that is to be removed has tasks.
    #[error(
        "worker {address} has tasks of job {job:?}: it is removed when the job's iterations have ended \
         and are freed"
    )]
    WorkerInUse {
        /// The worker's address.
        address: Arc<str>,
        /// A job that has tasks on it.
        job: Arc<str>,
    },
}
