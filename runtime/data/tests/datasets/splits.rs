//! Records by split.

use rondo_data::{Condition, Pipeline, Test};

use super::world::{World, all_numbers, numbered, numbers};

#[tokio::test]
async fn a_range_is_read_by_ranges() {
    let world = World::new();
    let dataset = world.plan(&Pipeline::range(0, 100).with_split_records(30)).await;
    let splits = world.read_splits(&dataset, 1).await;
    let sizes: Vec<usize> = splits.iter().map(|records| records.num_rows()).collect();
    assert_eq!(sizes, [30, 30, 30, 10]);
    assert_eq!(all_numbers(&splits), (0..100).collect::<Vec<_>>());
    assert_eq!((dataset.cardinality(), dataset.records_per_pass()), (100, Some(100)));
}

#[tokio::test]
async fn parquet_is_read_by_row_groups_from_any_record_on() {
    let world = World::new();
    world.parquet("b.parquet", &numbered(100..150), 20);
    world.parquet("a.parquet", &numbered(0..100), 40);
    let pipeline = Pipeline::parquet(world.files("*.parquet")).with_split_records(40);
    let dataset = world.plan(&pipeline).await;
    let splits = world.read_splits(&dataset, 1).await;
    let sizes: Vec<usize> = splits.iter().map(|records| records.num_rows()).collect();
    assert_eq!(sizes, [40, 40, 40, 30], "row groups of 40, 40, 20, 20, 20 and 10");
    assert_eq!(all_numbers(&splits), (0..150).collect::<Vec<_>>());
    assert_eq!(splits[2], numbered(80..120));
    for skip in [1, 19, 20, 21, 39, 40, 41] {
        let rest = world.read(&dataset, 2, skip).await;
        let wanted: Vec<i64> = (80..120).skip(skip as usize).collect();
        assert_eq!(numbers(&rest), wanted, "behind {skip}");
    }
}

#[tokio::test]
async fn row_groups_are_cut_where_splits_should_be_smaller() {
    let world = World::new();
    world.parquet("a.parquet", &numbered(0..100), 100);
    let pipeline = Pipeline::parquet(world.files("a.parquet")).with_split_records(15);
    let splits = world.read_splits(&world.plan(&pipeline).await, 1).await;
    let sizes: Vec<usize> = splits.iter().map(|records| records.num_rows()).collect();
    assert_eq!(sizes, [15, 15, 15, 15, 15, 15, 10]);
    assert_eq!(all_numbers(&splits), (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_filter_leaves_out_what_is_not_wanted() {
    let world = World::new();
    world.parquet("a.parquet", &numbered(0..100), 30);
    let even = Condition::column("half", Test::AtLeast(20.5.into()));
    let pipeline = Pipeline::parquet(world.files("a.parquet")).with_split_records(30).filter(even);
    let dataset = world.plan(&pipeline).await;
    let splits = world.read_splits(&dataset, 1).await;
    assert_eq!(all_numbers(&splits), (41..100).collect::<Vec<_>>());
    assert_eq!((dataset.cardinality(), dataset.records_per_pass()), (-2, None));
    assert_eq!(numbers(&world.read(&dataset, 1, 5).await), (46..60).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_shuffle_gives_each_pass_every_record_in_another_order() {
    let world = World::new();
    world.parquet("a.parquet", &numbered(0..500), 50);
    let pipeline = Pipeline::parquet(world.files("a.parquet")).with_split_records(100);
    let pipeline = pipeline.shuffle(7, 64).repeat(3);
    let dataset = world.plan(&pipeline).await;
    assert_eq!((dataset.splits(), dataset.passes(), dataset.cardinality()), (5, 3, 1500));
    let all = all_numbers(&world.read_splits(&dataset, 3).await);
    let passes: Vec<&[i64]> = all.chunks(500).collect();
    for pass in &passes {
        let mut sorted = pass.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..500).collect::<Vec<_>>());
        assert_ne!(*pass, sorted);
    }
    assert_ne!(passes[0], passes[1]);
    assert_ne!(passes[1], passes[2]);
    let again = world.plan(&pipeline).await;
    for (split, skip) in [(0, 0), (7, 13), (14, 99), (14, 100)] {
        let whole = world.read(&dataset, split, 0).await;
        let rest = world.read(&again, split, skip).await;
        assert_eq!(rest, whole.slice(skip as usize, 100 - skip as usize));
    }
}
