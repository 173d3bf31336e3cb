//! The attacks, by what they abuse.

use std::thread;
use std::time::Duration;

use prost::Message;
use rondo_proto::convert::{BULK_PREFACE, BulkFrame, WorkerMethod, encode_bulk_head};
use rondo_proto::{admin, tf, xla};
use rondo_tests::graph;
use rondo_tests::stranger::{
    CONTINUATION, DATA, HEADERS, PING, PRIORITY, RESET, SETTINGS, Stranger, WINDOW_UPDATE,
    announced, prefixed,
};

use super::attacks::{Attack, Ground};
use super::keys::SERVICE as T;
use super::memory::compressed;
use super::multitudes;
use super::rendezvous::{self, Sender};

const DISPATCHER: &str = "/tensorflow.data.DispatcherService/";

/// Directories of the keys that strangers put.
pub(crate) const KEYS: [&str; 5] = ["short", "long", "values", "files", "counter"];

/// Calls under way of one stranger before it begins a connection anew.
pub(crate) const CALLS_OF_ONE: usize = 2000;

/// All attacks on a server, to whose rendezvous strangers send so.
pub(crate) fn all(sender: Sender) -> Vec<Attack> {
    [
        connections(),
        frames(),
        multitudes::attacks(),
        messages(),
        keys(),
        tasks(),
        datasets(),
        rendezvous::attacks(sender),
        others(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// All attacks on a relay: it knows no method by itself, and passes on what its server does.
pub(crate) fn on_a_relay() -> Vec<Attack> {
    [connections(), frames(), multitudes::attacks(), messages(), keys(), tasks()]
        .into_iter()
        .flatten()
        .collect()
}

/// All attacks on a worker.
pub(crate) fn on_a_worker() -> Vec<Attack> {
    [connections(), frames(), messages(), elements()].into_iter().flatten().collect()
}

fn attack(name: &'static str, stranger: impl Fn(&Ground, usize) + Sync + 'static) -> Attack {
    Attack { name, stranger: Box::new(stranger), is_answered: false }
}

/// An attack to which the server says something.
pub(crate) fn answered(
    name: &'static str,
    stranger: impl Fn(&Ground, usize) + Sync + 'static,
) -> Attack {
    Attack { is_answered: true, ..attack(name, stranger) }
}

/// How far a stranger is: its number, and what it has done on its connection and in all.
struct Step {
    number: usize,
    count: usize,
    total: usize,
}

/// An attack of strangers that connect again and again, and do something as long as they are connected.
fn repeated(name: &'static str, each: impl Fn(&mut Stranger, Step) + Sync + 'static) -> Attack {
    answered(name, move |ground, number| {
        let mut total = 0;
        while ground.goes_on() {
            let Some(mut stranger) = Stranger::that_reads(&ground.address, &ground.heard) else {
                continue;
            };
            for count in 0..CALLS_OF_ONE {
                if stranger.is_closed() || !ground.goes_on() {
                    break;
                }
                each(&mut stranger, Step { number, count, total });
                total += 1;
            }
        }
    })
}

/// The same, of strangers who count on each connection anew.
fn again(name: &'static str, each: impl Fn(&mut Stranger, usize) + Sync + 'static) -> Attack {
    repeated(name, move |stranger, step| each(stranger, step.count))
}

/// An attack by calls of one method.
pub(crate) fn calls(
    name: &'static str,
    path: String,
    message: impl Fn(usize, usize) -> Vec<u8> + Sync + 'static,
) -> Attack {
    repeated(name, move |stranger, step| {
        stranger.call(&path, false, &message(step.number, step.total));
    })
}

fn connections() -> Vec<Attack> {
    vec![
        attack("connect and leave", |ground, _| {
            while ground.goes_on() {
                drop(Stranger::silent(&ground.address, &ground.heard));
            }
        }),
        attack("a thousand silent connections", |ground, _| {
            let mut silent = Vec::new();
            while ground.goes_on() && silent.len() < 250 {
                silent.extend(Stranger::silent(&ground.address, &ground.heard));
            }
            wait(ground);
        }),
        attack("a byte at a time", |ground, _| {
            while ground.goes_on() {
                let Some(mut stranger) = Stranger::silent(&ground.address, &ground.heard) else {
                    continue;
                };
                for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" {
                    stranger.raw(&[*byte]);
                }
            }
        }),
        attack("another protocol", |ground, number| {
            let texts: [&[u8]; 4] = [
                b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                b"SSH-2.0-OpenSSH_9.6\r\n",
                &[0xff; 512],
            ];
            while ground.goes_on() {
                if let Some(mut stranger) = Stranger::silent(&ground.address, &ground.heard) {
                    stranger.raw(texts[number % texts.len()]);
                }
            }
        }),
        attack("a preface of HTTP/2 and then noise", |ground, number| {
            let mut bytes = noise(number);
            while ground.goes_on() {
                let Some(mut stranger) = Stranger::that_reads(&ground.address, &ground.heard)
                else {
                    continue;
                };
                let bytes: Vec<u8> = bytes.by_ref().take(4096).collect();
                stranger.raw(&bytes);
            }
        }),
    ]
}

/// Bytes without sense or end.
pub(crate) fn noise(seed: usize) -> impl Iterator<Item = u8> {
    let mut state = (seed as u32).wrapping_add(1);
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
}

fn wait(ground: &Ground) {
    while ground.goes_on() {
        thread::sleep(Duration::from_millis(10));
    }
}

fn frames() -> Vec<Attack> {
    vec![
        again("settings", |stranger, _| stranger.frame(SETTINGS, 0, 0, &[])),
        again("pings", |stranger, _| stranger.frame(PING, 0, 0, &[7; 8])),
        again("priorities", |stranger, _| stranger.frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7])),
        again("window updates", |stranger, _| stranger.frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        again("empty frames of data", |stranger, count| {
            if count == 0 {
                stranger.begin(&format!("{T}Heartbeat"), false, &[]);
            }
            stranger.frame(DATA, 0, 1, &[]);
        }),
        again("calls that are taken back", |stranger, _| {
            let stream = stranger.begin(&format!("{T}Heartbeat"), false, &[]);
            stranger.frame(RESET, 0, stream, &[0, 0, 0, 8]);
        }),
        again("headers without an end", |stranger, count| match count {
            0 => stranger.frame(HEADERS, 0, 1, &[0, 1, b'a', 1, b'b']),
            _ => stranger.frame(CONTINUATION, 0, 1, &[0, 1, b'a', 1, b'b'].repeat(1000)),
        }),
        again("large headers", |stranger, count| {
            let stream = (count as u32) * 2 + 1;
            let field = [&[0, 1, b'x', 127, 0][..], &[b'v'; 127]].concat();
            stranger.frame(HEADERS, 4, stream, &field.repeat(100));
        }),
        again("headers that name a long one again", |stranger, count| {
            let stream = (count as u32) * 2 + 1;
            // One field is added to the table, and then named a thousand times.
            let mut block = [&[0x40, 1, b'x', 100][..], &[b'v'; 100]].concat();
            block.extend([0x80 | 62; 1000]);
            stranger.frame(HEADERS, 4 | 1, stream, &block);
        }),
        again("streams that begin and stay", |stranger, _| {
            stranger.begin(&format!("{T}Heartbeat"), false, &[]);
        }),
    ]
}

fn messages() -> Vec<Attack> {
    let bomb = compressed(&[0x0a, 0].repeat(2 << 20));
    let zeros = compressed(&vec![0; 31 << 20]);
    vec![
        again("messages that are announced only", |stranger, _| {
            let body = announced(false, 32 << 20, b"begin");
            stranger.begin(&format!("{T}InsertKeyValue"), false, &body);
        }),
        again("messages that stop in the middle", |stranger, count| {
            if count < 40 {
                let body = announced(false, 1 << 20, &vec![7; 400 << 10]);
                stranger.begin(&format!("{T}InsertKeyValue"), false, &body);
            } else {
                thread::sleep(Duration::from_millis(1));
            }
        }),
        again("gzip of lists of nothing", move |stranger, _| {
            stranger.call(&format!("{T}GetTaskState"), true, &bomb);
        }),
        again("gzip of zeros", move |stranger, _| {
            stranger.call(&format!("{T}InsertKeyValue"), true, &zeros);
        }),
        again("gzip that is none", |stranger, _| {
            stranger.call(&format!("{T}InsertKeyValue"), true, &[0x1f, 0x8b, 8, 0, 1, 2, 3, 4]);
        }),
        again("groups within groups", |stranger, _| {
            stranger.call(&format!("{T}InsertKeyValue"), false, &[0x0b; 4000]);
        }),
        again("lengths beyond the end", |stranger, _| {
            let message = [0x0a, 0xff, 0xff, 0xff, 0xff, 0x07];
            stranger.call(&format!("{T}InsertKeyValue"), false, &message);
        }),
        again("long methods that nobody has", |stranger, _| {
            // No longer than a field that needs no further length byte.
            stranger.call(&format!("/{}", "m".repeat(120)), false, &[]);
        }),
        again("messages in single bytes", |stranger, _| {
            let stream = stranger.begin(&format!("{T}Heartbeat"), false, &[]);
            for byte in prefixed(false, &[7; 20]) {
                stranger.more(stream, &[byte]);
            }
        }),
    ]
}

pub(crate) fn key(name: String, length: usize) -> Vec<u8> {
    let kv = Some(tf::KeyValueEntry { key: name, value: vec![7; length].into() });
    tf::InsertKeyValueRequest { kv, allow_overwrite: true }.encode_to_vec()
}

fn keys() -> Vec<Attack> {
    let t = |method: &str| format!("{T}{method}");
    vec![
        calls("short keys", t("InsertKeyValue"), |number, count| {
            key(format!("short/{number}/{count}"), 1)
        }),
        calls("long keys", t("InsertKeyValue"), |number, count| {
            key(format!("long/{number}/{count}/{}", "k".repeat(3900)), 1)
        }),
        calls("values in memory", t("InsertKeyValue"), |number, count| {
            key(format!("values/{number}/{count}"), 60_000)
        }),
        calls("values in files", t("InsertKeyValue"), |number, count| {
            key(format!("files/{number}/{count}"), 200_000)
        }),
        again("long values that nobody reads", |stranger, count| match count {
            0 => {
                let put = key("values/long".into(), 8 << 20);
                stranger.call(&format!("{T}InsertKeyValue"), false, &put);
            }
            1..200 => {
                let asked = tf::GetKeyValueRequest { key: "values/long".into() };
                stranger.call(&format!("{T}GetKeyValue"), false, &asked.encode_to_vec());
            }
            _ => thread::sleep(Duration::from_millis(1)),
        }),
        calls("one key over and over", t("InsertKeyValue"), |_, _| key("one".into(), 1000)),
        calls("listings", t("GetKeyValueDir"), |_, _| {
            tf::GetKeyValueDirRequest { directory_key: String::new() }.encode_to_vec()
        }),
        calls("waits for keys that never come", t("GetKeyValue"), |number, count| {
            tf::GetKeyValueRequest { key: format!("never/{number}/{count}") }.encode_to_vec()
        }),
        calls("deletions of everything", t("DeleteKeyValue"), |number, _| {
            let key = KEYS[number % KEYS.len()].to_owned();
            tf::DeleteKeyValueRequest { key, is_directory: true }.encode_to_vec()
        }),
        calls("counters", t("IncrementKeyValue"), |number, count| {
            let key = format!("counter/{number}/{}", count % 100);
            tf::IncrementKeyValueRequest { key, increment: 1 }.encode_to_vec()
        }),
        again("waits that are taken back", |stranger, count| {
            let message = tf::GetKeyValueRequest { key: format!("back/{count}") }.encode_to_vec();
            let stream = stranger.call(&format!("{T}GetKeyValue"), false, &message);
            stranger.frame(RESET, 0, stream, &[0, 0, 0, 8]);
        }),
        calls("watches of everything", "/rondo.v1.Coordination/WatchKeys".into(), |_, _| {
            admin::WatchKeysRequest::default().encode_to_vec()
        }),
    ]
}

fn task(number: usize) -> Option<tf::CoordinatedTask> {
    let task_id = i32::try_from(number % 60_000).unwrap();
    Some(tf::CoordinatedTask { job_name: "jax_worker".into(), task_id, recoverable: false })
}

fn tasks() -> Vec<Attack> {
    let t = |method: &str| format!("{T}{method}");
    vec![
        calls("heartbeats of unknown tasks", t("Heartbeat"), |number, count| {
            let source_task = task(number * 10_000 + count + 1);
            tf::HeartbeatRequest { incarnation: 1, source_task }.encode_to_vec()
        }),
        calls("registrations of unknown tasks", t("RegisterTask"), |number, count| {
            let source_task = task(number * 10_000 + count + 1);
            tf::RegisterTaskRequest { incarnation: 1, source_task }.encode_to_vec()
        }),
        calls(
            "registrations in the other dialect",
            "/xla.coordination.CoordinationService/RegisterTask".into(),
            |number, count| {
                let source_task_id = i32::try_from((number * 10_000 + count) % 60_000 + 1).unwrap();
                xla::RegisterTaskRequest { incarnation: 1, source_task_id }.encode_to_vec()
            },
        ),
        calls("barriers of new names", t("Barrier"), |number, count| {
            tf::BarrierRequest {
                barrier_id: format!("barrier/{number}/{count}"),
                barrier_timeout_in_ms: 1000,
                source_task: task(0),
                ..Default::default()
            }
            .encode_to_vec()
        }),
        calls("states of tasks with long names", t("GetTaskState"), |_, _| {
            let one = tf::CoordinatedTask { job_name: "j".repeat(100), ..Default::default() };
            tf::GetTaskStateRequest { source_task: vec![one; 30] }.encode_to_vec()
        }),
    ]
}

fn datasets() -> Vec<Attack> {
    let d = |method: &str| format!("{DISPATCHER}{method}");
    vec![
        calls("new datasets", d("GetOrRegisterDataset"), |number, count| {
            let count = i64::try_from(number * 100_000 + count).unwrap();
            tf::data::GetOrRegisterDatasetRequest {
                dataset: Some(graph::range(count, count + 9, 1)),
                ..Default::default()
            }
            .encode_to_vec()
        }),
        calls("new workers", d("WorkerHeartbeat"), |number, count| {
            tf::data::WorkerHeartbeatRequest {
                worker_address: format!("{}{number}-{count}:1", "w".repeat(200)),
                ..Default::default()
            }
            .encode_to_vec()
        }),
        calls("lists of workers", d("GetWorkers"), |_, _| Vec::new()),
        calls("jobs on nothing", d("GetOrCreateJob"), |_, count| {
            tf::data::GetOrCreateJobRequest {
                dataset_id: format!("nothing{count}"),
                ..Default::default()
            }
            .encode_to_vec()
        }),
        calls("splits of nothing", d("GetSplit"), |number, count| {
            let iteration_id = i64::try_from(number * 100_000 + count).unwrap();
            tf::data::GetSplitRequest { iteration_id, ..Default::default() }.encode_to_vec()
        }),
        calls("heartbeats of nobody's clients", d("ClientHeartbeat"), |_, count| {
            let iteration_client_id = i64::try_from(count).unwrap();
            tf::data::ClientHeartbeatRequest { iteration_client_id, ..Default::default() }
                .encode_to_vec()
        }),
    ]
}

fn elements() -> Vec<Attack> {
    let task = |task_id: i64, definition: Vec<u8>| tf::data::TaskDef {
        task_id,
        iteration_id: task_id,
        worker_address: "stranger:1".into(),
        dataset: Some(tf::data::task_def::Dataset::DatasetDef(definition.into())),
        ..Default::default()
    };
    let process = WorkerMethod::ProcessTask.path();
    vec![
        calls("elements of no task", WorkerMethod::GetElement.path().into(), |number, count| {
            let task_id = i64::try_from(number * 100_000 + count).unwrap();
            tf::data::GetElementRequest { task_id, ..Default::default() }.encode_to_vec()
        }),
        calls("tasks of graphs that are none", process.into(), move |number, count| {
            let id = i64::try_from(1_000_000 + number * 100_000 + count).unwrap();
            let task = Some(task(id, vec![0x0b; 2000]));
            tf::data::ProcessTaskRequest { task }.encode_to_vec()
        }),
        calls("tasks of a file that is none", process.into(), move |_, count| {
            let id = i64::try_from(2_000_000 + count % 100).unwrap();
            let path = tf::data::task_def::Dataset::Path("/proc/self/mem".into());
            let task = tf::data::TaskDef { dataset: Some(path), ..task(id, Vec::new()) };
            tf::data::ProcessTaskRequest { task: Some(task) }.encode_to_vec()
        }),
        calls("lists of tasks", WorkerMethod::GetWorkerTasks.path().into(), |_, _| Vec::new()),
    ]
}

fn others() -> Vec<Attack> {
    vec![
        calls("status", "/rondo.v1.Admin/GetStatus".into(), |_, _| Vec::new()),
        calls("health", "/grpc.health.v1.Health/Check".into(), |_, _| Vec::new()),
        calls("calls of no relay", "/rondo.v1.Relay/Forward".into(), |_, _| vec![7; 2000]),
        attack("bulk connections that say nothing", |ground, _| {
            while ground.goes_on() {
                if let Some(mut stranger) = Stranger::silent(&ground.address, &ground.heard) {
                    stranger.raw(&BULK_PREFACE);
                }
            }
        }),
        attack("bulk calls that are announced only", |ground, _| {
            let mut open = Vec::new();
            while ground.goes_on() {
                if let Some(mut stranger) =
                    Stranger::silent(&ground.address, &ground.heard).filter(|_| open.len() < 100)
                {
                    stranger.raw(&BULK_PREFACE);
                    stranger.raw(&encode_bulk_head(BulkFrame::Call, 16 << 20));
                    open.push(stranger);
                }
            }
        }),
        attack("memory for messages of both, again and again", |ground, _| {
            while ground.goes_on() {
                if let Some(mut stranger) = Stranger::silent(&ground.address, &ground.heard) {
                    stranger.raw(&BULK_PREFACE);
                    stranger.raw(&encode_bulk_head(BulkFrame::Near, 0));
                }
            }
        }),
    ]
}
