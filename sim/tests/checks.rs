//! Each oracle counts its judgements.

use rondo_sim::checks::Check;
use rondo_sim::oracle::{Oracles, exchange, rendezvous};
use rondo_sim::rng::Source;
use rondo_sim::swarm::Swarm;

fn counts(part: &str, oracle: &str) -> bool {
    let one = format!("{part}.{oracle}");
    let several = format!("{one}.");
    Check::ALL.iter().any(|check| check.name() == one || check.name().starts_with(&several))
}

#[test]
fn every_oracle_of_every_part_has_a_check() {
    let (swarm, _) = Swarm::draw(&Source::seed(1));
    let oracles = Oracles::new(&swarm);
    for (part, names) in [
        ("world", oracles.names().collect::<Vec<_>>()),
        ("rendezvous", rendezvous::NAMES.to_vec()),
        ("exchange", exchange::NAMES.to_vec()),
        ("shell", vec!["wire"]),
    ] {
        for name in names {
            assert!(counts(part, name), "{part}.{name} counts no check (sim/src/checks.rs)");
        }
    }
}
