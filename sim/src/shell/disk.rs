//! The model disk as the runtime's stores see it: operations take their time, fail and stall, and
//! those of a process that has died change nothing any more.

use std::future::{Future, pending};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rondo::node::NodeConfig;
use rondo::store::{BoxFuture, Disk as Store, DiskFile, Entry, Lock};
use tokio::time::Instant;

use super::book::Book;
use super::lack::{Lack, Need};
use crate::disk::{CutFaults, Disk, DiskError, FileId};
use crate::fault::{Fault, Faults};
use crate::rng::Stream;
use crate::swarm::JournalShape;

/// What is free where nothing limits it, in bytes.
const FREE_BYTES: u64 = 1 << 40;

/// The control plane's disk, which outlives its processes.
pub(super) struct Platter {
    state: Mutex<State>,
    book: Arc<Book>,
    shape: JournalShape,
    faults: Faults,
}

struct State {
    disk: Disk,
    stream: Stream,
    /// The process that has the disk.
    life: u64,
    stalled_until: Option<Instant>,
    lack: Lack,
    /// Nothing goes wrong any more.
    calm: bool,
    /// An operation has failed in this life.
    failed: bool,
    /// What the power took was promised to be durable.
    broke_word: bool,
    /// The power has gone since a process last had its state back.
    power_was_cut: bool,
}

/// How a process left its disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// An operation had failed, or the disk was full.
    pub(super) failed: bool,
    /// It stood still a short while ago.
    pub(super) stalled: bool,
    /// An operation had failed for a lack of descriptors or memory.
    pub(super) lacked: bool,
}

