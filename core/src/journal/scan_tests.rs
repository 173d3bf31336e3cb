//! Journals, good and bad, and what recovery says of them.

use alloc::string::ToString;
use alloc::vec::Vec;
use proptest::prelude::*;

use super::{End, GroupHeader, Noted, RecoverError, Scan, Verdict};
use crate::ids::Lsn;

fn group(first: u64, count: u64, durable_upto: u64) -> GroupHeader {
    GroupHeader { first: Lsn::new(first), count, durable_upto: Lsn::new(durable_upto) }
}

fn from_the_start() -> Scan {
    Scan::starting_at(Lsn::new(1))
}

fn read(scan: &mut Scan, header: GroupHeader) -> Verdict {
    scan.group(&header, "journal/1 at 96").unwrap()
}

#[test]
fn an_empty_journal_begins_at_its_start() {
    for next in [1, 42] {
        let end = Scan::starting_at(Lsn::new(next)).finish();
        let next = Lsn::new(next);
        assert_eq!(end, Ok(End { next, cut: None }));
    }
}

#[test]
fn groups_in_order_are_applied() {
    let mut scan = from_the_start();
    assert_eq!(read(&mut scan, group(1, 2, 0)), Verdict::Apply);
    assert_eq!(read(&mut scan, group(3, 1, 2)), Verdict::Apply);
    assert_eq!(scan.next(), Lsn::new(4));
    assert_eq!(scan.finish().unwrap().cut, None);
}

#[test]
fn a_mark_is_not_applied_but_vouches_for_what_came_before() {
    let mut scan = from_the_start();
    read(&mut scan, group(1, 2, 0));
    assert_eq!(read(&mut scan, group(3, 0, 2)), Verdict::Skip);
    assert_eq!(scan.finish().unwrap().next, Lsn::new(3));
}

