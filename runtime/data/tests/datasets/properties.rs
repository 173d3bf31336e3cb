//! Whatever the pipeline: any way to read a dataset gives the records that a list of them would.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int64Array};
use arrow::record_batch::RecordBatch;
use proptest::prelude::*;
use rondo_core::status::Code;
use rondo_data::{
    Batch, Condition, Dataset, Operation, Pipeline, Rebatcher, Repeat, Shard, Stores, Test, plan,
};
use tokio::runtime::Runtime;

use super::world::{World, numbered, numbers, write_parquet};

/// Files with the same records in each format that has its own way to be divided.
struct Files {
    _world: World,
    stores: Stores,
    sources: Vec<Pipeline>,
    runtime: Runtime,
}

/// Records of each file of a source.
const LENGTHS: [i64; 4] = [40, 1, 23, 36];
const RECORDS: usize = 100;

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let world = World::new();
    let mut from = 0;
    for (file, length) in LENGTHS.iter().enumerate() {
        let records = numbered(from..from + length);
        write_parquet(&world.path(&format!("{file}.parquet")), &records, 9);
        let lines: String = numbers(&records).iter().map(|it| format!("{it}\n")).collect();
        std::fs::write(world.path(&format!("{file}.csv")), format!("number\n{lines}")).unwrap();
        let objects =
            numbers(&records).iter().map(|it| format!("{{\"number\":{it}}}\n")).collect::<String>();
        let packed = zstd::encode_all(objects.as_bytes(), 1).unwrap();
        std::fs::write(world.path(&format!("{file}.jsonl.zst")), packed).unwrap();
        let out = std::fs::File::create(world.path(&format!("{file}.arrow"))).unwrap();
        let mut out = arrow::ipc::writer::FileWriter::try_new(out, &records.schema()).unwrap();
        for row in (0..records.num_rows()).step_by(11) {
            out.write(&records.slice(row, 11.min(records.num_rows() - row))).unwrap();
        }
        out.finish().unwrap();
        from += length;
    }
    let sources = vec![
        Pipeline::range(0, RECORDS as i64),
        Pipeline::parquet(world.files("*.parquet")),
        Pipeline::csv(world.files("*.csv")),
        Pipeline::json_lines(world.files("*.jsonl.zst")),
        Pipeline::arrow(world.files("*.arrow")),
    ];
    let stores = world.stores.clone();
    Files { _world: world, stores, sources, runtime: Runtime::new().unwrap() }
});

/// The column's name differs in a range.
fn at_least(source: &Pipeline, number: i64) -> Condition {
    let is_range = source.source.files().is_empty();
    Condition::column(if is_range { "value" } else { "number" }, Test::AtLeast(number.into()))
}

fn planned(pipeline: &Pipeline) -> Dataset {
    FILES.runtime.block_on(plan(pipeline, &FILES.stores)).unwrap()
}

/// The records of a split from this one on, in batches of at most so many.
fn read(dataset: &Dataset, split: i64, skip: u64, batch: usize) -> Vec<i64> {
    FILES.runtime.block_on(async {
        let mut reader = dataset.read_split(&FILES.stores, split, skip, batch);
        let (mut found, mut next) = (Vec::new(), skip);
        while let Some(Batch { first, records, skipped }) = reader.next().await.unwrap() {
            assert!(records.num_rows() <= batch && skipped.is_empty());
            assert_eq!(first, next);
            next += records.num_rows() as u64;
            found.extend(numbers(&records));
        }
        found
    })
}

/// Batches of records as one worker reads them.
fn read_all(dataset: &Dataset, shard: Shard) -> Vec<Vec<i64>> {
    FILES.runtime.block_on(async {
        let mut reader = dataset.read_all(&FILES.stores, shard);
        let mut found = Vec::new();
        let mut next = 0;
        while let Some(batch) = reader.next().await.unwrap() {
            assert_eq!(batch.first, next);
            next += batch.records.num_rows() as u64;
            found.push(numbers(&batch.records));
        }
        found
    })
}

