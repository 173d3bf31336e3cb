//! The command line as parsed in-process.

use std::path::Path;
use std::time::Duration;

use rondo_core::dispatcher::{self, DeploymentMode};
use rondo_core::time::Duration as Span;

use super::*;
use crate::config::{Config, Storage};
use crate::store::StoreKind;
use resolve::{Home, keys_above_memory, resolve};

fn arguments(given: &[&str]) -> Vec<OsString> {
    ["rondo", "serve"].iter().chain(given).map(OsString::from).collect()
}

fn config(given: &[&str]) -> Result<Config, String> {
    let parsed = parse(arguments(given)).map_err(|refusal| match refusal {
        Refusal::Clap(error) => error.to_string(),
        Refusal::Failure(failure) => failure.text,
    })?;
    let (Cli { command: Command::Serve(args) }, settings) = parsed else { panic!("not serve") };
    let home = Home { state: None, home: Some("/home/someone".into()) };
    resolve(&args, &settings, &home)
}

/// The file lives as long as the first part.
fn file(text: &str) -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let flag = format!("--config={}", file.path().display());
    (file, flag)
}

#[test]
fn the_command_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn defaults_are_tensorflows_but_for_drawn_ids() {
    let config = config(&[]).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:5050");
    let tensorflows = dispatcher::Config::default();
    assert_eq!(config.dispatcher, dispatcher::Config { ids_above: None, ..tensorflows });
    assert_eq!(config.protocol_version, 9);
    let Storage::Directory { path, store, .. } = config.storage else { panic!("in memory") };
    assert_eq!(path, Path::new("/home/someone/.local/state/rondo"));
    assert_eq!(store, None);
}

/// In numbers: a default that changes in both places would pass the test above.
#[test]
fn a_client_may_be_silent_for_300_seconds() {
    let five_minutes = Span::from_secs(300);
    assert_eq!(dispatcher::Config::default().client_timeout, five_minutes);
    assert_eq!(config(&[]).unwrap().dispatcher.client_timeout, five_minutes);
    let zero = config(&["--client-timeout=0"]).unwrap();
    assert_eq!(zero.dispatcher.client_timeout, five_minutes, "0 is the default");
}

#[test]
fn a_rendezvous_is_hosted_if_asked_for() {
    assert_eq!(config(&["--rendezvous-step-size-max=7"]).unwrap().rendezvous, None);
    let defaults = config(&["--rendezvous", "--memory-max=none"]).unwrap().rendezvous.unwrap();
    let expected = rondo_core::rendezvous::Config {
        devices: [("/device:CPU:0".to_owned(), 0)].into(),
        session: defaults.machine.session.clone(),
        ..Default::default()
    };
    assert_eq!(defaults.machine, expected, "the machine's own defaults");
    assert_eq!(&*defaults.machine.session.unwrap().worker_name, "/job:worker/replica:0/task:0");
    let given = config(&[
        "--rendezvous",
        "--rendezvous-peer=/job:w/replica:0/task:1=host:1",
        "--rendezvous-step-expiry=0",
        "--rendezvous-cache-rpc-response",
    ]);
    let given = given.unwrap().rendezvous.unwrap();
    assert_eq!(given.peers["/job:w/replica:0/task:1"], "host:1");
    assert_eq!((given.machine.step_expiry, given.machine.caches_responses), (None, true));
    let refused = config(&["--rendezvous-worker=w"]).unwrap_err();
    assert!(refused.contains("/job:NAME/replica:N/task:N"), "{refused}");
}

