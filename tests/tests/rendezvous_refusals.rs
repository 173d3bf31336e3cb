//! What a worker answers that cannot give a tensor: the table is TensorFlow's own, and is asked of
//! TensorFlow too.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use rondo_tests::peer::{Call, Peer, Port, Refused, TASK_0, TASK_1, cpu, key};
use rondo_tests::server::{Options, Server};
use rondo_tests::tensorflow;
use serde_json::{Value, json};

const FLOAT: i32 = 1;
const POSSIBLY_RESTARTED: &str =
    "type.googleapis.com/tensorflow.distributed_runtime.WorkerPossiblyRestarted";
const DERIVED: &str = "type.googleapis.com/tensorflow.DerivedStatus";
/// How long what waits for ever is waited for.
const A_WHILE_S: f64 = 0.5;

/// A key, and what answers a request for it. `{device}` stands for the name of the worker's CPU,
/// `{incarnation}` for that device's and `{other}` for another one, `{key}` for all of the key.
struct Refusal {
    key: &'static str,
    code: &'static str,
    /// TensorFlow's text. Ours is the same up to the bar.
    text: &'static str,
    /// What else the status says.
    tells: &'static str,
}

const fn invalid_key(key: &'static str) -> Refusal {
    Refusal { key, code: "INVALID_ARGUMENT", text: "Invalid  rendezvous key: {key}|", tells: "" }
}

const fn unknown_device(key: &'static str, text: &'static str) -> Refusal {
    Refusal { key, code: "INVALID_ARGUMENT", text, tells: "" }
}

/// Observed from TensorFlow 2.21.0.
const REFUSALS: &[Refusal] = &[
    invalid_key(""),
    invalid_key("foo;bar;baz"),
    invalid_key("{device};{there};edge;0:0"),
    invalid_key("{device};{incarnation};{there};edge"),
    invalid_key("{device};{incarnation};{there};edge;"),
    invalid_key("{device};{incarnation};{there};edge;0:0;;"),
    invalid_key("{device};{incarnation};{there};edge;0:0;{device};{incarnation};{there};edge;0:0"),
    invalid_key("{device};{incarnation};{there};;0:0"),
    invalid_key("{device};{incarnation};nonsense;edge;0:0"),
    invalid_key("nonsense;{incarnation};{there};edge;0:0"),
    invalid_key("{device};;{there};edge;0:0"),
    invalid_key("{device};xyz;{there};edge;0:0"),
    invalid_key("{device};0x1;{there};edge;0:0"),
    invalid_key("{device};+1;{there};edge;0:0"),
    unknown_device(
        "{worker}/device:GPU:7;{incarnation};{there};edge;0:0",
        "/device:GPU:7 unknown device.|",
    ),
    unknown_device(
        "{worker}/device:cpu:0;{incarnation};{there};edge;0:0",
        "/device:cpu:0 unknown device.|",
    ),
    unknown_device("{worker};{incarnation};{there};edge;0:0", "|/device::0 unknown device."),
    unknown_device("/;{incarnation};{there};edge;0:0", "|/device::0 unknown device."),
    Refusal {
        key: "{device};{other};{there};edge;0:0",
        code: "ABORTED",
        text: "RecvTensor expects a different device incarnation: {other number} vs. {number}. Your worker \
               job (\"{worker}\") was probably restarted.| Check your worker job for the reason why it was \
               restarted.",
        tells: POSSIBLY_RESTARTED,
    },
];

/// A worker that is asked.
struct Worker {
    address: String,
    name: &'static str,
    incarnation: u64,
}

impl Worker {
    fn filled(&self, text: &str, key: &str) -> String {
        let other = self.incarnation ^ 1;
        text.replace("{key}", key)
            .replace("{device}", &cpu(self.name))
            .replace("{worker}", self.name)
            .replace("{there}", &cpu("/job:worker/replica:0/task:2"))
            .replace("{incarnation}", &format!("{:016x}", self.incarnation))
            .replace("{number}", &self.incarnation.to_string())
            .replace("{other}", &format!("{other:016x}"))
            .replace("{other number}", &other.to_string())
    }

    /// The key of a tensor of its CPU.
    fn key(&self, edge: &str) -> String {
        key(self.name, self.incarnation, TASK_0, edge)
    }

    fn request(&self, step: i64, key: &str, request: i64) -> Value {
        json!({
            "do": "recv", "address": self.address, "step": step, "key": key, "request": request,
        })
    }

    /// What becomes of a request that is given up after a while.
    fn ask(&self, by: &Peer, step: i64, key: &str, request: i64) -> Result<Value, Refused> {
        let mut command = self.request(step, key, request);
        command["timeout_s"] = A_WHILE_S.into();
        by.call(&command)
    }

    fn begin(&self, by: &Peer, step: i64, key: &str) -> Call {
        by.begin(&self.request(step, key, 0))
    }
}

fn assert_as_in_table(worker: &Worker, by: &Peer, is_tensorflow: bool) {
    for refusal in REFUSALS {
        let key = worker.filled(refusal.key, "");
        let refused = worker.ask(by, 1, &key, 0).unwrap_err();
        assert_eq!(refused.code, refusal.code, "{key}: {refused:?}");
        let (same, rest) = refusal.text.split_once('|').unwrap();
        let (same, rest) = (worker.filled(same, &key), worker.filled(rest, &key));
        if is_tensorflow {
            assert_eq!(refused.text, format!("{same}{rest}"), "{key}");
        } else {
            assert!(refused.text.starts_with(&same), "{key}: {refused:?}");
        }
        assert!(refused.tells(refusal.tells), "{key}: {refused:?}");
        assert_eq!(refused.details.is_empty(), refusal.tells.is_empty(), "{key}: {refused:?}");
    }
}

