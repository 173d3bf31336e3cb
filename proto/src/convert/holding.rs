//! `rondo.v1.Splits`: readers that hold splits, in both directions.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{
    DepartedReader, Group, HeldSplit, HoldSplits, SavedSplit, SplitProgress, SplitsHeld,
};
use rondo_core::ids::{ClientId, IterationId, Lsn};
use rondo_core::limits::{
    GROUP_SIZE_MAX, NAME_BYTES_MAX, REQUEST_BYTES_MAX, SPLITS_PER_CLIENT_MAX,
};
use rondo_core::status::{Code, Status};

use super::check::{field, message};
use crate::admin as wire;

/// The service in which readers hold splits.
pub const SERVICE_SPLITS: &str = "rondo.v1.Splits";
/// The path of the method that takes and acknowledges splits.
pub const HOLD_SPLITS_PATH: &str = "/rondo.v1.Splits/HoldSplits";
/// The path of the method that releases a reader and says how far it came.
pub const END_READER_PATH: &str = "/rondo.v1.Splits/EndReader";

const NAME: &str = "HoldSplitsRequest";

/// Decodes `HoldSplitsRequest`.
///
/// # Errors
/// INVALID_ARGUMENT with the field and its value, RESOURCE_EXHAUSTED for a request that is too long.
pub fn decode_hold(bytes: &Bytes) -> Result<HoldSplits, Status> {
    if bytes.len() > REQUEST_BYTES_MAX {
        let length = bytes.len();
        let text =
            format!("{NAME} is {length} bytes long; at most {REQUEST_BYTES_MAX} bytes are allowed");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    let request: wire::HoldSplitsRequest = message(NAME, bytes)?;
    let most = format!("at most {SPLITS_PER_CLIENT_MAX} are allowed");
    let hold = usize::try_from(request.hold).unwrap_or(usize::MAX);
    if hold > SPLITS_PER_CLIENT_MAX {
        return Err(field(NAME, "hold").refuse(hold, most));
    }
    let count = request.progress.len();
    if count > SPLITS_PER_CLIENT_MAX {
        let found = format!("a list of {count} items");
        return Err(field(NAME, "progress").refuse(found, most));
    }
    let progress = |progress: wire::SplitProgress| SplitProgress {
        place: progress.place,
        records: progress.records,
        finished: progress.finished,
    };
    Ok(HoldSplits {
        client: ClientId::new(request.client_id),
        hold,
        progress: request.progress.into_iter().map(progress).collect(),
        group: group(request.group_index, request.group_size)?,
    })
}

fn group(index: Option<u32>, size: Option<u32>) -> Result<Group, Status> {
    let (index, size) = match (index, size) {
        (None, None) => return Ok(Group::ALL),
        (Some(index), Some(size)) => (index, size),
        (Some(index), None) => {
            let right = "it must come with a group_size";
            return Err(field(NAME, "group_index").refuse(index, right));
        }
        (None, Some(size)) => {
            let right = "it must come with a group_index";
            return Err(field(NAME, "group_size").refuse(size, right));
        }
    };
    if !(1..=GROUP_SIZE_MAX).contains(&size) {
        let right = format!("it must be from 1 to {GROUP_SIZE_MAX}");
        return Err(field(NAME, "group_size").refuse(size, right));
    }
    if index >= size {
        let right = format!("it must be below group_size, which is {size}");
        return Err(field(NAME, "group_index").refuse(index, right));
    }
    Ok(Group { index, size })
}

/// Encodes `HoldSplitsRequest`.
pub fn encode_hold(request: &HoldSplits) -> Bytes {
    let progress = |progress: &SplitProgress| wire::SplitProgress {
        place: progress.place,
        records: progress.records,
        finished: progress.finished,
    };
    let grouped = request.group != Group::ALL;
    let request = wire::HoldSplitsRequest {
        client_id: request.client.get(),
        hold: u32::try_from(request.hold).unwrap_or(u32::MAX),
        progress: request.progress.iter().map(progress).collect(),
        group_index: grouped.then_some(request.group.index),
        group_size: grouped.then_some(request.group.size),
    };
    request.encode_to_vec().into()
}

/// Decodes `EndReaderRequest`: the reader, and the name of its job.
///
/// # Errors
/// INVALID_ARGUMENT with the field and its value.
pub fn decode_end_reader(bytes: &Bytes) -> Result<(ClientId, String), Status> {
    const NAME: &str = "EndReaderRequest";
    let request: wire::EndReaderRequest = message(NAME, bytes)?;
    let length = request.job.len();
    if length == 0 || length > NAME_BYTES_MAX {
        let found = format!("a name of {length} bytes");
        let right = format!("it must have from 1 to {NAME_BYTES_MAX} bytes");
        return Err(field(NAME, "job").refuse(found, right));
    }
    Ok((ClientId::new(request.client_id), request.job))
}

/// Encodes `EndReaderRequest`.
pub fn encode_end_reader(client: ClientId, job: &str) -> Bytes {
    let request = wire::EndReaderRequest { client_id: client.get(), job: job.to_owned() };
    request.encode_to_vec().into()
}

/// Encodes `EndReaderResponse`.
pub(super) fn encode_ended(reader: &DepartedReader) -> Bytes {
    let split = |split: &SavedSplit| wire::SplitRead { place: split.place, records: split.records };
    let response = wire::EndReaderResponse {
        iteration_id: reader.iteration.get(),
        repetition: reader.repetition,
        splits: reader.splits.iter().map(split).collect(),
    };
    response.encode_to_vec().into()
}

/// Decodes `EndReaderResponse`.
///
/// # Errors
/// INVALID_ARGUMENT for bytes that are no such message, for more splits than a client can hold, and
/// for splits that are not in order of place.
pub fn decode_ended(bytes: &Bytes) -> Result<DepartedReader, Status> {
    const NAME: &str = "EndReaderResponse";
    let response: wire::EndReaderResponse = message(NAME, bytes)?;
    let places: Vec<u64> = response.splits.iter().map(|split| split.place).collect();
    check_places(NAME, &places)?;
    let split = |split: wire::SplitRead| SavedSplit { place: split.place, records: split.records };
    Ok(DepartedReader {
        iteration: IterationId::new(response.iteration_id),
        repetition: response.repetition,
        splits: response.splits.into_iter().map(split).collect(),
        left: Lsn::NONE,
    })
}

/// Encodes `HoldSplitsResponse`.
pub(super) fn encode_held(held: &SplitsHeld) -> Bytes {
    let split = |split: &HeldSplit| wire::HeldSplit {
        place: split.place,
        split: split.split,
        records: split.records,
    };
    let splits = held.splits.iter().map(split).collect();
    let (finished, with_workers) = (held.finished, held.with_workers);
    wire::HoldSplitsResponse { splits, finished, with_workers }.encode_to_vec().into()
}

/// Refuses splits of an answer that are more than a client can hold, or not in order of place.
fn check_places(message: &'static str, places: &[u64]) -> Result<(), Status> {
    let splits = field(message, "splits");
    let count = places.len();
    if count > SPLITS_PER_CLIENT_MAX {
        let found = format!("a list of {count} items");
        let right = format!("at most {SPLITS_PER_CLIENT_MAX} are allowed");
        return Err(splits.refuse(found, right));
    }
    let mut pairs = places.iter().zip(places.iter().skip(1));
    match pairs.find(|(place, next)| place >= next) {
        Some((place, next)) => {
            let found = format!("place {place} before place {next}");
            Err(splits.refuse(found, "places must increase"))
        }
        None => Ok(()),
    }
}

/// Decodes `HoldSplitsResponse`, as a reader does.
///
/// # Errors
/// INVALID_ARGUMENT for bytes that are no such message, for more splits than a client can hold, and
/// for splits that are not in order of place.
pub fn decode_held(bytes: &Bytes) -> Result<SplitsHeld, Status> {
    const NAME: &str = "HoldSplitsResponse";
    let response: wire::HoldSplitsResponse = message(NAME, bytes)?;
    let places: Vec<u64> = response.splits.iter().map(|split| split.place).collect();
    check_places(NAME, &places)?;
    let split = |split: wire::HeldSplit| HeldSplit {
        place: split.place,
        split: split.split,
        records: split.records,
    };
    Ok(SplitsHeld {
        splits: response.splits.into_iter().map(split).collect(),
        finished: response.finished,
        with_workers: response.with_workers,
    })
}
