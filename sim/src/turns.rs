//! Looking at something only now and then.

/// Counts occasions; each `N`th of them is due.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns<const N: u64>(u64);

/// A machine's invariants are checked after each third of its steps. A later step seldom mends what breaks
/// one.
pub(crate) type InvariantTurns = Turns<3>;

impl<const N: u64> Turns<N> {
    /// Counts an occasion. Whether it is due.
    pub(crate) const fn is_due(&mut self) -> bool {
        self.0 = self.0.wrapping_add(1);
        self.0.is_multiple_of(N)
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;

    #[test]
    fn each_third_occasion_is_due() {
        let mut turns = Turns::<3>::default();
        let due: Vec<bool> = (0..7).map(|_| turns.is_due()).collect();
        assert_eq!(due, [false, false, true, false, false, true, false]);
    }
}
