//! The random numbers of shuffles: the same for ever, whatever crates do.
//!
//! SplitMix64 (Steele, Lea and Flood, 2014): a counter that grows by a fixed odd number, of which
//! each value is mixed. A number below `n` is the upper half of the product of 64 random bits and
//! `n`; what that prefers is below 2^-32 for any `n` that fits 32 bits.

/// How the counter grows: 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

const fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    counter: u64,
}

impl Random {
    /// The stream that belongs to these numbers.
    pub(crate) fn of(numbers: &[u64]) -> Self {
        let mix = |state: u64, number: &u64| mixed(state.wrapping_add(STEP) ^ mixed(*number));
        Self { counter: numbers.iter().fold(0, mix) }
    }

    /// 64 random bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(STEP);
        mixed(self.counter)
    }

    /// A number below this one; 0 if there is none.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        let product = (self.next() as u128).wrapping_mul(bound as u128);
        (product >> 64) as u64
    }

    /// The numbers below this one in random order.
    pub(crate) fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        for last in (1..order.len()).rev() {
            let other = self.below((last as u64).saturating_add(1)) as usize;
            order.swap(last, other);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        // From the reference implementation in C, seeded with 1234567.
        let mut random = Random { counter: 1_234_567 };
        let numbers: Vec<u64> = (0..5).map(|_| random.next()).collect();
        let wanted = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(numbers, wanted);
    }

    #[test]
    fn a_permutation_has_every_number_once_and_depends_on_all_that_it_is_of() {
        let order = |numbers: &[u64]| Random::of(numbers).permutation(100);
        let mut sorted = order(&[7, 0, 3]);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        assert_eq!(order(&[7, 0, 3]), order(&[7, 0, 3]));
        for other in [[8, 0, 3], [7, 1, 3], [7, 0, 4], [0, 7, 3]] {
            assert_ne!(order(&[7, 0, 3]), order(&other), "{other:?}");
        }
    }
}
