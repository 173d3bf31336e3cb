//! What several messages have in them.

use std::sync::Arc;

use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::message::{Barrier, Passed, Pull, Scope, Tensor};
use rondo_core::exchange::{
    BarrierNumber, InstanceRank, Key, Mask, PeerLost, RequestNumber, Role, STAMPS, Stamps,
    TensorInfo,
};
use rondo_core::ids::Incarnation;
use rondo_core::limits::NAME_BYTES_MAX;
use rondo_core::status::{Code, Status};

use crate::admin as wire;
use crate::convert::check::{Field, field};

/// Kinds of barrier: masks by scopes.
const KINDS_MAX: usize = 14;
/// Addresses of one process: a scheduler's settings may say less.
const ADDRESSES_MAX: usize = 1024;

/// A list of at most so many items.
pub(super) fn at_most<T>(field: Field, items: Vec<T>, max: usize) -> Result<Vec<T>, Status> {
    if items.len() <= max {
        return Ok(items);
    }
    let found = format_args!("a list of {} items", items.len());
    Err(field.refuse(found, format_args!("at most {max} are allowed")))
}

/// What must be there.
pub(super) fn present<T>(field: Field, value: Option<T>) -> Result<T, Status> {
    value.ok_or_else(|| field.refuse("missing", "it must be there"))
}

fn info(name: &'static str, tensor: &wire::ExchangeTensor) -> Result<TensorInfo, Status> {
    let info = TensorInfo::of_number(tensor.dtype, &tensor.shape).map_err(|error| {
        let found = format_args!("no tensor (key {}): {error}", tensor.key);
        let right = "dtype and shape must be those of a tensor";
        field(name, "tensor").refuse(found, right)
    })?;
    if info.bytes() == tensor.bytes {
        return Ok(info);
    }
    let right = format_args!("a tensor {info} has {} (key {})", info.bytes(), tensor.key);
    Err(field(name, "tensor.bytes").refuse(tensor.bytes, right))
}

pub(super) fn tensor(
    name: &'static str,
    wire: &wire::ExchangeTensor,
) -> Result<Tensor<()>, Status> {
    Ok(Tensor { key: Key::new(wire.key), info: info(name, wire)?, payload: () })
}

pub(super) fn pull(name: &'static str, wire: &wire::ExchangeTensor) -> Result<Pull, Status> {
    Ok(Pull { key: Key::new(wire.key), info: info(name, wire)? })
}

pub(super) fn wire_tensor(key: Key, info: &TensorInfo) -> wire::ExchangeTensor {
    wire::ExchangeTensor {
        key: key.get(),
        dtype: info.dtype().number(),
        shape: info.shape().to_vec(),
        bytes: info.bytes(),
    }
}

pub(super) fn numbers(field: Field, numbers: Vec<u64>) -> Result<Vec<RequestNumber>, Status> {
    Ok(field.items(numbers)?.into_iter().map(RequestNumber::new).collect())
}

pub(super) fn wire_numbers(numbers: &[RequestNumber]) -> Vec<u64> {
    numbers.iter().map(|number| number.get()).collect()
}

pub(super) fn stamps(field: Field, stamps: &[u64]) -> Result<Stamps, Status> {
    if stamps.is_empty() {
        return Ok(Stamps::default());
    }
    let stamps: [u64; STAMPS] = stamps.try_into().map_err(|_| {
        let found = format_args!("a list of {} items", stamps.len());
        field.refuse(found, format_args!("there must be {STAMPS}, or none"))
    })?;
    Ok(Stamps::new(stamps))
}

pub(super) fn wire_stamps(stamps: &Stamps) -> Vec<u64> {
    if *stamps == Stamps::default() { Vec::new() } else { stamps.get().to_vec() }
}

pub(super) fn status(field: Field, wire: Option<wire::ExchangeStatus>) -> Result<Status, Status> {
    let wire::ExchangeStatus { code: number, message } = present(field, wire)?;
    let code = Code::of_number(number)
        .ok_or_else(|| field.refuse(number, "it must be a gRPC status code from 1 to 16"))?;
    Ok(Status::new(code, field.name(message)?))
}

/// A refusal as it is told: its code and its text, of which too long a one is cut.
pub(super) fn wire_status(status: &Status) -> wire::ExchangeStatus {
    let fits = |end: &usize| status.message.is_char_boundary(*end);
    let end = (0..=NAME_BYTES_MAX.min(status.message.len())).rev().find(fits).unwrap_or_default();
    let message = status.message.get(..end).unwrap_or_default().to_owned();
    wire::ExchangeStatus { code: status.code.number(), message }
}

