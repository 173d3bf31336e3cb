//! Values that a pipeline states or converts: exact, or an error that names them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Date32Array, Date64Array, Decimal128Array, Decimal256Array,
    DictionaryArray, FixedSizeListArray, Float16Array, Float32Array, Float64Array, Int8Array,
    Int64Array, LargeStringArray, RecordBatch, RunArray, StringArray, StringViewArray,
    Time32SecondArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt16Array,
    UInt32Array, UInt64Array, UnionArray,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Field, Float16Type, Float32Type, Float64Type,
    Int8Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt64Type, UnionFields, i256,
};
use arrow::ipc::writer::FileWriter;
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

/// As [`column`], with an Arrow file: it keeps dictionaries, runs and unions.
fn arrow_column(values: ArrayRef) -> (World, Pipeline) {
    let world = World::new();
    let records = RecordBatch::try_from_iter([("a", values)]).unwrap();
    let file = std::fs::File::create(world.path("a.arrow")).unwrap();
    let mut writer = FileWriter::try_new(file, &records.schema()).unwrap();
    writer.write(&records).unwrap();
    writer.finish().unwrap();
    let pipeline = Pipeline::arrow(world.files("a.arrow"));
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
    cast_column(column(values), to).await
}

async fn cast_column(
    (world, pipeline): (World, Pipeline),
    to: ColumnType,
) -> Result<ArrayRef, DataError> {
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
        (days.clone(), "2026-11-27T10:00:00", "time of day"),
        (days, "10999-12-31", "10999-12-31"),
        (micros.clone(), "2026-11-27T10:00:00.1234567", "a part of its seconds"),
        (micros, "2016-12-31T23:59:60", "second 60"),
    ] {
        let (world, pipeline) = column(values);
        let below = Condition::column("a", Test::Below(Value::from(text)));
        says(&world.refusal(&pipeline.clone().filter(below)).await, &["\"a\"", text, why]);
        says(&world.refusal(&pipeline.fill_null("a", text)).await, &["\"a\"", text, why]);
    }
}

#[tokio::test]
async fn a_date_with_a_sign_and_many_digits_is_a_date() {
    let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(0), None]));
    let (world, pipeline) = column(days);
    let dataset = world.plan(&pipeline.fill_null("a", "+10999-12-31")).await;
    let found = world.read(&dataset, 0, 0).await;
    let texts = arrow::compute::cast(&found["a"], &DataType::Utf8).unwrap();
    assert_eq!(texts.as_string::<i32>().value(1), "+10999-12-31");
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
        ("2016-12-31T23:59:60Z", ColumnType::Timestamp, "second 60"),
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

#[tokio::test]
async fn a_constant_that_is_a_float_is_kept_however_many_digits_it_has() {
    let smallest = f32::from_bits(1);
    for wanted in [f32::MAX, f32::MIN, f32::MIN_POSITIVE, smallest, -smallest, 1e-40, 0.1, 16e9] {
        let (world, pipeline) = floats();
        let value = Value::Number(f64::from(wanted));
        let equal = Condition::column("a", Test::Is(value.clone()));
        let dataset = world.plan(&pipeline.fill_null("a", value).filter(equal)).await;
        let found = world.read(&dataset, 0, 0).await;
        assert_eq!(found["a"].as_primitive::<Float32Type>().values().to_vec(), [wanted]);
    }
    let (world, pipeline) = floats();
    let beyond = pipeline.fill_null("a", f64::from(f32::MAX) * 1.001);
    says(&world.refusal(&beyond).await, &["\"a\"", "Float32"]);
}

#[tokio::test]
async fn a_constant_for_sixteen_bits_is_the_nearest_one_or_refused() {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    let halves = || column(Arc::new(Float16Array::from(vec![None, Some(Half::from_f64(1.5))])));
    // By way of 32 bits, the last one would become 1.
    let above_the_middle = 1.0 + 2_f64.powi(-11) + 2_f64.powi(-40);
    for (value, wanted) in
        [(65504.0, 65504.0), (0.1, 0.099_975_586), (above_the_middle, 1.000_976_6)]
    {
        let (world, pipeline) = halves();
        let dataset = world.plan(&pipeline.fill_null("a", value)).await;
        let found = world.read(&dataset, 0, 0).await;
        assert_eq!(found["a"].as_primitive::<Float16Type>().value(0).to_f32(), wanted);
    }
    for value in [2049.0, 65505.0, 65520.5, 1e300, 1e-9] {
        let (world, pipeline) = halves();
        says(&world.refusal(&pipeline.fill_null("a", value)).await, &["Float16", "would become"]);
    }
}

