//! Writes the structure of elements, byte for byte as TensorFlow does.

use bytes::Bytes;
use prost::Message;
use rondo_core::element::{Dtype, Spec, TensorSpec};

use super::described::encode_partial_shape;
use crate::tf;
use tf::structured_value::Kind;
use tf::type_spec_proto::TypeSpecClass;

/// Encodes a structure as `DataServiceMetadata.element_spec`. Clients read it if structures are
/// nested no more than 33 deep.
pub fn encode_spec(spec: &Spec) -> Bytes {
    value(spec).encode_to_vec().into()
}

fn value(spec: &Spec) -> tf::StructuredValue {
    of(match spec {
        Spec::Tensor { tensor, name } => Kind::TensorSpecValue(tf::TensorSpecProto {
            name: name.clone(),
            shape: Some(encode_partial_shape(&tensor.shape)),
            dtype: tensor.dtype.number(),
        }),
        Spec::Ragged { tensor, ragged_rank, row_splits } => {
            ragged(tensor, *ragged_rank, *row_splits)
        }
        Spec::Sparse(tensor) => {
            typed(TypeSpecClass::SparseTensorSpec, "SparseTensorSpec", 3, described(tensor).into())
        }
        Spec::List(members) => {
            Kind::ListValue(tf::ListValue { values: members.iter().map(value).collect() })
        }
        Spec::Tuple(members) => {
            Kind::TupleValue(tf::TupleValue { values: members.iter().map(value).collect() })
        }
        Spec::Dict(members) => {
            let entry = |(key, member): (&String, &Spec)| (key.clone(), value(member));
            Kind::DictValue(tf::DictValue { fields: members.iter().map(entry).collect() })
        }
        Spec::NamedTuple { class, fields } => {
            let pair = |(key, member): &(String, Spec)| tf::PairValue {
                key: key.clone(),
                value: Some(value(member)),
            };
            let values = fields.iter().map(pair).collect();
            Kind::NamedTupleValue(tf::NamedTupleValue { name: class.clone(), values })
        }
    })
}

const fn of(kind: Kind) -> tf::StructuredValue {
    tf::StructuredValue { kind: Some(kind) }
}

fn ragged(tensor: &TensorSpec, ragged_rank: u64, row_splits: Dtype) -> Kind {
    let rank = i64::try_from(ragged_rank).unwrap_or(i64::MAX);
    let mut state = Vec::from(described(tensor));
    state.push(of(Kind::Int64Value(rank)));
    state.push(of(Kind::TensorDtypeValue(row_splits.number())));
    let flat = i32::try_from(rank.saturating_add(1)).unwrap_or(i32::MAX);
    typed(TypeSpecClass::RaggedTensorSpec, "RaggedTensorSpec", flat, state)
}

/// The shape and the type, with which the state of a spec begins.
fn described(tensor: &TensorSpec) -> [tf::StructuredValue; 2] {
    let shape = of(Kind::TensorShapeValue(encode_partial_shape(&tensor.shape)));
    [shape, of(Kind::TensorDtypeValue(tensor.dtype.number()))]
}

fn typed(class: TypeSpecClass, name: &str, flat: i32, state: Vec<tf::StructuredValue>) -> Kind {
    let state = of(Kind::TupleValue(tf::TupleValue { values: state }));
    Kind::TypeSpecValue(Box::new(tf::TypeSpecProto {
        type_spec_class: class.into(),
        type_state: Some(Box::new(state)),
        type_spec_class_name: name.into(),
        num_flat_components: flat,
    }))
}
