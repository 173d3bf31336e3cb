//! The same random operations on every store and on a list of frames must leave the same journal.

use bytes::Bytes;
use proptest::prelude::*;
use rondo::store::{Store, StoreKind};
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame::encode;

use super::world::{World, good_frames};

#[derive(Clone, Debug)]
enum Operation {
    Append { records: u64, payload_bytes: usize },
    Sync,
    Rotate,
    Truncate(prop::sample::Index),
    RemoveOldest,
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0_u64..4, prop_oneof![0_usize..200, 0_usize..9000])
            .prop_map(|(records, payload_bytes)| Operation::Append { records, payload_bytes }),
        2 => Just(Operation::Sync),
        3 => Just(Operation::Rotate),
        1 => any::<prop::sample::Index>().prop_map(Operation::Truncate),
        1 => Just(Operation::RemoveOldest),
        2 => Just(Operation::Reopen),
    ]
}

/// What ought to be in the journal: in each segment the frames, each with the record behind it.
#[derive(Default)]
struct Model {
    segments: Vec<(u64, Vec<(u64, Bytes)>)>,
    next: u64,
}

impl Model {
    fn frames(&self) -> Vec<Bytes> {
        self.segments.iter().flat_map(|(_, frames)| frames).map(|(_, f)| f.clone()).collect()
    }

    fn frame(&self, records: u64, payload_bytes: usize) -> Bytes {
        let (first, durable_upto) = (Lsn::new(self.next), Lsn::new(self.next - 1));
        let payload = vec![payload_bytes as u8; payload_bytes];
        encode(&GroupHeader { first, count: records, durable_upto }, &payload).unwrap()
    }

    fn append(&mut self, records: u64, frame: Bytes) {
        if self.segments.is_empty() {
            self.segments.push((self.next, Vec::new()));
        }
        self.next += records;
        self.segments.last_mut().unwrap().1.push((self.next, frame));
    }

    fn rotate(&mut self) {
        if self.segments.last().is_some_and(|(first, _)| *first < self.next) {
            self.segments.push((self.next, Vec::new()));
        }
    }

    /// A segment without a frame does not outlive its store.
    fn reopen(&mut self) {
        self.segments.retain(|(_, frames)| !frames.is_empty());
    }

    fn truncate(&mut self, from: u64) {
        self.segments.retain(|(first, _)| *first < from);
        for (_, frames) in &mut self.segments {
            frames.retain(|(end, _)| *end <= from);
        }
        self.next = from;
    }

    /// Where the journal can be cut.
    fn boundaries(&self) -> Vec<u64> {
        let ends = self.segments.iter().flat_map(|(_, frames)| frames).map(|(end, _)| *end);
        self.segments.first().map(|(first, _)| *first).into_iter().chain(ends).collect()
    }
}

async fn perform(world: &World, store: &mut Box<dyn Store>, model: &mut Model, what: &Operation) {
    let next = Lsn::new(model.next);
    match what {
        Operation::Append { records, payload_bytes } => {
            store.append(next, model.frame(*records, *payload_bytes)).await.unwrap();
        }
        Operation::Sync => store.sync().await.unwrap(),
        Operation::Rotate => assert!(store.rotate(next).await.unwrap()),
        Operation::Truncate(at) => {
            if let Some(from) = pick(model, at) {
                store.truncate(Lsn::new(from)).await.unwrap();
            }
        }
        Operation::RemoveOldest => {
            if model.segments.len() > 1 {
                store.remove(Lsn::new(model.segments[0].0)).await.unwrap();
            }
        }
        Operation::Reopen => {
            store.sync().await.unwrap();
            // Two stores must not have the same files open.
            *store = Box::new(Closed);
            *store = world.open().await;
        }
    }
}

fn pick(model: &Model, at: &prop::sample::Index) -> Option<u64> {
    let boundaries = model.boundaries();
    (!boundaries.is_empty()).then(|| boundaries[at.index(boundaries.len())])
}

fn perform_on_model(model: &mut Model, what: &Operation) {
    match what {
        Operation::Append { records, payload_bytes } => {
            let frame = model.frame(*records, *payload_bytes);
            model.append(*records, frame);
        }
        Operation::Sync => {}
        Operation::Rotate => model.rotate(),
        Operation::Truncate(at) => {
            if let Some(from) = pick(model, at) {
                model.truncate(from);
            }
        }
        Operation::RemoveOldest => {
            if model.segments.len() > 1 {
                model.segments.remove(0);
            }
        }
        Operation::Reopen => model.reopen(),
    }
}

async fn run(operations: &[Operation]) {
    let worlds = [World::new(StoreKind::Segment), World::new(StoreKind::Sled)];
    let mut stores = [worlds[0].open().await, worlds[1].open().await];
    let mut model = Model { next: 1, ..Model::default() };
    for operation in operations {
        for (world, store) in worlds.iter().zip(&mut stores) {
            perform(world, store, &mut model, operation).await;
        }
        perform_on_model(&mut model, operation);
        for (world, store) in worlds.iter().zip(&stores) {
            let what = format!("{} after {operation:?}", world.kind);
            assert_eq!(good_frames(&**store).await, model.frames(), "{what}");
        }
        let firsts = |n: usize| stores[n].segments().iter().map(|s| s.first).collect::<Vec<_>>();
        assert_eq!(firsts(0), firsts(1), "segments after {operation:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn stores_agree(operations in prop::collection::vec(operation(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&operations));
    }
}

/// Stands where a store was.
struct Closed;

mod closed {
    use rondo::store::{AppendError, BoxFuture, Found, Segment, StoreError};

    use super::*;

    impl Store for Closed {
        fn append(&mut self, _: Lsn, _: Bytes) -> BoxFuture<'_, Result<(), AppendError>> {
            panic!("closed")
        }
        fn sync(&mut self) -> BoxFuture<'static, Result<(), StoreError>> {
            panic!("closed")
        }
        fn rotate(&mut self, _: Lsn) -> BoxFuture<'_, Result<bool, StoreError>> {
            panic!("closed")
        }
        fn segments(&self) -> Vec<Segment> {
            panic!("closed")
        }
        fn read(&self, _: Lsn) -> BoxFuture<'static, Result<Vec<Found>, StoreError>> {
            panic!("closed")
        }
        fn truncate(&mut self, _: Lsn) -> BoxFuture<'_, Result<(), StoreError>> {
            panic!("closed")
        }
        fn remove(&mut self, _: Lsn) -> BoxFuture<'_, Result<(), StoreError>> {
            panic!("closed")
        }
    }
}
