//! The actors on their machines: what happens to them comes from the simulated network and their
//! clocks, and what they do goes there.

use std::collections::BTreeMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rondo::clock::Clock;
use rondo::transport::{
    BoxFuture, Call, Connection, ServerConfig, Service, listener, serve as serve_calls,
};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;
use rondo_proto::convert::PROCESS_TASK_PATH;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use super::decode::pushed;
use super::read::{READ_PATH, decode_read, encode_answer};
use super::world::World;
use crate::fault::Fault;
use crate::mark::Tally;
use crate::oracle::{Caller, Seen};
use crate::rng::{Source, Stream};
use crate::swarm::Swarm;
use crate::trace::LineKind;
use crate::workload::dispatcher::cast;
use crate::workload::known::Known;
use crate::workload::{Act, Actor, ActorId, Happening, ReadAnswer, Role, With};

/// The longest sleep, so that a far wish cannot overflow a timer.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// All actors.
pub(super) struct Cast {
    players: Vec<Player>,
    known: Known,
    /// Things have stopped going wrong.
    calm: bool,
}

/// An actor on its machine.
pub(super) struct Player {
    actor: Box<dyn Actor + Send>,
    stream: Stream,
    /// Decides what goes wrong on its way to the others.
    pub(super) way: Stream,
    clock: Option<Clock>,
    /// What its next process is told: nothing the first time.
    rebirth: Option<bool>,
    begun: bool,
    up: bool,
    /// Down for ever.
    pub(super) gone: bool,
    /// Its own time when everything healed.
    pub(super) healed_at: Time,
    /// Its wish to be woken may have changed.
    changed: Arc<Notify>,
    /// Connections by address.
    pub(super) connections: BTreeMap<String, Connection>,
    /// Calls to the dispatcher under way, by the actor's token.
    pub(super) calls: BTreeMap<u64, (u64, AbortHandle)>,
    /// Consumers that wait for this worker's answer.
    asked: BTreeMap<(ActorId, u64), oneshot::Sender<ReadAnswer>>,
}

impl Cast {
    /// All actors of a run, none of them begun.
    pub(super) fn new(swarm: &Swarm, source: &Source) -> Self {
        let player = |(number, actor)| Player {
            actor,
            stream: source.stream("actor", number),
            way: source.stream("way", number),
            clock: None,
            rebirth: None,
            begun: false,
            up: false,
            gone: false,
            healed_at: Time::ZERO,
            changed: Arc::new(Notify::new()),
            connections: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
        };
        let players = (0..).zip(cast(swarm)).map(player).collect();
        Self { players, known: Known::default(), calm: false }
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.players.len()
    }

    /// An actor's player.
    pub(super) fn player(&mut self, id: ActorId) -> Option<&mut Player> {
        self.players.get_mut(usize::try_from(id.0).ok()?)
    }

    /// The host's name by which others reach an actor.
    pub(super) fn host(&mut self, id: ActorId) -> Option<String> {
        let address = self.player(id)?.actor.address()?;
        Some(address.rsplit_once(':')?.0.to_owned())
    }

    /// Things stop going wrong.
    pub(super) const fn calm_down(&mut self) {
        self.calm = true;
    }

    /// Whether they have.
    pub(super) const fn is_calm(&self) -> bool {
        self.calm
    }

    /// All of them.
    pub(super) fn players(&mut self) -> impl Iterator<Item = (ActorId, &mut Player)> {
        let ids = (0..).map(ActorId);
        ids.zip(&mut self.players)
    }

    /// What happens to an actor, and what it does then.
    fn happen(
        &mut self,
        id: ActorId,
        what: Happening,
        swarm: &Swarm,
        tally: &mut Tally,
    ) -> Vec<Act> {
        let mut acts = Vec::new();
        let Self { players, known, calm } = self;
        let index = usize::try_from(id.0).unwrap_or(usize::MAX);
        let Some(player) = players.get_mut(index).filter(|player| player.up) else {
            return acts;
        };
        let now = player.now();
        if let Happening::Answered { answer: Ok(reply), .. } = &what {
            known.learn(reply);
        }
        let mut with =
            With { swarm, stream: &mut player.stream, known, tally, acts: &mut acts, calm: *calm };
        player.actor.happen(now, what, &mut with);
        player.changed.notify_one();
        acts
    }
}

