//! The sources of splits in a graph, found by walking it from what it returns.
//!
//! A registered graph is flat: TensorFlow writes it from dataset objects that exist already, so
//! every size stands in a constant. The walk goes depth first, inputs in order, which is the
//! order in which a worker's dataset counts its split providers. It keeps its own stack, looks at
//! each node once and is bounded in steps, so no graph can make it deep or slow.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::dispatcher::{SplitPlan, SplitSource};
use rondo_core::limits::SOURCES_MAX;
use rondo_core::status::Code;

use super::error::GraphError;
use super::ops::{self, Splitting};
use super::refusal::{
    Stop, not_unary, opaque, refused, shown, snapshot, snapshot_chunks, too_many_sources,
    wrong_input,
};
use super::view::{Constant, Graph, Node};
use super::warning::Warning;

/// Edges followed in one graph.
const STEPS_MAX: usize = 1 << 20;
/// Warnings kept of one graph.
const WARNINGS_MAX: usize = 16;
/// `Identity` nodes skipped on the way to a constant.
const IDENTITIES_MAX: usize = 64;

/// The plan for a definition, and what to warn of when it is used.
pub(super) fn plan(definition: &[u8]) -> Result<(SplitPlan, Vec<Warning>), GraphError> {
    match walk(definition) {
        Ok((sources, warnings)) => Ok((SplitPlan::Splittable(sources), warnings)),
        Err(Stop::Malformed(error)) => Err(error),
        Err(Stop::Refused(status)) => {
            let (code, message) = (status.code, status.message);
            Ok((SplitPlan::Unsplittable { code, message }, Vec::new()))
        }
    }
}

fn walk(definition: &[u8]) -> Result<(Vec<SplitSource>, Vec<Warning>), Stop> {
    let graph = Graph::read(definition)?;
    let retval = graph.retval()?;
    let Some(returned) = retval.input(0)? else {
        return Err(refused(Code::InvalidArgument, "The _Retval op of the dataset has no input"));
    };
    let first = graph.producer(retval, returned)?;
    let mut walk = Walk::new(&graph);
    walk.stack.push(Frame::Enter { node: first, reader: None });
    walk.run()?;
    Ok((walk.sources, walk.warnings))
}

#[derive(Clone, Copy)]
enum Frame<'a> {
    /// Look at a dataset. `reader` is the nearest op downstream, over ops of one input, that
    /// hides split providers from it.
    Enter { node: Node<'a>, reader: Option<Node<'a>> },
    /// All of the dataset's inputs are done.
    Leave(&'a [u8]),
}

