//! The numbers that the pages of `docs` promise are those of the code. That a bound is kept is tested
//! where it is kept.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::time::Duration;

use rondo::transport::ServerConfig;
use rondo_core::limits;
use rondo_core::{exchange, relay, rendezvous, time, worker};
use rondo_data::Limits;

/// A page of the documentation.
fn page(name: &str) -> String {
    let path = format!("{}/../docs/{name}.md", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Asserts that a page says each of these.
fn assert_says(name: &str, texts: &[String]) {
    let page = page(name);
    let missing: Vec<&String> = texts.iter().filter(|text| !page.contains(*text)).collect();
    assert!(missing.is_empty(), "docs/{name}.md does not say {missing:#?}");
}

/// A count, with commas between thousands.
fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in the largest unit that fits.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes.is_multiple_of(1 << shift));
    unit.map_or(format!("{bytes} bytes"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

/// A span in seconds if it is whole ones.
fn span(span: time::Duration) -> String {
    match span.as_millis() {
        millis if millis.is_multiple_of(1000) => format!("{} s", millis / 1000),
        millis => format!("{millis} ms"),
    }
}

const fn seconds(span: Duration) -> u64 {
    span.as_secs()
}

#[test]
fn numbers_are_written_as_in_the_pages() {
    assert_eq!([0, 999, 1000, 1_048_576].map(count), ["0", "999", "1,000", "1,048,576"]);
    assert_eq!([4 << 30, 64 << 10, 7].map(size), ["4 GiB", "64 KiB", "7 bytes"]);
    assert_eq!(span(time::Duration::from_millis(500)), "500 ms");
}

#[test]
fn bounds_of_the_server() {
    let server = ServerConfig::default();
    let (silence, interval, timeout) = (
        seconds(server.silence_max),
        seconds(server.keepalive_interval),
        seconds(server.keepalive_timeout),
    );
    assert_says(
        "operations",
        &[
            format!(
                "| {silence} s of silence before the first call of a connection, or within a request |"
            ),
            format!(
                "| a connection that does not answer pings (every {interval} s) for {timeout} s, and the \
                 heartbeat timeout on a namespace's port |"
            ),
            format!("| {} named positions | RESOURCE_EXHAUSTED |", limits::POSITIONS_MAX),
            format!("memory for messages above {} under way", size(limits::VALUE_INLINE_BYTES_MAX)),
            "Jobs and datasets are kept a minute longer".into(),
        ],
    );
    assert_eq!(limits::USE_SLACK, time::Duration::from_secs(60), "a minute");
    assert_eq!(rondo::transport::budget::UNCOUNTED_BYTES_MAX, limits::VALUE_INLINE_BYTES_MAX);
}

#[test]
fn bounds_of_coordination() {
    let (parked, tasks) = (count(limits::PARKED_CALLS_MAX), count(limits::COORDINATION_TASKS_MAX));
    let inline = size(limits::VALUE_INLINE_BYTES_MAX);
    let server = ServerConfig::default();
    assert_says(
        "coordination",
        &[
            format!("| request | `--message-size-max`, {} |", size(server.message_bytes_max)),
            format!("| value | `--value-size-max`, {} |", size(limits::VALUE_BYTES_MAX)),
            format!("| keys of a namespace | `--keys-max`, {} |", count(limits::KEYS_MAX)),
            format!(
                "| keys in one answer to a directory or a watch | {} |",
                count(limits::LISTED_KEYS_MAX)
            ),
            format!(
                "| keys and values of a namespace | `--namespace-size-max`, {} |",
                size(limits::STORE_BYTES_MAX)
            ),
            format!(
                "| calls under way on one connection | `--calls-per-connection-max`, {} |",
                server.calls_per_connection_max
            ),
            format!(
                "| calls of a namespace that wait | `--waits-max`, {parked}; {each} for each task if that \
                 is more |",
                each = limits::WAITS_PER_TASK
            ),
            format!("| key, barrier's id | {} bytes |", limits::KEY_BYTES_MAX),
            format!("| tasks of a job | {tasks} |"),
            format!(
                "| relays, agents and stores that have written to a namespace within two hours | {} |",
                count(limits::RELAYS_MAX)
            ),
            format!("A value above {inline} is a file of its own"),
            format!(
                "more than the last {} changes or {}",
                limits::CHANGES_MAX,
                size(limits::CHANGES_BYTES_MAX)
            ),
        ],
    );
    assert_eq!(limits::RELAY_PATIENCE_MAX, time::Duration::from_secs(3600), "half of two hours");
}

#[test]
fn bounds_of_a_relay() {
    let relay = relay::Config::of("up:1");
    let minutes = relay.patience.as_millis() / 60_000;
    let hours = limits::RELAY_PATIENCE_MAX.as_millis() / 3_600_000;
    let held_up = limits::HELD_UP_AFTER;
    assert_eq!(held_up, time::Duration::from_secs(1), "a second");
    assert_says(
        "relay",
        &[
            format!("`--heartbeat-patience` ({}s)", relay.heartbeat_patience.as_millis() / 1000),
            format!("`--upstream-patience` ({minutes}m, {hours}h at most)"),
            "the relay's own process stands still for over a second".into(),
            format!(
                "({} relays and clients of Rondo's own in a namespace)",
                count(limits::RELAYS_MAX)
            ),
            format!("| `--clients-max` | {} connections |", relay.clients_max),
            format!("| `--calls-max` | {} calls under way |", relay.calls_max),
            format!("| `--calls-per-client-max` | {} |", relay.calls_per_client_max),
            format!("| `--held-size-max` | {} of messages under way |", size(relay.held_bytes_max)),
        ],
    );
}

#[test]
fn bounds_of_a_worker() {
    let worker = worker::Config::of("a:1", 9);
    let row = |text: &str, default: String| format!("` | `{default}` | {text}");
    let flag_size = |bytes| size(bytes).replace(' ', "");
    let flag_span = |span: time::Duration| match span.as_millis() {
        millis if millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        millis => format!("{}s", millis / 1000),
    };
    assert_says(
        "worker",
        &[
            format!("| {} tasks of one worker |", limits::WORKER_TASKS_MAX),
            format!("| {} calls that wait at one worker (`--calls-max`).", worker.calls_max),
            format!("and {} in any case", limits::CONSUMER_CALLS_MIN),
            format!("| {} bytes of a trainer's ID |", limits::NAME_BYTES_MAX),
            format!("| `--calls-max` | `RONDO_WORKER_CALLS_MAX` | `{}` |", worker.calls_max),
            format!("| {} trainers that share one task |", limits::TRAINERS_MAX),
            format!("its text is cut at {} bytes", limits::STATUS_TEXT_BYTES_MAX),
            row("size | elements of a worker that are ready", flag_size(worker.buffer_bytes)),
            row("size | elements that a task keeps for trainers", flag_size(worker.cache_bytes)),
            row("span | between two heartbeats", flag_span(worker.heartbeat_interval)),
            row("span | how long the dispatcher may be away", flag_span(worker.dispatcher_timeout)),
            row("span | how long consumers may take to fetch", flag_span(worker.drain_timeout)),
        ],
    );
    assert_eq!(limits::ELEMENT_BYTES_MAX, (2 << 30) - 1, "an element of 2 GiB is refused");
}

#[test]
fn bounds_of_a_rendezvous() {
    let own = rendezvous::Config::default();
    assert_says(
        "rendezvous",
        &[
            format!(
                "| {}, {} | tensors that nobody has received",
                size(own.step_bytes_max),
                size(own.bytes_max)
            ),
            format!(
                "| {} and {} | the same, counted |",
                count(own.step_tensors_max),
                count(own.tensors_max)
            ),
            format!("`--rendezvous-steps-max` | {} |", count(own.steps_max)),
            format!("`--rendezvous-calls-max` | {} |", count(own.calls_max)),
            "`--rendezvous-step-expiry` | 1 hour |".into(),
            format!("`--rendezvous-peer-patience` | {} |", span(own.patience)),
        ],
    );
    assert_eq!(own.step_expiry, Some(time::Duration::from_secs(3600)), "1 hour");
}

#[test]
fn bounds_of_an_exchange() {
    let own = exchange::Config::default();
    let ways = rondo::exchange::Ways::default();
    assert_says(
        "exchange",
        &[
            format!("| `processes_max` | {} |", count(own.processes_max as usize)),
            format!("| `addresses_max` | {} |", own.addresses_max),
            format!("| `barriers_max` | {} |", own.barriers_max),
            format!("| `calls_max` | {} |", count(own.calls_max)),
            format!(
                "| `heartbeat_interval`, `heartbeat_timeout` | {}, {} |",
                span(own.heartbeat_interval),
                span(own.heartbeat_timeout)
            ),
            format!("| `reconnect_grace` | {} |", span(own.reconnect_grace)),
            format!(
                "| `reconnect_pause_min`, `reconnect_pause_max` | {}, {} |",
                span(own.reconnect_pause_min),
                span(own.reconnect_pause_max)
            ),
            format!("| `tensors_max` | {} |", count(own.tensors_max)),
            format!("| `request_bytes_max` | {} |", size(own.request_bytes_max)),
            format!("| `handlers_max` | {} |", count(own.handlers_max)),
            format!("| `traces_max` | {} |", count(own.traces_max)),
            format!("| `observers_max` | {} |", own.observers_max),
            format!(
                "| `worker_requests_max`, `worker_bytes_max` | {}, {} |",
                own.worker_requests_max,
                size(own.worker_bytes_max)
            ),
            format!("| `key_credits` | {} |", own.key_credits),
            format!("| `slots_max` | {} |", count(own.slots_max)),
        ],
    );
    let shared = format!("(`memfd`), {} for each direction by default", size(ways.shared_bytes));
    let sizes = exchange::membership::Sizes { workers: 1, servers: 1, group: 1 };
    let settings = rondo::exchange::Settings::new(exchange::Role::Server, sizes, "");
    let all = format!(
        "{} over all links of a process (`shared_bytes_max`)",
        size(settings.shared_bytes_max)
    );
    assert_says("transports", &[shared, all]);
}

#[test]
fn bounds_of_datasets() {
    let own = Limits::default();
    assert_eq!(rondo_data::FILES_MAX, rondo_data::SPLITS_MAX, "as many each");
    let files = usize::try_from(rondo_data::FILES_MAX).unwrap();
    assert_says(
        "datasets",
        &[
            format!(
                "| `memory_bytes`: what one reader of a split holds | {} |",
                size(own.memory_bytes)
            ),
            format!(
                "| `record_bytes`: one record as it stands in a file, decompressed | {} |",
                size(own.record_bytes)
            ),
            format!(
                "| `chunk_bytes`: what is fetched at once, and a batch, about | {} |",
                size(own.chunk_bytes)
            ),
            format!("| files, splits of a pass | {} each |", count(files)),
            format!(
                "| a definition with its manifest | {} |",
                size(rondo_data::DEFINITION_BYTES_MAX)
            ),
            format!("| columns | {} |", count(rondo_data::COLUMNS_MAX)),
        ],
    );
}

#[test]
fn bounds_of_clusters() {
    let finder = rondo::resolve::Settings::default();
    assert_says(
        "cluster",
        &[
            format!(
                "**Bounds:** {} a document and {} a call, {} questions a call",
                size(limits::CLUSTER_DOCUMENT_BYTES_MAX as u64),
                size(finder.answers_bytes_max as u64),
                count(limits::CLUSTER_QUESTIONS_MAX)
            ),
            format!("go by HTTP, {} at once at most", finder.at_once_max),
            format!("how long to look, in all ({}s;", finder.timeout.as_secs()),
            format!(
                "how long one request, name or file may take ({}s)",
                finder.question_timeout.as_secs()
            ),
            format!("{} a line of a watch", size(limits::CLUSTER_WATCH_LINE_BYTES_MAX as u64)),
            format!("or are more than {}, that is told once", limits::CLUSTER_WATCHES_MAX),
            format!(
                "| more than {} jobs or {} tasks;",
                count(limits::CLUSTER_JOBS_MAX),
                count(limits::CLUSTER_TASKS_MAX)
            ),
            format!("more than {} hosts", count(limits::HOST_RANGE_MAX.try_into().unwrap())),
            format!("numbers of more than {} digits", limits::HOST_DIGITS_MAX),
        ],
    );
}
