//! Kubernetes' own client takes the tests' API server for one: what rondo is tested against is no invention.

use std::time::Duration;

use rondo_tests::kubernetes::{python, watch_pods};
use serde_json::{Value, json};

use crate::kubernetes::{Kubernetes, PODS};

const PATIENCE: Duration = Duration::from_secs(120);

fn pod(name: &str, address: &str) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"job-name": "train"}},
        "status": {"phase": "Running", "podIP": address},
    })
}

#[test]
fn kubernetes_own_client_lists_and_watches_the_fake() {
    let Some(python) = python() else { return };
    let server = Kubernetes::start();
    for (name, address) in [("a", "10.1.0.1"), ("b", "10.1.0.2"), ("c", "10.1.0.3")] {
        server.put(PODS, pod(name, address));
    }
    let client = watch_pods(python, &server.api.url(), "ml", "job-name=train");
    let next = || client.next_line(PATIENCE).unwrap();
    assert_eq!([next(), next()], ["page a,b 103", "page c 103"]);
    server.wait_for_watches(1);
    server.put(PODS, pod("d", "10.1.0.4"));
    server.put(PODS, pod("a", "10.1.0.9"));
    server.delete(PODS, "b");
    assert_eq!(
        [next(), next(), next()],
        ["ADDED d 10.1.0.4", "MODIFIED a 10.1.0.9", "DELETED b 10.1.0.2"]
    );
    let version = server.bookmark();
    assert_eq!(next(), format!("BOOKMARK {version}"));
    // When the connection ends it goes on from the last event, and makes nothing of bookmarks.
    server.end_watches();
    server.wait_for_watches(2);
    let (lists, watches) = server.asked();
    assert_eq!(lists.len(), 2, "{lists:?}");
    assert!(watches[1].contains(&format!("resourceVersion={}", version - 1)), "{watches:?}");
    server.put(PODS, pod("e", "10.1.0.5"));
    assert_eq!(next(), "ADDED e 10.1.0.5");
    // What is forgotten is status 410 to it, told as a status and as an event.
    for tells_by_event in [false, true] {
        let client = watch_pods(python, &server.api.url(), "ml", "job-name=train");
        let pages = [client.next_line(PATIENCE), client.next_line(PATIENCE)].map(Option::unwrap);
        assert!(pages.iter().all(|line| line.starts_with("page ")), "{pages:?}");
        server.wait_for_watches(server.asked().1.len().max(3));
        server.forget(tells_by_event);
        server.end_watches();
        assert_eq!(client.line_with("failed", PATIENCE).unwrap(), "failed 410");
    }
}