#[test]
fn progress_is_watched_when_a_key_is_named() {
    let progress = |given: &[&str]| {
        let given = [given, &["--namespace=other=0:3"]].concat();
        let namespaces = config(&given)?.coordination.namespaces;
        let all: Vec<_> = namespaces.into_iter().map(|namespace| namespace.progress).collect();
        assert!(all.len() == 2 && all[0] == all[1], "each namespace's alike: {all:?}");
        Ok::<_, String>(all[0].as_ref().map(|found| (found.key.to_string(), found.timeout)))
    };
    let watched = |key: &str, ms| Ok(Some((key.to_owned(), Span::from_millis(ms))));
    assert_eq!(progress(&[]), Ok(None));
    assert_eq!(progress(&["--progress-timeout=7s"]), Ok(None), "of no key");
    assert_eq!(progress(&["--progress-key=step"]), watched("step", 300_000));
    for (text, key) in [("/step/", "step"), ("a//b/", "a/b"), ("a b", "a b")] {
        let given = [&*format!("--progress-key={text}"), "--progress-timeout=1500ms"];
        assert_eq!(progress(&given), watched(key, 1500), "{text}");
    }
    for text in ["", "/", "//"] {
        let refused = progress(&[&format!("--progress-key={text}")]).unwrap_err();
        assert!(refused.contains("directory of keys"), "{refused}");
    }
    for text in ["0", "0ms", "0s"] {
        let given = ["--progress-key=step", &*format!("--progress-timeout={text}")];
        let refused = progress(&given).unwrap_err();
        assert!(refused.contains("--progress-timeout is 0"), "{refused}");
    }
    for text in ["soon", "-1s", "1.5s", ""] {
        let refused = progress(&[&format!("--progress-timeout={text}")]).unwrap_err();
        assert!(refused.contains("--progress-timeout"), "{refused}");
    }
}

#[test]
fn the_words_of_tensorflows_tests_are_understood() {
    let config = config(&[
        "--port=4711",
        "--data=",
        "--fault-tolerant=false",
        "--job-gc-check-interval-ms=0",
        "--job-gc-timeout-ms=-1",
        "--client-timeout-ms=0",
        "--worker-timeout-ms=200",
        "--gc-dynamic-sharding-jobs=true",
        "--worker-addresses=",
        "--deployment-mode=2",
        "--worker-max-concurrent-snapshots=0",
        "--protocol=grpc",
    ])
    .unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:4711");
    assert_eq!(config.storage, Storage::Memory);
    let dispatcher = config.dispatcher;
    let default = dispatcher::Config::default();
    assert!(!dispatcher.fault_tolerant && dispatcher.gc_dynamic_sharding_jobs);
    assert_eq!(dispatcher.job_gc_check_interval, default.job_gc_check_interval);
    assert_eq!(dispatcher.job_gc_timeout, None);
    assert_eq!(dispatcher.client_timeout, default.client_timeout);
    assert_eq!(dispatcher.worker_timeout, Some(Span::from_millis(200)));
    assert_eq!(dispatcher.worker_addresses, Vec::<String>::new());
    assert_eq!(dispatcher.deployment_mode, DeploymentMode::Remote);
}

#[test]
fn a_negative_worker_timeout_loses_no_worker() {
    let timeout = |flag: &str| config(&[flag]).unwrap().dispatcher.worker_timeout;
    let default = dispatcher::Config::default().worker_timeout;
    assert_eq!(timeout("--worker-timeout=-1"), None);
    assert_eq!(timeout("--worker-timeout=0"), default);
}

#[test]
fn a_store_is_asked_for_only_when_named() {
    let Storage::Directory { store, .. } = config(&["--store=segment"]).unwrap().storage else {
        panic!("in memory")
    };
    assert_eq!(store, Some(StoreKind::Segment));
}

#[test]
fn the_journals_segments_and_queues_have_sizes() {
    let given =
        config(&["--segment-size-max=2MiB", "--queue-calls-max=3", "--batch-calls-max=4"]).unwrap();
    let Storage::Directory { segment_bytes_max, .. } = given.storage else { panic!("in memory") };
    assert_eq!(segment_bytes_max, 2 << 20);
    assert_eq!((given.bounds.queue_calls_max, given.bounds.batch_calls_max), (3, 4));
    for flag in ["--segment-size-max=1", "--queue-calls-max=0", "--batch-calls-max=0"] {
        let error = config(&[flag]).unwrap_err();
        assert!(error.contains(flag.split('=').next().unwrap()), "{error}");
    }
}

