//! Where Slurm is there and a step is not, and where somebody else says otherwise.

use std::fs;

use crate::steps::{chosen, read_json, rondo, slurm};

const HINT: &str = "in an allocation of Slurm's, but not in a step: start the program with srun";

#[test]
fn outside_of_a_step_slurm_says_to_start_one() {
    let Some(slurm) = slurm() else { return };
    let ended = slurm.run("salloc", &["-w", "n9", "-n", "2", rondo(), "cluster"]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    let last = ended.log.lines().find(|line| line.starts_with("error: nothing tells"));
    assert!(last.is_some_and(|line| line.contains(HINT)), "{}", ended.log);
    // A batch script runs on the first host of its allocation, and is no task.
    let script = slurm.folder().join("job.sh");
    let program = rondo();
    let text = format!(
        "#!/bin/sh\n{program} cluster > plain 2>&1\necho $? > status\n\
         srun -o found-%t {program} cluster -o json\n"
    );
    fs::write(&script, text).unwrap();
    let script = script.to_str().unwrap();
    let ended = slurm.run("sbatch", &["--wait", "-w", "n[9-10]", "-n", "3", "-o", "log", script]);
    let read = |name: &str| fs::read_to_string(slurm.folder().join(name)).unwrap();
    assert!(ended.status.success(), "{}{}", ended.log, read("log"));
    assert_eq!(read("status").trim(), "1", "{}", read("plain"));
    assert!(read("plain").contains(HINT), "{}", read("plain"));
    for rank in 0..3 {
        let report = read_json(&read(&format!("found-{rank}")));
        assert_eq!(chosen(&report)["rank"], rank);
    }
}

#[test]
fn a_step_and_tf_config_that_disagree_are_an_error_in_each_task() {
    let Some(slurm) = slurm() else { return };
    let one = r#"{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}"#;
    let mut command = slurm.command("srun");
    command.env("TF_CONFIG", one).args(["-w", "n[9-10]", "-n", "3", "--kill-on-bad-exit=0"]);
    let output = command.args([rondo(), "cluster"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    for words in [
        "tf_config says that the rank is 1, slurm says 0",
        "tf_config says that the rank is 1, slurm says 2",
        "tf_config says that the size is 2, slurm says 3",
    ] {
        assert!(errors.contains(words), "{words:?} is not in {errors}");
    }
    // srun passes on what another launcher left in the environment.
    let mut command = slurm.command("srun");
    command.env("OMPI_COMM_WORLD_RANK", "4").env("OMPI_COMM_WORLD_SIZE", "2");
    let output = command.args(["-w", "n9", "-n", "1", rondo(), "cluster"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("is no rank of 2 processes"), "{errors}");
}
