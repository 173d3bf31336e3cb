//! The dispatcher's behaviour, seen from outside: requests in, answers out, through a node whose
//! journal, clock and crashes the tests hold in their hands.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod asking;
mod both;
mod dice;
#[path = "../inputs/drawing.rs"]
mod drawing;
mod driver;
mod happening;
mod history;
mod live;
mod model;
mod world;

mod bounds;
mod client_heartbeat;
mod compression;
#[path = "../inputs/corpora.rs"]
mod corpora;
mod corpus;
mod datasets;
mod deletion;
mod durability;
mod first_ids;
mod freeing;
mod hold_ups;
mod holding;
mod iterations;
mod jobs;
mod lost_splits;
mod lost_workers;
mod maintenance;
mod months;
mod positions;
mod properties;
mod refusals;
mod release;
mod removal;
mod replay;
mod retention;
mod rounds;
mod splits;
mod versions;
mod worker_heartbeat;
mod worker_update;
