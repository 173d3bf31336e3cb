//! `torch.distributed` with gloo under measurement, in two processes of its own.

use std::path::Path;

use super::super::exit::{Exit, Failure};
use super::python::Python;

/// What runs in Python.
const PROGRAM: &str = include_str!("exchange_gloo.py");

/// Two processes, of which one sends tensors to the other and receives as many bytes.
pub(super) struct Gloo(Python);

impl Gloo {
    /// Starts them with this Python.
    ///
    /// # Errors
    /// When there is no such Python, or it has no torch with gloo.
    pub(super) fn start(python: &Path, folder: &Path) -> Result<Self, Failure> {
        let meeting = folder.join("gloo").display().to_string();
        let program = ("exchange_gloo.py", PROGRAM, "torch with gloo");
        Python::start(python, program, folder, &[meeting]).map(Self)
    }

    /// Microseconds that so many bytes take there and as many back: the middle, and the 99th of 100.
    ///
    /// # Errors
    /// When they have ended.
    pub(super) fn there_and_back(
        &mut self,
        bytes: usize,
        count: u32,
    ) -> Result<(f64, f64), Failure> {
        let answer = self.0.ask(&format!("{bytes} {count}"))?;
        let mut words = answer.split(' ').map(str::parse::<f64>);
        match (words.next(), words.next()) {
            (Some(Ok(middle)), Some(Ok(last))) if middle > 0.0 => Ok((middle, last)),
            _ => Err(Failure::new(Exit::Other, format!("gloo answers {answer:?}"))),
        }
    }
}