#[test]
fn defaults_are_those_of_the_store_and_the_node() {
    let (store, node) = (crate::store::StoreConfig::default(), crate::node::NodeConfig::default());
    let config = config(&[]).unwrap();
    let Storage::Directory { segment_bytes_max, free_space_reserve_bytes, .. } = config.storage
    else {
        panic!("in memory")
    };
    assert_eq!(segment_bytes_max, store.segment_bytes_max);
    assert_eq!(free_space_reserve_bytes, store.free_space_reserve_bytes);
    assert_eq!(config.bounds.queue_calls_max, node.queue_calls_max);
    assert_eq!(config.bounds.batch_calls_max, node.batch_calls_max);
}

#[test]
fn retentions_of_nothing_are_for_ever() {
    let given = config(&["--named-job-retention=0", "--dataset-retention=5ms"]).unwrap();
    assert_eq!(given.dispatcher.named_job_retention, None);
    assert_eq!(given.dispatcher.dataset_retention, Some(Span::from_millis(5)));
    let flags = ["--abandoned-iteration-retention=0", "--lost-worker-retention=7ms"];
    let given = config(&flags).unwrap();
    assert_eq!(given.dispatcher.abandoned_iteration_retention, None);
    assert_eq!(given.dispatcher.lost_worker_retention, Some(Span::from_millis(7)));
}

#[test]
fn ids_of_a_new_journal_are_drawn_unless_a_number_is_given() {
    assert_eq!(config(&[]).unwrap().dispatcher.ids_above, None);
    assert_eq!(config(&["--ids-above=0"]).unwrap().dispatcher.ids_above, Some(0));
    let most = config(&["--ids-above=1500000000"]).unwrap().dispatcher.ids_above;
    assert_eq!(most, Some(1_500_000_000));
    for wrong in ["-1", "1500000001"] {
        let refused = config(&[&format!("--ids-above={wrong}")]).unwrap_err();
        assert!(refused.contains("--ids-above") && refused.contains(wrong), "{refused}");
    }
}

#[test]
fn truth_values_may_stand_alone_or_be_said() {
    assert!(config(&["--insecure"]).unwrap().insecure);
    assert!(config(&["--insecure", "true", "--port=1"]).unwrap().insecure);
    assert!(!config(&["--insecure=false"]).unwrap().insecure);
    assert!(config(&["--insecure=yes"]).is_err());
}

#[test]
fn truth_values_of_a_file_are_true_and_false() {
    let (_kept, flag) = file("insecure: true\n");
    assert!(config(&[&flag]).unwrap().insecure);
    for text in ["insecure: yes\n", "insecure: on\n", "fault_tolerant: no\n"] {
        let (_kept, flag) = file(text);
        let error = config(&[&flag]).unwrap_err();
        assert!(error.contains("configuration file"), "{text}: {error}");
    }
}

#[test]
fn worker_addresses_are_a_list() {
    let config = config(&["--worker-addresses", "a:1, b:%port%,c"]).unwrap();
    assert_eq!(config.dispatcher.worker_addresses, ["a:1", "b:%port%", "c"]);
}

#[test]
fn values_at_odds_are_refused_by_name() {
    let cases: [(&[&str], &str); 8] = [
        (&["--data="], "--fault-tolerant"),
        (&["--message-size-max=2000", "--inflight-size-max=1999"], "1999"),
        (&["--listen=nowhere"], "nowhere"),
        (&["--deployment-mode=4"], "colocated"),
        (&["--worker-addresses=a,,b"], "empty entry"),
        (&["--client-timeout=-1"], "-1"),
        (&["--store=etcd"], "segment"),
        (&["--protocol=http"], "grpc"),
    ];
    for (given, named) in cases {
        let error = config(given).unwrap_err();
        assert!(error.contains(named), "{given:?}: {error}");
    }
}

