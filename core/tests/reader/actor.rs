//! A reader with its application: what it was handed, and what is under way.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::ids::ClientId;
use rondo_core::reader::{
    Answer, Batch, Config, Delivery, Effect, Input, ReadSplit, Reader, Request, RpcId,
};
use rondo_core::status::Status;
use rondo_core::time::Time;

/// A stream of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) address: Arc<str>,
    pub(crate) read: ReadSplit,
    /// The next record it sends.
    pub(crate) next: u64,
    pub(crate) asked: bool,
}

/// A reader with its application.
pub(crate) struct Actor {
    pub(crate) reader: Reader,
    /// Requests that have not reached the dispatcher, and answers that have not come back.
    pub(crate) asks: Vec<(RpcId, Request)>,
    pub(crate) answers: Vec<(RpcId, Result<Answer, Status>)>,
    pub(crate) streams: BTreeMap<RpcId, Stream>,
    pub(crate) delivered: Vec<Batch>,
    /// Deliveries that were consumed.
    pub(crate) consumed: usize,
    pub(crate) ended: Option<Result<(), Status>>,
    pub(crate) flushed: Vec<(u64, Result<(), Status>)>,
    /// All numbers by which the dispatcher has known it.
    pub(crate) clients: Vec<ClientId>,
    pub(crate) has_crashed: bool,
    pub(crate) wanted: u64,
    /// How often it was told that nothing more comes before it has consumed what came.
    pub(crate) drained: usize,
    /// As often it has consumed all for that reason.
    pub(crate) heeded: usize,
}

impl Actor {
    pub(crate) fn new(config: Config, entropy: u64) -> Self {
        Self {
            reader: Reader::new(config, entropy),
            asks: Vec::new(),
            answers: Vec::new(),
            streams: BTreeMap::new(),
            delivered: Vec::new(),
            consumed: 0,
            ended: None,
            flushed: Vec::new(),
            clients: Vec::new(),
            has_crashed: false,
            wanted: 0,
            drained: 0,
            heeded: 0,
        }
    }

    pub(crate) fn step(&mut self, now: Time, input: Input) {
        if self.has_crashed {
            return;
        }
        let mut out = Vec::new();
        self.reader.step(now, input, &mut out);
        if let Some(client) = self.reader.client()
            && self.clients.last() != Some(&client)
        {
            self.clients.push(client);
        }
        for effect in out {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Ask { rpc, request, .. } => self.asks.push((rpc, request)),
            Effect::Open { rpc, address, read } => {
                let next = read.skip;
                let before = self.streams.insert(rpc, Stream { address, read, next, asked: true });
                assert!(before.is_none(), "{rpc:?} is opened twice");
            }
            Effect::Take { rpc } => {
                let stream = self.streams.get_mut(&rpc).expect("an open stream");
                assert!(!stream.asked, "{rpc:?} is asked twice");
                stream.asked = true;
            }
            Effect::Fetch { .. } => panic!("nobody wants elements here"),
            Effect::Withdraw { rpc } => {
                self.asks.retain(|(of, _)| *of != rpc);
                self.answers.retain(|(of, _)| *of != rpc);
                self.streams.remove(&rpc);
            }
            Effect::Deliver(Delivery::Batch(batch)) => {
                assert!(self.ended.is_none(), "nothing comes after the end");
                self.wanted = self.wanted.checked_sub(1).expect("it was wanted");
                self.delivered.push(batch);
            }
            Effect::Deliver(Delivery::Element(_)) => panic!("nobody wants elements here"),
            Effect::Drained => {
                let consumed = self.consumed;
                assert!(consumed < self.delivered.len(), "there is something to consume");
                self.drained += 1;
            }
            Effect::Flushed { call, result } => self.flushed.push((call.get(), result)),
            Effect::Ended { result } => {
                assert!(self.ended.is_none(), "it ended twice");
                self.ended = Some(result);
            }
        }
    }

    /// The application asks for more.
    pub(crate) fn want(&mut self, now: Time, deliveries: u64) {
        self.wanted += deliveries;
        self.step(now, Input::Wanted { deliveries });
    }

    /// The application is through with so many more deliveries.
    pub(crate) fn consume(&mut self, now: Time, deliveries: usize) {
        for _ in 0..deliveries {
            let Some(batch) = self.delivered.get(self.consumed) else {
                return;
            };
            self.consumed += 1;
            let (place, records) = (batch.place, batch.first + batch.count);
            self.step(now, Input::Consumed { upto: vec![(place, records)] });
        }
    }
}
