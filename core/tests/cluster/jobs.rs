//! Kubernetes: pods behind selectors, Jobs and JobSets.

use rondo_core::cluster::kubernetes::{Access, PodAddress, Unready, WatchEvent, watch_pods};
use rondo_core::cluster::{
    Chain, ClusterResolver, Credentials, Error, Fault, Kubernetes, KubernetesJob,
};

use super::world::World;

const PODS: &str = "/api/v1/namespaces/default/pods?labelSelector=app%3Dw&limit=500";

fn kubernetes() -> Kubernetes {
    let jobs = vec![("worker".to_owned(), vec!["app=w".to_owned()])];
    let access =
        Access { api_server: Some("http://api/".into()), namespace: Some("default".into()) };
    Kubernetes { jobs, access, ..Kubernetes::default() }
}

fn pod(name: &str, index: &str, more: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "{name}", "labels": {{{index}}}}},
            "status": {{"phase": "Running", "podIP": "10.0.0.{}"{more}}}}}"#,
        name.len()
    )
}

fn index(index: u32) -> String {
    format!(r#""batch.kubernetes.io/job-completion-index": "{index}""#)
}

fn list(pods: &[String]) -> String {
    format!(r#"{{"items": [{}]}}"#, pods.join(","))
}

fn spec(resolver: &mut Kubernetes, body: &str) -> Result<String, Error> {
    let mut world = World::default().page(PODS, body);
    Ok(world.call(|seen| resolver.cluster_spec(seen))?.to_json().to_string())
}

#[test]
fn pods_keep_the_index_that_their_job_gave_them() {
    let pods = [pod("a", &index(2), ""), pod("bb", &index(0), "")];
    assert_eq!(
        spec(&mut kubernetes(), &list(&pods)).unwrap(),
        r#"{"worker": {"0": "10.0.0.2:8470", "2": "10.0.0.1:8470"}}"#
    );
}

#[test]
fn a_pod_that_failed_makes_way_for_the_one_in_its_place() {
    let failed = r#"{"metadata": {"name": "x", "labels": {"batch.kubernetes.io/job-completion-index": "0"}},
        "status": {"phase": "Failed", "podIP": "10.0.0.9"}}"#;
    let both = list(&[failed.into(), pod("a", &index(0), "")]);
    assert_eq!(spec(&mut kubernetes(), &both).unwrap(), r#"{"worker": ["10.0.0.1:8470"]}"#);
    let refused = spec(&mut kubernetes(), &list(&[failed.into()])).unwrap_err();
    assert_eq!((refused.fault, refused.about.as_str()), (Fault::NotReady, "worker:0"));
    assert!(
        refused.text.contains("the pod \"x\" is not ready: its phase is \"Failed\""),
        "{refused}"
    );
}

#[test]
fn pods_that_are_not_ready_are_told_or_left_out() {
    let unready = r#", "conditions": [{"type": "Ready", "status": "False"}]"#;
    let pods = list(&[pod("p-1", "", unready), pod("p-10", "", ""), pod("p-2", "", "")]);
    let refused = spec(&mut kubernetes(), &pods).unwrap_err();
    assert!(refused.text.contains("\"p-1\" is not ready: its condition Ready"), "{refused}");
    let mut resolver = Kubernetes { unready: Unready::LeaveOut, ..kubernetes() };
    assert_eq!(
        spec(&mut resolver, &pods).unwrap(),
        r#"{"worker": {"1": "10.0.0.3:8470", "2": "10.0.0.4:8470"}}"#
    );
    let mut resolver = Kubernetes { address: PodAddress::Host, ..kubernetes() };
    let refused = spec(&mut resolver, &list(&[pod("p", "", "")])).unwrap_err();
    assert!(refused.text.contains("it has no status.hostIP yet"), "{refused}");
}

#[test]
fn lists_are_read_page_by_page() {
    let first =
        format!(r#"{{"metadata": {{"continue": "a b"}}, "items": [{}]}}"#, pod("p-1", "", ""));
    let mut world = World::default()
        .page(PODS, &first)
        .page(&format!("{PODS}&continue=a%20b"), &list(&[pod("p-10", "", "")]));
    let spec = world.call(|seen| kubernetes().cluster_spec(seen)).unwrap();
    assert_eq!(spec.num_tasks("worker"), Ok(2));
    assert_eq!(world.asked.len(), 2);
}

#[test]
fn refusals_of_the_api_are_told_apart() {
    for (status, fault) in [
        ("403", Fault::Forbidden),
        ("401", Fault::Forbidden),
        ("503", Fault::Unreachable),
        ("404", Fault::NotPresent),
    ] {
        let refused = spec(&mut kubernetes(), status).unwrap_err();
        assert_eq!(refused.fault, fault);
        assert!(
            refused.to_string().starts_with("http://api/api/v1/namespaces/default/pods?"),
            "{refused}"
        );
    }
    let refused = spec(&mut kubernetes(), "{\"items\": ").unwrap_err();
    assert!(refused.text.contains("is no JSON"), "{refused}");
}

fn own_pod(job: &str) -> String {
    format!(
        r#"{{"items": [{{"metadata": {{"name": "p", "labels": {{"job-name": "{job}"}},
            "ownerReferences": [{{"kind": "Job", "controller": true}}]}},
            "spec": {{"subdomain": "svc"}}}}]}}"#
    )
}

