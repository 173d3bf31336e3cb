//! Where `rondo read` puts what it reads.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::LineDelimitedWriter;
use arrow::record_batch::RecordBatch;
use rondo_core::element::{Element, Spec};

use super::super::exit::{Exit, Failure};
use super::Form;
use super::element_json::line_of;
use crate::reader::Content;

/// Somewhere to write, and in which form.
pub(super) struct Output {
    form: Form,
    to: To,
    /// The structure of elements, if it is known.
    spec: Option<Spec>,
    /// Once the first records have told their columns.
    arrow: Option<StreamWriter<Vec<u8>>>,
    /// Whoever took standard output has gone.
    closed: bool,
}

/// Where it goes.
enum To {
    Standard,
    File(BufWriter<File>),
}

impl Output {
    /// Opens the file, if one is named.
    pub(super) fn open(form: Form, file: Option<&Path>) -> Result<Self, Failure> {
        let to = match file {
            None => To::Standard,
            Some(path) => {
                let file = File::create(path).map_err(|error| {
                    Failure::new(Exit::Other, format!("cannot write {}: {error}", path.display()))
                })?;
                To::File(BufWriter::new(file))
            }
        };
        Ok(Self { form, to, spec: None, arrow: None, closed: false })
    }

    /// The elements have this structure, as far as one knows.
    pub(super) fn expect(&mut self, spec: Option<Spec>) {
        self.spec = spec;
    }

    pub(super) fn write(&mut self, content: &Content) -> Result<(), Failure> {
        let bytes = match (self.form, content) {
            (Form::Count, _) => return Ok(()),
            (Form::Jsonl, Content::Records(records)) => json(records).map_err(failed)?,
            (Form::Jsonl, Content::Element(element)) => self.element(element),
            (Form::Arrow, Content::Records(records)) => self.arrow(records).map_err(failed)?,
            (Form::Arrow, Content::Element(_)) => {
                let text = "elements are no records: --output arrow needs reading by split; \
                            --output jsonl shows elements";
                return Err(Failure::new(Exit::Usage, text));
            }
        };
        self.put(&bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = match &mut self.to {
            To::Standard => std::io::stdout().write_all(bytes),
            To::File(file) => file.write_all(bytes),
        };
        self.noted(written)
    }

    /// Whether what takes standard output, such as `head`, wants no more. What was written and not
    /// synced before may not have reached it.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// That nobody wants any more is an end, not a failure.
    fn noted(&mut self, written: std::io::Result<()>) -> Result<(), Failure> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            written => written.map_err(failed),
        }
    }

    fn element(&self, element: &Element) -> Vec<u8> {
        let mut line = line_of(element, self.spec.as_ref()).into_bytes();
        line.push(b'\n');
        line
    }

    /// What the batch adds to the stream; its schema first.
    fn arrow(&mut self, records: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        let writer = match &mut self.arrow {
            Some(writer) => writer,
            none => none.insert(StreamWriter::try_new(Vec::new(), records.schema_ref())?),
        };
        writer.write(records)?;
        Ok(std::mem::take(writer.get_mut()))
    }

    /// What was written is on the disk, if it is in a file.
    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        let synced = match &mut self.to {
            To::Standard => std::io::stdout().flush(),
            To::File(file) => file.flush().and_then(|()| file.get_ref().sync_data()),
        };
        self.noted(synced)
    }

    /// Ends the stream.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        if let Some(mut writer) = self.arrow.take() {
            writer.finish().map_err(failed)?;
            let bytes = std::mem::take(writer.get_mut());
            self.put(&bytes)?;
        }
        self.sync()
    }
}

fn json(records: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = LineDelimitedWriter::new(Vec::new());
    writer.write(records)?;
    writer.finish()?;
    Ok(writer.into_inner())
}

fn failed(error: impl std::error::Error) -> Failure {
    Failure::new(Exit::Other, format!("cannot write: {error}"))
}
