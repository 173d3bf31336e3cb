//! Bringing a node's durable state back: the newest snapshot, then the records after it.

use bytes::Bytes;
use rondo_core::control::{Recovered, Recovery};
use rondo_core::ids::Lsn;
use rondo_core::journal::{End, GroupHeader, Noted, RecoverError, Scan, Verdict};
use rondo_core::log::ApplyError;
use rondo_proto::frame::{self, EnvelopeError, FrameError};

use crate::store::{Found, Segment, Store, StoreError};

/// A journal cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The journal is damaged.
    #[error(transparent)]
    Journal(#[from] RecoverError),
    /// A record was read but cannot be understood.
    #[error("record {lsn} at {place} cannot be read: {source}")]
    Undecodable {
        /// The first record of the group.
        lsn: Lsn,
        /// Where it stands.
        place: String,
        /// Why.
        source: FrameError,
    },
    /// A later release wrote a group.
    #[error("the group at {} cannot be read: {}", .0.place, .0.version)]
    LaterFormat(LaterGroup),
    /// The journal is damaged, and a later release wrote a group of it.
    #[error(
        "{damage}. The group at {} was written by a later release ({}): this release would lose it with the \
         rest, so have the later one look at the damage",
        .later.place, .later.version
    )]
    DamagedAndLater {
        /// The damage.
        damage: RecoverError,
        /// The first group of a later release.
        later: LaterGroup,
    },
    /// A group holds another number of records than it says.
    #[error(
        "record {lsn} at {place} cannot be decoded: its group holds {found} records, {expected} by \
         its header"
    )]
    Miscounted {
        /// The first record of the group.
        lsn: Lsn,
        /// Where it stands.
        place: String,
        /// Records in it.
        found: usize,
        /// Records by its header.
        expected: u64,
    },
    /// A record was read but does not fit what came before it.
    #[error("record {lsn} at {place} does not fit the state before it: {source}")]
    Unfit {
        /// The record.
        lsn: Lsn,
        /// Where it stands.
        place: String,
        /// Why.
        source: ApplyError,
    },
    /// The journal's files cannot be read or changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReplayError {
    /// Whether something that was acknowledged cannot be read any more.
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Store(error) => error.is_damage,
            _ => !self.is_of_later_release(),
        }
    }

    /// Whether a later release wrote the journal: it is whole.
    pub const fn is_of_later_release(&self) -> bool {
        match self {
            Self::Undecodable { source, .. } => source.is_of_later_release(),
            Self::LaterFormat(_) => true,
            _ => false,
        }
    }

    /// Whether the note of acknowledged records is older than the journal, which is then to be replayed
    /// without the note.
    pub const fn is_of_stale_note(&self) -> bool {
        matches!(self, Self::Journal(RecoverError::StaleNote { .. }))
    }
}

/// A group that a later release wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterGroup {
    /// Where it stands.
    pub place: String,
    /// Which version of the format it has.
    pub version: EnvelopeError,
}

/// Follows a journal's segments in order and applies what they hold.
#[derive(Debug)]
pub struct Replay {
    scan: Scan,
    recovery: Recovery,
    /// The first group that only a later release can read. Nothing is applied behind it, and nothing is cut.
    later: Option<LaterGroup>,
}

impl Replay {
    /// Goes on behind what `recovery` already holds. `noted` says which records somebody was told of, where
    /// that is known ([`crate::store::Acknowledged`]).
    pub fn starting_from(recovery: Recovery, noted: Option<Noted>) -> Self {
        let scan = Scan::starting_at(recovery.applied().next());
        let scan = match noted {
            Some(noted) => scan.noted(noted),
            None => scan,
        };
        Self { scan, recovery, later: None }
    }

    /// Takes what stands in the next segment.
    ///
    /// # Errors
    /// [`ReplayError`], naming the record and the place.
    pub fn segment(&mut self, found: Vec<Found>) -> Result<(), ReplayError> {
        found.into_iter().try_for_each(|found| self.frame(found))
    }

    /// Says that the next segment begins with record `first`: everything before it was durable when
    /// that segment was opened.
    pub fn segment_follows(&mut self, first: Lsn) {
        self.scan.segment(first);
    }

    /// Says that everything before record `next` is known to have been durable.
    pub fn durable_before(&mut self, next: Lsn) {
        self.scan.durable(Lsn::new(next.get().saturating_sub(1)));
    }

    /// The last record applied.
    pub const fn applied(&self) -> Lsn {
        self.recovery.applied()
    }

