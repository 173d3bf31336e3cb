//! A relay answers each call at most once, forgets none, and blames the server only when it was away;
//! what must not happen twice bears one mark for ever; a heartbeat in a gap is answered, of nobody else
//! than whom the server knows; the server is told of each call that waits there for nobody any more.

mod held;
mod room;
mod seats;

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::ids::{CallId, RelayId};
use rondo_core::relay::{
    Answer, Asked, Config, Effect, Event, Forwarding, Input, Kind, Refused, Relay, Wake,
};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use self::held::Held;
use self::seats::Seats;
use super::{Oracle, Relayed, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

/// A server that was reached and has answered nothing since counts as back after this long.
const TRIAL: Duration = Duration::from_secs(10);

/// A mark: a count, and the number in it.
type Number = (RelayId, u64);

/// A relay's process as it is known from outside.
#[derive(Debug)]
struct Process {
    config: Config,
    held: BTreeMap<CallId, Held>,
    numbers: BTreeSet<Number>,
    seats: Seats,
    is_up: bool,
    /// Whether the connection broke in this step: its end counts from then, however long the server was
    /// silent on it.
    broke: bool,
    /// When the connection there is was made.
    up_since: Time,
    /// Since when there is no connection, those left out that brought no answer and broke soon.
    down_since: Time,
    /// When the server last answered anything.
    heard: Time,
    /// Whether clients were told in this outage that it is away.
    told: bool,
    /// How often the server was too slow since then, when it was back.
    trials: u32,
    /// The call that this step's input answers.
    answered: Option<CallId>,
    /// Calls from here on came when the relay was to end.
    stopping: Option<CallId>,
    /// The call that this step's input brings.
    came: Option<CallId>,
    /// Whether it found one of the relay's bounds reached.
    came_full: bool,
    /// Its last step.
    stepped: Time,
    /// When its process stood still, from the step before on.
    pauses: Vec<(Time, Time)>,
}

/// The relay's own refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// It ends.
    Stopping,
    /// Its server is away.
    Away,
    /// One of its bounds is reached.
    Full,
}

impl Own {
    /// Which one a refusal is, by its code and by the whole of its text or its fixed beginning.
    fn of(refused: &Refused) -> Option<Self> {
        let begins = |text: &str| refused.details.is_empty() && refused.message.starts_with(text);
        match refused.code {
            Code::Unavailable if refused.message == "Rondo's relay is shutting down" => {
                Some(Self::Stopping)
            }
            Code::Unavailable if begins("Rondo's relay cannot reach its server ") => {
                Some(Self::Away)
            }
            Code::ResourceExhausted if begins("Rondo's relay keeps at most ") => Some(Self::Full),
            _ => None,
        }
    }
}

#[derive(Default)]
pub(super) struct Relays {
    processes: BTreeMap<u32, Process>,
}

impl Oracle for Relays {
    fn name(&self) -> &'static str {
        "relay"
    }

    fn outlives_disk(&self) -> bool {
        true
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Relay]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        let Seen::Relay { relay, at, what } = seen else {
            return Ok(());
        };
        match what {
            Relayed::Began(config) => {
                self.processes.insert(*relay, Process::new((*config).clone(), *at));
                return Ok(());
            }
            Relayed::Died => {
                self.processes.remove(relay);
                return Ok(());
            }
            _ => {}
        }
        let Some(process) = self.processes.get_mut(relay) else {
            return Ok(());
        };
        let verdict = match what {
            Relayed::Took(input) => {
                process.took(*at, input);
                Ok(())
            }
            Relayed::Did(effect) => process.did(*at, effect),
            Relayed::Looked(of) => process.looked(*at, of),
            Relayed::Quiet(of) => quiet(of),
            Relayed::Resumed => {
                process.pauses.push((process.stepped, *at));
                Ok(())
            }
            Relayed::Began(_) | Relayed::Paused | Relayed::Died => Ok(()),
        };
        verdict.map_err(|text| format!("relay {relay}: {text}"))
    }
}

/// Long after all clients have gone nothing is left of them.
fn quiet(relay: &Relay) -> Verdict {
    reached(Check::RelayQuiet);
    match relay.calls_under_way() {
        0 => Ok(()),
        left => Err(format!("{left} calls are under way long after everybody has gone")),
    }
}

