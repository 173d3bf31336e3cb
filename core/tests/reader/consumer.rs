//! A reader by element with its application: what it was handed, and what is under way.

use bytes::Bytes;
use rondo_core::element::{Dtype, Element, Shape, Tensor, Values};
use rondo_core::invariant::check_reader;
use rondo_core::reader::{
    Answer, Config, Delivery, Effect, FetchElement, Input, Reader, Request, RpcId,
};
use rondo_core::status::Status;
use rondo_core::time::{Duration, Time};

/// A reader by element with its application.
pub(crate) struct Consumer {
    pub(crate) reader: Reader,
    pub(crate) asks: Vec<(RpcId, Request)>,
    pub(crate) fetches: Vec<(RpcId, FetchElement)>,
    pub(crate) elements: Vec<i64>,
    /// How long the reader waits for the answer to each call to the dispatcher.
    pub(crate) deadlines: Vec<(RpcId, Duration)>,
    pub(crate) withdrawn: Vec<RpcId>,
    pub(crate) ended: Option<Result<(), Status>>,
}

/// An element that is a number.
pub(crate) fn element(number: i64) -> Element {
    let bytes = Bytes::copy_from_slice(&number.to_le_bytes());
    let tensor = Tensor::fixed(Dtype::Int64, Shape::scalar(), bytes).unwrap();
    Element { components: vec![tensor] }
}

fn number(element: &Element) -> i64 {
    let Values::Fixed(bytes) = element.components[0].values() else {
        panic!("{element:?}");
    };
    i64::from_le_bytes(bytes[..].try_into().unwrap())
}

impl Consumer {
    pub(crate) fn new(config: Config) -> Self {
        let reader = Reader::new(config, 0);
        Self {
            reader,
            asks: Vec::new(),
            fetches: Vec::new(),
            elements: Vec::new(),
            deadlines: Vec::new(),
            withdrawn: Vec::new(),
            ended: None,
        }
    }

    pub(crate) fn step(&mut self, now: Time, input: Input) {
        let mut out = Vec::new();
        self.reader.step(now, input, &mut out);
        assert_eq!(check_reader(&self.reader), Ok(()));
        for effect in out {
            match effect {
                Effect::Ask { rpc, request, deadline } => {
                    self.deadlines.push((rpc, deadline));
                    self.asks.push((rpc, request));
                }
                Effect::Fetch { rpc, fetch, .. } => self.fetches.push((rpc, fetch)),
                Effect::Withdraw { rpc } => {
                    self.withdrawn.push(rpc);
                    self.asks.retain(|(of, _)| *of != rpc);
                    self.fetches.retain(|(of, _)| *of != rpc);
                }
                Effect::Deliver(Delivery::Element(element)) => {
                    assert!(self.ended.is_none(), "nothing comes after the end");
                    self.elements.push(number(&element));
                }
                Effect::Ended { result } => self.ended = Some(result),
                other => panic!("{other:?} when reading by element"),
            }
        }
    }

    pub(crate) fn answer(&mut self, now: Time, rpc: RpcId, result: Result<Answer, Status>) {
        let client = self.reader.client().map_or(0, |client| client.get().unsigned_abs());
        let mixed = now.as_nanos() ^ (rpc.0 << 17) ^ (client << 40);
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.step(now, Input::Answered { rpc, result, entropy: mixed >> 41 });
    }

    pub(crate) fn want(&mut self, now: Time, deliveries: u64) {
        self.step(now, Input::Wanted { deliveries });
    }

    pub(crate) fn wait(&mut self, now: Time, millis: u64) {
        let until = now.after(Duration::from_millis(millis));
        self.step(now, Input::Tick);
        for turn in 0.. {
            match self.reader.deadline() {
                Some(at) if at <= until => self.step(now.max(at), Input::Tick),
                _ => return,
            }
            assert!(turn < 2000, "it never rests: {:?}", self.reader);
        }
    }
}
