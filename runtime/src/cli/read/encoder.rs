//! Records and elements as bytes.

use std::sync::Arc;

use arrow::csv::WriterBuilder;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::LineDelimited;
use arrow::record_batch::RecordBatch;
use rondo_core::element::{Element, Spec};

use super::super::exit::{Exit, Failure};
use super::Form;
use super::element_json::line_of;
use super::json_floats::Floats;
use crate::reader::Content;

/// Encodes what is read in one form.
pub(super) struct Encoder {
    form: Form,
    /// The structure of elements, if it is known.
    spec: Option<Spec>,
    /// Once the first records have told their columns.
    arrow: Option<StreamWriter<Vec<u8>>>,
    has_begun: bool,
}

/// The bytes of a delivery.
#[derive(Debug, Default)]
pub(super) struct Encoded {
    /// Stands once, before everything else: the columns of CSV, the schema of Arrow. Only the first
    /// delivery has it.
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Encoder {
    pub(super) const fn new(form: Form) -> Self {
        Self { form, spec: None, arrow: None, has_begun: false }
    }

    /// The elements have this structure, as far as is known.
    pub(super) fn expect(&mut self, spec: Option<Spec>) {
        self.spec = spec;
    }

    /// Encodes a delivery.
    ///
    /// # Errors
    /// When the form cannot hold it.
    pub(super) fn encode(&mut self, content: &Content) -> Result<Encoded, Failure> {
        let encoded = match (self.form, content) {
            (Form::Count, _) => Ok(Encoded::default()),
            (Form::Jsonl, Content::Records(records)) => json(records),
            (Form::Jsonl, Content::Element(element)) => Ok(self.element(element)),
            (Form::Csv, Content::Records(records)) => csv(records, !self.has_begun),
            (Form::Arrow, Content::Records(records)) => self.arrow(records),
            (Form::Csv | Form::Arrow, Content::Element(_)) => {
                let text = format!(
                    "elements are no records: --format {} needs reading by split; --format jsonl \
                     shows elements",
                    self.form.name()
                );
                return Err(Failure::new(Exit::Usage, text));
            }
        };
        self.has_begun = true;
        encoded.map_err(|error| {
            let text = format!("cannot write the records as {}: {error}", self.form.name());
            Failure::new(Exit::Other, text)
        })
    }

    /// The bytes behind the last delivery, where the form has any.
    pub(super) fn end(&mut self) -> Result<Vec<u8>, Failure> {
        let Some(mut writer) = self.arrow.take() else {
            return Ok(Vec::new());
        };
        writer.finish().map_err(|error| Failure::new(Exit::Other, error))?;
        Ok(std::mem::take(writer.get_mut()))
    }

    fn element(&self, element: &Element) -> Encoded {
        let mut line = line_of(element, self.spec.as_ref()).into_bytes();
        line.push(b'\n');
        Encoded { head: Vec::new(), body: line }
    }

    fn arrow(&mut self, records: &RecordBatch) -> Result<Encoded, ArrowError> {
        let mut head = Vec::new();
        let writer = match &mut self.arrow {
            Some(writer) => writer,
            none => {
                let mut writer = StreamWriter::try_new(Vec::new(), records.schema_ref())?;
                head = std::mem::take(writer.get_mut());
                none.insert(writer)
            }
        };
        writer.write(records)?;
        Ok(Encoded { head, body: std::mem::take(writer.get_mut()) })
    }
}

fn json(records: &RecordBatch) -> Result<Encoded, ArrowError> {
    let builder = JsonBuilder::new().with_encoder_factory(Arc::new(Floats));
    let mut writer = builder.build::<_, LineDelimited>(Vec::new());
    writer.write(records)?;
    writer.finish()?;
    Ok(Encoded { head: Vec::new(), body: writer.into_inner() })
}

fn csv(records: &RecordBatch, is_first: bool) -> Result<Encoded, ArrowError> {
    let written = |header: bool, records: &RecordBatch| {
        let mut bytes = Vec::new();
        WriterBuilder::new().with_header(header).build(&mut bytes).write(records)?;
        Ok::<_, ArrowError>(bytes)
    };
    let head = if is_first { written(true, &records.slice(0, 0))? } else { Vec::new() };
    Ok(Encoded { head, body: written(false, records)? })
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, ListArray, StringArray};
    use arrow::datatypes::Float64Type;
    use arrow::ipc::reader::StreamReader;

    use super::*;

    fn records() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let names: ArrayRef = Arc::new(StringArray::from(vec!["a,\"b\"", "line\nend"]));
        RecordBatch::try_from_iter([("number", numbers), ("name", names)]).unwrap()
    }

    fn encode(encoder: &mut Encoder) -> Encoded {
        encoder.encode(&Content::Records(records())).unwrap()
    }

    #[test]
    fn the_columns_of_csv_stand_once() {
        let mut encoder = Encoder::new(Form::Csv);
        let first = encode(&mut encoder);
        assert_eq!(first.head, b"number,name\n");
        let body = "1,\"a,\"\"b\"\"\"\n,\"line\nend\"\n";
        assert_eq!(String::from_utf8(first.body).unwrap(), body);
        let second = encode(&mut encoder);
        assert_eq!((second.head.len(), second.body.len()), (0, body.len()));
        assert!(encoder.end().unwrap().is_empty());
    }

    /// JSON has no number for them. CSV has no rules, and other programs write them so.
    #[test]
    fn nan_and_infinity_are_texts_and_no_nulls() {
        let list =
            vec![Some(vec![Some(f64::NAN), Some(0.5), None]), Some(vec![Some(f64::INFINITY)])];
        let columns: [(&str, ArrayRef); 3] = [
            ("a", Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(-0.0)]))),
            ("b", Arc::new(Float32Array::from(vec![Some(f32::NEG_INFINITY), None]))),
            ("c", Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(list))),
        ];
        let records = RecordBatch::try_from_iter(columns).unwrap();
        let text = |form, records: RecordBatch| {
            let encoded = Encoder::new(form).encode(&Content::Records(records)).unwrap();
            String::from_utf8(encoded.body).unwrap()
        };
        assert_eq!(
            text(Form::Jsonl, records.clone()),
            "{\"a\":\"NaN\",\"b\":\"-Infinity\",\"c\":[\"NaN\",0.5,null]}\n\
             {\"a\":-0.0,\"c\":[\"Infinity\"]}\n"
        );
        assert_eq!(text(Form::Csv, records.project(&[0, 1]).unwrap()), "NaN,-inf\n-0.0,\n");
        let nested = Encoder::new(Form::Csv).encode(&Content::Records(records)).unwrap_err();
        assert!(nested.text.contains("Nested type"), "{}", nested.text);
    }

    /// A program that died and a second one write one stream.
    #[test]
    fn arrow_bodies_of_two_programs_behind_one_head_are_a_stream() {
        let mut stream = Vec::new();
        let (mut first, mut second) = (Encoder::new(Form::Arrow), Encoder::new(Form::Arrow));
        let encoded = encode(&mut first);
        let again = encode(&mut second);
        assert_eq!(encoded.head, again.head);
        for bytes in [encoded.head, encoded.body, again.body, second.end().unwrap()] {
            stream.extend_from_slice(&bytes);
        }
        let read: Result<Vec<_>, _> = StreamReader::try_new(&stream[..], None).unwrap().collect();
        assert_eq!(read.unwrap(), [records(), records()]);
    }
}
