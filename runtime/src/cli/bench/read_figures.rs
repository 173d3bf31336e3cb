//! The figures of `rondo bench read` as a table.

use std::fmt::Write as _;

use super::read::Rounds;

/// What is shown of something measured: its middle, and the ratio of another to it.
struct Row {
    what: &'static str,
    unit: &'static str,
    scale: f64,
    values: Vec<f64>,
    /// What Rondo's figure is to this one.
    ratio: Option<f64>,
}

/// All figures, with what Rondo's are to the others.
pub(super) fn table(rounds: &Rounds) -> String {
    let (small, large) = (middle(&rounds.small), middle(&rounds.large));
    let records = |what, values: &[f64], ratio| Row {
        what,
        unit: "records/s",
        scale: 1.0,
        values: values.to_vec(),
        ratio,
    };
    let against = |values: &[f64], own: f64| Some(own / middle(values)).filter(|it| it.is_finite());
    let bytes = |what, values: &[f64], ratio| Row {
        what,
        unit: "MiB/s",
        scale: 1.0 / f64::from(1 << 20),
        values: values.to_vec(),
        ratio,
    };
    let local = against(&rounds.small_local, small);
    let one_by_one = against(&rounds.small_tensorflow, small);
    let batched = against(&rounds.small_tensorflow_batched, small);
    let rows = [
        records("1 KiB records through the service", &rounds.small, None),
        records("  by a plain loop over the files", &rounds.small_local, local),
        records("  by TensorFlow's service", &rounds.small_tensorflow, one_by_one),
        records("  by it, in batches of 256", &rounds.small_tensorflow_batched, batched),
        bytes("1 MiB elements through the service", &rounds.large, None),
        bytes("  bare TCP over loopback", &rounds.loopback, against(&rounds.loopback, large)),
    ];
    let mut text = format!("{:<36} {:>12} {:<10} {:>8}\n", "", "median", "", "Rondo's");
    for row in rows.iter().filter(|row| !row.values.is_empty()) {
        let ratio = row.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}x"));
        let value = middle(&row.values) * row.scale;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<36} {value:>12.0} {:<10} {ratio:>8}", row.what, row.unit);
    }
    let (worker, own) = rounds.resident_mib.last().copied().unwrap_or_default();
    let _ = writeln!(
        text,
        "first record {:.0} ms after a reader is opened; in RAM at the end: the larger worker \
         {worker:.0} MiB, the reader's process {own:.0} MiB",
        middle(&rounds.first_ms),
    );
    text
}

/// The middle of some figures; 0 for none.
pub(super) fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
