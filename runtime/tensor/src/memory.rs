//! Memory of large tensors: whole pages, which are kept for the next one of about the same length, since
//! to get new ones from the system costs about as much as to fill them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use memmap2::MmapMut;

/// The shortest tensor that has pages of its own, in bytes. Miri is too slow for the real one.
pub(super) const PAGED_BYTES_MIN: usize = if cfg!(miri) { 4 << 10 } else { 512 << 10 };
/// Memory that is kept though nobody uses it, in bytes; above it, what was kept longest goes.
const KEPT_BYTES_MAX: usize = 128 << 20;

/// What is kept in this process.
static KEPT: Mutex<Kept> = Mutex::new(Kept { all: VecDeque::new(), bytes: 0 });

struct Kept {
    /// The newest last.
    all: VecDeque<MmapMut>,
    /// Bytes of all.
    bytes: usize,
}

/// Pages, kept for others when they are dropped.
#[derive(Debug)]
pub(super) struct Pages {
    /// `None` when they are on their way to be kept.
    map: Option<MmapMut>,
}

impl Kept {
    /// Takes what is long enough, and not much longer.
    fn take(&mut self, length: usize) -> Option<MmapMut> {
        let fits =
            |map: &MmapMut| (length..=length.saturating_add(length / 4)).contains(&map.len());
        let found = self.all.iter().rposition(fits)?;
        let map = self.all.remove(found)?;
        self.bytes = self.bytes.saturating_sub(map.len());
        Some(map)
    }

    /// Keeps it. What goes for it.
    fn put(&mut self, map: MmapMut) -> Vec<MmapMut> {
        let mut gone = Vec::new();
        if map.len() > KEPT_BYTES_MAX {
            gone.push(map);
            return gone;
        }
        self.bytes = self.bytes.saturating_add(map.len());
        self.all.push_back(map);
        while self.bytes > KEPT_BYTES_MAX
            && let Some(oldest) = self.all.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(oldest.len());
            gone.push(oldest);
        }
        gone
    }
}

fn kept<T>(change: impl FnOnce(&mut Kept) -> T) -> T {
    change(&mut KEPT.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Pages {
    /// At least so many bytes, with whatever stood in them; `None` if the system gives none.
    pub(super) fn new(length: usize) -> Option<Self> {
        let found = kept(|kept| kept.take(length));
        let map = match found {
            Some(map) => map,
            None => MmapMut::map_anon(length).ok()?,
        };
        Some(Self { map: Some(map) })
    }

    /// All their bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// All their bytes, to be written.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.map.as_deref_mut().unwrap_or_default()
    }

    /// Those in front, shared by all who have them.
    pub(super) fn share(self, length: usize) -> Bytes {
        Bytes::from_owner(self).slice(..length)
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(map) = self.map.take() {
            // What goes is given back when nobody waits for the lock.
            drop(kept(|kept| kept.put(map)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(length: usize) -> MmapMut {
        MmapMut::map_anon(length).unwrap()
    }

    #[test]
    fn what_is_kept_is_bounded_and_goes_to_who_needs_about_as_much() {
        let mut kept = Kept { all: VecDeque::new(), bytes: 0 };
        assert!(kept.put(map(1 << 20)).is_empty());
        assert!(kept.put(map(3 << 20)).is_empty());
        assert!(kept.take(2 << 20).is_none(), "3 MiB is too much, 1 MiB too little");
        assert_eq!(kept.take((3 << 20) - 5).map(|map| map.len()), Some(3 << 20));
        assert_eq!(kept.bytes, 1 << 20);
        assert_eq!(kept.put(map(KEPT_BYTES_MAX + 1)).len(), 1, "more than all that is kept");
        for _ in 0..KEPT_BYTES_MAX >> 24 {
            kept.put(map(1 << 24));
        }
        assert_eq!((kept.bytes, kept.all.len()), (KEPT_BYTES_MAX, KEPT_BYTES_MAX >> 24));
        assert!(kept.take(1 << 20).is_none(), "the oldest went");
    }

    #[test]
    fn pages_are_used_again_only_when_nobody_has_them() {
        const LENGTH: usize = 5_555_555;
        let mut pages = Pages::new(LENGTH).unwrap();
        pages.bytes_mut()[..3].copy_from_slice(b"abc");
        let shared = pages.share(3);
        let other = Pages::new(LENGTH).unwrap();
        assert_ne!(other.bytes().as_ptr(), shared.as_ptr());
        assert_eq!(shared, &b"abc"[..]);
    }
}
