//! Traces: pages of what processes know of their requests.

use rondo_core::exchange::message::AskTraces;
use rondo_core::exchange::{
    Handler, InstanceRank, Leg, Offset, PASSAGES_PER_PAGE_MAX, Page, Passage, TraceNumber, Traces,
};
use rondo_core::status::Status;
use rondo_core::time::Time;

use super::parts::{at_most, present, role, stamps, status, wire_stamps, wire_status};
use crate::admin as wire;
use crate::admin::exchange_traces::Result as Told;
use crate::convert::check::field;

/// Servers of which one process knows the clock: as many as there may be processes.
const CLOCKS_MAX: usize = 1 << 16;

pub(super) fn ask_traces(wire: wire::ExchangeAskTraces) -> Result<AskTraces, Status> {
    Ok(AskTraces {
        number: TraceNumber::new(wire.number),
        role: role(field("ExchangeAskTraces", "role"), wire.role)?,
        rank: InstanceRank::new(wire.rank),
        after: wire.after,
    })
}

pub(super) const fn wire_ask_traces(ask: &AskTraces) -> wire::ExchangeAskTraces {
    wire::ExchangeAskTraces {
        number: ask.number.get(),
        role: ask.role.number(),
        rank: ask.rank.get(),
        after: ask.after,
    }
}

/// A page, as the process itself says it.
pub(super) fn known(wire: wire::ExchangeKnown) -> Result<(TraceNumber, Page), Status> {
    let wire::ExchangeKnown { number, page: said } = wire;
    Ok((TraceNumber::new(number), page(present(field("ExchangeKnown", "page"), said)?)?))
}

/// The same as the scheduler passes it on.
pub(super) fn traces(
    wire: wire::ExchangeTraces,
) -> Result<(TraceNumber, Result<Traces, Status>), Status> {
    let of = field("ExchangeTraces", "result");
    let (asked, back) = (Time::from_nanos(wire.asked), Time::from_nanos(wire.back));
    let result = match present(of, wire.result)? {
        Told::Page(said) => Ok(Traces { asked, back, page: page(said)? }),
        Told::Refused(refused) => Err(status(of, Some(refused))?),
    };
    Ok((TraceNumber::new(wire.number), result))
}

fn page(wire: wire::ExchangePage) -> Result<Page, Status> {
    const NAME: &str = "ExchangePage";
    let passages = at_most(field(NAME, "passages"), wire.passages, PASSAGES_PER_PAGE_MAX)?;
    let passages: Vec<Passage> = passages.into_iter().map(passage).collect::<Result<_, _>>()?;
    let is_within = passages.last().is_none_or(|last| last.number <= wire.last);
    if !is_within || !passages.is_sorted_by(|a, b| a.number < b.number) {
        let right = format_args!("their numbers must ascend, up to last ({})", wire.last);
        return Err(field(NAME, "passages").refuse("not in order", right));
    }
    let clocks = at_most(field(NAME, "clocks"), wire.clocks, CLOCKS_MAX)?;
    let clocks = clocks.into_iter().map(|clock| {
        let offset = Offset { nanos: clock.ahead, error_nanos: clock.error };
        (InstanceRank::new(clock.server), offset)
    });
    Ok(Page {
        received: Time::from_nanos(wire.received),
        answered: Time::from_nanos(wire.answered),
        last: wire.last,
        passages,
        clocks: clocks.collect(),
    })
}

fn passage(wire: wire::ExchangePassage) -> Result<Passage, Status> {
    const NAME: &str = "ExchangePassage";
    let leg = Leg::of_number(wire.leg)
        .ok_or_else(|| field(NAME, "leg").refuse(wire.leg, "it must be 1 (pushes) or 2 (pulls)"))?;
    if wire.handler.checked_add(wire.handlers).is_none() {
        let right = "with handlers it must fit 64 bits";
        return Err(field(NAME, "handler").refuse(wire.handler, right));
    }
    Ok(Passage {
        number: wire.number,
        handler: Handler::new(wire.handler),
        handlers: wire.handlers,
        leg,
        server: InstanceRank::new(wire.server),
        bytes: wire.bytes,
        stamps: stamps(field(NAME, "stamps"), &wire.stamps)?,
    })
}

fn wire_page(page: &Page) -> wire::ExchangePage {
    let passages = page.passages.iter().map(|passage| wire::ExchangePassage {
        number: passage.number,
        handler: passage.handler.get(),
        handlers: passage.handlers,
        leg: passage.leg.number(),
        server: passage.server.get(),
        bytes: passage.bytes,
        stamps: wire_stamps(&passage.stamps),
    });
    let clocks = page.clocks.iter().map(|(server, offset)| wire::ExchangeClock {
        server: server.get(),
        ahead: offset.nanos,
        error: offset.error_nanos,
    });
    wire::ExchangePage {
        received: page.received.as_nanos(),
        answered: page.answered.as_nanos(),
        last: page.last,
        passages: passages.collect(),
        clocks: clocks.collect(),
    }
}

pub(super) fn wire_known(number: TraceNumber, page: &Page) -> wire::ExchangeKnown {
    wire::ExchangeKnown { number: number.get(), page: Some(wire_page(page)) }
}

pub(super) fn wire_traces(
    number: TraceNumber,
    result: &Result<Traces, Status>,
) -> wire::ExchangeTraces {
    let (asked, back, told) = match result {
        Ok(Traces { asked, back, page }) => (*asked, *back, Told::Page(wire_page(page))),
        Err(status) => (Time::ZERO, Time::ZERO, Told::Refused(wire_status(status))),
    };
    let (asked, back) = (asked.as_nanos(), back.as_nanos());
    wire::ExchangeTraces { number: number.get(), asked, back, result: Some(told) }
}