/// The same request is refused the second time, whatever came of it the first time.
fn assert_known_again(worker: &Worker, by: &Peer) {
    let mut command = worker.request(2, &worker.key("nobody's"), 77);
    command["timeout_s"] = A_WHILE_S.into();
    assert_eq!(by.call(&command).unwrap_err().code, "DEADLINE_EXCEEDED");
    let refused = by.call(&command).unwrap_err();
    let text = "The same RecvTensor (GrpcWorker) request was received twice. ";
    assert!(refused.code == "ABORTED" && refused.text.starts_with(text), "{refused:?}");
}

/// A key of another worker's device is refused once the step is initialised.
fn assert_not_of_others(worker: &Worker, by: &Peer, step: i64) {
    for source in [cpu("/job:worker/replica:0/task:7"), "/device:CPU:0".into()] {
        let key = worker.key("edge").replace(&cpu(worker.name), &source);
        let refused = worker.ask(by, step, &key, 0).unwrap_err();
        assert_eq!(refused.code, "INVALID_ARGUMENT", "{refused:?}");
        let text = format!("Invalid rendezvous key (src): {key} ");
        assert!(refused.text.starts_with(&text), "{refused:?}");
        assert!(refused.text.contains(worker.name), "{refused:?}");
    }
}

/// Who waits in a step is told when it is cleaned up, and that this only follows from something else.
fn assert_cleaned_up(worker: &Worker, by: &Peer, step: i64) {
    let waiting =
        [worker.begin(by, step, &worker.key("a")), worker.begin(by, step, &worker.key("b"))];
    std::thread::sleep(std::time::Duration::from_millis(200));
    let clean_up = json!({"do": "cleanup", "address": worker.address, "step": step});
    by.call(&clean_up).unwrap();
    for call in waiting {
        let refused = by.end(call).unwrap_err();
        let told = (refused.code.as_str(), refused.text.as_str());
        assert_eq!(told, ("ABORTED", format!("Cleanup {step}").as_str()));
        assert!(refused.tells(DERIVED), "{refused:?}");
    }
    by.call(&clean_up).unwrap();
    let late = worker.ask(by, step, &worker.key("a"), 0).unwrap_err();
    assert_eq!(late.code, "DEADLINE_EXCEEDED", "it waits in a new step: {late:?}");
}

/// What is asked of other methods. TensorFlow calls what is no message an error of its own.
fn assert_other_methods(worker: &Worker, by: &Peer, broken_is: &str) {
    let ask = |command: Value| {
        let mut command = command;
        command["address"] = worker.address.clone().into();
        by.call(&command)
    };
    ask(json!({"do": "cleanup", "step": 12_345})).unwrap();
    ask(json!({"do": "cleanup_all"})).unwrap();
    ask(json!({"do": "finished", "request": 12_345})).unwrap();
    let bytes = |method: &str, hex: &str| ask(json!({"do": "bytes", "method": method, "hex": hex}));
    for unknown in ["Nonsense", "/tensorflow.Nonsense/RecvTensor"] {
        assert_eq!(bytes(unknown, "").unwrap_err().code, "UNIMPLEMENTED", "{unknown}");
    }
    // No message, and a key that is no text.
    for broken in ["ffffff", "08021203fffefd"] {
        assert_eq!(bytes("RecvTensor", broken).unwrap_err().code, broken_is, "{broken}");
    }
}

/// TensorFlow itself, with nobody at the other address.
fn tensorflow_alone() -> Option<(Peer, Worker)> {
    let python = tensorflow::python()?;
    let peer = Peer::start(python, &Port::keep().address());
    let worker = Worker { address: peer.address(), name: TASK_0, incarnation: peer.incarnation() };
    Some((peer, worker))
}

/// A step of TensorFlow's is initialised, and stays as long as a value of it is not received.
fn initialise(peer: &Peer, step: i64) {
    let edge = format!("kept-{step}");
    let send = json!({"edge": edge, "dtype": FLOAT, "shape": [], "hex": "00000000"});
    peer.run(&peer.register(&[send], &[]), step);
}

#[test]
fn tensorflow_refuses_as_the_table_says() {
    let Some((peer, worker)) = tensorflow_alone() else {
        return;
    };
    assert_as_in_table(&worker, &peer, true);
    assert_known_again(&worker, &peer);
    initialise(&peer, 3);
    assert_not_of_others(&worker, &peer, 3);
    initialise(&peer, 4);
    assert_cleaned_up(&worker, &peer, 4);
    assert_other_methods(&worker, &peer, "INTERNAL");
}

#[test]
fn rondo_refuses_as_tensorflow_does() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let name = format!("--rendezvous-worker={TASK_1}");
    let server = Server::start(&Options::store("segment").flag("--rendezvous").flag(&name));
    let address = server.address();
    let peer = Peer::start(python, &address);
    let incarnation = peer.incarnation_of(&address, TASK_1);
    let worker = Worker { address, name: TASK_1, incarnation };
    assert_as_in_table(&worker, &peer, false);
    assert_known_again(&worker, &peer);
    assert_not_of_others(&worker, &peer, 3);
    assert_cleaned_up(&worker, &peer, 4);
    assert_other_methods(&worker, &peer, "INVALID_ARGUMENT");
}
