//! A copy of the sources with a bug in it, and what is built of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::plant::Plant;
use crate::tier::Tier;

/// Lines of a compiler's complaint that are told.
const COMPLAINT_LINES_MAX: usize = 12;

/// The target of a build that counts. Where cargo is given a target, it compiles build scripts without the
/// flags.
const COUNTED_TARGET: &str = "x86_64-unknown-linux-gnu";
/// With these flags the compiler counts each block of instructions that runs (`sim/cost`).
const COUNTING_FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=2 \
                              -Cllvm-args=-sanitizer-coverage-trace-pc-guard";

/// How the simulator is built.
#[derive(Clone, Copy, Debug)]
pub(super) enum Build {
    /// For a world, in small units, each optimised for itself: a bug costs the build of the module it is in.
    Optimised(Tier),
    /// The simulator that counts the work of steps.
    Counted,
    /// Once, for few seeds: without optimisation of the workspace's own crates.
    Once,
}

impl Build {
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Counted => &["--profile", "sim", "--target", COUNTED_TARGET],
            Self::Optimised(_) => &[
                "--profile",
                "sim",
                "--config",
                "profile.sim.codegen-units=256",
                "--config",
                "profile.sim.lto=\"off\"",
            ],
            Self::Once => &[
                "--config",
                "profile.dev.debug=\"none\"",
                "--config",
                "profile.dev.package.rondo-core.opt-level=0",
                "--config",
                "profile.dev.package.rondo-proto.opt-level=0",
                "--config",
                "profile.dev.package.rondo-sim.opt-level=0",
            ],
        }
    }

    /// The folder below the target directory. Each has its own, so that no build undoes another.
    const fn folder(self) -> &'static str {
        match self {
            Self::Optimised(tier) => tier.name(),
            Self::Counted => "counted",
            Self::Once => "quick",
        }
    }

    /// Where cargo puts the program, below the target directory.
    fn program(self) -> PathBuf {
        match self {
            Self::Optimised(_) => Path::new("sim").join(self.package()),
            Self::Counted => Path::new(COUNTED_TARGET).join("sim").join(self.package()),
            Self::Once => Path::new("debug").join(self.package()),
        }
    }

    /// The package that holds the program, which has the same name.
    const fn package(self) -> &'static str {
        match self {
            Self::Counted => "rondo-sim-cost",
            Self::Optimised(_) | Self::Once => "rondo-sim",
        }
    }

    /// The flags that cargo passes to the compiler.
    const fn flags(self) -> Option<&'static str> {
        match self {
            Self::Optimised(Tier::Shell) => Some("--cfg madsim"),
            Self::Counted => Some(COUNTING_FLAGS),
            Self::Optimised(Tier::Core) | Self::Once => None,
        }
    }
}

/// Where copies are made and built.
pub(super) struct Tree {
    sources: PathBuf,
    target: PathBuf,
}

impl Tree {
    /// A place below `scratch`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn new(scratch: &Path) -> Result<Self, String> {
        let failed = |error| format!("cannot make {}: {error}", scratch.display());
        let sources = scratch.join("tree");
        fs::create_dir_all(&sources).map_err(failed)?;
        let scratch = scratch.canonicalize().map_err(failed)?;
        Ok(Self { sources: scratch.join("tree"), target: scratch.join("target") })
    }

    /// Brings the copy to what is in the working tree, and plants a bug in it.
    ///
    /// # Errors
    /// When the patch does not apply, or files cannot be copied.
    pub(super) fn plant(&self, patch: &Path) -> Result<(), String> {
        self.copy_workspace()?;
        self.apply(patch)
    }

    /// The same with several bugs.
    ///
    /// # Errors
    /// When a patch does not apply beside those before it, or files cannot be copied.
    pub(super) fn plant_all(&self, plants: &[Plant]) -> Result<(), String> {
        self.copy_workspace()?;
        plants.iter().try_for_each(|plant| {
            self.apply(&plant.path).map_err(|reason| format!("{}: {reason}", plant.name))
        })
    }

    fn apply(&self, patch: &Path) -> Result<(), String> {
        let output = Command::new("git")
            .args(["apply", "-C1", "--whitespace=nowarn"])
            .arg(patch)
            // The copy lies inside a checkout, and is none of its own.
            .env("GIT_CEILING_DIRECTORIES", self.sources.parent().unwrap_or(&self.sources))
            .current_dir(&self.sources)
            .output()
            .map_err(|error| format!("cannot run git: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("does not apply: {}", complaint(&output.stderr))),
        }
    }

    /// Builds the simulator; its path.
    ///
    /// # Errors
    /// When it does not compile.
    pub(super) fn build(&self, kind: Build) -> Result<PathBuf, String> {
        let target = self.target.join(kind.folder());
        let mut cargo = Command::new("cargo");
        if let Some(flags) = kind.flags() {
            cargo.env("RUSTFLAGS", flags);
        }
        let output = cargo
            .args(["build", "--quiet", "-p", kind.package()])
            .args(kind.arguments())
            .arg("--target-dir")
            .arg(&target)
            .current_dir(&self.sources)
            .output()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        match output.status.success() {
            true => Ok(target.join(kind.program())),
            false => Err(format!("does not compile: {}", complaint(&output.stderr))),
        }
    }

    /// The workspace's manifest, its lock, and all packages beside it.
    fn copy_workspace(&self) -> Result<(), String> {
        for entry in entries(Path::new("."))? {
            let is_package = entry.join("Cargo.toml").is_file();
            let is_manifest =
                ["./Cargo.toml", "./Cargo.lock"].iter().any(|name| entry == Path::new(name));
            if is_package || is_manifest {
                let name = entry.file_name().unwrap_or_default();
                copy(&entry, &self.sources.join(name))?;
            }
        }
        Ok(())
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = fs::read_dir(folder);
    let listed = listed.map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    Ok(listed.flatten().map(|entry| entry.path()).collect())
}

/// Copies what differs, so that the rest need not be built again, and removes what is no more.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot copy {}: {error}", from.display());
    if !from.is_dir() {
        let bytes = fs::read(from).map_err(failed)?;
        let same = fs::read(to).is_ok_and(|there| there == bytes);
        return if same { Ok(()) } else { fs::write(to, bytes).map_err(failed) };
    }
    if from.ends_with("target") {
        return Ok(());
    }
    fs::create_dir_all(to).map_err(failed)?;
    for entry in entries(to)? {
        let gone = !from.join(entry.file_name().unwrap_or_default()).exists();
        if gone {
            if entry.is_dir() { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) }
                .map_err(failed)?;
        }
    }
    for entry in entries(from)? {
        copy(&entry, &to.join(entry.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.lines().take(COMPLAINT_LINES_MAX).collect::<Vec<_>>().join("\n")
}
