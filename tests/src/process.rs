//! A child process whose every line is kept, and waited for.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Lines of output shown of each process when a test fails.
const LINES_SHOWN: usize = 100;

/// A running child. Dropping it kills it; if the test is failing by then, its output is printed.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    log: Arc<Mutex<String>>,
    lines: Receiver<String>,
    readers: Vec<JoinHandle<()>>,
}

/// How a process ended, and all it said.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its output and errors, line by line as they came.
    pub log: String,
}

impl Process {
    /// Starts `command`; `what` names it in messages. Its input stays open until it ends.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(what: &str, command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {what} ({command:?}): {error}"));
        let log = Arc::new(Mutex::new(String::new()));
        let (sender, lines) = mpsc::channel();
        let output = follow(child.stdout.take().expect("piped"), Arc::clone(&log), Some(sender));
        let errors = follow(child.stderr.take().expect("piped"), Arc::clone(&log), None);
        Self { what: what.into(), child, log, lines, readers: vec![output, errors] }
    }

    /// The next line of its output; `None` at the end of its output.
    ///
    /// # Panics
    /// When there is none within `patience`.
    pub fn next_line(&self, patience: Duration) -> Option<String> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("no line from {} within {patience:?}; so far:\n{}", self.what, self.log())
            }
        }
    }

    /// Waits for a line of its output that holds `wanted`, and gives that line; `None` if it ended
    /// without one.
    ///
    /// # Panics
    /// When nothing is said within `patience`.
    pub fn line_with(&self, wanted: &str, patience: Duration) -> Option<String> {
        loop {
            let line = self.next_line(patience)?;
            if line.contains(wanted) {
                return Some(line);
            }
        }
    }

    /// Writes a line to its input.
    ///
    /// # Panics
    /// When it reads no more.
    pub fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped");
        let told = writeln!(input, "{line}").and_then(|()| input.flush());
        told.unwrap_or_else(|error| panic!("{} reads no more: {error}\n{}", self.what, self.log()));
    }

    /// All it said so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("nobody panics with it").clone()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Memory it has resident, in KiB, without pages of files, as `--memory-max` counts it: of a program with
    /// all its debug information, newer kernels keep tens of MiB resident.
    ///
    /// # Panics
    /// When it does not run.
    pub fn resident_kib(&self) -> u64 {
        self.memory_kib("VmRSS:").saturating_sub(self.memory_kib("RssFile:"))
    }

    /// The most such memory it had since its start, or since [`Process::forget_peak`], in KiB.
    ///
    /// # Panics
    /// When it does not run.
    pub fn peak_kib(&self) -> u64 {
        self.memory_kib("VmHWM:").saturating_sub(self.memory_kib("RssFile:"))
    }

    /// Lets [`Process::peak_kib`] count from now on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn forget_peak(&self) {
        let path = format!("/proc/{}/clear_refs", self.id());
        std::fs::write(path, "5").expect("it runs");
    }

    fn memory_kib(&self, what: &str) -> u64 {
        let path = format!("/proc/{}/status", self.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let number = status.lines().find_map(|line| line.strip_prefix(what));
        let number = number.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.unwrap_or_else(|| panic!("no {what} in {status}"))
    }

    /// Kills it at once, as `kill -9` does, and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().expect("our own child can be killed");
        self.child.wait().expect("our own child can be waited for");
    }

    /// Sends it a signal by name, such as `TERM`.
    ///
    /// # Panics
    /// When it cannot be signalled.
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status().expect("kill runs");
        assert!(status.success(), "cannot send {name} to {}", self.what);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it runs on after `patience`.
    pub fn wait(&mut self, patience: Duration) -> Ended {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our own child can be waited for") {
                break status;
            }
            let told =
                || format!("{} runs on after {patience:?}; it said:\n{}", self.what, self.log());
            assert!(began.elapsed() < patience, "{}", told());
            thread::sleep(Duration::from_millis(5));
        };
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader of lines doesn't panic");
        }
        Ended { status, log: self.log() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default();
            eprintln!("--- {} said at last:\n{}\n---", self.what, last.join("\n"));
        }
    }
}

fn follow(
    from: impl Read + Send + 'static,
    log: Arc<Mutex<String>>,
    lines: Option<mpsc::Sender<String>>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let mut log = log.lock().expect("nobody panics with it");
            log.push_str(&line);
            log.push('\n');
            drop(log);
            if let Some(lines) = &lines {
                // Nobody listens any more: the log has it.
                let _ = lines.send(line);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Process {
        Process::start("a script", Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn lines_status_and_errors_are_kept() {
        let mut process = shell("echo one; echo two >&2; echo three; exit 7");
        assert_eq!(process.line_with("three", PATIENCE), Some("three".into()));
        assert_eq!(process.next_line(PATIENCE), None);
        let ended = process.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(7));
        assert!(ended.log.contains("one\n") && ended.log.contains("two\n"), "{}", ended.log);
    }

    #[test]
    fn it_hears_what_it_is_told() {
        let mut process = shell("read line; echo heard $line");
        process.tell("one thing");
        assert_eq!(process.next_line(PATIENCE).as_deref(), Some("heard one thing"));
    }

    #[test]
    fn signals_arrive_and_a_kill_is_final() {
        let mut process =
            shell("trap 'echo caught; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
        process.line_with("ready", PATIENCE);
        process.signal("TERM");
        assert_eq!(process.wait(PATIENCE).status.code(), Some(0));
        let mut process = shell("exec sleep 100");
        process.kill();
        assert!(!process.wait(PATIENCE).status.success());
    }

    #[test]
    #[should_panic(expected = "no line from a script")]
    fn silence_is_a_failure() {
        shell("exec sleep 100").next_line(Duration::from_millis(10));
    }
}
