//! The agent's requests as bytes, and answers as it understands them: dialect T of the coordination
//! service, and `rondo.v1.Coordination` for what that does not have.

mod refusals;
mod replies;
mod requests;

pub use refusals::decode_details;
pub use replies::{decode_agent_reply, decode_devices};
pub use requests::{encode_agent_request, encode_devices};
