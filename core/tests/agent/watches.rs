//! Watches: whatever breaks, every change is told once and in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use rondo_core::agent::{Ask, Effect, KeyChange, Reply, Request, RpcId};
use rondo_core::ids::Revision;
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::story::{LIFE, Story, broken, code_of, done, refused, sent};

fn watch(story: &mut Story, key: &str) -> (rondo_core::ids::CallId, RpcId) {
    let (call, effects) = story.ask(Ask::StartWatch { key: key.into() });
    (call, sent(&effects)[0].0)
}

fn changes(whole: bool, changes: Vec<KeyChange>, upto: u64) -> Reply {
    Reply::Changes { whole, changes, upto: Revision::new(upto) }
}

fn put(key: &str, value: &str) -> KeyChange {
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    KeyChange { key: key.into(), revision: Revision::new(1), value, with_all_under: false }
}

#[test]
fn it_begins_with_what_is_there_and_goes_on_from_there() {
    let (mut story, _) = Story::running();
    let (call, rpc) = watch(&mut story, "d");
    let effects = story.answer(rpc, Ok(changes(true, vec![put("d/a", "1")], 7)));
    assert_eq!(effects[0], done(call, Ok(Reply::Done)));
    let key: Arc<str> = "d".into();
    let there = Effect::Changed { key: key.clone(), whole: true, changes: vec![put("d/a", "1")] };
    assert_eq!(effects[1], there);
    let from = Some(Revision::new(7));
    let again = Request::Watch { key, from };
    assert_eq!(sent(&effects)[0].1, again);
    assert_eq!(story.answer(sent(&effects)[0].0, Err(broken())), []);
    let effects = story.sleep();
    assert_eq!(sent(&effects)[0].1, again, "from the same revision");
}

#[test]
fn a_watch_that_the_server_refuses_ends() {
    let (mut story, _) = Story::running();
    let (_, rpc) = watch(&mut story, "d");
    let effects = story.answer(rpc, Err(refused(Code::Unimplemented)));
    assert_eq!(code_of(&effects), Some(Code::Unimplemented));
    let (_, rpc) = watch(&mut story, "d");
    let effects = story.answer(rpc, Ok(changes(true, Vec::new(), 1)));
    let status = refused(Code::FailedPrecondition);
    let effects = story.answer(sent(&effects)[0].0, Err(status.clone()));
    assert_eq!(effects, [Effect::WatchEnded { key: "d".into(), status }]);
}

/// Lets time pass until the agent watches from revision 7 again. Its heartbeats are answered.
fn watches_again(story: &mut Story) -> RpcId {
    let again = Request::Watch { key: "d".into(), from: Some(Revision::new(7)) };
    loop {
        for (rpc, request, _) in sent(&story.sleep()) {
            if request == again {
                return rpc;
            }
            assert_eq!(request, Request::Heartbeat);
            story.answer(rpc, Ok(Reply::Life(LIFE)));
        }
    }
}

/// A server that has no memory for less than a minute ends no watch of a running job.
#[test]
fn a_watch_that_runs_tries_again_when_the_server_has_no_room() {
    let full = || Err(refused(Code::ResourceExhausted));
    let (mut story, _) = Story::running();
    let (_, rpc) = watch(&mut story, "d");
    let effects = story.answer(rpc, full());
    assert_eq!(code_of(&effects), Some(Code::ResourceExhausted), "one that has not begun ends");
    let (_, rpc) = watch(&mut story, "d");
    let mut rpc = sent(&story.answer(rpc, Ok(changes(true, Vec::new(), 7))))[0].0;
    // Twice, with a broken connection between them: then the time begins anew.
    for _ in 0..2 {
        let began = story.now;
        while story.now.since(began) < Duration::from_secs(50) {
            let before = story.now;
            assert_eq!(story.answer(rpc, full()), []);
            rpc = watches_again(&mut story);
            assert!(story.now.since(before) >= Duration::from_secs(2));
        }
        assert_eq!(story.answer(rpc, Err(broken())), []);
        rpc = watches_again(&mut story);
    }
    // A watch that waited had room meanwhile.
    for _ in 0..20 {
        for (rpc, request, _) in sent(&story.wait(Duration::from_secs(6))) {
            assert_eq!(request, Request::Heartbeat);
            story.answer(rpc, Ok(Reply::Life(LIFE)));
        }
        assert_eq!(story.answer(rpc, full()), []);
        rpc = watches_again(&mut story);
    }
    let began = story.now;
    let ended = loop {
        let effects = story.answer(rpc, full());
        match effects.is_empty() {
            true => rpc = watches_again(&mut story),
            false => break effects,
        }
    };
    let status = refused(Code::ResourceExhausted);
    assert_eq!(ended, [Effect::WatchEnded { key: "d".into(), status }]);
    let took = story.now.since(began);
    assert!(took >= Duration::from_secs(50) && took < Duration::from_secs(70), "{took:?}");
}

#[test]
fn a_watch_is_stopped_and_told_of_by_hand() {
    let (mut story, _) = Story::running();
    let nobody = Ask::ActivateWatch { key: "d".into(), changes: Vec::new() };
    let (_, effects) = story.ask(nobody);
    assert_eq!(code_of(&effects), Some(Code::NotFound));
    let (_, rpc) = watch(&mut story, "d");
    let by_hand = vec![put("d/x", "made up")];
    let ask = Ask::ActivateWatch { key: "d".into(), changes: by_hand.clone() };
    let (_, effects) = story.ask(ask);
    assert_eq!(effects[0], Effect::Changed { key: "d".into(), whole: false, changes: by_hand });
    let (call, effects) = story.ask(Ask::StopWatch { key: "d".into() });
    assert_eq!(effects[0], Effect::Withdraw { rpc });
    assert_eq!(effects.last(), Some(&done(call, Ok(Reply::Done))));
    let (_, effects) = story.ask(Ask::StopWatch { key: "d".into() });
    assert_eq!(code_of(&effects), Some(Code::NotFound));
}

