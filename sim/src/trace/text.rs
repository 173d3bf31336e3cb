//! A timeline for a terminal: one line for each thing that happened.

use std::fmt::Write;

use super::{Line, LineKind};

/// The whole timeline.
pub fn page(lines: &[Line], lanes: &[String]) -> String {
    let mut page = String::new();
    for line in lines {
        let lane = lanes.get(line.lane as usize).map_or("?", String::as_str);
        let margin = match line.kind {
            LineKind::Fault => '!',
            LineKind::Broken => 'X',
            _ => ' ',
        };
        let (ms, us) = (line.at_ns / 1_000_000, line.at_ns / 1000 % 1000);
        let kind = line.kind.name();
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "{margin} {ms:>8}.{us:03} {:>2} {lane:<9} {kind:<7} {}",
            line.lane, line.text
        );
    }
    page
}
