//! Answers of APIs: any bytes are read, or refused in words, in a bounded number of questions.

use proptest::prelude::*;
use proptest::sample::select;
use rondo_core::cluster::{Answer, Environment, HttpAnswer, Json, Question, described, resolve};

use super::asked::{RESOLVERS, answer, watch};

/// Pieces of which documents of APIs are made.
const PIECES: [&str; 36] = [
    r#"{"items": ["#,
    r#"]}"#,
    r#","#,
    r#"{"metadata": {"name": "p-1", "labels": {"job-name": "j"}}, "status": {"phase": "Running",
        "podIP": "10.0.0.1", "hostIP": "10.0.0.9"}}"#,
    r#"{"metadata": {"name": "p-0"}, "status": {"phase": "Pending"}}"#,
    r#"{"metadata": {"name": "p-2", "annotations": {"batch.kubernetes.io/job-completion-index": "7"},
        "deletionTimestamp": "x"}}"#,
    r#"{"metadata": {}}"#,
    r#"{"metadata": {"name": "j"}, "spec": {"parallelism": 3, "subdomain": "s"}}"#,
    r#"{"metadata": {"name": "j", "labels": {"jobset.sigs.k8s.io/jobset-name": "set",
        "jobset.sigs.k8s.io/global-replicas": "2"}}, "spec": {"parallelism": 4294967295}}"#,
    r#"{"metadata": {"labels": {"job-name": "j"}, "ownerReferences": [{"kind": "Job",
        "controller": true}]}, "spec": {"subdomain": "s"}}"#,
    r#"{"items": [], "metadata": {"continue": "again"}}"#,
    r#"{"items": [{"instance": "https://a/b/i-1"}, {"instance": "x/i-2"}], "nextPageToken": "again"}"#,
    r#"{"items": [{"instance": "https://a/b/i-1"}]}"#,
    r#"{"networkInterfaces": [{"networkIP": "10.0.0.3"}]}"#,
    r#"{"networkInterfaces": []}"#,
    r#"{"state": "READY", "networkEndpoints": [{"ipAddress": "10.2.3.4", "port": 8470}]}"#,
    r#"{"state": "READY", "ipAddress": "fd00::1", "port": "8470"}"#,
    r#"{"state": "CREATING"}"#,
    r#"{"items": [{"ports": [{"name": "p", "port": 8470}], "endpoints": [{"addresses": ["10.0.0.1"],
        "hostname": "w-1"}, {"addresses": ["10.0.0.2"], "hostname": "w-0", "conditions":
        {"ready": false}}]}]}"#,
    r#"{"worker": {"3": "a:1"}}"#,
    r#"{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}"#,
    r#"{"items": [], "metadata": {"resourceVersion": "7"}}"#,
    r#"{"type": "ADDED", "object": {"metadata": {"resourceVersion": "8"}}}"#,
    r#"{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9&watch=0"}}}"#,
    r#"{"type": "ERROR", "object": {"code": 410}}"#,
    r#"{"type": "ERROR", "object": {"code": 403, "message": "no"}}"#,
    r#"{"type": "BOOKMARK", "object": {}}"#,
    "project-1",
    "projects/1/zones/z",
    "\u{1}",
    "\u{2}",
    "\u{3}",
    "0=[\"a\",\"b\"]",
    "1=h0,h1",
    "n0:0:10.0.0.1,n1:1:10.0.0.2",
    "MEGASCALE_NUM_SLICES: '3'\nMEGASCALE_SLICE_ID: '2'",
];

proptest! {
    #[test]
    fn any_answer_is_read_or_refused(
        which in 0..16_u8,
        pieces in prop::collection::vec(
            (prop_oneof![4 => select(&PIECES).prop_map(String::from), 1 => "\\PC{0,12}"], any::<bool>()),
            0..10,
        ),
    ) {
        let mut bytes = vec![which];
        for (piece, ends) in pieces {
            bytes.extend(piece.bytes());
            if ends {
                bytes.push(0);
            }
        }
        answer(&bytes);
        watch(&bytes);
    }
}

#[test]
fn pages_without_end_are_refused() {
    for which in [0, 5] {
        let page = if which == 0 { PIECES[10] } else { r#"{"nextPageToken": "again"}"# };
        let settings = Json::parse(RESOLVERS[which]).unwrap();
        let mut resolver = described(&settings).unwrap();
        let mut count = 0;
        let refused = resolve(
            Environment::new(),
            |seen| resolver.cluster_spec(seen),
            |question| match question {
                Question::Http(request) if request.url.contains("/computeMetadata/") => {
                    Answer::Http(Ok(HttpAnswer { status: 200, body: "x".into() }))
                }
                Question::Http(_) => {
                    count += 1;
                    let body = page.replace("again", &format!("again{count}"));
                    Answer::Http(Ok(HttpAnswer { status: 200, body }))
                }
                _ => Answer::File(Ok(None)),
            },
        );
        let refused = refused.unwrap_err();
        assert!(refused.text.contains("more than 1024 pages"), "{refused}");
        assert_eq!(count, 1024);
    }
}
