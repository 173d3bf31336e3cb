//! Texts of refusals.

use core::fmt;

use super::{PeerLost, Refusal};

/// Numbers one after the other.
struct List<'a, N>(&'a [N]);

impl<N: fmt::Display> fmt::Display for List<'_, N> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for number in self.0 {
            write!(out, "{separator}{number}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl fmt::Display for PeerLost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, rank, incarnation, address, why } = self;
        write!(out, "{role} {rank} (incarnation {incarnation}, {address:?}) is lost: {why}")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lists { .. }
            | Self::Tensor { .. }
            | Self::NotContiguous { .. }
            | Self::Empty
            | Self::Pulls { .. }
            | Self::TooManyTensors { .. }
            | Self::RequestTooLarge { .. } => of_request(self, out),
            Self::UnknownUnit { .. }
            | Self::NotGivenOut { .. }
            | Self::AnsweredBefore { .. }
            | Self::AnswerCount { .. }
            | Self::AnswerSize { .. }
            | Self::AnswerLists { .. }
            | Self::Rows { .. }
            | Self::NoBatch { .. } => of_unit(self, out),
            Self::SlotTooSmall { .. }
            | Self::SlotTaken { .. }
            | Self::Chunks { .. }
            | Self::NoCredit { .. }
            | Self::NoWorker { .. }
            | Self::TooManySlots { .. } => of_slot(self, out),
            _ => of_waiting(self, out),
        }
    }
}

/// Texts about what a worker asks for.
fn of_request(refusal: &Refusal, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match refusal {
        Refusal::Lists { side, tensors, keys } => {
            write!(
                out,
                "{tensors} {side} tensors and {keys} {side} keys: there must be one for each"
            )
        }
        Refusal::Tensor { side, index, key, error } => {
            write!(out, "{side} tensor {index} (key {key}): {error}")
        }
        Refusal::NotContiguous { side, index, key } => write!(
            out,
            "{side} tensor {index} (key {key}) is not contiguous: its values must lie one after the other"
        ),
        Refusal::Empty => out.write_str("a request without tensors: push or pull at least one"),
        Refusal::Pulls { pulls, servers } => write!(
            out,
            "{pulls} pull tensors for {servers} servers: there must be as many for each server"
        ),
        Refusal::TooManyTensors { tensors, max } => {
            write!(out, "{tensors} tensors in one request: there may be {max} (tensors_max)")
        }
        Refusal::RequestTooLarge { side, bytes, max } => write!(
            out,
            "{side} tensors of {bytes} bytes for one server: there may be {max} (request_bytes_max)"
        ),
        _ => Ok(()),
    }
}

/// Texts about units and their answers.
fn of_unit(refusal: &Refusal, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match refusal {
        Refusal::UnknownUnit { unit, next } => {
            write!(out, "no unit has the handler {unit}: the next one has {next}")
        }
        Refusal::NotGivenOut { unit } => {
            write!(out, "unit {unit} was not given out: only units of a batch can be answered")
        }
        Refusal::AnsweredBefore { unit } => {
            write!(out, "unit {unit} was answered before, or its worker is lost")
        }
        Refusal::AnswerCount { unit, tensors, pulls } => {
            write!(out, "unit {unit} pulls {pulls} tensors, and is answered with {tensors}")
        }
        Refusal::AnswerSize { unit, index, key, bytes, wanted } => write!(
            out,
            "tensor {index} of the answer to unit {unit} (key {key}) has {bytes} bytes; {wanted} are pulled"
        ),
        Refusal::AnswerLists { units, tensors } => {
            write!(out, "{units} handlers and {tensors} tensors: there must be one for each")
        }
        Refusal::Rows { unit, first, rows, has } => write!(
            out,
            "unit {unit} is answered with {rows} rows from row {first} on, of a buffer that has {has}"
        ),
        Refusal::NoBatch { after, missing } => write!(
            out,
            "no batch within {} ms: workers {} sent nothing",
            after.as_millis(),
            List(missing)
        ),
        _ => Ok(()),
    }
}

/// Texts about where pushes land.
fn of_slot(refusal: &Refusal, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match refusal {
        Refusal::SlotTooSmall { key, worker, slot, pushed } => write!(
            out,
            "worker {worker} pushes {pushed} bytes under key {key}; its registered slot has {slot}"
        ),
        Refusal::SlotTaken { key, worker } => write!(
            out,
            "the slot of key {key} and worker {worker} was registered before: each is registered once"
        ),
        Refusal::Chunks { bytes, workers, keys } => write!(
            out,
            "a buffer of {bytes} bytes for {workers} worker ranks and {keys} keys: these must be as many, \
             at least one, and divide the bytes evenly"
        ),
        Refusal::NoCredit { worker, key: Some(key), requests, .. } => write!(
            out,
            "worker {worker} pushes key {key} once more while {requests} requests that push it are not \
             released (key_credits)"
        ),
        Refusal::NoCredit { worker, key: None, requests, bytes } => write!(
            out,
            "worker {worker} sends ahead of its credits: with {requests} requests that are not over, which \
             push {bytes} bytes together with this one (worker_requests_max, worker_bytes_max)"
        ),
        Refusal::NoWorker { worker, workers } => {
            write!(out, "no worker has rank {worker}: there are {workers}, from 0")
        }
        Refusal::TooManySlots { max } => {
            write!(out, "{max} receive slots are registered, the most there may be (slots_max)")
        }
        _ => Ok(()),
    }
}

/// Texts about who waits, and for whom.
fn of_waiting(refusal: &Refusal, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match refusal {
        Refusal::TooManyHandlers { max } => write!(
            out,
            "{max} requests were made that nobody has waited for, the most there may be (handlers_max)"
        ),
        Refusal::TooManyCalls { max } => {
            write!(out, "{max} calls wait already, the most there may be (calls_max)")
        }
        Refusal::NoMembership => out.write_str("it is not known yet who takes part"),
        Refusal::Abandoned { handler } => write!(out, "handler {handler} was given up"),
        Refusal::Stopped => out.write_str("the process is stopping"),
        Refusal::UnknownHandler { handler, next } => write!(
            out,
            "handler {handler} is unknown or already waited for; the next request's is {next}"
        ),
        Refusal::Late { handler, after, missing } => write!(
            out,
            "handler {handler} is not complete after {} ms: no answer of servers {}",
            after.as_millis(),
            List(missing)
        ),
        Refusal::PeerLost(lost) => fmt::Display::fmt(lost, out),
        Refusal::Refused { server, status } => {
            write!(out, "server {server} refuses: {}", status.message)
        }
        Refusal::AnswerDiffers { server, index, key, bytes, wanted } => write!(
            out,
            "server {server} answers pull {index} (key {key}) with {bytes} bytes; {wanted} are pulled"
        ),
        Refusal::Protocol(text) => out.write_str(text),
        _ => Ok(()),
    }
}
