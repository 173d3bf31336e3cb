//! Conditions as `rondo.v1.Condition`.

use rondo_proto::admin as wire;
use rondo_proto::admin::column_condition::Test as WireTest;
use rondo_proto::admin::condition::Kind;

use super::{needed, odd};
use crate::error::DataError;
use crate::limits::CONDITION_DEPTH_MAX;
use crate::pipeline::{Condition, Test, Value};

pub(super) fn to_wire(condition: &Condition) -> wire::Condition {
    let each = |of: &[Condition]| wire::Conditions { of: of.iter().map(to_wire).collect() };
    let kind = match condition {
        Condition::All(of) => Kind::All(each(of)),
        Condition::Any(of) => Kind::Any(each(of)),
        Condition::Not(of) => Kind::Not(Box::new(to_wire(of))),
        Condition::Column { column, test } => {
            let (column, test) = (column.clone(), Some(test_to_wire(test)));
            Kind::Column(wire::ColumnCondition { column, test })
        }
    };
    wire::Condition { kind: Some(kind) }
}

pub(super) fn from_wire(condition: wire::Condition, depth: usize) -> Result<Condition, DataError> {
    if depth > CONDITION_DEPTH_MAX {
        return Err(odd(&format!("conditions more than {CONDITION_DEPTH_MAX} within another")));
    }
    let each = |conditions: wire::Conditions| {
        let of = conditions.of.into_iter().map(|it| from_wire(it, depth.saturating_add(1)));
        of.collect::<Result<Vec<_>, _>>()
    };
    Ok(match needed(condition.kind, "condition")? {
        Kind::All(of) => Condition::All(each(of)?),
        Kind::Any(of) => Condition::Any(each(of)?),
        Kind::Not(of) => Condition::Not(Box::new(from_wire(*of, depth.saturating_add(1))?)),
        Kind::Column(it) => {
            Condition::Column { column: it.column, test: test(needed(it.test, "test")?)? }
        }
    })
}

fn test_to_wire(test: &Test) -> WireTest {
    match test {
        Test::Is(value) => WireTest::Is(value_to_wire(value)),
        Test::IsNot(value) => WireTest::IsNot(value_to_wire(value)),
        Test::Below(value) => WireTest::Below(value_to_wire(value)),
        Test::AtMost(value) => WireTest::AtMost(value_to_wire(value)),
        Test::Above(value) => WireTest::Above(value_to_wire(value)),
        Test::AtLeast(value) => WireTest::AtLeast(value_to_wire(value)),
        Test::In(values) => {
            WireTest::In(wire::Values { of: values.iter().map(value_to_wire).collect() })
        }
        Test::IsNull(is) => WireTest::IsNull(*is),
        Test::StartsWith(text) => WireTest::StartsWith(text.clone()),
        Test::EndsWith(text) => WireTest::EndsWith(text.clone()),
        Test::Contains(text) => WireTest::Contains(text.clone()),
    }
}

fn test(test: WireTest) -> Result<Test, DataError> {
    Ok(match test {
        WireTest::Is(it) => Test::Is(value(Some(it))?),
        WireTest::IsNot(it) => Test::IsNot(value(Some(it))?),
        WireTest::Below(it) => Test::Below(value(Some(it))?),
        WireTest::AtMost(it) => Test::AtMost(value(Some(it))?),
        WireTest::Above(it) => Test::Above(value(Some(it))?),
        WireTest::AtLeast(it) => Test::AtLeast(value(Some(it))?),
        WireTest::In(values) => {
            let each = values.of.into_iter().map(|it| value(Some(it)));
            Test::In(each.collect::<Result<_, _>>()?)
        }
        WireTest::IsNull(is) => Test::IsNull(is),
        WireTest::StartsWith(text) => Test::StartsWith(text),
        WireTest::EndsWith(text) => Test::EndsWith(text),
        WireTest::Contains(text) => Test::Contains(text),
    })
}

pub(super) fn value_to_wire(value: &Value) -> wire::Value {
    use wire::value::Kind;
    let kind = match value {
        Value::Flag(flag) => Kind::Flag(*flag),
        Value::Integer(integer) => Kind::Integer(*integer),
        Value::Unsigned(integer) => Kind::Unsigned(*integer),
        Value::Number(number) => Kind::Number(*number),
        Value::Text(text) => Kind::Text(text.clone()),
    };
    wire::Value { kind: Some(kind) }
}

pub(super) fn value(value: Option<wire::Value>) -> Result<Value, DataError> {
    use wire::value::Kind;
    Ok(match needed(value.and_then(|it| it.kind), "value")? {
        Kind::Flag(flag) => Value::Flag(flag),
        Kind::Integer(integer) => Value::Integer(integer),
        Kind::Unsigned(integer) => Value::from(integer),
        Kind::Number(number) => Value::Number(number),
        Kind::Text(text) => Value::Text(text),
    })
}
