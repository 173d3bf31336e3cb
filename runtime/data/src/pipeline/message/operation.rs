//! Operations as `rondo.v1.PipelineOperation`.

use rondo_proto::admin as wire;
use rondo_proto::admin::map_operation::Made as WireMade;
use rondo_proto::admin::pipeline_operation::Kind;

use super::condition::{self, value, value_to_wire};
use super::source::{column_type, type_to_wire};
use super::{needed, odd};
use crate::error::DataError;
use crate::pipeline::{
    Arithmetic, BatchOf, FillNull, Interleave, Made, Map, Operand, Operation, Repeat, ShardOf,
    Shuffle, Value,
};

pub(super) fn to_wire(operation: &Operation) -> wire::PipelineOperation {
    let kind = match operation {
        Operation::Shuffle(Shuffle { seed, buffer }) => {
            Kind::Shuffle(wire::ShuffleOperation { seed: *seed, buffer: *buffer })
        }
        Operation::Batch(BatchOf { size, drop_remainder }) => {
            Kind::Batch(wire::BatchOperation { size: *size, drop_remainder: *drop_remainder })
        }
        Operation::Repeat(Repeat::Endless) => Kind::Repeat(wire::RepeatOperation { count: 0 }),
        Operation::Repeat(Repeat::Count(count)) => {
            Kind::Repeat(wire::RepeatOperation { count: *count })
        }
        Operation::Take(count) => Kind::Take(*count),
        Operation::Skip(count) => Kind::Skip(*count),
        Operation::Shard(ShardOf { index, count }) => {
            Kind::Shard(wire::ShardOperation { index: *index, count: *count })
        }
        Operation::Interleave(Interleave { cycle, block }) => {
            Kind::Interleave(wire::InterleaveOperation { cycle: *cycle, block: *block })
        }
        Operation::Select(columns) => {
            Kind::Select(wire::SelectOperation { columns: columns.clone() })
        }
        Operation::Filter(filter) => Kind::Filter(condition::to_wire(filter)),
        Operation::Map(map) => Kind::Map(map_to_wire(map)),
        Operation::Prefetch(batches) => Kind::Prefetch(*batches),
        Operation::FillNull(FillNull { column, value }) => {
            let (column, value) = (column.clone(), Some(value_to_wire(value)));
            Kind::FillNull(wire::FillNullOperation { column, value })
        }
    };
    wire::PipelineOperation { kind: Some(kind) }
}

pub(super) fn from_wire(operation: wire::PipelineOperation) -> Result<Operation, DataError> {
    Ok(match needed(operation.kind, "operation")? {
        Kind::Shuffle(shuffle) => {
            Operation::Shuffle(Shuffle { seed: shuffle.seed, buffer: shuffle.buffer })
        }
        Kind::Batch(batch) => {
            let (size, drop_remainder) = (batch.size, batch.drop_remainder);
            Operation::Batch(BatchOf { size, drop_remainder })
        }
        Kind::Repeat(wire::RepeatOperation { count: 0 }) => Operation::Repeat(Repeat::Endless),
        Kind::Repeat(repeat) => Operation::Repeat(Repeat::Count(repeat.count)),
        Kind::Take(count) => Operation::Take(count),
        Kind::Skip(count) => Operation::Skip(count),
        Kind::Shard(shard) => Operation::Shard(ShardOf { index: shard.index, count: shard.count }),
        Kind::Interleave(interleave) => {
            let (cycle, block) = (interleave.cycle, interleave.block);
            Operation::Interleave(Interleave { cycle, block })
        }
        Kind::Select(select) => Operation::Select(select.columns),
        Kind::Filter(filter) => Operation::Filter(condition::from_wire(filter, 0)?),
        Kind::Map(map) => Operation::Map(map_from_wire(map)?),
        Kind::Prefetch(batches) => Operation::Prefetch(batches),
        Kind::FillNull(fill) => {
            Operation::FillNull(FillNull { column: fill.column, value: value(fill.value)? })
        }
    })
}

