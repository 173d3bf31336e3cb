//! A disk in memory that can stop after any operation, and knows what a power cut would leave.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rondo::store::{BoxFuture, Disk, DiskFile, Entry, Lock};
use tokio::sync::watch;

/// Turns that others have while a sync is under way.
const SYNC_TURNS: usize = 10;

/// What is left when power comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// All that was written, synced or not: the process died, the computer did not.
    Everything,
    /// What was synced.
    Synced,
    /// What was synced, and of the rest what chance leaves: writes in any order, torn anywhere.
    Some(u64),
}

/// A disk in memory. Clones share it.
#[derive(Clone)]
pub(crate) struct ModelDisk {
    state: Arc<Mutex<State>>,
    stopped: Arc<watch::Sender<bool>>,
}

#[derive(Clone, Default)]
struct State {
    names: BTreeMap<PathBuf, Node>,
    synced_names: BTreeMap<PathBuf, Node>,
    /// Changes of names that are not durable yet, in order.
    changes: Vec<NameChange>,
    files: Vec<Contents>,
    operations: u64,
    operations_max: u64,
    power_cuts: u8,
    /// Syncs of directories that fail.
    failing: Option<Failing>,
}

#[derive(Clone)]
enum Failing {
    Third(Chance),
    All,
}

#[derive(Clone, Copy)]
enum Node {
    Dir,
    /// Index of the file.
    File(usize),
}

#[derive(Clone)]
enum NameChange {
    Add(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, Node),
}

#[derive(Clone, Default)]
struct Contents {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// Changes that are not durable yet, in order.
    changes: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write(u64, Bytes),
    SetLen(u64),
}

impl ModelDisk {
    /// An empty disk with a root directory.
    pub(crate) fn new() -> Self {
        let root = BTreeMap::from([(PathBuf::from("/"), Node::Dir)]);
        Self::over(State {
            names: root.clone(),
            synced_names: root,
            operations_max: u64::MAX,
            ..State::default()
        })
    }

    fn over(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), stopped: Arc::new(watch::Sender::new(false)) }
    }

    /// Operations so far that changed something or made it durable.
    pub(crate) fn operations(&self) -> u64 {
        self.with(|state| state.operations)
    }

    /// Lets this many operations end, and none after them.
    pub(crate) fn stop_after(&self, operations: u64) {
        self.with(|state| state.operations_max = operations);
    }

    /// From now on, every third sync of a directory fails.
    #[allow(dead_code, reason = "only the store's tests need it")]
    pub(crate) fn fail_syncs_of_dirs(&self, seed: u64) {
        self.with(|state| state.failing = Some(Failing::Third(Chance(seed))));
    }

    /// From now on, every sync of a directory fails.
    #[allow(dead_code, reason = "only the store's tests need it")]
    pub(crate) fn fail_all_syncs_of_dirs(&self) {
        self.with(|state| state.failing = Some(Failing::All));
    }

    /// Waits until an operation did not end.
    pub(crate) async fn stopped(&self) {
        self.stopped.subscribe().wait_for(|stopped| *stopped).await.unwrap();
    }

    /// Whether a power cut would leave all of a file.
    pub(crate) fn is_synced(&self, path: &Path) -> bool {
        self.with(|state| match state.names.get(path) {
            Some(Node::File(file)) => state.files[*file].changes.is_empty(),
            _ => false,
        })
    }

    /// The disk as a restarted process finds it.
    pub(crate) fn after_the_cut(&self, left: Left) -> Self {
        let mut state = self.with(|state| state.clone());
        state.operations_max = u64::MAX;
        state.operations = 0;
        state.failing = None;
        match left {
            Left::Everything => return Self::over(state),
            Left::Synced => state.forget(None),
            Left::Some(seed) => state.forget(Some(&mut Chance(seed))),
        }
        state.power_cuts += 1;
        Self::over(state)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap())
    }

    /// Does something that changes the disk, unless the disk has stopped.
    async fn change<T>(&self, work: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        // Real disks take their time too: others may do something meanwhile.
        tokio::task::yield_now().await;
        let done = self.with(|state| {
            if state.operations >= state.operations_max {
                return None;
            }
            state.operations += 1;
            Some(work(state))
        });
        match done {
            Some(done) => done,
            None => {
                self.stopped.send_replace(true);
                pending().await
            }
        }
    }

    fn file(&self, file: usize) -> Arc<dyn DiskFile> {
        Arc::new(ModelFile { disk: self.clone(), file })
    }
}

