//! Values that a pipeline states or converts: exact, or an error that names them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    UInt64Array,
};
use arrow::datatypes::{Date32Type, Float32Type, Float64Type, Int64Type, TimestampMicrosecondType};
use rondo_core::status::Code;
use rondo_data::{
    Arithmetic, ColumnType, Condition, DataError, Made, Operand, Pipeline, Test, Value,
};

use super::world::World;

/// 2^53, beyond which not every integer is a floating-point number of 64 bits.
const WIDE: i64 = 1 << 53;

fn says(error: &DataError, words: &[&str]) {
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{text:?} does not say {word:?}");
    }
}

/// A world with a file of one column `a`, and the pipeline that reads it.
fn column(values: ArrayRef) -> (World, Pipeline) {
    let world = World::new();
    world.parquet("a.parquet", &RecordBatch::try_from_iter([("a", values)]).unwrap(), 10);
    let pipeline = Pipeline::parquet(world.files("a.parquet"));
    (world, pipeline)
}

fn floats() -> (World, Pipeline) {
    column(Arc::new(Float32Array::from(vec![Some(1.5), None])))
}

fn doubles() -> (World, Pipeline) {
    column(Arc::new(Float64Array::from(vec![Some(1.5), None])))
}

fn integers() -> (World, Pipeline) {
    column(Arc::new(Int64Array::from(vec![Some(1), None, Some(WIDE + 1)])))
}

/// The column after a cast of it.
async fn cast(values: ArrayRef, to: ColumnType) -> Result<ArrayRef, DataError> {
    let (world, pipeline) = column(values);
    let made = Made::Cast { column: "a".to_owned(), to };
    let dataset = world.plan(&pipeline.map("a", made)).await;
    Ok(world.try_read(&dataset, 0, 0).await?["a"].clone())
}

async fn cast_fails(values: ArrayRef, to: ColumnType, words: &[&str]) {
    says(&cast(values, to).await.unwrap_err(), words);
}

#[tokio::test]
async fn a_constant_that_its_column_cannot_hold_is_refused_when_the_dataset_is_planned() {
    for ((world, pipeline), value, words) in [
        (floats(), Value::Integer(16_777_217), &["16777217", "Float32", "16777216"][..]),
        (floats(), Value::Number(16_777_217.0), &["16777217", "Float32", "rounded"]),
        (floats(), Value::Number(1e300), &["1e300", "Float32", "too large"]),
        (floats(), Value::Number(1e-60), &["1e-60", "Float32", "zero"]),
        (floats(), Value::Integer(i64::MAX), &["9223372036854775807", "Float32"]),
        (doubles(), Value::Integer(WIDE + 1), &["9007199254740993", "Float64"]),
        (doubles(), Value::Integer(i64::MAX), &["9223372036854775807", "Float64"]),
        (integers(), Value::Number(1e17), &["1e17", "Int64", "all its digits"]),
        (integers(), Value::Number(0.5), &["0.5", "Int64"]),
    ] {
        let filled = pipeline.clone().fill_null("a", value.clone());
        says(&world.refusal(&filled).await, &["column \"a\""]);
        says(&world.refusal(&filled).await, words);
        let is_fraction = matches!(value, Value::Number(number) if number.fract() != 0.0);
        if words[1] == "Int64" && is_fraction {
            continue; // A fraction can be compared with integers.
        }
        for test in [Test::Is(value.clone()), Test::Below(value.clone()), Test::In(vec![value])] {
            let filtered = pipeline.clone().filter(Condition::column("a", test));
            says(&world.refusal(&filtered).await, words);
        }
    }
}

