//! Heterogeneous steps: one list of hosts, ranks component by component.

use std::fs;

use rondo_tests::slurm::Slurm;
use serde_json::json;

use crate::steps::{
    TELL, check, check_ranks, chosen, coordinator, read_json, read_truth, rondo, slurm,
};

/// A script that tells the truth of a task, and then leaves what it finds out in a file.
fn script(slurm: &Slurm) -> String {
    let path = slurm.folder().join("task.sh");
    let text = format!("{TELL}\n{} cluster -o json > found-$SLURM_PROCID\n", rondo());
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs what starts a step, and compares what its tasks find out with where they are. Where the layout
/// matters hosts are not told, but rank 0's.
fn check_step(slurm: &Slurm, program: &str, arguments: &[&str], tasks_count: usize, plain: bool) {
    let ended = slurm.run(program, arguments);
    assert!(ended.status.success(), "{arguments:?}: {}", ended.log);
    let tasks = read_truth(&ended.log);
    assert_eq!(tasks.len(), tasks_count, "{}", ended.log);
    for task in &tasks {
        let path = slurm.folder().join(format!("found-{}", task.rank));
        let report = read_json(&fs::read_to_string(&path).unwrap());
        if plain {
            check(task, &tasks, &report);
        } else {
            check_ranks(task, &tasks, &report);
            let finding = chosen(&report);
            assert_eq!(finding["cluster_spec"], json!(null), "{finding:#}");
            assert_eq!(finding["coordinator"], coordinator(&tasks), "{finding:#}");
            assert!(finding["notes"][0].as_str().unwrap().contains("layout of each"));
        }
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn ranks_of_components_are_found_whatever_their_hosts_are_called() {
    let Some(slurm) = slurm() else { return };
    let script = script(&slurm);
    // The second component's hosts come first in the list.
    let step = |first: &[&'static str], second: &[&'static str]| {
        let task = ["sh", script.as_str()];
        [first, &task, &[":"], second, &task].concat()
    };
    let plain = step(&["-w", "n[9-10]", "-n", "2"], &["-w", "gpu1,n11", "-n", "2"]);
    check_step(&slurm, "srun", &plain, 4, true);
    let one_host = step(&["-w", "n9", "-n", "1"], &["-w", "gpu1", "-n", "3"]);
    check_step(&slurm, "srun", &one_host, 4, true);
    let uneven = step(&["-w", "n[9-10]", "-n", "3"], &["-w", "gpu1,n11", "-n", "4"]);
    check_step(&slurm, "srun", &uneven, 7, false);
    // Components of one allocation: all, one alone, only some of their hosts.
    let allocation = ["-w", "n[9-10]", "-N2", "-n", "3", ":", "-w", "gpu1,n11", "-N2", "-n", "4"];
    let run = |step: &[&str], tasks_count: usize, plain: bool| {
        check_step(&slurm, "salloc", &[&allocation[..], step].concat(), tasks_count, plain);
    };
    run(&["srun", "--het-group=0,1", "-n2", "sh", &script], 4, true);
    run(&["srun", "--het-group=0,1", "-m", "cyclic", "sh", &script], 7, false);
    run(&["srun", "--het-group=1", "-N2", "-n2", "sh", &script], 2, true);
    let some = ["srun", "--het-group=0", "-N1", "-n1", "sh", &script, ":"];
    run(&[&some[..], &["--het-group=1", "-N2", "-n2", "sh", &script]].concat(), 3, true);
    run(
        &[&some[..], &["--het-group=1", "-N2", "-n3", "-m", "plane=2", "sh", &script]].concat(),
        4,
        false,
    );
}
