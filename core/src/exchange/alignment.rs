//! Clocks of many processes as one: each by the measurements whose errors are least together.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::clock::Offset;
use super::ids::NodeId;

/// How far one process found another's clock to be ahead of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Who measured.
    pub by: NodeId,
    /// Whose clock.
    pub of: NodeId,
    /// How far it is ahead.
    pub offset: Offset,
}

/// A clock and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aligned {
    /// How far it is ahead of the clock that all are aligned to; errors of several measurements add up.
    pub offset: Offset,
    /// Whose measurement, or whose clock, it was compared with last.
    pub by: NodeId,
}

/// How far each clock is ahead of that of `root`, as far as measurements lead from there. A measurement
/// holds in both directions.
pub fn align(root: NodeId, measured: &[Measured]) -> BTreeMap<NodeId, Aligned> {
    let mut ways: BTreeMap<NodeId, Vec<(NodeId, Offset)>> = BTreeMap::new();
    for Measured { by, of, offset } in measured {
        ways.entry(*by).or_default().push((*of, *offset));
        ways.entry(*of).or_default().push((*by, offset.reversed()));
    }
    let mut known: BTreeMap<NodeId, Aligned> = BTreeMap::new();
    let start = Aligned { offset: Offset { nanos: 0, error_nanos: 0 }, by: root };
    let mut found: BTreeMap<NodeId, Aligned> = BTreeMap::from([(root, start)]);
    let mut nearest: BTreeSet<(u64, NodeId)> = BTreeSet::from([(0, root)]);
    while let Some((_, node)) = nearest.pop_first() {
        let Some(here) = found.remove(&node) else { continue };
        known.insert(node, here);
        for (other, step) in ways.get(&node).into_iter().flatten() {
            let offset = here.offset.and(*step);
            let is_better = |it: &Aligned| offset.error_nanos < it.offset.error_nanos;
            if known.contains_key(other) || !found.get(other).is_none_or(is_better) {
                continue;
            }
            found.insert(*other, Aligned { offset, by: node });
            nearest.insert((offset.error_nanos, *other));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(by: u32, of: u32, nanos: i64, error_nanos: u64) -> Measured {
        let offset = Offset { nanos, error_nanos };
        Measured { by: NodeId::new(by), of: NodeId::new(of), offset }
    }

    fn offset(known: &BTreeMap<NodeId, Aligned>, node: u32) -> Option<(i64, u64, u32)> {
        let aligned = known.get(&NodeId::new(node))?;
        Some((aligned.offset.nanos, aligned.offset.error_nanos, aligned.by.get()))
    }

    #[test]
    fn a_clock_is_known_by_the_way_of_the_least_error() {
        // The scheduler knows the server badly, the worker knows it well.
        let all = [measured(1, 8, 700, 500), measured(1, 9, 100, 20), measured(9, 8, 250, 5)];
        let known = align(NodeId::SCHEDULER, &all);
        assert_eq!(offset(&known, 1), Some((0, 0, 1)));
        assert_eq!(offset(&known, 9), Some((100, 20, 1)));
        assert_eq!(offset(&known, 8), Some((350, 25, 9)));
    }

    #[test]
    fn a_measurement_holds_in_both_directions() {
        let known = align(NodeId::new(8), &[measured(9, 8, 250, 5)]);
        assert_eq!(offset(&known, 9), Some((-250, 5, 8)));
    }

    #[test]
    fn whom_no_measurement_leads_to_is_not_there() {
        let known = align(NodeId::SCHEDULER, &[measured(9, 8, 250, 5)]);
        assert_eq!(known.len(), 1);
    }

    #[test]
    fn no_way_is_better_than_the_one_that_is_found() {
        // Every simple path of a small complete graph, tried one by one.
        let nodes = [1_u32, 8, 9, 10, 11];
        let mut all = Vec::new();
        for (at, by) in nodes.iter().enumerate() {
            for of in nodes.iter().skip(at + 1) {
                let error = u64::from((by * 37 + of * 101) % 23 + 1);
                all.push(measured(*by, *of, i64::from(*of) - i64::from(*by), error));
            }
        }
        let error = |a: u32, b: u32| {
            let is_of = |it: &&Measured| [(a, b), (b, a)].contains(&(it.by.get(), it.of.get()));
            all.iter().find(is_of).map(|it| it.offset.error_nanos).unwrap_or(u64::MAX)
        };
        let known = align(NodeId::SCHEDULER, &all);
        for target in [8, 9, 10, 11] {
            let best = paths(1, target, &nodes, &error);
            assert_eq!(
                offset(&known, target).map(|it| (it.0, it.1)),
                Some((i64::from(target) - 1, best))
            );
        }
    }

    fn paths(from: u32, to: u32, rest: &[u32], error: &dyn Fn(u32, u32) -> u64) -> u64 {
        let rest: Vec<u32> = rest.iter().copied().filter(|it| *it != from).collect();
        let through = rest.iter().filter(|it| **it != to);
        let through = through.map(|next| error(from, *next) + paths(*next, to, &rest, error));
        through.chain([error(from, to)]).min().unwrap_or(u64::MAX)
    }
}
