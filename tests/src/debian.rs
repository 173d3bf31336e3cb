//! Programs of Debian's packages, unpacked below the target directory. Nothing is installed, so this takes no
//! rights, and the system stays as it is.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binary;

/// The folder that these packages, and those they need and the system lacks, are unpacked in: `name` below
/// the target directory. They are unpacked once.
///
/// # Errors
/// Why they cannot be had, such as no `apt-get` or no network.
pub fn unpacked(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let folder = binary::root().join("target").join(name);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // One test process unpacks them, the others wait.
    let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let (root, stamp) = (folder.join("root"), folder.join("stamp"));
    let wanted = packages.join(" ");
    if !fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        let lists = folder.join("lists");
        // The system's lists of packages may be missing, or older than what the servers have.
        download(&folder, None, packages).or_else(|first| {
            // Where a hook of the system's needs rights this fails, and the lists are there all the same.
            let updated = update(&lists).err().unwrap_or_default();
            download(&folder, Some(&lists), packages).map_err(|second| {
                format!("{first}; with lists of packages of its own: {updated} {second}")
            })
        })?;
        unpack(&folder, &root)?;
        fs::write(&stamp, wanted).map_err(|error| error.to_string())?;
    }
    Ok(root)
}

/// `apt-get`, with lists of packages of its own where some are given.
fn apt_get(lists: Option<&Path>) -> Command {
    let mut command = Command::new("apt-get");
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["-qq", "-o", "APT::Sandbox::User="]);
    if let Some(lists) = lists {
        command.arg("-o").arg(format!("Dir::State::lists={}", lists.display()));
        command.args(["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]);
    }
    command
}

fn update(lists: &Path) -> Result<(), String> {
    fs::create_dir_all(lists.join("partial")).map_err(|error| error.to_string())?;
    run(apt_get(Some(lists)).arg("update")).map(drop)
}

/// Downloads the packages and those of what they need that are not installed.
fn download(folder: &Path, lists: Option<&Path>, wanted: &[&str]) -> Result<(), String> {
    let packages = folder.join("packages");
    let _ = fs::remove_dir_all(&packages);
    fs::create_dir_all(&packages).map_err(|error| error.to_string())?;
    let mut planning = apt_get(lists);
    planning.args(["install", "--yes", "--reinstall", "--no-install-recommends", "--print-uris"]);
    let plan = run(planning.args(wanted))?;
    // 'http://…/munge_0.5.deb' munge_0.5.deb 106096 MD5Sum:…
    let names = plan.lines().filter_map(|line| {
        let file = line.strip_prefix('\'')?.split(' ').nth(1)?;
        file.split_once('_').map(|(name, _)| name.to_owned())
    });
    run(apt_get(lists).arg("download").args(names).current_dir(&packages)).map(drop)
}

fn unpack(folder: &Path, root: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(root);
    let entries = fs::read_dir(folder.join("packages")).map_err(|error| error.to_string())?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        run(Command::new("dpkg").arg("-x").arg(&path).arg(root))?;
    }
    fs::remove_dir_all(folder.join("packages")).map_err(|error| error.to_string())
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
