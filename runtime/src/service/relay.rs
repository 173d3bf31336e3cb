//! `rondo.v1.Relay`: calls that node-local relays bring, as if they had come directly.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rondo_core::control::Health;
use rondo_core::ids::RelayId;
use rondo_core::relay::{Link, Refused};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{self, RELAY_FORWARD_PATH, RELAY_HELLO_PATH};

use super::coordination::CoordinationService;
use super::node_port::NodeSlot;
use crate::aside::aside;
use crate::serve::VERSION;
use crate::transport::{BoxFuture, Call, Service};

/// Relays remembered; above it, the one of the lowest number is forgotten.
const RELAYS_MAX: usize = 65_536;

/// Bodies up to this size are copied into the relay's answer on the connection's task, in bytes.
const CARRIED_INLINE_BYTES_MAX: usize = 1 << 20;

/// An answer for a relay.
struct Carried {
    encoded: Bytes,
    /// What it was copied from.
    _body: Bytes,
}

impl AsRef<[u8]> for Carried {
    fn as_ref(&self) -> &[u8] {
        &self.encoded
    }
}

/// The relays of one namespace, on the wire.
pub struct RelayService {
    node: NodeSlot,
    namespace: Arc<str>,
    coordination: Arc<CoordinationService>,
    /// The newest connection of each relay.
    links: Mutex<BTreeMap<RelayId, Link>>,
}

impl RelayService {
    /// Serves the relays of the namespace that `coordination` serves.
    pub fn new(
        node: NodeSlot,
        namespace: Arc<str>,
        coordination: Arc<CoordinationService>,
    ) -> Self {
        Self { node, namespace, coordination, links: Mutex::default() }
    }

    async fn answer(&self, call: Call) -> Result<Bytes, Status> {
        match &*call.path {
            RELAY_HELLO_PATH => {
                super::check_short(&call.path, &call.message)?;
                self.hello(&call.message)
            }
            RELAY_FORWARD_PATH => self.forward(call).await,
            path => Err(super::router::unknown(path)),
        }
    }

    fn hello(&self, message: &Bytes) -> Result<Bytes, Status> {
        let hello = convert::decode_hello(message)?;
        if !hello.namespace.is_empty() && *hello.namespace != *self.namespace {
            let text = format!(
                "this port is that of the namespace {:?}, not of {:?}",
                self.namespace, hello.namespace
            );
            return Err(Status::new(Code::InvalidArgument, text));
        }
        self.check_there()?;
        let mut links = self.links();
        if !links.contains_key(&hello.relay) && links.len() >= RELAYS_MAX {
            links.pop_first();
        }
        let link = links.entry(hello.relay).or_default();
        *link = hello.link.max(*link);
        Ok(convert::encode_hello_reply(VERSION))
    }

    async fn forward(&self, mut carrier: Call) -> Result<Bytes, Status> {
        let (relay, link, mut call) = convert::decode_forward(&carrier.message)?;
        // The forwarded call is part of this message: it goes when that goes.
        carrier.message.clear();
        if call.peer.is_empty() {
            call.peer = carrier.peer.to_string().into();
        }
        if self.links().get(&relay).is_some_and(|newest| link < *newest) {
            let text = "the relay has begun another connection since";
            return Err(Status::new(Code::Unavailable, text));
        }
        self.check_there()?;
        let path = call.path.clone();
        let result = self.coordination.relayed(call, &carrier).await;
        if result.as_ref().is_err_and(|status| status.code == Code::Unavailable) {
            self.check_there()?;
        }
        let result = result.map_err(|status| Refused {
            details: self.coordination.details(&path, &status),
            ..Refused::from(status)
        });
        // The body holds its share of the memory for large messages until the copy has left. A call that held
        // one share and waited for another could wait for ever.
        let body = result.as_ref().cloned().unwrap_or_default();
        let encoded = match body.len() > CARRIED_INLINE_BYTES_MAX {
            true => {
                let encode = move || convert::encode_forwarded(result);
                Box::pin(aside("encoding an answer for a relay", encode)).await?
            }
            false => convert::encode_forwarded(result),
        };
        Ok(Bytes::from_owner(Carried { encoded, _body: body }))
    }

    /// Whether there is a node that answers: what it says for itself is no answer of the service.
    fn check_there(&self) -> Result<(), Status> {
        match self.node.node()?.health() {
            Health::Halted(reason) => Err(Status::new(Code::Unavailable, &*reason)),
            Health::Serving | Health::RefusingUpdates(_) => Ok(()),
        }
    }

    fn links(&self) -> MutexGuard<'_, BTreeMap<RelayId, Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for RelayService {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(self.answer(call))
    }
}
