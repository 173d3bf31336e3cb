//! A scheduler process: knows who takes part.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::message::{Failure, Scope, ToMember, ToScheduler};
use rondo_core::exchange::scheduler::{
    Ask, Effect, Event, Input, Report, Scheduler as Machine, Settings,
};
use rondo_core::exchange::{Mask, PeerLost};
use rondo_core::ids::{CallId, ConnectionId};
use rondo_core::status::Status;
use rondo_core::time::Time;
use rondo_proto::convert::exchange::{FrameHead, FrameLimits, decode_to_scheduler};

use super::engine::{Engine, Station};
use super::link::{Bounds, HeaderRoom, Place, SystemNames, Tcp};
use super::links::{LinkId, Links};
use super::speech::to_member;
use super::{cannot_listen, interrupted, span};
use crate::clock::Clock;
use crate::tensor::TensorBuffer;

/// Bytes of long messages that may come at once from processes that are not registered. A process that comes
/// back to a scheduler says who takes part, which may be long.
const STRANGERS_BYTES_MAX: u64 = 256 << 20;

/// Knows who takes part in an exchange. Dropping it breaks its connections: processes go on for as long as
/// they can do without.
pub struct Scheduler {
    engine: Engine<Desk>,
    address: String,
}

/// The scheduler and its links.
struct Desk {
    machine: Machine,
    links: BTreeMap<LinkId, End>,
    connections: BTreeMap<ConnectionId, LinkId>,
    next: u64,
    effects: Vec<Effect>,
    replies: BTreeMap<CallId, Result<(), Failure>>,
    last_call: u64,
    /// What comes on links of processes that are not registered.
    strangers: Bounds,
}

struct End {
    connection: ConnectionId,
    coming: Option<ToScheduler>,
    /// Whether the scheduler has taken on the process.
    is_known: bool,
}

impl Scheduler {
    /// Listens at `host:port` (port 0: any). Where other machines can reach that, it does so only if
    /// `insecure`: there is no TLS.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for settings that do not fit together, and for an address that other machines can
    /// reach without `insecure`; UNAVAILABLE if the port cannot be had.
    pub fn start(
        settings: Settings,
        host: &str,
        port: u16,
        insecure: bool,
    ) -> Result<Self, Status> {
        let links_max = usize::try_from(settings.config.processes_max).unwrap_or(usize::MAX);
        let machine = Machine::start(settings)?;
        let limits = FrameLimits::of_scheduler();
        let mut address = String::new();
        let engine = Engine::start(
            vec![Arc::new(Tcp { limits, insecure })],
            // Processes that connect again have two for a while.
            links_max.saturating_mul(2),
            // It connects to nobody.
            (Arc::new(SystemNames), Duration::ZERO),
            Clock::start(),
            Duration::ZERO,
            |links| {
                let addresses = links.listen(host, port)?;
                let first = addresses.first().and_then(|it| it.strip_prefix("tcp://"));
                address = first.unwrap_or_default().to_owned();
                Ok(Desk::new(machine))
            },
        );
        let engine = engine.map_err(|error| cannot_listen(host, port, &error))?;
        Ok(Self { engine, address })
    }

