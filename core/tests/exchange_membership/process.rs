//! A process of the tests: its machine, and what its application has asked for and been told.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::exchange::member::{Identity, Member, Reply, Settings};
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::message::{Failure, Scope};
use rondo_core::exchange::{Config, InstanceRank, Mask, MembershipVersion, Role};
use rondo_core::ids::{CallId, Incarnation};
use rondo_core::status::Status;
use rondo_core::time::Duration;

/// A kind of barrier.
pub(crate) type Kind = (Mask, Scope);
/// A run of a process.
pub(crate) type Run = (Role, InstanceRank, Incarnation);
/// What a call was told.
pub(crate) type Told = Result<Reply, Failure>;

/// Short times, so that much happens in few steps.
pub(crate) fn config() -> Config {
    Config {
        heartbeat_interval: Duration::from_millis(100),
        heartbeat_timeout: Duration::from_millis(1000),
        reconnect_grace: Duration::from_millis(300),
        reconnect_pause_min: Duration::from_millis(10),
        reconnect_pause_max: Duration::from_millis(100),
        barriers_max: 8,
        ..Config::default()
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) role: Role,
    pub(crate) rank: InstanceRank,
    /// `None` while it is dead.
    pub(crate) member: Option<Member>,
    pub(crate) incarnation: Incarnation,
    /// What was asked for and is not answered.
    pub(crate) waiting: BTreeMap<CallId, Option<Kind>>,
    pub(crate) told: BTreeMap<CallId, Told>,
    /// The membership that it was told of last.
    pub(crate) version: MembershipVersion,
    /// Runs that took part when it heard last, and those that are over.
    pub(crate) present: BTreeMap<(Role, InstanceRank), Run>,
    pub(crate) gone: BTreeSet<Run>,
    /// How often each kind of barrier had been passed when it last heard.
    pub(crate) passed: BTreeMap<Kind, u64>,
    /// Whether it has given up a barrier since then.
    pub(crate) gave_up: BTreeMap<Kind, bool>,
    /// Why the scheduler does not let it take part any more.
    pub(crate) over: Option<Status>,
}

impl Process {
    pub(crate) fn new(role: Role, rank: u32) -> Self {
        Self {
            role,
            rank: InstanceRank::new(rank),
            member: None,
            incarnation: Incarnation::new(0),
            waiting: BTreeMap::new(),
            told: BTreeMap::new(),
            version: MembershipVersion::new(0),
            present: BTreeMap::new(),
            gone: BTreeSet::new(),
            passed: BTreeMap::new(),
            gave_up: BTreeMap::new(),
            over: None,
        }
    }

    /// Starts another run of it.
    pub(crate) fn start(&mut self, incarnation: u64, sizes: Sizes, config: Config) {
        let (role, rank) = (self.role, self.rank);
        let identity = Identity {
            role,
            rank: Some(rank),
            incarnation: Incarnation::new(incarnation),
            addresses: vec![format!("{role}-{rank}:{incarnation}").into()],
            host: "host".into(),
            sizes,
        };
        self.start_as(identity, config);
    }

    pub(crate) fn start_as(&mut self, identity: Identity, config: Config) {
        self.incarnation = identity.incarnation;
        let scheduler_patience = Some(Duration::from_millis(5000));
        let settings = Settings { identity, config, scheduler_patience };
        self.member = Some(Member::start(settings).unwrap());
        self.waiting.clear();
        self.version = MembershipVersion::new(0);
        self.present.clear();
        self.gone.clear();
        self.passed.clear();
        self.gave_up.clear();
        self.over = None;
    }
}
