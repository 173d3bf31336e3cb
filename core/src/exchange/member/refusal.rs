//! Texts of refusals.

use alloc::format;
use alloc::string::String;

use super::types::{Identity, Settings};
use crate::exchange::ids::MembershipVersion;
use crate::exchange::role::{Mask, Role};
use crate::status::{Code, Status};
use crate::time::Duration;

/// What went wrong last, if anything.
fn last(status: Option<&Status>) -> String {
    status.map(|status| format!("; last error: {}", status.message)).unwrap_or_default()
}

/// The scheduler has been away for too long.
pub(super) fn away(away: Duration, patience: Option<Duration>, why: Option<&Status>) -> Status {
    let text = format!(
        "the scheduler cannot be reached: away for {} ms, longer than the {} ms allowed \
         (scheduler_patience){}",
        away.as_millis(),
        patience.map_or(0, Duration::as_millis),
        last(why)
    );
    Status::new(Code::Unavailable, text)
}

/// Not all have registered in time, or not this process.
pub(super) fn not_joined(settings: &Settings, after: Duration, why: Option<&Status>) -> Status {
    let Identity { role, rank, sizes, .. } = &settings.identity;
    let rank = rank.map(|rank| format!(" {rank}")).unwrap_or_default();
    let what = match why {
        Some(_) => "the scheduler was not reached",
        None => "not all of them have come",
    };
    let text = format!(
        "{role}{rank} waited {} ms to take part, with {sizes}: {what}{}",
        after.as_millis(),
        last(why)
    );
    Status::new(Code::DeadlineExceeded, text)
}

pub(super) fn not_met(mask: Mask, after: Duration) -> Status {
    let text = format!("not all {mask} came to the barrier within {} ms", after.as_millis());
    Status::new(Code::DeadlineExceeded, text)
}

pub(super) fn no_change(version: MembershipVersion, after: Duration) -> Status {
    let text = format!("membership {version} did not change within {} ms", after.as_millis());
    Status::new(Code::DeadlineExceeded, text)
}

pub(super) fn not_in_mask(mask: Mask, role: Role) -> Status {
    let text = format!("a {role} waits at a barrier of {mask}: only those of the mask may");
    Status::new(Code::InvalidArgument, text)
}

pub(super) fn too_many_barriers(max: usize) -> Status {
    let text =
        format!("{max} calls wait at barriers already, the most there may be (barriers_max)");
    Status::new(Code::ResourceExhausted, text)
}

/// Nothing was heard of the scheduler.
pub(super) fn silent(timeout: Duration) -> Status {
    let text = format!(
        "nothing was heard of the scheduler for {} ms (heartbeat_timeout)",
        timeout.as_millis()
    );
    Status::new(Code::Unavailable, text)
}
