//! Compressed elements: the bytes of all components as one raw block of snappy.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::element::{Dtype, Element, Shape, Tensor, Values};
use rondo_core::status::{Code, Status};
use snap::raw::{Decoder, Encoder, decompress_len};

use super::budget::Budget;
use super::described::{described, encode_shape};
use super::plain::few;
use super::refusal::{broken, malformed, of_component};
use super::strings::{Ends, lengths};
use crate::graph::wire::{Field, Message, Value};
use crate::tf::data as wire;

/// The only version there is.
const VERSION: u64 = 0;
/// Bytes of an element's values that can be compressed: a block of snappy has no more.
pub const COMPRESSIBLE_BYTES_MAX: u64 = u32::MAX as u64;
/// Most bytes that one byte of a snappy block can stand for: its longest copies are of 64 bytes.
const RATIO_MAX: u64 = 64;

/// What the message says of a component.
struct Layout {
    dtype: Dtype,
    shape: Shape,
    /// Its bytes in the block.
    bytes: u64,
    /// Where strings end.
    ends: Vec<u32>,
}

/// The element in a `CompressedElement`.
pub(super) fn read(element: Message<'_>, budget: &mut Budget) -> Result<Element, Status> {
    check_version(element)?;
    let mut layouts = Vec::new();
    for (index, metadata) in element.chunks(2).enumerate() {
        few(index)?;
        let layout = layout(metadata.map_err(malformed)?, budget);
        layouts.push(layout.map_err(|status| of_component(index, status))?);
    }
    let data = element.last_chunk(1).map_err(malformed)?.map_or(&[][..], |chunk| chunk.bytes);
    let plain = decompress(data, &layouts, budget)?;
    cut(&plain, layouts)
}

fn check_version(element: Message<'_>) -> Result<(), Status> {
    let mut version = VERSION;
    for field in element.fields() {
        if let Field { number: 3, value: Value::Varint(found), .. } = field.map_err(malformed)? {
            version = found;
        }
    }
    if version == VERSION {
        return Ok(());
    }
    let version = version.cast_signed();
    Err(broken(format_args!("Unsupported compressed element version: {version}; it must be 0")))
}

/// Reads a `CompressedComponentMetadata`, whose lengths must be those of its type and shape.
fn layout(metadata: Message<'_>, budget: &mut Budget) -> Result<Layout, Status> {
    let (dtype, shape) = described(metadata)?;
    let elements = shape.elements();
    if let Some(width) = dtype.width() {
        let bytes = single(metadata, elements == 0)?;
        let needed = elements.saturating_mul(width);
        if bytes != needed {
            return Err(broken(format_args!(
                "uncompressed_bytes is {bytes}; {elements} values of {dtype} take {needed}"
            )));
        }
        return Ok(Layout { dtype, shape, bytes, ends: Vec::new() });
    }
    if dtype == Dtype::String {
        return strings(metadata, shape, budget);
    }
    Ok(Layout { dtype, shape, bytes: single(metadata, false)?, ends: Vec::new() })
}

/// The only entry; there may be none for a tensor without values.
fn single(metadata: Message<'_>, is_empty: bool) -> Result<u64, Status> {
    let mut entries = 0_u64;
    let mut bytes = 0;
    each_length(metadata, |length| {
        (entries, bytes) = (entries.saturating_add(1), length);
        Ok(())
    })?;
    if entries == 1 || (entries == 0 && is_empty) {
        return Ok(bytes);
    }
    Err(broken(format_args!("uncompressed_bytes has {entries} entries; it must have one")))
}

fn strings(metadata: Message<'_>, shape: Shape, budget: &mut Budget) -> Result<Layout, Status> {
    let mut found = 0_u64;
    each_length(metadata, |_| {
        found = found.saturating_add(1);
        Ok(())
    })?;
    let elements = shape.elements();
    if found != elements {
        return Err(broken(format_args!(
            "uncompressed_bytes has {found} entries for {elements} strings; there must be one each"
        )));
    }
    let bytes = budget.take(found.saturating_mul(size_of::<u32>() as u64))?;
    let mut ends = Vec::with_capacity(bytes / size_of::<u32>());
    let mut counted = Ends::new(&mut ends);
    each_length(metadata, |length| counted.push(length))?;
    let bytes = ends.last().copied().map_or(0, u64::from);
    Ok(Layout { dtype: Dtype::String, shape, bytes, ends })
}

