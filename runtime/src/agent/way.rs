//! The way to the server: through a relay in this process, which outlives the server's absence, or
//! none but the connection itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rondo_core::agent::{Reply, Request};
use rondo_core::ids::{ConnectionId, RelayId};
use rondo_core::relay::{self, Answer, Asked};
use rondo_core::status::{Code, Detail, Status};
use rondo_proto::convert;

use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::relay::{Handle, Upstream, start};
use crate::transport::{Client, MessageStream, Transport};
use crate::watching::watch;

/// Calls that wait for other tasks, or survive the server's absence, wait as long as the application does.
const WITHOUT_DEADLINE: Duration = Duration::from_secs(3600 * 24 * 365);
/// A server that has not answered by then a call that it answers at once will not answer it at all: some
/// releases of the reference implementation never answer some calls.
const PROMPT: Duration = Duration::from_secs(60);
/// The reference implementation gives tasks an hour to exchange their devices, then answers all of them.
const DEVICES_EXCHANGED: Duration = Duration::from_secs(3600 + 60);
/// Calls of one agent that its relay holds: all of the application's, and all watches.
const RELAYED_MAX: usize = 3000;

/// How an agent reaches the server.
#[derive(Clone)]
pub struct Way(Kind);

#[derive(Clone)]
enum Kind {
    Surviving(Handle),
    Direct { address: Arc<str>, transport: Arc<dyn Transport> },
}

impl Way {
    /// To a server of Rondo's at `address` (`host:port`), whose absence calls outlive: for ten
    /// minutes they wait for it, and nothing happens twice.
    pub fn surviving(address: &str, entropy: &mut Entropy) -> Self {
        let connect = Arc::new(|| Arc::new(Client::new()) as Arc<dyn Transport>);
        let namespace = String::new();
        let relay = RelayId::new(entropy.next().max(1));
        let upstream = Upstream { address: address.to_owned(), namespace, relay, connect };
        Self::relayed(relay::Config::of(address), upstream, Clock::start(), entropy)
    }

    /// The same with other settings than the default ones.
    pub fn relayed(
        config: relay::Config,
        upstream: Upstream,
        clock: Clock,
        entropy: &mut Entropy,
    ) -> Self {
        let calls_per_client_max = config.calls_per_client_max.max(RELAYED_MAX);
        let calls_max = config.calls_max.max(calls_per_client_max);
        let host = relay::Host::Client;
        let config = relay::Config { host, calls_per_client_max, calls_max, ..config };
        let entropy = Entropy::from_seed(entropy.next());
        Self(Kind::Surviving(start(config, upstream, clock, entropy)))
    }

    /// To any server of dialect T. A call that finds none there has failed, and with a poll for
    /// errors the agent has.
    pub fn direct(address: &str, transport: Arc<dyn Transport>) -> Self {
        Self(Kind::Direct { address: address.into(), transport })
    }

