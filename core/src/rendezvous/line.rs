//! A queue, whose first entry takes no memory of its own: most have no other.

use alloc::collections::VecDeque;
use core::mem::replace;

/// Entries in their order, at least one. Each has a number, greater than that of the one before it.
#[derive(Clone, Debug)]
pub(super) struct Line<V> {
    first: (u64, V),
    rest: VecDeque<(u64, V)>,
}

/// What is taken out of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<V> {
    /// This.
    Entry(u64, V),
    /// Nothing yet: it is the only one, which [`Line::into_only`] takes.
    Only,
    /// Nothing: it is not there.
    None,
}

impl<V> Line<V> {
    pub(super) const fn new(number: u64, entry: V) -> Self {
        Self { first: (number, entry), rest: VecDeque::new() }
    }

    pub(super) fn push(&mut self, number: u64, entry: V) {
        self.rest.push_back((number, entry));
    }

    pub(super) fn len(&self) -> usize {
        self.rest.len().saturating_add(1)
    }

    /// The only entry.
    pub(super) fn into_only(self) -> (u64, V) {
        self.first
    }

    /// Takes the first one out.
    pub(super) fn pop(&mut self) -> Taken<V> {
        self.rest.pop_front().map_or(Taken::Only, |next| {
            let (number, entry) = replace(&mut self.first, next);
            Taken::Entry(number, entry)
        })
    }

    /// Takes out the one of this number.
    pub(super) fn remove(&mut self, number: u64) -> Taken<V> {
        if self.first.0 == number {
            return self.pop();
        }
        let place = self.place(number);
        let removed = place.and_then(|place| self.rest.remove(place));
        removed.map_or(Taken::None, |(number, entry)| Taken::Entry(number, entry))
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut V> {
        if self.first.0 == number {
            return Some(&mut self.first.1);
        }
        let place = self.place(number)?;
        self.rest.get_mut(place).map(|(_, entry)| entry)
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.rest.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        core::iter::once(&self.first).chain(&self.rest).map(|(number, entry)| (*number, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn line() -> Line<char> {
        let mut line = Line::new(1, 'a');
        [(4, 'b'), (5, 'c'), (9, 'd')].into_iter().for_each(|(number, it)| line.push(number, it));
        line
    }

    #[test]
    fn first_in_first_out() {
        let mut line = line();
        for (number, entry) in [(1, 'a'), (4, 'b'), (5, 'c')] {
            assert_eq!(line.pop(), Taken::Entry(number, entry));
        }
        assert_eq!((line.len(), line.pop()), (1, Taken::Only));
        assert_eq!(line.into_only(), (9, 'd'));
    }

    #[test]
    fn any_one_is_found_and_taken_out_by_its_number() {
        for (number, mut entry) in [(1, 'a'), (4, 'b'), (5, 'c'), (9, 'd')] {
            let mut all = line();
            assert_eq!(all.get_mut(number), Some(&mut entry));
            assert_eq!(all.remove(number), Taken::Entry(number, entry));
            let left: Vec<u64> = all.iter().map(|(number, _)| number).collect();
            assert!(left.len() == 3 && !left.contains(&number) && left.is_sorted());
            assert_eq!(all.get_mut(number), None);
            assert_eq!(all.remove(number), Taken::None);
        }
        assert_eq!(Line::new(3, 'x').remove(3), Taken::Only);
    }
}