impl Platter {
    /// An empty disk. The second stream decides which operations fail for a lack of descriptors or memory.
    pub(super) fn new(
        book: Arc<Book>,
        shape: JournalShape,
        faults: Faults,
        (stream, lacks): (Stream, Stream),
    ) -> Arc<Self> {
        let state = State {
            disk: Disk::new(),
            stream,
            life: 0,
            stalled_until: None,
            lack: Lack::new(lacks),
            calm: false,
            failed: false,
            broke_word: false,
            power_was_cut: false,
        };
        Arc::new(Self { state: Mutex::new(state), book, shape, faults })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the disk to the next process.
    pub(super) fn begin_life(self: &Arc<Self>) -> ShellDisk {
        let mut state = self.state();
        state.life = state.life.wrapping_add(1);
        state.failed = false;
        state.lack.begin_life();
        ShellDisk { platter: self.clone(), life: state.life }
    }

    /// The process that has the disk is gone: it does nothing any more. What it wrote stays.
    pub(super) fn end_life(&self) -> Left {
        let mut state = self.state();
        state.life = state.life.wrapping_add(1);
        let failed = state.failed || state.disk.free_bytes().is_some();
        // A stop is given up when the disk has not done its part for so long.
        let patience = NodeConfig::default().stop_timeout;
        let stalled = state.stalled_until.is_some_and(|until| until.elapsed() < patience);
        Left { failed, stalled, lacked: state.lack.has_failed() }
    }

    /// The power goes, and with it what was not synced.
    pub(super) fn cut_power(&self) {
        let mut state = self.state();
        let has = |fault| self.faults.has(fault);
        let faults = CutFaults {
            lost: has(Fault::LostWrite),
            reordered: has(Fault::ReorderedWrite),
            torn: has(Fault::TornWrite),
        };
        let State { disk, stream, broke_word, power_was_cut, .. } = &mut *state;
        // With the power goes the note of how far everything was acknowledged: damage to the last
        // records cannot be told from an unfinished write any more.
        let damaged = disk.is_damaged();
        *power_was_cut = true;
        let outcome = disk.power_cut(faults, stream);
        *broke_word |= outcome.broke_word || damaged;
        let struck = [
            (Fault::LostWrite, outcome.lost > 0),
            (Fault::ReorderedWrite, outcome.reordered),
            (Fault::TornWrite, outcome.torn > 0),
        ];
        for (fault, _) in struck.into_iter().filter(|(_, struck)| *struck) {
            self.book.fault(fault);
        }
    }

    /// Turns a stored bit over.
    pub(super) fn flip_bit(&self) {
        let mut state = self.state();
        let State { disk, stream, broke_word, power_was_cut, .. } = &mut *state;
        let places = ["data/journal", "data/snapshots", "data/MANIFEST"];
        let under = stream.pick(&places).copied().unwrap_or("data/journal");
        if disk.flip_bit(under, stream).is_some() {
            *broke_word |= *power_was_cut;
            self.book.fault(Fault::BitFlip);
        }
    }

    /// Whether stored bytes are damaged, or were lost against a promise.
    pub(super) fn is_damaged(&self) -> bool {
        let state = self.state();
        state.disk.is_damaged() || state.broke_word
    }

    /// Whether what was promised to be durable may be gone.
    pub(super) fn broke_word(&self) -> bool {
        self.state().broke_word
    }

    /// Puts back what was damaged.
    pub(super) fn repair(&self) {
        self.state().disk.lift_damage();
    }

    /// A process has begun anew with what is there.
    pub(super) fn served(&self) {
        let mut state = self.state();
        state.broke_word = false;
        state.power_was_cut = false;
    }

    /// Takes all but a little of the free space away, or gives it back.
    pub(super) fn fill(&self, left_bytes: Option<u64>) {
        self.state().disk.set_free_bytes(left_bytes);
    }

    /// From here on, this many of a thousand operations fail for a lack of descriptors or memory.
    pub(super) fn lack(&self, fails: u32) {
        self.state().lack.set(fails);
    }

    /// Nothing ends before then.
    pub(super) fn stall(&self, span: Duration) {
        self.state().stalled_until = Instant::now().checked_add(span);
    }

    /// Nothing goes wrong any more.
    pub(super) fn heal(&self) {
        let mut state = self.state();
        state.calm = true;
        state.stalled_until = None;
        state.lack.set(0);
        state.disk.set_free_bytes(None);
    }

    /// A disk of its own with everything that was written, and nothing wrong with it.
    pub(super) fn copy(&self) -> Arc<Self> {
        let (mut disk, streams) = {
            let state = self.state();
            (state.disk.clone(), (state.stream.clone(), state.lack.stream()))
        };
        disk.lift_damage();
        disk.set_free_bytes(None);
        let copy = Self::new(self.book.clone(), self.shape, Faults::none(), streams);
        copy.state().disk = disk;
        copy
    }
}

/// A disk in the hands of one process.
#[derive(Clone)]
pub(super) struct ShellDisk {
    platter: Arc<Platter>,
    life: u64,
}

impl ShellDisk {
    /// What an operation has to wait for first: nothing ends before a stall does, and nothing at
    /// all for a process that is gone.
    async fn turn(&self) {
        loop {
            // Others may do something meanwhile.
            tokio::task::yield_now().await;
            let until = {
                let state = self.platter.state();
                match state.life == self.life {
                    true => state.stalled_until.filter(|until| *until > Instant::now()),
                    false => None,
                }
            };
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None if self.platter.state().life == self.life => return,
                None => pending().await,
            }
        }
    }

    /// Takes longer than it should, now and then.
    async fn dawdle(&self, usual_us: u64) {
        let extra_us = {
            let mut state = self.platter.state();
            let slow = self.platter.faults.strength(Fault::DiskSlow) / 4;
            let strikes = !state.calm && state.stream.chance(slow);
            let extra = if strikes { state.stream.between(1000, 50_000) } else { 0 };
            if strikes {
                self.platter.book.fault(Fault::DiskSlow);
            }
            extra
        };
        let span = usual_us.saturating_add(extra_us);
        if span > 0 {
            tokio::time::sleep(Duration::from_micros(span)).await;
        }
    }

