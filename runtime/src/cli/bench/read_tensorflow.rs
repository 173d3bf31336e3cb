//! TensorFlow's own tf.data service under measurement, in processes of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::super::exit::{Exit, Failure};

/// What runs in Python.
const PROGRAM: &str = include_str!("read_tensorflow.py");

/// A dispatcher, two workers and a client.
pub(super) struct TensorFlow {
    process: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl TensorFlow {
    /// Starts them with this Python, to read these TFRecord files.
    ///
    /// # Errors
    /// When there is no such Python, or it has no TensorFlow.
    pub(super) fn start(python: &Path, files: &[PathBuf], folder: &Path) -> Result<Self, Failure> {
        // A file, since Python's child processes read the program again.
        let program = folder.join("read_tensorflow.py");
        std::fs::write(&program, PROGRAM).map_err(|error| broken(python, &error))?;
        let mut command = Command::new(python);
        command.arg(&program).args(files).stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.stderr(Stdio::null()).spawn();
        let mut process = started.map_err(|error| broken(python, &error))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (asked, answers) = pipes.ok_or_else(|| broken(python, &"it has no pipes"))?;
        let mut tensorflow = Self { process, asked, answers: BufReader::new(answers) };
        match tensorflow.line()?.as_str() {
            "ready" => Ok(tensorflow),
            other => Err(broken(python, &format!("it says {other:?} instead of being ready"))),
        }
    }

    /// Reads all files once, in batches of so many records, 0 for one by one; answers with records
    /// a second.
    ///
    /// # Errors
    /// When it has ended, or read another number of records than there are.
    pub(super) fn epoch(&mut self, batch: u32, records: u64) -> Result<f64, Failure> {
        let asked = writeln!(self.asked, "{batch}").and_then(|()| self.asked.flush());
        asked.map_err(|error| broken(Path::new("TensorFlow"), &error))?;
        let answer = self.line()?;
        let mut words = answer.split(' ');
        let read = words.next().and_then(|word| word.parse::<u64>().ok());
        let seconds = words.next().and_then(|word| word.parse::<f64>().ok());
        match (read, seconds) {
            (Some(read), Some(seconds)) if read == records && seconds > 0.0 => {
                Ok(super::read::rate(read, seconds))
            }
            _ => {
                let text = format!("TensorFlow answers {answer:?}; there are {records} records");
                Err(Failure::new(Exit::Other, text))
            }
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        match read {
            Ok(0) => Err(broken(Path::new("TensorFlow"), &"it has ended")),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(broken(Path::new("TensorFlow"), &error)),
        }
    }
}

impl Drop for TensorFlow {
    fn drop(&mut self) {
        // Its children are daemons, which end with it; nobody hears that it could not be killed.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

fn broken(python: &Path, error: &dyn std::fmt::Display) -> Failure {
    let text = format!("{}: {error}; it needs tensorflow-cpu==2.21.0", python.display());
    Failure::new(Exit::Other, text)
}
