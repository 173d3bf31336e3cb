//! A real TensorFlow worker that sends and receives tensors of steps, and calls other workers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::process::Process;
use crate::python::program;

/// The name of TensorFlow's worker.
pub const TASK_0: &str = "/job:worker/replica:0/task:0";
/// The name of the other one, which is Rondo's.
pub const TASK_1: &str = "/job:worker/replica:0/task:1";
/// How long the worker may be silent: starting TensorFlow takes seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// The worker: task 0 of two. It keeps its port over restarts, but not its incarnation.
#[derive(Debug)]
pub struct Peer {
    python: PathBuf,
    arguments: Vec<String>,
    port: Port,
    incarnation: u64,
    said: RefCell<Said>,
}

#[derive(Debug)]
struct Said {
    process: Process,
    last: u64,
    answers: BTreeMap<u64, Result<Value, Refused>>,
}

/// Something the worker was told to do. What comes of it is said by [`Peer::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call(u64);

/// A status with which a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its code's name, such as `ABORTED`.
    pub code: String,
    /// Its text.
    pub text: String,
    /// What else it says, in TensorFlow's own encoding: `grpc-status-details-bin`.
    pub details: Vec<u8>,
}

impl Peer {
    /// Starts a worker on a free port; `other` is where task 1 listens, `host:port`.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start(python: &Path, other: &str) -> Self {
        Self::start_at(python, Port::keep(), other, &[])
    }

    /// Starts a worker on this port, with more flags of the program's.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start_at(python: &Path, port: Port, other: &str, flags: &[&str]) -> Self {
        let mut arguments = vec![format!("--port={}", port.number), format!("--other={other}")];
        arguments.extend(flags.iter().map(ToString::to_string));
        let said = Said::start(python, &arguments, 0);
        let mut peer = Self {
            python: python.to_path_buf(),
            arguments,
            port,
            incarnation: 0,
            said: said.into(),
        };
        peer.incarnation = peer.incarnation_of(&peer.address(), TASK_0);
        peer
    }

    /// Where it listens, `host:port`.
    pub fn address(&self) -> String {
        self.port.address()
    }

    /// The incarnation of its CPU.
    pub const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The incarnation of the CPU of the worker at this address, as that worker says itself.
    ///
    /// # Panics
    /// When it does not say.
    pub fn incarnation_of(&self, address: &str, worker: &str) -> u64 {
        let devices = self.call(&json!({"do": "status", "address": address})).expect("devices");
        let own = &devices[cpu(worker)];
        own.as_u64().unwrap_or_else(|| panic!("{worker} is not in {devices}"))
    }

    /// The key of a tensor that it sends to task 1.
    pub fn key(&self, edge: &str) -> String {
        key(TASK_0, self.incarnation, TASK_1, edge)
    }

    /// Registers a graph, as `rendezvous_graphs.py` describes them, and gives its handle.
    ///
    /// # Panics
    /// When it is refused.
    pub fn register(&self, sends: &[Value], receives: &[Value]) -> String {
        let own = self.incarnation;
        let command =
            json!({"do": "register", "own_incarnation": own, "sends": sends, "recvs": receives});
        let handle = self.call(&command).unwrap_or_else(|refused| panic!("{refused:?}"));
        handle.as_str().expect("a text").to_owned()
    }

    /// Begins to run a graph in a step.
    pub fn begin_run(&self, graph: &str, step: i64) -> Call {
        self.begin(&json!({"do": "run", "graph": graph, "step": step}))
    }

    /// Runs a graph in a step to its end.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, graph: &str, step: i64) {
        let ended = self.end(self.begin_run(graph, step));
        ended.unwrap_or_else(|refused| panic!("{graph} in step {step}: {refused:?}"));
    }

    /// Begins to do something.
    ///
    /// # Panics
    /// When it has ended.
    pub fn begin(&self, command: &Value) -> Call {
        let mut said = self.said.borrow_mut();
        said.last += 1;
        let call = said.last;
        let mut command = command.clone();
        command["id"] = call.into();
        said.process.tell(&command.to_string());
        Call(call)
    }

    /// Waits for what comes of a call. Each is told once.
    ///
    /// # Errors
    /// The status it ended with.
    ///
    /// # Panics
    /// When nothing comes of it.
    pub fn end(&self, call: Call) -> Result<Value, Refused> {
        let mut said = self.said.borrow_mut();
        loop {
            if let Some(answer) = said.answers.remove(&call.0) {
                return answer;
            }
            said.hear();
        }
    }

    /// Does something and waits for what comes of it.
    ///
    /// # Errors
    /// The status it ended with.
    pub fn call(&self, command: &Value) -> Result<Value, Refused> {
        self.end(self.begin(command))
    }

    /// Gives up a call that goes out.
    ///
    /// # Panics
    /// When it knows of no such call.
    pub fn cancel(&self, call: Call) {
        self.call(&json!({"do": "cancel", "of": call.0})).expect("it was begun");
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.said.borrow_mut().process.kill();
    }

    /// Starts it again after its end, on the same port. Its incarnation is another one then, and nothing
    /// comes of the calls that were under way.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start_again(&mut self) {
        let last = self.said.borrow().last;
        self.said = Said::start(&self.python, &self.arguments, last).into();
        self.incarnation = self.incarnation_of(&self.address(), TASK_0);
    }
}

