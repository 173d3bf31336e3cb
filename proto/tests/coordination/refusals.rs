//! What stands beside refusals: `GrpcPayloadContainer`, a map of type URL (1) to bytes (2) in
//! field 1.

use rondo_core::coordination::Dialect;
use rondo_core::ids::{ServiceIncarnation, TaskIndex};
use rondo_core::status::Detail;
use rondo_proto::convert::encode_details;

use crate::hand::Value::{self, Fixed, Int};
use crate::hand::{fields, sub, text};

fn payload(key: &str, bytes: Value) -> (u64, Value) {
    let key = format!("type.googleapis.com/tensorflow.{key}");
    // proto3 leaves out what is empty.
    let entry = match bytes {
        Value::Bytes(bytes) if bytes.is_empty() => sub(&[(1, text(&key))]),
        bytes => sub(&[(1, text(&key)), (2, bytes)]),
    };
    (1, entry)
}

fn details(dialect: Dialect, details: &[Detail]) -> Vec<(u64, Value)> {
    fields(&encode_details(dialect, "jax_worker", details))
}

fn reported() -> Detail {
    Detail::CoordinationService { is_reported: true, source: Some(TaskIndex::new(2)) }
}

#[test]
fn most_errors_bear_an_empty_mark() {
    for dialect in [Dialect::T, Dialect::X] {
        let expected = [payload("CoordinationServiceError", sub(&[]))];
        assert_eq!(details(dialect, &[Detail::SERVICE]), expected);
        assert_eq!(details(dialect, &[]), []);
    }
}

#[test]
fn a_reported_error_names_its_source_as_the_dialect_does() {
    let task = sub(&[(1, text("jax_worker")), (2, Int(2))]);
    let expected = [payload("CoordinationServiceError", sub(&[(3, Int(1)), (4, task)]))];
    assert_eq!(details(Dialect::T, &[reported()]), expected);
    let expected = [payload("CoordinationServiceError", sub(&[(3, Int(1)), (4, Int(2))]))];
    assert_eq!(details(Dialect::X, &[reported()]), expected);
}

#[test]
fn a_barriers_error_bears_both_payloads() {
    let barrier = Detail::Barrier { id: "b".into(), counter: 3 };
    for dialect in [Dialect::T, Dialect::X] {
        let expected = [
            payload("BarrierError", sub(&[(1, text("b")), (2, Int(3))])),
            payload("CoordinationServiceError", sub(&[])),
        ];
        assert_eq!(details(dialect, &[Detail::SERVICE, barrier.clone()]), expected);
    }
}

#[test]
fn another_life_is_named_in_dialect_x_alone() {
    let mismatch = Detail::ServiceMismatch { incarnation: ServiceIncarnation::new(5) };
    let both = [Detail::SERVICE, mismatch];
    let service = payload("CoordinationServiceError", sub(&[]));
    let expected = [service.clone(), payload("ServiceMismatchError", sub(&[(1, Fixed(5))]))];
    assert_eq!(details(Dialect::X, &both), expected);
    assert_eq!(details(Dialect::T, &both), [service]);
    assert_eq!(details(Dialect::Rondo, &both), []);
}
