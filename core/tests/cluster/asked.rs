//! Resolvers whose answers are any bytes.

use rondo_core::cluster::kubernetes::Watch;
use rondo_core::cluster::{
    ADDRESS_KEYS, Answer, ClusterSpec, Coordinated, Environment, HttpAnswer, Jax, Json, MasterOf,
    Question, Service, Standing, described, resolve,
};
use rondo_core::limits::{CLUSTER_QUESTIONS_MAX, CLUSTER_TASKS_MAX};

/// Resolvers that ask, with the least settings.
pub(crate) const RESOLVERS: [&str; 11] = [
    r#"{"resolver": "kubernetes", "api_server": "http://api"}"#,
    r#"{"resolver": "kubernetes", "api_server": "http://api", "unready": "leave_out",
        "address": "host", "order": "name"}"#,
    r#"{"resolver": "kubernetes_job"}"#,
    r#"{"resolver": "kubernetes_service", "service": "s", "api_server": "http://api"}"#,
    r#"{"resolver": "kubernetes_service", "service": "s", "port_name": "p", "unready": "leave_out"}"#,
    r#"{"resolver": "gce", "instance_group": "g", "port": 8470}"#,
    r#"{"resolver": "tpu", "tpu": "t", "coordinator_name": "c", "coordinator_address": "c:1"}"#,
    r#"{"resolver": "dns", "name": "_p._tcp.s"}"#,
    r#"{"resolver": "file", "path": "f"}"#,
    r#"{"resolver": "sagemaker"}"#,
    r#"{"resolver": "rondo", "server": "s:1", "task_id": 1, "unready": "leave_out", "wait_for": 1}"#,
];
const STATUSES: [u16; 6] = [200, 404, 403, 500, 302, 410];

/// One resolver, whose answers are these bytes: the first says which, zeros part the answers, and an answer
/// that begins with a control character has another status than 200. Whether a cluster or a process comes of
/// it.
pub(crate) fn answer(bytes: &[u8]) -> bool {
    let (which, mut told) = told_by(bytes);
    let environment = told.environment();
    let after_environment = told.next;
    let Some(settings) = RESOLVERS.get(which) else { return jax(environment, &mut told) };
    let settings = Json::parse(settings).unwrap();
    let mut resolver = described(&settings).unwrap();
    let spec =
        resolve(environment.clone(), |seen| resolver.cluster_spec(seen), |it| told.answer(it));
    match &spec {
        Ok(spec) => {
            assert!(spec.tasks_count() <= CLUSTER_TASKS_MAX);
            assert_eq!(ClusterSpec::of_json(&spec.to_json()).as_ref(), Ok(spec));
        }
        Err(error) => assert!(!error.about.is_empty() && error.text.len() < 4096, "{error:?}"),
    }
    told.next = after_environment;
    let of = MasterOf::default();
    let master = resolve(environment, |seen| resolver.master(seen, &of), |it| told.answer(it));
    let is_found = spec.is_ok();
    if let (Ok(spec), Ok(master)) = (spec, master) {
        let is_known = spec.iter().any(|(_, _, address)| master.ends_with(address));
        assert!(master.is_empty() || is_known, "{master} is nobody's address");
    }
    assert!(told.asked <= 2 * CLUSTER_QUESTIONS_MAX);
    is_found
}

/// The resolver that these bytes name, and what it is told.
fn told_by(bytes: &[u8]) -> (usize, Told) {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let pieces: Vec<String> = rest
        .split(|byte| *byte == 0)
        .map(|piece| String::from_utf8_lossy(piece).into_owned())
        .collect();
    (usize::from(*first) % (RESOLVERS.len() + 1), Told { pieces, next: 0, asked: 0 })
}

/// Takes the lines of these bytes, read as [`answer`] reads them, for lines of the watches over what the
/// resolver lists. Returns how many were understood.
pub(crate) fn watch(bytes: &[u8]) -> usize {
    let (which, mut told) = told_by(bytes);
    let environment = told.environment();
    let Some(settings) = RESOLVERS.get(which) else { return 0 };
    let resolver = described(&Json::parse(settings).unwrap()).unwrap();
    let watches = resolve(environment, |seen| resolver.watches(seen), |it| told.answer(it));
    let mut understood = 0;
    for mut watch in watches.unwrap_or_default() {
        let lines = told.pieces.iter().flat_map(|piece| piece.split('\n'));
        understood += lines.filter(|line| take_line(&mut watch, line)).count();
    }
    understood
}