    /// Makes one call.
    pub(super) async fn call(
        self,
        (path, message): (&'static str, Bytes),
        request: &Request,
        deadline: Option<Duration>,
    ) -> Result<Reply, Status> {
        let deadline = self.patience(request, deadline);
        let answer = match self.0 {
            Kind::Surviving(relay) => {
                let asked = tokio::time::timeout(deadline, ask(&relay, path, message)).await;
                asked.unwrap_or_else(|_| Err(too_late(path, deadline)))
            }
            Kind::Direct { address, transport } => {
                transport.unary(&address, path, message, deadline).await
            }
        };
        answer.map_err(decoded).and_then(|body| convert::decode_agent_reply(request, &body))
    }

    /// How long a call may take, if its caller sets a deadline and if it does not.
    fn patience(&self, request: &Request, deadline: Option<Duration>) -> Duration {
        deadline.unwrap_or_else(|| match self.0 {
            Kind::Surviving(_) => WITHOUT_DEADLINE,
            Kind::Direct { .. } => longest_wait(request),
        })
    }

    /// Begins to watch a key.
    pub(super) fn watch(self, (path, message): (&'static str, Bytes)) -> MessageStream {
        match self.0 {
            Kind::Surviving(relay) => MessageStream::written(|to| async move {
                watch(message, to, |message| ask(&relay, path, message)).await
            }),
            Kind::Direct { address, transport } => transport.streaming(&address, path, message),
        }
    }
}

/// How long the answer of a server that is there may take.
const fn longest_wait(request: &Request) -> Duration {
    match request {
        Request::WaitForAllTasks { .. } => DEVICES_EXCHANGED,
        // These wait for other tasks, for as long as those take.
        Request::PollForError
        | Request::Barrier { .. }
        | Request::WatchJob { .. }
        | Request::AliveTasks { .. }
        | Request::Get { .. }
        | Request::Shutdown
        | Request::Watch { .. } => WITHOUT_DEADLINE,
        Request::Register
        | Request::Heartbeat
        | Request::ReportError { .. }
        | Request::Reset
        | Request::CancelBarrier { .. }
        | Request::TaskStatus { .. }
        | Request::TryGet { .. }
        | Request::Insert { .. }
        | Request::Put { .. }
        | Request::Delete { .. }
        | Request::Increment { .. }
        | Request::Directory { .. } => PROMPT,
    }
}

/// What an answer of a stream tells.
pub(super) async fn told(stream: &mut MessageStream, request: &Request) -> Result<Reply, Status> {
    match stream.next().await {
        Ok(Some(body)) => convert::decode_agent_reply(request, &body),
        Ok(None) => Err(Status::new(Code::Unavailable, "the server has ended the stream")),
        Err(status) => Err(decoded(status)),
    }
}

async fn ask(relay: &Handle, path: &'static str, message: Bytes) -> Result<Bytes, Status> {
    let asked = Asked {
        // One relay has one agent.
        client: ConnectionId::new(1),
        // The server sees the relay's own address.
        peer: "".into(),
        path: path.into(),
        kind: convert::relayed_kind(path, &message)?,
        message,
    };
    match relay.ask(asked).await {
        Ok(Answer::Passed(body)) => Ok(body),
        Ok(Answer::Heartbeat(life)) => Ok(convert::encode_heartbeat_reply(life)),
        Err(refused) => {
            let details = (!refused.details.is_empty()).then_some(Detail::Encoded(refused.details));
            Err(Status::new(refused.code, refused.message).with(details))
        }
    }
}

fn too_late(path: &str, deadline: Duration) -> Status {
    Status::new(Code::DeadlineExceeded, format!("no answer to {path} within {deadline:?}"))
}

/// The refusal with what stands beside it in words that the agent knows.
fn decoded(status: Status) -> Status {
    let Status { code, message, details } = status;
    let details = details.into_iter().flat_map(|detail| match detail {
        Detail::Encoded(trailer) => convert::decode_details(&trailer),
        other => vec![other],
    });
    Status::new(code, message).with(details)
}

#[cfg(test)]
#[cfg(not(madsim))]
mod tests {
    use rondo_core::agent::PutCondition;
    use rondo_core::ids::TaskIndex;
    use tokio::sync::mpsc;

    use super::*;
    use crate::transport::BoxFuture;

    /// A server that takes calls and never answers: what it tells is how long each of them would wait.
    struct Silent(mpsc::UnboundedSender<Duration>);

    impl Transport for Silent {
        fn unary(
            &self,
            _: &str,
            _: &'static str,
            _: Bytes,
            deadline: Duration,
        ) -> BoxFuture<'static, Result<Bytes, Status>> {
            self.0.send(deadline).unwrap();
            Box::pin(std::future::pending())
        }

        fn streaming(&self, _: &str, _: &'static str, _: Bytes) -> MessageStream {
            MessageStream::written(|_| std::future::pending())
        }
    }

    /// How long a call waits for a server that never answers.
    async fn waited(request: &Request, deadline: Option<Duration>) -> Duration {
        let (tell, mut told) = mpsc::unbounded_channel();
        let way = Way::direct("silent:1", Arc::new(Silent(tell)));
        let call = way.call(("/Call", Bytes::new()), request, deadline);
        tokio::select! {
            biased;
            deadline = told.recv() => deadline.unwrap(),
            answer = call => panic!("{answer:?}"),
        }
    }

    /// What a server answers at once.
    fn prompt() -> Vec<Request> {
        let (id, key, value) = (|| "barrier".into(), || "key".to_owned(), Bytes::new);
        vec![
            Request::Register,
            Request::Heartbeat,
            Request::ReportError { code: Code::Internal, message: "broken".into() },
            Request::Reset,
            Request::CancelBarrier { id: id(), counter: 0 },
            Request::TaskStatus { job: "worker".into(), task: TaskIndex::new(0) },
            Request::TryGet { key: key() },
            Request::Insert { key: key(), value: value() },
            Request::Put {
                key: key(),
                value: value(),
                condition: PutCondition::Always,
                leased: false,
            },
            Request::Delete { key: key() },
            Request::Increment { key: key(), increment: 1 },
            Request::Directory { key: key() },
        ]
    }

    /// What waits for other tasks.
    fn patient() -> Vec<Request> {
        vec![
            Request::PollForError,
            Request::Barrier {
                id: "barrier".into(),
                counter: 0,
                timeout: rondo_core::time::Duration::from_secs(1),
                tasks: Vec::new(),
            },
            Request::WatchJob { version: 0 },
            Request::AliveTasks { tasks: Vec::new() },
            Request::Get { key: "key".into() },
            Request::Shutdown,
            Request::Watch { key: "key".into(), from: None },
        ]
    }

    const DAY: Duration = Duration::from_secs(3600 * 24);

    #[tokio::test]
    async fn a_server_that_never_answers_holds_no_call_for_ever() {
        for request in prompt() {
            assert_eq!(waited(&request, None).await.as_secs(), 60, "{request:?}");
        }
        let all = Request::WaitForAllTasks { devices: Bytes::new() };
        assert_eq!(waited(&all, None).await.as_secs(), 3660);
    }

    #[tokio::test]
    async fn a_call_that_waits_for_others_waits_as_long_as_they_take() {
        for request in patient() {
            assert!(waited(&request, None).await > DAY, "{request:?}");
        }
    }

    #[tokio::test]
    async fn a_deadline_of_the_caller_counts() {
        for request in prompt().into_iter().chain(patient()) {
            let deadline = Duration::from_secs(300);
            assert_eq!(waited(&request, Some(deadline)).await, deadline, "{request:?}");
        }
    }

    #[tokio::test]
    async fn a_call_outlives_the_absence_of_a_server_of_rondos() {
        let (tell, _told) = mpsc::unbounded_channel();
        let silent: Arc<dyn Transport> = Arc::new(Silent(tell));
        let upstream = Upstream {
            address: "silent:1".into(),
            namespace: String::new(),
            relay: RelayId::new(1),
            connect: Arc::new(move || Arc::clone(&silent)),
        };
        let mut entropy = Entropy::from_seed(1);
        let config = relay::Config::of("silent:1");
        let way = Way::relayed(config, upstream, Clock::start(), &mut entropy);
        for request in prompt().into_iter().chain(patient()) {
            assert!(way.patience(&request, None) > DAY, "{request:?}");
        }
        assert_eq!(way.patience(&Request::Reset, Some(PROMPT)), PROMPT);
    }
}