    /// Does something when its time has come, if it gets the resource that it needs.
    fn with<T: Send + 'static>(
        &self,
        need: Need,
        work: impl FnOnce(&mut State) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, io::Result<T>> {
        let disk = self.clone();
        Box::pin(async move {
            disk.turn().await;
            let mut state = disk.platter.state();
            state.lack.supply(need)?;
            work(&mut state)
        })
    }

    /// Does something that writes, which may fail, if it gets the resource that it needs.
    fn change<T: Send + 'static>(
        &self,
        need: Need,
        work: impl FnOnce(&mut State) -> Result<T, DiskError> + Send + 'static,
    ) -> BoxFuture<'static, io::Result<T>> {
        let disk = self.clone();
        Box::pin(async move {
            disk.dawdle(0).await;
            disk.turn().await;
            let mut state = disk.platter.state();
            state.lack.supply(need)?;
            let fails = disk.platter.faults.strength(Fault::WriteFails) / 40;
            if !state.calm && state.stream.chance(fails) {
                state.failed = true;
                disk.platter.book.fault(Fault::WriteFails);
                return Err(error(DiskError::Device));
            }
            work(&mut state).map_err(error)
        })
    }

    fn file(&self, id: FileId) -> Arc<dyn DiskFile> {
        Arc::new(ShellFile { disk: self.clone(), id })
    }

    /// How long a sync takes, and whether it fails or lies.
    fn sync_plan(&self) -> (u64, Option<Fault>) {
        let platter = &self.platter;
        let mut state = platter.state();
        let shape = &platter.shape;
        let us = shape.sync_us_min.saturating_add(state.stream.exponential(shape.sync_us_mean));
        let strikes = |state: &mut State, fault: Fault| {
            let strength = platter.faults.strength(fault) / 40;
            (!state.calm && state.stream.chance(strength)).then_some(fault)
        };
        let fault = strikes(&mut state, Fault::SyncFails);
        (us, fault.or_else(|| strikes(&mut state, Fault::SyncLies)))
    }
}

fn error(of: DiskError) -> io::Error {
    let kind = match of {
        DiskError::Full => io::ErrorKind::StorageFull,
        DiskError::NotFound => io::ErrorKind::NotFound,
        DiskError::Exists => io::ErrorKind::AlreadyExists,
        DiskError::NotEmpty => io::ErrorKind::DirectoryNotEmpty,
        DiskError::Device => io::ErrorKind::Other,
    };
    io::Error::new(kind, of)
}

/// A path as the model disk has it.
fn name(path: &Path) -> String {
    path.to_string_lossy().trim_matches('/').to_owned()
}

impl Store for ShellDisk {
    fn create(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>> {
        let (disk, path) = (self.clone(), name(path));
        let created = self.change(Need::Descriptor, move |state| state.disk.create(&path));
        Box::pin(async move { Ok(disk.file(created.await?)) })
    }

    fn open(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>> {
        let (disk, path) = (self.clone(), name(path));
        let opened =
            self.with(Need::Descriptor, move |state| state.disk.open(&path).map_err(error));
        Box::pin(async move { Ok(disk.file(opened.await?)) })
    }

    fn rename(&self, from: &Path, to: &Path) -> BoxFuture<'static, io::Result<()>> {
        let (from, to) = (name(from), name(to));
        self.change(Need::Nothing, move |state| state.disk.rename(&from, &to))
    }

    fn remove_file(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let path = name(path);
        self.change(Need::Memory, move |state| state.disk.remove_file(&path))
    }

    fn list(&self, dir: &Path) -> BoxFuture<'static, io::Result<Vec<Entry>>> {
        let dir = name(dir);
        self.with(Need::Descriptor, move |state| {
            if !dir.is_empty() && !state.disk.exists(&dir) {
                return Err(error(DiskError::NotFound));
            }
            let entry = |(name, is_dir, size_bytes)| Entry { name, is_dir, size_bytes };
            Ok(state.disk.list(&dir).into_iter().map(entry).collect())
        })
    }

