//! Each invariant sees what breaks it.
