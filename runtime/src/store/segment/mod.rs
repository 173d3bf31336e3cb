//! The journal in plain files, one a segment: the reference, and the fast one.
//!
//! Frames stand one behind the other at multiples of 8 bytes; space is set aside in advance, so
//! zeros follow the last one. A file is cut to its frames when its segment is closed. The file of
//! a segment comes into being with its first frame.

mod file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame::{Stretch, scan};

use self::file::{OpenSegment, read_all};
use super::disk::Disk;
use super::health::Health;
use super::order::{Order, last_to_stay, refuse_to_divide};
use super::reserve::Reserve;
use super::small_file::remove_if_there;
use super::{
    AppendError, BoxFuture, Found, Segment, Store, StoreConfig, StoreError, names, sync_names,
};

const SUFFIX: &str = ".seg";

/// The journal in plain files over a [`Disk`].
pub struct SegmentStore {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    preallocate_bytes: u64,
    reserve: Reserve,
    health: Health,
    order: Order,
    /// Sizes of the closed segments, in bytes.
    closed: BTreeMap<Lsn, u64>,
    /// The last segment, if it has a file.
    open: Option<OpenSegment>,
    /// Where the last segment begins, if it has no file yet.
    planned: Option<Lsn>,
}

impl SegmentStore {
    /// Opens the journal in the directory `dir`. The last segment becomes the open one.
    ///
    /// # Errors
    /// When files cannot be read.
    pub async fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        config: &StoreConfig,
    ) -> Result<Self, StoreError> {
        let entries = disk.list(dir).await;
        let entries = entries.map_err(|error| StoreError::new("cannot list", dir, &error))?;
        sync_names(&*disk, dir).await?;
        let mut closed = BTreeMap::new();
        for entry in entries {
            match names::position(&entry.name, SUFFIX) {
                Some(first) => drop(closed.insert(first, entry.size_bytes)),
                None => {
                    let dir = dir.display();
                    tracing::warn!(name = entry.name, %dir, "not a journal segment: ignored");
                }
            }
        }
        let mut store = Self {
            reserve: Reserve::new(Arc::clone(&disk), dir, config.free_space_reserve_bytes),
            disk,
            dir: dir.to_owned(),
            preallocate_bytes: config.preallocate_bytes,
            health: Health::default(),
            order: Order::default(),
            closed,
            open: None,
            planned: None,
        };
        store.reopen_last().await?;
        Ok(store)
    }

    /// Makes the last closed segment, if there is one, the open one; says what is in it.
    async fn reopen_last(&mut self) -> Result<Vec<Stretch>, StoreError> {
        let Some((first, _)) = self.closed.pop_last() else {
            return Ok(Vec::new());
        };
        let (open, found) = OpenSegment::open(&*self.disk, self.path(first), first).await?;
        self.order = Order::behind(first, headers(&found));
        self.open = Some(open);
        Ok(found)
    }

    fn path(&self, first: Lsn) -> PathBuf {
        self.dir.join(names::of(first, SUFFIX))
    }

    async fn append(&mut self, first: Lsn, frame: Bytes) -> Result<(), AppendError> {
        self.health.check()?;
        let header = self.order.check(first, &frame, &self.dir)?;
        match self.write(first, frame).await {
            Ok(()) => self.order.took(&header),
            Err(error) => return Err(self.health.refuse(error)),
        }
        Ok(())
    }

    async fn write(&mut self, first: Lsn, frame: Bytes) -> Result<(), AppendError> {
        let segment = self.planned.unwrap_or(first);
        let path = self.path(segment);
        let open = match &mut self.open {
            Some(open) => open,
            vacant => {
                let needed_bytes = frame.len() as u64;
                vacant.insert(create(&*self.disk, path, segment, needed_bytes).await?)
            }
        };
        self.planned = None;
        open.append(frame, &mut self.reserve, self.preallocate_bytes).await
    }

    async fn rotate(&mut self, next: Lsn) -> Result<bool, StoreError> {
        self.health.check()?;
        let Some(open) = self.open.as_mut().filter(|open| open.first < next) else {
            return Ok(true);
        };
        if !open.finish().await.map_err(|error| self.health.fail(error))? {
            return Ok(false);
        }
        self.closed.insert(open.first, open.size_bytes());
        self.open = None;
        self.planned = Some(next);
        Ok(true)
    }

    async fn truncate(&mut self, from: Lsn) -> Result<(), StoreError> {
        self.health.check()?;
        self.cut(from).await.map_err(|error| self.health.fail(error))
    }

    async fn cut(&mut self, from: Lsn) -> Result<(), StoreError> {
        self.planned = None;
        if let Some(open) = self.open.take() {
            self.closed.insert(open.first, open.size_bytes());
        }
        self.check_cut(from).await?;
        // One by one from the last, so that a crash on the way leaves a journal without a gap.
        for (first, _) in self.closed.split_off(&from).into_iter().rev() {
            remove_file(&*self.disk, &self.dir, &self.path(first)).await?;
        }
        let found = self.reopen_last().await?;
        match &mut self.open {
            Some(open) => open.cut(kept_bytes(&found, from)).await?,
            None => self.planned = Some(from),
        }
        self.order = Order::starting_at(from);
        Ok(())
    }

    /// Refuses to divide a group, before anything is changed.
    async fn check_cut(&self, from: Lsn) -> Result<(), StoreError> {
        let Some((first, _)) = self.closed.range(..from).next_back() else {
            return Ok(());
        };
        let path = self.path(*first);
        let found = read(&*self.disk, &path).await?;
        headers(&found).try_for_each(|header| refuse_to_divide(&header, from, &path))
    }

    async fn remove(&mut self, segment: Lsn) -> Result<(), StoreError> {
        self.health.check()?;
        let path = self.path(segment);
        if !self.closed.contains_key(&segment) {
            return Err(StoreError::not_closed(&path));
        }
        remove_file(&*self.disk, &self.dir, &path).await?;
        self.closed.remove(&segment);
        Ok(())
    }
}

