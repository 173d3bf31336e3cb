//! Kubernetes: pods behind selectors, Jobs and JobSets.

use rondo_core::cluster::kubernetes::{Access, PodAddress, PodOrder, Unready, Watch, WatchEvent};
use rondo_core::cluster::{
    Chain, ClusterResolver, Credentials, Error, Fault, HttpAnswer, Json, Kubernetes, KubernetesJob,
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

/// A pod that is being deleted is still listed, runs and has its address.
fn leaving(name: &str, index: &str) -> String {
    pod(name, index, "").replacen(
        "\"labels\"",
        "\"deletionTimestamp\": \"2026-11-24T03:00:00Z\", \"labels\"",
        1,
    )
}

#[test]
fn a_pod_that_is_being_deleted_is_left_out_unless_pods_are_numbered_as_tensorflow_does() {
    // The pod in its place has the same index, which would be refused if both were listed.
    let replaced = list(&[leaving("old", &index(0)), pod("a", &index(0), "")]);
    assert_eq!(spec(&mut kubernetes(), &replaced).unwrap(), r#"{"worker": ["10.0.0.1:8470"]}"#);
    // Without an index it would take the place of the next one.
    let unnumbered = list(&[leaving("old", ""), pod("z", "", "")]);
    assert_eq!(spec(&mut kubernetes(), &unnumbered).unwrap(), r#"{"worker": ["10.0.0.1:8470"]}"#);
    assert_eq!(spec(&mut kubernetes(), &list(&[leaving("old", "")])).unwrap(), r#"{"worker": {}}"#);
    // `null` is the same as no time at all.
    let stays = leaving("old", "").replacen("\"2026-11-24T03:00:00Z\"", "null", 1);
    assert_eq!(
        spec(&mut kubernetes(), &list(&[stays])).unwrap(),
        r#"{"worker": ["10.0.0.3:8470"]}"#
    );
    let mut by_name = Kubernetes { order: PodOrder::Name, ..kubernetes() };
    assert_eq!(
        spec(&mut by_name, &unnumbered).unwrap(),
        r#"{"worker": ["10.0.0.3:8470", "10.0.0.1:8470"]}"#
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
        // Only this status says that something is absent.
        ("404", Fault::NotPresent),
        ("302", Fault::Forbidden),
        ("400", Fault::Forbidden),
        ("401", Fault::Forbidden),
        ("403", Fault::Forbidden),
        ("408", Fault::Unreachable),
        ("409", Fault::Unreachable),
        ("410", Fault::Unreachable),
        ("503", Fault::Unreachable),
    ] {
        let refused = spec(&mut kubernetes(), status).unwrap_err();
        assert_eq!(refused.fault, fault, "{status}");
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
        .host("set-driver-0-0.svc", &["10.1.0.4"])
        .page("/apis/batch/v1/namespaces/ml/jobs/set-w-1", &jobs[0])
        .page(
            "/apis/batch/v1/namespaces/ml/jobs?labelSelector=\
             jobset.sigs.k8s.io%2Fjobset-name%3Dset&limit=500",
            &list(&jobs),
        );
    let report = world.call(|seen| Chain::default().detect(seen)).unwrap();
    let found = report.settled().unwrap().unwrap();
    assert_eq!((found.process.rank, found.process.size), (Some(4), Some(5)));
    assert_eq!(found.process.coordinator.as_deref(), Some("set-driver-0-0.svc:55527"));
    assert_eq!((found.task_type.as_deref(), found.task_id), (Some("w"), Some(3)));
    assert_eq!(found.spec.as_ref().unwrap().task_address("w", 2), Ok("set-w-1-0.svc:8470"));
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
}

/// What a resolver that is given watches after a look.
fn watched(world: &mut World, settings: &str) -> Vec<Watch> {
    let chain = Chain { explicit: Json::parse(settings).ok(), ..Chain::default() };
    world.call(|seen| chain.detect(seen).and_then(|_| chain.watches(seen))).unwrap()
}

const SETTINGS: &str = r#"{"resolver": "kubernetes", "api_server": "http://api/", "namespace": "default",
    "job_to_label_mapping": {"worker": ["app=w"]}}"#;

#[test]
fn a_watch_goes_on_from_the_list_that_was_looked_at() {
    let versioned = r#"{"metadata": {"resourceVersion": "7"}, "items": []}"#;
    let mut world = World::default().page(PODS, versioned);
    let mut watches = watched(&mut world, SETTINGS);
    assert_eq!(world.asked.len(), 1, "what was listed is not listed again");
    let watch = &mut watches[0];
    let url = |version: &str| {
        format!(
            "http://api/api/v1/namespaces/default/pods?watch=1&resourceVersion={version}\
             &allowWatchBookmarks=true&timeoutSeconds=240&labelSelector=app%3Dw"
        )
    };
    assert_eq!(watch.request().url, url("7"));
    assert_eq!(watch.request().credentials, Credentials::None);
    let event = |kind: &str| {
        format!(r#"{{"type": "{kind}", "object": {{"metadata": {{"resourceVersion": "9"}}}}}}"#)
    };
    assert_eq!(watch.line(&event("BOOKMARK")), Ok(false));
    assert_eq!(watch.request().url, url("9"), "the next connection goes on from there");
    assert_eq!(watch.line(&event("DELETED")), Ok(true));
    assert_eq!(watch.line(r#"{"type": "ERROR", "object": {"code": 410}}"#), Ok(true));
    let error = watch.line("<html>").unwrap_err();
    assert_eq!(error.fault, Fault::Malformed);
    assert!(error.about.starts_with(&url("9")), "{error}");
    for (status, said) in [
        (200, Ok(false)),
        (410, Ok(true)),
        (403, Err(Fault::Forbidden)),
        (429, Err(Fault::Unreachable)),
        (404, Err(Fault::NotPresent)),
    ] {
        let answer = HttpAnswer { status, body: "no".into() };
        assert_eq!(watch.answered(&answer).map_err(|error| error.fault), said, "{status}");
    }
}

#[test]
fn what_cannot_be_watched_in_full_is_not_watched() {
    // A list without a version, one of any version, one that cannot be read.
    for body in [r#"{"items": []}"#, r#"{"metadata": {"resourceVersion": "0"}}"#, "{", "503"] {
        let mut world = World::default().page(PODS, body);
        assert_eq!(watched(&mut world, SETTINGS), []);
    }
    let versioned = r#"{"metadata": {"resourceVersion": "7"}, "items": []}"#;
    let file = r#"{"resolver": "file", "path": "/c.json"}"#;
    let mut world = World::default().page(PODS, versioned).file("/c.json", "{}");
    let union = |members: &str| format!(r#"{{"resolver": "union", "members": [{members}]}}"#);
    assert_eq!(watched(&mut world, &union(&format!("{SETTINGS}, {SETTINGS}"))).len(), 2);
    assert_eq!(watched(&mut world, &union(&format!("{SETTINGS}, {file}"))), []);
    // More than are kept up.
    let selectors = vec![r#""app=w""#; 65].join(",");
    let many = SETTINGS.replace(r#""app=w""#, &selectors);
    assert_eq!(watched(&mut world, &many), []);
}

#[test]
fn pods_that_are_not_ready_and_endpoints_are_watched_too() {
    let pods = r#"{"metadata": {"resourceVersion": "7"}, "items": [
        {"metadata": {"name": "a"}, "status": {"phase": "Pending"}}]}"#;
    let mut world = World::default().page(PODS, pods);
    assert_eq!(watched(&mut world, SETTINGS).len(), 1);
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let first = format!("{path}?labelSelector=kubernetes.io%2Fservice-name%3Dps&limit=500");
    let slices = r#"{"metadata": {"resourceVersion": "8"}, "items": []}"#;
    let mut world = World::default().page(&first, slices);
    let settings = r#"{"resolver": "kubernetes_service", "service": "ps", "api_server": "http://api",
        "namespace": "default"}"#;
    let watches = watched(&mut world, settings);
    let url = watches[0].request().url;
    assert!(url.starts_with(&format!("http://api{path}?watch=1&resourceVersion=8&")), "{url}");
}

#[test]
fn what_an_api_answers_wrongly_is_told_with_its_url() {
    let mut world = World::default().page(PODS, r#"{"items": [{}]}"#);
    let error = world.call(|seen| kubernetes().cluster_spec(seen)).unwrap_err();
    assert_eq!(error.fault, Fault::Malformed);
    assert!(error.about.starts_with("http://api/api/v1/namespaces/default/pods: items"), "{error}");
}
