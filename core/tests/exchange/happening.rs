//! What can happen to workers, servers, and the ways between them.

use rondo_core::exchange::Role;
use rondo_core::exchange::server::Partial;

use crate::net::{Net, Setup};

/// Something that happens. What is counted is counted round among what there is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    Ask {
        worker: u8,
        pushes: u8,
        pulls: u8,
        sizes: u8,
    },
    Wait {
        worker: u8,
        request: u8,
        timeout: u8,
    },
    Abandon {
        worker: u8,
        request: u8,
    },
    CancelWait {
        worker: u8,
    },
    GetBatch {
        server: u8,
        how: u8,
        timeout: u8,
    },
    Respond {
        server: u8,
        unit: u8,
    },
    Release {
        server: u8,
        unit: u8,
    },
    Register {
        server: u8,
        worker: u8,
        sizes: u8,
    },
    Deliver {
        nth: u8,
        times: u8,
    },
    /// A message about requests arrives once more.
    Again {
        nth: u8,
        which: u8,
    },
    Connect,
    News {
        process: u8,
    },
    Break {
        nth: u8,
        arrive: u8,
    },
    Cut {
        pair: u8,
        is_cut: bool,
    },
    Crash {
        process: u8,
    },
    Gone {
        process: u8,
        has_left: bool,
    },
    Return {
        process: u8,
    },
    Pass {
        millis: u64,
    },
}

/// How long nothing else happens, in milliseconds.
pub(crate) const WAITS_MS: [u64; 7] = [0, 1, 15, 150, 700, 2_500, 12_000];
/// How long calls wait, in milliseconds.
const TIMEOUTS_MS: [Option<u64>; 6] = [None, None, None, Some(0), Some(100), Some(3_000)];

/// Lives through a history to a good end.
pub(crate) fn live(setup: Setup, history: &[Happening]) {
    let mut net = Net::new(setup);
    for happening in history {
        happen(&mut net, *happening);
    }
    net.calm_down();
}

fn happen(net: &mut Net, happening: Happening) {
    let worker = |of: u8| usize::from(of) % net.setup.workers;
    let server = |of: u8| usize::from(of) % net.setup.servers;
    let timeout = |of: u8| TIMEOUTS_MS[usize::from(of) % TIMEOUTS_MS.len()];
    match happening {
        Happening::Ask { worker: of, pushes, pulls, sizes } => {
            net.ask(worker(of), pushes, pulls, sizes);
        }
        Happening::Wait { worker: of, request, timeout: how } => {
            net.wait(worker(of), usize::from(request), timeout(how));
        }
        Happening::Abandon { worker: of, request } => net.abandon(worker(of), request.into()),
        Happening::CancelWait { worker: of } => net.cancel(worker(of)),
        Happening::GetBatch { server: of, how, timeout: long } => {
            let partials = [Partial::Never, Partial::UpMembersOnly, Partial::AtDeadline];
            net.get_batch(server(of), partials[usize::from(how) % 3], timeout(long));
        }
        Happening::Respond { server: of, unit } => net.respond(server(of), unit.into()),
        Happening::Release { server: of, unit } => net.release(server(of), unit.into()),
        Happening::Register { server: of, worker: whose, sizes } => {
            net.register(server(of), worker(whose), sizes);
        }
        Happening::Deliver { nth, times } => {
            for _ in 0..times % 8 {
                net.deliver(nth.into());
            }
        }
        Happening::Again { nth, which } => net.repeat(nth.into(), which.into()),
        Happening::Connect => net.connect(),
        Happening::News { process } => net.hear_news(process.into()),
        Happening::Break { nth, arrive } => net.break_one(nth.into(), arrive.into()),
        Happening::Pass { millis } => net.pass(millis),
        other => go_wrong(net, other),
    }
}

fn go_wrong(net: &mut Net, happening: Happening) {
    let process = |of: u8| {
        let of = usize::from(of) % (net.setup.workers + net.setup.servers);
        match of.checked_sub(net.setup.workers) {
            None => (Role::Worker, of),
            Some(server) => (Role::Server, server),
        }
    };
    match happening {
        Happening::Cut { pair, is_cut } => {
            let (worker, server) = (usize::from(pair) % 16, usize::from(pair) / 16);
            net.cut(worker % net.setup.workers, server % net.setup.servers, is_cut);
        }
        Happening::Crash { process: of } => {
            let (role, nth) = process(of);
            net.crash(role, nth);
        }
        Happening::Gone { process: of, has_left } => {
            let (role, nth) = process(of);
            net.declare_gone(role, nth, has_left);
        }
        Happening::Return { process: of } => {
            let (role, nth) = process(of);
            net.come_back(role, nth);
        }
        _ => {}
    }
}
