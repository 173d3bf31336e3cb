//! The folders of servers' sockets: what a server that was killed leaves, the next one removes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rondo::exchange::{Exchange, Settings};
use rondo_core::exchange::Role;
use rondo_core::exchange::membership::Sizes;
use rondo_tests::process::Process;

use crate::bed::{SOON, always};

/// Set where [`a_server_of_its_own`] is one.
const CHILD: &str = "RONDO_TEST_EXCHANGE_SERVER";

/// Not a test of its own: the process of a server that another test starts.
#[test]
fn a_server_of_its_own() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let sizes = Sizes { workers: 1, servers: 1, group: 1 };
    // Nobody is there: it waits until it is killed.
    let settings = Settings {
        join_timeout: Some(Duration::from_secs(120)),
        ..Settings::new(Role::Server, sizes, "127.0.0.1:1")
    };
    drop(Exchange::start(settings, &mut always));
}

fn server(temporary: &Path) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "folders::a_server_of_its_own", "--nocapture"]);
    command.env(CHILD, "1").env("TMPDIR", temporary);
    Process::start("a server", &mut command)
}

fn within(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The folder of a server, once its sockets are there.
fn folder_of(server: &Process, temporary: &Path, before: &[PathBuf]) -> PathBuf {
    let began = Instant::now();
    loop {
        // One for Unix sockets, one for shared memory, and the lock.
        let is_whole = |folder: &PathBuf| !before.contains(folder) && within(folder).len() == 3;
        if let Some(found) = within(temporary).into_iter().find(is_whole) {
            return found;
        }
        assert!(began.elapsed() < SOON, "there are no sockets:\n{}", server.log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_killed_server_leaves_goes_when_the_next_one_starts() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path();
    let living = server(path);
    let kept = folder_of(&living, path, &[]);
    let killed = server(path);
    let left = folder_of(&killed, path, std::slice::from_ref(&kept));
    // Dropping it kills it.
    drop(killed);
    assert!(left.exists());
    let next = server(path);
    let own = folder_of(&next, path, &[kept.clone(), left]);
    let (mut found, mut expected) = (within(path), vec![kept, own]);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    drop((living, next));
}
