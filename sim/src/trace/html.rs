//! A timeline as one page that needs nothing else: a lane for each machine, faults in the margin,
//! red where a promise was broken, and a slider through time.

use std::fmt::Write;

use super::json::quoted;
use crate::world::Outcome;

const HEAD: &str = include_str!("page_head.html");
const TAIL: &str = include_str!("page_tail.html");

/// The whole page.
pub fn page(seed: &str, outcome: &Outcome) -> String {
    let mut page = String::from(HEAD);
    let broken = outcome.broken.as_ref().map(|(broken, _)| broken.to_string());
    // Writing to a string cannot fail.
    let _ = writeln!(page, "const seed = {};", quoted(seed));
    let _ = writeln!(page, "const broken = {};", quoted(&broken.unwrap_or_default()));
    let _ = writeln!(page, "const configuration = {};", quoted(&outcome.swarm.to_string()));
    let lanes: Vec<String> = outcome.lanes.iter().map(|lane| quoted(lane)).collect();
    let _ = writeln!(page, "const lanes = [{}];", lanes.join(","));
    page.push_str("const lines = [\n");
    for line in &outcome.lines {
        let (us, kind) = (line.at_ns / 1000, line.kind.name());
        let _ = writeln!(page, "[{us},{},\"{kind}\",{}],", line.lane, quoted(&line.text));
    }
    page.push_str("];\n");
    page.push_str(TAIL);
    page
}
