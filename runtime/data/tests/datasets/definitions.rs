//! What is registered, and what is made of it.

use bytes::Bytes;
use rondo_core::element::{Dtype, PartialShape, Spec, TensorSpec, Values};
use rondo_core::status::Code;
use rondo_data::{Dataset, Pipeline, elements};

use super::world::{World, numbered};

#[tokio::test]
async fn a_definition_is_read_back_as_the_same_dataset() {
    let world = World::new();
    world.parquet("a.parquet", &numbered(0..100), 30);
    let pipeline = Pipeline::parquet(world.files("a.parquet")).shuffle(3, 10).batch(8, false);
    let dataset = world.plan(&pipeline).await;
    let definition = dataset.to_definition().unwrap();
    let again = Dataset::from_definition(&definition).unwrap().unwrap();
    assert_eq!(again.pipeline(), &pipeline);
    assert_eq!(again.to_definition().unwrap(), definition);
    assert_eq!(again.schema(), dataset.schema());
    assert_eq!(world.read_splits(&again, 1).await, world.read_splits(&dataset, 1).await);
    assert_eq!(Dataset::from_definition(&Bytes::new()).unwrap().map(|_| ()), None);
}

#[tokio::test]
async fn elements_have_the_columns_by_name() {
    let world = World::new();
    world.parquet("a.parquet", &numbered(0..10), 30);
    let dataset = world.plan(&Pipeline::parquet(world.files("a.parquet"))).await;
    let tensor = |dtype| {
        let tensor = TensorSpec { dtype, shape: PartialShape::Sizes(Vec::new()) };
        Spec::Tensor { tensor, name: String::new() }
    };
    let columns = [
        ("half".to_owned(), tensor(Dtype::Double)),
        ("name".to_owned(), tensor(Dtype::String)),
        ("number".to_owned(), tensor(Dtype::Int64)),
    ];
    assert_eq!(dataset.element_spec().unwrap(), Spec::Dict(columns.into()));

    let records = world.read(&dataset, 0, 3).await;
    let found = elements(&records, false).unwrap();
    assert_eq!(found.len(), 7);
    let [half, name, number] = &found[2].components[..] else { panic!("{found:?}") };
    assert_eq!(half.values(), &Values::Fixed(Bytes::copy_from_slice(&2.5_f64.to_le_bytes())));
    assert_eq!(name.each_string().collect::<Vec<_>>(), [Bytes::from("record 5")]);
    assert_eq!(number.values(), &Values::Fixed(Bytes::copy_from_slice(&5_i64.to_le_bytes())));

    let batch = elements(&records, true).unwrap();
    assert_eq!(batch.len(), 1);
    assert_eq!(batch[0].components[1].shape().sizes(), [7]);
    assert_eq!(batch[0].components[1].each_string().nth(6).unwrap(), "record 9");
}

#[tokio::test]
async fn definitions_of_newer_versions_and_damaged_ones() {
    use rondo_proto::dataset::{decode_definition, encode_definition};

    let world = World::new();
    let definition = world.plan(&Pipeline::range(0, 10)).await.to_definition().unwrap();
    let good = decode_definition(&definition).unwrap().unwrap();
    let refused = |dataset| Dataset::from_definition(&encode_definition(&dataset)).unwrap_err();

    let mut newer = good.clone();
    newer.version = 2;
    let error = refused(newer);
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");

    let mut damaged = good;
    damaged.manifest = Bytes::from_static(b"\xFF\xFFno manifest");
    let error = refused(damaged);
    assert_eq!(error.code(), Code::DataLoss, "{error}");
    assert!(error.to_string().contains("its manifest"), "{error}");

    let cut = definition.slice(..definition.len() - 3);
    assert_eq!(Dataset::from_definition(&cut).unwrap_err().code(), Code::DataLoss);
}

#[tokio::test]
async fn the_cardinality_is_the_number_of_elements_where_it_is_known() {
    let world = World::new();
    let of = || Pipeline::range(0, 10).with_split_records(3);
    for (pipeline, wanted) in [
        (of(), 10),
        (of().take(4).skip(1), 3),
        (of().shard(1, 3).repeat(2), 6),
        (of().batch(4, false), 3),
        (of().batch(4, true), 2),
        (of().batch(4, false).repeat(2), 6),
        (of().repeat(2).batch(4, false), 5),
        (of().shuffle(1, 4).take(7), 7),
        (of().batch(3, false).skip(1).take(9), 3),
        (of().repeat_endlessly(), -1),
        (of().repeat_endlessly().batch(4, true).take(7), 7),
        (of().repeat_endlessly().take(9).batch(4, false), 3),
        (of().skipping_corrupt(), -2),
    ] {
        let dataset = world.plan(&pipeline).await;
        assert_eq!(dataset.cardinality(), wanted, "{pipeline:?}");
        if wanted == -1 {
            continue;
        }
        let mut reader = dataset.read_all(&world.stores, rondo_data::Shard::Off);
        let mut count = 0;
        while let Some(batch) = reader.next().await.unwrap() {
            let is_batched = dataset.batch().is_some();
            count += if is_batched { 1 } else { batch.records.num_rows() as i64 };
        }
        assert!(wanted == -2 || count == wanted, "{count} elements: {pipeline:?}");
    }
}
