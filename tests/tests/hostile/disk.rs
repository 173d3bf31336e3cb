//! A disk that somebody else fills and empties again, while the server is asked all the time.
//!
//! It takes seconds here. `RONDO_DISK_SECONDS=300 cargo test --release --workspace --test hostile -- disk`
//! is the long form.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rondo_tests::binary;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::neighbour::Neighbour;
use rondo_tests::process::Process;
use rondo_tests::skip::skip;
use tonic::{Code, Status};

use super::keys;

/// How long a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest that a heartbeat may take, in a debug build on a busy machine.
const NOTICED: Duration = Duration::from_secs(3);
/// How soon updates go on once there is room, in a debug build on a busy machine.
const SOON: Duration = Duration::from_secs(10);
/// Keys that are put over and over.
const KEYS: u64 = 100;

/// Mounts a small file system of its own, fills and empties it, and runs a server in it, which it kills and
/// starts again for each line that it reads.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=192m none "$1/data" || exit 77
fill() {
  while [ ! -e "$1/calm" ]; do
    n=0
    while [ ! -e "$1/calm" ] && head -c 1048576 /dev/zero > "$1/data/fill.$n" 2> /dev/null; do
      n=$((n + 1))
      sleep 0.01
    done
    sleep 0.5
    rm -f "$1"/data/fill.*
    sleep 0.5
  done
  rm -f "$1"/data/fill.*
}
fill "$1" &
while :; do
  "$2" serve --listen=127.0.0.1:0 --data "$1/data/rondo" --store "$3" --tasks=1 \
    --free-space-reserve=48MiB --segment-size-max=1MiB &
  server=$!
  read -r line || break
  kill -9 "$server"
  wait "$server"
done
kill -9 "$server"
"#;

/// How long somebody fills the disk.
fn lasting() -> Duration {
    let said = std::env::var("RONDO_DISK_SECONDS").ok();
    said.map_or(Duration::from_secs(5), |text| {
        Duration::from_secs(text.parse().expect("RONDO_DISK_SECONDS is a number of seconds"))
    })
}

/// Starts the script; `None` after saying why it cannot run here.
fn start(place: &Path, store: &str) -> Option<Process> {
    let tried = Command::new("unshare")
        .args(["--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/tmp"])
        .output();
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        skip("a mount namespace of our own", &format!("{tried:?}"), "RONDO_MOUNTS_REQUIRED");
        return None;
    }
    fs::create_dir(place.join("data")).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"])
        .arg(place)
        .arg(binary::rondo())
        .arg(store);
    Some(Process::start("a server on a disk that somebody fills", &mut command))
}

fn address_of(server: &Process) -> String {
    let ready = server.line_with(" ready on ", PATIENCE);
    let ready = ready.unwrap_or_else(|| panic!("{}", server.log()));
    let place = ready.split(" ready on ").nth(1).unwrap();
    place.split_whitespace().next().unwrap().to_owned()
}

/// What was said of each key: the last value that was acknowledged, and the last that was sent.
#[derive(Default)]
struct Said(BTreeMap<u64, (u64, u64)>);

impl Said {
    /// Puts the next value of a key. It has this number at its beginning.
    fn put(&mut self, dispatcher: &Dispatcher, number: u64) -> Result<(), Status> {
        let key = number % KEYS;
        let (_, sent) = self.0.entry(key).or_default();
        *sent = number;
        // Some are kept in files of their own.
        let length = if number.is_multiple_of(10) { 200_000 } else { 20_000 };
        let value = [&number.to_le_bytes()[..], &vec![7; length]].concat();
        keys::put(dispatcher, &format!("key/{key}"), value)?;
        self.0.entry(key).or_default().0 = number;
        Ok(())
    }

    /// Asserts that each key has a value that was acknowledged, or a later one that was refused and may have
    /// been kept all the same.
    ///
    /// # Errors
    /// UNAVAILABLE when an answer rests on an update for which there is no room.
    fn assert_there(&self, dispatcher: &Dispatcher) -> Result<(), Status> {
        for (key, (acknowledged, sent)) in self.0.iter().filter(|(_, said)| said.0 > 0) {
            let value = keys::find(dispatcher, &format!("key/{key}"))?;
            let number = u64::from_le_bytes(value[..8].try_into().unwrap());
            assert!((*acknowledged..=*sent).contains(&number), "{key}: {number}, {acknowledged}");
        }
        Ok(())
    }
}

fn a_disk_is_filled(store: &str) {
    let place = tempfile::tempdir().unwrap();
    let Some(mut server) = start(place.path(), store) else { return };
    let address = address_of(&server);
    let mut neighbour = Neighbour::that_beats(&address);
    let dispatcher = Dispatcher::connect(&address);
    let (mut said, mut refused, mut number) = (Said::default(), 0, 1);
    let until = Instant::now() + lasting();
    while Instant::now() < until || refused == 0 {
        assert!(Instant::now() < until + PATIENCE, "the disk was never full");
        if let Err(status) = said.put(&dispatcher, number) {
            assert_eq!(status.code(), Code::Unavailable, "{status}");
            assert!(status.message().contains("space"), "{status}");
            refused += 1;
            thread::sleep(Duration::from_millis(20));
            if refused % 10 == 1
                && let Err(status) = said.assert_there(&dispatcher)
            {
                assert_eq!(status.code(), Code::Unavailable, "{status}");
                assert!(status.message().contains("space"), "{status}");
            }
        }
        number += 1;
    }
    fs::write(place.path().join("calm"), "").unwrap();
    let began = Instant::now();
    while let Err(status) = said.put(&dispatcher, number) {
        assert!(began.elapsed() < SOON, "{status}");
        thread::sleep(Duration::from_millis(20));
    }
    let longest = neighbour.longest_beat();
    println!(
        "{store}: {number} updates, {refused} refused; longest heartbeat {longest:.1?}; updates went on \
         after {:.1?}",
        began.elapsed()
    );
    assert!(longest < NOTICED, "{longest:?}");
    drop(neighbour);
    server.tell("again");
    let dispatcher = Dispatcher::connect(&address_of(&server));
    said.assert_there(&dispatcher).unwrap();
}

#[test]
fn a_disk_that_somebody_fills_stops_no_server_with_plain_files() {
    a_disk_is_filled("segment");
}

#[test]
fn a_disk_that_somebody_fills_stops_no_server_with_sled() {
    a_disk_is_filled("sled");
}
