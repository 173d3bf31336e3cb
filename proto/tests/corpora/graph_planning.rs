//! What can be split in a drawn graph, by the table of dataset ops, read off the drawing itself.

use rondo_core::dispatcher::SplitSource;
use rondo_core::limits::SOURCES_MAX;
use rondo_core::status::Code;

use crate::graph_drawing::{Drawing, Drawn, INT64};

/// The sources, or the refusal's code.
type Plan = Result<Vec<SplitSource>, Code>;

/// Datasets looked at before the comparison is given up.
const STEPS_MAX: usize = 4096;

/// What the graph comes to; `None` when that takes too long to find out in this way.
pub(crate) fn planned(drawing: &Drawing) -> Option<Plan> {
    let Some(returned) = drawing.nodes.iter().rfind(|node| node.op == "_Retval") else {
        return Some(Err(Code::NotFound));
    };
    let mut plan = Planner { drawing, path: Vec::new(), steps: 0, sources: Vec::new() };
    let outcome = match plan.input(returned, 0) {
        Some(first) => first.and_then(|first| plan.enter(first)),
        None => Err(Code::InvalidArgument),
    };
    let in_time = plan.steps < STEPS_MAX && plan.sources.len() <= SOURCES_MAX;
    in_time.then(|| outcome.map(|()| plan.sources))
}

struct Planner<'a> {
    drawing: &'a Drawing,
    /// The datasets between the one returned and the one looked at.
    path: Vec<usize>,
    steps: usize,
    sources: Vec<SplitSource>,
}

impl<'a> Planner<'a> {
    fn enter(&mut self, at: usize) -> Result<(), Code> {
        self.steps += 1;
        if self.steps >= STEPS_MAX || self.sources.len() > SOURCES_MAX {
            return Ok(());
        }
        if self.path.contains(&at) {
            return Err(Code::InvalidArgument);
        }
        self.path.push(at);
        self.look_at(at)?;
        self.path.pop();
        Ok(())
    }

    fn look_at(&mut self, at: usize) -> Result<(), Code> {
        let node = &self.drawing.nodes[at];
        let source = match node.op {
            "RangeDataset" => self.range(node)?,
            "TensorSliceDataset" => self.rows(node)?,
            "TensorDataset" => SplitSource::counting(1),
            "ListDataset" => {
                let components = node.components.unwrap_or(0);
                let elements = values(node).count().checked_div(components);
                SplitSource::counting(elements.ok_or(Code::InvalidArgument)? as i64)
            }
            "RandomDatasetV2" => SplitSource::counting(i64::MAX),
            "ZipDataset" | "ConcatenateDataset" | "DirectedInterleaveDataset" => {
                let inputs: Vec<usize> = self.inputs(node)?;
                if inputs.is_empty() {
                    return Err(Code::InvalidArgument);
                }
                return inputs.into_iter().try_for_each(|input| self.enter(input));
            }
            "ChooseFastestDataset" => {
                let inputs = self.inputs(node)?;
                let datasets = inputs.iter().filter(|at| self.is_dataset(**at));
                if datasets.count() != 1 {
                    return Err(Code::Unimplemented);
                }
                return self.first(node);
            }
            op if is_unary(op) => return self.first(node),
            _ => return Err(Code::Unimplemented),
        };
        self.sources.push(source);
        Ok(())
    }

    /// Goes on to a dataset at input 0.
    fn first(&mut self, node: &'a Drawn) -> Result<(), Code> {
        let input = self.input(node, 0).ok_or(Code::Unimplemented)??;
        match self.is_dataset(input) {
            true => {
                self.check_repetitions(node)?;
                self.enter(input)
            }
            false => Err(Code::Unimplemented),
        }
    }

    /// A count that names a node that is not there makes the graph invalid.
    fn check_repetitions(&self, node: &'a Drawn) -> Result<(), Code> {
        if node.op == "RepeatDataset" && values(node).nth(1).is_some() {
            self.constant(node, 1)?;
        }
        Ok(())
    }

    fn is_dataset(&self, at: usize) -> bool {
        let op = self.drawing.nodes[at].op;
        op.contains("Dataset") || op == "Identity"
    }

    fn range(&self, node: &'a Drawn) -> Result<SplitSource, Code> {
        let scalar = |index| match self.constant(node, index)? {
            Some(Value::Scalar(value)) => Ok(value),
            _ => Err(Code::InvalidArgument),
        };
        let (start, stop, step) = (scalar(0)?, scalar(1)?, scalar(2)?);
        match step {
            0 => Err(Code::InvalidArgument),
            _ => Ok(SplitSource { start, stop, step }),
        }
    }

    fn rows(&self, node: &'a Drawn) -> Result<SplitSource, Code> {
        match self.constant(node, 0)? {
            Some(Value::Rows(rows)) if rows >= 0 => Ok(SplitSource::counting(rows)),
            _ => Err(Code::InvalidArgument),
        }
    }

    /// The constant at an input, behind any `Identity`s; `None` when there is none.
    fn constant(&self, node: &'a Drawn, index: usize) -> Result<Option<Value>, Code> {
        let (mut node, mut index) = (node, index);
        for _ in 0..64 {
            let Some(at) = self.input(node, index) else {
                return Ok(None);
            };
            node = &self.drawing.nodes[at?];
            index = 0;
            match node.op {
                "Const" => return Ok(Some(Value::of(node))),
                "Pack" => return Ok(Some(Value::Rows(values(node).count() as i64))),
                "Identity" => {}
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    fn input(&self, node: &'a Drawn, index: usize) -> Option<Result<usize, Code>> {
        values(node).nth(index).map(|at| self.there(at))
    }

    fn inputs(&self, node: &'a Drawn) -> Result<Vec<usize>, Code> {
        values(node).map(|at| self.there(at)).collect()
    }

    fn there(&self, at: usize) -> Result<usize, Code> {
        if at < self.drawing.nodes.len() { Ok(at) } else { Err(Code::InvalidArgument) }
    }
}

/// What a constant says.
enum Value {
    Scalar(i64),
    /// The first of its dimensions.
    Rows(i64),
    /// Nothing that splits depend on.
    Other,
}

impl Value {
    fn of(node: &Drawn) -> Self {
        match &node.tensor {
            Some(tensor) if !tensor.dims.is_empty() => Self::Rows(tensor.dims[0]),
            Some(tensor) if tensor.dtype == INT64 => Self::Scalar(tensor.value),
            _ => Self::Other,
        }
    }
}

/// The nodes whose values a node takes.
fn values(node: &Drawn) -> impl Iterator<Item = usize> {
    node.inputs.iter().filter(|input| !input.control).map(|input| input.node)
}

fn is_unary(op: &str) -> bool {
    matches!(
        op,
        "RepeatDataset"
            | "MapDataset"
            | "ParallelMapDatasetV2"
            | "ShuffleDatasetV3"
            | "InterleaveDataset"
            | "ParallelInterleaveDatasetV4"
            | "GroupByWindowDataset"
            | "BatchDatasetV2"
            | "Identity"
    )
}
