//! Which rank runs where, beside dealing one by one; and what Slurm says of itself.

use proptest::prelude::*;
use rondo_core::cluster::slurm::{Layout, Place, Step, places};
use rondo_core::cluster::{Chain, ClusterResolver, Error, Fault, Slurm};

use super::world::World;

/// Deals ranks to hosts one by one, as Slurm's manual tells it.
fn dealt(counts: &[u32], plane: u32) -> Vec<Place> {
    let total: u32 = counts.iter().sum();
    let mut given = vec![0; counts.len()];
    let mut places = Vec::new();
    let mut host = 0;
    while places.len() < total as usize {
        for _ in 0..plane {
            if given[host] < counts[host] {
                places.push(Place { host, local: given[host] });
                given[host] += 1;
            }
        }
        host = (host + 1) % counts.len();
    }
    places
}

proptest! {
    #[test]
    fn ranks_are_dealt_as_one_by_one(
        counts in prop::collection::vec(0..6_u32, 1..8),
        size in 1..5_u32,
    ) {
        prop_assert_eq!(places(&counts, Layout::Block), Some(dealt(&counts, 6)));
        prop_assert_eq!(places(&counts, Layout::Cyclic), Some(dealt(&counts, 1)));
        prop_assert_eq!(places(&counts, Layout::Plane(size)), Some(dealt(&counts, size)));
    }

    /// A task that is told where it really is finds itself there; told anything else, it says so.
    #[test]
    fn a_task_finds_itself(
        counts in prop::collection::vec(1..5_u32, 1..6),
        plane in 1..4_u32,
        rank in 0..20_usize,
    ) {
        let places = dealt(&counts, plane);
        let rank = rank % places.len();
        let own = places[rank];
        let ranks: Vec<String> = (0..places.len())
            .filter(|other| places[*other].host == own.host)
            .map(|rank| rank.to_string())
            .collect();
        let mut world = step(&counts, rank);
        world.environment.insert("SLURM_DISTRIBUTION".into(), "plane".into());
        world.environment.insert("SLURM_DIST_PLANESIZE".into(), plane.to_string());
        world.environment.insert("SLURM_GTIDS".into(), ranks.join(","));
        world.environment.insert("SLURMD_NODENAME".into(), format!("n{}", 8 + own.host));
        let mut slurm = Slurm::default();
        let spec = world.call(|seen| slurm.cluster_spec(seen)).unwrap();
        let address = format!("n{}:{}", 8 + own.host, 8888 + own.local);
        prop_assert_eq!(spec.task_address("worker", rank as u32), Ok(address.as_str()));
        world.environment.insert("SLURM_GTIDS".into(), format!("{},99", ranks.join(",")));
        let refused = world.call(|seen| Slurm::default().cluster_spec(seen)).unwrap_err();
        prop_assert_eq!((refused.fault, refused.about.as_str()), (Fault::PlacementUnknown, "SLURM_GTIDS"));
    }
}

/// A task of a step on hosts n8, n9, n10 …
fn step(counts: &[u32], rank: usize) -> World {
    let total: u32 = counts.iter().sum();
    let counts_text: Vec<String> = counts.iter().map(ToString::to_string).collect();
    World::of(&[
        ("SLURM_PROCID", &rank.to_string()),
        ("SLURM_STEP_NUM_TASKS", &total.to_string()),
        ("SLURM_STEP_NODELIST", &format!("n[8-{}]", 7 + counts.len())),
        ("SLURM_STEP_TASKS_PER_NODE", &counts_text.join(",")),
    ])
}

fn set(world: &mut World, name: &str, value: &str) {
    world.environment.insert(name.into(), value.into());
}

fn refused(world: &mut World) -> Error {
    world.call(|seen| Slurm::default().cluster_spec(seen)).unwrap_err()
}

