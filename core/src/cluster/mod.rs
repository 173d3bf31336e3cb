//! What a cluster is made of, and who in it asks: cluster specs, and the resolvers that find them in
//! environments, files and the answers of APIs.
//!
//! Nothing here reads a variable, a file or a socket: a [`ClusterResolver`] looks at what was [`Seen`] and
//! stops with [`Question`]s where it has to know more (`asking`).

mod accelerators;
mod asking;
mod error;
mod json;
mod merge;
mod resolver;
mod spec;

pub use asking::{
    Answer, Credentials, Environment, Http, HttpAnswer, Inquiry, MpiWorld, Outcome, Progress,
    Question, Seen, Service, Stop, resolve,
};
pub use error::{Error, Fault};
pub use json::{Json, JsonFault};
pub use merge::merge;
pub use resolver::{
    Accelerators, AnyResolver, ClusterResolver, DeviceCounts, MasterOf, with_layer,
};
pub use spec::{ClusterSpec, Tasks};
