//! Tasks of Rondo's own coordination service: who is up, at which address, under which number.

use proptest::prelude::*;
use rondo_core::cluster::{
    ADDRESS_KEYS, ClusterSpec, Coordinated, Error, Fault, Json, MasterOf, Standing, address_key,
    described,
};

use super::world::World;

fn told(tasks: &[Standing], addresses: &[(u32, &str)]) -> Coordinated {
    let key = |(task, address): &(u32, &str)| (address_key(*task), address.as_bytes().to_vec());
    Coordinated {
        tasks: (0..).zip(tasks.iter().cloned()).collect(),
        keys: addresses.iter().map(key).collect(),
    }
}

fn error() -> Standing {
    Standing::Error("it is dead".into())
}

fn spec(told: &Coordinated, more: &str) -> Result<ClusterSpec, Error> {
    let settings = Json::parse(&format!(r#"{{"resolver": "rondo", "server": "s:1"{more}}}"#));
    let mut resolver = described(&settings.unwrap()).unwrap();
    let mut world = World { coordinated: Some(told.clone()), ..World::default() };
    let spec = world.call(|seen| resolver.cluster_spec(seen));
    assert_eq!(world.asked, ["s:1"]);
    spec
}

const LEAVE_OUT: &str = r#", "unready": "leave_out""#;

#[test]
fn all_that_are_up_are_the_spec() {
    use Standing::Connected;
    let told = told(&[Connected, Connected], &[(1, "b:2"), (0, "a:1")]);
    assert_eq!(spec(&told, "").unwrap().to_json().to_string(), r#"{"worker": ["a:1", "b:2"]}"#);
    let named = spec(&told, r#", "job": "trainer", "wait_for": 2"#).unwrap();
    assert_eq!(named.to_json().to_string(), r#"{"trainer": ["a:1", "b:2"]}"#);
}

#[test]
fn who_is_not_up_is_refused_by_name_or_left_out_and_others_keep_their_numbers() {
    use Standing::{Absent, Connected};
    let up = [(0, "a:1"), (1, "b:1"), (2, "c:1")];
    let cases = [
        (Absent, &up[..], "is not there: it never registered, or has left"),
        (error(), &up[..], "is in error: \"it is dead\""),
        (Connected, &[up[0], up[2]][..], "is connected, and has announced no address"),
    ];
    for (standing, addresses, why) in cases {
        let told = told(&[Connected, standing, Connected], addresses);
        let refused = spec(&told, "").unwrap_err();
        assert_eq!(refused.fault, Fault::NotReady);
        assert_eq!(refused.to_string(), format!("worker:1: the task {why} (at s:1)"));
        let left = spec(&told, LEAVE_OUT).unwrap().to_json().to_string();
        assert_eq!(left, r#"{"worker": {"0": "a:1", "2": "c:1"}}"#);
    }
}

#[test]
fn so_many_as_are_waited_for_have_to_be_up() {
    use Standing::{Absent, Connected};
    let two = told(&[Connected, Absent, Connected], &[(0, "a:1"), (2, "c:1")]);
    let wait = |number: u32| format!(r#"{LEAVE_OUT}, "wait_for": {number}"#);
    assert_eq!(spec(&two, &wait(2)).unwrap().tasks_count(), 2);
    let refused = spec(&two, &wait(3)).unwrap_err();
    let text = "worker: 2 of 3 tasks that are waited for are up at s:1";
    assert_eq!((refused.fault, refused.to_string().as_str()), (Fault::NotReady, text));
    let nobody = Coordinated::default();
    assert_eq!(spec(&nobody, "").unwrap_err().fault, Fault::NotReady);
    assert_eq!(spec(&nobody, LEAVE_OUT).unwrap().to_json().to_string(), r#"{"worker": {}}"#);
}

#[test]
fn only_keys_of_tasks_are_addresses() {
    let mut told = told(&[Standing::Connected], &[(0, "a:1"), (7, "of nobody")]);
    for stray in ["", "/", "/x", "/00", "/0/port", "/-1", "/4294967296", "s/0"] {
        told.keys.push((format!("{ADDRESS_KEYS}{stray}"), b"elsewhere:1".to_vec()));
    }
    assert_eq!(spec(&told, "").unwrap().to_json().to_string(), r#"{"worker": ["a:1"]}"#);
    for value in [&b""[..], b"\xff"] {
        told.keys[0].1 = value.to_vec();
        let refused = spec(&told, LEAVE_OUT).unwrap_err();
        assert_eq!(
            (refused.fault, refused.about.as_str()),
            (Fault::Malformed, "rondo/addresses/0")
        );
    }
}

#[test]
fn without_a_server_it_is_the_one_that_launchers_tell_of() {
    let variables =
        [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "h0"), ("MASTER_PORT", "29400")];
    use Standing::Connected;
    let coordinated = Some(told(&[Connected, Connected], &[(0, "a:1"), (1, "b:1")]));
    let mut world = World { coordinated, ..World::of(&variables) };
    let settings = Json::parse(r#"{"resolver": "rondo"}"#).unwrap();
    let mut resolver = described(&settings).unwrap();
    let master = world.call(|seen| resolver.master(seen, &MasterOf::default()));
    assert_eq!(master.unwrap(), "grpc://b:1");
    assert_eq!(world.asked, ["h0:5050"]);
    assert_eq!(world.call(|seen| resolver.task_id(seen)), Ok(Some(1)));
    let missing = World::of(&[]).call(|seen| resolver.cluster_spec(seen)).unwrap_err();
    assert!(missing.to_string().starts_with("rondo.server: is not set"), "{missing}");
}

#[test]
fn a_service_that_does_not_answer_is_unreachable() {
    let settings = Json::parse(r#"{"resolver": "rondo", "server": "s:1"}"#).unwrap();
    let mut resolver = described(&settings).unwrap();
    let error = World::of(&[]).call(|seen| resolver.cluster_spec(seen)).unwrap_err();
    assert_eq!((error.fault, error.to_string().as_str()), (Fault::Unreachable, "s:1: no answer"));
}

proptest! {
    /// By a count of its own: who is connected and has announced is in the spec, and nobody else.
    #[test]
    fn the_spec_is_who_is_up(tasks in proptest::collection::vec((0..3_u8, any::<bool>()), 0..20)) {
        let standings: Vec<Standing> = tasks
            .iter()
            .map(|(standing, _)| match standing {
                0 => Standing::Connected,
                1 => Standing::Absent,
                _ => error(),
            })
            .collect();
        let addresses: Vec<(u32, String)> = (0..)
            .zip(&tasks)
            .filter(|(_, (_, announced))| *announced)
            .map(|(task, _)| (task, format!("h{task}:1")))
            .collect();
        let addresses: Vec<(u32, &str)> =
            addresses.iter().map(|(task, address)| (*task, address.as_str())).collect();
        let told = told(&standings, &addresses);
        let up: Vec<u32> = (0..)
            .zip(&tasks)
            .filter(|(_, up)| **up == (0, true))
            .map(|(task, _)| task)
            .collect();
        let found = spec(&told, LEAVE_OUT).unwrap();
        prop_assert_eq!(&found.task_indices("worker").unwrap(), &up);
        for task in &up {
            let address = format!("h{task}:1");
            prop_assert_eq!(found.task_address("worker", *task), Ok(address.as_str()));
        }
        let all = spec(&told, "");
        prop_assert_eq!(all.is_ok(), !tasks.is_empty() && up.len() == tasks.len());
    }
}
