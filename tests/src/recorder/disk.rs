//! A disk as recorded calls leave it: what is durable, and what a power cut may lose.
//!
//! It promises no more than POSIX does. A write is durable once a sync of its file that began after the
//! write has ended; a name once a sync of its directory has. Until then a power cut may keep it, lose it, or
//! keep any part of it, whatever happens to what was written before or later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::contents::{Change, Contents};
pub use super::node::Kept;
use super::node::{Node, Pending};
use super::trace::{Call, Moment};
use super::tree::{Tree, differences, read_tree};

/// A disk with one folder that is watched.
#[derive(Clone, Debug)]
pub struct Disk {
    root: PathBuf,
    nodes: Vec<Node>,
    /// Every path that a file was created with.
    created: BTreeMap<PathBuf, usize>,
    /// Where the next plain write of each descriptor goes.
    places: BTreeMap<i64, u64>,
    /// Syncs that have begun, by the line, with what they make durable.
    syncs: BTreeMap<usize, (usize, Vec<u64>)>,
    /// Changes that have begun, by the line.
    begun: BTreeMap<usize, Vec<(usize, u64)>>,
    changes: u64,
}

impl Disk {
    /// A disk on which the folder `root` is empty. Nothing outside of it is watched.
    pub fn empty(root: &Path) -> Self {
        let top = Node { durable: Contents::Dir(BTreeMap::new()), pending: Vec::new() };
        Self {
            root: root.to_owned(),
            nodes: vec![top],
            created: BTreeMap::new(),
            places: BTreeMap::new(),
            syncs: BTreeMap::new(),
            begun: BTreeMap::new(),
            changes: 0,
        }
    }

    /// Takes a begin or an end of a call. True if it changed what may be on the disk, or what must.
    ///
    /// # Panics
    /// When a call changes a watched file in a way that is not understood.
    pub fn take(&mut self, moment: Moment<'_>) -> bool {
        match moment {
            Moment::Begins(call) => self.begins(call),
            Moment::Ends(call) => self.ends(call),
        }
    }

    fn begins(&mut self, call: &Call) -> bool {
        // A call without a result was cut short by a kill: it may have happened.
        if call.result.is_some_and(|result| result < 0) {
            return false;
        }
        match call.name.as_str() {
            "fsync" | "fdatasync" => self.sync_begins(call),
            "open" | "openat" | "creat" => self.open_begins(call),
            "write" | "pwrite64" | "ftruncate" | "fallocate" => self.file_changes(call),
            "mkdir" | "mkdirat" | "rename" | "renameat" | "renameat2" | "unlink" | "unlinkat"
            | "rmdir" => self.names_change(call),
            "io_uring_setup" => panic!("what goes through io_uring is not seen"),
            "read" | "lseek" => false,
            other => {
                let path = call.arguments[0].descriptor().map(Path::new);
                let is_watched = path.is_some_and(|path| path.starts_with(&self.root));
                assert!(!is_watched, "{other} of {path:?} is not understood");
                false
            }
        }
    }

    fn ends(&mut self, call: &Call) -> bool {
        if let ("lseek", Some(place)) = (call.name.as_str(), call.result) {
            let descriptor = call.arguments[0].number().and_then(|number| number.try_into().ok());
            let place = u64::try_from(place).unwrap_or_default();
            self.places.extend(descriptor.map(|descriptor: i64| (descriptor, place)));
            return false;
        }
        if let (Some(path), Some(descriptor)) = (&call.opened, call.result)
            && let Some(node) = self.find(Path::new(path))
        {
            let appends = call.arguments.iter().any(|it| it.word.contains("O_APPEND"));
            let place = if appends { self.bytes_now(node).len() as u64 } else { 0 };
            self.places.insert(descriptor, place);
        }
        if call.result.is_none() {
            self.syncs.remove(&call.began);
            return false;
        }
        if let Some(begun) = self.begun.remove(&call.began) {
            for (node, id) in begun {
                let pending = &mut self.nodes[node].pending;
                for pending in pending.iter_mut().filter(|pending| pending.id == id) {
                    (pending.has_ended, pending.is_doubtful) = (true, false);
                }
            }
            return false;
        }
        let Some((node, covered)) = self.syncs.remove(&call.began) else {
            return false;
        };
        self.make_durable(node, &covered);
        true
    }

