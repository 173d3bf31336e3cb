//! Requests of all dialects to one coordination service, as bytes: each is refused in words, or
//! becomes what the core is asked, and every answer becomes a message that reads as it was written.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use rondo_core::control::{
    Config, Durability, Effect, Effects, Input, Node, Recovered, Reply, Request,
};
use rondo_core::coordination::{self, Call, Dialect, NamespaceConfig};
use rondo_core::ids::CallId;
use rondo_core::invariant;
use rondo_core::limits::STATUS_TEXT_BYTES_MAX;
use rondo_core::status::{Code, Detail, Status};
use rondo_core::time::{Duration, Time};
use rondo_proto::convert::{
    CoordinationMethod, CoordinationRequest, SERVICE_RONDO, SERVICE_T, SERVICE_X,
    decode_coordination, encode_coordination, encode_details,
};
use rondo_proto::tf::distributed_runtime::GrpcPayloadContainer;

use crate::coordination_answers::written_again;

type Path = (Dialect, CoordinationMethod);

const JOB: &str = "jax_worker";
/// More requests are only slow.
const REQUESTS_MAX: usize = 64;
/// Bits of a request's second byte: time passes first; the sender knows the present life.
const WAITS: u8 = 1;
const KNOWS_THE_LIFE: u8 = 2;
/// A field that no message has, as a later release may write it.
const UNKNOWN_FIELD: [u8; 4] = [0xf8, 0xff, 0x07, 0x2a];

/// Every method of every dialect.
pub(crate) fn paths() -> Vec<Path> {
    let services = [SERVICE_T, SERVICE_X, SERVICE_RONDO].into_iter();
    let paths = services.flat_map(|service| {
        let named = move |method: CoordinationMethod| {
            CoordinationMethod::from_path(&format!("/{service}/{}", method.name()))
        };
        CoordinationMethod::ALL.into_iter().filter_map(named)
    });
    paths.collect()
}

/// Checks one input: requests, each behind bytes that say which method it is for, how it comes, and
/// how long it is. True when one was answered with something else than a refusal.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let paths = paths();
    let (mut service, mut rest) = (Service::start(), bytes);
    for _ in 0..REQUESTS_MAX {
        let [to, how, length, behind @ ..] = rest else {
            break;
        };
        let (message, next) = behind.split_at(usize::from(*length).min(behind.len()));
        if how & WAITS != 0 {
            service.wait(Duration::from_millis(u64::from(*how) * 100));
        }
        let path = paths[usize::from(*to) % paths.len()];
        service.take(path, &Bytes::copy_from_slice(message), how & KNOWS_THE_LIFE != 0);
        rest = next;
    }
    service.answered > 0
}

/// A node with one namespace of three tasks, and who waits for what.
struct Service {
    node: Node,
    now: Time,
    calls: BTreeMap<CallId, (Path, String)>,
    next: u64,
    /// Codes are whatever somebody reported, from then on.
    reported: bool,
    answered: u32,
}

impl Service {
    fn start() -> Self {
        let seconds = Duration::from_secs;
        let namespace = NamespaceConfig {
            tasks: Some(3),
            heartbeat_timeout: seconds(10),
            register_timeout: seconds(20),
            shutdown_timeout: seconds(15),
            ..NamespaceConfig::named("default")
        };
        let coordination = coordination::Config { namespaces: vec![namespace] };
        let config = Config { coordination, ..Config::default() };
        let now = Time::from_millis(1_000_000);
        let node = Node::start(Durability::Journal, config, Recovered::default(), now);
        Self { node, now, calls: BTreeMap::new(), next: 1, reported: false, answered: 0 }
    }

    fn take(&mut self, path: Path, message: &Bytes, knows_the_life: bool) {
        let decoded = decode_coordination(path, message);
        match decoded {
            Err(status) => check_refused_at_once(path.1, &status),
            Ok(request) => {
                let later = [message, &UNKNOWN_FIELD[..]].concat().into();
                let again = decode_coordination(path, &later);
                assert_eq!(again.as_ref(), Ok(&request), "an unknown field counts");
                self.ask(path, request, knows_the_life);
            }
        }
    }

