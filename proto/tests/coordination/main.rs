//! Both dialects of the coordination service against encodings made by hand from the public tables
//! of field numbers.

mod answers;
mod hand;
mod refusals;
mod requests;
