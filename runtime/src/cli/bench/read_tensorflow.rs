//! TensorFlow's own tf.data service under measurement, in processes of its own.

use std::path::{Path, PathBuf};

use super::super::exit::{Exit, Failure};
use super::python::Python;

/// What runs in Python.
const PROGRAM: &str = include_str!("read_tensorflow.py");

/// A dispatcher, two workers and a client.
pub(super) struct TensorFlow(Python);

impl TensorFlow {
    /// Starts them with this Python, to read these TFRecord files.
    ///
    /// # Errors
    /// When there is no such Python, or it has no TensorFlow.
    pub(super) fn start(python: &Path, files: &[PathBuf], folder: &Path) -> Result<Self, Failure> {
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        Python::start(
            python,
            ("read_tensorflow.py", PROGRAM, "tensorflow-cpu==2.21.0"),
            folder,
            &files,
        )
        .map(Self)
    }

    /// Reads all files once, in batches of so many records, 0 for one by one; answers with records
    /// a second.
    ///
    /// # Errors
    /// When it has ended, or read another number of records than there are.
    pub(super) fn epoch(&mut self, batch: u32, records: u64) -> Result<f64, Failure> {
        let answer = self.0.ask(&batch.to_string())?;
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
}
