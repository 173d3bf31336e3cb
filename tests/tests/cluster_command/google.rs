//! Compute Engine: the metadata server, its tokens, instance groups and TPU machines.

use std::time::Duration;

use serde_json::json;

use crate::bed::{Api, Machine, Reply, Request, Said};

const TOKEN: &str = "ya29.secret-of-the-machine";
const METADATA: &str = "/computeMetadata/v1/";

/// The metadata server and the API in one.
fn google(_: usize, request: &Request) -> Reply {
    if let Some(key) = request.path.strip_prefix(METADATA) {
        if request.headers.get("metadata-flavor").map(String::as_str) != Some("Google") {
            return Reply::status(403);
        }
        let reply = match key {
            "project/project-id" => Reply::ok("atlas"),
            "instance/zone" => Reply::ok("projects/17/zones/eu-1"),
            "instance/service-accounts/default/token" => {
                Reply::ok(json!({"access_token": TOKEN, "expires_in": 3599}))
            }
            "instance/attributes/agent-worker-number" => Reply::ok("1"),
            "instance/attributes/worker-network-endpoints" => {
                Reply::ok("x:0:127.0.0.1,x:1:127.0.0.2")
            }
            _ => Reply::status(404),
        };
        return reply.of_metadata();
    }
    let zone = "/compute/v1/projects/atlas/zones/eu-1";
    if request.headers.get("authorization") != Some(&format!("Bearer {TOKEN}")) {
        return Reply::status(401);
    }
    let of = |name: &str| json!({"instance": format!("https://x{zone}/instances/{name}")});
    let path = request.path.strip_prefix(zone).unwrap_or_default();
    match (request.method.as_str(), path) {
        ("POST", "/instanceGroups/team/listInstances?orderBy=name") => {
            Reply::ok(json!({"items": [of("b")], "nextPageToken": "two"}))
        }
        ("POST", "/instanceGroups/team/listInstances?orderBy=name&pageToken=two") => {
            Reply::ok(json!({"items": [of("a")]}))
        }
        ("GET", "/instances/a") => {
            Reply::ok(json!({"networkInterfaces": [{"networkIP": "10.0.0.1"}]}))
        }
        ("GET", "/instances/b") => {
            Reply::ok(json!({"networkInterfaces": [{"networkIP": "10.0.0.2"}]}))
        }
        _ => Reply::status(404),
    }
}

fn group(metadata: &Api, api_server: &str, more: &[(&str, &str)], timeout: &str) -> Said {
    let settings = json!({"instance_group": "team", "port": 2222, "api_server": api_server});
    let settings = settings.to_string();
    let mut variables = vec![("GCE_METADATA_HOST", metadata.host.as_str())];
    variables.extend(more);
    let arguments =
        ["--resolver", "gce", "--settings", &settings, "--format", "json", "--timeout-ms", timeout];
    let said = Machine::bare().run(&variables, &arguments);
    assert!(!said.err.contains(TOKEN) && !said.out.contains(TOKEN), "the token is shown");
    said
}

#[test]
fn an_instance_group_is_listed_with_the_machines_own_token() {
    let api = Api::start(google);
    let said = group(&api, &api.url(), &[], "10000");
    said.assert(0, &[]);
    let spec = json!({"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]});
    assert_eq!(said.chosen()["cluster_spec"], spec);
    let tokens = |request: &&Request| request.path.ends_with("/token");
    assert_eq!(api.requests().iter().filter(tokens).count(), 1, "asked for once a call");
}

#[test]
fn a_users_own_token_is_taken_and_a_wrong_one_refused() {
    let api = Api::start(google);
    let variable = "CLOUDSDK_AUTH_ACCESS_TOKEN";
    group(&api, &api.url(), &[(variable, TOKEN)], "10000").assert(0, &[]);
    group(&api, &api.url(), &[(variable, "wrong")], "10000").assert(1, &["401", "listInstances"]);
    assert!(!api.requests().iter().any(|request| request.path.ends_with("/token")));
}

#[test]
fn a_token_goes_to_no_other_host_in_the_clear() {
    let api = Api::start(google);
    let said = group(&api, "http://192.0.2.1:1", &[], "300");
    said.assert(7, &["192.0.2.1", "https:// is wanted"]);
}

#[test]
fn a_machine_without_an_account_says_where_a_token_was_looked_for() {
    let api = Api::start(|number, request| match request.path.ends_with("/token") {
        true => Reply::status(404),
        false => google(number, request),
    });
    let said = group(&api, &api.url(), &[], "300");
    said.assert(7, &["no access token", "service-accounts/default/token", "404"]);
}

#[test]
fn a_host_that_only_has_the_metadata_servers_address_is_not_believed() {
    let api = Api::start(|number, request| Reply { of_metadata: false, ..google(number, request) });
    group(&api, &api.url(), &[], "300").assert(7, &["without Metadata-Flavor: Google"]);
}

fn tpu_machine() -> Machine {
    Machine::bare()
        .file("/dev/accel0", "")
        .file("/sys/bus/pci/devices/0000:00:04.0/vendor", "0x1ae0\n")
        .file("/sys/class/dmi/id/product_name", "Google Compute Engine\n")
}

#[test]
fn a_tpu_machine_tells_its_place_in_the_slice() {
    let api = Api::start(google);
    let said = tpu_machine().run(&[("GCE_METADATA_IP", &api.host)], &["--format", "json"]);
    said.assert(0, &[]);
    let found = said.chosen();
    assert_eq!(found["source"], "tpu_gce");
    assert_eq!((&found["rank"], &found["size"]), (&json!(1), &json!(2)));
    assert_eq!(found["coordinator"], "127.0.0.1:8482");
}

#[test]
fn a_metadata_server_that_says_nothing_holds_nobody_up() {
    let api = Api::start(|_, _| Reply::ok("").after(Duration::from_secs(60)));
    let arguments = ["--timeout", "900ms", "--request-timeout", "300ms"];
    let said = tpu_machine().run(&[("GCE_METADATA_HOST", &api.host)], &arguments);
    said.assert(7, &["computeMetadata", "no answer within"]);
    assert!(said.took < Duration::from_secs(20), "{:?}", said.took);
}
