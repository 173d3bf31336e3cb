//! Endpoints of services, DNS, TPUs and settings.

use rondo_core::cluster::{
    ClusterResolver, Dns, Error, Fault, Json, KubernetesService, Service, described,
};

use super::world::World;

fn described_spec(world: &mut World, settings: &str) -> Result<String, Error> {
    let mut resolver = described(&Json::parse(settings).unwrap())?;
    Ok(world.call(|seen| resolver.cluster_spec(seen))?.to_json().to_string())
}

#[test]
fn endpoints_are_numbered_by_their_host_names() {
    let url = "/apis/discovery.k8s.io/v1/namespaces/ml/endpointslices?labelSelector=\
               kubernetes.io%2Fservice-name%3Ds&limit=500";
    let endpoint = |ip: &str, host: &str, more: &str| {
        format!(r#"{{"addresses": ["{ip}"], "hostname": "{host}"{more}}}"#)
    };
    let slice = |endpoints: &[String]| {
        let ports = r#""ports": [{"name": "a", "port": 1}, {"name": "grpc", "port": 8470}]"#;
        format!(r#"{{{ports}, "endpoints": [{}]}}"#, endpoints.join(","))
    };
    let leaving = r#", "conditions": {"terminating": true}"#;
    let unready = r#", "conditions": {"ready": false}"#;
    let slices = [
        slice(&[endpoint("10.0.0.1", "w-10", ""), endpoint("10.0.0.7", "w-x2b", leaving)]),
        slice(&[endpoint("fd00::2", "w-2", ""), endpoint("10.0.0.1", "w-10", "")]),
        r#"{"ports": [], "endpoints": []}"#.to_owned(),
    ];
    let body = |slices: &[String]| format!(r#"{{"items": [{}]}}"#, slices.join(","));
    let mut world = World::default().page(url, &body(&slices));
    let settings = r#"{"resolver": "kubernetes_service", "service": "s", "port_name": "grpc",
        "namespace": "ml", "api_server": "http://api"}"#;
    assert_eq!(
        described_spec(&mut world, settings).unwrap(),
        r#"{"worker": {"2": "[fd00::2]:8470", "10": "10.0.0.1:8470"}}"#
    );
    let no_port = settings.replace("\"grpc\"", "\"http\"");
    let refused = described_spec(&mut world, &no_port).unwrap_err();
    assert!(refused.text.contains("has no port \"http\""), "{refused}");
    let mut world =
        World::default().page(url, &body(&[slice(&[endpoint("10.0.0.1", "w-0", unready)])]));
    assert_eq!(described_spec(&mut world, settings).unwrap_err().fault, Fault::NotReady);
    let left_out = settings.replace("\"service\"", "\"unready\": \"leave_out\", \"service\"");
    assert_eq!(described_spec(&mut world, &left_out).unwrap(), r#"{"worker": {}}"#);
    assert_eq!(KubernetesService::default().name(), "kubernetes_service");
}

#[test]
fn records_of_a_service_are_numbered_by_their_hosts() {
    let service =
        |target: &str, port| Service { priority: 0, weight: 1, target: target.into(), port };
    let mut world = World {
        services: vec![service("w-10.s.", 1), service("w-9.s.", 2), service("w-9.s.", 2)],
        ..World::default()
    };
    let settings = r#"{"resolver": "dns", "name": "_grpc._tcp.s"}"#;
    assert_eq!(
        described_spec(&mut world, settings).unwrap(),
        r#"{"worker": {"9": "w-9.s:2", "10": "w-10.s:1"}}"#
    );
    let elsewhere = settings.replace("\"name\"", "\"port\": 8470, \"name\"");
    assert_eq!(
        described_spec(&mut world, &elsewhere).unwrap(),
        r#"{"worker": {"9": "w-9.s:8470", "10": "w-10.s:8470"}}"#,
        "a configured port counts more than the records'"
    );
    world.services = vec![service("b.s", 1), service("a.s", 1)];
    assert_eq!(described_spec(&mut world, settings).unwrap(), r#"{"worker": ["a.s:1", "b.s:1"]}"#);
    world.services.clear();
    assert_eq!(described_spec(&mut world, settings).unwrap_err().fault, Fault::Unreachable);
}

#[test]
fn addresses_of_a_host_are_in_ascending_order() {
    let mut world = World::default().host("s", &["10.0.0.10", "10.0.0.9", "10.0.0.9", "fd00::1"]);
    let settings = r#"{"resolver": "dns", "name": "s", "port": 7}"#;
    assert_eq!(
        described_spec(&mut world, settings).unwrap(),
        r#"{"worker": ["10.0.0.9:7", "10.0.0.10:7", "[fd00::1]:7"]}"#
    );
    world.hosts.clear();
    assert_eq!(
        described_spec(&mut world, settings).unwrap_err().to_string(),
        "s: the name does not resolve"
    );
    assert_eq!(Dns::default().name(), "dns");
}

#[test]
fn addresses_of_a_tpu_may_be_of_ipv6() {
    let mut world = World::of(&[("TPU_NAME", "grpc://[fd00::1]:1,fd00::2,h")]);
    assert_eq!(
        described_spec(&mut world, r#"{"resolver": "tpu"}"#).unwrap(),
        r#"{"worker": ["[fd00::1]:1", "[fd00::2]:8470", "h:8470"]}"#
    );
    let mut world =
        World::of(&[("TPU_CONFIG", r#"{"tpu_node_name": "t", "project": "p", "zone": "z"}"#)])
            .page(
                "/v1/projects/p/locations/z/nodes/t",
                r#"{"state": "READY", "ipAddress": "h", "port": 5}"#,
            );
    assert_eq!(
        described_spec(&mut world, r#"{"resolver": "tpu"}"#).unwrap(),
        r#"{"worker": ["h:5"]}"#
    );
}

#[test]
fn settings_are_checked() {
    let cases = [
        (
            r#"{"resolver": "consul"}"#,
            "resolver: \"consul\" is no resolver: there are simple, union,",
        ),
        (r#"[]"#, "resolver: \"\\\"[]\\\"\" is no resolver"),
        (
            r#"{"resolver": "slurm", "ports": 1}"#,
            "slurm: \"ports\" is no setting of the slurm resolver",
        ),
        (r#"{"resolver": "slurm", "port_base": 65536}"#, "slurm.port_base: \"65536\" is no port"),
        (r#"{"resolver": "slurm", "jobs": {"w": -1}}"#, "slurm.jobs: "),
        (r#"{"resolver": "dns", "name": "s"}"#, "dns.port: is not set"),
        (r#"{"resolver": "gce", "port": 1}"#, "gce.instance_group: is not set"),
        (r#"{"resolver": "tpu", "tpu": ["a", "b"]}"#, "tpu.tpu: a list of 2"),
        (
            r#"{"resolver": "kubernetes", "order": "age"}"#,
            "kubernetes.order: \"age\" is none of index, name",
        ),
        (
            r#"{"resolver": "union", "members": [{"resolver": "x"}]}"#,
            "resolver: \"x\" is no resolver",
        ),
    ];
    for (settings, wanted) in cases {
        let refused = described(&Json::parse(settings).unwrap()).unwrap_err();
        assert!(refused.to_string().starts_with(wanted), "{refused}");
    }
    let mut nested = r#"{"resolver": "simple", "cluster_spec": {}}"#.to_owned();
    for _ in 0..10 {
        nested = format!(r#"{{"resolver": "union", "members": [{nested}]}}"#);
    }
    let refused = described(&Json::parse(&nested).unwrap()).unwrap_err();
    assert_eq!(refused.fault, Fault::TooLarge);
}
