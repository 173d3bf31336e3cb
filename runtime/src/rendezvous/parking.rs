//! The memory of senders in other processes that wait for room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rondo_core::status::{Code, Status};

use crate::memory::Ceiling;

/// A bound on the tensors whose senders wait for room. Cheap to clone; clones are the same count.
#[derive(Clone, Debug)]
pub(super) struct Parking {
    bytes: Arc<AtomicU64>,
    bytes_max: u64,
    ceiling: Ceiling,
}

/// A tensor whose sender waits. It counts until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    parking: Parking,
    bytes: u64,
}

impl Parking {
    /// Lets tensors of so many bytes wait, and tells the ceiling of them.
    pub(super) fn new(bytes_max: u64, ceiling: Ceiling) -> Self {
        Self { bytes: Arc::default(), bytes_max, ceiling }
    }

    /// Counts a tensor.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when others leave no room for it.
    pub(super) fn enter(&self, bytes: u64) -> Result<Place, Status> {
        let add = |there: u64| there.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        match self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => {
                self.ceiling.hold(bytes);
                Ok(Place { parking: self.clone(), bytes })
            }
            Err(there) => {
                let text = format!(
                    "a tensor of {bytes} bytes with its key and message cannot wait for room: those that \
                     wait have {there} bytes, and may have {} (--rendezvous-size-max)",
                    self.bytes_max
                );
                Err(Status::new(Code::ResourceExhausted, text))
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.parking.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.parking.ceiling.let_go(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_that_wait_have_a_bound_until_they_wait_no_more() {
        let parking = Parking::new(100, Ceiling::none());
        let (first, second) = (parking.enter(60).unwrap(), parking.enter(40).unwrap());
        let refused = parking.enter(1).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted);
        assert!(refused.message.contains("--rendezvous-size-max"), "{refused}");
        drop(first);
        let third = parking.enter(60).unwrap();
        drop((second, third));
        drop(parking.enter(100).unwrap());
        assert!(parking.enter(u64::MAX).is_err());
    }
}
