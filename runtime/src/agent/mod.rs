//! A task's own side of the coordination service, as a library: it registers, shows that it lives,
//! hears of errors, waits at barriers, and shares and watches keys.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use rondo::agent::{Agent, Config, Way};
//! use rondo::clock::Clock;
//! use rondo::entropy::Entropy;
//! use rondo_core::ids::{Incarnation, TaskIndex};
//!
//! let mut entropy = Entropy::from_system()?;
//! let way = Way::surviving("10.0.0.7:5050", &mut entropy);
//! let config = Config::of("jax_worker", TaskIndex::new(3), Incarnation::new(entropy.next()));
//! let agent = Agent::start(way, Clock::start(), entropy);
//! agent.initialize(config, |error| eprintln!("the job has failed: {error}")).await?;
//! agent.connect().await?;
//! agent.insert_key_value("hosts/3", "10.0.0.3:7000").await?;
//! let mut hosts = agent.watch_key("hosts").await?;
//! while let Some(told) = hosts.next().await? {
//!     println!("{:?}", told.changes);
//! }
//! # Ok(())
//! # }
//! ```

mod driver;
mod interface;
mod keys;
mod store;
mod tasks;
mod watches;
mod way;

pub use rondo_core::agent::{Config, JobStatus, KeyChange, PutCondition, State, TaskStatus};

pub use self::interface::Agent;
pub use self::store::{KeyValueStore, StoreWatch};
pub use self::watches::{KeyWatch, Told};
pub use self::way::Way;
