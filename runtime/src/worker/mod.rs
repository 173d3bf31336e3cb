//! Drives the worker: listens, registers at a dispatcher, has elements made ahead of those who ask,
//! and serves them. It decides nothing.

mod datasets;
mod driver;
mod front;
#[cfg(not(madsim))]
mod known_datasets;
#[cfg(not(madsim))]
mod pipelines;
mod serving;
#[cfg(not(madsim))]
mod split_records;
mod upstream;

pub use self::datasets::{Datasets, Elements, Opened, Records};
pub use self::driver::{Handle, Told, start};
pub use self::front::Front;
#[cfg(not(madsim))]
pub use self::pipelines::Pipelines;
pub use self::serving::{Config, WorkerError, identity, machine, run};
pub use self::upstream::Upstream;
