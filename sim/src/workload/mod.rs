//! Who uses Rondo: machines that ask, work, read and misbehave, as state machines of their own.
//!
//! An actor is told what happens to it and says what it does. It knows neither the network nor the
//! loop that carries its calls, so both tiers use the same ones.

pub mod actor;
pub mod agents;
pub mod coordination;
pub mod dispatcher;
pub mod elements;
pub mod kind;
pub mod known;
mod outstanding;

pub use self::actor::{
    Act, Actor, ActorId, Carried, Delivered, Happening, OfReader, Read, ReadAnswer, Role,
    WantedRecords, With,
};