impl Store for SegmentStore {
    fn append(&mut self, first: Lsn, frame: Bytes) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(self.append(first, frame))
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), StoreError>> {
        let health = self.health.clone();
        let sync = self.open.as_ref().map(OpenSegment::sync);
        Box::pin(async move {
            health.check()?;
            let Some(sync) = sync else {
                return Ok(());
            };
            sync.await.map_err(|error| health.fail(error))?;
            // A sync that began before another failed says nothing of the bytes in doubt.
            health.check()
        })
    }

    fn rotate(&mut self, next: Lsn) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(self.rotate(next))
    }

    fn segments(&self) -> Vec<Segment> {
        let closed = self.closed.iter().map(|(first, size)| (*first, *size));
        let open = self.open.iter().map(|open| (open.first, open.size_bytes()));
        let planned = self.planned.iter().map(|first| (*first, 0));
        let all = closed.chain(open).chain(planned);
        all.map(|(first, size_bytes)| Segment { first, size_bytes }).collect()
    }

    fn read(&self, segment: Lsn) -> BoxFuture<'static, Result<Vec<Found>, StoreError>> {
        let disk = Arc::clone(&self.disk);
        let path = self.path(segment);
        let planned = self.planned == Some(segment);
        Box::pin(async move {
            if planned {
                return Ok(Vec::new());
            }
            let found = read(&*disk, &path).await?;
            Ok(found.into_iter().map(|stretch| place(stretch, &path)).collect())
        })
    }

    fn truncate(&mut self, from: Lsn) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.truncate(from))
    }

    fn remove(&mut self, segment: Lsn) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.remove(segment))
    }
}

/// Creates a segment for a first frame of `needed_bytes`.
async fn create(
    disk: &dyn Disk,
    path: PathBuf,
    first: Lsn,
    needed_bytes: u64,
) -> Result<OpenSegment, AppendError> {
    let created = OpenSegment::create(disk, path.clone(), first).await;
    created.map_err(|error| AppendError::no_segment(&path, needed_bytes, &error))
}

async fn read(disk: &dyn Disk, path: &Path) -> Result<Vec<Stretch>, StoreError> {
    let file = disk.open(path).await;
    let file = file.map_err(|error| StoreError::new("cannot open", path, &error))?;
    Ok(scan(&read_all(&*file, path).await?))
}

/// Removes a segment's file, durably. One attempt may have failed after the file was gone.
async fn remove_file(disk: &dyn Disk, dir: &Path, path: &Path) -> Result<(), StoreError> {
    let removed = remove_if_there(disk, path).await;
    removed.map_err(|error| StoreError::new("cannot remove", path, &error))?;
    sync_names(disk, dir).await
}

fn headers(found: &[Stretch]) -> impl Iterator<Item = GroupHeader> {
    found.iter().filter_map(|stretch| Some(stretch.frame.as_ref().ok()?.0))
}

/// Where the frames end that stay when the journal is cut before `from`.
fn kept_bytes(found: &[Stretch], from: Lsn) -> u64 {
    let header = |stretch: &Stretch| Some(stretch.frame.as_ref().ok()?.0);
    last_to_stay(found, header, from).map_or(0, |last| last.end as u64)
}

fn place(stretch: Stretch, path: &Path) -> Found {
    Found {
        place: format!("{} offset {}", path.display(), stretch.offset),
        frame: stretch.frame.map(|(_, frame)| frame),
    }
}