impl Player {
    /// Its own clock's time.
    pub(super) fn now(&self) -> Time {
        self.clock.as_ref().map_or(Time::ZERO, Clock::now)
    }

    /// What it is.
    pub(super) fn role(&self) -> Role {
        self.actor.role()
    }

    /// When it last got on.
    pub(super) fn got_on_at(&self) -> Time {
        self.actor.got_on_at()
    }

    /// What it waits for.
    pub(super) fn state(&self) -> String {
        self.actor.state()
    }

    /// Where others reach it.
    pub(super) fn address(&self) -> Option<Arc<str>> {
        self.actor.address()
    }

    /// Its process is gone, and all that it had under way.
    pub(super) fn die(&mut self, fresh: bool) {
        self.up = false;
        self.rebirth = Some(fresh);
        self.connections.clear();
        self.calls.clear();
        self.asked.clear();
    }
}

impl World {
    /// Lets something happen to an actor, on its own machine.
    pub(super) fn happen(self: &Arc<Self>, id: ActorId, what: Happening) {
        let acts = {
            let mut cast = self.cast();
            let mut pages = self.book.pages();
            cast.happen(id, what, &self.swarm, &mut pages.tally)
        };
        for act in acts {
            self.perform(id, act);
        }
    }

    fn perform(self: &Arc<Self>, id: ActorId, act: Act) {
        match act {
            Act::Call { token, request } => self.call(id, token, request),
            // In this world nobody asks the coordination service, reads by split, or uses Rondo's own
            // readers and workers.
            Act::Coordinate { .. } | Act::End | Act::Delivered(_) | Act::ReadEnded { .. } => {}
            Act::Reads(..) => {}
            Act::Fetch { .. } | Act::Withdraw { .. } | Act::Serve { .. } => {}
            Act::Agent(_) | Act::Elements(_) | Act::Violated(_) => {}
            Act::GiveUp { token } => {
                let call = self.cast().player(id).and_then(|player| player.calls.remove(&token));
                if let Some((tag, call)) = call {
                    self.book.over(tag);
                    call.abort();
                }
            }
            Act::Ask { address, token, read } => self.ask(id, &address, token, read),
            Act::Tell { to, token, answer } => {
                let mut cast = self.cast();
                let asked = cast.player(id).and_then(|player| player.asked.remove(&(to, token)));
                if let Some(asked) = asked {
                    // Whoever asked may have gone meanwhile.
                    let _ = asked.send(answer);
                }
            }
            Act::RoundRead { iteration, consumer, round, tasks } => {
                let value = round.cast_unsigned();
                self.book.note(id.0.saturating_add(1), LineKind::Note, value, || {
                    format!("read round {round} of iteration {iteration}: {tasks:?}")
                });
                let tasks = tasks.as_slice();
                let seen = Seen::RoundRead { actor: id.0, iteration, consumer, round, tasks };
                self.book.see(&seen);
            }
        }
    }

    /// Who a call of this actor comes from.
    pub(super) fn caller(&self, id: ActorId) -> Caller {
        let role = self.cast().player(id).map(|player| player.role());
        Caller {
            actor: id.0,
            life: 0,
            honest: role != Some(Role::Rogue),
            stale: false,
            relay: None,
        }
    }

    /// Begins a process of an actor.
    pub(super) fn start_actor(&self, id: ActorId) {
        let starts = self.cast().player(id).is_some_and(|player| !player.up && !player.gone);
        if starts {
            self.start_node(super::world::Machine::Of(id));
        }
    }

    /// Ends an actor's process where it stands; at another address it comes back with `fresh`.
    pub(super) fn kill_actor(&self, id: ActorId, fresh: bool) -> bool {
        {
            let mut cast = self.cast();
            let Some(player) = cast.player(id).filter(|player| player.up) else {
                return false;
            };
            for (tag, _) in player.calls.values() {
                self.book.over(*tag);
            }
            player.die(fresh);
        }
        self.kill_node(super::world::Machine::Of(id));
        true
    }
}

