//! How much memory an element may take beside the message it came in.

use rondo_core::status::{Code, Status};

/// Bytes that may still be allocated for an element.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    bytes_max: u64,
}

impl Budget {
    /// At most this many bytes.
    pub(super) const fn new(bytes_max: u64) -> Self {
        Self { left: bytes_max, bytes_max }
    }

    /// Takes bytes that are about to be allocated, and says how many they are.
    pub(super) fn take(&mut self, bytes: u64) -> Result<usize, Status> {
        let fits = self.left.checked_sub(bytes).zip(usize::try_from(bytes).ok());
        let (left, bytes) = fits.ok_or_else(|| self.refuse(bytes))?;
        self.left = left;
        Ok(bytes)
    }

    fn refuse(&self, bytes: u64) -> Status {
        let taken = self.bytes_max.saturating_sub(self.left);
        let text = format!(
            "it takes {bytes} bytes, after {taken} for other parts of the element; an element may \
             take {} in memory",
            self.bytes_max
        );
        Status::new(Code::ResourceExhausted, text)
    }
}
