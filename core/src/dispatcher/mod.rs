//! The dispatcher: hands out data. Datasets, jobs, iterations, tasks, workers, clients; dynamic
//! splits; coordinated reads; expiry and garbage collection.
//!
//! Semantics are those of TensorFlow 2.21's tf.data service dispatcher, as its unmodified clients
//! and workers need them; `docs/compatibility.md` lists where Rondo does better.

mod apply;
mod apply_datasets;
mod apply_freeing;
mod apply_positions;
mod apply_rounds;
mod by_split;
mod clients;
mod config;
mod datasets;
mod deletion;
mod delivery;
mod first_ids;
mod former;
mod freeing;
mod handed_out;
mod held_up;
mod holding;
mod holding_apply;
mod idle;
mod invariants;
mod iterations;
mod job_dataset;
mod jobs;
mod leases;
mod lost;
mod machine;
mod maintenance;
mod position;
mod positions;
mod processes;
mod readers;
mod record;
mod refusal;
mod removal;
mod repetitions;
mod reply;
mod report;
mod reporting;
mod request;
mod retired;
mod rhythm;
mod rounds;
mod snapshot;
mod splits;
mod splits_apply;
mod state;
mod types;
mod undeletable;
mod versions;
mod worker_list;
mod workers;

pub use by_split::{BySplit, DepartedReader, Group, SavedSplit, SplitProgress};
pub use config::{Bounds, Config};
pub use handed_out::{Doubt, IterationSplits, SplitRun, SplitSet, TaskSplits};
pub(crate) use invariants::{DISPATCHER_INVARIANTS, STATE_INVARIANTS};
pub use machine::{Dispatcher, Effect, Turn};
pub use position::{Position, Restoration, SavedRepetition, SavedSource};
pub use record::{Record, WorkerProfile};
pub use refusal::Refusal;
pub use repetitions::{RepetitionRange, Repetitions};
pub use reply::{ClientHeartbeatReply, Event, HeldSplit, Reply, SplitsHeld, WorkerHeartbeatReply};
pub use report::{
    ClientReport, DatasetReport, FreedJobReport, IterationReport, JobReport, PositionReport,
    Report, SavedRepetitionReport, SavedSourceReport, SavedSplitReport, SourceReport, TaskReport,
    WorkerReport,
};
pub use request::{
    ClientHeartbeat, GetOrCreateJob, HoldSplits, RegisterDataset, Request, WorkerHeartbeat,
};
pub use retired::{JobParameters, RetiredJob, RetiredJobs};
pub use snapshot::Part;
pub use state::{
    Client, Counters, Dataset, Iteration, Job, PendingTask, SourcePosition, State, Task, Worker,
};
pub use types::{
    Compression, DatasetMetadata, Definition, DeploymentMode, ShardingPolicy, SplitPlan,
    SplitSource, TargetWorkers, TaskDef, TaskInfo, TransferServer,
};
pub use undeletable::Undeletable;
pub use versions::DatasetVersions;
