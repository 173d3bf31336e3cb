//! `grpc.health.v1.Health`, for load balancers and probes.

use bytes::Bytes;
use prost::Message;
use rondo_core::control::Health;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::HEALTH_CHECK_PATH;
use rondo_proto::health::health_check_response::ServingStatus;
use rondo_proto::health::{HealthCheckRequest, HealthCheckResponse};

use super::node_port::NodeSlot;
use crate::transport::{BoxFuture, Call, Service};

/// Says whether the server can do its work: NOT_SERVING until the journal is read, and whenever the
/// node cannot take changes.
pub struct HealthService {
    node: NodeSlot,
    services: Vec<&'static str>,
}

impl HealthService {
    /// Speaks for the node in `node`, and for the server's services of these full names.
    pub fn new(node: NodeSlot, services: Vec<&'static str>) -> Self {
        Self { node, services }
    }

    fn check(&self, call: &Call) -> Result<Bytes, Status> {
        if call.path != HEALTH_CHECK_PATH {
            return Err(super::router::unknown(&call.path));
        }
        let serves = matches!(self.node.node().map(|node| node.health()), Ok(Health::Serving));
        answer(&call.message, &self.services, serves)
    }
}

/// Answers a `HealthCheckRequest` to a process that has these services.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes, NOT_FOUND for a service that is not there.
pub(crate) fn answer(message: &Bytes, services: &[&str], serves: bool) -> Result<Bytes, Status> {
    super::check_short("grpc.health.v1.Health", message)?;
    let request = HealthCheckRequest::decode(message.clone()).map_err(|error| {
        Status::new(Code::InvalidArgument, format!("no HealthCheckRequest: {error}"))
    })?;
    if !request.service.is_empty() && !services.contains(&request.service.as_str()) {
        let text = format!("no service {:?} here", request.service);
        return Err(Status::new(Code::NotFound, text));
    }
    let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
    Ok(HealthCheckResponse { status: status.into() }.encode_to_vec().into())
}

impl Service for HealthService {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(std::future::ready(self.check(&call)))
    }
}