    /// Says that the process has ended, and looks which of the calls that it was killed in had their effect.
    ///
    /// # Errors
    /// When the folder holds something else than was recorded.
    pub fn process_ended(&mut self) -> Result<(), String> {
        self.places.clear();
        self.syncs.clear();
        self.begun.clear();
        for node in 0..self.nodes.len() {
            let doubtful = self.nodes[node].pending.iter().filter(|pending| pending.is_doubtful);
            for id in doubtful.map(|pending| pending.id).collect::<Vec<_>>() {
                if read_tree(&self.root) != self.left(Kept::Everything) {
                    self.nodes[node].pending.retain(|pending| pending.id != id);
                }
            }
            for pending in &mut self.nodes[node].pending {
                (pending.has_ended, pending.is_doubtful) = (true, false);
            }
        }
        differences(&read_tree(&self.root), &self.left(Kept::Everything))
    }

    fn sync_begins(&mut self, call: &Call) -> bool {
        let path = call.arguments[0].descriptor();
        if let Some(node) = path.and_then(|path| self.find_file(Path::new(path))) {
            let ended = self.nodes[node].pending.iter().filter(|pending| pending.has_ended);
            let covered = ended.map(|pending| pending.id).collect();
            self.syncs.insert(call.began, (node, covered));
        }
        false
    }

    fn make_durable(&mut self, node: usize, covered: &[u64]) {
        let Node { durable, pending } = &mut self.nodes[node];
        pending.retain(|pending| {
            let is_covered = covered.contains(&pending.id);
            if is_covered {
                durable.apply(&pending.change);
            }
            !is_covered
        });
    }

    fn open_begins(&mut self, call: &Call) -> bool {
        let flags = |flag| call.arguments.iter().any(|it| it.word.contains(flag));
        let Some(path) = call.opened.as_deref().map(PathBuf::from) else {
            return false;
        };
        let Some(dir) = path.parent().and_then(|parent| self.find(parent)) else {
            return false;
        };
        match self.find(&path) {
            None if flags("O_CREAT") || call.name == "creat" => {
                let name = name(&path);
                let file = self.add_node(Contents::File(Vec::new()));
                self.created.insert(path, file);
                self.change(call, dir, Change::Add(name, file))
            }
            Some(file) if flags("O_TRUNC") && !self.bytes_now(file).is_empty() => {
                self.change(call, file, Change::SetLen(0))
            }
            _ => false,
        }
    }

    fn file_changes(&mut self, call: &Call) -> bool {
        let path = call.arguments[0].descriptor().map(PathBuf::from);
        let Some(path) = path.filter(|path| path.starts_with(&self.root)) else {
            return false;
        };
        let file = self.find_file(&path);
        let file = file.unwrap_or_else(|| panic!("{path:?} is written to and was never created"));
        let number = |at: usize| call.arguments[at].number().expect("a number");
        let change = match call.name.as_str() {
            "ftruncate" => Change::SetLen(number(1)),
            "fallocate" => {
                assert_eq!(call.arguments[1].word, "0", "only setting space aside is understood");
                Change::Lengthen(number(2) + number(3))
            }
            written => {
                let bytes = self.written(call);
                let place = match written {
                    "pwrite64" => number(3),
                    _ => {
                        let descriptor = i64::try_from(number(0)).expect("descriptors are small");
                        let place = self.places.entry(descriptor).or_default();
                        *place += bytes.len() as u64;
                        *place - bytes.len() as u64
                    }
                };
                Change::Write(place, bytes)
            }
        };
        self.change(call, file, change)
    }

    /// The bytes that a call wrote.
    fn written(&self, call: &Call) -> Vec<u8> {
        let Argument { bytes, is_cut } = Argument::of(call);
        let count = match call.result {
            Some(result) => usize::try_from(result).expect("no negative results come here"),
            None => bytes.len(),
        };
        let mut bytes = bytes.to_vec();
        if is_cut {
            assert!(bytes.iter().all(|byte| *byte == 0), "a write longer than what is recorded");
        }
        bytes.resize(count, 0);
        bytes
    }