impl State {
    fn add(&mut self, path: PathBuf, node: Node) -> io::Result<()> {
        if self.names.contains_key(&path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !path.parent().is_some_and(|dir| self.names.contains_key(dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.names.insert(path.clone(), node);
        self.changes.push(NameChange::Add(path, node));
        Ok(())
    }

    fn create(&mut self, path: PathBuf) -> io::Result<usize> {
        let file = self.files.len();
        self.add(path, Node::File(file))?;
        self.files.push(Contents::default());
        Ok(file)
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.names.get(path) {
            Some(Node::File(file)) => Ok(*file),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn entry(&self, path: &Path, node: Node) -> Entry {
        let size_bytes = match node {
            Node::Dir => 0,
            Node::File(file) => self.files[file].bytes.len() as u64,
        };
        Entry {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            is_dir: matches!(node, Node::Dir),
            size_bytes,
        }
    }

    fn remove_dir(&mut self, path: PathBuf) -> io::Result<()> {
        if !matches!(self.names.get(&path), Some(Node::Dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if self.names.keys().any(|name| name.parent() == Some(&path)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.names.remove(&path);
        self.changes.push(NameChange::Remove(path));
        Ok(())
    }

    /// As Linux does it: a sync that fails forgets what it could not make durable, so the next one
    /// succeeds without it.
    fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let (tried, rest) =
            std::mem::take(&mut self.changes).into_iter().partition(|change| change.touches(dir));
        self.changes = rest;
        let fails = match &mut self.failing {
            Some(Failing::Third(chance)) => chance.below(3) == 0,
            Some(Failing::All) => true,
            None => false,
        };
        if fails {
            return Err(io::Error::other("the names may be lost"));
        }
        durable_changes(tried, &mut self.synced_names);
        Ok(())
    }

    /// Forgets what was not durable, or some of it.
    fn forget(&mut self, mut chance: Option<&mut Chance>) {
        let kept = chance.as_deref_mut().map_or(0, |chance| chance.below(self.changes.len() + 1));
        self.changes.truncate(kept);
        durable_changes(std::mem::take(&mut self.changes), &mut self.synced_names);
        for file in &mut self.files {
            file.forget(chance.as_deref_mut());
        }
        self.names = self.synced_names.clone();
        // What is in a directory that is lost is lost with it.
        let dirs: BTreeSet<_> = self.names.keys().cloned().collect();
        self.names.retain(|path, _| path.ancestors().all(|dir| dirs.contains(dir)));
        self.synced_names = self.names.clone();
    }
}

fn durable_changes(changes: Vec<NameChange>, names: &mut BTreeMap<PathBuf, Node>) {
    for change in changes {
        match change {
            NameChange::Add(path, node) => drop(names.insert(path, node)),
            NameChange::Remove(path) => drop(names.remove(&path)),
            NameChange::Rename(from, to, node) => {
                names.remove(&from);
                names.insert(to, node);
            }
        }
    }
}

impl NameChange {
    fn touches(&self, dir: &Path) -> bool {
        match self {
            Self::Add(path, _) | Self::Remove(path) => path.parent() == Some(dir),
            Self::Rename(from, to, _) => [from, to].iter().any(|path| path.parent() == Some(dir)),
        }
    }
}

impl Contents {
    fn apply(&mut self, change: Change) {
        apply(&mut self.bytes, &change);
        self.changes.push(change);
    }

    fn forget(&mut self, chance: Option<&mut Chance>) {
        let changes = std::mem::take(&mut self.changes);
        if let Some(chance) = chance {
            for change in changes {
                if let Some(change) = chance.leaves(change) {
                    apply(&mut self.synced, &change);
                }
            }
        }
        self.bytes = self.synced.clone();
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, written) => {
            let (start, end) = (*offset as usize, *offset as usize + written.len());
            bytes.resize(bytes.len().max(end), 0);
            bytes[start..end].copy_from_slice(written);
        }
        Change::SetLen(len) => bytes.resize(*len as usize, 0),
    }
}

/// Repeatable chance (SplitMix64).
#[derive(Clone)]
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// What is left of a change: all, nothing, or its beginning.
    fn leaves(&mut self, change: Change) -> Option<Change> {
        match (self.below(3), change) {
            (0, _) => None,
            (1, Change::Write(offset, bytes)) => {
                let torn = self.below(bytes.len() + 1);
                Some(Change::Write(offset, bytes.slice(..torn)))
            }
            (_, change) => Some(change),
        }
    }
}

impl Disk for ModelDisk {
    fn create(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>> {
        let (disk, path) = (self.clone(), path.to_owned());
        Box::pin(async move {
            let file = disk.change(|state| state.create(path)).await?;
            Ok(disk.file(file))
        })
    }

    fn open(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>> {
        let opened = self.with(|state| state.file(path));
        let disk = self.clone();
        Box::pin(async move { Ok(disk.file(opened?)) })
    }

    fn rename(&self, from: &Path, to: &Path) -> BoxFuture<'static, io::Result<()>> {
        let (disk, from, to) = (self.clone(), from.to_owned(), to.to_owned());
        Box::pin(async move {
            let rename = |state: &mut State| {
                let node = state.names.remove(&from).ok_or(io::ErrorKind::NotFound)?;
                state.names.insert(to.clone(), node);
                state.changes.push(NameChange::Rename(from, to, node));
                Ok(())
            };
            disk.change(rename).await
        })
    }

    fn remove_file(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let (disk, path) = (self.clone(), path.to_owned());
        if self.with(|state| state.file(&path).is_err()) {
            return Box::pin(async { Err(io::ErrorKind::NotFound.into()) });
        }
        Box::pin(async move {
            let remove = |state: &mut State| {
                state.names.remove(&path);
                state.changes.push(NameChange::Remove(path));
                Ok(())
            };
            disk.change(remove).await
        })
    }

    fn list(&self, dir: &Path) -> BoxFuture<'static, io::Result<Vec<Entry>>> {
        let listed = self.with(|state| {
            if !state.names.contains_key(dir) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let inside = state.names.iter().filter(|(path, _)| path.parent() == Some(dir));
            Ok(inside.map(|(path, node)| state.entry(path, *node)).collect())
        });
        Box::pin(async { listed })
    }

    fn create_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let (disk, path) = (self.clone(), path.to_owned());
        Box::pin(async move { disk.change(|state| state.add(path, Node::Dir)).await })
    }

    fn remove_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let (disk, path) = (self.clone(), path.to_owned());
        Box::pin(async move { disk.change(|state| state.remove_dir(path)).await })
    }

    fn sync_dir(&self, dir: &Path) -> BoxFuture<'static, io::Result<()>> {
        let (disk, dir) = (self.clone(), dir.to_owned());
        Box::pin(async move { disk.change(|state| state.sync_dir(&dir)).await })
    }

    fn era(&self, _: &Path) -> BoxFuture<'static, Option<[u8; 32]>> {
        let era = self.with(|state| [state.power_cuts; 32]);
        Box::pin(async move { Some(era) })
    }

    fn free_space(&self, _: &Path) -> BoxFuture<'static, io::Result<u64>> {
        Box::pin(async { Ok(u64::MAX) })
    }