/// The agent takes a late answer to a watch from before it left for no answer to a watch begun since.
#[test]
fn a_watch_from_before_a_task_left_does_not_count_for_one_after_its_return() {
    let (mut story, _) = Story::running();
    let (_, before) = watch(&mut story, "d");
    let (_, effects) = story.ask(Ask::Shutdown);
    story.answer(sent(&effects)[0].0, Ok(Reply::Done));
    let (_, effects) = story.ask(Ask::Connect);
    story.answer(sent(&effects)[0].0, Ok(Reply::Life(LIFE)));
    let (call, after) = watch(&mut story, "d");
    let late = changes(true, vec![put("d/a", "of before")], 7);
    assert_eq!(story.answer(before, Ok(late)), [], "nobody waits for it");
    let effects = story.answer(after, Ok(changes(true, Vec::new(), 2)));
    assert_eq!(effects[0], done(call, Ok(Reply::Done)));
}

#[test]
fn watches_have_a_bound() {
    let (mut story, _) = Story::running();
    for key in 0..1024 {
        let (_, effects) = story.ask(Ask::StartWatch { key: key.to_string().into() });
        assert_eq!(code_of(&effects), None, "{key}");
    }
    let (_, effects) = story.ask(Ask::StartWatch { key: "one more".into() });
    assert_eq!(code_of(&effects), Some(Code::ResourceExhausted));
    story.ask(Ask::StopWatch { key: "7".into() });
    let (_, effects) = story.ask(Ask::StartWatch { key: "one more".into() });
    assert_eq!(sent(&effects).len(), 1);
}

/// A server that remembers some changes, and what an application was told of them.
struct Shared {
    keys: BTreeMap<String, String>,
    /// With the revision of each.
    log: VecDeque<(u64, KeyChange)>,
    revision: u64,
    told: BTreeMap<String, String>,
    rpc: Option<(RpcId, Option<u64>)>,
}

impl Shared {
    fn change(&mut self, key: u8, value: Option<u8>) {
        self.revision += 1;
        let (key, value) = (format!("d/{key}"), value.map(|value| value.to_string()));
        let change = match &value {
            Some(value) => put(&key, value),
            None => KeyChange { value: None, with_all_under: true, ..put(&key, "") },
        };
        match value {
            Some(value) => drop(self.keys.insert(key, value)),
            None => drop(self.keys.remove(&key)),
        }
        self.log.push_back((self.revision, change));
        while self.log.len() > 4 {
            self.log.pop_front();
        }
    }

    /// The answer to a watch; `None` if there is nothing to say.
    fn answer(&self, from: Option<u64>) -> Option<Reply> {
        let oldest = self.log.front().map_or(self.revision, |(revision, _)| revision - 1);
        let Some(from) = from.filter(|from| *from >= oldest) else {
            let all = self.keys.iter().map(|(key, value)| put(key, value)).collect();
            return Some(changes(true, all, self.revision));
        };
        let news: Vec<_> = self.log.iter().filter(|(revision, _)| *revision > from).collect();
        let upto = news.last()?.0;
        let news = news.into_iter().map(|(_, change)| change.clone()).collect();
        Some(changes(false, news, upto))
    }

    fn hear(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Changed { whole, changes, .. } => self.tell(*whole, changes),
                Effect::Send { rpc, request: Request::Watch { from, .. }, .. } => {
                    assert_eq!(self.rpc, None, "one at a time");
                    self.rpc = Some((*rpc, from.map(Revision::get)));
                }
                _ => {}
            }
        }
    }

    fn tell(&mut self, whole: bool, changes: &[KeyChange]) {
        if whole {
            self.told.clear();
        }
        for change in changes {
            let key = change.key.to_string();
            match &change.value {
                Some(value) => {
                    let value = String::from_utf8(value.to_vec()).unwrap();
                    self.told.insert(key, value);
                }
                None => drop(self.told.remove(&key)),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(500),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn whatever_breaks_the_application_knows_what_is_there(
        history in prop::collection::vec((0..4_u8, 0..3_u8, any::<Option<u8>>()), 0..60)
    ) {
        let (mut story, _) = Story::running();
        let (_, effects) = story.ask(Ask::StartWatch { key: "d".into() });
        let mut shared = Shared {
            keys: BTreeMap::new(),
            log: VecDeque::new(),
            revision: 3,
            told: BTreeMap::new(),
            rpc: None,
        };
        shared.hear(&effects);
        for (kind, key, value) in history {
            step(&mut story, &mut shared, kind, (key, value));
        }
        for _ in 0..4 {
            step(&mut story, &mut shared, 2, (0, None));
        }
        prop_assert_eq!(&shared.told, &shared.keys);
    }
}

fn step(story: &mut Story, shared: &mut Shared, kind: u8, (key, value): (u8, Option<u8>)) {
    match (kind, shared.rpc) {
        (0 | 1, _) => shared.change(key, value),
        // The answer is lost, though the server gave it.
        (3, Some((rpc, _))) => {
            shared.rpc = None;
            let code = [Code::Unavailable, Code::Cancelled][usize::from(key) % 2];
            let effects = story.answer(rpc, Err(Status::new(code, "lost")));
            shared.hear(&effects);
        }
        (_, Some((rpc, from))) => {
            if let Some(reply) = shared.answer(from) {
                shared.rpc = None;
                let effects = story.answer(rpc, Ok(reply));
                shared.hear(&effects);
            }
        }
        (_, None) => {
            let effects = story.sleep();
            shared.hear(&effects);
        }
    }
}
