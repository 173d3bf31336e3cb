//! Registering datasets and reading them back.

use bytes::Bytes;
use rondo_core::dispatcher::{
    Compression, DatasetMetadata, RegisterDataset, Reply, Request, SplitSource,
};
use rondo_core::ids::{DatasetId, Digest};
use rondo_core::limits::USE_NOTED_AFTER;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Driver, Journal};
use crate::world::{dataset, dataset_named};

#[test]
fn equal_datasets_get_ids_of_their_own_from_1000_on() {
    let mut driver = Driver::new();
    let ids = [0, 1].map(|_| driver.register(dataset(&[])));
    assert_eq!(ids, [DatasetId::new("1000"), DatasetId::new("1001")]);
}

#[test]
fn a_wished_id_is_granted_and_found_again() {
    let mut driver = Driver::new();
    assert_eq!(driver.register(dataset_named("mine")).as_str(), "mine");
    assert_eq!(driver.register(dataset_named("mine")).as_str(), "mine");
    assert_eq!(driver.state().datasets().len(), 1);
}

#[test]
fn registering_an_id_again_keeps_the_first_definition() {
    let mut driver = Driver::new();
    let first = dataset_named("mine").definition;
    driver.register(dataset_named("mine"));
    let mut again = dataset_named("mine");
    again.definition = dataset(&[SplitSource::counting(99)]).definition;
    driver.register(again);
    let request = Request::GetDefinition { dataset: DatasetId::new("mine") };
    assert_eq!(driver.ask(request), Ok(Reply::Definition(first)));
}

#[test]
fn chosen_ids_pass_over_those_that_users_took() {
    let mut driver = Driver::new();
    for taken in ["1000", "1001", "1003"] {
        driver.register(dataset_named(taken));
    }
    assert_eq!(driver.register(dataset(&[])).as_str(), "1002");
    assert_eq!(driver.register(dataset(&[])).as_str(), "1004");
}

#[test]
fn ids_are_not_given_twice_across_a_restart() {
    let mut driver = Driver::new();
    driver.register(dataset(&[]));
    driver.restart();
    assert_eq!(driver.register(dataset(&[])).as_str(), "1001");
}

#[test]
fn metadata_comes_back_byte_for_byte() {
    let mut driver = Driver::new();
    let id = driver.register(dataset(&[]));
    let answer = driver.ask(Request::GetMetadata { dataset: id });
    assert_eq!(answer, Ok(Reply::Metadata(Bytes::from_static(b"metadata"))));
}

#[test]
fn an_unknown_dataset_is_not_found_under_its_id() {
    let mut driver = Driver::new();
    let dataset = DatasetId::new("7");
    for request in [
        Request::GetMetadata { dataset: dataset.clone() },
        Request::GetDefinition { dataset: dataset.clone() },
        Request::DisableCompression { dataset, disable: true },
    ] {
        let status = driver.refused(request);
        assert_eq!((status.code, &*status.message), (Code::NotFound, "Dataset id 7 not found"));
    }
}

/// What comes of registering `mine` with other metadata.
fn refusal_of(change: impl FnOnce(&mut DatasetMetadata)) -> String {
    let mut driver = Driver::new();
    driver.register(dataset_named("mine"));
    let mut other = dataset_named("mine");
    change(&mut other.metadata);
    let status = driver.refused(Request::RegisterDataset(other));
    assert_eq!(status.code, Code::InvalidArgument);
    let same = "Datasets with the same ID should have the same structure";
    assert!(status.message.contains(same), "{status}");
    status.message
}

#[test]
fn one_id_means_one_structure() {
    let text = refusal_of(|metadata| metadata.structure = Digest::new([2; 32]));
    assert!(text.contains("element_spec"), "{text}");
}

#[test]
fn one_id_means_one_compression() {
    let text = refusal_of(|metadata| metadata.compression = Compression::Off);
    assert!(text.contains("compression Snappy, not Off"), "{text}");
}

#[test]
fn one_id_means_one_cardinality() {
    let text = refusal_of(|metadata| metadata.cardinality = -1);
    assert!(text.contains("cardinality 10, not -1"), "{text}");
}

