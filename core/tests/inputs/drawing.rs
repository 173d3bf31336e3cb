//! Draws from bytes, as fuzzing makes them: every byte decides something.

#![allow(dead_code, reason = "each program of tests and each fuzz target uses a part")]

/// The bytes that have not decided anything yet.
pub(crate) struct Dice<'a>(&'a [u8]);

impl<'a> Dice<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether every byte has decided something.
    pub(crate) const fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Draws until the bytes are over, at most so many times.
    pub(crate) fn draw_all<T>(
        &mut self,
        most: usize,
        mut draw: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let mut drawn = Vec::new();
        while !self.is_over() && drawn.len() < most {
            drawn.push(draw(self));
        }
        drawn
    }

    /// The next byte as an index.
    pub(crate) fn which(&mut self) -> usize {
        usize::from(self.byte())
    }

    /// The next byte; zero behind the end.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }
}
