//! The figures of `rondo bench rendezvous` as a table.

use std::fmt::Write as _;

use super::read_figures::middle;
use super::rendezvous::Rounds;

const MIB: f64 = (1 << 20) as f64;

/// All figures, with what Rondo's are to the others.
pub(super) fn table(rounds: &Rounds) -> String {
    let firsts = |times: &[(f64, f64)]| middle(&times.iter().map(|it| it.0).collect::<Vec<_>>());
    let lasts = |times: &[(f64, f64)]| middle(&times.iter().map(|it| it.1).collect::<Vec<_>>());
    let (small, call) = (firsts(&rounds.small_us), firsts(&rounds.call_us));
    let large = middle(&rounds.large);
    let mut text = format!("{:<44} {:>9} {:<6} {:>9} {:>8}\n", "", "median", "", "p99", "Rondo's");
    let mut times = |what: &str, middle: f64, last: f64, ratio: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{what:<44} {middle:>9.1} {:<6} {last:>9.1} {ratio:>8}", "us");
    };
    times(
        "a tensor of 4 KiB, asked for and received",
        small,
        lasts(&rounds.small_us),
        String::new(),
    );
    let ratio = format!("{:.2}x", small / call);
    times("  a bare unary call with as long an answer", call, lasts(&rounds.call_us), ratio);
    let mut rates = |what: &str, values: &[f64]| {
        if !values.is_empty() {
            let other = middle(values);
            let ratio = format!("{:.2}x", large / other);
            let ratio = if what.starts_with(' ') { ratio } else { String::new() };
            let _ = writeln!(
                text,
                "{what:<44} {:>9.0} {:<6} {:>9} {ratio:>8}",
                other / MIB,
                "MiB/s",
                ""
            );
        }
    };
    rates("tensors of 16 MiB, four at once", &rounds.large);
    rates("  bare TCP over loopback", &rounds.loopback);
    rates("  between TensorFlow's workers", &rounds.large_tensorflow);
    let (in_ram, live) = rounds.memory;
    let _ = writeln!(
        text,
        "in RAM for 16 such tensors while they are received, at most: {:.0} MiB, which is {:.2} times the \
         {:.0} MiB of those held and those on their way",
        in_ram / MIB,
        in_ram / live,
        live / MIB
    );
    text
}
