//! What is registered, and what is made of it.

use bytes::Bytes;
use rondo_core::element::{Dtype, PartialShape, Spec, TensorSpec, Values};
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
