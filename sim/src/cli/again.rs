//! The same seeds again in a fresh process, at other places of a batch.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

use clap::ValueEnum;

use crate::swarm::Part;
use crate::tier::Tier;

/// Hashes of traces by seed, one a line.
pub(super) fn print(traces: &BTreeMap<u64, u64>) -> String {
    traces.iter().fold(String::new(), |mut text, (seed, hash)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "trace {seed} {hash:016x}");
        text
    })
}

/// Reads them again; other lines are passed over.
fn read(text: &str) -> BTreeMap<u64, u64> {
    let traces = text.lines().filter_map(|line| {
        let (seed, hash) = line.strip_prefix("trace ")?.split_once(' ')?;
        Some((seed.parse().ok()?, u64::from_str_radix(hash, 16).ok()?))
    });
    traces.collect()
}

/// Whether a fresh process that takes the last seed first finds the same traces.
///
/// # Errors
/// The process cannot be started.
pub(super) fn is_same(
    of: (Tier, Option<Part>),
    from: u64,
    traces: &BTreeMap<u64, u64>,
) -> Result<bool, String> {
    let last = traces.keys().map(|seed| seed.wrapping_sub(from)).max();
    let again = fresh_process(of, from, last.map_or(0, |last| last.saturating_add(1)))?;
    let different = traces.iter().find(|(seed, hash)| again.get(seed) != Some(hash));
    match different {
        Some((seed, hash)) => {
            let other = again.get(seed).map_or("nothing".into(), |hash| format!("{hash:016x}"));
            println!("seed {seed} gave trace {hash:016x}, and {other} in a fresh process");
        }
        None => println!("each of {} traces was the same in a fresh process", traces.len()),
    }
    Ok(different.is_none())
}

fn fresh_process(
    (tier, only): (Tier, Option<Part>),
    from: u64,
    seeds: u64,
) -> Result<BTreeMap<u64, u64>, String> {
    let program = std::env::current_exe().map_err(|error| format!("where am I: {error}"))?;
    let tier = tier.to_possible_value().map_or_else(String::new, |tier| tier.get_name().into());
    let output = Command::new(&program)
        .args(["swarm", "--tier", &tier, "--from", &from.to_string()])
        .args(["--seeds", &seeds.to_string(), "--backwards", "--hashes", "--quiet"])
        .args(only.into_iter().flat_map(|part| ["--only", part.name()]))
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, print, read};

    #[test]
    fn hashes_are_read_as_they_are_printed() {
        let traces = BTreeMap::from([(7, 0xab), (u64::MAX, u64::MAX), (8, 0)]);
        let text = format!("seeds from 7 on\n{}3 seeds in 1 s\n", print(&traces));
        assert_eq!(read(&text), traces);
    }
}
