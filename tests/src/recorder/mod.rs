//! Records which operations on files a process makes, and in which order, and says what a power cut between
//! any two of them would leave.

mod contents;
pub mod disk;
mod node;
pub mod states;
pub mod strace;
pub mod trace;
pub mod tree;
