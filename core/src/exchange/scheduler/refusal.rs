//! Texts of refusals.

use alloc::format;
use alloc::string::String;

use super::links::Standing;
use super::seat::{Peer, Seat};
use crate::exchange::config::Config;
use crate::exchange::ids::{InstanceRank, MembershipVersion};
use crate::exchange::membership::{Membership, Sizes};
use crate::exchange::message::{Register, ToScheduler};
use crate::exchange::role::{Mask, Role};
use crate::status::{Code, Status};
use crate::time::Duration;

/// Of a long list a text names as many.
const NAMED_MAX: usize = 16;

fn invalid(text: String) -> Status {
    Status::new(Code::InvalidArgument, text)
}

/// A process that registers, as it is spoken of.
fn name(register: &Register) -> String {
    let Register { role, rank, incarnation, addresses, host, .. } = register;
    let rank = rank.map_or_else(|| "of any rank".into(), |rank| format!("{rank}"));
    let address = addresses.first().unwrap_or(host);
    format!("{role} {rank} (incarnation {incarnation}, {address:?})")
}

/// Processes, as they are spoken of: the first of them, and how many more there are.
pub(super) fn list(peers: impl Iterator<Item = Peer>) -> String {
    let mut text = String::new();
    let mut more: usize = 0;
    for (count, (role, rank)) in peers.enumerate() {
        if count >= NAMED_MAX {
            more = more.saturating_add(1);
            continue;
        }
        let separator = if count == 0 { "" } else { ", " };
        text.push_str(&format!("{separator}{role} {rank}"));
    }
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// Whether there can be as many processes.
pub(super) fn check_sizes(sizes: Sizes, config: &Config) -> Result<(), Status> {
    let Sizes { workers, servers, group } = sizes;
    if workers == 0 || servers == 0 || group == 0 {
        return Err(invalid(format!(
            "{sizes}: there must be at least one of each (DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_GROUP_SIZE)"
        )));
    }
    let groups = u64::from(workers).saturating_add(u64::from(servers));
    let processes = groups.saturating_mul(u64::from(group));
    let max = config.processes_max;
    if processes <= u64::from(max) {
        return Ok(());
    }
    let text = format!("{sizes} are {processes} processes: there may be {max} (processes_max)");
    Err(Status::new(Code::ResourceExhausted, text))
}

pub(super) fn second_scheduler(register: &Register) -> Status {
    let text = format!("{} wants to register: there is one scheduler, this one", name(register));
    invalid(text)
}

pub(super) fn other_sizes(register: &Register, ours: Sizes, is_set: bool) -> Status {
    let whose = if is_set { "the scheduler was started for" } else { "who came before says" };
    invalid(format!(
        "{} believes in {}; {whose} {ours} (DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_GROUP_SIZE must be the \
         same everywhere)",
        name(register),
        register.sizes
    ))
}

pub(super) fn rank_out_of_range(register: &Register, rank: InstanceRank) -> Status {
    let Register { role, sizes, .. } = register;
    let count = sizes.instances(*role);
    invalid(format!(
        "{} has rank {rank}: with {sizes} the ranks of {role}s are 0 to {} (DMLC_NODE_RANK times \
         DMLC_GROUP_SIZE, plus the index in the group and DMLC_RANK_OFFSET)",
        name(register),
        count.saturating_sub(1)
    ))
}

pub(super) fn too_many_addresses(register: &Register, max: usize) -> Status {
    let count = register.addresses.len();
    invalid(format!("{} has {count} addresses: there may be {max} (addresses_max)", name(register)))
}

pub(super) fn no_address(register: &Register) -> Status {
    invalid(format!("{} has no address: workers must be able to reach it", name(register)))
}

pub(super) fn no_membership(register: &Register, known: &Membership) -> Status {
    invalid(format!(
        "{} knows a membership {} of {} members for {}: it must have each rank once, in order",
        name(register),
        known.version,
        known.members.len(),
        known.sizes
    ))
}

pub(super) fn not_in_membership(register: &Register, known: &Membership) -> Status {
    invalid(format!(
        "{} does not take part in the membership {} that it knows",
        name(register),
        known.version
    ))
}

pub(super) fn is_over(register: &Register, version: MembershipVersion) -> Status {
    let text = format!(
        "{} knows membership {version} of an exchange that is over: it must begin as a new run",
        name(register)
    );
    Status::new(Code::Aborted, text)
}

/// The rank is that of a process that takes part.
pub(super) fn taken(register: &Register, (role, rank): Peer, seat: &Seat) -> Status {
    let text = format!(
        "{} is one too many: {role} {rank} is there, as incarnation {} at {:?}; each rank is of one process",
        name(register),
        seat.incarnation,
        seat.addresses.first().unwrap_or(&seat.host)
    );
    Status::new(Code::AlreadyExists, text)
}

/// The rank is wanted by a process that came before.
pub(super) fn wanted(register: &Register, (role, rank): Peer, first: &Register) -> Status {
    let text = format!(
        "{} is one too many: {} waits to be {role} {rank}; each rank is of one process",
        name(register),
        name(first)
    );
    Status::new(Code::AlreadyExists, text)
}

pub(super) fn no_rank_free(register: &Register) -> Status {
    let Register { role, sizes, .. } = register;
    let count = sizes.instances(*role);
    let text = format!("{} finds no rank: all {count} {role}s are there", name(register));
    Status::new(Code::AlreadyExists, text)
}

pub(super) fn has_left(register: &Register) -> Status {
    let text = format!("{} has left: only a new run may come back", name(register));
    Status::new(Code::FailedPrecondition, text)
}

/// The process was given up before; others have dropped what they had of it.
pub(super) fn given_up(register: &Register, why: &str) -> Status {
    let text = format!(
        "{} was given up: {why}. Others have dropped what they had of it; only a new run may come back",
        name(register)
    );
    Status::new(Code::Aborted, text)
}

/// Processes come back that were told too many different things.
pub(super) fn too_many_views(register: &Register, max: usize) -> Status {
    let text = format!(
        "{} was told of processes that are gone, and those who are back of {max} other selections of them: \
         as many as a scheduler that was restarted tells apart; only a new run may come back",
        name(register)
    );
    Status::new(Code::ResourceExhausted, text)
}

/// The process is given up now.
pub(super) fn silent((role, rank): Peer, why: &str) -> Status {
    let text = format!("{role} {rank} is given up: {why}; only a new run may come back");
    Status::new(Code::Aborted, text)
}

pub(super) fn unnamed(after: Duration) -> Status {
    let text =
        format!("nobody has registered through this connection for {} ms", after.as_millis());
    Status::new(Code::DeadlineExceeded, text)
}

pub(super) fn too_many_connections(max: usize) -> Status {
    let text = format!(
        "{max} connections are open, twice as many as there may be processes (processes_max)"
    );
    Status::new(Code::ResourceExhausted, text)
}

/// Something was said that has no sense for who says it.
pub(super) fn out_of_turn(message: &ToScheduler, standing: Standing) -> Status {
    let what = match message {
        ToScheduler::Register(_) => "Register",
        ToScheduler::Heartbeat { .. } => "Heartbeat",
        ToScheduler::Barrier(_) => "Barrier",
        ToScheduler::Withdraw { .. } => "Withdraw",
        ToScheduler::Leave => "Leave",
        ToScheduler::Observe => "Observe",
        ToScheduler::AskTraces(_) => "AskTraces",
        ToScheduler::Traces { .. } => "Traces",
    };
    let right = match standing {
        Standing::New => "the first message of a connection must be Register or Observe",
        Standing::Parked(_) => "the answer to Register is yet to come",
        Standing::Seated(_) | Standing::Left => "each connection registers once",
        Standing::Observing => "who looks on asks for traces, one question at a time",
    };
    Status::new(Code::FailedPrecondition, format!("{what} came out of turn: {right}"))
}

pub(super) fn too_many_observers(max: usize) -> Status {
    let text = format!("{max} connections only look on, as many as may (observers_max)");
    Status::new(Code::ResourceExhausted, text)
}

pub(super) fn nothing_to_observe(registered: usize, sizes: Option<Sizes>) -> Status {
    let text = match sizes {
        Some(sizes) => format!(
            "nobody takes part yet: {registered} of {} processes have registered ({sizes})",
            sizes.processes()
        ),
        None => "nobody takes part: no process has registered".into(),
    };
    Status::new(Code::FailedPrecondition, text)
}

pub(super) fn no_traces((role, rank): Peer) -> Status {
    let text =
        format!("{role} {rank} has no connection to the scheduler now, to be asked for traces");
    Status::new(Code::Unavailable, text)
}

pub(super) fn too_early() -> Status {
    let text = "there are no barriers before all have registered";
    Status::new(Code::FailedPrecondition, text)
}

/// Not all have registered in time.
pub(super) fn not_all_came(missing: &str, config: &Config) -> Status {
    let timeout = config.bootstrap_timeout.map_or(0, Duration::as_millis);
    let text = format!("not all have come within {timeout} ms (bootstrap_timeout): {missing}");
    Status::new(Code::DeadlineExceeded, text)
}

/// Whether a process may wait at barriers of this mask.
pub(super) fn check_mask(mask: Mask, role: Role) -> Result<(), Status> {
    if mask.contains(role) {
        return Ok(());
    }
    Err(invalid(format!("a {role} waits at a barrier of {mask}: only those of the mask may")))
}

pub(super) fn withdrawn() -> Status {
    Status::new(Code::Cancelled, "the process waits at the barrier no longer")
}

pub(super) fn takes_no_part() -> Status {
    let text = "this scheduler takes no part in barriers: those of its mask do not wait for it";
    Status::new(Code::FailedPrecondition, text)
}

/// The others did not come to a barrier in time.
pub(super) fn not_met(mask: Mask) -> Status {
    let text = format!("not all {mask} came to the barrier in time");
    Status::new(Code::DeadlineExceeded, text)
}
