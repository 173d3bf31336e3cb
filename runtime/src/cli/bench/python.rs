//! A program in Python that is asked in lines and answers in lines.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::super::exit::{Exit, Failure};

/// A program under way; it ends with this.
pub(super) struct Python {
    process: Child,
    /// What it must have, for people.
    needs: &'static str,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    /// Starts a program of this name and text, and waits until it says that it is ready. What Python must
    /// have for it stands in refusals.
    ///
    /// # Errors
    /// When there is no such Python, or it has not what it needs.
    pub(super) fn start(
        python: &Path,
        (name, text, needs): (&str, &str, &'static str),
        folder: &Path,
        arguments: &[String],
    ) -> Result<Self, Failure> {
        // A file, since Python's child processes read the program again.
        let program = folder.join(name);
        let broken = |error: &dyn std::fmt::Display| broken(&python.display(), error, needs);
        std::fs::write(&program, text).map_err(|error| broken(&error))?;
        let mut command = Command::new(python);
        command.arg(&program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.stderr(Stdio::null()).spawn();
        let mut process = started.map_err(|error| broken(&error))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (asked, answers) = pipes.ok_or_else(|| broken(&"it has no pipes"))?;
        let mut started = Self { process, needs, asked, answers: BufReader::new(answers) };
        match started.line()?.as_str() {
            "ready" => Ok(started),
            other => Err(broken(&format!("it says {other:?} instead of being ready"))),
        }
    }

    /// Asks in one line: the line that answers.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn ask(&mut self, line: &str) -> Result<String, Failure> {
        let asked = writeln!(self.asked, "{line}").and_then(|()| self.asked.flush());
        asked.map_err(|error| self.broken(&error))?;
        self.line()
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) => Err(self.broken(&"it has ended")),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> Failure {
        broken(&"the program in Python", error, self.needs)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // Its children are daemons, which end with it; nobody hears that it could not be killed.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

fn broken(who: &dyn std::fmt::Display, error: &dyn std::fmt::Display, needs: &str) -> Failure {
    Failure::new(Exit::Other, format!("{who}: {error}; it needs {needs}"))
}
