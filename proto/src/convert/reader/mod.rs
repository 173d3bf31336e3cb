//! A reader's side: what it asks of the dispatcher and of workers, and what those answer.
//!
//! Answers come from peers: whatever their bytes are, they become a checked value or a refusal with
//! code INTERNAL that names the message and the field.

mod answers;
mod datasets;
mod malformed;
mod records;
mod requests;

pub use answers::decode_reader_answer;
pub use datasets::{
    RegisteredMetadata, decode_definition_answer, decode_metadata_answer, decode_registered,
    decode_version_answer, encode_get_definition, encode_get_metadata, encode_metadata,
    encode_register, encode_version_request,
};
pub use records::{READ_SPLIT_PATH, decode_records, encode_fetch, encode_read_split};
pub use requests::{encode_reader_request, encode_restoration};