#[tokio::test]
async fn a_cast_to_a_narrower_float_keeps_whole_numbers_and_rounds_fractions() {
    let whole: ArrayRef = Arc::new(Float64Array::from(vec![16_777_216.0, 16_777_217.0]));
    cast_fails(whole, ColumnType::Float32, &["row 1", "16777217", "Float32", "16777216"]).await;
    let whole: ArrayRef = Arc::new(Float64Array::from(vec![f64::from(f32::MAX), -1e30]));
    cast_fails(whole, ColumnType::Float32, &["row 1", "-1e30", "Float32"]).await;
    let parts: ArrayRef = Arc::new(Float64Array::from(vec![16_777_217.5, 0.1, f64::NEG_INFINITY]));
    let found = cast(parts, ColumnType::Float32).await.unwrap();
    let found = found.as_primitive::<Float32Type>().values().to_vec();
    assert_eq!(found, [16_777_218.0, 0.1, f32::NEG_INFINITY]);
}

#[tokio::test]
async fn a_decimal_becomes_the_nearest_float_and_whole_ones_stay_exact() {
    let decimals = |values: Vec<i128>, scale| {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, scale).unwrap())
    };
    let digits = [1, 3, 9_007_199_254_740_993, 1234567890123456789012345678, -7];
    let found = cast(decimals(digits.to_vec(), 30), ColumnType::Float64).await.unwrap();
    let nearest = digits.map(|digits| format!("{digits}e-30").parse::<f64>().unwrap());
    assert_eq!(found.as_primitive::<Float64Type>().values().to_vec(), nearest);
    let found = cast(decimals(digits.to_vec(), 30), ColumnType::Float32).await.unwrap();
    let nearest = digits.map(|digits| format!("{digits}e-30").parse::<f32>().unwrap());
    assert_eq!(found.as_primitive::<Float32Type>().values().to_vec(), nearest);
    let ids = decimals(vec![100, 900_719_925_474_099_300], 2);
    cast_fails(ids, ColumnType::Float64, &["row 1", "9007199254740993.00", "Float64"]).await;
    let wide = |power, scale| -> ArrayRef {
        let one = Decimal256Array::from(vec![i256::from_i128(10).wrapping_pow(power)]);
        Arc::new(one.with_precision_and_scale(76, scale).unwrap())
    };
    cast_fails(wide(60, 0), ColumnType::Float32, &["row 0", "1000000", "inf"]).await;
    cast_fails(wide(0, 60), ColumnType::Float32, &["row 0", "0.0000", "become 0"]).await;
    let found = cast(wide(22, 0), ColumnType::Float64).await.unwrap();
    assert_eq!(found.as_primitive::<Float64Type>().value(0), 1e22);
}

/// Files may have days that are none, and a time of day before 1970 is one of the day before.
#[tokio::test]
async fn a_date_in_milliseconds_is_a_whole_day_or_refused() {
    let days: ArrayRef = Arc::new(Date64Array::from(vec![-86_400_000, 0, 86_400_000]));
    let found = cast_column(arrow_column(days), ColumnType::Date).await.unwrap();
    assert_eq!(found.as_primitive::<Date32Type>().values().to_vec(), [-1, 0, 1]);
    let times: ArrayRef = Arc::new(Date64Array::from(vec![0, -1]));
    let error = cast_column(arrow_column(times), ColumnType::Date).await.unwrap_err();
    says(&error, &["row 1", "Date32"]);
    let seconds: ArrayRef = Arc::new(Time32SecondArray::from(vec![86_399]));
    let found = cast(seconds, ColumnType::Int64).await.unwrap();
    assert_eq!(found.as_primitive::<Int64Type>().value(0), 86_399);
}

