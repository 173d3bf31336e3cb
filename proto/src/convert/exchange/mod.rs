//! Messages of a tensor exchange as frames of a connection, and back. Total: whatever comes is a message
//! whose every field is checked, or a refusal that names the field and its value.
//!
//! A frame is [`FRAME_HEAD_BYTES`] of [`FrameHead`], the header, and the body, which is the tensors' bytes
//! one after the other. Nothing here touches those: what is encoded is the head and the header, and the
//! driver writes each tensor from where it lies; what is decoded is descriptions, and the driver reads
//! each tensor to where it is to be, then puts that in with [`attach_to_server`] or
//! [`attach_to_worker`].

mod frame;
mod items;
mod members;
mod parts;
mod payloads;
#[cfg(test)]
mod tests;
mod to_member;
mod to_scheduler;
mod to_server;
mod to_worker;
mod traces;

pub use frame::{Body, FRAME_HEAD_BYTES, FrameHead, FrameLimits};
pub use payloads::{attach_to_server, attach_to_worker, tensors_to_server, tensors_to_worker};
pub use to_member::{decode_to_member, encode_to_member};
pub use to_scheduler::{decode_to_scheduler, encode_to_scheduler};
pub use to_server::{decode_to_server, encode_to_server};
pub use to_worker::{decode_to_worker, encode_to_worker};

/// What the messages mean. Processes that mean something else refuse to talk.
pub const EXCHANGE_PROTOCOL: u32 = 1;