/// The entries of `uncompressed_bytes`, packed or not.
fn each_length(
    metadata: Message<'_>,
    mut take: impl FnMut(u64) -> Result<(), Status>,
) -> Result<(), Status> {
    for field in metadata.fields() {
        match field.map_err(malformed)? {
            Field { number: 4, value: Value::Varint(length), .. } => take(length)?,
            Field { number: 4, value: Value::Chunk(packed), .. } => {
                for length in packed.packed_varints() {
                    take(length.map_err(malformed)?)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The block's bytes, which must be as many as the components have. Nothing is allocated before
/// that is known.
fn decompress(data: &[u8], layouts: &[Layout], budget: &mut Budget) -> Result<Bytes, Status> {
    let needed = layouts.iter().map(|layout| layout.bytes).fold(0, u64::saturating_add);
    let found = decompress_len(data).map_err(torn)? as u64;
    if found != needed {
        return Err(broken(format_args!(
            "Uncompressed size mismatch. Snappy has {found} bytes, the components {needed}"
        )));
    }
    if found > (data.len() as u64).saturating_mul(RATIO_MAX) {
        let held = data.len();
        return Err(broken(format_args!("{held} bytes of snappy cannot hold {found} bytes")));
    }
    let mut plain = vec![0; budget.take(found)?];
    let written = Decoder::new().decompress(data, &mut plain).map_err(torn)?;
    plain.truncate(written);
    Ok(plain.into())
}

fn torn(error: snap::Error) -> Status {
    broken(format_args!("the element's snappy block is damaged: {error}"))
}

/// The components, sharing the plain bytes.
fn cut(plain: &Bytes, layouts: Vec<Layout>) -> Result<Element, Status> {
    let mut rest = plain.clone();
    let mut components = Vec::with_capacity(layouts.len());
    for (index, layout) in layouts.into_iter().enumerate() {
        // The layouts' bytes are the block's in sum.
        let bytes = rest.split_to(usize::try_from(layout.bytes).unwrap_or(0).min(rest.len()));
        let tensor = made(layout, bytes);
        components.push(tensor.map_err(|status| of_component(index, status))?);
    }
    Ok(Element { components })
}

fn made(layout: Layout, bytes: Bytes) -> Result<Tensor, Status> {
    let Layout { dtype, shape, ends, .. } = layout;
    if dtype.width().is_some() {
        return Tensor::fixed(dtype, shape, bytes).map_err(broken);
    }
    if dtype == Dtype::String {
        return Tensor::strings(shape, bytes, Arc::from(ends)).map_err(broken);
    }
    let (inside, inside_shape) = described(Message::root(&bytes, "TensorProto"))?;
    if (inside, &inside_shape) != (dtype, &shape) {
        let (found, said) = (inside_shape.sizes(), shape.sizes());
        return Err(broken(format_args!(
            "its tensor is {inside} of shape {found:?}, but it is said to be {dtype} of {said:?}"
        )));
    }
    Tensor::encoded(dtype, shape, bytes).map_err(broken)
}

/// The element as a `CompressedElement`.
pub(super) fn encode(element: &Element) -> Result<wire::CompressedElement, Status> {
    let plain = plain(element)?;
    let data = Encoder::new().compress_vec(&plain).map_err(|error| too_long(&plain, error))?;
    let component_metadata = element.components.iter().map(metadata).collect();
    Ok(wire::CompressedElement { data: data.into(), component_metadata, version: 0 })
}

fn too_long(plain: &[u8], error: snap::Error) -> Status {
    let text = format!("an element of {} bytes cannot be compressed: {error}", plain.len());
    Status::new(Code::OutOfRange, text)
}

/// All components' bytes; those of a single component are shared.
fn plain(element: &Element) -> Result<Bytes, Status> {
    if let [only] = element.components.as_slice() {
        return Ok(values(only).clone());
    }
    let size = element.size_bytes();
    if size > COMPRESSIBLE_BYTES_MAX {
        let text = format!(
            "an element of {size} bytes cannot be compressed; {COMPRESSIBLE_BYTES_MAX} can"
        );
        return Err(Status::new(Code::OutOfRange, text));
    }
    let mut plain = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    for component in &element.components {
        plain.extend_from_slice(values(component));
    }
    Ok(plain.into())
}

const fn values(tensor: &Tensor) -> &Bytes {
    match tensor.values() {
        Values::Fixed(bytes) | Values::Encoded(bytes) | Values::Strings { bytes, .. } => bytes,
    }
}

fn metadata(tensor: &Tensor) -> wire::CompressedComponentMetadata {
    let uncompressed_bytes = match tensor.values() {
        Values::Strings { ends, .. } => lengths(ends).collect(),
        Values::Fixed(bytes) if bytes.is_empty() => Vec::new(),
        Values::Fixed(bytes) | Values::Encoded(bytes) => vec![bytes.len() as u64],
    };
    wire::CompressedComponentMetadata {
        dtype: tensor.dtype().number(),
        tensor_shape: Some(encode_shape(tensor.shape())),
        uncompressed_bytes,
    }
}
