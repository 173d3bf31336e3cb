//! Steps of a real Slurm: what it tells of its tasks, and what these find out.

use std::fs;

use rondo_tests::binary;
use rondo_tests::launchers::{Launchers, launchers};
use rondo_tests::slurm::Slurm;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Names of which the order of texts is not the order of numbers, and of which one begins otherwise.
pub(crate) const HOSTS: [&str; 6] = ["n8", "n9", "n10", "n11", "gpu1", "gpu2"];
const PORT_BASE: u32 = 8888;
/// Tells what Slurm says of a task.
pub(crate) const TELL: &str =
    "echo task $SLURM_PROCID $SLURMD_NODENAME $SLURM_LOCALID $SLURM_GTIDS $SLURM_JOB_ID";

/// A task as Slurm tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Truth {
    pub(crate) rank: u32,
    pub(crate) host: String,
    pub(crate) local: u32,
    /// Ranks of its host.
    pub(crate) beside: String,
    pub(crate) job: u32,
}

/// A Slurm, or `None` after saying why there is none.
pub(crate) fn slurm() -> Option<Slurm> {
    let launchers: &'static Launchers = launchers()?;
    Some(Slurm::start(launchers, &HOSTS))
}

/// `rondo`, as a launcher starts it.
pub(crate) fn rondo() -> &'static str {
    binary::rondo().to_str().unwrap()
}

/// Reads lines of `task RANK HOST LOCAL RANKS JOB`.
pub(crate) fn read_truth(log: &str) -> Vec<Truth> {
    let mut tasks: Vec<Truth> = log
        .lines()
        .filter_map(|line| line.strip_prefix("task "))
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            Truth {
                rank: words[0].parse().unwrap(),
                host: words[1].into(),
                local: words[2].parse().unwrap(),
                beside: words[3].into(),
                job: words[4].parse().unwrap(),
            }
        })
        .collect();
    tasks.sort_by_key(|task| task.rank);
    tasks
}

/// Tasks as Slurm tells of them, each with what it finds out itself, by rank.
pub(crate) type Told = Vec<(Truth, Value)>;

/// Runs `rondo cluster` as a step, in a task each, and after a shell has told what Slurm says of the task.
/// Files are named by srun itself.
pub(crate) fn run(slurm: &Slurm, program: &str, before: &[&str], arguments: &str) -> Told {
    let folder = TempDir::new_in(slurm.folder()).unwrap();
    let output = format!("--output={}/%t", folder.path().display());
    let script = format!("{TELL}; exec {} cluster -o json {arguments}", rondo());
    let all: Vec<&str> = before.iter().copied().chain([&*output, "sh", "-c", &script]).collect();
    let ended = slurm.run(program, &all);
    assert!(ended.status.success(), "{before:?}: {}", ended.log);
    let mut told: Told = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let (line, json) = text.split_once('\n').unwrap();
            let truth = read_truth(line).remove(0);
            let name = truth.rank.to_string();
            assert_eq!(path.file_name().unwrap().to_str(), Some(name.as_str()), "Slurm itself");
            (truth, read_json(json))
        })
        .collect();
    told.sort_by_key(|(truth, _)| truth.rank);
    told
}

pub(crate) fn read_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

/// What the source told that was chosen.
pub(crate) fn chosen(report: &Value) -> &Value {
    let sources = report["sources"].as_array().unwrap();
    let chosen = sources.iter().find(|source| source["verdict"] == "chosen");
    &chosen.unwrap_or_else(|| panic!("nothing was chosen: {report:#}"))["finding"]
}

/// The addresses of all tasks, by rank.
pub(crate) fn addresses(tasks: &[Truth]) -> Vec<String> {
    tasks.iter().map(|task| format!("{}:{}", task.host, PORT_BASE + task.local)).collect()
}

/// Where all meet: rank 0's host, at a port by JAX's rule.
pub(crate) fn coordinator(tasks: &[Truth]) -> String {
    format!("{}:{}", tasks[0].host, 61440 + tasks[0].job % 4096)
}

/// A task knows its own place, and those of all the others.
pub(crate) fn check(task: &Truth, tasks: &[Truth], report: &Value) {
    let finding = chosen(report);
    let about = format!("{task:?} finds {finding:#}");
    assert_eq!(finding["source"], "slurm", "{about}");
    assert_eq!(finding["cluster_spec"], json!({"worker": addresses(tasks)}), "{about}");
    assert_eq!((&finding["task_type"], &finding["task_id"]), (&json!("worker"), &json!(task.rank)));
    let own = format!("grpc://{}:{}", task.host, PORT_BASE + task.local);
    assert_eq!(finding["master"], own, "{about}");
    assert_eq!(finding["coordinator"], coordinator(tasks), "{about}");
    check_ranks(task, tasks, report);
}

/// A task knows its number among all and on its host.
pub(crate) fn check_ranks(task: &Truth, tasks: &[Truth], report: &Value) {
    let finding = chosen(report);
    let about = format!("{task:?} finds {finding:#}");
    assert_eq!((&finding["rank"], &finding["size"]), (&json!(task.rank), &json!(tasks.len())));
    assert_eq!(finding["local_rank"], task.local, "{about}");
    let beside: Vec<u32> =
        tasks.iter().filter(|it| it.host == task.host).map(|it| it.rank).collect();
    let told: Vec<u32> = task.beside.split(',').map(|rank| rank.parse().unwrap()).collect();
    assert_eq!(beside, told, "Slurm itself");
    assert_eq!(finding["local_size"], beside.len(), "{about}");
    let mut hosts: Vec<&str> = tasks.iter().map(|it| it.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    assert_eq!(finding["nodes"], hosts.len(), "{about}");
    assert_eq!(report["contradictions"], json!([]), "{about}");
}
