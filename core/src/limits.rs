//! Every bound the core keeps, by name. A driver may lower those on how much is kept at once in a
//! machine's config; whoever hits one reads the bound in the error.

use crate::time::Duration;

/// Longest dataset id, job name, worker address, tag or protocol name accepted, in bytes.
pub const NAME_BYTES_MAX: usize = 4096;
/// Definitions up to this size stand in the record itself; larger ones are blobs, in bytes.
pub const DEFINITION_INLINE_BYTES_MAX: u64 = 64 << 10;
/// Longest request to the dispatcher but a dataset's registration, in bytes.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// `DataServiceMetadata` of one dataset, in bytes.
pub const DATASET_METADATA_BYTES_MAX: usize = 16 << 20;
/// `compatibility_info` of one transfer server, in bytes.
pub const COMPATIBILITY_INFO_BYTES_MAX: usize = 64 << 10;
/// Split providers (sources) of one dataset.
pub const SOURCES_MAX: usize = 1024;
/// Worker tags, transfer servers or reported tasks in one worker's heartbeat.
pub const HEARTBEAT_ITEMS_MAX: usize = 65_536;
/// Datasets kept at once.
pub const DATASETS_MAX: usize = 1 << 20;
/// Jobs kept at once.
pub const JOBS_MAX: usize = 1 << 20;
/// The highest number above which a new journal's ids may begin. 600 million ids fit above it: TensorFlow's
/// workers report the ids of finished tasks in 32 bits with a sign (`SendTaskUpdates` in `worker_impl.cc`).
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const IDS_ABOVE_MAX: i64 = 1_500_000_000;
/// Iterations kept at once.
pub const ITERATIONS_MAX: usize = 1 << 20;
/// Clients of iterations kept at once.
pub const CLIENTS_MAX: usize = 1 << 20;
/// Tasks kept at once.
pub const TASKS_MAX: usize = 1 << 22;
/// Workers kept at once.
pub const WORKERS_MAX: usize = 1 << 16;
/// Consumers of one coordinated read.
pub const CONSUMERS_MAX: i64 = 1 << 16;
/// Named positions kept at once, and job names that wait at a restored one.
pub const POSITIONS_MAX: usize = 1024;
/// Sources of splits, and splits that were being read, in one named position, over all its
/// repetitions.
pub const POSITION_SOURCES_MAX: usize = 1 << 16;
/// Ranges in which a job's finished repetitions are kept.
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const REPETITION_RANGES_MAX: usize = 1024;
/// A use of a job or a dataset is noted when the last one noted is at least this old: it need not
/// cost a record each time.
pub const USE_NOTED_AFTER: Duration = Duration::from_secs(30);
/// Jobs and datasets are kept this much longer than their retention says after the last use noted:
/// uses since then may not have been, and who asks for a job needs a moment to ask for its
/// iteration.
pub const USE_SLACK: Duration = Duration::from_secs(60);
/// Jobs that were freed and whose read repetitions stay known by name; of more, the one that was freed
/// first is forgotten.
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const RETIRED_JOBS_MAX: usize = 1 << 16;
/// What is kept for this long or longer is freed only by a process that is as old: a wall clock that was
/// wrong at the start can be set right before anything is lost.
pub const FREED_AFTER_START: Duration = Duration::from_secs(24 * 3600);
/// Components of one element.
pub const ELEMENT_COMPONENTS_MAX: usize = 1 << 14;
/// One element's bytes, on the wire as well as in memory, unless a reader's settings say less: no
/// protobuf message is longer.
pub const ELEMENT_BYTES_MAX: u64 = i32::MAX as u64;
/// Bytes that values may take in memory because the last one in a message is repeated, or because none
/// stands there: beside what values of their own take, which is at most eight times the message.
pub const EXPANDED_BYTES_MAX: u64 = 1 << 20;
/// A serialized element spec, in bytes.
pub const ELEMENT_SPEC_BYTES_MAX: usize = 1 << 20;
/// Dimensions of a tensor, as TensorFlow has it.
pub const TENSOR_RANK_MAX: usize = 254;
/// A consumer of a coordinated read stops to vote against a task when no call to its worker has failed for
/// so long: the call under way may merely wait for other consumers. A call to a host that is switched off
/// must fail sooner, however it notices.
pub const VOTING_LASTS: Duration = Duration::from_secs(90);
/// The round of no element. A consumer that names it in `MaybeRemoveTask` agrees with whatever round
/// the others name, since it knows that they stand in different ones.
pub const ANY_ROUND: i64 = i64::MAX;
/// The protocol by which workers serve records by split, among their transfer servers.
pub const RECORDS_PROTOCOL: &str = "rondo";
/// Calls that each connection to a worker may have wait in any case.
pub const CONSUMER_CALLS_MIN: usize = 8;
/// Calls that wait at once in one machine; in the coordination service in one namespace, unless its settings
/// or its number of tasks say otherwise.
pub const PARKED_CALLS_MAX: usize = 1 << 16;
/// Calls of a namespace that may wait for each of its tasks. A task of JAX polls for errors, waits for a key
/// and meets others.
pub const WAITS_PER_TASK: usize = 4;
/// Expiries (clients, iterations, parked calls) carried out in one step; the rest follows in the
/// next steps at the same time.
pub const EXPIRIES_PER_STEP_MAX: usize = 256;
/// Runs of successive splits remembered of one task; of earlier ones only the number is known.
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const SPLIT_RUNS_PER_TASK_MAX: usize = 4096;
/// Runs of lost tasks' splits that wait to be handed out again in one iteration; the splits of more
/// count as lost.
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const SPLIT_RUNS_AGAIN_MAX: usize = 1 << 20;
/// Splits that one client holds, and that it may say something of in one request.
pub const SPLITS_PER_CLIENT_MAX: usize = 1024;
/// Readers by split that left a job, or were given up, and whose progress the job keeps; of more, it
/// forgets those that left first.
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const DEPARTED_READERS_MAX: usize = 1024;
/// Readers among whom the splits of one iteration are dealt out by place.
pub const GROUP_SIZE_MAX: u32 = 1024;
/// A reader of such a group is handed places up to this far ahead of the slowest.
pub const SPLITS_AHEAD_MAX: usize = 4096;
/// Splits of one iteration that clients hold or that wait for one.
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const SPLITS_BY_CLIENTS_MAX: usize = 1 << 15;
/// Answers given out in one step when something that many calls wait for has come; the rest follows
/// in the next steps at the same time.
pub const ANSWERS_PER_STEP_MAX: usize = 256;
/// Longest text of a refusal of the coordination service, in bytes: it travels in a header. What is
/// longer is cut.
pub const STATUS_TEXT_BYTES_MAX: usize = 3072;
/// Namespaces kept at once.
pub const NAMESPACES_MAX: usize = 1 << 12;
/// Tasks of one job.
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const COORDINATION_TASKS_MAX: usize = 1 << 16;
/// Longest key, barrier id or job name, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// A value's size in bytes, unless a namespace's settings say something else.
pub const VALUE_BYTES_MAX: u64 = 256 << 20;
/// Values up to this size stand in the record itself; larger ones may be blobs, in bytes.
pub const VALUE_INLINE_BYTES_MAX: u64 = 64 << 10;
/// Keys in one namespace, unless its settings say something else.
pub const KEYS_MAX: usize = 1 << 20;
/// Keys and values in one namespace together, in bytes, unless its settings say something else.
pub const STORE_BYTES_MAX: u64 = 4 << 30;
/// Keys in one answer to a directory or a watch: they are gathered in one step, and all others wait.
pub const LISTED_KEYS_MAX: usize = 1 << 18;
/// Keys freed in one step when many are deleted at once; the rest follows in later steps.
pub const FREED_PER_STEP_MAX: usize = 4096;
/// The pause between them, in which others have a turn.
pub const FREED_PER_STEP_PAUSE: Duration = Duration::from_millis(1);
/// Keys that can die with one task.
pub const LEASED_KEYS_MAX: usize = 1024;
/// Changes of keys remembered for watches, by number and in bytes of keys and values; whoever has
/// seen less than those gets the present keys anew.
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const CHANGES_MAX: usize = 4096;
/// See [`CHANGES_MAX`]; part of the journal's format like that.
pub const CHANGES_BYTES_MAX: u64 = 4 << 20;
/// Changes in one answer to a watch.
pub const CHANGES_PER_ANSWER_MAX: usize = 1024;
/// Barriers of one namespace of which the last result is known; of more, the one that ended first
/// is forgotten.
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const BARRIERS_MAX: usize = 1 << 16;
/// Tasks that the lists of participants of all barriers of one namespace name together; of more, the
/// list of the barrier that ended first is forgotten.
///
/// Part of the journal's format: replay depends on it, so it never changes.
pub const LISTED_PARTICIPANTS_MAX: usize = 1 << 21;
/// Barriers of one namespace that tasks wait at, at once.
pub const OPEN_BARRIERS_MAX: usize = 4096;
/// Encoded devices of one task, in bytes.
pub const DEVICES_BYTES_MAX: usize = 1 << 20;
/// Relays known in one life of a namespace.
pub const RELAYS_MAX: usize = 1 << 16;
/// A relay takes so many calls of each client's tasks, and so many of its other calls, above its bound.
pub const RELAY_CLIENT_CALLS_MIN: usize = 4;
/// The longest message that such a call may have in any case, in bytes.
pub const RELAY_SHORT_BYTES_MAX: u64 = 4 << 10;
/// A message is long when it has more bytes than this. A relay refuses it when its client would hold more
/// bytes than it leaves free.
pub const RELAY_LONG_BYTES_MIN: u64 = 64 << 10;
/// Relays forgotten in one step; the rest follows in later steps.
pub const RELAYS_FORGOTTEN_PER_STEP_MAX: usize = 4096;
/// How long a relay may wait for its server at most. What it asks again then, the server must still
/// know to have happened: it remembers a silent relay for twice as long.
pub const RELAY_PATIENCE_MAX: Duration = Duration::from_secs(3600);
/// Results kept for one relay that it has not acknowledged.
pub const RELAY_RESULTS_MAX: usize = 1 << 14;
/// Calls that a relay sends or answers in one step; the rest follows in the next steps at the same
/// time.
pub const RELAY_CALLS_PER_STEP_MAX: usize = 256;
/// When this much later than due the coordination service finds that a time is over, the service
/// itself was held up and could hear nobody; less where heartbeat timeouts are short.
pub const HELD_UP_AFTER: Duration = Duration::from_secs(1);
/// Tasks of one worker: its heartbeats name them all.
pub const WORKER_TASKS_MAX: usize = HEARTBEAT_ITEMS_MAX;
/// Tasks that a worker remembers to be over after it let go of them; of more, the first ones are
/// forgotten.
pub const TASKS_REMEMBERED_MAX: usize = 1 << 20;
/// Trainers that share one task.
pub const TRAINERS_MAX: usize = 1 << 12;
/// Longest key of a rendezvous, in bytes.
pub const RENDEZVOUS_KEY_BYTES_MAX: usize = 8192;
/// Of a step that ends or begins, as many waiting calls and held tensors are seen to in one step of the
/// machine; the rest follows in the next ones at the same time.
pub const RENDEZVOUS_ITEMS_PER_STEP_MAX: usize = 256;