#[test]
fn namespaces_share_a_quarter_of_the_memory_unless_their_size_is_given() {
    let sizes = |arguments: &[&str]| {
        let namespaces = config(arguments).unwrap().coordination.namespaces;
        namespaces.iter().map(|namespace| namespace.store_bytes_max).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&["--memory-max=64GiB"]), [4 << 30]);
    assert_eq!(sizes(&["--memory-max=1GiB"]), [256 << 20]);
    assert_eq!(sizes(&["--memory-max=1GiB", "--namespace=a=0,b=0,c=0"]), [64 << 20; 4]);
    assert_eq!(sizes(&["--memory-max=1GiB", "--namespace-size-max=3GiB"]), [3 << 30]);
}

#[test]
fn keys_that_may_take_more_than_the_memory_for_state_are_told_of() {
    let warning_of = |memory, arguments: &[&str]| {
        let two = ["--data=/somewhere", "--namespace=a=0", memory];
        keys_above_memory(&config(&[&two, arguments].concat()).unwrap())
    };
    let warning = |arguments: &[&str]| warning_of("--memory-max=1GiB", arguments);
    assert_eq!(warning(&[]), None);
    assert_eq!(warning(&["--namespace-size-max=256MiB"]), None);
    let text = warning(&["--namespace-size-max=257MiB"]).unwrap();
    for part in ["538968064", "536870912", "--memory-max is 1073741824", "in files"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(warning_of("--memory-max=none", &["--namespace-size-max=257MiB"]), None);
    // No snapshot of it needs memory.
    assert_eq!(warning(&["--namespace-size-max=448MiB", "--fault-tolerant=false"]), None);
    assert!(warning(&["--namespace-size-max=449MiB", "--fault-tolerant=false"]).is_some());
}

#[test]
fn tensors_of_the_rendezvous_have_a_quarter_of_the_memory_unless_their_size_is_given() {
    let sizes = |arguments: &[&str]| {
        let machine =
            config(&[&["--rendezvous"], arguments].concat()).unwrap().rendezvous.unwrap().machine;
        (machine.step_bytes_max, machine.bytes_max)
    };
    assert_eq!(sizes(&["--memory-max=none"]), (4 << 30, 8 << 30));
    assert_eq!(sizes(&["--memory-max=64GiB"]), (4 << 30, 8 << 30));
    assert_eq!(sizes(&["--memory-max=24GiB"]), (4 << 30, 6 << 30));
    assert_eq!(sizes(&["--memory-max=1GiB"]), (256 << 20, 256 << 20));
    let said =
        ["--memory-max=1GiB", "--rendezvous-size-max=3GiB", "--rendezvous-step-size-max=2GiB"];
    assert_eq!(sizes(&said), (2 << 30, 3 << 30));
}

#[test]
fn memory_has_a_bound_unless_none_is_wanted() {
    let bound = |arguments: &[&str]| config(arguments).unwrap().bounds.memory_bytes_max;
    let machine = crate::memory::machine::bytes().unwrap();
    assert_eq!(bound(&[]), Some((machine / 4).max(64 << 20)));
    assert_eq!(bound(&["--memory-max=auto"]), bound(&[]));
    assert_eq!(bound(&["--memory-max=none"]), None);
    assert_eq!(bound(&["--memory-max=300MiB"]), Some(300 << 20));
    for wrong in ["63MiB", "much"] {
        let error = config(&[&format!("--memory-max={wrong}")]).unwrap_err();
        assert!(error.contains("auto") && error.contains("none"), "{error}");
    }
}

#[test]
fn without_a_home_the_data_directory_must_be_given() {
    let (Cli { command: Command::Serve(args) }, settings) = parse(arguments(&[])).unwrap() else {
        panic!("not serve")
    };
    let error = resolve(&args, &settings, &Home::default()).unwrap_err();
    assert!(error.contains("--data"), "{error}");
    let relative = Home { state: Some("state".into()), home: Some("/home/x".into()) };
    let config = resolve(&args, &settings, &relative).unwrap();
    let Storage::Directory { path, .. } = config.storage else { panic!("in memory") };
    assert_eq!(path, Path::new("/home/x/.local/state/rondo"));
}

#[test]
fn flags_come_before_the_file_and_the_file_before_defaults() {
    let (_kept, flag) = file(
        "listen: 127.0.0.2:7\nclient_timeout: 5ms\nworker_addresses: [a:1, b:2]\n\
         fault_tolerant: false\njob_gc_timeout: -1\nshutdown_grace: 9ms\n",
    );
    let config = config(&[&flag, "--client-timeout=6ms"]).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.2:7");
    assert_eq!(config.dispatcher.client_timeout, Span::from_millis(6));
    assert_eq!(config.dispatcher.worker_addresses, ["a:1", "b:2"]);
    assert_eq!(config.dispatcher.job_gc_timeout, None);
    assert_eq!(config.storage, Storage::Memory);
    assert_eq!(config.bounds.shutdown_grace, Duration::from_millis(9));
    assert_eq!(config.protocol_version, 9);
}

#[test]
fn a_port_replaces_only_an_address_said_no_more_urgently() {
    let (_kept, flag) = file("port: 7\n");
    assert_eq!(config(&[&flag]).unwrap().listen.port, 7);
    assert_eq!(config(&[&flag, "--listen=127.0.0.1:8"]).unwrap().listen.port, 8);
    assert_eq!(config(&["--port=9", "--listen=127.0.0.1:8"]).unwrap().listen.port, 9);
}

#[test]
fn a_bad_file_is_refused_with_its_name_and_the_key() {
    let cases = [
        ("client_timeuot: 5", "\"client_timeout\""),
        ("client_timeout: soon", "soon"),
        ("config: other.yaml", "config"),
        ("data: [", "configuration file"),
    ];
    for (text, named) in cases {
        let (kept, flag) = file(text);
        let error = config(&[&flag]).unwrap_err();
        assert!(error.contains(named), "{text}: {error}");
        assert!(error.contains(&kept.path().display().to_string()), "{text}: {error}");
    }
    let error = config(&["--config=/nowhere/rondo.yaml"]).unwrap_err();
    assert!(error.contains("/nowhere/rondo.yaml"), "{error}");
}

/// The row of the documentation's table that begins with this flag.
fn documented(table: &str, flag: &str) -> Vec<String> {
    let start = format!("| `{flag}` |");
    let row = table.lines().find(|line| line.starts_with(&start));
    let row = row.unwrap_or_else(|| panic!("no row for {flag}"));
    row.split('|').map(|cell| cell.trim().replace('`', "")).collect()
}

#[test]
fn every_setting_is_documented_as_it_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let table = std::fs::read_to_string(path).unwrap();
    let command = Cli::command();
    let serve = command.find_subcommand("serve").unwrap();
    for key in layers::keys(serve) {
        let setting = serve.get_arguments().find(|arg| arg.get_id() == key.as_str()).unwrap();
        let row = documented(&table, &format!("--{}", setting.get_long().unwrap()));
        assert_eq!(row[2], setting.get_env().unwrap().to_string_lossy());
        assert_eq!(row[2], format!("RONDO_{}", key.to_uppercase()));
        assert_eq!(row[3], key);
        if let [default] = setting.get_default_values() {
            let default = default.to_string_lossy();
            assert_eq!(row[4], if default.is_empty() { "empty".into() } else { default });
        }
    }
}

#[test]
fn every_exit_status_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let text = std::fs::read_to_string(path).unwrap();
    for (exit, meaning) in Exit::ALL {
        let row = format!("| {} | {meaning}", exit.number());
        assert!(text.contains(&row), "{row}");
    }
}
