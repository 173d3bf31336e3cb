//! Programs under strace, which writes down each system call in the order in which the kernel sees them.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::debian;
use crate::skip::skip;

/// Set to anything, it makes a failure of what is skipped else.
const REQUIRED_BY: &str = "RONDO_STRACE_REQUIRED";
/// All that changes files or makes them durable. Calls that not every processor or kernel has are marked with
/// a question mark.
const CALLS: &str = "trace=?open,openat,?creat,lseek,read,write,pwrite64,writev,?pwritev,?pwritev2,\
    ?truncate,ftruncate,fallocate,fsync,fdatasync,?rename,?renameat,renameat2,?unlink,unlinkat,\
    ?rmdir,?mkdir,mkdirat,?link,linkat,?symlink,symlinkat,?copy_file_range,?sendfile,?io_uring_setup";
/// Bytes of a written buffer that are kept.
const BUFFER_BYTES_MAX: &str = "600000";
/// How long strace may take to write the last of what it saw.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes at the end of a trace in which the end of the process stands.
const TAIL_BYTES: u64 = 4096;

/// strace, which works on this machine.
#[derive(Debug)]
pub struct Strace {
    program: PathBuf,
    /// Where its libraries lie, if it is not the system's own.
    libraries: Option<PathBuf>,
}

/// The system's strace or Debian's, or `None` after saying why there is none. With `RONDO_STRACE_REQUIRED`
/// set, none is a failure.
///
/// # Panics
/// When there is none but it is required.
pub fn strace() -> Option<&'static Strace> {
    static FOUND: OnceLock<Result<Strace, String>> = OnceLock::new();
    match FOUND.get_or_init(find) {
        Ok(strace) => Some(strace),
        Err(reason) => {
            skip("strace", reason, REQUIRED_BY);
            None
        }
    }
}

fn find() -> Result<Strace, String> {
    let system = Strace { program: "strace".into(), libraries: None };
    if Command::new(&system.program).arg("--version").output().is_ok() {
        return system.tried();
    }
    let root = debian::unpacked("strace", &["strace"])?;
    let libraries = root.join("usr/lib").join(format!("{}-linux-gnu", env::consts::ARCH));
    Strace { program: root.join("usr/bin/strace"), libraries: Some(libraries) }.tried()
}

impl Strace {
    /// Itself, if a process may be watched here.
    fn tried(self) -> Result<Self, String> {
        let trace = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let words = self.words(trace.path());
        let mut command = Command::new(&words[0]);
        let output = command.args(&words[1..]).arg("true").stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(self),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    /// The words that stand before a command, to have what it does written to the file `trace`. The program
    /// is the child that is started, and strace a process beside it.
    pub fn words(&self, trace: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(libraries) = &self.libraries {
            let mut setting = OsString::from("LD_LIBRARY_PATH=");
            setting.push(libraries);
            words.extend(["env".into(), setting]);
        }
        words.push(self.program.clone().into());
        let options = ["-D", "-f", "-y", "--seccomp-bpf", "-s", BUFFER_BYTES_MAX, "-e", CALLS];
        words.extend(options.map(OsString::from));
        if self.libraries.is_some() {
            words.extend(["-E".into(), "LD_LIBRARY_PATH".into()]);
        }
        words.extend(["-o".into(), trace.as_os_str().to_owned()]);
        words
    }
}

/// All that strace wrote to `trace` about a process that has ended.
///
/// # Panics
/// When strace does not come to the end of it.
pub fn finished(trace: &Path, process: u32) -> Vec<u8> {
    // In a column as wide as the longest number.
    let is_end = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        words[..] == [&process.to_string(), "+++", "exited"]
            || words[..] == [&process.to_string(), "+++", "killed"]
    };
    let began = Instant::now();
    while !tail(trace).lines().any(is_end) {
        assert!(began.elapsed() < PATIENCE, "strace does not end: {}", tail(trace));
        thread::sleep(Duration::from_millis(5));
    }
    fs::read(trace).expect("strace's own file")
}

/// The end of a file as text.
fn tail(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(end.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}
