//! The numbers of the fields that are read here, by message of the `tensorflow` package.

/// `tensorflow.data.DatasetDef`.
pub(crate) mod dataset_def {
    pub(crate) const GRAPH: u64 = 1;
}

/// `GraphDef`.
pub(crate) mod graph {
    pub(crate) const NODE: u64 = 1;
    pub(crate) const LIBRARY: u64 = 2;
}

/// `FunctionDefLibrary`.
pub(crate) mod function_library {
    pub(crate) const FUNCTION: u64 = 1;
}

/// `FunctionDef`.
pub(crate) mod function_def {
    pub(crate) const NODE: u64 = 3;
}

/// `NodeDef`.
pub(crate) mod node {
    pub(crate) const NAME: u64 = 1;
    pub(crate) const OP: u64 = 2;
    pub(crate) const INPUT: u64 = 3;
    pub(crate) const DEVICE: u64 = 4;
    pub(crate) const ATTR: u64 = 5;
}

/// An entry of any map.
pub(crate) mod map {
    pub(crate) const KEY: u64 = 1;
    pub(crate) const VALUE: u64 = 2;
}

/// `AttrValue`.
pub(crate) mod attr_value {
    pub(crate) const LIST: u64 = 1;
    pub(crate) const S: u64 = 2;
    pub(crate) const B: u64 = 5;
    pub(crate) const TENSOR: u64 = 8;
}

/// `AttrValue.ListValue`.
pub(crate) mod list_value {
    pub(crate) const SHAPE: u64 = 7;
}

/// `TensorProto`.
pub(crate) mod tensor {
    pub(crate) const DTYPE: u64 = 1;
    pub(crate) const SHAPE: u64 = 2;
    pub(crate) const CONTENT: u64 = 4;
    pub(crate) const INT64_VAL: u64 = 10;
    pub(crate) const DTYPE_INT64: u64 = 9;
}

/// `TensorShapeProto` and its `Dim`.
pub(crate) mod shape {
    pub(crate) const DIM: u64 = 2;
    pub(crate) const DIM_SIZE: u64 = 1;
}
