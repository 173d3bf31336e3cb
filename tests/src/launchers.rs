//! Real launchers: Slurm and Open MPI of Debian's packages, unpacked below the target directory.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::debian;
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
    let root = debian::unpacked("launchers", &PACKAGES)?;
    let machine = machine(&root)?;
    Ok(Launchers { root, machine })
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