#[test]
fn layouts_that_tasks_cannot_see_are_refused() {
    let mut world = step(&[2, 2], 0);
    set(&mut world, "SLURM_DISTRIBUTION", "arbitrary");
    assert_eq!(refused(&mut world).fault, Fault::PlacementUnknown);
    set(&mut world, "SLURM_DISTRIBUTION", "plane");
    assert_eq!(refused(&mut world).about, "SLURM_DIST_PLANESIZE");
    set(&mut world, "SLURM_DISTRIBUTION", "spiral");
    assert!(
        refused(&mut world).text.contains("\"spiral\" is no layout"),
        "{}",
        refused(&mut world)
    );
    set(&mut world, "SLURM_DISTRIBUTION", "cyclic:block,NoPack");
    world.call(|seen| Slurm::default().cluster_spec(seen)).unwrap();
}

#[test]
fn arbitrary_ranks_of_one_host_are_plain() {
    let mut world = step(&[3], 2);
    set(&mut world, "SLURM_DISTRIBUTION", "arbitrary");
    let spec = world.call(|seen| Slurm::default().cluster_spec(seen)).unwrap();
    assert_eq!(spec.task_address("worker", 2), Ok("n8:8890"));
}

/// `srun -w n[9-10] -n 2 : -w gpu1,n11 -n 2` as a real step has it: the list has the hosts of both components
/// in the order of their names.
fn heterogeneous(group: &str) -> World {
    World::of(&[
        ("SLURM_JOB_ID", "17"),
        ("SLURM_PROCID", "2"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_GTIDS", "2"),
        ("SLURMD_NODENAME", "gpu1"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURM_STEP_NODELIST", "gpu1,n[9-11]"),
        ("SLURM_STEP_TASKS_PER_NODE", "1(x4)"),
        ("SLURM_DISTRIBUTION", "cyclic"),
        (&format!("SLURM_{group}_SIZE"), "2"),
        (&format!("SLURM_JOB_NODELIST_{group}_GROUP_0"), "n[9-10]"),
        (&format!("SLURM_JOB_NODELIST_{group}_GROUP_1"), "gpu1,n11"),
    ])
}

#[test]
fn hosts_of_components_are_taken_from_their_own_lists() {
    for group in ["HET", "PACK"] {
        let mut world = heterogeneous(group);
        let step = world.call(|seen| Ok(Step::of(seen, None)?)).unwrap();
        let hosts: Vec<&str> = (0..4).map(|rank| step.place(rank).unwrap().0).collect();
        assert_eq!(hosts, ["n9", "n10", "gpu1", "n11"]);
        let report = world.call(|seen| Chain::default().detect(seen)).unwrap();
        let process = &report.settled().unwrap().unwrap().process;
        assert_eq!(process.coordinator.as_deref(), Some("n9:61457"), "rank 0 is on n9");
        assert_eq!((process.local_rank, process.local_size), (Some(0), Some(1)));
        // A host that is in no list, and a component's list that is missing.
        set(&mut world, &format!("SLURM_JOB_NODELIST_{group}_GROUP_1"), "gpu1");
        let error = refused(&mut world);
        assert!(error.text.contains("\"n11\""), "{error}");
        world.environment.remove(&format!("SLURM_JOB_NODELIST_{group}_GROUP_1"));
        let error = refused(&mut world);
        assert_eq!(error.fault, Fault::PlacementUnknown);
        assert_eq!(error.about, "SLURM_JOB_NODELIST_HET_GROUP_1");
    }
}

/// Each component has a job id of its own; JAX's port comes of the first one's in all of them.
#[test]
fn all_components_dial_the_port_of_the_first_ones_job_id() {
    for group in ["HET", "PACK"] {
        let mut world = heterogeneous(group);
        set(&mut world, "SLURM_JOB_ID", "18");
        set(&mut world, &format!("SLURM_JOB_ID_{group}_GROUP_0"), "17");
        let report = world.call(|seen| Chain::default().detect(seen)).unwrap();
        let process = &report.settled().unwrap().unwrap().process;
        assert_eq!(process.coordinator.as_deref(), Some("n9:61457"), "{group}");
    }
}

#[test]
fn components_whose_layout_matters_are_not_guessed_and_rank_0_is_known() {
    // What is told of the layout may be another component's.
    let mut world = heterogeneous("HET");
    set(&mut world, "SLURM_STEP_TASKS_PER_NODE", "3,1(x3)");
    set(&mut world, "SLURM_NTASKS", "6");
    set(&mut world, "SLURM_STEP_NUM_TASKS", "6");
    set(&mut world, "SLURM_GTIDS", "2,4,5");
    let error = refused(&mut world);
    assert_eq!((error.fault, error.about.as_str()), (Fault::PlacementUnknown, "SLURM_HET_SIZE"));
    let report = world.call(|seen| Chain::default().detect(seen)).unwrap();
    let finding = report.settled().unwrap().unwrap();
    assert_eq!(finding.spec, None);
    let process = &finding.process;
    assert_eq!((process.rank, process.size), (Some(2), Some(6)));
    assert_eq!(process.coordinator.as_deref(), Some("n9:61457"));
    // Of one host, or with the last one having the rest, every layout is the same.
    set(&mut world, "SLURM_STEP_TASKS_PER_NODE", "1,2,1,3");
    set(&mut world, "SLURM_STEP_NODELIST", "gpu1,n10,n9,n11");
    set(&mut world, "SLURM_JOB_NODELIST_HET_GROUP_0", "n9,n10");
    set(&mut world, "SLURM_NTASKS", "7");
    set(&mut world, "SLURM_STEP_NUM_TASKS", "7");
    set(&mut world, "SLURM_PROCID", "3");
    set(&mut world, "SLURM_GTIDS", "3");
    let spec = world.call(|seen| Slurm::default().cluster_spec(seen)).unwrap();
    assert_eq!(spec.task_address("worker", 2), Ok("n10:8889"));
    assert_eq!(spec.task_address("worker", 6), Ok("n11:8890"));
}

#[test]
fn a_step_may_leave_out_components_and_hosts() {
    let mut world = heterogeneous("HET");
    set(&mut world, "SLURM_STEP_NODELIST", "n11");
    set(&mut world, "SLURM_STEP_TASKS_PER_NODE", "2");
    set(&mut world, "SLURM_STEP_NUM_TASKS", "2");
    set(&mut world, "SLURM_NTASKS", "2");
    set(&mut world, "SLURM_PROCID", "1");
    set(&mut world, "SLURM_LOCALID", "1");
    set(&mut world, "SLURM_GTIDS", "0,1");
    set(&mut world, "SLURMD_NODENAME", "n11");
    let spec = world.call(|seen| Slurm::default().cluster_spec(seen)).unwrap();
    assert_eq!(spec.task_address("worker", 1), Ok("n11:8889"));
}

#[test]
fn gpus_begin_with_those_that_were_granted() {
    let mut world = step(&[2], 1);
    set(&mut world, "CUDA_VISIBLE_DEVICES", "4,5,6,7");
    let mut slurm = Slurm::default();
    world.call(|seen| slurm.cluster_spec(seen)).unwrap();
    let own = world.call(|seen| slurm.own_gpus(seen)).unwrap();
    assert_eq!(own, Some(vec!["6".to_owned(), "7".to_owned()]));
    world.environment.remove("CUDA_VISIBLE_DEVICES");
    world.gpus = 2;
    assert_eq!(world.call(|seen| slurm.own_gpus(seen)).unwrap(), Some(vec!["1".to_owned()]));
}

#[test]
fn ports_do_not_run_out_silently() {
    let mut world = step(&[2], 0);
    let mut slurm = Slurm { port_base: 65535, ..Slurm::default() };
    let refused = world.call(|seen| slurm.cluster_spec(seen)).unwrap_err();
    assert_eq!(refused.fault, Fault::TooLarge);
    assert!(refused.text.contains("65535 + 1"), "{refused}");
}