fn source() -> impl Strategy<Value = Pipeline> {
    let which = 0..FILES.sources.len();
    (which, 1_u64..40)
        .prop_map(|(which, records)| FILES.sources[which].clone().with_split_records(records))
}

/// What chooses among a source's records.
fn choice() -> impl Strategy<Value = Operation> {
    let shard = (1_u64..4).prop_flat_map(|count| (0..count, Just(count)));
    prop_oneof![
        (0_u64..120).prop_map(Operation::Take),
        (0_u64..60).prop_map(Operation::Skip),
        shard.prop_map(|(index, count)| { Operation::Shard(rondo_data::ShardOf { index, count }) }),
    ]
}

/// What an operation does to a list of elements.
fn model<T: Clone>(list: Vec<T>, operation: &Operation) -> Vec<T> {
    match operation {
        Operation::Take(count) => list.into_iter().take(*count as usize).collect(),
        Operation::Skip(count) => list.into_iter().skip(*count as usize).collect(),
        Operation::Shard(it) => {
            list.into_iter().skip(it.index as usize).step_by(it.count as usize).collect()
        }
        Operation::Repeat(Repeat::Count(count)) => {
            list.iter().cycle().take(list.len() * *count as usize).cloned().collect()
        }
        other => panic!("{other:?} is not in this model"),
    }
}

