//! Which frames may come next, and which stay when a journal is cut.

use std::path::Path;

use bytes::Bytes;
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame::peek;

use super::StoreError;

/// The order of the frames in a journal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    next: Lsn,
}

impl Order {
    /// Every frame must begin at `next` or later.
    pub(super) const fn starting_at(next: Lsn) -> Self {
        Self { next }
    }

    /// Frames follow those with these headers, in a segment that begins with `first`.
    pub(super) fn behind(first: Lsn, headers: impl Iterator<Item = GroupHeader>) -> Self {
        Self { next: headers.map(|header| end(&header)).fold(first, Lsn::max) }
    }

    /// Whether a frame may come next; its header.
    ///
    /// # Errors
    /// For what would make the journal unreadable.
    pub(super) fn check(
        &self,
        first: Lsn,
        frame: &Bytes,
        place: &Path,
    ) -> Result<GroupHeader, StoreError> {
        let refused = |reason: String| {
            let reason = format!("frame given for record {first}: {reason}");
            StoreError::new("cannot append to", place, &reason)
        };
        let peek = peek(frame).map_err(|error| refused(error.to_string()))?;
        if peek.frame_len != frame.len() {
            let reason = format!("{} bytes, {} by its header", frame.len(), peek.frame_len);
            return Err(refused(reason));
        }
        if peek.header.first != first {
            return Err(refused(format!("its header says record {}", peek.header.first)));
        }
        if first < self.next {
            return Err(refused(format!("record {} comes next", self.next)));
        }
        Ok(peek.header)
    }

    /// Notes that a frame was taken.
    pub(super) fn took(&mut self, header: &GroupHeader) {
        self.next = end(header);
    }
}

/// The record behind a group.
fn end(header: &GroupHeader) -> Lsn {
    Lsn::new(header.first.get().saturating_add(header.count))
}

/// Whether a group stays when the journal is cut before record `from`.
fn stays(header: &GroupHeader, from: Lsn) -> bool {
    end(header) <= from
}

/// The last frame that stays when the journal is cut before record `from`. Behind the first that
/// goes nothing stays, whatever it says.
pub(super) fn last_to_stay<T>(
    found: &[T],
    header: impl Fn(&T) -> Option<GroupHeader>,
    from: Lsn,
) -> Option<&T> {
    let goes = |one: &T| header(one).is_some_and(|header| !stays(&header, from));
    let before = found.iter().take_while(|one| !goes(one));
    before.filter(|one| header(one).is_some()).last()
}

/// Says so if cutting before record `from` would divide a group: groups are all or nothing.
pub(super) fn refuse_to_divide(
    header: &GroupHeader,
    from: Lsn,
    place: &Path,
) -> Result<(), StoreError> {
    if header.first >= from || stays(header, from) {
        return Ok(());
    }
    let reason = format!(
        "record {from} stands inside the commit group of records {} to {}; cut before record {}",
        header.first,
        end(header).get().saturating_sub(1),
        header.first
    );
    Err(StoreError::new("cannot cut", place, &reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by fuzzing: a mark that goes back kept the records before it, which were to be cut.
    #[test]
    fn nothing_stays_behind_what_goes() {
        let group = |first, count| {
            let durable_upto = Lsn::NONE;
            Some(GroupHeader { first: Lsn::new(first), count, durable_upto })
        };
        let found = [group(1, 3), None, group(4, 0), None, group(4, 2), group(4, 0), group(1, 0)];
        let last = |from| last_to_stay(&found, |header| *header, Lsn::new(from));
        assert_eq!(last(4), Some(&group(4, 0)));
        assert_eq!(last(4).map(std::ptr::from_ref), Some(std::ptr::from_ref(&found[2])));
        assert_eq!(last(6), Some(&group(1, 0)));
        assert_eq!(last(1), None);
    }
}
