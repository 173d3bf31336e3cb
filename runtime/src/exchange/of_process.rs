//! What belongs to one process: a fork's child has a copy, and must not end what its parent uses.

use std::mem::ManuallyDrop;
use std::ops::Deref;

/// A value that only the process that made it drops. In a child of that process, dropping it does nothing.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> OfProcess<T> {
    /// A value of this process.
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: std::process::id() }
    }

    /// Whether this is the process that made it.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: nobody uses the value after this, and it is dropped nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_value_is_dropped_by_the_process_that_made_it_and_by_no_other() {
        let value = Arc::new(());
        let mut made = OfProcess::new(Arc::clone(&value));
        assert!(made.is_here());
        made.process = made.process.wrapping_add(1);
        drop(made);
        assert_eq!(Arc::strong_count(&value), 2, "another process made it");
        drop(OfProcess::new(Arc::clone(&value)));
        assert_eq!(Arc::strong_count(&value), 2);
    }
}