impl Held {
    /// When it was sent on the connection made at `up_since`, if it is to be answered promptly.
    fn asked_since(&self, up_since: Time) -> Option<Time> {
        let prompt = matches!(self.kind, Kind::Heartbeat(_) | Kind::Once { waits: false });
        self.sent_at.filter(|sent| prompt && *sent >= up_since)
    }
}

impl Process {
    const fn new(config: Config, now: Time) -> Self {
        Self {
            config,
            held: BTreeMap::new(),
            numbers: BTreeSet::new(),
            seats: Seats::new(),
            is_up: false,
            broke: false,
            up_since: now,
            down_since: now,
            heard: now,
            told: false,
            trials: 0,
            answered: None,
            stopping: None,
            came: None,
            came_full: false,
            stepped: now,
            pauses: Vec::new(),
        }
    }

    /// How long the relay could not look for the server since then: it stood still from its last step on.
    fn paused_since(&self, since: Time) -> Duration {
        self.pauses.iter().map(|(begin, end)| end.since((*begin).max(since))).sum()
    }

    fn took(&mut self, at: Time, input: &Input) {
        (self.answered, self.came) = (None, None);
        self.stepped = at;
        self.broke = matches!(input, Input::Failed { .. });
        match input {
            Input::Asked { call, asked, .. } => self.asked(*call, asked),
            Input::Cancel { call } => {
                if let Some(held) = self.held.get_mut(call) {
                    held.waits = false;
                }
            }
            Input::Closed { client } => self.seats.closed(*client),
            Input::Answered { call, result, life } => {
                (self.heard, self.answered) = (at, Some(*call));
                (self.told, self.trials) = (false, 0);
                if let Some(held) = self.held.get(call) {
                    let from = (held.client, held.identity.1);
                    self.seats.heard(at, from, &held.kind, result, *life);
                }
            }
            Input::Reached { .. } => (self.is_up, self.up_since) = (true, at),
            Input::Stop => {
                let last = self.held.last_key_value().map_or(0, |(call, _)| call.get());
                self.stopping = Some(CallId::new(last.saturating_add(1)));
            }
            Input::Failed { call, .. } => self.is_with_nobody(*call),
            Input::Unreachable { .. } | Input::Tick => {}
        }
    }

    fn asked(&mut self, call: CallId, asked: &Asked) {
        self.seats.came(asked.client, &asked.kind);
        let held = Held {
            kind: asked.kind.clone(),
            client: asked.client,
            identity: self.seats.identity(asked.client),
            waits: true,
            stood_in: false,
            number: None,
            refused: false,
            sent_at: None,
            is_with_server: false,
            bytes: asked.message.len() as u64,
        };
        self.held.insert(call, held);
        self.came = Some(call);
        self.came_full = self.is_full(call);
    }

    fn did(&mut self, at: Time, effect: &Effect) -> Verdict {
        match effect {
            Effect::Forward { call, forwarding, .. } => self.forwarded(at, *call, forwarding),
            Effect::Reply { call, result } => self.replied(at, *call, result),
            Effect::Abandon { .. } => {
                self.abandoned(at);
                Ok(())
            }
            Effect::Observe(Event::GaveUp { .. }) => {
                self.told = true;
                Ok(())
            }
            Effect::Withdraw { call } => {
                self.is_with_nobody(*call);
                Ok(())
            }
            Effect::Reach { .. } | Effect::Observe(_) => Ok(()),
        }
    }

    fn is_with_nobody(&mut self, call: CallId) {
        if let Some(held) = self.held.get_mut(&call) {
            held.is_with_server = false;
        }
    }

