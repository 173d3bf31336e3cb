//! Answers to `GetElement`.

use bytes::Bytes;
use prost::Message as _;
use rondo_core::element::Element;
use rondo_core::status::{Code, Status};

use crate::element::{compressed, uncompressed};
use crate::graph::wire::{Field, Message, Value};
use crate::tf::data as wire;

const NAME: &str = "GetElementResponse";

/// A worker's answer to `GetElement`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementAnswer {
    /// An element, however it was sent.
    Element(Element),
    /// The task has no more of them.
    End,
    /// Nothing is ready: ask again.
    Skip,
}

/// Encodes the answer that a task has no more elements.
pub fn encode_end() -> Bytes {
    let response = wire::GetElementResponse { end_of_sequence: true, ..Default::default() };
    response.encode_to_vec().into()
}

/// Encodes the answer that nothing is ready.
pub fn encode_skip() -> Bytes {
    let response = wire::GetElementResponse { skip_task: true, ..Default::default() };
    response.encode_to_vec().into()
}

/// Decodes `GetElementResponse`. The element's values are slices of `bytes` where they can be.
///
/// # Errors
/// INTERNAL for what is no answer or no element, RESOURCE_EXHAUSTED for an element of more than
/// `bytes_max` bytes: on the wire, or of memory beside the message.
pub fn decode_element_answer(bytes: &Bytes, bytes_max: u64) -> Result<ElementAnswer, Status> {
    if bytes.len() as u64 > bytes_max {
        let size = bytes.len();
        let text = format!("{NAME} is {size} bytes long; at most {bytes_max} are allowed");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    let answer = Answer::read(Message::root(bytes, NAME))?;
    match (answer.element, answer.is_end, answer.is_skip) {
        (Some(Form::Compressed(element)), false, false) => {
            compressed(element, bytes_max).map(ElementAnswer::Element)
        }
        (Some(Form::Uncompressed(element)), false, false) => {
            uncompressed(bytes, element, bytes_max).map(ElementAnswer::Element)
        }
        (None, true, false) => Ok(ElementAnswer::End),
        (None, false, true) => Ok(ElementAnswer::Skip),
        (element, is_end, is_skip) => Err(broken(format_args!(
            "has an element: {}, end_of_sequence: {is_end}, skip_task: {is_skip}; it must have \
             exactly one of them",
            element.is_some()
        ))),
    }
}

/// An element's form.
#[derive(Clone, Copy)]
enum Form<'a> {
    Compressed(Message<'a>),
    Uncompressed(Message<'a>),
}

/// The response's fields.
#[derive(Default)]
struct Answer<'a> {
    element: Option<Form<'a>>,
    is_end: bool,
    is_skip: bool,
}

impl<'a> Answer<'a> {
    fn read(response: Message<'a>) -> Result<Self, Status> {
        let mut answer = Self::default();
        for field in response.fields() {
            match field.map_err(|error| Status::new(Code::Internal, error.to_string()))? {
                Field { number: 2, value: Value::Varint(flag), .. } => answer.is_end = flag != 0,
                Field { number: 4, value: Value::Varint(flag), .. } => answer.is_skip = flag != 0,
                Field { number: 3, value: Value::Chunk(element), .. } => {
                    answer.put(Form::Compressed(element))?;
                }
                Field { number: 5, value: Value::Chunk(element), .. } => {
                    answer.put(Form::Uncompressed(element))?;
                }
                _ => {}
            }
        }
        Ok(answer)
    }

    /// Nobody writes a second one, and none must be lost.
    fn put(&mut self, element: Form<'a>) -> Result<(), Status> {
        match self.element.replace(element) {
            None => Ok(()),
            Some(_) => Err(broken("has two elements; it must have one")),
        }
    }
}

fn broken(what: impl std::fmt::Display) -> Status {
    Status::new(Code::Internal, format!("{NAME} {what}"))
}