fn batched(list: &[i64], size: u64, drop_remainder: bool) -> Vec<Vec<i64>> {
    let mut batches: Vec<Vec<i64>> = list.chunks(size as usize).map(<[i64]>::to_vec).collect();
    if drop_remainder && batches.last().is_some_and(|last| last.len() < size as usize) {
        batches.pop();
    }
    batches
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn splits_one_after_the_other_are_what_a_list_would_give(
        source in source(),
        choices in prop::collection::vec(choice(), 0..4),
        threshold in prop::option::of(0_i64..100),
        batch in 1_usize..50,
    ) {
        let mut pipeline = choices.iter().cloned().fold(source.clone(), Pipeline::then);
        let mut wanted = choices.iter().fold((0..RECORDS as i64).collect::<Vec<_>>(), model);
        if let Some(threshold) = threshold {
            pipeline = pipeline.filter(at_least(&source, threshold));
            wanted.retain(|number| *number >= threshold);
        }
        let dataset = planned(&pipeline);
        let again = Dataset::from_definition(&dataset.to_definition().unwrap()).unwrap().unwrap();
        let splits = dataset.splits() as i64;
        let found: Vec<i64> = (0..splits).flat_map(|split| read(&again, split, 0, batch)).collect();
        prop_assert_eq!(&found, &wanted);
        prop_assert_eq!(read_all(&dataset, Shard::Off).concat(), wanted.clone());
        if threshold.is_none() {
            prop_assert_eq!(dataset.cardinality(), wanted.len() as i64);
        }
    }

    #[test]
    fn reading_on_gives_what_reading_through_gives(
        source in source(),
        choices in prop::collection::vec(choice(), 0..2),
        threshold in prop::option::of(0_i64..100),
        shuffle in prop::option::of((any::<u64>(), 1_u64..60)),
        interleave in prop::option::of((1_u64..5, 1_u64..7)),
        pass in 0_i64..3,
        skip in 0_u64..50,
        batches in (1_usize..50, 1_usize..50),
    ) {
        let mut pipeline = choices.iter().cloned().fold(source.clone(), Pipeline::then);
        if let Some((cycle, block)) = interleave {
            pipeline = pipeline.interleave(cycle, block);
        }
        if let Some(threshold) = threshold {
            pipeline = pipeline.filter(at_least(&source, threshold));
        }
        if let Some((seed, buffer)) = shuffle {
            pipeline = pipeline.shuffle(seed, buffer);
        }
        let dataset = planned(&pipeline.repeat(3));
        let again = Dataset::from_definition(&dataset.to_definition().unwrap()).unwrap().unwrap();
        let splits = dataset.splits() as i64;
        let mut all = Vec::new();
        for split in pass * splits..(pass + 1) * splits {
            let whole = read(&dataset, split, 0, batches.0);
            let rest = read(&again, split, skip, batches.1);
            prop_assert_eq!(&rest, &whole[whole.len().min(skip as usize)..]);
            all.extend(whole);
        }
        let mut wanted = choices.iter().fold((0..RECORDS as i64).collect::<Vec<_>>(), model);
        wanted.retain(|number| threshold.is_none_or(|threshold| *number >= threshold));
        all.sort_unstable();
        prop_assert_eq!(all, wanted, "every record once");
    }

    #[test]
    fn what_stands_behind_a_filter_is_done_to_the_whole_stream(
        source in source(),
        threshold in 0_i64..100,
        before in prop::collection::vec(choice(), 0..3),
        batch in prop::option::of((1_u64..20, any::<bool>())),
        of_batches in prop::collection::vec(choice(), 0..2),
        passes in 1_u64..3,
        workers in 1_u64..4,
    ) {
        let mut pipeline = source.clone().filter(at_least(&source, threshold));
        pipeline = before.iter().cloned().fold(pipeline, Pipeline::then);
        let list = (threshold..RECORDS as i64).collect::<Vec<_>>();
        let list = before.iter().fold(list, model);
        let mut wanted: Vec<Vec<i64>> = match batch {
            Some((size, drop_remainder)) => {
                pipeline = pipeline.batch(size, drop_remainder);
                batched(&list, size, drop_remainder)
            }
            None => list.iter().map(|number| vec![*number]).collect(),
        };
        pipeline = of_batches.iter().cloned().fold(pipeline, Pipeline::then);
        wanted = of_batches.iter().fold(wanted, model);
        pipeline = pipeline.repeat(passes);
        if passes > 1 && wanted.is_empty() {
            return Ok(());
        }
        wanted = model(wanted, &Operation::Repeat(Repeat::Count(passes)));
        let dataset = planned(&pipeline);
        let split_up = |batches: Vec<Vec<i64>>| -> Vec<Vec<i64>> {
            if batch.is_some() { batches } else { batches.concat().into_iter().map(|it| vec![it]).collect() }
        };
        prop_assert_eq!(&split_up(read_all(&dataset, Shard::Off)), &wanted);
        let mut dealt: Vec<_> = (0..workers)
            .map(|index| split_up(read_all(&dataset, Shard::Data { index, count: workers })).into_iter())
            .collect();
        let mut together = Vec::new();
        'dealing: loop {
            for worker in &mut dealt {
                let Some(element) = worker.next() else { break 'dealing };
                together.push(element);
            }
        }
        prop_assert_eq!(together, wanted, "elements are dealt out in turn");
    }

    #[test]
    fn workers_with_files_of_their_own_have_every_record_between_them(
        source in source(),
        shuffle in prop::option::of((any::<u64>(), 1_u64..60)),
        count in 1_u64..5,
    ) {
        let mut pipeline = source;
        if let Some((seed, buffer)) = shuffle {
            pipeline = pipeline.shuffle(seed, buffer);
        }
        let dataset = planned(&pipeline);
        let has_files = dataset.files().count() > 0;
        let mut all = Vec::new();
        for index in 0..count {
            let records = read_all(&dataset, Shard::FileOrData { index, count }).concat();
            let file = |number: i64| {
                LENGTHS.iter().scan(0, |end, length| { *end += length; Some(*end) })
                    .position(|end| number < end).unwrap() as u64
            };
            if has_files {
                prop_assert!(records.iter().all(|number| file(*number) % count == index));
            }
            all.extend(records);
        }
        all.sort_unstable();
        prop_assert_eq!(all, (0..RECORDS as i64).collect::<Vec<_>>());
    }

    #[test]
    fn batches_across_splits_have_one_size_and_say_where_their_records_come_from(
        source in source(),
        size in 1_u64..30,
        drop_remainder in any::<bool>(),
        ends_with_passes in any::<bool>(),
        step in 1_usize..20,
    ) {
        let dataset = planned(&source.repeat(2));
        let mut rebatcher = Rebatcher::new(size, drop_remainder, ends_with_passes, u64::MAX);
        let (mut found, mut origins) = (Vec::new(), Vec::new());
        let splits = dataset.splits() * 2;
        for place in 0..splits {
            let (pass, split) = (dataset.pass_of(place as i64), place as i64);
            let mut from = 0;
            for part in read(&dataset, split, 0, 100).chunks(step) {
                let records = numbered(part.iter().copied());
                let batch = Batch { first: from, records, skipped: Vec::new() };
                from += part.len() as u64;
                rebatcher.push(place, pass, batch).unwrap();
            }
        }
        rebatcher.end().unwrap();
        while let Some(batch) = rebatcher.pop() {
            let count: u64 = batch.origins.iter().map(|origin| origin.count).sum();
            prop_assert_eq!(count, batch.records.num_rows() as u64);
            found.push(numbers(&batch.records));
            origins.extend(batch.origins);
        }
        let pass: Vec<i64> = (0..RECORDS as i64).collect();
        let wanted = if ends_with_passes {
            [batched(&pass, size, drop_remainder), batched(&pass, size, drop_remainder)].concat()
        } else {
            batched(&[&pass[..], &pass[..]].concat(), size, drop_remainder)
        };
        prop_assert_eq!(found, wanted);
        let left_out = rebatcher.left_out();
        prop_assert!(drop_remainder || left_out.is_empty());
        // Every record of every split is in a batch, or was left out, once.
        let mut places: Vec<(u64, u64)> = origins.iter().chain(&left_out)
            .flat_map(|it| (it.first..it.first + it.count).map(|record| (it.place, record)))
            .collect();
        places.sort_unstable();
        let all = (0..splits).flat_map(|place| {
            let count = read(&dataset, place as i64, 0, 100).len() as u64;
            (0..count).map(move |record| (place, record))
        });
        prop_assert_eq!(places, all.collect::<Vec<_>>());
    }
}