    fn lock(&self, _: &Path, _: String) -> BoxFuture<'static, io::Result<Lock>> {
        Box::pin(async { Ok(Lock::Taken(Box::new(()))) })
    }
}

struct ModelFile {
    disk: ModelDisk,
    file: usize,
}

impl ModelFile {
    fn change(
        &self,
        work: impl FnOnce(&mut Contents) + Send + 'static,
    ) -> BoxFuture<'static, io::Result<()>> {
        let (disk, file) = (self.disk.clone(), self.file);
        Box::pin(async move {
            let change = |state: &mut State| {
                work(&mut state.files[file]);
                Ok(())
            };
            disk.change(change).await
        })
    }

    fn read<T>(&self, work: impl FnOnce(&[u8]) -> T) -> T {
        self.disk.with(|state| work(&state.files[self.file].bytes))
    }
}

impl DiskFile for ModelFile {
    fn preallocate(&self, _: u64, to: u64) -> BoxFuture<'static, io::Result<()>> {
        self.set_len(to)
    }

    fn write_at(&self, offset: u64, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        self.change(move |contents| contents.apply(Change::Write(offset, bytes)))
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'static, io::Result<Bytes>> {
        let read = self.read(|bytes| {
            let rest = bytes.get(offset as usize..).unwrap_or(&[]);
            Bytes::copy_from_slice(&rest[..len.min(rest.len())])
        });
        Box::pin(async { Ok(read) })
    }

    fn sync_data(&self) -> BoxFuture<'static, io::Result<()>> {
        let sync = self.change(|contents| {
            contents.synced = contents.bytes.clone();
            contents.changes.clear();
        });
        Box::pin(async {
            for _ in 0..SYNC_TURNS {
                tokio::task::yield_now().await;
            }
            sync.await
        })
    }

    fn size_bytes(&self) -> BoxFuture<'static, io::Result<u64>> {
        let len = self.read(|bytes| bytes.len() as u64);
        Box::pin(async move { Ok(len) })
    }

    fn set_len(&self, len: u64) -> BoxFuture<'static, io::Result<()>> {
        self.change(move |contents| contents.apply(Change::SetLen(len)))
    }
}
