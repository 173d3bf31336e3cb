//! A process that works on a store and says what it has promised, to be recorded.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rondo::store::{RealDisk, SegmentStore, SledStore, Store, StoreConfig};
use rondo_core::ids::Lsn;
use rondo_core::journal::{GroupHeader, Scan};
use rondo_proto::frame;
use rondo_tests::random::Random;

/// The environment variable that says what to do: the store, its folder, the file for promises, the life, the
/// seed and how much to do.
pub(crate) const TOLD_BY: &str = "RONDO_DRIVEN_STORE";
/// The store that is sled, of lives that begin a segment, append long records and drop most of them.
pub(crate) const REOPENED_SLED: &str = "reopened-sled";
/// sled's log has segments of 512 KiB: some payloads are long, so that it comes to its second one.
const LONG_BYTES: u64 = 40_000;
/// Long records that are appended without a sync between them: sled fills several segments of its log, and
/// may use one again.
const LONG_RUN: u64 = 20;

/// What a record holds: which one it is, when it was made, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) lsn: u64,
    pub(crate) life: u64,
    /// Counts the cuts of a life, after which records of the same numbers are others.
    pub(crate) generation: u64,
    pub(crate) bytes: u64,
}

impl Content {
    /// Begins the payload, and stands nowhere else.
    pub(crate) fn needle(&self) -> Vec<u8> {
        let Self { lsn, life, generation, bytes } = self;
        let text = format!("record {lsn} of life {life}.{generation}, {bytes} bytes;");
        [&[NEEDLE_BEGIN], text.as_bytes()].concat()
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        let mut payload = self.needle();
        let pattern: Vec<u8> =
            (0..199).map(|at| ((at * 7 + self.lsn + self.generation) % 199) as u8).collect();
        let bytes = usize::try_from(self.bytes).expect("payloads are short");
        let rest = pattern.repeat(bytes.div_ceil(pattern.len()));
        payload.extend_from_slice(&rest[..bytes]);
        payload
    }
}

/// A byte that occurs rarely.
pub(crate) const NEEDLE_BEGIN: u8 = 0xf5;

/// Opens the store of this kind.
pub(crate) async fn open(kind: &str, dir: &Path) -> Result<Box<dyn Store>, String> {
    let config = StoreConfig {
        preallocate_bytes: 4 << 10,
        free_space_reserve_bytes: 0,
        sled_cache_bytes: 1 << 20,
        ..StoreConfig::default()
    };
    let disk = RealDisk::shared();
    let opened: Result<Box<dyn Store>, _> = match kind {
        "segment" => SegmentStore::open(disk, dir, &config).await.map(|it| Box::new(it) as _),
        _ => SledStore::open(disk, dir, &config).await.map(|it| Box::new(it) as _),
    };
    opened.map_err(|error| error.to_string())
}

#[test]
#[ignore = "the process that the other tests record"]
fn a_store_at_work() {
    let told = env::var(TOLD_BY).expect("the other tests start it");
    let [kind, dir, said, life, seed, steps] = told.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{told}");
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let promises = OpenOptions::new().append(true).create(true).open(said).unwrap();
    let life: u64 = life.parse().unwrap();
    let start = removed_before(said);
    let random = Random::new(seed.parse::<u64>().unwrap().wrapping_add(life));
    let dir = PathBuf::from(dir);
    fs::create_dir_all(&dir).unwrap();
    runtime.block_on(async {
        let store = open(kind, &dir).await.unwrap();
        let long_run = if kind == "sled" { LONG_RUN } else { 1 };
        let mut driver =
            Driver { store, promises, random, life, long_run, generation: 0, next: 1, durable: 0 };
        driver.recover(start).await;
        let steps: u64 = steps.parse().unwrap();
        match kind {
            REOPENED_SLED => driver.fill_and_empty(steps).await,
            _ => {
                for _ in 0..steps {
                    driver.step().await;
                }
            }
        }
        // As a kill ends it.
        std::process::exit(0);
    });
}

/// The first record that is in no segment that was removed.
fn removed_before(said: &str) -> u64 {
    let said = fs::read_to_string(said).unwrap_or_default();
    let removals = said.lines().filter_map(|line| line.strip_prefix("removing ")?.parse().ok());
    removals.max().unwrap_or(1)
}

struct Driver {
    store: Box<dyn Store>,
    promises: File,
    random: Random,
    life: u64,
    long_run: u64,
    generation: u64,
    next: u64,
    durable: u64,
}

impl Driver {
    /// Says something in one write.
    fn say(&mut self, text: &str) {
        self.promises.write_all(format!("{text}\n").as_bytes()).unwrap();
    }