    /// The connection is given up: it broke, or the server has answered nothing on it for too long.
    fn abandoned(&mut self, at: Time) {
        self.is_up = false;
        self.held.values_mut().for_each(|held| held.is_with_server = false);
        let patience = self.config.patience;
        let trials = (0..self.trials).fold(TRIAL, |trial, _| trial.plus(trial));
        let up = at.since(self.up_since);
        let patience = if self.told { patience.min(trials) } else { patience };
        let up_since = self.up_since;
        let asked = self.held.values().filter_map(|held| held.asked_since(up_since)).min();
        let silent_since = asked.map(|since| since.max(self.heard));
        match silent_since.filter(|since| !self.broke && at.since(*since) >= patience) {
            Some(_) if self.told => self.trials = self.trials.saturating_add(1),
            Some(since) => self.down_since = since,
            // A server that owes an answer has not shown that it is back.
            None if self.heard >= self.up_since || asked.is_none() && up >= trials => {
                (self.down_since, self.told, self.trials) = (at, false, 0);
            }
            None => {}
        }
    }

    fn forwarded(&mut self, at: Time, call: CallId, sent: &Forwarding) -> Verdict {
        let stamp = sent.stamp;
        let number = stamp.map(|stamp| (stamp.relay, stamp.sequence));
        let Some(held) = self.held.get_mut(&call) else {
            return Err(format!("call {call} is sent, and nobody has made it"));
        };
        (held.sent_at, held.is_with_server) = (Some(at), true);
        reached(Check::RelayForwarded);
        if is_marked(&held.kind) != number.is_some() {
            return Err(format!("call {call} ({:?}) is sent with the mark {number:?}", held.kind));
        }
        let identity = (sent.task, sent.incarnation, sent.life);
        if held.identity != identity {
            return Err(format!(
                "call {call} is sent as of the task, process and life {identity:?}; its connection is \
                 that of {:?}",
                held.identity
            ));
        }
        match (held.number, number) {
            (before @ Some(_), now) if before != now => {
                return Err(format!("call {call} bore the mark {before:?} and now bears {now:?}"));
            }
            (None, Some(number)) if !self.numbers.insert(number) => {
                return Err(format!("call {call} bears the mark {number:?} of another one"));
            }
            _ => held.number = number,
        }
        let open = self.held.iter().filter_map(|(call, held)| Some((call, held.number?)));
        let told = |number: &Number| {
            stamp.is_some_and(|stamp| stamp.relay == number.0 && number.1 <= stamp.acknowledged)
        };
        match open.into_iter().find(|(_, number)| told(number)) {
            None => Ok(()),
            Some((open, number)) => Err(format!(
                "with call {call} the relay says that it has the result of {number:?}, and call \
                 {open} waits for it"
            )),
        }
    }

    fn replied(&mut self, at: Time, call: CallId, result: &Result<Answer, Refused>) -> Verdict {
        let (is_up, heard) = (self.is_up, self.heard);
        let of_server = self.answered == Some(call);
        let is_full = self.came == Some(call) && self.came_full;
        let Some(held) = self.held.get_mut(&call).filter(|held| held.waits) else {
            return Err(format!("call {call} gets {result:?}, and nobody waits for it"));
        };
        (held.waits, held.refused) = (false, result.is_err());
        let own = result.as_ref().err().filter(|_| !of_server).map(Own::of);
        if self.came == Some(call) && matches!(own, Some(Some(Own::Full | Own::Stopping))) {
            self.seats.refused(held.client, &held.kind);
        }
        match (result, &held.kind) {
            (Ok(Answer::Heartbeat(life)), Kind::Heartbeat(who)) => {
                held.stood_in = true;
                reached(Check::RelayStoodIn);
                match self.seats.known(who).map(|(life, _)| life) {
                    Some(known) if known == *life => Ok(()),
                    known => Err(format!(
                        "the heartbeat {call} of {who:?} is answered with life {life}; known is \
                         {known:?}"
                    )),
                }
            }
            (Ok(Answer::Heartbeat(_)), kind) => {
                Err(format!("call {call} ({kind:?}) is answered as a heartbeat"))
            }
            (Err(_), _) if own == Some(Some(Own::Away)) => {
                let silent = at.since(heard);
                reached(Check::RelayBlamed);
                match is_up || silent < self.config.patience {
                    true => Err(format!(
                        "call {call} is told that the server is away; is there a connection: \
                         {is_up}; its last answer came {} ms ago",
                        silent.as_millis()
                    )),
                    false => Ok(()),
                }
            }
            (Err(refused), kind) if own == Some(Some(Own::Stopping)) => {
                let may = self.stopping.is_some_and(|first| call >= first || !is_once(kind));
                match may {
                    true => Ok(()),
                    false => Err(format!("call {call} ({kind:?}) is not let end: {refused:?}")),
                }
            }
            (Err(refused), _) if own == Some(Some(Own::Full)) => {
                reached(Check::RelayFull);
                match is_full {
                    true => Ok(()),
                    false => Err(format!("call {call} is refused, and there is room: {refused:?}")),
                }
            }
            (Err(refused), _) if own == Some(None) => {
                Err(format!("call {call} is told of the way to the server: {refused:?}"))
            }
            _ => Ok(()),
        }
    }

