//! Journal frames: the records of one commit group and the parts of a snapshot, as bytes, and the
//! envelope in which a group is stored.

mod coordination;
mod coordination_parts;
mod envelope;
mod error;
mod parts;
mod records;
mod scan;
mod splits;
mod wire;

pub use envelope::{EnvelopeError, FRAME_HEADER_BYTES, MAGIC, PAYLOAD_BYTES_MAX, Peek, VERSION};
pub use envelope::{decode, encode, header, peek};
pub use error::FrameError;
pub use parts::{decode_part, encode_part};
pub use records::{decode_records, encode_records, records};
pub use scan::{FRAME_ALIGNMENT, Stretch, aligned, scan};
