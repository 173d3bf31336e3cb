//! Graphs from bytes: well formed ones of dataset ops, their inputs, and what stands around them.

use bytes::Bytes;

use crate::graph_cleaning::{framed, written};

/// More than that is only slow.
const NODES_MAX: usize = 24;
const INPUTS_MAX: usize = 4;
pub(crate) const INT64: u64 = 9;

/// Ops in a drawn graph.
const OPS: [&str; 32] = [
    "Const",
    "_Retval",
    "RangeDataset",
    "TensorSliceDataset",
    "TensorDataset",
    "ListDataset",
    "RandomDatasetV2",
    "ZipDataset",
    "ConcatenateDataset",
    "DirectedInterleaveDataset",
    "RepeatDataset",
    "MapDataset",
    "ParallelMapDatasetV2",
    "ShuffleDatasetV3",
    "InterleaveDataset",
    "ParallelInterleaveDatasetV4",
    "GroupByWindowDataset",
    "ChooseFastestDataset",
    "SnapshotDatasetV2",
    "ListSnapshotChunksDataset",
    "TFRecordDataset",
    "ExperimentalCSVDataset",
    "DatasetFromGraph",
    "Identity",
    "Pack",
    "Placeholder",
    "HashTableV2",
    "MutableDenseHashTable",
    "NoOp",
    "BatchDatasetV2",
    "Const",
    "_Retval",
];

/// A graph to be written.
#[derive(Debug)]
pub(crate) struct Drawing {
    pub(crate) nodes: Vec<Drawn>,
    /// Nodes of a function, which nothing but cleaning looks at.
    functions: Vec<Drawn>,
}

/// A node of it; its name is its place.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) op: &'static str,
    pub(crate) inputs: Vec<Input>,
    pub(crate) tensor: Option<Tensor>,
    /// What `output_shapes` lists.
    pub(crate) components: Option<usize>,
    device: bool,
    sharing: Option<bool>,
}

/// Where an input comes from.
#[derive(Debug)]
pub(crate) struct Input {
    /// The node; there may be none at that place.
    pub(crate) node: usize,
    /// It only orders execution.
    pub(crate) control: bool,
    /// It names the output.
    numbered: bool,
}

/// A constant.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) dtype: u64,
    pub(crate) dims: Vec<i64>,
    pub(crate) value: i64,
    /// The value stands in `tensor_content`.
    content: bool,
}

/// Bytes that have not decided anything yet; zeros behind the end.
struct Bits<'a>(&'a [u8]);

impl Bits<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    fn number(&mut self) -> i64 {
        match self.byte() {
            255 => i64::MAX,
            254 => i64::MIN,
            small => i64::from(small.cast_signed()),
        }
    }

    fn several<T>(&mut self, bound: usize, mut each: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(bound + 1)).map(|_| each(self)).collect()
    }

    fn node(&mut self) -> Drawn {
        let op = OPS[self.below(OPS.len())];
        let bits = self.byte();
        Drawn {
            op,
            inputs: self.several(INPUTS_MAX, Self::input),
            tensor: (bits & 1 == 0).then(|| self.tensor()),
            components: (bits & 2 == 0).then(|| self.below(4)),
            device: bits & 4 != 0,
            sharing: (bits & 8 != 0).then_some(bits & 16 != 0),
        }
    }

    fn input(&mut self) -> Input {
        let byte = self.byte();
        Input { node: usize::from(byte & 31), control: byte >> 5 == 7, numbered: byte & 32 != 0 }
    }

    fn tensor(&mut self) -> Tensor {
        let bits = self.byte();
        Tensor {
            dtype: if bits & 7 == 7 { 3 } else { INT64 },
            dims: match bits & 24 {
                0 => self.several(2, Self::number),
                _ => Vec::new(),
            },
            value: self.number(),
            content: bits & 32 != 0,
        }
    }
}

impl Drawing {
    /// The graph for which these bytes stand.
    pub(crate) fn by(bytes: &[u8]) -> Self {
        let mut bits = Bits(bytes);
        let functions = bits.several(3, Bits::node);
        let mut nodes = Vec::new();
        while !bits.0.is_empty() && nodes.len() < NODES_MAX {
            nodes.push(bits.node());
        }
        Self { nodes, functions }
    }

    /// The serialized `DatasetDef`.
    pub(crate) fn definition(&self) -> Bytes {
        let nodes = written_nodes(&self.nodes, 1);
        let function = [framed(1, b"signature"), written_nodes(&self.functions, 3)].concat();
        let library = framed(2, &framed(1, &function));
        framed(1, &[nodes, library].concat()).into()
    }
}

fn written_nodes(nodes: &[Drawn], field: u64) -> Vec<u8> {
    let each = nodes.iter().enumerate().map(|(at, node)| framed(field, &node.written(at)));
    each.collect::<Vec<_>>().concat()
}

impl Drawn {
    fn written(&self, at: usize) -> Vec<u8> {
        let mut out =
            [framed(1, format!("n{at}").as_bytes()), framed(2, self.op.as_bytes())].concat();
        for input in &self.inputs {
            let (before, behind) = match (input.control, input.numbered) {
                (true, _) => ("^", ""),
                (false, true) => ("", ":0"),
                (false, false) => ("", ""),
            };
            out.extend(framed(3, format!("{before}n{}{behind}", input.node).as_bytes()));
        }
        if self.device {
            out.extend(framed(4, b"/device:GPU:0"));
        }
        if let Some(tensor) = &self.tensor {
            out.extend(attribute("value", &framed(8, &tensor.written())));
        }
        if let Some(components) = self.components {
            let shapes = framed(7, &[]).repeat(components);
            out.extend(attribute("output_shapes", &framed(1, &shapes)));
        }
        if let Some(sharing) = self.sharing {
            out.extend(attribute("use_node_name_sharing", &number(5, u64::from(sharing))));
        }
        out
    }
}

impl Tensor {
    fn written(&self) -> Vec<u8> {
        let dims = self.dims.iter().map(|size| framed(2, &number(1, size.cast_unsigned())));
        let shape = framed(2, &dims.collect::<Vec<_>>().concat());
        let value = match self.content {
            true => framed(4, &self.value.to_le_bytes()),
            false => number(10, self.value.cast_unsigned()),
        };
        [number(1, self.dtype), shape, value].concat()
    }
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [written(field << 3), written(value)].concat()
}

fn attribute(name: &str, value: &[u8]) -> Vec<u8> {
    framed(5, &[framed(1, name.as_bytes()), framed(2, value)].concat())
}
