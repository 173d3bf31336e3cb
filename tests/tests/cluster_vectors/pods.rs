//! Pods of vectors, as the API lists them; and what a resolver that knows better makes of them.

use rondo_core::cluster::Json;

/// The list behind a path that ends in a label selector.
pub(crate) fn list(pods: &Json, path: &str) -> Option<Json> {
    let selector = path.split_once("labelSelector=")?.1.split('&').next()?;
    let items = pods.get(selector)?.as_list()?.iter().map(pod).collect();
    Some(Json::Map(vec![("items".into(), Json::List(items))]))
}

fn pod(short: &Json) -> Json {
    let map = |members: &[(&str, Option<&Json>)]| {
        let given = members.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        Json::Map(given.map(|(name, value)| (name.to_owned(), value.clone())).collect())
    };
    let metadata = map(&[("name", short.get("name")), ("labels", short.get("labels"))]);
    let status = [
        ("phase", short.get("phase")),
        ("hostIP", short.get("host_ip")),
        ("podIP", short.get("pod_ip")),
    ];
    map(&[("metadata", Some(&metadata)), ("status", Some(&map(&status)))])
}

/// The spec of a case by the addresses of the pods themselves, numbered as people count.
pub(crate) fn expected(case: &Json) -> Json {
    let args = case.get("args").unwrap();
    let port = args.get("tf_server_port").and_then(Json::as_u32).unwrap_or(8470);
    let default = Json::parse(r#"{"worker": ["job-name=tensorflow"]}"#).unwrap();
    let jobs = args.get("job_to_label_mapping").unwrap_or(&default);
    let pods = case.at(&["fake", "pods_by_selector"]).unwrap();
    let job =
        |(job, selectors): &(String, Json)| {
            let mut addresses = Vec::new();
            for selector in selectors.as_list().unwrap() {
                let mut found =
                    pods.get(selector.as_text().unwrap()).unwrap().as_list().unwrap().to_vec();
                found.sort_by_key(|pod| numbered(pod.text_at(&["name"]).unwrap()));
                addresses.extend(found.iter().map(|pod| {
                    Json::text(format!("{}:{port}", pod.text_at(&["pod_ip"]).unwrap()))
                }));
            }
            (job.clone(), Json::List(addresses))
        };
    Json::Map(jobs.as_map().unwrap().iter().map(job).collect())
}

/// A name and the number at its end.
fn numbered(name: &str) -> (String, u64) {
    let stem = name.trim_end_matches(|sign: char| sign.is_ascii_digit());
    (stem.into(), name[stem.len()..].parse().unwrap_or_default())
}