const _: () = assert!(VALUE_INLINE_BYTES_MAX < VALUE_BYTES_MAX);
const _: () = assert!(VALUE_BYTES_MAX < STORE_BYTES_MAX);
const _: () = assert!(OPEN_BARRIERS_MAX < BARRIERS_MAX);
const _: () = assert!(CHANGES_PER_ANSWER_MAX <= CHANGES_MAX);
const _: () = assert!(SOURCES_MAX <= HEARTBEAT_ITEMS_MAX);
const _: () = assert!(TASKS_MAX >= ITERATIONS_MAX);
const _: () = assert!((GROUP_SIZE_MAX as usize) < SPLITS_AHEAD_MAX);
const _: () = assert!(SPLITS_AHEAD_MAX + SPLITS_PER_CLIENT_MAX < SPLITS_BY_CLIENTS_MAX);
const _: () = assert!(SPLITS_BY_CLIENTS_MAX < POSITION_SOURCES_MAX);
const _: () = assert!(IDS_ABOVE_MAX + 600_000_000 < i32::MAX as i64);
const _: () = assert!(USE_NOTED_AFTER.as_nanos() < USE_SLACK.as_nanos());
/// Longest document that a cluster resolver reads: a variable, a file, an API's answer; in bytes.
pub const CLUSTER_DOCUMENT_BYTES_MAX: usize = 64 << 20;
/// Deepest nesting of such a document.
pub const CLUSTER_DOCUMENT_DEPTH_MAX: usize = 64;
/// Values of such a document, those within others counted: each takes far more room than its text.
pub const CLUSTER_DOCUMENT_VALUES_MAX: usize = 4 << 20;
/// Jobs of a cluster spec.
pub const CLUSTER_JOBS_MAX: usize = 4096;
/// Tasks of a cluster spec, hosts of a host list, all jobs together.
pub const CLUSTER_TASKS_MAX: usize = 1_000_000;
/// Hosts of one range of a host list, as Slurm has it.
pub const HOST_RANGE_MAX: u64 = 65_536;
/// Digits of a number in a host list.
pub const HOST_DIGITS_MAX: usize = 18;
/// Bytes of all names that a host list expands to.
pub const HOST_LIST_BYTES_MAX: usize = 64 << 20;
/// Questions that one call of a cluster resolver may ask of the outside.
pub const CLUSTER_QUESTIONS_MAX: usize = 16_384;
/// Pages of one list that a cluster resolver reads from an API.
pub const CLUSTER_PAGES_MAX: usize = 1024;
/// Watches that are kept up over one cluster; where more are wanted it is looked at every interval.
pub const CLUSTER_WATCHES_MAX: usize = 64;
/// Bytes of a line of a watch, which has one object: an API server keeps none above 1.5 MiB.
pub const CLUSTER_WATCH_LINE_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A journal written with other values would be replayed to another state.
    #[test]
    fn bounds_that_replay_depends_on_never_change() {
        assert_eq!(REPETITION_RANGES_MAX, 1024);
        assert_eq!(SPLIT_RUNS_PER_TASK_MAX, 4096);
        assert_eq!(SPLIT_RUNS_AGAIN_MAX, 1_048_576);
        assert_eq!(SPLITS_BY_CLIENTS_MAX, 32_768);
        assert_eq!(IDS_ABOVE_MAX, 1_500_000_000);
        assert_eq!(DEPARTED_READERS_MAX, 1024);
        assert_eq!(BARRIERS_MAX, 65_536);
        assert_eq!(COORDINATION_TASKS_MAX, 65_536);
        assert_eq!(LISTED_PARTICIPANTS_MAX, 2_097_152);
        assert_eq!((CHANGES_MAX, CHANGES_BYTES_MAX), (4096, 4_194_304));
    }
}