#[tokio::test]
async fn a_constant_that_its_column_holds_is_that_number() {
    for (value, wanted) in [
        (Value::Integer(16_777_216), 16_777_216.0),
        (Value::Number(0.1), 0.1),
        (Value::Number(1e11), 1e11),
        (Value::Number(f64::INFINITY), f32::INFINITY),
    ] {
        let (world, pipeline) = floats();
        let dataset = world.plan(&pipeline.fill_null("a", value)).await;
        let found = world.read(&dataset, 0, 0).await;
        assert_eq!(found["a"].as_primitive::<Float32Type>().value(1), wanted);
    }
    let (world, pipeline) = integers();
    let at = |value: f64| Condition::column("a", Test::Above(Value::Number(value)));
    for (above, left) in [(0.5, 2), (1.0, 1), (1e15, 1)] {
        let dataset = world.plan(&pipeline.clone().filter(at(above))).await;
        assert_eq!(world.read(&dataset, 0, 0).await.num_rows(), left, "{above}");
    }
}

#[tokio::test]
async fn a_text_that_a_date_or_a_time_cannot_hold_is_refused() {
    let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(0), None]));
    let micros: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None]));
    for (values, text, why) in [
        (days, "2026-11-27T10:00:00", "time of day"),
        (micros, "2026-11-27T10:00:00.1234567", "a part of its seconds"),
    ] {
        let (world, pipeline) = column(values);
        let below = Condition::column("a", Test::Below(Value::from(text)));
        says(&world.refusal(&pipeline.clone().filter(below)).await, &["\"a\"", text, why]);
        says(&world.refusal(&pipeline.fill_null("a", text)).await, &["\"a\"", text, why]);
    }
}

#[tokio::test]
async fn a_cast_keeps_every_value_or_names_the_row() {
    let fractions: ArrayRef = Arc::new(Float64Array::from(vec![Some(2.0), None, Some(1.7)]));
    for to in [ColumnType::Int64, ColumnType::Int8, ColumnType::Uint64, ColumnType::Timestamp] {
        cast_fails(fractions.clone(), to, &["column \"a\", row 2", "1.7", "it would become"]).await;
    }
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![WIDE, WIDE + 1]));
    cast_fails(ids, ColumnType::Float64, &["row 1", "9007199254740993", "Float64"]).await;
    let ids: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
    cast_fails(ids.clone(), ColumnType::Float32, &["row 0", "18446744073709551615"]).await;
    cast_fails(ids, ColumnType::Int64, &["row 0", "18446744073709551615"]).await;
    let large: ArrayRef = Arc::new(Float64Array::from(vec![0.1, 1e300]));
    cast_fails(large, ColumnType::Float32, &["row 1", "1e300", "Float32", "inf"]).await;
    let small: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 1e-60]));
    cast_fails(small, ColumnType::Float32, &["row 1", "1e-60", "Float32"]).await;
    let two: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2]));
    cast_fails(two, ColumnType::Bool, &["row 2", "2 does not fit the type Boolean"]).await;
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1000, -1]));
    cast_fails(nanos, ColumnType::Timestamp, &["row 1", "Timestamp(µs)"]).await;
    let prices = Decimal128Array::from(vec![200, 170]).with_precision_and_scale(5, 2).unwrap();
    cast_fails(Arc::new(prices), ColumnType::Int64, &["row 1", "1.70", "Int64"]).await;
}

#[tokio::test]
async fn a_cast_of_texts_keeps_what_they_say_or_names_the_row() {
    for (text, to, why) in [
        ("9007199254740993", ColumnType::Float64, "rounded"),
        ("1e400", ColumnType::Float64, "too large"),
        ("1.7", ColumnType::Int64, "1.7"),
        ("2026-11-27T10:00:00", ColumnType::Date, "time of day"),
        ("2026-11-27T10:00:00.1234567", ColumnType::Timestamp, "a part of its seconds"),
    ] {
        let good =
            if matches!(to, ColumnType::Date | ColumnType::Timestamp) { "2026-11-27" } else { "1" };
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(good), None, Some(text)]));
        cast_fails(texts, to, &["column \"a\", row 2", text, why]).await;
    }
}