/// However the file stores the values.
#[tokio::test]
async fn a_cast_of_a_dictionary_or_of_runs_is_checked_too() {
    let values = Float64Array::from(vec![2.0, 1.7]);
    let item = || Arc::new(Field::new("item", DataType::Float64, false));
    let dictionary =
        DictionaryArray::<Int32Type>::new(vec![0, 0, 1].into(), Arc::new(values.clone()));
    let runs = RunArray::<Int32Type>::try_new(&vec![2, 3].into(), &values).unwrap();
    let three = Arc::new(Float64Array::from(vec![2.0, 2.0, 1.7]));
    let lists = FixedSizeListArray::try_new(item(), 1, three, None).unwrap();
    let packed: [ArrayRef; 3] = [Arc::new(dictionary), Arc::new(runs), Arc::new(lists)];
    for values in packed {
        let error = cast_column(arrow_column(values.clone()), ColumnType::Int64).await.unwrap_err();
        says(&error, &["column \"a\", row 2", "1.7", "Int64"]);
        let found = cast_column(arrow_column(values), ColumnType::Float32).await.unwrap();
        assert_eq!(found.as_primitive::<Float32Type>().values().to_vec(), [2.0, 2.0, 1.7]);
    }
    let days = Date32Array::from(vec![0]);
    let runs = RunArray::<Int32Type>::try_new(&vec![2].into(), &days).unwrap();
    let (world, pipeline) = arrow_column(Arc::new(runs));
    let at = |text: &str| Condition::column("a", Test::Is(Value::from(text)));
    let refusal = world.refusal(&pipeline.clone().filter(at("1970-01-01T10:00:00"))).await;
    says(&refusal, &["time of day"]);
    let dataset = world.plan(&pipeline.filter(at("1970-01-01"))).await;
    assert_eq!(world.read(&dataset, 0, 0).await.num_rows(), 2);
}

#[tokio::test]
async fn a_cast_of_a_union_is_refused() {
    let fields = [(0, Arc::new(Field::new("x", DataType::Float64, false)))];
    let fields: UnionFields = fields.into_iter().collect();
    let values: ArrayRef = Arc::new(Float64Array::from(vec![1.7]));
    let union = UnionArray::try_new(fields, vec![0].into(), None, vec![values]).unwrap();
    let (world, pipeline) = arrow_column(Arc::new(union));
    let made = Made::Cast { column: "a".to_owned(), to: ColumnType::Int64 };
    let refusal = world.refusal(&pipeline.map("a", made)).await;
    says(&refusal, &["column \"a\"", "a union has values of several types"]);
}

#[tokio::test]
async fn a_constant_of_sixty_four_bits_without_a_sign_is_that_number() {
    let ids = || {
        let ids = UInt64Array::from(vec![Some(u64::MAX), Some(1 << 63), Some(1), None]);
        column(Arc::new(ids))
    };
    let left = |pipeline: Pipeline, world: World| async move {
        let dataset = world.plan(&pipeline).await;
        let found = world.read(&dataset, 0, 0).await;
        found["a"].as_primitive::<UInt64Type>().iter().collect::<Vec<_>>()
    };
    let (world, pipeline) = ids();
    let below = Condition::column("a", Test::Below(Value::from(u64::MAX)));
    assert_eq!(left(pipeline.filter(below), world).await, [Some(1 << 63), Some(1)]);
    let (world, pipeline) = ids();
    let filled = pipeline.fill_null("a", Value::from(u64::MAX - 1)).skip(3);
    assert_eq!(left(filled, world).await, [Some(u64::MAX - 1)]);
    let (world, pipeline) = ids();
    let remainder = Made::Arithmetic {
        operator: Arithmetic::Remainder,
        left: Operand::Column("a".to_owned()),
        right: Operand::Unsigned(1 << 63),
    };
    let wanted = [Some((1 << 63) - 1), Some(0), Some(1), None];
    assert_eq!(left(pipeline.map("a", remainder), world).await, wanted);
    let (world, pipeline) = ids();
    assert_eq!(
        left(pipeline.map("a", Made::Value(u64::MAX.into())).take(1), world).await[0],
        Some(u64::MAX)
    );
    for ((world, pipeline), kind) in
        [(integers(), "Int64"), (doubles(), "Float64"), (floats(), "Float32")]
    {
        let filled = pipeline.fill_null("a", Value::from(u64::MAX));
        says(&world.refusal(&filled).await, &["column \"a\"", "18446744073709551615", kind]);
    }
}

