//! The numbers of the fields that are read here, by message of the `tensorflow` package.

/// `tensorflow.data.DatasetDef`.
pub(super) mod dataset_def {
    pub(in crate::graph) const GRAPH: u64 = 1;
}

/// `GraphDef`.
pub(super) mod graph {
    pub(in crate::graph) const NODE: u64 = 1;
    pub(in crate::graph) const LIBRARY: u64 = 2;
}

/// `FunctionDefLibrary`.
pub(super) mod function_library {
    pub(in crate::graph) const FUNCTION: u64 = 1;
}

/// `FunctionDef`.
pub(super) mod function_def {
    pub(in crate::graph) const NODE: u64 = 3;
}

/// `NodeDef`.
pub(super) mod node {
    pub(in crate::graph) const NAME: u64 = 1;
    pub(in crate::graph) const OP: u64 = 2;
    pub(in crate::graph) const INPUT: u64 = 3;
    pub(in crate::graph) const DEVICE: u64 = 4;
    pub(in crate::graph) const ATTR: u64 = 5;
}

/// An entry of any map.
pub(super) mod map {
    pub(in crate::graph) const KEY: u64 = 1;
    pub(in crate::graph) const VALUE: u64 = 2;
}

/// `AttrValue`.
pub(super) mod attr_value {
    pub(in crate::graph) const LIST: u64 = 1;
    pub(in crate::graph) const B: u64 = 5;
    pub(in crate::graph) const TENSOR: u64 = 8;
}

/// `AttrValue.ListValue`.
pub(super) mod list_value {
    pub(in crate::graph) const SHAPE: u64 = 7;
}

/// `TensorProto`.
pub(super) mod tensor {
    pub(in crate::graph) const DTYPE: u64 = 1;
    pub(in crate::graph) const SHAPE: u64 = 2;
    pub(in crate::graph) const CONTENT: u64 = 4;
    pub(in crate::graph) const INT64_VAL: u64 = 10;
    pub(in crate::graph) const DTYPE_INT64: u64 = 9;
}

/// `TensorShapeProto` and its `Dim`.
pub(super) mod shape {
    pub(in crate::graph) const DIM: u64 = 2;
    pub(in crate::graph) const DIM_SIZE: u64 = 1;
}