    /// Where processes find it: `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits until all have registered. `goes_on` is asked now and then whether to wait on.
    ///
    /// # Errors
    /// Why they never will, or CANCELLED.
    pub fn ready(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<(), Status> {
        self.ask(Ask::Ready, goes_on)
    }

    /// Waits until nobody takes part any more.
    ///
    /// # Errors
    /// CANCELLED.
    pub fn ended(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<(), Status> {
        self.ask(Ask::Ended, goes_on)
    }

    /// Waits at a barrier that has the scheduler in its mask.
    ///
    /// # Errors
    /// What is wrong with the mask, who is lost, DEADLINE_EXCEEDED or CANCELLED.
    pub fn barrier(
        &self,
        mask: Mask,
        scope: Scope,
        timeout: Option<Duration>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), Status> {
        let timeout = timeout.map(span);
        self.ask(Ask::Barrier { mask, scope, timeout }, goes_on)
    }

    /// How it stands.
    pub fn report(&self) -> Report {
        self.engine.with(|desk, _, _| desk.machine.report())
    }

    fn ask(&self, ask: Ask, goes_on: &mut dyn FnMut() -> bool) -> Result<(), Status> {
        let call = self.engine.with(|desk, links, now| {
            desk.last_call = desk.last_call.wrapping_add(1);
            let call = CallId::new(desk.last_call);
            desk.step(now, Input::Asked { call, ask }, links);
            call
        });
        match self.engine.wait(|desk| desk.replies.remove(&call), goes_on) {
            Ok(result) => result.map_err(Status::from),
            Err(_) => {
                self.engine.with(|desk, links, now| desk.step(now, Input::Cancel { call }, links));
                Err(interrupted())
            }
        }
    }
}

impl Desk {
    fn new(machine: Machine) -> Self {
        let strangers = Bounds {
            limits: FrameLimits::of_scheduler(),
            long_headers: Some(Arc::new(HeaderRoom::new(STRANGERS_BYTES_MAX))),
        };
        Self {
            machine,
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            next: 0,
            effects: Vec::new(),
            replies: BTreeMap::new(),
            last_call: 0,
            strangers,
        }
    }

    fn step(&mut self, now: Time, input: Input, links: &mut Links) {
        let mut effects = std::mem::take(&mut self.effects);
        self.machine.step(now, input, &mut effects);
        for effect in effects.drain(..) {
            self.perform(effect, links);
        }
        self.effects = effects;
    }

    fn perform(&mut self, effect: Effect, links: &mut Links) {
        match effect {
            Effect::Send { connection, message } => {
                let Some(link) = self.connections.get(&connection).copied() else { return };
                if !matches!(message, ToMember::Rejected(_)) {
                    self.knows(link, links);
                }
                let limits = FrameLimits::of_scheduler();
                if let Some(frame) = to_member(&message, &limits) {
                    links.send(link, frame);
                }
            }
            Effect::Close { connection } => {
                if let Some(link) = self.connections.remove(&connection) {
                    self.links.remove(&link);
                    links.close(link);
                }
            }
            Effect::Done { call, result } => drop(self.replies.insert(call, result)),
            Effect::Observe(event) => observe(&event),
        }
    }

    /// The scheduler has taken on the process at the other end of a link.
    fn knows(&mut self, link: LinkId, links: &mut Links) {
        if let Some(end) = self.links.get_mut(&link).filter(|end| !end.is_known) {
            end.is_known = true;
            links.set_bounds(link, FrameLimits::of_scheduler().into());
        }
    }
}

impl Station for Desk {
    fn accepted(&mut self, now: Time, link: LinkId, links: &mut Links) {
        let connection = ConnectionId::new(self.next);
        self.next = self.next.saturating_add(1);
        self.connections.insert(connection, link);
        self.links.insert(link, End { connection, coming: None, is_known: false });
        links.set_bounds(link, self.strangers.clone());
        self.step(now, Input::Connected { connection }, links);
    }

    fn opened(&mut self, _now: Time, _link: LinkId, _links: &mut Links) {}

    fn place(&mut self, link: LinkId, head: FrameHead, header: &Bytes) -> io::Result<Vec<Place>> {
        if let Some(end) = self.links.get_mut(&link) {
            end.coming = Some(decode_to_scheduler(head, header).map_err(io::Error::other)?);
        }
        Ok(Vec::new())
    }

    fn arrived(&mut self, now: Time, link: LinkId, _tensors: Vec<TensorBuffer>, links: &mut Links) {
        let Some(end) = self.links.get_mut(&link) else { return };
        let connection = end.connection;
        if let Some(message) = end.coming.take() {
            self.step(now, Input::Received { connection, message }, links);
        }
    }

    fn closed(&mut self, now: Time, link: LinkId, why: &io::Error, links: &mut Links) {
        if let Some(End { connection, .. }) = self.links.remove(&link) {
            tracing::debug!(connection = connection.get(), %why, "a process' connection is over");
            self.connections.remove(&connection);
            self.step(now, Input::Disconnected { connection }, links);
        }
    }

    fn tick(&mut self, now: Time, links: &mut Links) {
        self.step(now, Input::Tick, links);
    }

    fn deadline(&self) -> Option<Time> {
        self.machine.deadline()
    }
}

/// Logs what the scheduler tells.
fn observe(event: &Event) {
    match event {
        Event::Begun { sizes: Sizes { workers, servers, group }, version } => {
            let membership = version.get();
            tracing::info!(workers, servers, group, membership, "all processes have registered");
        }
        Event::NotBegun { missing } => {
            tracing::warn!(%missing, "not all processes have registered in time");
        }
        Event::Rebuilding { version } => {
            let membership = version.get();
            tracing::info!(membership, "processes come back to a scheduler that was restarted");
        }
        Event::Rebuilt { up, lost } => {
            tracing::info!(up, lost, "all processes are back, or are lost");
        }
        Event::Left { role, rank } => {
            tracing::info!(%role, rank = rank.get(), "a process has left");
        }
        Event::Returned { role, rank, incarnation } => {
            let rank = rank.get();
            tracing::info!(%role, rank, %incarnation, "another run of a process takes its place");
        }
        Event::Refused { connection, status } => {
            let (connection, reason) = (connection.get(), &status.message);
            tracing::warn!(connection, %reason, "a process is refused");
        }
        Event::Lost(peer) => observe_lost(peer),
        Event::BarrierFailed { mask, scope, lost } => {
            let scope = scope_name(*scope);
            tracing::warn!(roles = %mask, scope, reason = %lost, "a barrier failed");
        }
        Event::HeldUp { late } => {
            tracing::warn!(late_ms = late.as_millis(), "the scheduler was held up");
        }
        Event::Ended { version } => {
            tracing::info!(membership = version.get(), "no process takes part any more");
        }
    }
}

fn observe_lost(peer: &PeerLost) {
    let PeerLost { role, rank, incarnation, address, why } = peer;
    let rank = rank.get();
    tracing::warn!(%role, rank, %incarnation, %address, reason = %why, "a process is lost");
}

const fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Instance => "instance",
        Scope::Group => "group",
    }
}

