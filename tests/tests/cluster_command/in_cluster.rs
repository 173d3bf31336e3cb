//! In a pod: the API server by TLS, with the service account's token and certificate authority.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rondo_tests::process::Process;
use serde_json::{Value, json};

use crate::authority::AUTHORITY;
use crate::bed::{Api, Machine, Reply, Request, Said};
use crate::kubernetes::{Kubernetes, PODS};

const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn pod_of(account: &[(&str, &str)]) -> Machine {
    account.iter().fold(Machine::bare(), |machine, (file, text)| {
        machine.file(&format!("{ACCOUNT}/{file}"), text)
    })
}

fn pods() -> Value {
    json!({"items": [{
        "metadata": {"name": "train-0"},
        "status": {"phase": "Running", "podIP": "10.1.0.9"},
    }]})
}

fn run(machine: &Machine, api: &Api, timeout: &str) -> Said {
    let (host, port) = api.host.split_once(':').unwrap();
    let variables = [("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", port)];
    let arguments = ["--resolver", "kubernetes", "--format", "json", "--timeout-ms", timeout];
    let said = machine.run(&variables, &arguments);
    assert!(!said.err.contains("secret-") && !said.out.contains("secret-"), "a token is shown");
    said
}

fn bearer(request: &Request) -> Option<&str> {
    request.headers.get("authorization").map(String::as_str)
}

#[test]
fn the_service_accounts_token_is_read_anew_for_each_look() {
    let account =
        [("token", "secret-1\n"), ("ca.crt", &AUTHORITY.certificate), ("namespace", "ml")];
    let machine = Arc::new(pod_of(&account));
    let shared = Arc::clone(&machine);
    // The first token runs out at once.
    let api = Api::start_tls(move |number, request| match (number, bearer(request)) {
        (0, Some("Bearer secret-1")) => {
            shared.write(&format!("{ACCOUNT}/token"), "secret-2");
            Reply::status(503)
        }
        (_, Some("Bearer secret-2")) => Reply::ok(pods()),
        _ => Reply::status(401),
    });
    let said = run(&machine, &api, "20000");
    said.assert(0, &[]);
    assert_eq!(said.chosen()["cluster_spec"], json!({"worker": ["10.1.0.9:8470"]}));
    assert!(api.requests()[0].path.starts_with("/api/v1/namespaces/ml/pods?"));
}

#[test]
fn a_server_that_the_authority_does_not_vouch_for_gets_no_token() {
    for authority in [AUTHORITY.server.as_str(), "no certificate"] {
        let machine = pod_of(&[("token", "secret-1"), ("ca.crt", authority)]);
        let api = Api::start_tls(|_, _| Reply::ok(pods()));
        let said = run(&machine, &api, "400");
        assert_eq!(said.status, 7, "{}", said.err);
        assert!(api.requests().is_empty(), "it came to no request");
    }
}

#[test]
fn without_an_authority_a_token_goes_nowhere() {
    let machine = pod_of(&[("token", "secret-1"), ("namespace", "ml")]);
    let api = Api::start_tls(|_, _| Reply::ok(pods()));
    run(&machine, &api, "400")
        .assert(7, &["ca.crt", "the token of the service account is not sent"]);
    assert!(api.requests().is_empty(), "it came to no request");
}

#[test]
fn a_pod_without_an_account_is_refused_by_the_server() {
    let machine = pod_of(&[("ca.crt", &AUTHORITY.certificate)]);
    let api = Api::start_tls(|_, request| match bearer(request) {
        None => Reply::status(403),
        Some(_) => Reply::ok(pods()),
    });
    run(&machine, &api, "20000").assert(1, &["403", "/api/v1/namespaces/default/pods"]);
}

#[test]
fn a_watch_goes_by_tls_and_goes_on_with_the_token_of_the_moment() {
    let token = Arc::new(Mutex::new("secret-1".to_owned()));
    let server = Kubernetes::start_tls(Arc::clone(&token));
    let pod = |name: &str, address: &str| {
        json!({
            "metadata": {"name": name, "labels": {"job-name": "tensorflow"}},
            "status": {"phase": "Running", "podIP": address},
        })
    };
    server.put(PODS, pod("w-0", "10.1.0.1"));
    let account = [("token", "secret-1"), ("ca.crt", &AUTHORITY.certificate), ("namespace", "ml")];
    let machine = pod_of(&account);
    let (host, port) = server.api.host.split_once(':').unwrap();
    let variables = [("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", port)];
    let arguments = ["--resolver", "kubernetes", "--watch", "--interval", "3600000ms"];
    let process = Process::start("rondo cluster", &mut machine.command(&variables, &arguments));
    let next = || process.next_line(Duration::from_secs(60)).unwrap();
    assert!(next().contains("worker:0  10.1.0.1:8470"));
    server.wait_for_watches(1);
    // The token changes while the watch is open; the next connection has to have the new one.
    machine.write(&format!("{ACCOUNT}/token"), "secret-2");
    *token.lock().unwrap() = "secret-2".into();
    server.end_watches();
    server.wait_for_watches(2);
    server.put(PODS, pod("w-1", "10.1.0.2"));
    assert!(next().contains("worker:1  10.1.0.2:8470"));
    assert!(!process.log().contains("secret"), "{}", process.log());
}