pub(super) fn sizes(field: Field, wire: Option<wire::ExchangeSizes>) -> Result<Sizes, Status> {
    let wire::ExchangeSizes { workers, servers, group } = present(field, wire)?;
    Ok(Sizes { workers, servers, group })
}

pub(super) const fn wire_sizes(sizes: Sizes) -> wire::ExchangeSizes {
    let Sizes { workers, servers, group } = sizes;
    wire::ExchangeSizes { workers, servers, group }
}

/// The role of a process that has a rank.
pub(super) fn role(field: Field, number: u32) -> Result<Role, Status> {
    match Role::of_number(number) {
        Some(role @ (Role::Server | Role::Worker)) => Ok(role),
        Some(Role::Scheduler) | None => {
            Err(field.refuse(number, "it must be 2 (server) or 4 (worker)"))
        }
    }
}

pub(super) fn addresses(field: Field, wire: Vec<String>) -> Result<Vec<Arc<str>>, Status> {
    let wire = at_most(field, wire, ADDRESSES_MAX)?;
    wire.into_iter().map(|address| Ok(field.name(address)?.into())).collect()
}

pub(super) fn wire_addresses(addresses: &[Arc<str>]) -> Vec<String> {
    addresses.iter().map(|address| address.as_ref().to_owned()).collect()
}

fn mask(field: Field, number: u32) -> Result<Mask, Status> {
    Mask::of_number(number).ok_or_else(|| field.refuse(number, "it must be from 1 to 7"))
}

fn scope(field: Field, number: i32) -> Result<Scope, Status> {
    Scope::of_number(number).ok_or_else(|| {
        field.refuse(number, "it must be 1 (every process) or 2 (one of each group)")
    })
}

pub(super) fn barrier(name: &'static str, wire: wire::ExchangeBarrier) -> Result<Barrier, Status> {
    Ok(Barrier {
        number: BarrierNumber::new(wire.number),
        mask: mask(field(name, "mask"), wire.mask)?,
        scope: scope(field(name, "scope"), wire.scope)?,
    })
}

pub(super) const fn wire_barrier(barrier: &Barrier) -> wire::ExchangeBarrier {
    wire::ExchangeBarrier {
        number: barrier.number.get(),
        mask: barrier.mask.number(),
        scope: barrier.scope.number(),
    }
}

pub(super) fn barriers(
    name: &'static str,
    wire: Vec<wire::ExchangeBarrier>,
) -> Result<Vec<Barrier>, Status> {
    let wire = at_most(field(name, "waiting"), wire, KINDS_MAX)?;
    wire.into_iter().map(|it| barrier(name, it)).collect()
}

pub(super) fn passed(
    name: &'static str,
    wire: Vec<wire::ExchangePassed>,
) -> Result<Vec<Passed>, Status> {
    let wire = at_most(field(name, "passed"), wire, KINDS_MAX)?;
    let passed = wire.into_iter().map(|it| {
        Ok(Passed {
            mask: mask(field(name, "passed.mask"), it.mask)?,
            scope: scope(field(name, "passed.scope"), it.scope)?,
            count: it.count,
        })
    });
    passed.collect()
}

pub(super) fn wire_passed(passed: &[Passed]) -> Vec<wire::ExchangePassed> {
    let wire = passed.iter().map(|Passed { mask, scope, count }| wire::ExchangePassed {
        mask: mask.number(),
        scope: scope.number(),
        count: *count,
    });
    wire.collect()
}

pub(super) fn lost(wire: wire::ExchangePeerLost) -> Result<PeerLost, Status> {
    const NAME: &str = "ExchangePeerLost";
    Ok(PeerLost {
        role: role(field(NAME, "role"), wire.role)?,
        rank: InstanceRank::new(wire.rank),
        incarnation: Incarnation::new(wire.incarnation),
        address: field(NAME, "address").name(wire.address)?.into(),
        why: field(NAME, "why").name(wire.why)?.into(),
    })
}

pub(super) fn wire_lost(lost: &PeerLost) -> wire::ExchangePeerLost {
    wire::ExchangePeerLost {
        role: lost.role.number(),
        rank: lost.rank.get(),
        incarnation: lost.incarnation.get(),
        address: lost.address.as_ref().to_owned(),
        why: lost.why.as_ref().to_owned(),
    }
}
