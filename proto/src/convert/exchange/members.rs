//! Memberships.

use std::sync::Arc;

use rondo_core::exchange::membership::{Member, Membership, State};
use rondo_core::exchange::{InstanceRank, MembershipVersion};
use rondo_core::ids::Incarnation;
use rondo_core::status::Status;

use super::parts::{addresses, present, role, sizes, wire_addresses, wire_sizes};
use crate::admin as wire;
use crate::convert::check::{Field, field};

pub(super) fn membership(
    of: Field,
    wire: Option<wire::ExchangeMembership>,
) -> Result<Arc<Membership>, Status> {
    const NAME: &str = "ExchangeMembership";
    let wire = present(of, wire)?;
    let members = field(NAME, "members").items(wire.members)?;
    let membership = Membership {
        version: MembershipVersion::new(wire.version),
        sizes: sizes(field(NAME, "sizes"), wire.sizes)?,
        members: members.into_iter().map(member).collect::<Result<_, _>>()?,
    };
    if membership.is_ordered() {
        return Ok(Arc::new(membership));
    }
    let found = format_args!("a list of {} items", membership.members.len());
    let right = format_args!(
        "they must be ordered by role and rank, each rank once and within {}",
        membership.sizes
    );
    Err(field(NAME, "members").refuse(found, right))
}

fn member(wire: wire::ExchangeMember) -> Result<Member, Status> {
    const NAME: &str = "ExchangeMember";
    let state = State::of_number(wire.state).ok_or_else(|| {
        let right = "it must be 1 (up), 2 (left) or 3 (lost)";
        field(NAME, "state").refuse(wire.state, right)
    })?;
    Ok(Member {
        role: role(field(NAME, "role"), wire.role)?,
        rank: InstanceRank::new(wire.rank),
        incarnation: Incarnation::new(wire.incarnation),
        addresses: addresses(field(NAME, "addresses"), wire.addresses)?,
        host: field(NAME, "host").name(wire.host)?.into(),
        state,
    })
}

pub(super) fn wire_membership(membership: &Membership) -> wire::ExchangeMembership {
    let members = membership.members.iter().map(|member| wire::ExchangeMember {
        role: member.role.number(),
        rank: member.rank.get(),
        incarnation: member.incarnation.get(),
        addresses: wire_addresses(&member.addresses),
        host: member.host.as_ref().to_owned(),
        state: member.state.number(),
    });
    wire::ExchangeMembership {
        version: membership.version.get(),
        sizes: Some(wire_sizes(membership.sizes)),
        members: members.collect(),
    }
}
