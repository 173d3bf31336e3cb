//! Real launchers: Slurm and Open MPI of Debian's packages, unpacked below the target directory. Nothing is
//! installed, so this takes no rights, and the system stays as it is.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::binary;
use crate::skip::skip;

/// What is wanted; what these need and the system lacks comes with them.
const PACKAGES: [&str; 5] = ["slurmctld", "slurmd", "slurm-client", "munge", "openmpi-bin"];
/// Set to anything, it makes a failure of what is skipped else.
const REQUIRED_BY: &str = "RONDO_LAUNCHERS_REQUIRED";

/// Unpacked launchers.
#[derive(Debug)]
pub struct Launchers {
    root: PathBuf,
    /// Where libraries lie below `/usr/lib`, such as `x86_64-linux-gnu`.
    machine: String,
}

/// The launchers, unpacked once, or `None` after saying why there are none. With
/// `RONDO_LAUNCHERS_REQUIRED` set, none is a failure.
///
/// # Panics
/// When there are none but they are required.
pub fn launchers() -> Option<&'static Launchers> {
    static FOUND: OnceLock<Result<Launchers, String>> = OnceLock::new();
    match FOUND.get_or_init(unpacked) {
        Ok(launchers) => Some(launchers),
        Err(reason) => {
            skip("a launcher (Slurm, Open MPI)", reason, REQUIRED_BY);
            None
        }
    }
}

impl Launchers {
    /// A program of the launchers', such as `srun`, in an environment in which it finds what is its own.
    ///
    /// # Panics
    /// When the packages have no such program.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.program(program));
        let library = self.root.join("usr/lib").join(&self.machine);
        let libraries = [
            self.root.join("lib").join(&self.machine),
            library.clone(),
            self.plugins(),
            library.join("openmpi/lib"),
        ];
        let programs = ["usr/bin", "usr/sbin"].map(|folder| self.root.join(folder));
        let own = env::var_os("PATH").unwrap_or_default();
        let programs = programs.into_iter().chain(env::split_paths(&own));
        command.env("LD_LIBRARY_PATH", env::join_paths(libraries).expect("no colons"));
        command.env("PATH", env::join_paths(programs).expect("no colons"));
        // Open MPI and PMIx were made for other folders.
        command.env("OPAL_PREFIX", self.root.join("usr"));
        command.env("OPAL_SYSCONFDIR", self.root.join("etc/openmpi"));
        command.env("PMIX_INSTALL_PREFIX", library.join("pmix2"));
        command.env("PMIX_MCA_pcompress_base_silence_warning", "1");
        // What the test itself runs under is none of a launched program's business.
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if ["SLURM", "OMPI_", "PMIX_"].iter().any(|start| text.starts_with(start)) {
                command.env_remove(name);
            }
        }
        command
    }

    /// Where a program lies. Debian has alternatives of some, by other names.
    ///
    /// # Panics
    /// When the packages have no such program.
    pub fn program(&self, name: &str) -> PathBuf {
        let names = [name.to_owned(), format!("{name}-wlm"), format!("{name}.openmpi")];
        let folders = ["usr/bin", "usr/sbin"].map(|folder| self.root.join(folder));
        let mut paths = folders.iter().flat_map(|folder| names.iter().map(|it| folder.join(it)));
        paths.find(|path| path.is_file()).unwrap_or_else(|| panic!("no {name} was unpacked"))
    }

    /// Slurm's plugins.
    pub fn plugins(&self) -> PathBuf {
        self.root.join("usr/lib").join(&self.machine).join("slurm-wlm")
    }
}

fn unpacked() -> Result<Launchers, String> {
    let folder = binary::root().join("target/launchers");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // One test process unpacks them, the others wait.
    let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let (root, stamp) = (folder.join("root"), folder.join("stamp"));
    let wanted = PACKAGES.join(" ");
    if !fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        let lists = folder.join("lists");
        // The system's lists of packages may be missing, or older than what the servers have.
        download(&folder, None).or_else(|first| {
            // Where a hook of the system's needs rights this fails, and the lists are there all the same.
            let updated = update(&lists).err().unwrap_or_default();
            download(&folder, Some(&lists)).map_err(|second| {
                format!("{first}; with lists of packages of its own: {updated} {second}")
            })
        })?;
        unpack(&folder, &root)?;
        fs::write(&stamp, wanted).map_err(|error| error.to_string())?;
    }
    let machine = machine(&root)?;
    Ok(Launchers { root, machine })
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
fn download(folder: &Path, lists: Option<&Path>) -> Result<(), String> {
    let packages = folder.join("packages");
    let _ = fs::remove_dir_all(&packages);
    fs::create_dir_all(&packages).map_err(|error| error.to_string())?;
    let mut planning = apt_get(lists);
    planning.args(["install", "--yes", "--reinstall", "--no-install-recommends", "--print-uris"]);
    let plan = run(planning.args(PACKAGES))?;
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

/// The folder of libraries that Slurm's are in.
fn machine(root: &Path) -> Result<String, String> {
    let libraries = root.join("usr/lib");
    let entries = fs::read_dir(&libraries).map_err(|error| error.to_string())?;
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .find(|name| libraries.join(name).join("slurm-wlm").is_dir())
        .ok_or_else(|| format!("no Slurm lies below {}", libraries.display()))
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
