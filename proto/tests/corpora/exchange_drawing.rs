//! Messages of an exchange drawn from bytes: every byte decides something.

use std::sync::Arc;

use rondo_core::exchange::membership::{Member, Membership, Sizes, State};
use rondo_core::exchange::message::{
    Answer, AskTraces, Barrier, Credits, Failure, Hello, Passed, Pull, Register, Request, Scope,
    Tensor, ToMember, ToScheduler, ToServer, ToWorker, Welcome,
};
use rondo_core::exchange::{
    BarrierNumber, Handler, InstanceIndex, InstanceRank, Key, Leg, Mask, MembershipVersion, NodeId,
    Offset, Page, Passage, PeerLost, RequestNumber, Role, STAMPS, ScalarType, Stamps, TensorInfo,
    TraceNumber, Traces, WorkerRank,
};
use rondo_core::ids::Incarnation;
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

/// The bytes that have not decided anything yet.
pub(crate) struct Dice<'a>(pub(crate) &'a [u8]);

impl Dice<'_> {
    /// The next byte; zero behind the end.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// Small numbers and large ones.
    fn number(&mut self) -> u64 {
        let byte = self.byte();
        let number = u64::from(byte & 63);
        match byte >> 6 {
            0 | 1 => number,
            2 => u64::MAX - number,
            _ => number << 32,
        }
    }

    fn small(&mut self, below: u8) -> u8 {
        self.byte() % below
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.small(4);
        (0..count).map(|_| item(self)).collect()
    }

    fn text(&mut self) -> String {
        self.list(|dice| char::from(dice.byte())).into_iter().collect()
    }

    fn info(&mut self) -> TensorInfo {
        let dtype = ScalarType::ALL[usize::from(self.byte()) % ScalarType::ALL.len()];
        let rank = usize::from(self.small(9));
        let shape: Vec<i64> = (0..rank).map(|_| i64::from(self.small(200))).collect();
        TensorInfo::new(dtype, &shape).unwrap()
    }

    fn tensor(&mut self) -> Tensor<()> {
        Tensor { key: Key::new(self.number()), info: self.info(), payload: () }
    }

    fn pull(&mut self) -> Pull {
        Pull { key: Key::new(self.number()), info: self.info() }
    }

    fn stamps(&mut self) -> Stamps {
        let mut stamps = [0; STAMPS];
        if !self.byte().is_multiple_of(2) {
            stamps = stamps.map(|_| self.number());
        }
        Stamps::new(stamps)
    }

    fn request_number(&mut self) -> RequestNumber {
        RequestNumber::new(self.number().max(1))
    }

    fn incarnation(&mut self) -> Incarnation {
        Incarnation::new(self.number())
    }

    fn version(&mut self) -> MembershipVersion {
        MembershipVersion::new(self.number())
    }

    fn status(&mut self) -> Status {
        let code = Code::of_number(1 + i32::from(self.small(16))).unwrap();
        Status::new(code, self.text())
    }

    fn role(&mut self) -> Role {
        if self.byte().is_multiple_of(2) { Role::Server } else { Role::Worker }
    }

    fn addresses(&mut self) -> Vec<Arc<str>> {
        self.list(|dice| dice.text().into())
    }

    fn mask(&mut self) -> Mask {
        Mask::of_number(1 + u32::from(self.small(7))).unwrap()
    }

    fn scope(&mut self) -> Scope {
        if self.byte().is_multiple_of(2) { Scope::Instance } else { Scope::Group }
    }

    fn barrier(&mut self) -> Barrier {
        let number = BarrierNumber::new(self.number());
        Barrier { number, mask: self.mask(), scope: self.scope() }
    }

    fn passed(&mut self) -> Passed {
        Passed { mask: self.mask(), scope: self.scope(), count: self.number() }
    }

    fn membership(&mut self) -> Arc<Membership> {
        let mut size = || u32::from(self.small(4));
        let sizes = Sizes { workers: size(), servers: size(), group: size() };
        let mut members = Vec::new();
        for role in [Role::Server, Role::Worker] {
            for rank in 0..sizes.instances(role) {
                if !self.byte().is_multiple_of(4) {
                    let state = State::of_number(1 + i32::from(self.small(3))).unwrap();
                    members.push(Member {
                        role,
                        rank: InstanceRank::new(rank),
                        incarnation: self.incarnation(),
                        addresses: self.addresses(),
                        host: self.text().into(),
                        state,
                    });
                }
            }
        }
        Arc::new(Membership { version: self.version(), sizes, members })
    }

    pub(crate) fn word_to_server(&mut self) -> ToServer<()> {
        match self.small(4) {
            0 => {
                let mut open = self.list(Self::request_number);
                open.sort_unstable();
                open.dedup();
                ToServer::Hello(Hello {
                    worker: WorkerRank::new(u32::from(self.byte())),
                    index: InstanceIndex::new(u32::from(self.byte())),
                    incarnation: self.incarnation(),
                    version: self.version(),
                    server: self.incarnation(),
                    attempt: u64::from(self.byte()),
                    open,
                })
            }
            1 => ToServer::Acknowledge { numbers: self.list(Self::request_number) },
            _ => ToServer::Request(Request {
                number: self.request_number(),
                acknowledged: self.list(Self::request_number),
                pushes: self.list(Self::tensor),
                pulls: self.list(Self::pull),
                stamps: self.stamps(),
            }),
        }
    }

    pub(crate) fn word_to_worker(&mut self) -> ToWorker<()> {
        let number = self.request_number();
        match self.small(7) {
            0 => ToWorker::Welcome(Welcome {
                incarnation: self.incarnation(),
                received: RequestNumber::new(self.number()),
                credits: Credits {
                    requests: u32::from(self.byte()),
                    bytes: self.number(),
                    per_key: u32::from(self.byte()),
                },
            }),
            1 => ToWorker::Rejected(self.status()),
            2 => ToWorker::Pushed { number, stamps: self.stamps() },
            3 => ToWorker::Refused { number, status: self.status() },
            4 => ToWorker::Released { number },
            _ => {
                let tensors = self.list(Self::tensor);
                ToWorker::Answer(Answer { number, tensors, stamps: self.stamps() })
            }
        }
    }

    pub(crate) fn word_to_scheduler(&mut self) -> ToScheduler {
        match self.small(9) {
            0 => ToScheduler::Heartbeat { version: self.version() },
            1 => ToScheduler::Barrier(self.barrier()),
            2 => ToScheduler::Withdraw { number: BarrierNumber::new(self.number()) },
            3 => ToScheduler::Leave,
            6 => ToScheduler::Observe,
            7 => ToScheduler::AskTraces(AskTraces {
                number: TraceNumber::new(self.number()),
                role: self.role(),
                rank: InstanceRank::new(u32::from(self.byte())),
                after: self.number(),
            }),
            8 => ToScheduler::Traces { number: TraceNumber::new(self.number()), page: self.page() },
            _ => {
                let mut size = || u32::from(self.byte());
                let sizes = Sizes { workers: size(), servers: size(), group: size() };
                let has_rank = !self.byte().is_multiple_of(2);
                let is_known = !self.byte().is_multiple_of(2);
                ToScheduler::Register(Register {
                    role: self.role(),
                    rank: has_rank.then(|| InstanceRank::new(u32::from(self.byte()))),
                    incarnation: self.incarnation(),
                    addresses: self.addresses(),
                    host: self.text().into(),
                    sizes,
                    known: is_known.then(|| self.membership()),
                    passed: self.list(Self::passed),
                    waiting: self.list(Self::barrier),
                })
            }
        }
    }

    pub(crate) fn word_to_member(&mut self) -> ToMember {
        match self.small(9) {
            0 => ToMember::Rejected(self.status()),
            1 => ToMember::Membership(self.membership()),
            2 => ToMember::Heard { version: self.version() },
            3 => ToMember::Left,
            7 => ToMember::AskTraces {
                number: TraceNumber::new(self.number()),
                after: self.number(),
            },
            8 => {
                let number = TraceNumber::new(self.number());
                let result = match self.byte().is_multiple_of(4) {
                    true => Err(self.status()),
                    false => {
                        let mut time = || Time::from_nanos(self.number());
                        Ok(Traces { asked: time(), back: time(), page: self.page() })
                    }
                };
                ToMember::Traces { number, result }
            }
            4 => {
                let rank = InstanceRank::new(u32::from(self.byte()));
                ToMember::Assigned {
                    node: NodeId::of(self.role(), rank).unwrap(),
                    rank,
                    membership: self.membership(),
                    passed: self.list(Self::passed),
                }
            }
            _ => ToMember::BarrierDone {
                number: BarrierNumber::new(self.number()),
                result: self.result(),
            },
        }
    }

    fn page(&mut self) -> Page {
        let mut passages = self.list(|dice| Passage {
            number: dice.number(),
            handler: Handler::new(dice.number() / 2),
            handlers: dice.number() / 2,
            leg: if dice.byte().is_multiple_of(2) { Leg::Push } else { Leg::Pull },
            server: InstanceRank::new(u32::from(dice.byte())),
            bytes: dice.number(),
            stamps: dice.stamps(),
        });
        passages.sort_unstable_by_key(|passage| passage.number);
        passages.dedup_by_key(|passage| passage.number);
        let last = passages.last().map_or(0, |passage| passage.number);
        Page {
            received: Time::from_nanos(self.number()),
            answered: Time::from_nanos(self.number()),
            last: last.saturating_add(u64::from(self.byte())),
            passages,
            clocks: self.list(|dice| {
                let nanos = i64::from_le_bytes(dice.number().to_le_bytes());
                let offset = Offset { nanos, error_nanos: dice.number() };
                (InstanceRank::new(u32::from(dice.byte())), offset)
            }),
        }
    }

    fn result(&mut self) -> Result<u64, Failure> {
        match self.small(3) {
            0 => Ok(self.number()),
            1 => Err(Failure::Refused(self.status())),
            _ => Err(Failure::PeerLost(PeerLost {
                role: self.role(),
                rank: InstanceRank::new(u32::from(self.byte())),
                incarnation: self.incarnation(),
                address: self.text().into(),
                why: self.text().into(),
            })),
        }
    }
}