    fn ask(&mut self, path: Path, request: CoordinationRequest, knows_the_life: bool) {
        let CoordinationRequest { method, mut caller, echo } = request;
        assert_eq!(caller.dialect, path.0);
        self.reported |= path.1 == CoordinationMethod::ReportErrorToService;
        if knows_the_life && caller.life.is_some() {
            let namespaces = self.node.coordination().state().namespaces().values().next();
            caller.life = namespaces.map(|namespace| namespace.head().incarnation);
        }
        let call = CallId::new(self.next);
        self.next += 1;
        self.calls.insert(call, (path, echo));
        let asked = Box::new(Call { namespace: "default".into(), caller, method });
        let request = Request::Coordination(coordination::Request::Call(asked));
        self.step(Input::Request { call, request, entropy: call.get() });
    }

    /// Time passes; the node is woken whenever it wants.
    fn wait(&mut self, span: Duration) {
        let until = self.now.after(span);
        while let Some((at, _)) = self.node.deadline().filter(|(at, _)| *at <= until) {
            self.now = self.now.max(at);
            self.step(Input::Tick);
        }
        self.now = until;
    }

    fn step(&mut self, input: Input) {
        let mut effects = Effects::new();
        self.node.step(self.now, input, &mut effects);
        let mut wants_sync = false;
        for effect in effects.drain().collect::<Vec<_>>() {
            match effect {
                Effect::Reply { call, result } => self.answer(call, result),
                Effect::Sync { .. } => wants_sync = true,
                Effect::Halt { reason } => panic!("the node halts: {reason}"),
                _ => {}
            }
        }
        invariant::check_all(&self.node).unwrap();
        if wants_sync {
            let upto = self.node.last();
            self.step(Input::Synced { upto });
        }
    }

    fn answer(&mut self, call: CallId, result: Result<Reply, Status>) {
        let (path, echo) = self.calls.remove(&call).expect("nobody asked that");
        match result {
            Ok(Reply::Coordination(reply)) => {
                let encoded = encode_coordination(path, (echo, JOB), reply.clone());
                let encoded = encoded.unwrap_or_else(|| panic!("{path:?} has no answer {reply:?}"));
                assert_eq!(written_again(path, &encoded), encoded, "{path:?}: {reply:?}");
                self.answered += 1;
            }
            Ok(other) => panic!("{other:?}"),
            Err(status) => self.check_refusal(path, &status),
        }
    }

    fn check_refusal(&self, (dialect, method): Path, status: &Status) {
        assert!(status.message.len() <= STATUS_TEXT_BYTES_MAX, "{status}");
        assert!(!status.message.is_empty(), "{method:?} is refused without a word");
        let possible = !matches!(status.code, Code::Unknown | Code::DataLoss | Code::OutOfRange);
        assert!(possible || self.reported, "{method:?}: {status}");
        check_payloads(dialect, status);
    }
}

/// What is wrong in itself is said with the name of the message.
fn check_refused_at_once(method: CoordinationMethod, status: &Status) {
    let possible = matches!(
        status.code,
        Code::InvalidArgument | Code::ResourceExhausted | Code::Unimplemented
    );
    assert!(possible, "{method:?}: {status}");
    let parts = [method.name(), "DeviceInfo", "CoordinatedTask", "KeyValueEntry"];
    let named = parts.iter().any(|part| status.message.contains(part));
    assert!(named, "{method:?}: {status}");
    assert!(status.details.contains(&Detail::SERVICE), "{method:?}: clients would ask for ever");
}

fn check_payloads(dialect: Dialect, status: &Status) {
    let encoded = encode_details(dialect, JOB, &status.details);
    let container = GrpcPayloadContainer::decode(encoded).unwrap();
    let shown = |detail: &&Detail| match (dialect, detail) {
        (Dialect::Rondo, _) | (Dialect::T, Detail::ServiceMismatch { .. }) => false,
        (Dialect::T | Dialect::X, _) => true,
    };
    assert_eq!(container.payloads.len(), status.details.iter().filter(shown).count(), "{status}");
    let named = |key: &String| key.starts_with("type.googleapis.com/tensorflow.");
    assert!(container.payloads.keys().all(named), "{container:?}");
}
