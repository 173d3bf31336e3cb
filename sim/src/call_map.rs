//! What is known of calls under way, by their numbers.

use rondo_core::ids::CallId;

/// A map from calls, as a list in the order of their numbers. Few calls are under way at a time, and a new
/// one has the highest number: a list then costs less than a tree, which makes and frees a node for each.
#[derive(Clone, Debug)]
pub(crate) struct CallMap<T>(Vec<(CallId, T)>);

impl<T> Default for CallMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Extend<(CallId, T)> for CallMap<T> {
    fn extend<I: IntoIterator<Item = (CallId, T)>>(&mut self, calls: I) {
        calls.into_iter().for_each(|(call, value)| drop(self.insert(call, value)));
    }
}

impl<T> CallMap<T> {
    fn place(&self, call: CallId) -> Result<usize, usize> {
        match self.0.last() {
            Some((last, _)) if *last < call => Err(self.0.len()),
            _ => self.0.binary_search_by_key(&call, |(call, _)| *call),
        }
    }

    /// Keeps a value for a call, and gives back the one before.
    pub(crate) fn insert(&mut self, call: CallId, value: T) -> Option<T> {
        match self.place(call) {
            Ok(place) => self.0.get_mut(place).map(|(_, old)| std::mem::replace(old, value)),
            Err(place) => {
                self.0.insert(place, (call, value));
                None
            }
        }
    }

    /// Forgets a call, and gives back what was kept for it.
    pub(crate) fn remove(&mut self, call: &CallId) -> Option<T> {
        self.place(*call).ok().map(|place| self.0.remove(place).1)
    }

    /// What is kept for a call.
    pub(crate) fn get(&self, call: &CallId) -> Option<&T> {
        self.place(*call).ok().and_then(|place| self.0.get(place)).map(|(_, value)| value)
    }

    /// What is kept for a call, to be changed.
    pub(crate) fn get_mut(&mut self, call: &CallId) -> Option<&mut T> {
        let place = self.place(*call).ok()?;
        self.0.get_mut(place).map(|(_, value)| value)
    }

    /// Whether anything is kept for a call.
    pub(crate) fn contains_key(&self, call: &CallId) -> bool {
        self.place(*call).is_ok()
    }

    /// Forgets all calls.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets the calls for which this is false.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&CallId, &mut T) -> bool) {
        self.0.retain_mut(|(call, value)| keeps(call, value));
    }

    /// The number of calls.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// All of it, in the order of the calls' numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&CallId, &T)> {
        self.0.iter().map(|(call, value)| (call, value))
    }

    /// All of it, in the order of the calls' numbers, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&CallId, &mut T)> {
        self.0.iter_mut().map(|(call, value)| (&*call, value))
    }

    /// What is kept, in the order of the calls' numbers.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }

    /// What was kept, in the order of the calls' numbers.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.0.into_iter().map(|(_, value)| value)
    }

    /// What is kept, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::rng::Source;

    #[test]
    fn it_keeps_what_a_tree_keeps() {
        let mut stream = Source::seed(1).stream("call map", 0);
        let (mut list, mut tree) = (CallMap::default(), BTreeMap::new());
        for step in 0..20_000_u64 {
            let call = CallId::new(stream.below(40));
            match stream.below(8) {
                0..=2 => assert_eq!(list.insert(call, step), tree.insert(call, step)),
                3..=5 => assert_eq!(list.remove(&call), tree.remove(&call)),
                6 => {
                    list.retain(|kept, value| kept.get() % 3 != *value % 3);
                    tree.retain(|kept, value| kept.get() % 3 != *value % 3);
                }
                _ => {
                    list.extend([(call, step)]);
                    tree.extend([(call, step)]);
                    list.iter_mut().for_each(|(call, value)| *value += call.get());
                    tree.iter_mut().for_each(|(call, value)| *value += call.get());
                }
            }
            assert_eq!(list.get(&call), tree.get(&call));
            assert_eq!(list.get_mut(&call), tree.get_mut(&call));
            assert_eq!(list.contains_key(&call), tree.contains_key(&call));
            assert_eq!(list.len(), tree.len());
            assert!(list.iter().eq(tree.iter()) && list.values().eq(tree.values()));
        }
        assert!(list.values_mut().eq(tree.values_mut()));
        assert!(list.clone().into_values().eq(tree.into_values()));
        list.clear();
        assert_eq!(list.len(), 0);
    }
}