    fn names_change(&mut self, call: &Call) -> bool {
        let paths = call_paths(call);
        let Some(first) = paths.first().filter(|path| path.starts_with(&self.root)) else {
            return false;
        };
        let dir = first.parent().and_then(|parent| self.find(parent));
        let dir = dir.unwrap_or_else(|| panic!("{first:?} lies in no directory"));
        let change = match call.name.as_str() {
            "mkdir" | "mkdirat" => {
                Change::Add(name(first), self.add_node(Contents::Dir(BTreeMap::new())))
            }
            "unlink" | "unlinkat" | "rmdir" => Change::Remove(name(first)),
            _ => {
                let to = &paths[1];
                if first.parent() != to.parent() {
                    return self.move_elsewhere(call, first, to);
                }
                Change::Rename(name(first), name(to))
            }
        };
        self.change(call, dir, change)
    }

    /// A move to another directory is durable there and here by two syncs: a power cut between them may leave
    /// both names or none.
    fn move_elsewhere(&mut self, call: &Call, from: &Path, to: &Path) -> bool {
        let found = [Some(from), to.parent(), from.parent()].map(|path| self.find(path?));
        let [Some(node), Some(to_dir), Some(from_dir)] = found else {
            panic!("{from:?} cannot become {to:?}");
        };
        self.change(call, to_dir, Change::Add(name(to), node));
        self.change(call, from_dir, Change::Remove(name(from)))
    }

    fn add_node(&mut self, empty: Contents) -> usize {
        self.nodes.push(Node { durable: empty, pending: Vec::new() });
        self.nodes.len() - 1
    }

    fn change(&mut self, call: &Call, node: usize, change: Change) -> bool {
        self.changes += 1;
        let id = self.changes;
        let is_doubtful = call.result.is_none();
        self.begun.entry(call.began).or_default().push((node, id));
        let pending = Pending { id, has_ended: false, is_doubtful, change };
        self.nodes[node].pending.push(pending);
        true
    }

    /// The file or directory that has this path now.
    fn find(&self, path: &Path) -> Option<usize> {
        let mut node = 0;
        for part in path.strip_prefix(&self.root).ok()? {
            let Contents::Dir(names) = self.now(node) else {
                return None;
            };
            node = *names.get(part.to_str()?)?;
        }
        Some(node)
    }

    /// The file or directory that has this path now, or had it while a directory above got another name.
    fn find_file(&self, path: &Path) -> Option<usize> {
        self.find(path).or_else(|| self.created.get(path).copied())
    }

    fn now(&self, node: usize) -> Contents {
        let Node { durable, pending } = &self.nodes[node];
        let mut contents = durable.clone();
        pending.iter().for_each(|pending| contents.apply(&pending.change));
        contents
    }

    fn bytes_now(&self, node: usize) -> Vec<u8> {
        match self.now(node) {
            Contents::File(bytes) => bytes,
            Contents::Dir(_) => Vec::new(),
        }
    }

    /// What is there when the power comes back.
    pub fn left(&self, kept: Kept) -> Tree {
        let mut tree = Tree::new();
        self.add_left(kept, 0, PathBuf::new(), &mut tree);
        tree
    }

    fn add_left(&self, kept: Kept, node: usize, path: PathBuf, tree: &mut Tree) {
        match self.nodes[node].left(kept, node as u64) {
            Contents::File(bytes) => drop(tree.insert(path, Some(bytes))),
            Contents::Dir(names) => {
                for (name, node) in names {
                    self.add_left(kept, node, path.join(name), tree);
                }
                tree.insert(path, None);
            }
        }
    }
}

/// The bytes that a call hands over.
struct Argument<'a> {
    bytes: &'a [u8],
    is_cut: bool,
}

impl<'a> Argument<'a> {
    fn of(call: &'a Call) -> Self {
        let argument = &call.arguments[1];
        Self { bytes: &argument.bytes, is_cut: argument.is_cut }
    }
}

/// The paths that a call names, whole.
fn call_paths(call: &Call) -> Vec<PathBuf> {
    let mut dir = PathBuf::new();
    let mut paths = Vec::new();
    for argument in &call.arguments {
        if let Some(path) = argument.descriptor() {
            dir = path.into();
        } else if !argument.bytes.is_empty() {
            paths.push(dir.join(argument.text()));
        }
    }
    paths
}

