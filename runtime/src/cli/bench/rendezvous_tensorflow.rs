//! TensorFlow's own workers under measurement, in processes of their own.

use std::path::Path;

use super::super::exit::{Exit, Failure};
use super::python::Python;
use super::read::rate;
use super::rendezvous::{IN_FLIGHT, LARGE_BYTES};

/// What runs in Python.
const PROGRAM: &str = include_str!("rendezvous_tensorflow.py");

/// Two workers, of which one receives tensors of the other.
pub(super) struct TensorFlow(Python);

impl TensorFlow {
    /// Starts them with this Python.
    ///
    /// # Errors
    /// When there is no such Python, or it has no TensorFlow.
    pub(super) fn start(python: &Path, folder: &Path) -> Result<Self, Failure> {
        let arguments = [IN_FLIGHT.to_string(), LARGE_BYTES.to_string()];
        Python::start(
            python,
            ("rendezvous_tensorflow.py", PROGRAM, "tensorflow-cpu==2.21.0"),
            folder,
            &arguments,
        )
        .map(Self)
    }

    /// Has one receive so many large tensors of the other: bytes a second.
    ///
    /// # Errors
    /// When they have ended.
    pub(super) fn receive(&mut self, count: u32) -> Result<f64, Failure> {
        let answer = self.0.ask(&count.to_string())?;
        let mut words = answer.split(' ');
        let bytes = words.next().and_then(|word| word.parse::<u64>().ok());
        let seconds = words.next().and_then(|word| word.parse::<f64>().ok());
        match (bytes, seconds) {
            (Some(bytes), Some(seconds)) if bytes > 0 && seconds > 0.0 => Ok(rate(bytes, seconds)),
            _ => Err(Failure::new(Exit::Other, format!("TensorFlow answers {answer:?}"))),
        }
    }
}