fn in_pod(job: &str, completion_index: &str) -> World {
    World::of(&[
        ("KUBERNETES_SERVICE_HOST", "fd00::1"),
        ("KUBERNETES_SERVICE_PORT", "6443"),
        ("HOSTNAME", "p"),
        ("JOB_COMPLETION_INDEX", completion_index),
    ])
    .file("/var/run/secrets/kubernetes.io/serviceaccount/namespace", "ml\n")
    .host("p", &["10.1.0.5"])
    .page("/api/v1/namespaces/ml/pods?fieldSelector=status.podIP%3D10.1.0.5", &own_pod(job))
}

#[test]
fn a_job_is_found_by_its_pods_names() {
    let mut world = in_pod("j", "1").host("j-0.svc", &["10.1.0.4"]).page(
        "/apis/batch/v1/namespaces/ml/jobs/j",
        r#"{"metadata": {"name": "j"}, "spec": {"parallelism": 2}}"#,
    );
    let report = world.call(|seen| Chain::default().detect(seen)).unwrap();
    let found = report.settled().unwrap().unwrap();
    assert_eq!(found.source, "kubernetes_job");
    assert_eq!(found.process.coordinator.as_deref(), Some("j-0.svc:55527"));
    assert_eq!((found.process.rank, found.process.size), (Some(1), Some(2)));
    assert_eq!(
        found.spec.as_ref().unwrap().to_json().to_string(),
        r#"{"worker": ["j-0.svc:8470", "j-1.svc:8470"]}"#
    );
    assert_eq!(found.master.as_deref(), Some("grpc://j-1.svc:8470"));
    let mut world = in_pod("j", "2").page(
        "/apis/batch/v1/namespaces/ml/jobs/j",
        r#"{"metadata": {"name": "j"}, "spec": {"parallelism": 2}}"#,
    );
    let refused = world.call(|seen| KubernetesJob::default().cluster_spec(seen)).unwrap_err();
    assert_eq!(refused.to_string(), "JOB_COMPLETION_INDEX: \"2\" is no place in a Job of 2 pods");
}

/// A JobSet of one driver and two Jobs of workers, as seen from a pod of the second.
#[test]
fn jobs_of_a_set_are_counted_together() {
    let job = |name: &str, group: &str, global: u32, pods: u32| {
        format!(
            r#"{{"metadata": {{"name": "{name}", "labels": {{"jobset.sigs.k8s.io/jobset-name": "set",
                "jobset.sigs.k8s.io/replicatedjob-name": "{group}", "jobset.sigs.k8s.io/global-replicas": "3",
                "jobset.sigs.k8s.io/job-global-index": "{global}"}}}}, "spec": {{"parallelism": {pods}}}}}"#
        )
    };
    let jobs =
        [job("set-w-1", "w", 2, 2), job("set-driver-0", "driver", 0, 1), job("set-w-0", "w", 1, 2)];
    let mut world = in_pod("set-w-1", "1")
        .host("set-driver-0-0.set", &["10.1.0.4"])
        .page("/apis/batch/v1/namespaces/ml/jobs/set-w-1", &jobs[0])
        .page(
            "/apis/batch/v1/namespaces/ml/jobs?labelSelector=\
             jobset.sigs.k8s.io%2Fjobset-name%3Dset&limit=500",
            &list(&jobs),
        );
    let report = world.call(|seen| Chain::default().detect(seen)).unwrap();
    let found = report.settled().unwrap().unwrap();
    assert_eq!((found.process.rank, found.process.size), (Some(4), Some(5)));
    assert_eq!(found.process.coordinator.as_deref(), Some("set-driver-0-0.set:55527"));
    assert_eq!((found.task_type.as_deref(), found.task_id), (Some("w"), Some(3)));
    assert_eq!(found.spec.as_ref().unwrap().task_address("w", 2), Ok("set-w-1-0.set:8470"));
}

#[test]
fn watches_say_when_to_look_again() {
    let line = |kind: &str, object: &str| format!(r#"{{"type": "{kind}", "object": {object}}}"#);
    let versioned = r#"{"metadata": {"resourceVersion": "7"}}"#;
    for kind in ["ADDED", "MODIFIED", "DELETED"] {
        assert_eq!(
            WatchEvent::of(&line(kind, versioned)),
            Ok(WatchEvent::Changed { version: "7".into() })
        );
    }
    assert_eq!(
        WatchEvent::of(&line("BOOKMARK", versioned)),
        Ok(WatchEvent::Bookmark { version: "7".into() })
    );
    assert_eq!(WatchEvent::of(&line("ERROR", r#"{"code": 410}"#)), Ok(WatchEvent::ListAgain));
    let refused = WatchEvent::of(&line("ERROR", r#"{"code": 403, "message": "no"}"#)).unwrap_err();
    assert_eq!(refused.to_string(), "watch: failed with code 403: \"no\"");
    assert_eq!(WatchEvent::of("{}").unwrap_err().about, "type");
    let mut world = in_pod("j", "0");
    let request = world.call(|seen| watch_pods(seen, &Access::default(), "app=w", "7")).unwrap();
    assert_eq!(
        request.url,
        "https://[fd00::1]:6443/api/v1/namespaces/ml/pods?watch=1&resourceVersion=7&allowWatchBookmarks=true\
         &labelSelector=app%3Dw"
    );
    assert_eq!(request.credentials, Credentials::ServiceAccount);
}