/// What a dataset node comes to; found once per node.
#[derive(Clone)]
enum Step<'a> {
    Source(SplitSource),
    Input(Node<'a>, Start),
    Inputs(Vec<Node<'a>>),
}

/// When a worker starts the input of a dataset that has one.
#[derive(Clone, Copy)]
enum Start {
    /// Together with the dataset.
    Together,
    /// When the dataset is first read.
    WhenRead,
    /// Again for each pass after the first.
    EachPass,
}

struct Walk<'g, 'a> {
    graph: &'g Graph<'a>,
    stack: Vec<Frame<'a>>,
    open: BTreeSet<&'a [u8]>,
    steps: BTreeMap<&'a [u8], Step<'a>>,
    constants: BTreeMap<&'a [u8], Constant>,
    taken: usize,
    sources: Vec<SplitSource>,
    warnings: Vec<Warning>,
}

impl<'g, 'a> Walk<'g, 'a> {
    const fn new(graph: &'g Graph<'a>) -> Self {
        Self {
            graph,
            stack: Vec::new(),
            open: BTreeSet::new(),
            steps: BTreeMap::new(),
            constants: BTreeMap::new(),
            taken: 0,
            sources: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), Stop> {
        while let Some(frame) = self.stack.pop() {
            match frame {
                Frame::Enter { node, reader } => self.enter(node, reader)?,
                Frame::Leave(name) => {
                    self.open.remove(name);
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, node: Node<'a>, reader: Option<Node<'a>>) -> Result<(), Stop> {
        let name = node.name;
        self.taken = self.taken.saturating_add(1);
        if self.taken > STEPS_MAX {
            let text = format!("Cannot split a dataset of more than {STEPS_MAX} steps");
            return Err(refused(Code::ResourceExhausted, text));
        }
        if !self.open.insert(name) {
            let text = format!("The graph is invalid: dataset '{}' reads itself", shown(name));
            return Err(refused(Code::InvalidArgument, text));
        }
        self.stack.push(Frame::Leave(name));
        match self.step(node)? {
            Step::Source(source) => self.add(source),
            Step::Input(input, start) => {
                if let Some(reader) = reader {
                    self.warn(node, start, reader);
                }
                let reader = if ops::hides_split_providers(node.op) { Some(node) } else { reader };
                self.stack.push(Frame::Enter { node: input, reader });
                Ok(())
            }
            Step::Inputs(inputs) => {
                let frames = inputs.into_iter().rev();
                self.stack.extend(frames.map(|node| Frame::Enter { node, reader: None }));
                self.check_pending()
            }
        }
    }

    /// Every dataset still to be entered has one source at least.
    fn check_pending(&self) -> Result<(), Stop> {
        let pending = self.stack.len().saturating_sub(self.open.len());
        if pending > SOURCES_MAX { Err(too_many_sources()) } else { Ok(()) }
    }

    fn add(&mut self, source: SplitSource) -> Result<(), Stop> {
        if self.sources.len() >= SOURCES_MAX {
            return Err(too_many_sources());
        }
        self.sources.push(source);
        Ok(())
    }

    /// Warns of a node whose input will be started while its split providers are hidden.
    fn warn(&mut self, node: Node<'a>, start: Start, reader: Node<'a>) {
        let (name, interleave) = (shown(node.name), shown(reader.name));
        let warning = match start {
            Start::Together => return,
            Start::WhenRead => Warning::ShuffleBeforeInterleave { shuffle: name, interleave },
            Start::EachPass => Warning::RepeatBeforeInterleave { repeat: name, interleave },
        };
        if self.warnings.len() < WARNINGS_MAX && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn start_of_input(&mut self, node: Node<'a>) -> Result<Start, Stop> {
        Ok(if ops::is_shuffle(node.op) {
            Start::WhenRead
        } else if ops::is_repeat(node.op) && self.repeats(node)? {
            Start::EachPass
        } else {
            Start::Together
        })
    }

    /// Whether a repeat node makes more than one pass, as far as its count can be read.
    fn repeats(&mut self, repeat: Node<'a>) -> Result<bool, Stop> {
        let Some(count) = repeat.input(1)? else {
            return Ok(true);
        };
        let count = self.constant(repeat, count)?.and_then(Constant::scalar);
        Ok(!matches!(count, Some(0 | 1)))
    }

    fn step(&mut self, node: Node<'a>) -> Result<Step<'a>, Stop> {
        let name = node.name;
        if let Some(step) = self.steps.get(name) {
            return Ok(step.clone());
        }
        let step = self.analyse(node)?;
        self.steps.insert(name, step.clone());
        Ok(step)
    }

    fn analyse(&mut self, node: Node<'a>) -> Result<Step<'a>, Stop> {
        let op = node.op;
        Ok(match ops::splitting(op) {
            Some(Splitting::Range) => Step::Source(self.range(node)?),
            Some(Splitting::Rows) => Step::Source(SplitSource::counting(self.rows(node)?)),
            Some(Splitting::One) => Step::Source(SplitSource::counting(1)),
            Some(Splitting::Elements) => Step::Source(elements(node)?),
            Some(Splitting::Endless) => Step::Source(SplitSource::counting(i64::MAX)),
            Some(Splitting::EveryInput) => Step::Inputs(self.inputs(node)?),
            Some(Splitting::OnlyInput) => return self.only_input(node),
            Some(Splitting::Snapshot) => return Err(snapshot()),
            Some(Splitting::SnapshotChunks) => return Err(snapshot_chunks()),
            Some(Splitting::Source) => return Err(not_unary(op, 0)),
            Some(Splitting::Opaque) => return Err(opaque(op)),
            Some(Splitting::FirstInput) | None => return self.first_input(node),
        })
    }

    fn first_input(&mut self, node: Node<'a>) -> Result<Step<'a>, Stop> {
        let op = node.op;
        if !ops::is_dataset(op) {
            return Err(opaque(op));
        }
        let Some(input) = node.input(0)? else {
            return Err(not_unary(op, 0));
        };
        let input = self.graph.producer(node, input)?;
        if !ops::is_dataset(input.op) {
            return Err(not_unary(op, 0));
        }
        Ok(Step::Input(input, self.start_of_input(node)?))
    }

    fn only_input(&mut self, node: Node<'a>) -> Result<Step<'a>, Stop> {
        let op = node.op;
        let mut datasets = 0_usize;
        for input in node.inputs() {
            let producer = self.graph.producer(node, input?)?;
            datasets = datasets.saturating_add(usize::from(ops::is_dataset(producer.op)));
        }
        if datasets == 1 { self.first_input(node) } else { Err(not_unary(op, datasets)) }
    }

    fn inputs(&self, node: Node<'a>) -> Result<Vec<Node<'a>>, Stop> {
        let mut inputs = Vec::new();
        for input in node.inputs() {
            if inputs.len() >= SOURCES_MAX {
                return Err(too_many_sources());
            }
            inputs.push(self.graph.producer(node, input?)?);
        }
        if inputs.is_empty() {
            return Err(wrong_input(node.name, "has no input dataset"));
        }
        Ok(inputs)
    }

    fn range(&mut self, node: Node<'a>) -> Result<SplitSource, Stop> {
        let start = self.scalar(node, 0)?;
        let stop = self.scalar(node, 1)?;
        let step = self.scalar(node, 2)?;
        if step == 0 {
            return Err(refused(Code::InvalidArgument, "step must be a non-zero integer."));
        }
        Ok(SplitSource { start, stop, step })
    }

    fn scalar(&mut self, node: Node<'a>, index: usize) -> Result<i64, Stop> {
        let value = match node.input(index)? {
            Some(input) => self.constant(node, input)?.and_then(Constant::scalar),
            None => None,
        };
        value.ok_or_else(|| {
            wrong_input(node.name, &format!("has no int64 constant at input {index}"))
        })
    }

    /// The rows of a node's first component.
    fn rows(&mut self, node: Node<'a>) -> Result<i64, Stop> {
        let rows = match node.input(0)? {
            Some(input) => self.constant(node, input)?.and_then(Constant::rows),
            None => None,
        };
        rows.ok_or_else(|| {
            wrong_input(node.name, "has no constant of one dimension or more at input 0")
        })
    }

    /// The constant at an input, `None` if something else makes the value.
    fn constant(&mut self, node: Node<'a>, input: &'a [u8]) -> Result<Option<Constant>, Stop> {
        let mut producer = self.graph.producer(node, input)?;
        for _ in 0..IDENTITIES_MAX {
            let name = producer.name;
            if let Some(known) = self.constants.get(name) {
                return Ok(Some(*known));
            }
            let constant = match (producer.op, producer.input(0)?) {
                ("Const", _) => producer.constant()?,
                ("Pack", _) => Constant::packed(producer.input_count()?),
                ("Identity", Some(next)) => {
                    producer = self.graph.producer(producer, next)?;
                    continue;
                }
                _ => return Ok(None),
            };
            self.constants.insert(name, constant);
            return Ok(Some(constant));
        }
        Ok(None)
    }
}

fn elements(node: Node<'_>) -> Result<SplitSource, Stop> {
    let elements = node.input_count()?.checked_div(node.component_count()?);
    elements
        .and_then(|elements| i64::try_from(elements).ok())
        .map(SplitSource::counting)
        .ok_or_else(|| wrong_input(node.name, "says nothing of its elements' components"))
}