/// One process of an actor.
pub(super) async fn live(world: Arc<World>, id: ActorId) {
    let Some((happening, address, changed)) = begin(&world, id) else {
        return;
    };
    world.happen(id, happening);
    // Only now is the address known that it goes by in this life.
    let address = world.cast().player(id).and_then(|player| player.actor.address()).or(address);
    if let Some(address) = address {
        tokio::spawn(offer(world.clone(), id, address));
    }
    loop {
        let wait = {
            let mut cast = world.cast();
            let Some(player) = cast.player(id) else {
                return;
            };
            let at = player.actor.wake_at();
            player.clock.as_ref().map_or(SLEEP_MAX, |clock| clock.until(at).min(SLEEP_MAX))
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep(wait) => world.happen(id, Happening::Wake),
            () = changed.notified() => {}
        }
    }
}

/// What a new process is told, where it serves, and how it hears of changes.
fn begin(world: &World, id: ActorId) -> Option<(Happening, Option<Arc<str>>, Arc<Notify>)> {
    let (mut way, clock) = world.cast().player(id).map(|of| (of.way.clone(), of.clock))?;
    let clock = clock.unwrap_or_else(|| {
        let (offset_ms, drift_ppm) = world.skew(&mut way);
        Clock::start_askew(offset_ms.saturating_mul(1_000_000), drift_ppm)
    });
    let mut cast = world.cast();
    let player = cast.player(id)?;
    player.way = way;
    player.clock = Some(clock);
    player.up = true;
    let rebirth = player.rebirth.take().filter(|_| player.begun);
    player.begun = true;
    let happening = match rebirth {
        Some(fresh) => {
            world.book.fault(if fresh { Fault::RestartFresh } else { Fault::RestartSame });
            Happening::Reborn { fresh }
        }
        None => Happening::Wake,
    };
    Some((happening, player.actor.address(), player.changed.clone()))
}

/// Serves a worker's address.
async fn offer(world: Arc<World>, id: ActorId, address: Arc<str>) {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let bound = listener::bind(SocketAddr::from(([0, 0, 0, 0], port.unwrap_or(1)))).await;
    match bound {
        Ok(listener) => {
            let peer = Arc::new(Peer { world, id });
            serve_calls(listener, peer, ServerConfig::default(), pending()).await;
        }
        Err(error) => world.book.broken("world", format!("{address}: {error}")),
    }
}

/// What a worker offers: tasks to process, and elements to read.
struct Peer {
    world: Arc<World>,
    id: ActorId,
}

impl Peer {
    fn process(&self, message: &Bytes) -> Result<Bytes, Status> {
        match pushed(message) {
            Ok(task) => {
                self.world.happen(self.id, Happening::Pushed(task));
                Ok(Bytes::new())
            }
            Err(text) => {
                self.world.book.broken("wire", format!("a task to process: {text}"));
                Err(Status::new(Code::InvalidArgument, text))
            }
        }
    }

    async fn read(&self, message: &Bytes) -> Result<Bytes, Status> {
        let asked = decode_read(message);
        let (from, token, read) =
            asked.ok_or_else(|| Status::new(Code::InvalidArgument, "no read"))?;
        let (answer, answered) = oneshot::channel();
        if let Some(player) = self.world.cast().player(self.id) {
            player.asked.insert((from, token), answer);
        }
        self.world.happen(self.id, Happening::Asked { from, token, read });
        let answer = answered.await;
        answer.map(encode_answer).map_err(|_| Status::new(Code::Unavailable, "not now"))
    }
}

impl Service for Peer {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move {
            match call.path.as_str() {
                PROCESS_TASK_PATH => self.process(&call.message),
                READ_PATH => self.read(&call.message).await,
                path => Err(Status::new(Code::Unimplemented, format!("no method {path}"))),
            }
        })
    }
}