fn name(path: &Path) -> String {
    path.file_name().expect("it has a name").to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::super::trace::{Call, moments, parse};
    use super::*;

    /// What a power cut leaves of the file `name` after these calls.
    fn left(trace: &str, kept: Kept, name: &str) -> Option<Vec<u8>> {
        let calls: Vec<Call> = parse(trace.as_bytes());
        let mut disk = Disk::empty(Path::new("/d"));
        for moment in moments(&calls) {
            disk.take(moment);
        }
        disk.left(kept).remove(Path::new(name)).flatten()
    }

    const CREATED: &str = r#"1 openat(AT_FDCWD</>, "/d/a", O_RDWR|O_CREAT, 0777) = 3</d/a>
1 write(3</d/a>, "one", 3) = 3
1 fdatasync(3</d/a>) = 0
1 write(3</d/a>, "two", 3) = 3
"#;

    #[test]
    fn a_name_is_durable_with_its_directory_and_bytes_with_their_file() {
        assert_eq!(left(CREATED, Kept::Synced, "a"), None);
        let synced = format!("{CREATED}1 fsync(4</d>) = 0\n");
        assert_eq!(left(&synced, Kept::Synced, "a").unwrap(), b"one");
        assert_eq!(left(&synced, Kept::Everything, "a").unwrap(), b"onetwo");
        let renamed = format!("{synced}1 rename(\"/d/a\", \"/d/b\") = 0\n");
        assert_eq!(left(&renamed, Kept::Synced, "b"), None);
        assert_eq!(left(&renamed, Kept::Synced, "a").unwrap(), b"one");
        assert_eq!(left(&renamed, Kept::Everything, "b").unwrap(), b"onetwo");
    }

    #[test]
    fn a_power_cut_may_keep_bytes_without_names_and_names_without_bytes() {
        let renamed = format!("{CREATED}1 fsync(4</d>) = 0\n1 rename(\"/d/a\", \"/d/b\") = 0\n");
        let seen = [Kept::Bytes, Kept::Names]
            .map(|kept| ["a", "b"].map(|name| left(&renamed, kept, name)));
        assert_eq!(seen, [[Some(b"onetwo".to_vec()), None], [None, Some(b"one".to_vec())]]);
    }

    #[test]
    fn a_sync_that_fails_or_began_too_early_makes_nothing_durable() {
        let name = "1 fsync(4</d>) = 0\n";
        let failed = format!("{CREATED}{name}1 fsync(3</d/a>) = -1 EIO (Input/output error)\n");
        assert_eq!(left(&failed, Kept::Synced, "a").unwrap(), b"one");
        let early = "2 fsync(3</d/a> <unfinished ...>\n\
            1 pwrite64(3</d/a>, \"X\", 1, 0) = 1\n\
            2 <... fsync resumed>) = 0\n";
        assert_eq!(left(&format!("{CREATED}{name}{early}"), Kept::Synced, "a").unwrap(), b"onetwo");
    }

    #[test]
    fn chance_keeps_all_of_a_write_or_part_of_it_or_nothing() {
        let synced = format!("{CREATED}1 fsync(4</d>) = 0\n");
        let seen = (0..100).map(|seed| left(&synced, Kept::Some(seed), "a").unwrap());
        let seen: BTreeSet<_> = seen.collect();
        let all = [&b"one"[..], b"onet", b"onetw", b"onetwo"].map(<[u8]>::to_vec);
        assert_eq!(seen, all.into());
    }

    #[test]
    fn an_operation_that_was_not_seen_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        let calls = parse(CREATED.replace("/d/a", &format!("{root}/a")).as_bytes());
        let mut disk = Disk::empty(folder.path());
        for moment in moments(&calls) {
            disk.take(moment);
        }
        fs::write(folder.path().join("a"), b"onetwo").unwrap();
        assert_eq!(disk.process_ended(), Ok(()));
        fs::write(folder.path().join("a"), b"onetwothree").unwrap();
        assert_eq!(disk.process_ended().unwrap_err(), "a: 11 bytes, recorded: 6 bytes");
    }
}
