//! The patches: what each says of itself.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::swarm::Part;
use crate::tier::Tier;

/// A planted bug.
pub(super) struct Plant {
    /// The patch's name, without its ending.
    pub(super) name: String,
    /// Where it lies.
    pub(super) path: PathBuf,
    /// What is wrong, in a sentence: the patch's first line.
    pub(super) what: String,
    /// The oracles that should find it: beginnings of promises.
    pub(super) expected: Vec<String>,
    /// The world to look for it in.
    pub(super) tier: Tier,
    /// The only part in whose runs it can be found, if it says one.
    pub(super) part: Option<Part>,
    /// Whether it is one of those that are planted together, for a quick look.
    pub(super) is_quick: bool,
    /// Whether only a build that counts the work of steps shows it.
    pub(super) is_counted: bool,
}

impl Plant {
    /// Whether this broken promise is one that the bug should break.
    pub(super) fn expects(&self, promise: &str) -> bool {
        self.expected.iter().any(|expected| promise.starts_with(expected))
    }
}

/// All patches of a folder, by name; only those whose names contain one of `only`, if it has any.
///
/// # Errors
/// When the folder or a patch cannot be read, or a patch does not name its oracles, or a world
/// that there is not.
pub(super) fn read_all(folder: &Path, only: &[String]) -> Result<Vec<Plant>, String> {
    let entries = fs::read_dir(folder)
        .map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    paths.sort();
    let plants: Result<Vec<Plant>, String> = paths.into_iter().map(read).collect();
    let mut plants = plants?;
    plants.retain(|plant| only.is_empty() || only.iter().any(|part| plant.name.contains(part)));
    Ok(plants)
}

fn read(path: PathBuf) -> Result<Plant, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let text = fs::read_to_string(&path).map_err(failed)?;
    let header = text.lines().find_map(|line| line.strip_prefix("Expected: "));
    let header = header.ok_or_else(|| format!("{} has no line Expected:", path.display()))?;
    let expected = header.split(',').map(|oracle| oracle.trim().to_owned()).collect();
    let what = text.lines().next().unwrap_or_default().to_owned();
    let tier = text.lines().find_map(|line| line.strip_prefix("Tier: "));
    let tier = tier.map_or(Ok(Tier::default()), |name| Tier::from_str(name, false));
    let tier = tier.map_err(|error| format!("{}: Tier: {error}", path.display()))?;
    let part = text.lines().find_map(|line| line.strip_prefix("Part: "));
    let part = part.map(|name| Part::from_str(name, false)).transpose();
    let part = part.map_err(|error| format!("{}: Part: {error}", path.display()))?;
    let is_quick = text.lines().any(|line| line == "Quick: yes");
    let is_counted = text.lines().any(|line| line == "Counted: yes");
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let path = path.canonicalize().map_err(failed)?;
    let name = name.unwrap_or_default();
    Ok(Plant { name, path, what, expected, tier, part, is_quick, is_counted })
}
