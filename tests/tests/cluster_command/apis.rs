//! Kubernetes' API, well and ill.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::{Api, Machine, Reply, Said};

fn pod(index: u32, phase: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("train-{index}-x"),
            "labels": {"batch.kubernetes.io/job-completion-index": index.to_string()},
        },
        "status": {"phase": phase, "podIP": format!("10.1.0.{index}")},
    })
}

fn list(pods: &[Value], next: &str) -> Reply {
    Reply::ok(json!({"kind": "PodList", "metadata": {"continue": next}, "items": pods}))
}

fn run(api: &Api, arguments: &[&str]) -> Said {
    let settings = json!({
        "job_to_label_mapping": {"worker": ["job-name=train"]},
        "namespace": "ml",
        "api_server": api.url(),
    });
    let settings = settings.to_string();
    let mut all = vec!["--resolver", "kubernetes", "--settings", &settings, "--format", "json"];
    all.extend(arguments);
    Machine::bare().run(&[], &all)
}

#[test]
fn pods_are_listed_page_by_page() {
    let api = Api::start(|_, request| {
        match (request.path.contains("continue=more"), request.path.contains("continue=last")) {
            (true, _) => list(&[pod(2, "Running")], "last"),
            (_, true) => list(&[pod(10, "Running"), pod(0, "Running")], ""),
            _ => list(&[pod(1, "Running")], "more"),
        }
    });
    let said = run(&api, &[]);
    said.assert(0, &[]);
    let spec = &said.chosen()["cluster_spec"]["worker"];
    assert_eq!(spec["0"], "10.1.0.0:8470", "{spec}");
    assert_eq!((&spec["2"], &spec["10"]), (&json!("10.1.0.2:8470"), &json!("10.1.0.10:8470")));
    let requests = api.requests();
    let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    assert!(paths[0].starts_with("/api/v1/namespaces/ml/pods?"), "{paths:?}");
    assert!(paths[0].contains("labelSelector=job-name%3Dtrain"), "{paths:?}");
    let is_bare = |request: &crate::bed::Request| !request.headers.contains_key("authorization");
    assert!(requests.iter().all(is_bare), "no secret goes to a server that was given");
}

#[test]
fn refusals_are_told_with_status_and_url() {
    for status in [401, 403] {
        let api = Api::start(move |_, _| Reply::status(status));
        let said = run(&api, &[]);
        said.assert(1, &[&status.to_string(), "/api/v1/namespaces/ml/pods", "as was asked for"]);
        let broken = said.json()["sources"][0]["fault"].clone();
        assert_eq!(broken, "forbidden");
        assert_eq!(api.requests().len(), 1, "who refuses is not asked again");
    }
}

#[test]
fn a_page_that_is_too_old_to_go_on_from_begins_the_list_again() {
    let api = Api::start(|number, request| match (number, request.path.contains("continue=old")) {
        (0, _) => list(&[pod(0, "Running")], "old"),
        (_, true) => Reply::status(410),
        (_, false) => list(&[pod(0, "Running")], ""),
    });
    let said = run(&api, &[]);
    said.assert(0, &[]);
    assert_eq!(said.chosen()["cluster_spec"], json!({"worker": ["10.1.0.0:8470"]}));
    assert_eq!(api.requests().len(), 3);
}

#[test]
fn failures_that_pass_are_waited_out_and_others_until_the_time_is_up() {
    let api = Api::start(|number, _| match number {
        0 => Reply::status(500),
        1 => Reply::status(429),
        2 => list(&[pod(0, "Pending")], ""),
        _ => list(&[pod(0, "Running")], ""),
    });
    let said = run(&api, &[]);
    said.assert(0, &[]);
    assert_eq!(said.chosen()["cluster_spec"], json!({"worker": ["10.1.0.0:8470"]}));
    for status in [429, 500, 503] {
        let api = Api::start(move |_, _| Reply::status(status));
        run(&api, &["--timeout", "600ms"]).assert(7, &[&status.to_string()]);
        assert!(api.requests().len() > 1, "it was tried again");
    }
    let api = Api::start(|_, _| list(&[pod(0, "Pending")], ""));
    let said = run(&api, &["--timeout", "600ms"]);
    said.assert(8, &["worker:0", "train-0-x", "Pending", "Running"]);
}

#[test]
fn answers_that_are_none_are_told_as_such() {
    for body in ["", "<html>gateway</html>", "{\"items\": [", "{\"items\": [{}]}"] {
        let api = Api::start(move |_, _| Reply::ok(body));
        let said = run(&api, &[]);
        // Nobody's flag or variable is wrong.
        said.assert(1, &["/api/v1/namespaces/ml/pods"]);
    }
}

#[test]
fn nothing_hangs_beyond_its_time() {
    let slow = Api::start(|_, _| list(&[], "").after(Duration::from_secs(60)));
    let said = run(&slow, &["--timeout", "700ms"]);
    said.assert(7, &["no answer within", "ms"]);
    assert!(said.took < Duration::from_secs(20), "{:?}", said.took);
    let said = run(&slow, &["--timeout", "1500ms", "--request-timeout", "200ms"]);
    said.assert(7, &["no answer within 200 ms"]);
    assert!(slow.requests().len() > 2, "a request's time is not the call's");
    // A server that nobody is at.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = json!({"api_server": format!("http://{gone}"), "namespace": "ml"}).to_string();
    let arguments = ["--resolver", "kubernetes", "--settings", &settings, "--timeout", "400ms"];
    Machine::bare().run(&[], &arguments).assert(7, &[&gone.to_string(), "refused"]);
}