/// A batch that no element can hold is refused while it grows, and not when all memory is taken.
#[test]
fn a_batch_that_is_too_large_is_refused_before_it_is_full() {
    let part = || {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7; 64 << 10]));
        let records = RecordBatch::try_from_iter([("number", column)]).unwrap();
        Batch { first: 0, records, skipped: Vec::new() }
    };
    let mut rebatcher = Rebatcher::new(6_000_000_000, false, true, 1 << 20);
    rebatcher.push(0, 0, part()).unwrap();
    rebatcher.push(1, 0, part()).unwrap();
    assert_eq!(rebatcher.waiting(), 128 << 10);
    let error = rebatcher.push(2, 0, part()).unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    assert_eq!(
        error.to_string(),
        "the bytes of a batch of 6000000000 records: 1572864, at most 1048576 are allowed (the size \
         of batch)"
    );
    assert_eq!(rebatcher.waiting(), 0, "it holds nothing any more");
    assert_eq!(rebatcher.pop(), None);
    // Batches that have room are made.
    let mut rebatcher = Rebatcher::new(128 << 10, false, true, 1 << 20);
    for place in 0..10 {
        rebatcher.push(place, 0, part()).unwrap();
    }
    assert_eq!(std::iter::from_fn(|| rebatcher.pop()).count(), 5);
}

/// The same of all that one worker reads.
#[tokio::test]
async fn a_stream_refuses_a_batch_that_is_too_large() {
    let stores = Stores::from_env();
    let pipeline = Pipeline::range(0, 1000);
    for pipeline in [pipeline.clone().batch(6_000_000_000, false), pipeline.batch(300, false)] {
        let dataset = plan(&pipeline, &stores).await.unwrap();
        let mut reader = dataset.read_all_within(&stores, Shard::Off, 2399);
        let error = reader.next().await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
        let mut reader = dataset.read_all_within(&stores, Shard::Off, 8000);
        assert!(reader.next().await.unwrap().is_some());
    }
}
