//! Open MPI, alone and within an allocation of Slurm's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use rondo_tests::launchers::launchers;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::steps::{chosen, read_json, rondo, slurm};

/// Runs to its end, successfully, and gives what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// What each process found out, by the rank that mpirun itself gives its output.
fn found(folder: &Path) -> BTreeMap<u32, Value> {
    let job = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let ranks = fs::read_dir(job).unwrap().map(|entry| entry.unwrap().path());
    ranks
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let rank = name.strip_prefix("rank.").unwrap().parse().unwrap();
            (rank, read_json(&fs::read_to_string(path.join("stdout")).unwrap()))
        })
        .collect()
}

/// Local ranks by the rank that mpirun writes before each line: `[1,2]<stdout>:local 0`.
fn local_ranks(tagged: &str) -> BTreeMap<u32, u32> {
    let lines = tagged.lines().filter(|line| line.contains("<stdout>:local "));
    lines
        .map(|line| {
            let (tag, local) = line.split_once("<stdout>:local ").unwrap();
            let rank = tag.trim_start_matches('[').trim_end_matches(']').split(',').nth(1);
            (rank.unwrap().parse().unwrap(), local.trim().parse().unwrap())
        })
        .collect()
}

fn check(reports: &BTreeMap<u32, Value>, locals: &BTreeMap<u32, u32>, local_sizes: &[u32]) {
    assert_eq!(reports.len(), locals.len());
    let mut coordinators = Vec::new();
    for (rank, report) in reports {
        let finding = chosen(report);
        assert_eq!(finding["source"], "openmpi", "{finding:#}");
        assert_eq!((&finding["rank"], &finding["size"]), (&json!(rank), &json!(reports.len())));
        assert_eq!(finding["local_rank"], locals[rank], "{finding:#}");
        assert_eq!(finding["local_size"], local_sizes[*rank as usize], "{finding:#}");
        assert_eq!(report["contradictions"], json!([]));
        coordinators.push(finding["coordinator"].as_str().unwrap().to_owned());
    }
    coordinators.dedup();
    let (_, port) = coordinators[0].rsplit_once(':').unwrap();
    assert!((61440..=65535).contains(&port.parse::<u32>().unwrap()), "{coordinators:?}");
    assert_eq!(coordinators.len(), 1, "all meet at one place: {coordinators:?}");
}

#[test]
fn every_rank_of_mpirun_knows_its_number() {
    let Some(launchers) = launchers() else { return };
    let folder = TempDir::new().unwrap();
    let mpirun = || {
        let mut command = launchers.command("mpirun");
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.current_dir(folder.path()).args(["--oversubscribe", "-n", "4"]);
        command
    };
    let script = "echo local $OMPI_COMM_WORLD_LOCAL_RANK";
    let locals = local_ranks(&run(mpirun().args(["--tag-output", "sh", "-c", script])));
    let output = folder.path().join("out");
    run(mpirun().arg("--output-filename").arg(&output).args([
        rondo(),
        "cluster",
        "--format",
        "json",
    ]));
    check(&found(&output), &locals, &[4; 4]);
}

#[test]
fn under_slurm_mpirun_tells_ranks_and_slurm_is_not_asked() {
    let Some(slurm) = slurm() else { return };
    let salloc = || {
        let mut command = slurm.command("salloc");
        command.args(["-w", "n[8-10]", "-N", "3", "-n", "5", "--ntasks-per-node=3"]);
        command.arg(launchers().unwrap().program("mpirun"));
        command
    };
    let script = "echo local $OMPI_COMM_WORLD_LOCAL_RANK";
    let locals = local_ranks(&run(salloc().args(["--tag-output", "sh", "-c", script])));
    let output = slurm.folder().join("out");
    run(salloc().arg("--output-filename").arg(&output).args([
        rondo(),
        "cluster",
        "--format",
        "json",
    ]));
    let reports = found(&output);
    check(&reports, &locals, &local_sizes(&locals));
    for report in reports.values() {
        let sources = report["sources"].as_array().unwrap();
        let slurm = sources.iter().find(|source| source["source"] == "slurm").unwrap();
        assert_eq!(slurm["verdict"], "absent", "{slurm:#}");
        assert!(slurm["why"].as_str().unwrap().contains("mpirun started this"), "{slurm:#}");
    }
}

/// How many processes share a host: ranks run through one host after the other.
fn local_sizes(locals: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut sizes = Vec::new();
    let mut group = 0;
    for (place, local) in locals.values().enumerate() {
        if *local == 0 && place > 0 {
            sizes.extend(vec![group; group as usize]);
            group = 0;
        }
        group += 1;
    }
    sizes.extend(vec![group; group as usize]);
    sizes
}
