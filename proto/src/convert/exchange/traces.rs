//! Traces: pages of what processes know of their requests.

use rondo_core::exchange::message::AskTraces;
use rondo_core::exchange::{
    Handler, InstanceRank, Leg, Offset, PASSAGES_PER_PAGE_MAX, Page, Passage, TraceNumber, Traces,
};
use rondo_core::status::Status;
use rondo_core::time::Time;

use super::parts::{at_most, role, stamps, status, wire_stamps, wire_status};
use crate::admin as wire;
use crate::convert::check::field;

const NAME: &str = "ExchangeTraces";
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
pub(super) fn page(wire: wire::ExchangeTraces) -> Result<(TraceNumber, Page), Status> {
    for (name, value) in [("asked", wire.asked), ("back", wire.back)] {
        if value != 0 {
            return Err(field(NAME, name).refuse(value, "a process does not know: it must be 0"));
        }
    }
    match wire.refused {
        Some(_) => Err(field(NAME, "refused").refuse("there", "only the scheduler refuses")),
        None => Ok((TraceNumber::new(wire.number), content(wire)?)),
    }
}

/// The same as the scheduler passes it on.
pub(super) fn traces(
    wire: wire::ExchangeTraces,
) -> Result<(TraceNumber, Result<Traces, Status>), Status> {
    let number = TraceNumber::new(wire.number);
    let (asked, back) = (Time::from_nanos(wire.asked), Time::from_nanos(wire.back));
    let result = match wire.refused.clone() {
        Some(refused) => {
            let nothing = wire::ExchangeTraces { number: wire.number, ..Default::default() };
            if (wire::ExchangeTraces { refused: None, ..wire }) != nothing {
                let right = "with it there must be nothing but the number";
                return Err(field(NAME, "refused").refuse("there", right));
            }
            Err(status(field(NAME, "refused"), Some(refused))?)
        }
        None => Ok(Traces { asked, back, page: content(wire)? }),
    };
    Ok((number, result))
}

fn content(wire: wire::ExchangeTraces) -> Result<Page, Status> {
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

pub(super) fn wire_page(number: TraceNumber, page: &Page) -> wire::ExchangeTraces {
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
    wire::ExchangeTraces {
        number: number.get(),
        received: page.received.as_nanos(),
        answered: page.answered.as_nanos(),
        last: page.last,
        passages: passages.collect(),
        clocks: clocks.collect(),
        ..Default::default()
    }
}

pub(super) fn wire_traces(
    number: TraceNumber,
    result: &Result<Traces, Status>,
) -> wire::ExchangeTraces {
    match result {
        Ok(Traces { asked, back, page }) => wire::ExchangeTraces {
            asked: asked.as_nanos(),
            back: back.as_nanos(),
            ..wire_page(number, page)
        },
        Err(status) => wire::ExchangeTraces {
            number: number.get(),
            refused: Some(wire_status(status)),
            ..Default::default()
        },
    }
}