    /// Ends the journal.
    ///
    /// # Errors
    /// When an acknowledged record is missing, or a later release wrote a group.
    pub fn finish(self) -> Result<(Recovery, End), ReplayError> {
        let end = self.scan.finish().map_err(|error| judged(error, self.later.as_ref()))?;
        match self.later {
            None => Ok((self.recovery, end)),
            Some(later) => Err(ReplayError::LaterFormat(later)),
        }
    }

    fn frame(&mut self, Found { place, frame }: Found) -> Result<(), ReplayError> {
        let frame = match frame {
            Ok(frame) => frame,
            Err(reason) => {
                self.scan.damaged(&place, &reason);
                return Ok(());
            }
        };
        match frame::decode(&frame) {
            Ok((header, payload)) => match self.verdict(&header, &place)? {
                Verdict::Apply if self.later.is_none() => self.group(&header, &payload, &place),
                Verdict::Apply | Verdict::Skip => Ok(()),
            },
            Err(version) if version.is_of_later_release() => {
                self.later_group(&frame, LaterGroup { place, version })
            }
            Err(error) => {
                self.scan.damaged(&place, &error.to_string());
                Ok(())
            }
        }
    }

    /// A later release wrote a group. It must not be cut as the end of an unfinished write would be.
    fn later_group(&mut self, frame: &Bytes, group: LaterGroup) -> Result<(), ReplayError> {
        let Ok(header) = frame::header(frame) else {
            self.later.get_or_insert(group);
            return Ok(());
        };
        let place = group.place.clone();
        let end = header.first.get().saturating_add(header.count);
        // One that holds records of the snapshot alone is of no use any more.
        if header.count == 0 || end > self.applied().get() {
            self.later.get_or_insert(group);
        }
        self.verdict(&header, &place)?;
        Ok(())
    }

    fn verdict(&mut self, header: &GroupHeader, place: &str) -> Result<Verdict, ReplayError> {
        self.scan.group(header, place).map_err(|error| judged(error, self.later.as_ref()))
    }

    fn group(
        &mut self,
        header: &GroupHeader,
        payload: &[u8],
        place: &str,
    ) -> Result<(), ReplayError> {
        let undecodable = |source| ReplayError::Undecodable {
            lsn: header.first,
            place: place.to_owned(),
            source,
        };
        let mut lsn = header.first;
        let mut found = 0_usize;
        for record in frame::records(payload) {
            let record = record.map_err(undecodable)?;
            let unfit = |source| ReplayError::Unfit { lsn, place: place.to_owned(), source };
            self.recovery.apply(lsn, &record).map_err(unfit)?;
            lsn = lsn.next();
            found = found.saturating_add(1);
        }
        if u64::try_from(found) == Ok(header.count) {
            return Ok(());
        }
        let (place, expected) = (place.to_owned(), header.count);
        Err(ReplayError::Miscounted { lsn: header.first, place, found, expected })
    }
}

/// The error of a scan that may have met a group of a later release.
fn judged(error: RecoverError, later: Option<&LaterGroup>) -> ReplayError {
    match (error, later) {
        (damage @ RecoverError::Damaged { .. }, Some(later)) => {
            ReplayError::DamagedAndLater { damage, later: later.clone() }
        }
        (error, _) => ReplayError::Journal(error),
    }
}

/// What a start found in the journal.
#[derive(Debug)]
pub struct Replayed {
    /// The state.
    pub recovered: Recovered,
    /// What was cut, if the journal ended in an unfinished write.
    pub cut: Option<String>,
}

/// Replays a store's segments behind a snapshot, and cuts an unfinished write off its end.
///
/// # Errors
/// [`ReplayError`].
pub async fn replay(
    store: &mut dyn Store,
    snapshot: Recovery,
    noted: Option<Noted>,
) -> Result<Replayed, ReplayError> {
    let start = snapshot.applied();
    let mut replay = Replay::starting_from(snapshot, noted);
    for segment in segments_after(&store.segments(), start) {
        replay.segment_follows(segment.first);
        replay.segment(store.read(segment.first).await?)?;
    }
    let (recovery, end) = replay.finish()?;
    if let Some(cut) = &end.cut {
        tracing::warn!(cut, "the journal ended in updates that were never acknowledged");
        store.truncate(end.next).await?;
    }
    Ok(Replayed { recovered: recovery.finish(), cut: end.cut })
}

/// Segments that hold something not in a snapshot that ends with record `upto`. A segment is
/// wholly in the snapshot when the next one begins no later than the record after it.
pub fn segments_after(segments: &[Segment], upto: Lsn) -> Vec<Segment> {
    let is_covered = |index: usize| {
        segments.get(index.saturating_add(1)).is_some_and(|next| next.first <= upto.next())
    };
    let kept = segments.iter().enumerate().filter(|(index, _)| !is_covered(*index));
    kept.map(|(_, segment)| *segment).collect()
}
