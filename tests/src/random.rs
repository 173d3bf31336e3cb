//! Random numbers from a seed that can be printed and given again.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// A generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number below `bound`, which is above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// One of `items`, `None` if there is none.
    pub fn pick<'a, T>(&mut self, items: impl ExactSizeIterator<Item = &'a T>) -> Option<&'a T> {
        let count = u64::try_from(items.len()).ok().filter(|count| *count > 0)?;
        let index = usize::try_from(self.below(count)).ok()?;
        items.into_iter().nth(index)
    }
}

/// The seed in `RONDO_SEED`, else one of the clock's; printed either way.
pub fn seed() -> u64 {
    let given = env::var("RONDO_SEED").ok();
    let seed = given.map_or_else(clock, |seed| seed.parse().expect("RONDO_SEED is a number"));
    println!("RONDO_SEED={seed}");
    seed
}

fn clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    now.as_secs() ^ u64::from(now.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_all_of_them() {
        let draw = |seed| -> Vec<u64> {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.below(10)).collect()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((0..10).all(|number| draw(1).contains(&number)));
        assert_eq!(Random::new(1).pick([0_u8; 0].iter()), None);
    }
}