/// A document with these operations on the integers below 3.
fn document(operations: &str) -> String {
    format!("{{\"source\":{{\"range\":{{\"end\":3}}}},\n\"operations\":[{operations}]}}")
}

#[test]
fn an_integer_of_a_document_is_that_integer_or_an_error_with_its_place() {
    let operations = |number: &str| {
        [
            format!("{{\"filter\":{{\"column\":\"a\",\"is\":{number}}}}}"),
            format!("{{\"map\":{{\"column\":\"a\",\"add\":[\"b\",{number}]}}}}"),
            format!("{{\"fill_null\":{{\"column\":\"a\",\"value\":{number}}}}}"),
        ]
        .map(|operation| document(&operation))
    };
    for number in [1 << 63, (1 << 63) + 1, u64::MAX] {
        for text in operations(&number.to_string()) {
            for read in [Pipeline::from_json(&text), Pipeline::from_yaml(&text)] {
                let pipeline = read.unwrap();
                assert!(pipeline.to_json().unwrap().contains(&number.to_string()), "{number}");
                assert_eq!(Pipeline::from_bytes(&pipeline.to_bytes()).unwrap(), pipeline);
            }
        }
    }
    for number in ["18446744073709551616", "-9223372036854775809", &format!("1{}", "0".repeat(30))]
    {
        for text in operations(number) {
            let column = text.lines().nth(1).unwrap().find(number).unwrap() + 1;
            for read in [Pipeline::from_json(&text), Pipeline::from_yaml(&text)] {
                let error = read.unwrap_err().to_string();
                let place = format!("line 2 column {column}: the integer {number}");
                assert!(error.contains(&place) && error.contains("at most 2^64 - 1"), "{error}");
            }
        }
        for text in operations(&format!("{number}.0")) {
            assert!(Pipeline::from_json(&text).is_ok() && Pipeline::from_yaml(&text).is_ok());
        }
        let text = operations(&format!("\"{number}\"")).map(|text| Pipeline::from_yaml(&text));
        assert!(text.iter().all(Result::is_ok), "a text may have any digits");
    }
}

/// Two constants are of no column, so an error names the column that is made.
#[tokio::test]
async fn an_error_of_two_constants_names_the_column_that_is_made() {
    for (operator, left, right, word) in [
        (Arithmetic::Divide, Operand::Integer(1), Operand::Integer(0), "zero"),
        (Arithmetic::Add, Operand::Integer(i64::MAX), Operand::Integer(1), "verflow"),
        (Arithmetic::Add, Operand::Number(0.5), Operand::Integer(WIDE + 1), "9007199254740993"),
        (Arithmetic::Add, Operand::Unsigned(u64::MAX), Operand::Integer(1), "18446744073709551615"),
    ] {
        let (world, pipeline) = integers();
        let refusal =
            world.refusal(&pipeline.map("sum", Made::Arithmetic { operator, left, right })).await;
        says(&refusal, &["column \"sum\": ", word]);
    }
}

