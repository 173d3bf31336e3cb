//! The bounds of what a link takes from its other end, which may not have introduced itself.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rondo_proto::convert::exchange::{FrameHead, FrameLimits};

/// The longest header that needs no room among the long ones, in bytes.
pub(in crate::exchange) const SHORT_HEADER_BYTES: u32 = 64 << 10;

/// The bounds of what a link takes.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The bounds of one frame.
    pub limits: FrameLimits,
    /// A header of more than 64 KiB takes its bytes of this room while it arrives; `None` where only `limits`
    /// bound such headers.
    pub long_headers: Option<Arc<HeaderRoom>>,
}

impl From<FrameLimits> for Bounds {
    fn from(limits: FrameLimits) -> Self {
        Self { limits, long_headers: None }
    }
}

impl Bounds {
    /// The share that a header takes of the room for long ones as its bytes arrive; `None` for a short one.
    pub(super) fn share(&self, head: FrameHead) -> Option<HeaderShare> {
        let room = self.long_headers.as_ref()?;
        let is_long = head.header_bytes > SHORT_HEADER_BYTES;
        is_long.then(|| HeaderShare { room: Arc::clone(room), bytes: 0 })
    }
}

/// Bytes that the long headers of several links share while they come.
#[derive(Debug)]
pub struct HeaderRoom {
    left: Mutex<u64>,
}

impl HeaderRoom {
    /// Room for so many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self { left: Mutex::new(bytes) }
    }

    fn take(&self, bytes: u64) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = left.checked_sub(bytes);
        *left = rest.unwrap_or(*left);
        rest.is_some()
    }
}

/// The part of a [`HeaderRoom`] that one header has.
#[derive(Debug)]
pub(super) struct HeaderShare {
    room: Arc<HeaderRoom>,
    bytes: u64,
}

impl HeaderShare {
    /// Takes room for so many bytes of the header.
    ///
    /// # Errors
    /// When other headers have taken the room.
    pub(super) fn grow_to(&mut self, bytes: usize) -> io::Result<()> {
        let more = (bytes as u64).saturating_sub(self.bytes);
        if !self.room.take(more) {
            return Err(io::Error::other(format!(
                "there is no room for {bytes} bytes of a header: others of more than \
                 {SHORT_HEADER_BYTES} bytes come at the moment"
            )));
        }
        self.bytes = self.bytes.saturating_add(more);
        Ok(())
    }
}

impl Drop for HeaderShare {
    fn drop(&mut self) {
        let mut left = self.room.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.saturating_add(self.bytes);
    }
}