impl Said {
    fn start(python: &Path, arguments: &[String], last: u64) -> Self {
        let process = program(python, "rendezvous_peer.py", arguments);
        let line = process.line_with("\"ready\"", PATIENCE);
        assert!(line.is_some(), "the worker ended:\n{}", process.log());
        Self { process, last, answers: BTreeMap::new() }
    }

    /// Takes in one line.
    fn hear(&mut self) {
        let line = self.process.next_line(PATIENCE);
        let line = line.unwrap_or_else(|| panic!("the worker ended:\n{}", self.process.log()));
        // Libraries may print too.
        let Ok(Value::Object(mut answer)) = serde_json::from_str(&line) else {
            return;
        };
        let id = answer["id"].as_u64().expect("each answer says to what");
        let outcome = answer.remove("ok").ok_or_else(|| Refused::of(&Value::Object(answer)));
        self.answers.insert(id, outcome);
    }
}

impl Refused {
    fn of(answer: &Value) -> Self {
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        let details = unhex(&text("details"));
        Self { code: text("code"), text: text("text"), details }
    }

    /// Whether it says this too, of what TensorFlow lets a status say beside its text.
    pub fn tells(&self, what: &str) -> bool {
        String::from_utf8_lossy(&self.details).contains(what)
    }
}

/// A port that is kept for whoever is told of it: nobody else is given it meanwhile.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _kept: Socket,
}

impl Port {
    /// A port that nobody listens on.
    ///
    /// # Panics
    /// When there is none.
    pub fn keep() -> Self {
        let kept = Socket::new(Domain::IPV4, Type::STREAM, None).expect("there are sockets");
        // Whoever says so too can listen there.
        kept.set_reuse_address(true).expect("it can be shared");
        kept.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port is free");
        let bound = kept.local_addr().ok().and_then(|address| address.as_socket());
        Self { number: bound.expect("it is bound").port(), _kept: kept }
    }

    /// As an address, `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}

/// The name of a worker's CPU.
pub fn cpu(worker: &str) -> String {
    format!("{worker}/device:CPU:0")
}

/// The key of a tensor that goes from one worker's CPU to another's.
pub fn key(source: &str, incarnation: u64, destination: &str, edge: &str) -> String {
    format!("{};{incarnation:016x};{};{edge};0:0", cpu(source), cpu(destination))
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a text in hexadecimal.
///
/// # Panics
/// When it is none.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16).expect("hex")).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("a byte")).collect()
}
