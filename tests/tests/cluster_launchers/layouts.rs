//! Layouts of one component.

use serde_json::json;

use crate::steps::{Truth, check, check_ranks, chosen, run, slurm};

#[test]
fn every_rank_of_a_slurm_step_finds_all_the_others() {
    let Some(slurm) = slurm() else { return };
    let steps: [(&[&str], usize); 9] = [
        (&["-w", "n[9-10]", "-n", "4"], 4),
        (&["-w", "n[8-11]", "-n", "7", "-m", "block"], 7),
        (&["-w", "n[8-11]", "-n", "9", "-m", "cyclic"], 9),
        (&["-w", "n[8-11],gpu2", "-n", "11", "-m", "plane=2"], 11),
        (&["-w", "n[8-11]", "--ntasks-per-node=2"], 8),
        (&["-w", "gpu1,n[9-10]", "-n", "5", "-m", "cyclic:cyclic"], 5),
        (&["-w", "n10,n9", "-n", "3", "-m", "cyclic"], 3),
        (&["-N", "6", "-n", "6"], 6),
        (&["-w", "n9", "-n", "1"], 1),
    ];
    for (step, count) in steps {
        let told = run(&slurm, "srun", step, "");
        let tasks: Vec<Truth> = told.iter().map(|(task, _)| task.clone()).collect();
        assert_eq!(tasks.len(), count, "{step:?}");
        for (task, report) in &told {
            check(task, &tasks, report);
        }
    }
}

#[test]
fn settings_of_the_slurm_resolver_hold_in_a_real_step() {
    let Some(slurm) = slurm() else { return };
    let settings = json!({"jobs": {"ps": 2, "worker": 3}, "port_base": 7000, "rpc_layer": null});
    let arguments = format!("--resolver slurm --settings '{settings}'");
    let told = run(&slurm, "srun", &["-w", "n[8-10]", "-n", "5", "-m", "cyclic"], &arguments);
    let at = |rank: usize| format!("{}:{}", told[rank].0.host, 7000 + told[rank].0.local);
    let spec = json!({"ps": [at(0), at(1)], "worker": [at(2), at(3), at(4)]});
    for (rank, (_, report)) in told.iter().enumerate() {
        let finding = chosen(report);
        assert_eq!(finding["cluster_spec"], spec, "{finding:#}");
        let own = if rank < 2 { ("ps", rank) } else { ("worker", rank - 2) };
        assert_eq!((&finding["task_type"], &finding["task_id"]), (&json!(own.0), &json!(own.1)));
        assert_eq!(finding["master"], at(rank));
    }
}

#[test]
fn ranks_of_an_arbitrary_layout_are_told_and_its_hosts_are_not() {
    let Some(slurm) = slurm() else { return };
    let list = slurm.folder().join("hosts");
    // Rank 0 is not on the first host of the list. Slurm 22.05's controller does not survive the end of such
    // a job, so there is one.
    std::fs::write(&list, "n10\nn9\nn10\n").unwrap();
    let told = run(&slurm, "srun", &["-m", "arbitrary", "-n", "3", "-w", "./hosts"], "");
    let tasks: Vec<Truth> = told.iter().map(|(task, _)| task.clone()).collect();
    assert_eq!(tasks[0].host, "n10");
    for (task, report) in &told {
        check_ranks(task, &tasks, report);
        let finding = chosen(report);
        let hosts = (&finding["cluster_spec"], &finding["coordinator"]);
        assert_eq!(hosts, (&json!(null), &json!(null)));
        assert!(finding["notes"][0].as_str().unwrap().contains("arbitrary"), "{finding:#}");
    }
}