/// As IEEE 754, SQL and pandas have it.
#[tokio::test]
async fn a_filter_takes_both_zeros_for_one_and_compares_no_number_with_nan() {
    let all = [-0.0, f64::NAN, 5.0, -5.0];
    let half = |number: &f64| <Float16Type as ArrowPrimitiveType>::Native::from_f64(*number);
    let columns: [ArrayRef; 3] = [
        Arc::new(Float64Array::from(all.to_vec())),
        Arc::new(Float32Array::from(all.map(|number| number as f32).to_vec())),
        Arc::new(Float16Array::from(all.iter().map(half).collect::<Vec<_>>())),
    ];
    let zero = || Value::Integer(0);
    for values in columns {
        for (test, wanted) in [
            (Test::AtLeast(zero()), &[-0.0, 5.0][..]),
            (Test::AtMost(Value::Number(-0.0)), &[-0.0, -5.0]),
            (Test::Below(zero()), &[-5.0]),
            (Test::Above(Value::Number(-0.0)), &[5.0]),
            (Test::Is(zero()), &[-0.0]),
            (Test::In(vec![zero(), Value::Integer(5)]), &[-0.0, 5.0]),
            (Test::IsNot(zero()), &[f64::NAN, 5.0, -5.0]),
            (Test::Is(Value::Number(f64::NAN)), &[]),
        ] {
            let (world, pipeline) = column(values.clone());
            let dataset = world.plan(&pipeline.filter(Condition::column("a", test.clone()))).await;
            let found = world.read(&dataset, 0, 0).await;
            let found = arrow::compute::cast(&found["a"], &DataType::Float64).unwrap();
            let found = found.as_primitive::<Float64Type>().values().to_vec();
            // Texts tell the zeros apart, and NaN is itself.
            assert_eq!(format!("{found:?}"), format!("{wanted:?}"), "{test:?}");
        }
    }
    let nulls: ArrayRef = Arc::new(Float64Array::from(vec![None, Some(0.0)]));
    let (world, pipeline) = column(nulls);
    let filtered = pipeline.filter(Condition::column("a", Test::IsNot(Value::Integer(1))));
    let found = world.read(&world.plan(&filtered).await, 0, 0).await;
    assert_eq!(found.num_rows(), 1, "null is neither");
}

#[tokio::test]
async fn what_is_computed_without_a_sign_stays_without_one() {
    let of = |operator, left, right| Made::Arithmetic { operator, left, right };
    let name = |column: &str| Operand::Column(column.to_owned());
    let values: [(&str, ArrayRef); 3] = [
        ("wide", Arc::new(UInt64Array::from(vec![u64::MAX, 7]))),
        ("narrow", Arc::new(UInt32Array::from(vec![0, 9]))),
        ("short", Arc::new(UInt16Array::from(vec![1, 11]))),
    ];
    let world = World::new();
    world.parquet("a.parquet", &RecordBatch::try_from_iter(values).unwrap(), 10);
    let read = async |made: Made| {
        let pipeline = Pipeline::parquet(world.files("a.parquet")).map("b", made);
        let read = world.try_read(&world.plan(&pipeline).await, 0, 0).await;
        read.map(|records| records["b"].clone())
    };
    for (left, right) in [("wide", "narrow"), ("narrow", "wide")] {
        let found = read(of(Arithmetic::Add, name(left), name(right))).await.unwrap();
        assert_eq!(found.as_primitive::<UInt64Type>().values().to_vec(), [u64::MAX, 16]);
    }
    let error = read(of(Arithmetic::Add, name("wide"), name("short"))).await.unwrap_err();
    says(&error, &["column \"wide\", row 0", "verflow"]);
    // An integer of 64 bits holds both of these, and what they differ by.
    let found = read(of(Arithmetic::Subtract, name("narrow"), name("short"))).await.unwrap();
    assert_eq!(found.as_primitive::<Int64Type>().values().to_vec(), [-1, -2]);
    for (operator, left, right) in [
        (Arithmetic::Add, Operand::Integer(1), Operand::Unsigned(u64::MAX - 1)),
        (Arithmetic::Subtract, Operand::Unsigned(u64::MAX), Operand::Integer(0)),
    ] {
        let found = read(of(operator, left, right)).await.unwrap();
        assert_eq!(found.as_primitive::<UInt64Type>().values().to_vec(), [u64::MAX; 2]);
    }
}

