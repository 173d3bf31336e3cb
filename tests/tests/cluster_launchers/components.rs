//! Heterogeneous steps: one list of hosts, ranks component by component.

use std::fs;

use rondo_tests::slurm::Slurm;

use crate::steps::{TELL, check, read_json, read_truth, rondo, slurm};

/// A script that tells the truth of a task, and then leaves what it finds out in a file.
fn script(slurm: &Slurm) -> String {
    let path = slurm.folder().join("task.sh");
    let text = format!("{TELL}\n{} cluster -o json > found-$SLURM_PROCID\n", rondo());
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs what starts a step, and compares what its tasks find out with where they are.
fn check_step(slurm: &Slurm, program: &str, arguments: &[&str], tasks_count: usize) {
    let ended = slurm.run(program, arguments);
    assert!(ended.status.success(), "{arguments:?}: {}", ended.log);
    let tasks = read_truth(&ended.log);
    assert_eq!(tasks.len(), tasks_count, "{}", ended.log);
    for task in &tasks {
        let path = slurm.folder().join(format!("found-{}", task.rank));
        check(task, &tasks, &read_json(&fs::read_to_string(&path).unwrap()));
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn ranks_of_components_are_found_whatever_their_hosts_are_called() {
    let Some(slurm) = slurm() else { return };
    let script = script(&slurm);
    let task = ["sh", script.as_str()];
    let step = |first: &[&'static str], second: &[&'static str]| {
        let mut all: Vec<String> = Vec::new();
        for (separator, options) in [(None, first), (Some(":"), second)] {
            all.extend(separator.map(str::to_owned));
            all.extend(options.iter().chain(&task).map(ToString::to_string));
        }
        all
    };
    // The second component's hosts come first in the list.
    let all = step(&["-w", "n[9-10]", "-n", "3"], &["-w", "gpu1,n11", "-n", "4"]);
    let words: Vec<&str> = all.iter().map(String::as_str).collect();
    check_step(&slurm, "srun", &words, 7);
    // Components of one allocation, all and one alone, and only some of their hosts.
    let allocation = ["-w", "n[9-10]", "-N2", "-n", "3", ":", "-w", "gpu1,n11", "-N2", "-n", "4"];
    let run = |step: &[&str], tasks_count: usize| {
        let words: Vec<&str> = allocation.iter().chain(step).copied().collect();
        check_step(&slurm, "salloc", &words, tasks_count);
    };
    run(&["srun", "--het-group=0,1", "-m", "cyclic", "sh", &script], 7);
    run(&["srun", "--het-group=0,1", "-m", "block", "sh", &script], 7);
    run(&["srun", "--het-group=1", "-m", "cyclic", "sh", &script], 4);
    let some = ["srun", "--het-group=0", "-N1", "-n1", "sh", &script, ":"];
    let others = ["--het-group=1", "-N2", "-n3", "-m", "plane=2", "sh", &script];
    run(&[some, others].concat(), 4);
}
