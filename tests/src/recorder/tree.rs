//! Folders with all that is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Files with their bytes, and directories without.
pub type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// What is in a folder.
pub(super) fn read_tree(root: &Path) -> Tree {
    let mut tree = Tree::from([(PathBuf::new(), None)]);
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else {
            continue;
        };
        for entry in entries {
            let path = folder.join(entry.expect("our own folder").file_name());
            if root.join(&path).is_dir() {
                folders.push(path.clone());
                tree.insert(path, None);
            } else {
                let bytes = fs::read(root.join(&path)).expect("our own file");
                tree.insert(path, Some(bytes));
            }
        }
    }
    tree
}

/// Writes a tree into a folder that is empty or not there.
pub fn write_tree(tree: &Tree, root: &Path) {
    for (path, bytes) in tree {
        let path = root.join(path);
        match bytes {
            None => fs::create_dir_all(path).expect("our own folder"),
            Some(bytes) => {
                fs::create_dir_all(path.parent().expect("it is below")).expect("our own folder");
                fs::write(path, bytes).expect("our own folder");
            }
        }
    }
}

/// Says how the folder differs from what was recorded of it.
pub(super) fn differences(found: &Tree, recorded: &Tree) -> Result<(), String> {
    let paths: BTreeSet<&PathBuf> = found.keys().chain(recorded.keys()).collect();
    let differ = paths.into_iter().filter(|path| found.get(*path) != recorded.get(*path));
    let size = |tree: &Tree, path: &Path| match tree.get(path) {
        None => "not there".to_owned(),
        Some(None) => "a directory".to_owned(),
        Some(Some(bytes)) => format!("{} bytes", bytes.len()),
    };
    let lines: Vec<String> = differ
        .map(|path| {
            let (found, recorded) = (size(found, path), size(recorded, path));
            format!("{}: {found}, recorded: {recorded}", path.display())
        })
        .collect();
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
}
