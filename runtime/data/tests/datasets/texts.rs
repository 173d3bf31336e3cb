//! Pipelines as YAML, as JSON and as bytes.

use proptest::prelude::*;
use rondo_data::{
    Arithmetic, Column, ColumnType, Compression, Condition, Made, Operand, Pipeline, Source, Test,
    Value,
};

/// Every example of the documentation is a pipeline, and the same one in every form.
#[test]
fn what_the_documentation_shows_is_understood() {
    let text = include_str!("../../../../docs/datasets.md");
    let examples: Vec<&str> =
        text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 11, "{}", examples.len());
    let mut words = String::new();
    for example in examples {
        let pipeline = Pipeline::from_yaml(example).unwrap_or_else(|it| panic!("{it}:\n{example}"));
        let json = pipeline.to_json().unwrap();
        assert_eq!(Pipeline::from_json(&json).unwrap(), pipeline, "{example}");
        assert_eq!(Pipeline::from_bytes(&pipeline.to_bytes()).unwrap(), pipeline, "{example}");
        words.push_str(&json);
    }
    for word in [
        "range",
        "text",
        "csv",
        "json_lines",
        "parquet",
        "arrow",
        "tfrecord",
        "webdataset",
        "shuffle",
        "batch",
        "repeat",
        "skip",
        "shard",
        "interleave",
        "select",
        "filter",
        "map",
        "prefetch",
        "fill_null",
    ] {
        assert!(words.contains(&format!("\"{word}\"")), "no example has {word}");
    }
}

#[test]
fn yaml_and_rust_mean_the_same() {
    let yaml = "
source: {parquet: {files: [a.parquet]}}
skip_corrupt: true
split_records: 100
operations:
  - filter: {all: [{column: a, at_least: 4.5}, {not: {column: b, is_null: true}}]}
  - map: {column: c, add: [a, 1]}
  - shuffle: {seed: 7, buffer: 1024}
  - batch: {size: 32, drop_remainder: true}
  - repeat: {count: 2}
  - take: 5
";
    let condition = Condition::All(vec![
        Condition::column("a", Test::AtLeast(Value::Number(4.5))),
        Condition::Not(Box::new(Condition::column("b", Test::IsNull(true)))),
    ]);
    let sum = Made::Arithmetic {
        operator: Arithmetic::Add,
        left: Operand::Column("a".to_owned()),
        right: Operand::Integer(1),
    };
    let rust = Pipeline::parquet(["a.parquet"])
        .skipping_corrupt()
        .with_split_records(100)
        .filter(condition)
        .map("c", sum)
        .shuffle(7, 1024)
        .batch(32, true)
        .repeat(2)
        .take(5);
    assert_eq!(Pipeline::from_yaml(yaml).unwrap(), rust);
    let endless = Pipeline::from_yaml("source: {range: {end: 3}}\noperations: [repeat: endless]");
    assert_eq!(endless.unwrap(), Pipeline::range(0, 3).repeat_endlessly());
}

#[test]
fn bytes_that_are_no_pipeline_are_refused() {
    let good = Pipeline::csv(["a.csv"]).batch(3, false).to_bytes();
    for length in 0..good.len() {
        // Some cuts are pipelines with less in them; none is taken for what it is not.
        if let Ok(found) = Pipeline::from_bytes(&good[..length]) {
            assert!(found.operations.is_empty() && found.source.files().len() == 1, "{found:?}");
        }
    }
    let refused = Pipeline::from_bytes(&[]).unwrap_err().to_string();
    assert!(refused.contains("no source"), "{refused}");
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Flag),
        any::<i64>().prop_map(Value::Integer),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300).prop_map(|number: f64| Value::Number(number.trunc() + 0.5)),
        "[a-z ]{0,8}".prop_map(Value::Text),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let test = prop_oneof![
        value().prop_map(Test::Is),
        value().prop_map(Test::IsNot),
        value().prop_map(Test::Below),
        value().prop_map(Test::AtMost),
        value().prop_map(Test::Above),
        value().prop_map(Test::AtLeast),
        prop::collection::vec(value(), 0..3).prop_map(Test::In),
        any::<bool>().prop_map(Test::IsNull),
        "[a-z]{1,3}".prop_map(Test::StartsWith),
        "[a-z]{1,3}".prop_map(Test::EndsWith),
        "[a-z]{1,3}".prop_map(Test::Contains),
    ];
    let leaf = ("[a-z]{1,4}", test).prop_map(|(column, test)| Condition::column(column, test));
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Condition::All),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Condition::Any),
            inner.prop_map(|it| Condition::Not(Box::new(it))),
        ]
    })
}

fn made() -> impl Strategy<Value = Made> {
    let operand = || {
        prop_oneof![
            any::<i64>().prop_map(Operand::Integer),
            ((1_u64 << 63)..).prop_map(Operand::Unsigned),
            "[a-z]{1,4}".prop_map(Operand::Column),
        ]
    };
    let operators = [
        Arithmetic::Add,
        Arithmetic::Subtract,
        Arithmetic::Multiply,
        Arithmetic::Divide,
        Arithmetic::Remainder,
    ];
    prop_oneof![
        "[a-z]{1,4}".prop_map(Made::Rename),
        "[a-z]{1,4}".prop_map(Made::Copy),
        "[a-z]{1,4}".prop_map(Made::Length),
        value().prop_map(Made::Value),
        Just(Made::Cast { column: "a".to_owned(), to: ColumnType::Timestamp }),
        (prop::sample::select(operators.to_vec()), operand(), operand())
            .prop_map(|(operator, left, right)| Made::Arithmetic { operator, left, right }),
    ]
}

proptest! {
    #[test]
    fn every_pipeline_comes_back_from_every_form(
        condition in condition(),
        made in made(),
        fill in value(),
        sizes in (any::<u64>(), 1_u64..u64::MAX, any::<Option<u64>>()),
        compression in prop::sample::select(vec![
            Compression::ByName, Compression::None, Compression::Gzip, Compression::Zlib,
            Compression::Zstd,
        ]),
    ) {
        let mut pipeline = Pipeline::tfrecord(["a", "b*"])
            .filter(condition).map("x", made).fill_null("y", fill)
            .shuffle(sizes.0, sizes.1).interleave(sizes.1, 2).shard(1, 2).prefetch(3);
        pipeline.split_bytes = sizes.2;
        if let Source::Tfrecord(source) = &mut pipeline.source {
            source.compression = compression;
            let mut column = Column::new("z", ColumnType::Float32);
            column.shape = vec![2, 3];
            source.example = vec![column, Column::new("w", ColumnType::String)];
        }
        let json = pipeline.to_json().unwrap();
        prop_assert_eq!(&Pipeline::from_json(&json).unwrap(), &pipeline);
        // JSON is YAML, too.
        prop_assert_eq!(&Pipeline::from_yaml(&json).unwrap(), &pipeline);
        prop_assert_eq!(&Pipeline::from_bytes(&pipeline.to_bytes()).unwrap(), &pipeline);
    }
}