#[tokio::test]
async fn a_cast_that_loses_nothing_is_done() {
    let numbers: ArrayRef =
        Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(-9_007_199_254_740_992.0)]));
    let found = cast(numbers, ColumnType::Int64).await.unwrap();
    let found: Vec<_> = found.as_primitive::<Int64Type>().iter().collect();
    assert_eq!(found, [Some(0), None, Some(-WIDE)]);
    let numbers: ArrayRef = Arc::new(Float64Array::from(vec![0.1, f64::NAN, f64::INFINITY, -0.0]));
    let found = cast(numbers, ColumnType::Float32).await.unwrap();
    let found = found.as_primitive::<Float32Type>().values();
    assert!(found[0] == 0.1 && found[1].is_nan() && found[2].is_infinite() && found[3] == 0.0);
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    let found = cast(flags, ColumnType::Float32).await.unwrap();
    assert_eq!(found.as_primitive::<Float32Type>().value(0), 1.0);
    let prices = Decimal128Array::from(vec![170]).with_precision_and_scale(5, 2).unwrap();
    let found = cast(Arc::new(prices), ColumnType::Float64).await.unwrap();
    assert_eq!(found.as_primitive::<Float64Type>().value(0), 1.7);
    let zoned = TimestampNanosecondArray::from(vec![5_000]).with_timezone("+02:00");
    let found = cast(Arc::new(zoned), ColumnType::Timestamp).await.unwrap();
    assert_eq!(found.as_primitive::<TimestampMicrosecondType>().value(0), 5);
}

/// As SQL has it: the one conversion that leaves something away because it is asked for.
#[tokio::test]
async fn a_cast_of_a_time_to_a_date_is_its_day() {
    let micros: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![86_400_000_001, -1]));
    let found = cast(micros, ColumnType::Date).await.unwrap();
    assert_eq!(found.as_primitive::<Date32Type>().values().to_vec(), [1, -1]);
}

#[tokio::test]
async fn what_is_computed_with_is_exact() {
    let of = |left: &str, right: Operand| Made::Arithmetic {
        operator: Arithmetic::Add,
        left: Operand::Column(left.to_owned()),
        right,
    };
    let (world, pipeline) = integers();
    let dataset = world.plan(&pipeline.map("b", of("a", Operand::Number(0.5)))).await;
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    says(&error, &["column \"a\", row 2", "9007199254740993", "Float64"]);
    for (number, words) in [
        (Operand::Integer(16_777_217), ["16777217", "Float32"]),
        (Operand::Number(1e300), ["1e300", "Float32"]),
    ] {
        let (world, pipeline) = floats();
        let error = world.refusal(&pipeline.map("b", of("a", number))).await;
        says(&error, &["column \"a\"", words[0], words[1]]);
    }
    let values: [(&str, ArrayRef); 2] = [
        ("a", Arc::new(UInt64Array::from(vec![1, u64::MAX]))),
        ("b", Arc::new(Int64Array::from(vec![1, 1]))),
    ];
    let world = World::new();
    world.parquet("a.parquet", &RecordBatch::try_from_iter(values).unwrap(), 10);
    let sum = of("a", Operand::Column("b".to_owned()));
    let dataset = world.plan(&Pipeline::parquet(world.files("a.parquet")).map("c", sum)).await;
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    says(&error, &["column \"a\", row 1", "18446744073709551615"]);
}

#[test]
fn an_integer_that_a_pipeline_cannot_hold_is_no_other_number() {
    let filter = |value: &str| {
        format!("{{\"source\":{{\"range\":{{\"end\":3}}}},\"operations\":[{value}]}}")
    };
    for number in ["9223372036854775809", "18446744073709551615"] {
        for operation in [
            format!("{{\"filter\":{{\"column\":\"a\",\"is\":{number}}}}}"),
            format!("{{\"map\":{{\"column\":\"a\",\"add\":[\"b\",{number}]}}}}"),
        ] {
            let text = filter(&operation);
            for error in [Pipeline::from_json(&text), Pipeline::from_yaml(&text)] {
                let error = error.unwrap_err().to_string();
                assert!(error.contains("2^63 - 1"), "{error}");
            }
        }
    }
    let good = filter("{\"fill_null\":{\"column\":\"a\",\"value\":9223372036854775808}}");
    assert!(Pipeline::from_json(&good).is_ok(), "2^63 is a floating-point number");
}
