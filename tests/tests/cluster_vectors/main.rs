//! The cluster resolvers answer as the vectors say: as the real classes and launchers do, or better where
//! those are wrong.
//!
//! `RONDO_CLUSTER_VECTORS` names another file of vectors. Prints a line for each that fails, and at last how
//! many passed and failed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

mod cases;
mod conventions;
mod fake;
mod jax;
mod pods;
mod real;
mod steps;
mod texts;
mod values;

use rondo_core::cluster::Json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// A vector: its id, and what checks it.
struct Vector {
    id: String,
    check: Box<dyn FnOnce() -> Result<(), String>>,
}

/// A section of a file, and what makes its vectors.
type Section = (&'static str, fn(&Json) -> Vec<Vector>);

const SECTIONS: [Section; 7] = [
    ("cases", cases::vectors),
    ("jax", jax::vectors),
    ("hostlists", texts::host_lists),
    ("tasks_per_node", texts::task_counts),
    ("real", real::vectors),
    ("torch", texts::torch),
    ("conventions", conventions::vectors),
];

fn main() -> ExitCode {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/cluster.json");
    let path = std::env::var("RONDO_CLUSTER_VECTORS").unwrap_or_else(|_| own.into());
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let file = Json::parse(&text).unwrap_or_else(|why| panic!("{path}: {why}"));
    let (mut passed, mut failed) = (0, 0);
    for (id, outcome) in outcomes(&file) {
        match outcome {
            Ok(()) => passed += 1,
            Err(why) => {
                failed += 1;
                println!("{id}: {}", why.replace('\n', " "));
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn outcomes(file: &Json) -> Vec<(String, Result<(), String>)> {
    let mut found = Vec::new();
    for (name, value) in file.as_map().expect("a file of vectors is an object") {
        let section = SECTIONS.iter().find(|(known, _)| known == name);
        match (section, value.as_list()) {
            (Some((_, vectors)), Some(_)) => {
                for vector in vectors(value) {
                    let run = catch_unwind(AssertUnwindSafe(vector.check));
                    found.push((vector.id, run.unwrap_or_else(|_| Err("panicked".into()))));
                }
            }
            (None, Some(_)) => found.push((name.clone(), Err("an unknown section".into()))),
            _ => {}
        }
    }
    found
}
