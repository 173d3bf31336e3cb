//! The figures of `rondo bench exchange` as a table.

use std::fmt::Write as _;

use super::exchange::Rounds;
use super::read_figures::middle;

const MIB: f64 = (1 << 20) as f64;

/// All figures, with what Rondo's are to the others.
pub(super) fn table(rounds: &Rounds) -> String {
    let firsts = |times: &[(f64, f64)]| middle(&times.iter().map(|it| it.0).collect::<Vec<_>>());
    let lasts = |times: &[(f64, f64)]| middle(&times.iter().map(|it| it.1).collect::<Vec<_>>());
    let mut text = format!("{:<48} {:>9} {:<6} {:>9} {:>8}\n", "", "median", "", "p99", "ratio");
    let mut time = |what: &str, times: &[(f64, f64)], beside: Option<&[(f64, f64)]>| {
        let (middle, last) = (firsts(times), lasts(times));
        let ratio = beside.map_or(String::new(), |it| format!("{:.2}x", middle / firsts(it)));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{what:<48} {middle:>9.1} {:<6} {last:>9.1} {ratio:>8}", "us");
    };
    let bare = Some(rounds.small_bare_us.as_slice());
    time("4 KiB there and back over bare TCP", &rounds.small_bare_us, None);
    time("  pushed and pulled, over TCP", &rounds.small_us, bare);
    time("  the same, spinning", &rounds.small_spinning_us, bare);
    time("  the same, through shared memory's socket", &rounds.small_shared_us, bare);
    let gloo = Some(rounds.small_gloo_us.as_slice()).filter(|it| !it.is_empty());
    if gloo.is_some() {
        time("4 KiB there and back by gloo", &rounds.small_gloo_us, None);
        time("  pushed and pulled, over TCP, beside gloo", &rounds.small_us, gloo);
        time("  the same, spinning", &rounds.small_spinning_us, gloo);
        time("  the same, through shared memory's socket", &rounds.small_shared_us, gloo);
    }
    time("1 MiB there and back over bare TCP", &rounds.medium_bare_us, None);
    time("  pushed and pulled, over TCP", &rounds.medium_us, Some(&rounds.medium_bare_us));
    time(
        "  the same, through shared memory",
        &rounds.medium_shared_us,
        Some(&rounds.medium_bare_us),
    );
    if gloo.is_some() {
        let gloo = Some(rounds.medium_gloo_us.as_slice());
        time("1 MiB there and back by gloo", &rounds.medium_gloo_us, None);
        time("  pushed and pulled, over TCP, beside gloo", &rounds.medium_us, gloo);
    }
    let mut rate = |what: &str, rates: &[f64], beside: Option<&[f64]>| {
        let middle_rate = middle(rates);
        let ratio = beside.map_or(String::new(), |it| format!("{:.2}x", middle_rate / middle(it)));
        let in_mib = middle_rate / MIB;
        let _ = writeln!(text, "{what:<48} {in_mib:>9.0} {:<6} {:>9} {ratio:>8}", "MiB/s", "");
    };
    rate("16 MiB copied in memory", &rounds.copied, None);
    rate("  pushed through shared memory", &rounds.shared, Some(&rounds.copied));
    rate("256 KiB pushed and pulled, 1 worker, 1 server", &rounds.one, None);
    rate("  2 workers, 2 servers, over all", &rounds.two, Some(&rounds.one));
    rate("  8 workers, 8 servers, beside 2 and 2", &rounds.eight, Some(&rounds.two));
    match &rounds.gpu.none {
        Some(why) => {
            let _ = writeln!(text, "from GPU to GPU: no device ({why})");
        }
        None => {
            rate("16 MiB copied onto a GPU", &rounds.gpu.copied, None);
            rate("  pushed from GPU to GPU, over TCP", &rounds.gpu.tcp, Some(&rounds.gpu.copied));
            rate("  on the GPU, seen by both", &rounds.gpu.shared, Some(&rounds.gpu.copied));
        }
    }
    text
}
