//! The files of a checkout.

use std::fs;
use std::path::Path;

/// A text file of the checkout.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// Its path relative to the root, with `/`.
    pub(super) path: String,
    /// What stands in it.
    pub(super) content: String,
}

impl Text {
    /// The last part of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// True when the file's name ends so.
    pub(super) fn is(&self, extension: &str) -> bool {
        self.name().rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }
}

/// A crate's manifest.
pub(super) struct Manifest {
    /// Its path relative to the root.
    pub(super) path: String,
    /// The crate's folder, such as `core`; empty for the workspace's.
    pub(super) room: String,
    /// What stands in it.
    pub(super) table: toml::Table,
}

const EXTENSIONS: [&str; 9] = ["rs", "toml", "md", "py", "proto", "sh", "yml", "yaml", "json"];
const FOLDERS_SKIPPED: [&str; 3] = ["target", ".git", "__pycache__"];

/// Every text file below `root`, build outputs left out, in order of path.
pub(super) fn texts(root: &Path) -> Vec<Text> {
    let mut found = Vec::new();
    walk(root, "", &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<Text>) {
    for entry in
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
    {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let relative = format!("{prefix}{name}");
        if path.is_dir() {
            if !FOLDERS_SKIPPED.contains(&name.as_str()) {
                walk(&path, &format!("{relative}/"), found);
            }
        } else if is_text(&relative) {
            let content = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{relative} is no text: {error}"));
            found.push(Text { path: relative, content });
        }
    }
}

fn is_text(path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    EXTENSIONS.contains(&extension) || path.starts_with(".ci/")
}

/// The manifests among `texts`.
pub(super) fn manifests(texts: &[Text]) -> Vec<Manifest> {
    let of = |text: &Text| Manifest {
        path: text.path.clone(),
        room: text.path.trim_end_matches("Cargo.toml").trim_end_matches('/').into(),
        table: text.content.parse().unwrap_or_else(|error| panic!("{}: {error}", text.path)),
    };
    texts.iter().filter(|text| text.name() == "Cargo.toml").map(of).collect()
}