#[test]
fn metadata_may_be_encoded_otherwise_if_it_means_the_same() {
    let mut driver = Driver::new();
    driver.register(dataset_named("mine"));
    let mut other = dataset_named("mine");
    other.metadata.encoded = Bytes::from_static(b"the same in another order");
    assert_eq!(driver.register(other).as_str(), "mine");
}

/// Asks for the dataset under an id without a definition.
fn without_definition(of: &RegisterDataset) -> Request {
    let dataset = of.wished.clone().expect("a wished id");
    Request::GetRegistered { dataset, metadata: of.metadata.clone() }
}

#[test]
fn a_registered_id_is_answered_without_a_definition() {
    let mut driver = Driver::new();
    let mine = dataset_named("mine");
    let before = driver.node.last();
    assert_eq!(driver.ask(without_definition(&mine)), Ok(Reply::NotRegistered));
    assert_eq!(driver.node.last(), before, "asking records nothing");
    let id = driver.register(mine.clone());
    assert_eq!(driver.ask(without_definition(&mine)), Ok(Reply::Dataset(id)));
}

#[test]
fn without_a_definition_refusals_are_those_of_a_registration() {
    let changes: [fn(&mut DatasetMetadata); 3] = [
        |metadata| metadata.structure = Digest::new([2; 32]),
        |metadata| metadata.compression = Compression::Off,
        |metadata| metadata.cardinality = -1,
    ];
    for change in changes {
        let mut driver = Driver::new();
        driver.register(dataset_named("mine"));
        let mut other = dataset_named("mine");
        change(&mut other.metadata);
        let refused = driver.refused(without_definition(&other));
        assert_eq!(refused, driver.refused(Request::RegisterDataset(other)));
        assert_eq!(refused.code, Code::InvalidArgument);
    }
}

/// The use is noted as a registration notes it, and the answer waits for the record.
#[test]
fn a_use_without_a_definition_counts_as_one() {
    let mut noted = [false, true].map(|with_definition| {
        let mut driver = Driver::new();
        let mine = dataset_named("mine");
        driver.register(mine.clone());
        driver.advance(Duration::from_secs(3600 * 24));
        let before = driver.node.last();
        let answer = driver.ask(match with_definition {
            true => Request::RegisterDataset(mine),
            false => without_definition(&mine),
        });
        assert_eq!(answer, Ok(Reply::Dataset(DatasetId::new("mine"))));
        let records = driver.node.last().get() - before.get();
        (records, driver.into_journal())
    });
    assert_eq!(noted[0].0, 1);
    let [without, with] = noted.each_mut().map(std::mem::take);
    assert_eq!(without, with);
}

/// A dataset that goes between the answer and the registration is registered anew, and one that comes
/// between them is found.
#[test]
fn what_happens_before_the_definition_comes_counts() {
    let mut driver = Driver::new();
    let mine = dataset_named("mine");
    assert_eq!(driver.ask(without_definition(&mine)), Ok(Reply::NotRegistered));
    let id = driver.register(mine.clone());
    assert_eq!(driver.register(mine.clone()), id);
    assert_eq!(driver.state().datasets().len(), 1);
    assert_eq!(driver.ask(without_definition(&mine)), Ok(Reply::Dataset(id.clone())));
    driver.ask(Request::DeleteDataset { dataset: id }).unwrap();
    assert_eq!(driver.ask(without_definition(&mine)), Ok(Reply::NotRegistered));
    driver.register(mine);
    assert_eq!(driver.state().datasets().len(), 1);
}

/// It promises nothing.
#[test]
fn that_an_id_is_free_is_said_at_once() {
    let mut driver = Driver::new();
    driver.journal = Journal::Slow;
    let first = driver.send(Request::RegisterDataset(dataset_named("other")));
    let second = driver.send(without_definition(&dataset_named("mine")));
    assert_eq!(driver.take(second), Some(Ok(Reply::NotRegistered)));
    assert_eq!(driver.take(first), None);
}

#[test]
fn a_use_without_a_definition_is_not_noted_shortly_after_another() {
    let mut driver = Driver::new();
    let mine = dataset_named("mine");
    driver.register(mine.clone());
    driver.advance(USE_NOTED_AFTER);
    let before = driver.node.last().get();
    for _ in 0..3 {
        driver.ask(without_definition(&mine)).unwrap();
        assert_eq!(driver.node.last().get(), before + 1);
    }
}
