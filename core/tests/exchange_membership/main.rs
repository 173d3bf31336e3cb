//! Who takes part in an exchange: processes register, are lost, leave and return, and meet at barriers,
//! whatever becomes of connections and of the scheduler.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod barriers;
mod bootstrap;
mod dice;
#[path = "../inputs/drawing.rs"]
mod drawing;
mod faults;
mod histories;

mod losses;
mod network;
mod observers;
mod oracle;
mod process;

mod restarts;
mod world;
