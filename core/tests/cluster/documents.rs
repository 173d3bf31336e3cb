//! `TF_CONFIG` and other documents.

use proptest::prelude::*;
use rondo_core::cluster::{
    ClusterResolver, ClusterSpec, Fault, Json, MasterOf, StaticFile, TfConfig,
};
use rondo_core::limits::CLUSTER_DOCUMENT_BYTES_MAX;

use super::reading;
use super::tf_config::tf_config;
use super::world::World;

#[test]
fn documents_have_a_bound() {
    let mut text = format!("7{}", " ".repeat(CLUSTER_DOCUMENT_BYTES_MAX - 1));
    assert_eq!(Json::parse(&text), Json::parse("7"), "it just fits");
    text.push(' ');
    let refused = Json::parse(&text).unwrap_err().to_string();
    assert!(refused.contains("more than the 67108864 that a document may have"), "{refused}");
}

#[test]
fn errors_name_the_field_and_the_text() {
    let cases = [
        (r#"{"cluster": {"w": "a:1"}}"#, "TF_CONFIG.cluster.w: \"\\\"a:1\\\"\" is a text"),
        (r#"{"cluster": {"w": ["a", 3]}}"#, "TF_CONFIG.cluster.w.1: \"3\" is a number"),
        (r#"{"cluster": {"w": {"x": "a"}}}"#, "TF_CONFIG.cluster.w: \"x\" is no index"),
        (r#"{"cluster": {"w": {"-1": "a"}}}"#, "TF_CONFIG.cluster.w: \"-1\" is no index"),
        (r#"{"cluster": {"w": {"1": "a", "01": "b"}}}"#, "task 1 is given twice"),
        (r#"{"cluster": {"": []}}"#, "TF_CONFIG.cluster: \"\" is no name of a job"),
        (r#"{"cluster": null}"#, "TF_CONFIG.cluster: \"null\" is null"),
        (r#"{"cluster": "#, "is no JSON: the document ends where a value should be at byte 12"),
    ];
    for (text, wanted) in cases {
        let mut world = World::of(&[("TF_CONFIG", text)]);
        let refused = world.call(|seen| TfConfig::default().cluster_spec(seen)).unwrap_err();
        assert!(refused.to_string().contains(wanted), "{refused} does not say {wanted}");
    }
    for index in ["1.9", "true", "-1", "\"one\"", "null", "4294967296"] {
        let text = format!(r#"{{"task": {{"type": "worker", "index": {index}}}}}"#);
        let mut world = World::of(&[("TF_CONFIG", &text)]);
        let refused = world.call(|seen| TfConfig::default().task_id(seen)).unwrap_err();
        assert_eq!(
            (refused.fault, refused.about.as_str()),
            (Fault::Malformed, "TF_CONFIG.task.index")
        );
        assert!(refused.text.contains(index.trim_matches('"')), "{refused}");
    }
}

#[test]
fn a_spec_with_a_far_hole_is_not_padded() {
    let text = r#"{"cluster": {"worker": {"2147483647": "a:1"}}, "task": {"type": "worker",
        "index": 2147483647}}"#;
    let mut world = World::of(&[("TF_CONFIG", text)]);
    let spec = world.call(|seen| TfConfig::default().cluster_spec(seen)).unwrap();
    assert_eq!(spec.job_tasks("worker").unwrap_err().fault, Fault::TooLarge);
    let master = world.call(|seen| TfConfig::default().master(seen, &MasterOf::default()));
    assert_eq!(master.as_deref(), Ok("a:1"));
}

#[test]
fn a_file_is_read_anew_each_time() {
    let mut world = World::default().file("/etc/cluster.json", r#"{"worker": ["a:1"]}"#);
    let mut file = StaticFile { path: "/etc/cluster.json".into(), ..StaticFile::default() };
    let before = world.call(|seen| file.cluster_spec(seen)).unwrap();
    assert_eq!(before, ClusterSpec::dense("worker", ["a:1"]).unwrap());
    let now = r#"{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1},
        "rpc_layer": "grpc"}"#;
    let mut world = world.file("/etc/cluster.json", now);
    assert_eq!(world.call(|seen| file.cluster_spec(seen)).unwrap().tasks_count(), 2);
    let master = world.call(|seen| file.master(seen, &MasterOf::default()));
    assert_eq!(master.as_deref(), Ok("grpc://b:2"));
    let mut world = world.file("/etc/cluster.json", "[1]");
    let refused = world.call(|seen| file.cluster_spec(seen)).unwrap_err();
    assert_eq!(refused.about, "/etc/cluster.json");
    world.files.clear();
    let refused = world.call(|seen| file.cluster_spec(seen)).unwrap_err();
    assert_eq!(refused.to_string(), "/etc/cluster.json: there is no such file");
}

#[test]
fn deep_documents_are_refused() {
    let deep = "[".repeat(100_000);
    assert!(Json::parse(&deep).unwrap_err().why.contains("deeper than 64 levels"));
}

#[test]
fn odd_json_is_read_as_by_another_reader() {
    for text in [
        "",
        " ",
        "nul",
        "truee",
        "01",
        "-",
        "-0",
        "1.",
        ".5",
        "1e",
        "1E+2",
        "1e999",
        "[1,]",
        "{\"a\":1,}",
        "[,]",
        "\"\\u00e9\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\ud83dx\"",
        "\"\\udc00\"",
        "\"\\x\"",
        "\"\u{1}\"",
        "{\"a\":1,\"a\":2}",
        "[] []",
        "{1:2}",
        "\"",
        "\u{feff}1",
        "[\"a\"\n, null\t]",
        "\"\\u+123\"",
    ] {
        reading::json(text);
    }
}

fn document() -> impl Strategy<Value = String> {
    let address = prop_oneof!["[a-c]:[0-9]", Just("\"".to_owned()), Just("1".to_owned())];
    let list = prop::collection::vec(address.clone().prop_map(|it| format!("{it:?}")), 0..4)
        .prop_map(|list| format!("[{}]", list.join(",")));
    let map = prop::collection::vec((0..5_u32, address), 0..4).prop_map(|map| {
        let member = |(index, address): &(u32, String)| format!("\"{index}\":{address:?}");
        format!("{{{}}}", map.iter().map(member).collect::<Vec<_>>().join(","))
    });
    let job = (prop_oneof!["w", "ps", ""], prop_oneof![list, map, Just("null".to_owned())]);
    let cluster = prop::collection::vec(job, 0..3).prop_map(|jobs| {
        let member = |(job, tasks): &(String, String)| format!("{job:?}:{tasks}");
        format!("{{{}}}", jobs.iter().map(member).collect::<Vec<_>>().join(","))
    });
    let index = prop_oneof!["[0-4]", "\"[0-4]\"", Just("1.5".to_owned())];
    (cluster, prop_oneof!["w", "ps"], index, prop_oneof!["", ",\"rpc_layer\":\"grpc\""]).prop_map(
        |(cluster, job, index, layer)| {
            format!(
                "{{\"cluster\":{cluster},\"task\":{{\"type\":{job:?},\"index\":{index}}}{layer}}}"
            )
        },
    )
}

proptest! {
    #[test]
    fn any_document_is_read_or_refused(text in document()) {
        tf_config(&text);
        reading::json(&text);
    }

    #[test]
    fn any_text_is_json_or_not(text in "[{}\\[\\],:\"0-9a-f.\\\\u -]{0,20}|\\PC{0,16}") {
        tf_config(&text);
        reading::json(&text);
    }
}
