//! Google's APIs, compute v1 and tpu v1, well and ill, as
//! <https://cloud.google.com/compute/docs/reference/rest/v1> and
//! <https://cloud.google.com/tpu/docs/reference/rest> tell them.

use serde_json::{Value, json};

use crate::bed::{Api, Machine, Reply, Request, Said};

const ZONE: &str = "/compute/v1/projects/atlas/zones/eu-1";
const NODE: &str = "/v1/projects/atlas/locations/eu-1/nodes/pod-slice";

/// A refusal as Google words it.
fn refusal(code: u16, status: &str, message: &str) -> Reply {
    let error = json!({"code": code, "message": message, "status": status});
    Reply { status: code, ..Reply::ok(json!({"error": error})) }
}

fn run(api: &Api, resolver: &str, settings: &Value, timeout_ms: &str) -> Said {
    let mut settings = settings.clone();
    settings["api_server"] = json!(api.url());
    settings["project"] = json!("atlas");
    settings["zone"] = json!("eu-1");
    let settings = settings.to_string();
    let arguments = ["--resolver", resolver, "--settings", &settings, "--format", "json"];
    let arguments = [&arguments[..], &["--timeout-ms", timeout_ms]].concat();
    Machine::bare().run(&[("CLOUDSDK_AUTH_ACCESS_TOKEN", "ya29.mine")], &arguments)
}

fn group(api: &Api, timeout_ms: &str) -> Said {
    run(api, "gce", &json!({"instance_group": "team", "port": 2222}), timeout_ms)
}

fn tpu(api: &Api, timeout_ms: &str) -> Said {
    run(api, "tpu", &json!({"tpu": "pod-slice"}), timeout_ms)
}

/// A group of instances behind pages of one, of which each has an address when asked for the second time.
fn instances(count: usize) -> impl Fn(usize, &Request) -> Reply + Send + Sync {
    let asked = std::sync::Mutex::new(std::collections::BTreeSet::new());
    move |_, request| {
        let path = request.path.strip_prefix(ZONE).unwrap();
        if let Some(rest) = path.strip_prefix("/instanceGroups/team/listInstances?orderBy=name") {
            let body: Value = serde_json::from_str(&request.body).unwrap();
            assert_eq!(
                (request.method.as_str(), &body),
                ("POST", &json!({"instanceState": "RUNNING"}))
            );
            let page: usize =
                rest.strip_prefix("&pageToken=p").map_or(0, |page| page.parse().unwrap());
            let url = format!("https://www.googleapis.com{ZONE}/instances/i{page}");
            let mut list = json!({
                "kind": "compute#instanceGroupsListInstances",
                "items": [{"instance": url, "status": "RUNNING"}],
            });
            if page + 1 < count {
                list["nextPageToken"] = json!(format!("p{}", page + 1));
            }
            return Reply::ok(list);
        }
        let name = path.strip_prefix("/instances/i").unwrap().to_owned();
        let is_up = !asked.lock().unwrap().insert(name.clone());
        let address = is_up.then(|| format!("10.0.0.{name}"));
        Reply::ok(
            json!({"name": format!("i{name}"), "networkInterfaces": [{"networkIP": address}]}),
        )
    }
}

#[test]
fn a_group_of_many_pages_is_waited_for_until_all_have_addresses() {
    let api = Api::start(instances(12));
    let said = group(&api, "60000");
    said.assert(0, &[]);
    let spec = said.chosen()["cluster_spec"]["worker"].clone();
    assert_eq!(spec.as_array().unwrap().len(), 12, "{spec}");
    // In the order of texts, ports and all, as TensorFlow's class has them.
    assert_eq!((&spec[1], &spec[3]), (&json!("10.0.0.10:2222"), &json!("10.0.0.1:2222")));
}

#[test]
fn refusals_of_google_are_told_in_its_words() {
    let words = "Required 'compute.instanceGroups.list' permission for 'projects/atlas'";
    let api = Api::start(move |_, _| refusal(403, "PERMISSION_DENIED", words));
    let said = group(&api, "60000");
    said.assert(1, &["status 403", words, "listInstances"]);
    assert_eq!(said.json()["sources"][0]["fault"], "forbidden");
    assert_eq!(api.requests().len(), 1, "who refuses is not asked again");
    let api = Api::start(|_, _| refusal(404, "NOT_FOUND", "The resource 'team' was not found"));
    group(&api, "60000").assert(1, &["status 404", "The resource 'team' was not found"]);
    // What passes is waited out.
    for status in [429, 500, 503] {
        let up = instances(1);
        let api = Api::start(move |number, request| match number {
            0 => refusal(status, "UNAVAILABLE", "try again"),
            _ => up(number, request),
        });
        group(&api, "60000").assert(0, &[]);
        let api = Api::start(move |_, _| refusal(status, "UNAVAILABLE", "try again"));
        group(&api, "600").assert(7, &[&status.to_string(), "try again"]);
    }
    let api = Api::start(|_, _| Reply::ok(json!({"items": [{"instance": ""}]})));
    group(&api, "60000").assert(1, &["items[].instance", ZONE]);
}

#[test]
fn a_tpu_node_tells_its_endpoints_once_it_is_ready() {
    let endpoints =
        json!([{"ipAddress": "10.0.0.2", "port": 8470}, {"ipAddress": "10.0.0.3", "port": 8470}]);
    let node =
        move |state: &str| json!({"name": NODE, "state": state, "networkEndpoints": endpoints});
    let creating = node.clone();
    let api = Api::start(move |number, request| {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", NODE));
        assert_eq!(request.headers["authorization"], "Bearer ya29.mine");
        Reply::ok(node(if number == 0 { "CREATING" } else { "READY" }))
    });
    let said = tpu(&api, "60000");
    said.assert(0, &[]);
    let spec = json!({"worker": ["10.0.0.2:8470", "10.0.0.3:8470"]});
    assert_eq!(said.chosen()["cluster_spec"], spec);
    let api = Api::start(move |_, _| Reply::ok(creating("PREEMPTED")));
    tpu(&api, "600").assert(8, &["PREEMPTED", "not READY", "nodes/pod-slice"]);
}

#[test]
fn refusals_of_the_tpu_api_and_nodes_that_make_no_sense_are_its_failures() {
    let api =
        Api::start(|_, _| refusal(403, "PERMISSION_DENIED", "Permission 'tpu.nodes.get' denied"));
    tpu(&api, "60000").assert(1, &["status 403", "Permission 'tpu.nodes.get' denied"]);
    let api = Api::start(|_, _| refusal(404, "NOT_FOUND", "Resource 'pod-slice' was not found"));
    tpu(&api, "60000").assert(1, &["status 404", NODE]);
    let node =
        json!({"state": "READY", "networkEndpoints": [{"ipAddress": "10.0.0.2", "port": 70000}]});
    let api = Api::start(move |_, _| Reply::ok(&node));
    tpu(&api, "60000").assert(1, &["70000", NODE]);
}
