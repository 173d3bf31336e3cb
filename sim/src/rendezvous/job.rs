//! What the users of all workers have in mind: steps, their edges, and the tensors on them.

use std::sync::Arc;

use ::bytes::Bytes;
use rondo_core::element::{Dtype, Shape, Tensor};
use rondo_core::ids::StepId;
use rondo_core::rendezvous::Value;

use super::event::Act;
use crate::rng::{Source, Stream};

/// All that users have in mind.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) stream: Stream,
    pub(super) plans: Vec<Plan>,
    /// What somebody is to do, by place.
    pub(super) acts: Vec<Act>,
    /// The number of the last step that nobody had used before.
    pub(super) last_step: i64,
    /// The number of the last tensor.
    last_serial: u64,
}

/// A step.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) step: StepId,
    pub(super) edges: Vec<Edge>,
    pub(super) workers: Vec<u32>,
    /// Workers at which it was cleaned up.
    pub(super) over: Vec<u32>,
    /// Whether it is the last one, in which all must get on.
    pub(super) is_last: bool,
}

/// A key, but for the incarnation of its source.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) name: String,
    pub(super) iter: i64,
    /// Tensors that are sent.
    pub(super) values: u64,
    /// Tensors that were received.
    pub(super) received: u64,
}

impl Job {
    pub(super) fn new(source: &Source) -> Self {
        Self {
            stream: source.stream("rendezvous-job", 0),
            plans: Vec::new(),
            acts: Vec::new(),
            last_step: 0,
            last_serial: 0,
        }
    }

    pub(super) fn plan(&self, plan: u32) -> Option<&Plan> {
        self.plans.get(plan as usize)
    }

    pub(super) fn edge(&self, plan: u32, edge: u32) -> Option<(&Plan, &Edge)> {
        let plan = self.plans.get(plan as usize)?;
        Some((plan, plan.edges.get(edge as usize)?))
    }

    pub(super) fn edge_mut(&mut self, plan: u32, edge: u32) -> Option<&mut Edge> {
        self.plans.get_mut(plan as usize)?.edges.get_mut(edge as usize)
    }

    /// A tensor that there was not before, of so many bytes at most.
    pub(super) fn tensor(&mut self, bytes_max: u64) -> Value<Tensor> {
        self.last_serial = self.last_serial.wrapping_add(1);
        let serial = self.last_serial;
        let words = self.stream.between(1, (bytes_max / 8).max(1));
        let mixed = |word: u64| serial.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7) ^ word;
        let values = std::iter::once(serial).chain((1..words).map(mixed));
        let values: Bytes = values.flat_map(u64::to_le_bytes).collect();
        let bytes = values.len() as u64;
        let is_dead = self.stream.chance(100);
        Value { tensor: of_some_type(self.stream.below(5), values), bytes, is_dead }
    }
}

/// A tensor with these bytes, which are a multiple of eight.
fn of_some_type(kind: u64, values: Bytes) -> Tensor {
    let bytes = i64::try_from(values.len()).unwrap_or(i64::MAX);
    let (dtype, shape) = match kind {
        0 => (Dtype::Uint8, Shape::of([bytes])),
        1 => (Dtype::Float, Shape::of([1, bytes / 8, 2])),
        2 if bytes == 8 => (Dtype::Int64, Ok(Shape::scalar())),
        2 => (Dtype::Int64, Shape::of([bytes / 8])),
        3 => (Dtype::Bfloat16, Shape::of([2, bytes / 4])),
        _ => {
            let end = u32::try_from(bytes).unwrap_or(u32::MAX);
            let ends: Arc<[u32]> = [8.min(end), end].into();
            let tensor = Shape::of([2]).map(|shape| Tensor::strings(shape, values, ends));
            return tensor_of(tensor);
        }
    };
    tensor_of(shape.map(|shape| Tensor::fixed(dtype, shape, values)))
}

fn tensor_of<A: std::fmt::Debug, B: std::fmt::Debug>(made: Result<Result<Tensor, A>, B>) -> Tensor {
    match made {
        Ok(Ok(tensor)) => tensor,
        other => unreachable!("shape and bytes fit each other: {other:?}"),
    }
}
