//! The exchange over real links: what is pushed, pulled, and said when it cannot be.

mod bed;
mod losing;
mod refusals;
mod rounds;
