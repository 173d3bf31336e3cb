//! Random numbers for the core, which makes none itself.

/// A stream of numbers that nobody outside can guess the start of. Not for secrets.
#[derive(Clone, Debug)]
pub struct Entropy {
    state: u64,
}

impl Entropy {
    /// A stream with this start; the same start gives the same stream.
    pub const fn from_seed(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A stream seeded by the operating system.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn from_system() -> Result<Self, getrandom::Error> {
        getrandom::u64().map(Self::from_seed)
    }

    /// The next number (SplitMix64).
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::Entropy;

    #[test]
    fn the_stream_is_the_published_one() {
        // First outputs of SplitMix64 for seed 1234567, as published with the algorithm.
        let mut entropy = Entropy::from_seed(1_234_567);
        assert_eq!(entropy.next(), 6_457_827_717_110_365_317);
        assert_eq!(entropy.next(), 3_203_168_211_198_807_973);
    }
}