/// The note is of a former boot, or of the directory that this one was copied from.
#[test]
fn a_note_that_is_not_exact_says_what_was_acknowledged_at_least() {
    let ends_after_five = |noted| {
        let mut scan = from_the_start().noted(noted);
        assert_eq!(read(&mut scan, group(1, 2, 0)), Verdict::Apply);
        read(&mut scan, group(3, 3, 2));
        scan.finish()
    };
    for upto in [1, 2, 5] {
        let end = ends_after_five(Noted::AtLeast(Lsn::new(upto)));
        assert_eq!(end, Ok(End { next: Lsn::new(6), cut: None }), "{upto}: every record is kept");
    }
    let refused = ends_after_five(Noted::AtLeast(Lsn::new(6))).unwrap_err();
    let RecoverError::Damaged { lsn, durable_upto, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((lsn, durable_upto), (Lsn::new(6), Lsn::new(6)));
    assert_eq!(ends_after_five(Noted::Exactly(Lsn::new(2))).unwrap().next, Lsn::new(3));
}

/// The process died: of records that nobody was told of some may be in a segment of their own.
#[test]
fn records_of_which_nobody_was_told_are_cut_and_named() {
    let mut scan = from_the_start().acknowledged_upto(Lsn::new(2));
    assert_eq!(read(&mut scan, group(1, 2, 0)), Verdict::Apply);
    assert_eq!(read(&mut scan, group(3, 2, 2)), Verdict::Skip);
    let end = scan.finish().unwrap();
    assert_eq!(end.next, Lsn::new(3));
    let cut = end.cut.expect("the operator is told");
    assert!(cut.contains("from 3 on") && cut.contains("nobody was ever told"), "{cut}");
}

#[test]
fn a_torn_tail_is_cut() {
    let mut scan = from_the_start();
    read(&mut scan, group(1, 2, 0));
    scan.damaged("journal/1 at 160", "the frame ends early");
    let end = scan.finish().unwrap();
    assert_eq!(end.next, Lsn::new(3));
    let cut = end.cut.unwrap();
    assert_eq!(cut, "unfinished write of record 3 cut at journal/1 at 160: the frame ends early");
}

#[test]
fn unfinished_writes_may_lie_before_finished_ones() {
    let mut scan = from_the_start();
    read(&mut scan, group(1, 1, 0));
    scan.damaged("here", "zeros");
    // Written while record 2 was still on its way, so it vouches for record 1 only.
    assert_eq!(read(&mut scan, group(3, 1, 1)), Verdict::Skip);
    assert_eq!(scan.finish().unwrap().next, Lsn::new(2));
}

#[test]
fn a_damaged_record_that_was_acknowledged_is_named() {
    let mut scan = from_the_start();
    read(&mut scan, group(1, 1, 0));
    scan.damaged("journal/1 at 160", "wrong checksum");
    read(&mut scan, group(5, 1, 4));
    let error = scan.finish().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, RecoverError::Damaged { lsn, .. } if lsn == Lsn::new(2)));
    for part in
        ["record 2 is damaged at journal/1 at 160: wrong checksum", "durable up to record 4"]
    {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_mark_makes_damage_before_it_a_loss() {
    let mut scan = from_the_start();
    scan.damaged("here", "zeros");
    read(&mut scan, group(2, 0, 1));
    assert!(scan.finish().is_err());
}

#[test]
fn a_damaged_mark_loses_no_record() {
    let mut scan = from_the_start();
    read(&mut scan, group(1, 1, 0));
    scan.damaged("here", "zeros");
    assert_eq!(read(&mut scan, group(2, 1, 1)), Verdict::Apply);
    read(&mut scan, group(3, 0, 2));
    let next = Lsn::new(3);
    assert_eq!(scan.finish(), Ok(End { next, cut: None }));
}

#[test]
fn a_gap_is_a_loss_if_it_was_durable_and_a_tail_if_not() {
    for (durable_upto, lost) in [(1, false), (2, true)] {
        let mut scan = from_the_start();
        read(&mut scan, group(1, 1, 0));
        assert_eq!(read(&mut scan, group(3, 1, durable_upto)), Verdict::Skip);
        match scan.finish() {
            Err(error) => assert!(lost && error.to_string().contains("record 3 follows instead")),
            Ok(end) => assert!(!lost && end.next == Lsn::new(2) && end.cut.is_some()),
        }
    }
}

/// An older image of the disk came back: the note was not synced, and the journal was.
#[test]
fn a_note_that_is_older_than_a_group_is_refused() {
    for (proof, records) in [(group(4, 1, 3), 1), (group(4, 0, 3), 0)] {
        let mut scan = from_the_start().acknowledged_upto(Lsn::new(2));
        assert_eq!(read(&mut scan, group(1, 2, 0)), Verdict::Apply);
        assert_eq!(read(&mut scan, group(3, 1, 2)), Verdict::Skip);
        let error = scan.group(&proof, "journal/1 at 200").unwrap_err();
        let (noted, durable_upto) = (Lsn::new(2), Lsn::new(3));
        let place = "journal/1 at 200".to_string();
        assert_eq!(
            error,
            RecoverError::StaleNote { noted, durable_upto, place },
            "{records} records"
        );
    }
}

/// A snapshot is made of closed segments, of which the last records need not be acknowledged.
#[test]
fn what_is_in_the_snapshot_stays_whatever_the_note_says() {
    let behind = || Scan::starting_at(Lsn::new(5)).acknowledged_upto(Lsn::new(3));
    let mut scan = behind();
    assert_eq!(read(&mut scan, group(5, 2, 3)), Verdict::Skip);
    let end = scan.finish().unwrap();
    assert_eq!(end.next, Lsn::new(5));
    assert!(end.cut.is_some());
    let mut scan = behind();
    assert!(scan.group(&group(5, 1, 4), "here").is_err(), "the note is older than this group");
}

#[test]
fn what_is_in_the_snapshot_already_is_passed_over() {
    let mut scan = Scan::starting_at(Lsn::new(3));
    assert_eq!(read(&mut scan, group(1, 2, 0)), Verdict::Skip);
    assert_eq!(read(&mut scan, group(3, 1, 2)), Verdict::Apply);
    assert!(scan.group(&group(3, 1, 3), "here").is_err());
    let mut scan = Scan::starting_at(Lsn::new(3));
    assert!(scan.group(&group(2, 2, 0), "here").is_err(), "half of it");
    assert_eq!(Scan::starting_at(Lsn::new(3)).finish().unwrap().next, Lsn::new(3));
}

#[test]
fn a_journal_that_ends_before_what_was_acknowledged_is_refused() {
    for (upto, lost) in [(1, false), (2, true)] {
        let mut scan = from_the_start().acknowledged_upto(Lsn::new(upto));
        read(&mut scan, group(1, 1, 0));
        assert_eq!(scan.finish().is_err(), lost, "acknowledged up to {upto}");
    }
}

#[test]
fn a_journal_that_ends_before_what_was_durable_is_refused() {
    let mut scan = from_the_start();
    read(&mut scan, group(1, 1, 0));
    scan.durable(Lsn::new(3));
    let text = scan.finish().unwrap_err().to_string();
    let parts = "record 2 is damaged at the end of the journal: the journal ends before it";
    assert!(text.contains(parts), "{text}");
}

#[test]
fn a_record_seen_before_is_out_of_order() {
    for again in [group(1, 1, 0), group(2, 5, 0)] {
        let mut scan = from_the_start();
        read(&mut scan, group(1, 2, 0));
        let error = scan.group(&again, "journal/2 at 0").unwrap_err();
        let expected = RecoverError::OutOfOrder {
            found: again.first,
            expected: Lsn::new(3),
            place: "journal/2 at 0".into(),
        };
        assert_eq!(error, expected);
    }
}

/// Found by fuzzing: such a journal was to be cut at the damage, and could not be.
#[test]
fn a_record_seen_before_is_out_of_order_behind_damage_too() {
    for again in [group(1, 1, 0), group(2, 5, 0)] {
        let mut scan = from_the_start();
        read(&mut scan, group(1, 2, 0));
        scan.damaged("here", "zeros");
        let error = scan.group(&again, "journal/2 at 0").unwrap_err();
        assert!(matches!(error, RecoverError::OutOfOrder { found, .. } if found == again.first));
    }
}

/// Found by fuzzing: cutting the journal behind such a record removed it with its segment.
#[test]
fn a_record_in_a_segment_of_later_ones_is_out_of_order() {
    for is_behind_damage in [false, true] {
        let mut scan = from_the_start();
        scan.segment(Lsn::new(4));
        if is_behind_damage {
            scan.damaged("journal/4 at 0", "zeros");
        }
        let place = "journal/4 at 96";
        let error = scan.group(&group(1, 3, 0), place).unwrap_err();
        let (found, expected) = (Lsn::new(1), Lsn::new(4));
        assert_eq!(error, RecoverError::OutOfOrder { found, expected, place: place.into() });
    }

    let mut scan = Scan::starting_at(Lsn::new(3));
    scan.segment(Lsn::new(1));
    assert_eq!(read(&mut scan, group(1, 2, 0)), Verdict::Skip, "it is in the snapshot");
    assert_eq!(read(&mut scan, group(3, 3, 2)), Verdict::Apply);
    scan.segment(Lsn::new(6));
    assert_eq!(read(&mut scan, group(6, 1, 5)), Verdict::Apply);
    assert!(scan.finish().is_ok());
}

/// The name of a segment alone proves that all before it was durable: whatever is in it may be lost.
#[test]
fn the_name_of_a_segment_makes_damage_before_it_a_loss() {
    for (first, lost) in [(3, false), (4, true)] {
        let mut scan = from_the_start();
        scan.segment(Lsn::new(1));
        read(&mut scan, group(1, 2, 0));
        scan.damaged("journal/1 at 160", "zeros");
        scan.segment(Lsn::new(first));
        match scan.finish() {
            Err(error) => assert!(lost && error.to_string().contains("durable up to record 3")),
            Ok(end) => assert!(!lost && end.next == Lsn::new(3)),
        }
    }
}

/// The name says which segments a snapshot covers, so that a wrong one has records removed that are in none.
#[test]
fn a_segment_that_begins_with_another_record_than_its_name_says_is_out_of_order() {
    for (name, begin) in [(3, group(5, 1, 2)), (3, group(5, 0, 4)), (6, group(5, 1, 4))] {
        let mut scan = from_the_start();
        scan.segment(Lsn::new(1));
        read(&mut scan, group(1, 4, 0));
        scan.segment(Lsn::new(name));
        let error = scan.group(&begin, "journal/5 at 0").unwrap_err();
        let (found, expected) = (begin.first, Lsn::new(name));
        let place = "journal/5 at 0".into();
        assert_eq!(error, RecoverError::OutOfOrder { found, expected, place });
    }
}

#[test]
fn a_segment_whose_beginning_is_damaged_may_have_any_name() {
    let mut scan = from_the_start();
    scan.segment(Lsn::new(1));
    scan.damaged("journal/1 at 0", "zeros");
    assert_eq!(read(&mut scan, group(2, 1, 0)), Verdict::Skip);
    assert_eq!(scan.finish().unwrap().next, Lsn::new(1));
}

#[test]
fn absurd_numbers_are_survived() {
    let mut scan = from_the_start();
    assert_eq!(read(&mut scan, group(1, u64::MAX, 0)), Verdict::Apply);
    assert_eq!(read(&mut scan, group(u64::MAX, 1, u64::MAX)), Verdict::Apply);
    assert!(scan.finish().is_err(), "a record after the last one was durable");
    assert!(Scan::starting_at(Lsn::NONE).finish().is_err());
}

/// A journal as a node writes it: groups of records, each group knowing how far the journal was
/// durable when it was written, and which of them a crash damaged.
#[derive(Clone, Debug)]
struct Written {
    groups: Vec<GroupHeader>,
    /// Everything up to here was acknowledged.
    durable: u64,
}

fn written() -> impl Strategy<Value = Written> {
    let syncs = any::<prop::sample::Index>;
    let steps = prop::collection::vec((0_u64..4, syncs()), 0..12);
    (steps, syncs()).prop_map(|(steps, last)| {
        let (mut groups, mut next, mut ends) = (Vec::new(), 1, alloc::vec![0]);
        // A sync goes as far as some group written so far, and never back.
        let sync = |ends: &mut Vec<u64>, upto: prop::sample::Index| {
            let at = upto.index(ends.len());
            ends.drain(..at);
            ends[0]
        };
        for (count, upto) in steps {
            let durable = sync(&mut ends, upto);
            groups.push(group(next, count, durable));
            next += count;
            ends.push(next - 1);
        }
        let durable = sync(&mut ends, last);
        Written { groups, durable }
    })
}

/// Reads a journal of which some groups cannot be read, or are missing.
fn recover(groups: &[GroupHeader], fates: &[Fate]) -> Result<(End, u64), RecoverError> {
    let mut scan = from_the_start();
    let mut applied = 0;
    for (at, header) in groups.iter().enumerate() {
        match fates.get(at).unwrap_or(&Fate::Good) {
            Fate::Good => {
                if scan.group(header, &at.to_string())? == Verdict::Apply {
                    applied += header.count;
                }
            }
            Fate::Damaged => scan.damaged(&at.to_string(), "damaged"),
            Fate::Missing => {}
        }
    }
    scan.finish().map(|end| (end, applied))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Good,
    Damaged,
    Missing,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Good),
        1 => Just(Fate::Damaged),
        1 => Just(Fate::Missing),
    ]
}

