//! A consumer of a dataset as a library: it finds workers by the dispatcher, reads from many of them
//! at once within bounded memory, and outlives their restarts and the dispatcher's.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use rondo::reader::{Content, Reader};
//!
//! let mut reader =
//!     Reader::builder("10.0.0.7:5050").job("train").dataset("quakes").open().await?;
//! let mut steps = 0;
//! while let Some(delivery) = reader.next().await {
//!     match delivery?.content {
//!         Content::Records(records) => println!("{} records", records.num_rows()),
//!         Content::Element(element) => println!("{} tensors", element.components.len()),
//!     }
//!     steps += 1;
//!     if steps % 1000 == 0 {
//!         reader.checkpoint(&format!("step-{steps}")).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod deliveries;
mod driver;
mod interface;
mod settings;

pub use rondo_core::dispatcher::ShardingPolicy;
pub use rondo_core::reader::{Counts, Report, Stall, WorkerCounts, WorkerReport};
pub use rondo_data::Origin;

pub use self::deliveries::{Content, Delivery, News};
pub use self::interface::{Handle, OPEN_PATIENCE, OpenError, Progress, Reader};
pub use self::settings::{Builder, Mode};

/// The examples of the page about reading compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reading.md")]
struct Examples;
