//! Types and shapes on the wire: `DataType` and `TensorShapeProto`.

use rondo_core::element::{Dtype, PartialShape, Shape, ShapeError};
use rondo_core::limits::TENSOR_RANK_MAX;
use rondo_core::status::Status;

use super::refusal::{broken, malformed};
use crate::graph::wire::{Field, Message, Value};
use crate::tf;

/// The type and the shape of a tensor: fields 1 and 2 of `TensorProto` and of
/// `CompressedComponentMetadata`. Without a shape it is a scalar.
pub(super) fn described(message: Message<'_>) -> Result<(Dtype, Shape), Status> {
    let mut number = 0;
    let mut shape = WireShape::default();
    for field in message.fields() {
        match field.map_err(malformed)? {
            Field { number: 1, value: Value::Varint(found), .. } => number = found,
            Field { number: 2, value: Value::Chunk(part), .. } => shape.read(part)?,
            _ => {}
        }
    }
    Ok((dtype(number)?, shape.whole()?))
}

/// The type of this number.
pub(super) fn dtype(number: u64) -> Result<Dtype, Status> {
    let known = i32::try_from(number).ok().and_then(Dtype::of_number);
    known.ok_or_else(|| {
        let last = Dtype::Float4E2m1fn.number();
        broken(format_args!("its dtype is {number}; types are numbered from 1 to {last}"))
    })
}

/// A `TensorShapeProto`, which may come in parts.
#[derive(Debug, Default)]
pub(super) struct WireShape {
    sizes: Vec<i64>,
    unknown_rank: bool,
}

impl WireShape {
    /// Reads a part of it.
    pub(super) fn read(&mut self, part: Message<'_>) -> Result<(), Status> {
        for field in part.fields() {
            match field.map_err(malformed)? {
                Field { number: 2, value: Value::Chunk(dim), .. } => self.push(size(dim)?)?,
                Field { number: 3, value: Value::Varint(flag), .. } => {
                    self.unknown_rank = flag != 0;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn push(&mut self, size: i64) -> Result<(), Status> {
        if self.sizes.len() >= TENSOR_RANK_MAX {
            let rank = self.sizes.len().saturating_add(1);
            return Err(wrong(ShapeError::TooManyDimensions { rank }));
        }
        self.sizes.push(size);
        Ok(())
    }

    /// The shape of a tensor.
    pub(super) fn whole(self) -> Result<Shape, Status> {
        if self.unknown_rank {
            return Err(broken("its shape has an unknown rank; a tensor's is known"));
        }
        Shape::of(self.sizes).map_err(wrong)
    }

    /// What is known of the shape of tensors.
    pub(super) fn partial(self) -> Result<PartialShape, Status> {
        if self.unknown_rank {
            return Ok(PartialShape::UnknownRank);
        }
        let known = |(dimension, size)| match (size, u64::try_from(size)) {
            (-1, _) => Ok(None),
            (_, Ok(size)) => Ok(Some(size)),
            (size, Err(_)) => Err(wrong(ShapeError::Negative { dimension, size })),
        };
        let sizes = self.sizes.into_iter().enumerate().map(known);
        sizes.collect::<Result<_, _>>().map(PartialShape::Sizes)
    }
}

fn wrong(error: ShapeError) -> Status {
    broken(format_args!("its shape is wrong: {error}"))
}

/// The size of a `Dim`.
fn size(dim: Message<'_>) -> Result<i64, Status> {
    let mut size = 0;
    for field in dim.fields() {
        if let Field { number: 1, value: Value::Varint(found), .. } = field.map_err(malformed)? {
            size = found.cast_signed();
        }
    }
    Ok(size)
}

/// The shape as it stands on the wire; of a scalar it is present and empty.
pub(super) fn encode_shape(shape: &Shape) -> tf::TensorShapeProto {
    tf::TensorShapeProto {
        dim: shape.sizes().iter().map(|size| dim(Some(*size))).collect(),
        unknown_rank: false,
    }
}

/// What is known of shapes, as it stands on the wire.
pub(super) fn encode_partial_shape(shape: &PartialShape) -> tf::TensorShapeProto {
    match shape {
        PartialShape::UnknownRank => tf::TensorShapeProto { dim: Vec::new(), unknown_rank: true },
        PartialShape::Sizes(sizes) => tf::TensorShapeProto {
            dim: sizes.iter().copied().map(dim).collect(),
            unknown_rank: false,
        },
    }
}

fn dim(size: Option<u64>) -> tf::tensor_shape_proto::Dim {
    let known = |size| i64::try_from(size).unwrap_or(i64::MAX);
    tf::tensor_shape_proto::Dim { size: size.map_or(-1, known) }
}