proptest! {
    /// Whatever a crash does to groups that were not durable, the durable ones are recovered,
    /// whole and in order, and nothing after the first hole is.
    #[test]
    fn a_crash_loses_nothing_that_was_durable(
        journal in written(),
        fates in prop::collection::vec(fate(), 0..12),
    ) {
        let spared = |(at, header): (usize, &GroupHeader)| {
            let fate = fates.get(at).copied().unwrap_or(Fate::Good);
            match header.first.get() + header.count - 1 <= journal.durable {
                true => Fate::Good,
                false => fate,
            }
        };
        let fates: Vec<Fate> = journal.groups.iter().enumerate().map(spared).collect();
        let (end, applied) = recover(&journal.groups, &fates).unwrap();
        prop_assert_eq!(end.next.get(), applied + 1);
        prop_assert!(applied >= journal.durable);
        let lost = |(at, header): (usize, &GroupHeader)| {
            fates[at] != Fate::Good && header.count > 0 && header.first.get() <= applied
        };
        prop_assert!(!journal.groups.iter().enumerate().any(lost), "a hole was passed over");
    }

    /// If any group that another one proves to have been durable is gone, the journal is refused,
    /// naming the first record that is gone.
    #[test]
    fn a_proven_loss_is_refused(
        journal in written(),
        fates in prop::collection::vec(fate(), 0..12),
    ) {
        let fate = |at: usize| fates.get(at).copied().unwrap_or(Fate::Good);
        let groups = || journal.groups.iter().enumerate();
        let seen = groups().filter(|(at, _)| fate(*at) == Fate::Good);
        let proven = seen.map(|(_, header)| header.durable_upto.get()).max().unwrap_or(0);
        let holes = groups().filter(|(at, header)| fate(*at) != Fate::Good && header.count > 0);
        let first_hole = holes.map(|(_, header)| header.first.get()).min().unwrap_or(u64::MAX);
        match recover(&journal.groups, &fates) {
            Ok(_) => prop_assert!(proven < first_hole),
            Err(RecoverError::Damaged { lsn, .. }) => {
                prop_assert!(lsn.get() == first_hole && first_hole <= proven);
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