fn map_to_wire(map: &Map) -> wire::MapOperation {
    let made = match &map.made {
        Made::Rename(column) => WireMade::Rename(column.clone()),
        Made::Copy(column) => WireMade::Copy(column.clone()),
        Made::Value(value) => WireMade::Value(value_to_wire(value)),
        Made::Length(column) => WireMade::Length(column.clone()),
        Made::Cast { column, to } => {
            let (column, to) = (column.clone(), type_to_wire(*to).into());
            WireMade::Cast(wire::CastExpression { column, to })
        }
        Made::Arithmetic { operator, left, right } => {
            WireMade::Arithmetic(wire::ArithmeticExpression {
                operator: arithmetic_to_wire(*operator).into(),
                left: Some(operand_to_wire(left)),
                right: Some(operand_to_wire(right)),
            })
        }
    };
    wire::MapOperation { column: map.column.clone(), made: Some(made) }
}

fn map_from_wire(map: wire::MapOperation) -> Result<Map, DataError> {
    let made = match needed(map.made, "map")? {
        WireMade::Rename(column) => Made::Rename(column),
        WireMade::Copy(column) => Made::Copy(column),
        WireMade::Value(constant) => Made::Value(value(Some(constant))?),
        WireMade::Length(column) => Made::Length(column),
        WireMade::Cast(cast) => Made::Cast { column: cast.column, to: column_type(cast.to)? },
        WireMade::Arithmetic(it) => {
            let operator = arithmetic(it.operator)?;
            Made::Arithmetic { operator, left: operand(it.left)?, right: operand(it.right)? }
        }
    };
    Ok(Map { column: map.column, made })
}

const fn arithmetic_to_wire(operator: Arithmetic) -> wire::Arithmetic {
    match operator {
        Arithmetic::Add => wire::Arithmetic::Add,
        Arithmetic::Subtract => wire::Arithmetic::Subtract,
        Arithmetic::Multiply => wire::Arithmetic::Multiply,
        Arithmetic::Divide => wire::Arithmetic::Divide,
        Arithmetic::Remainder => wire::Arithmetic::Remainder,
    }
}

fn arithmetic(number: i32) -> Result<Arithmetic, DataError> {
    match wire::Arithmetic::try_from(number).unwrap_or(wire::Arithmetic::Unspecified) {
        wire::Arithmetic::Unspecified => Err(odd(&format!("the operator {number}"))),
        wire::Arithmetic::Add => Ok(Arithmetic::Add),
        wire::Arithmetic::Subtract => Ok(Arithmetic::Subtract),
        wire::Arithmetic::Multiply => Ok(Arithmetic::Multiply),
        wire::Arithmetic::Divide => Ok(Arithmetic::Divide),
        wire::Arithmetic::Remainder => Ok(Arithmetic::Remainder),
    }
}

fn operand_to_wire(operand: &Operand) -> wire::Operand {
    use wire::operand::Kind;
    let kind = match operand {
        Operand::Column(column) => Kind::Column(column.clone()),
        Operand::Integer(integer) => Kind::Value(value_to_wire(&Value::Integer(*integer))),
        Operand::Unsigned(integer) => Kind::Value(value_to_wire(&Value::Unsigned(*integer))),
        Operand::Number(number) => Kind::Value(value_to_wire(&Value::Number(*number))),
    };
    wire::Operand { kind: Some(kind) }
}

fn operand(operand: Option<wire::Operand>) -> Result<Operand, DataError> {
    use wire::operand::Kind;
    match needed(operand.and_then(|it| it.kind), "operand")? {
        Kind::Column(column) => Ok(Operand::Column(column)),
        Kind::Value(number) => match value(Some(number))? {
            Value::Integer(integer) => Ok(Operand::Integer(integer)),
            Value::Unsigned(integer) => Ok(Operand::Unsigned(integer)),
            Value::Number(number) => Ok(Operand::Number(number)),
            Value::Flag(_) | Value::Text(_) => Err(odd("an operand that is no number")),
        },
    }
}