    /// Goes on behind what an earlier life left, as a node does.
    async fn recover(&mut self, start: u64) {
        let mut scan = Scan::starting_at(Lsn::new(start));
        for segment in self.store.segments() {
            scan.segment(segment.first);
            for found in self.store.read(segment.first).await.unwrap() {
                match found.frame {
                    Ok(frame) => {
                        let (header, _) = frame::decode(&frame).unwrap();
                        scan.group(&header, &found.place).unwrap();
                    }
                    Err(reason) => scan.damaged(&found.place, &reason),
                }
            }
        }
        let end = scan.finish().unwrap();
        self.next = end.next.get();
        if end.cut.is_some() {
            self.store.truncate(end.next).await.unwrap();
            self.say(&format!("cut {}", self.next));
        }
        self.sync().await;
    }

    async fn step(&mut self) {
        match self.random.below(13) {
            0 => {
                // Not synced before its segment is closed.
                self.append().await;
                self.store.rotate(Lsn::new(self.next)).await.unwrap();
                self.append().await;
                self.sync().await;
            }
            1 => self.remove_oldest().await,
            2 => self.cut().await,
            3 => self.sync_beside_an_append().await,
            4 => self.mark().await,
            5 => {
                for _ in 0..2 {
                    self.append_bytes(LONG_BYTES).await;
                }
                self.sync().await;
            }
            6 => self.append().await,
            7 => {
                for _ in 0..self.long_run {
                    self.append_bytes(LONG_BYTES).await;
                }
                self.sync().await;
            }
            _ => {
                for _ in 0..=self.random.below(3) {
                    self.append().await;
                }
                self.sync().await;
            }
        }
    }

    /// Fills parts of sled's log with long records, and drops most of them, after which sled needs few parts.
    async fn fill_and_empty(&mut self, records_max: u64) {
        self.store.rotate(Lsn::new(self.next)).await.unwrap();
        self.append().await;
        self.sync().await;
        self.append_unsynced(records_max).await;
        self.drop_unsynced().await;
        self.append().await;
        self.sync().await;
        self.append_unsynced(2 * records_max).await;
    }

    /// Appends long records, and waits until the store has written most of them without a sync.
    async fn append_unsynced(&mut self, records_max: u64) {
        for _ in 0..self.random.below(records_max) {
            self.append_bytes(LONG_BYTES).await;
        }
        if let Some(open) = self.store.segments().last() {
            self.store.read(open.first).await.unwrap();
        }
    }

    async fn append(&mut self) {
        let bytes = match self.random.below(6) {
            0 => self.random.below(9000),
            _ => self.random.below(300),
        };
        self.append_bytes(bytes).await;
    }

    async fn append_bytes(&mut self, bytes: u64) {
        let (first, frame) = self.begin(bytes);
        self.store.append(first, frame).await.unwrap();
    }

    /// Makes the next record, and says that it may be there from now on.
    fn begin(&mut self, bytes: u64) -> (Lsn, Bytes) {
        let (life, generation) = (self.life, self.generation);
        let content = Content { lsn: self.next, life, generation, bytes };
        self.say(&format!("begun {} {life} {generation} {bytes}", self.next));
        self.next += 1;
        (Lsn::new(content.lsn), self.group(content.lsn, 1, &content.payload()))
    }

    fn group(&self, first: u64, count: u64, payload: &[u8]) -> Bytes {
        let durable_upto = Lsn::new(self.durable);
        let header = GroupHeader { first: Lsn::new(first), count, durable_upto };
        frame::encode(&header, payload).unwrap()
    }

    async fn sync(&mut self) {
        self.store.sync().await.unwrap();
        self.promise(self.next - 1);
    }

    fn promise(&mut self, durable: u64) {
        self.durable = durable;
        self.say(&format!("durable {durable}"));
    }

    /// What comes during a sync is not promised with it.
    async fn sync_beside_an_append(&mut self) {
        self.append().await;
        let upto = self.next - 1;
        let bytes = self.random.below(5000);
        let (first, frame) = self.begin(bytes);
        let sync = self.store.sync();
        let (synced, appended) = tokio::join!(sync, self.store.append(first, frame));
        synced.unwrap();
        appended.unwrap();
        self.promise(upto);
    }

    async fn mark(&mut self) {
        let frame = self.group(self.next, 0, b"");
        self.store.append(Lsn::new(self.next), frame).await.unwrap();
    }

    /// Drops what nobody was promised.
    async fn cut(&mut self) {
        self.append().await;
        self.append().await;
        self.drop_unsynced().await;
    }

    async fn drop_unsynced(&mut self) {
        self.next = self.durable + 1;
        self.store.truncate(Lsn::new(self.next)).await.unwrap();
        self.generation += 1;
        self.say(&format!("cut {}", self.next));
    }

    /// Removes the oldest segment, as once a snapshot has it.
    async fn remove_oldest(&mut self) {
        let segments = self.store.segments();
        let [oldest, next, ..] = segments[..] else {
            return;
        };
        if next.first.get() > self.durable + 1 {
            return;
        }
        self.say(&format!("removing {}", next.first.get()));
        self.store.remove(oldest.first).await.unwrap();
    }
}
