//! The structure of a dataset's elements.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Dtype, PartialShape};

/// What is known of a tensor of each element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// The type of its values.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: PartialShape,
}

/// A structure of elements. Of each leaf an element has one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A tensor, which may have a name of its own.
    Tensor {
        /// What is known of it.
        tensor: TensorSpec,
        /// Its name; empty for none.
        name: String,
    },
    /// Rows of different lengths: on the wire a scalar variant.
    Ragged {
        /// What is known of it, with rows of unknown size.
        tensor: TensorSpec,
        /// How many of its dimensions are ragged.
        ragged_rank: u64,
        /// The type of the numbers that say where rows begin.
        row_splits: Dtype,
    },
    /// Mostly zeros: on the wire three variants.
    Sparse(TensorSpec),
    /// A list.
    List(Vec<Self>),
    /// A tuple.
    Tuple(Vec<Self>),
    /// A dict, its keys in the order of their code points.
    Dict(BTreeMap<String, Self>),
    /// A named tuple.
    NamedTuple {
        /// The name of its class.
        class: String,
        /// Its fields.
        fields: Vec<(String, Self)>,
    },
}

/// A leaf of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component<'a> {
    /// Where it stands: keys and positions from the outside in, with dots between; empty if it is
    /// the whole structure.
    pub path: String,
    /// The leaf.
    pub spec: &'a Spec,
}

impl Spec {
    /// The leaves in the order in which an element has its components.
    pub fn components(&self) -> Vec<Component<'_>> {
        let (mut found, mut open) = (Vec::new(), Vec::from([(String::new(), self)]));
        while let Some((path, spec)) = open.pop() {
            match spec.members() {
                None => found.push(Component { path, spec }),
                Some(members) => open.extend(members.rev().map(|(key, spec)| {
                    let is_root = path.is_empty();
                    (if is_root { key } else { format!("{path}.{key}") }, spec)
                })),
            }
        }
        found
    }

    /// The members with their keys; `None` for a leaf.
    fn members(&self) -> Option<Box<dyn DoubleEndedIterator<Item = (String, &Self)> + '_>> {
        Some(match self {
            Self::Tensor { .. } | Self::Ragged { .. } | Self::Sparse(_) => return None,
            Self::List(members) | Self::Tuple(members) => {
                Box::new((0..members.len()).map(|index| format!("{index}")).zip(members))
            }
            Self::Dict(members) => {
                Box::new(members.iter().map(|(key, member)| (key.to_owned(), member)))
            }
            Self::NamedTuple { fields, .. } => {
                Box::new(fields.iter().map(|(key, member)| (key.to_owned(), member)))
            }
        })
    }
}