#[tokio::test]
async fn every_comparison_holds_for_every_kind_of_values() {
    let texts = ["2026-11-26", "2026-11-27", "2026-11-28"];
    let days = Date32Array::from(vec![20_783, 20_784, 20_785]);
    let columns: [(ArrayRef, Value); 4] = [
        (Arc::new(Int64Array::from(vec![1, 2, 3])), Value::Integer(2)),
        (Arc::new(UInt64Array::from(vec![1, 2, 3])), Value::Integer(2)),
        (Arc::new(StringArray::from(texts.to_vec())), Value::from(texts[1])),
        (Arc::new(days), Value::from(texts[1])),
    ];
    for (values, middle) in columns {
        for (test, wanted) in [
            (Test::Is(middle.clone()), &[1][..]),
            (Test::IsNot(middle.clone()), &[0, 2]),
            (Test::Below(middle.clone()), &[0]),
            (Test::AtMost(middle.clone()), &[0, 1]),
            (Test::Above(middle.clone()), &[2]),
            (Test::AtLeast(middle.clone()), &[1, 2]),
            (Test::In(vec![middle.clone()]), &[1]),
        ] {
            let (world, pipeline) = column(values.clone());
            let dataset = world.plan(&pipeline.filter(Condition::column("a", test.clone()))).await;
            let found = world.read(&dataset, 0, 0).await;
            let wanted = UInt32Array::from(wanted.to_vec());
            let wanted = arrow::compute::take(&values, &wanted, None).unwrap();
            assert_eq!(&found["a"], &wanted, "{test:?}");
        }
    }
}

#[tokio::test]
async fn a_constant_leaves_its_column_the_type_on_whichever_side_it_stands() {
    let of = |left, right| Made::Arithmetic { operator: Arithmetic::Add, left, right };
    let name = || Operand::Column("a".to_owned());
    for (made, wanted) in [
        (of(name(), Operand::Integer(1)), [2, 127]),
        (of(Operand::Integer(1), name()), [2, 127]),
        (of(Operand::Integer(-1), name()), [0, 125]),
    ] {
        let (world, pipeline) = column(Arc::new(Int8Array::from(vec![1, 126])));
        let dataset = world.plan(&pipeline.map("b", made)).await;
        let found = world.read(&dataset, 0, 0).await;
        assert_eq!(found["b"].as_primitive::<Int8Type>().values().to_vec(), wanted);
    }
    let (world, pipeline) = column(Arc::new(Int8Array::from(vec![1, 127])));
    let dataset = world.plan(&pipeline.map("b", of(Operand::Integer(1), name()))).await;
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    says(&error, &["column \"a\", row 1", "verflow"]);
}

/// Polars and Arrow's own writers have texts of these types.
#[tokio::test]
async fn a_cast_of_texts_is_checked_however_they_are_stored() {
    let texts = || vec![Some("1"), None, Some("9007199254740993")];
    let all: [ArrayRef; 3] = [
        Arc::new(StringArray::from(texts())),
        Arc::new(LargeStringArray::from(texts())),
        Arc::new(StringViewArray::from(texts())),
    ];
    for values in all {
        let kind = values.data_type().clone();
        let error = cast_column(arrow_column(values), ColumnType::Float64).await;
        let error = error.expect_err(&kind.to_string());
        says(&error, &["column \"a\", row 2", "9007199254740993", "rounded"]);
    }
}

#[tokio::test]
async fn a_null_is_in_no_list_and_in_none_but_it() {
    let (world, pipeline) = column(Arc::new(Int64Array::from(vec![Some(1), None, Some(2)])));
    let is_in = |values: &[i64]| {
        let values = values.iter().map(|value| Value::Integer(*value));
        Condition::column("a", Test::In(values.collect()))
    };
    for (condition, wanted) in [
        (is_in(&[1]), vec![1]),
        (is_in(&[1, 2]), vec![1, 2]),
        (is_in(&[]), vec![]),
        (Condition::Not(Box::new(is_in(&[1]))), vec![2]),
        (Condition::Not(Box::new(is_in(&[]))), vec![1, 2]),
    ] {
        let dataset = world.plan(&pipeline.clone().filter(condition.clone())).await;
        let found = world.read(&dataset, 0, 0).await;
        let found = found["a"].as_primitive::<Int64Type>();
        assert_eq!(
            found.iter().collect::<Vec<_>>(),
            wanted.into_iter().map(Some).collect::<Vec<_>>()
        );
    }
}