/// Whether a line of a watch is an event. Another reader of JSON must see the same event.
fn take_line(watch: &mut Watch, line: &str) -> bool {
    let before = watch.clone();
    let event: serde_json::Value = match watch.line(line) {
        Err(error) => {
            assert!(!error.about.is_empty() && error.text.len() < 4096, "{error:?}");
            assert_eq!(*watch, before, "a refused line changes nothing");
            return false;
        }
        Ok(looks_again) => {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(looks_again, event["type"] != "BOOKMARK", "{line}");
            event
        }
    };
    match event["type"].as_str() {
        Some("BOOKMARK") => {
            let url = watch.request().url;
            let (_, rest) = url.split_once("resourceVersion=").unwrap();
            let version = event["object"]["metadata"]["resourceVersion"].as_str().unwrap();
            assert_eq!(plain(rest.split('&').next().unwrap()), version.as_bytes());
        }
        Some("ADDED" | "MODIFIED" | "DELETED") => {
            assert!(event["object"]["metadata"]["resourceVersion"].is_string(), "{line}");
        }
        Some("ERROR") => assert_eq!(event["object"]["code"], 410, "{line}"),
        other => panic!("{other:?} is no event"),
    }
    true
}

/// The bytes that a part of a URL stands for.
fn plain(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut all = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (byte, rest) = part.split_at(2);
        all.push(u8::from_str_radix(byte, 16).unwrap());
        all.extend(rest.bytes());
    }
    all
}

fn jax(environment: Environment, told: &mut Told) -> bool {
    let jax = Jax::default();
    let found = resolve(environment, |seen| jax.process(seen), |it| told.answer(it));
    if let Ok(found) = &found {
        assert!(
            found.rank.is_none_or(|rank| found.size.is_none_or(|size| rank < size)),
            "{found:?}"
        );
    }
    found.is_ok()
}

struct Told {
    pieces: Vec<String>,
    next: usize,
    asked: usize,
}

impl Told {
    fn environment(&mut self) -> Environment {
        let own = self.piece();
        let names = [
            "SM_HOSTS",
            "TPU_WORKER_HOSTNAMES",
            "OMPI_MCA_orte_hnp_uri",
            "SLURM_STEP_NODELIST",
            "JOB_COMPLETION_INDEX",
            "TPU_WORKER_ID",
        ];
        let fixed = [
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("HOSTNAME", "pod"),
            ("SM_CURRENT_HOST", "a"),
            ("JOB_COMPLETION_INDEX", "1"),
        ];
        let mut all: Environment =
            fixed.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let pairs = own.split('\n').filter_map(|line| line.split_once('='));
        for (which, value) in pairs {
            let which = which.bytes().next().map_or(0, usize::from) % names.len();
            all.insert(names[which].into(), value.into());
        }
        all
    }

    /// The next piece; after the last one the last again.
    fn piece(&mut self) -> String {
        let piece = self.pieces.get(self.next).or(self.pieces.last()).cloned().unwrap_or_default();
        self.next += 1;
        piece
    }

    fn answer(&mut self, question: &Question) -> Answer {
        self.asked += 1;
        let piece = self.piece();
        match question {
            Question::File(_) => Answer::File(Ok((!piece.is_empty()).then_some(piece))),
            Question::Http(_) => {
                let sign = piece.bytes().next().filter(|sign| *sign < b' ' && *sign != b'\n');
                let status = sign.map_or(200, |sign| STATUSES[usize::from(sign) % STATUSES.len()]);
                Answer::Http(Ok(HttpAnswer { status, body: piece }))
            }
            Question::Host(_) => Answer::Host(Ok(vec!["10.1.0.5".parse().unwrap()])),
            Question::Services(_) => {
                let service = |line: &str| Service {
                    priority: 0,
                    weight: 0,
                    target: line.into(),
                    port: line.len() as u16,
                };
                Answer::Services(Ok(piece.split('\n').map(service).collect()))
            }
            Question::Devices => Answer::Devices(Ok(piece.split('\n').map(String::from).collect())),
            Question::Gpus => Answer::Gpus(Ok(1)),
            Question::TpuMachine => Answer::TpuMachine(true),
            Question::Mpi => Answer::Mpi(None),
            Question::Coordination(_) => Answer::Coordination(Ok(coordinated(&piece))),
        }
    }
}

/// A task a line, its number the length of the part before `=`; behind it, its address.
fn coordinated(piece: &str) -> Coordinated {
    let mut told = Coordinated::default();
    for line in piece.split('\n') {
        let (own, address) = line.split_once('=').unwrap_or((line, ""));
        let standing = match own.bytes().next() {
            Some(b'a') => Standing::Absent,
            Some(b'e') => Standing::Error(own.into()),
            _ => Standing::Connected,
        };
        told.tasks.push((own.len() as u32, standing));
        told.keys.push((format!("{ADDRESS_KEYS}/{}", own.len()), address.as_bytes().to_vec()));
    }
    told
}
