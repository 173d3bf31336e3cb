//! `rondo.v1.Splits`: readers that hold splits.

use bytes::Bytes;
use rondo_core::control::{Reply, Request};
use rondo_core::dispatcher;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{self, END_READER_PATH, Encoded, HOLD_SPLITS_PATH};

use super::node_port::{NodeSlot, line_of};
use crate::aside::aside;
use crate::transport::{BoxFuture, Call, Service};

/// The splits of the tf.data service's iterations, on the wire.
pub struct SplitsService {
    node: NodeSlot,
}

impl SplitsService {
    /// Serves the node in `node`, once there is one.
    pub fn new(node: NodeSlot) -> Self {
        Self { node }
    }

    async fn answer(&self, call: Call) -> Result<Bytes, Status> {
        let request = match call.path.as_str() {
            HOLD_SPLITS_PATH => dispatcher::Request::HoldSplits(decode_hold(&call.message).await?),
            END_READER_PATH => {
                super::check_short(&call.path, &call.message)?;
                let (client, job) = convert::decode_end_reader(&call.message)?;
                dispatcher::Request::EndReader { client, job }
            }
            path => return Err(super::router::unknown(path)),
        };
        use dispatcher::Reply::{ReaderEnded, SplitsHeld};
        match self.node.node()?.call(line_of(&call), Request::Dispatcher(request)).await? {
            Reply::Dispatcher(reply @ (SplitsHeld(_) | ReaderEnded(_))) => {
                match convert::encode_reply(reply) {
                    Encoded::Message(message) => Ok(message),
                    _ => Err(Status::new(Code::Internal, "the answer is no message")),
                }
            }
            _ => Err(Status::new(Code::Internal, "the node answered with no splits")),
        }
    }
}

/// Decodes what a reader holds, a long list beside the tasks that answer calls.
async fn decode_hold(message: &Bytes) -> Result<dispatcher::HoldSplits, Status> {
    if message.len() <= super::DECODED_INLINE_BYTES_MAX {
        return convert::decode_hold(message);
    }
    let message = message.clone();
    Box::pin(aside("decoding a request", move || convert::decode_hold(&message))).await?
}

impl Service for SplitsService {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(self.answer(call))
    }
}
