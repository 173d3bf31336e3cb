//! Reads tensors as they are: `TensorProto` and `UncompressedElement`.

use bytes::Bytes;
use rondo_core::element::{Dtype, Element, Shape, Tensor};
use rondo_core::limits::ELEMENT_COMPONENTS_MAX;
use rondo_core::status::{Code, Status};

use super::budget::Budget;
use super::described::described;
use super::refusal::{broken, malformed, of_component};
use super::{strings, typed};
use crate::graph::wire::Message;

const CONTENT: u64 = 4;

/// The element in an `UncompressedElement` that lies in `owner`.
pub(super) fn read(
    owner: &Bytes,
    element: Message<'_>,
    budget: &mut Budget,
) -> Result<Element, Status> {
    let mut components = Vec::new();
    for (index, component) in element.chunks(1).enumerate() {
        few(index)?;
        let component = component.map_err(malformed)?;
        let tensor = read_tensor(owner, component, budget);
        components.push(tensor.map_err(|status| of_component(index, status))?);
    }
    Ok(Element { components })
}

/// Refuses a component after the last there may be.
pub(super) fn few(index: usize) -> Result<(), Status> {
    if index < ELEMENT_COMPONENTS_MAX {
        return Ok(());
    }
    let text = format!("the element has more than {ELEMENT_COMPONENTS_MAX} components");
    Err(Status::new(Code::ResourceExhausted, text))
}

/// The tensor in a `TensorProto` that lies in `owner`, whose bytes it shares where it can.
pub(super) fn read_tensor(
    owner: &Bytes,
    proto: Message<'_>,
    budget: &mut Budget,
) -> Result<Tensor, Status> {
    let (dtype, shape) = described(proto)?;
    match dtype {
        Dtype::String => strings::read(owner, proto, content(proto)?, shape, budget),
        Dtype::Variant | Dtype::Resource => {
            Tensor::encoded(dtype, shape, owner.slice_ref(proto.bytes)).map_err(broken)
        }
        _ => read_fixed(owner, proto, dtype, shape, budget),
    }
}

fn read_fixed(
    owner: &Bytes,
    proto: Message<'_>,
    dtype: Dtype,
    shape: Shape,
    budget: &mut Budget,
) -> Result<Tensor, Status> {
    let content = content(proto)?;
    let bytes = if shape.elements() == 0 {
        Bytes::new()
    } else if content.is_empty() {
        typed::read(proto, dtype, shape.elements(), budget)?
    } else {
        owner.slice_ref(content)
    };
    Tensor::fixed(dtype, shape, bytes).map_err(broken)
}

/// The tensor's `tensor_content`.
fn content(proto: Message<'_>) -> Result<&[u8], Status> {
    let content = proto.last_chunk(CONTENT).map_err(malformed)?;
    Ok(content.map_or(&[], |chunk| chunk.bytes))
}