    fn looked(&mut self, at: Time, relay: &Relay) -> Verdict {
        reached(Check::RelayLooked);
        let is_lost = |(call, held): &(&CallId, &Held)| {
            relay.kind_of(**call).is_none()
                && (held.waits || (self.must_go_on(at, held) && self.answered != Some(**call)))
        };
        if let Some((call, held)) = self.held.iter().find(is_lost) {
            return Err(format!("call {call} is lost: {held:?}"));
        }
        self.is_told(relay)?;
        self.is_refused_if_full()?;
        self.held.retain(|call, _| relay.kind_of(*call).is_some());
        if relay.calls_under_way() != self.held.len() {
            let (has, made) = (relay.calls_under_way(), self.held.len());
            return Err(format!("{has} calls are under way, and {made} were made"));
        }
        let needless = |held: &&Held| !held.waits && !held.stood_in && !is_once(&held.kind);
        if let Some(held) = self.held.values().find(needless) {
            return Err(format!("{:?} is kept, and nobody waits for it", held.kind));
        }
        // With more to do at once, what is due may be done in the next step.
        match relay.deadline() {
            Some((_, Wake::Work)) => Ok(()),
            _ => self.in_time(at),
        }
    }

    /// The server is told of each call that the relay has let go and that waits there.
    fn is_told(&self, relay: &Relay) -> Verdict {
        reached(Check::RelayWithdrew);
        let waits = |(call, held): &(&CallId, &Held)| {
            let is_over = relay.kind_of(**call).is_none() && self.answered != Some(**call);
            is_over && held.is_with_server
        };
        match self.held.iter().find(waits) {
            Some((call, held)) => {
                Err(format!("call {call} is let go, and waits at the server: {held:?}"))
            }
            None => Ok(()),
        }
    }

    /// Whether a call that nobody waits for has to come to its end.
    fn must_go_on(&self, at: Time, held: &Held) -> bool {
        let given_up = !self.is_up && at.since(self.down_since) >= self.config.patience;
        is_once(&held.kind) && !held.refused && !given_up
    }

    /// What was due by now has been done.
    fn in_time(&self, at: Time) -> Verdict {
        let (away, paused) = (at.since(self.down_since), self.paused_since(self.down_since));
        if !self.is_up && away > self.config.patience.plus(paused) && !self.held.is_empty() {
            let away_ms = away.as_millis();
            return Err(format!("calls wait for a server that is away for {away_ms} ms"));
        }
        let waiting = self.held.iter().filter(|(_, held)| held.waits);
        for (call, held) in waiting {
            if self.stopping.is_some() && !is_once(&held.kind) {
                return Err(format!("call {call} ({:?}) waits, and the relay ends", held.kind));
            }
            let Kind::Heartbeat(who) = &held.kind else {
                continue;
            };
            let Some((_, since)) = self.seats.known(who) else {
                continue;
            };
            let late = held.sent_at.is_some_and(|sent| {
                since <= sent && at > sent.after(self.config.heartbeat_patience)
            });
            if !self.is_up || late {
                return Err(format!("the heartbeat {call} of {who:?} waits in a gap"));
            }
        }
        Ok(())
    }
}

const fn is_once(kind: &Kind) -> bool {
    matches!(kind, Kind::Once { .. } | Kind::Shutdown(_))
}

/// Whether its answer must not be given twice.
const fn is_marked(kind: &Kind) -> bool {
    matches!(kind, Kind::Alive) || is_once(kind)
}