#[cfg(test)]
mod tests {
    use rondo_core::exchange::{InstanceRank, MembershipVersion, Role};
    use rondo_core::ids::Incarnation;
    use rondo_core::time::Duration as Span;
    use serde_json::{Value, json};

    use rondo_core::status::Code;

    use super::*;

    /// The fields of the line that `--log json` writes of an event.
    fn fields(event: &Event) -> Value {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(kept.reopen().unwrap());
        let log = tracing_subscriber::fmt().json().with_writer(writer).finish();
        tracing::subscriber::with_default(log, || observe(event));
        let text = std::fs::read_to_string(&kept).unwrap();
        let mut line: Value = serde_json::from_str(&text).unwrap();
        line["fields"].take()
    }

    fn lost() -> PeerLost {
        PeerLost {
            role: Role::Worker,
            rank: InstanceRank::new(3),
            incarnation: Incarnation::new(9),
            address: "10.0.0.4:9".into(),
            why: "it was silent".into(),
        }
    }

    #[test]
    fn each_fact_of_an_event_is_a_field_of_its_own() {
        let version = MembershipVersion::new(7);
        let sizes = Sizes { workers: 4, servers: 2, group: 1 };
        let (role, rank, incarnation) = (Role::Server, InstanceRank::new(1), Incarnation::new(5));
        let refused = Status::new(Code::InvalidArgument, "no such role");
        let barrier =
            Event::BarrierFailed { mask: Mask::SCHEDULER, scope: Scope::Group, lost: lost() };
        let of_one =
            Event::BarrierFailed { mask: Mask::SCHEDULER, scope: Scope::Instance, lost: lost() };
        let held_up = Event::HeldUp { late: Span::from_millis(30) };
        for (event, expected) in [
            (
                Event::Begun { sizes, version },
                json!({"workers": 4, "servers": 2, "group": 1, "membership": 7}),
            ),
            (Event::NotBegun { missing: "worker 1".into() }, json!({"missing": "worker 1"})),
            (Event::Rebuilding { version }, json!({"membership": 7})),
            (Event::Rebuilt { up: 5, lost: 1 }, json!({"up": 5, "lost": 1})),
            (
                Event::Lost(lost()),
                json!({
                    "role": "worker", "rank": 3, "incarnation": "9",
                    "address": "10.0.0.4:9", "reason": "it was silent",
                }),
            ),
            (Event::Left { role, rank }, json!({"role": "server", "rank": 1})),
            (
                Event::Returned { role, rank, incarnation },
                json!({"role": "server", "rank": 1, "incarnation": "5"}),
            ),
            (
                Event::Refused { connection: ConnectionId::new(6), status: refused },
                json!({"connection": 6, "reason": "no such role"}),
            ),
            (
                barrier,
                json!({"roles": "schedulers", "scope": "group", "reason": lost().to_string()}),
            ),
            (
                of_one,
                json!({"roles": "schedulers", "scope": "instance", "reason": lost().to_string()}),
            ),
            (held_up, json!({"late_ms": 30})),
            (Event::Ended { version }, json!({"membership": 7})),
        ] {
            let mut fields = fields(&event);
            let message = fields.as_object_mut().unwrap().remove("message").unwrap();
            assert!(message.as_str().is_some_and(|text| !text.contains('{')), "{message}");
            assert_eq!(fields, expected, "{message}");
        }
    }
}