    fn create_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let path = name(path);
        self.change(Need::Memory, move |state| state.disk.create_dir(&path))
    }

    fn remove_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let path = name(path);
        self.change(Need::Nothing, move |state| state.disk.remove_dir(&path))
    }

    fn sync_dir(&self, dir: &Path) -> BoxFuture<'static, io::Result<()>> {
        let (disk, dir) = (self.clone(), name(dir));
        Box::pin(async move {
            let (us, fault) = disk.sync_plan();
            disk.dawdle(us).await;
            disk.turn().await;
            let mut state = disk.platter.state();
            // The directory cannot be opened, so no sync begins.
            state.lack.supply(Need::Descriptor)?;
            if fault == Some(Fault::SyncFails) {
                state.failed = true;
                disk.platter.book.fault(Fault::SyncFails);
                return Err(error(DiskError::Device));
            }
            // Only syncs of files lie: a lost name would be a lost file, whatever is in it.
            state.disk.sync_dir(&dir);
            Ok(())
        })
    }

    fn free_space(&self, _: &Path) -> BoxFuture<'static, io::Result<u64>> {
        self.with(Need::Memory, |state| Ok(state.disk.free_bytes().unwrap_or(FREE_BYTES)))
    }

    fn era(&self, _: &Path) -> BoxFuture<'static, Option<[u8; 32]>> {
        let cuts = self.platter.state().disk.era();
        let mut era = [0; 32];
        era.iter_mut().zip(cuts.to_le_bytes()).for_each(|(place, byte)| *place = byte);
        Box::pin(std::future::ready(Some(era)))
    }

    fn lock(&self, _: &Path, _: String) -> BoxFuture<'static, io::Result<Lock>> {
        // Whoever had it is dead: there is one process at a time.
        self.with(Need::Nothing, |_| Ok(Lock::Taken(Box::new(()))))
    }
}

struct ShellFile {
    disk: ShellDisk,
    id: FileId,
}

impl ShellFile {
    /// A sync, begun now.
    fn sync(&self) -> impl Future<Output = io::Result<()>> + Send + use<> {
        let (disk, id) = (self.disk.clone(), self.id);
        let begun = disk.platter.state().disk.sync_begin(id);
        async move {
            let (us, fault) = disk.sync_plan();
            disk.dawdle(us).await;
            disk.turn().await;
            let mut state = disk.platter.state();
            let State { disk: bytes, stream, failed, .. } = &mut *state;
            if let Some(fault) = fault {
                disk.platter.book.fault(fault);
            }
            match fault {
                Some(Fault::SyncFails) => {
                    *failed = true;
                    bytes.sync_failed(id, begun, stream);
                    Err(error(DiskError::Device))
                }
                Some(_) => {
                    bytes.sync_lied(id, begun);
                    Ok(())
                }
                None => {
                    bytes.sync_end(id, begun);
                    Ok(())
                }
            }
        }
    }
}

impl DiskFile for ShellFile {
    fn preallocate(&self, _: u64, to: u64) -> BoxFuture<'static, io::Result<()>> {
        let id = self.id;
        self.disk.change(Need::Memory, move |state| state.disk.set_len(id, to))
    }

    fn write_at(&self, offset: u64, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        let id = self.id;
        self.disk.change(Need::Memory, move |state| state.disk.write_at(id, offset, &bytes))
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'static, io::Result<Bytes>> {
        let id = self.id;
        self.disk.with(Need::Nothing, move |state| Ok(state.disk.read_at(id, offset, len).into()))
    }

    fn sync_data(&self) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(self.sync())
    }

    fn size_bytes(&self) -> BoxFuture<'static, io::Result<u64>> {
        let id = self.id;
        self.disk.with(Need::Nothing, move |state| Ok(state.disk.size_bytes(id)))
    }

    fn set_len(&self, len: u64) -> BoxFuture<'static, io::Result<()>> {
        let id = self.id;
        self.disk.change(Need::Memory, move |state| state.disk.set_len(id, len))
    }
}
