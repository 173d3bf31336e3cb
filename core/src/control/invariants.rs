//! What holds of the node between two steps.

use alloc::format;
use alloc::string::String;

use super::node::{Durability, Health, Node};
use crate::invariant::Invariant;
use crate::time::Time;

/// The invariants of the node.
pub(crate) const NODE_INVARIANTS: &[Invariant<Node>] = &[
    Invariant {
        number: "N1",
        sentence: "what is held back waits for a record that is written but not durable",
        check: held_waits_for_the_journal,
    },
    Invariant {
        number: "N2",
        sentence: "no record is durable before it is written; without a journal all are at once",
        check: durable_is_written,
    },
    Invariant {
        number: "N3",
        sentence: "the log refuses records, and a retry is due, exactly while the node refuses updates",
        check: refusal_is_one_state,
    },
    Invariant {
        number: "N4",
        sentence: "a halted node holds nobody back and wants no wake-up",
        check: halted_is_final,
    },
    Invariant {
        number: "N5",
        sentence: "what is held back waits for a record that a sync was asked for",
        check: held_waits_for_a_sync,
    },
];

fn held_waits_for_the_journal(node: &Node) -> Result<(), String> {
    let waits = node.durable().next()..=node.last();
    match node.held.keys().find(|(after, _)| !waits.contains(after)) {
        Some((after, _)) => Err(format!("something waits for record {after}, not in {waits:?}")),
        None => Ok(()),
    }
}

fn held_waits_for_a_sync(node: &Node) -> Result<(), String> {
    let asked = node.sync_asked;
    match node.held.last_key_value() {
        Some(((after, _), _)) if *after > asked => {
            Err(format!("something waits for record {after}, and syncs were asked up to {asked}"))
        }
        _ => Ok(()),
    }
}

fn durable_is_written(node: &Node) -> Result<(), String> {
    let (durable, last) = (node.durable(), node.last());
    let holds = match node.durability {
        Durability::Journal => durable <= last,
        Durability::MemoryOnly => durable == last,
    };
    match holds {
        true => Ok(()),
        false => Err(format!("record {durable} is durable, record {last} the last written")),
    }
}

fn refusal_is_one_state(node: &Node) -> Result<(), String> {
    let log = node.log.refuses();
    let holds = match &node.health {
        Health::RefusingUpdates(reason) => log == Some(reason) && node.append_retry < Time::NEVER,
        Health::Serving => log.is_none() && node.append_retry == Time::NEVER,
        Health::Halted(_) => true,
    };
    match holds {
        true => Ok(()),
        false => Err(format!("{:?}, but the log refuses: {log:?}", node.health)),
    }
}

fn halted_is_final(node: &Node) -> Result<(), String> {
    let at_rest = node.held.is_empty() && node.deadline().is_none();
    match (&node.health, at_rest) {
        (Health::Halted(_), false) => Err(format!("{} things are held", node.held.len())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::effect::{Effects, Input, Request};
    use super::super::node::Held;
    use super::super::recovery::Recovered;
    use super::*;
    use crate::dispatcher::{self, Config};
    use crate::ids::{CallId, Lsn};
    use crate::invariant;
    use crate::status::{Code, Status};

    /// A node with one written record that is not durable, and its reply held back.
    fn node() -> Node {
        let config = Config::default();
        let recovered = Recovered::default();
        let mut node = Node::start(Durability::Journal, config, recovered, Time::ZERO);
        let worker = dispatcher::WorkerHeartbeat {
            address: "worker:1".into(),
            current_tasks: Vec::new(),
            tags: Vec::new(),
            uid: 1,
            transfer_servers: Vec::new(),
        };
        let request = Request::Dispatcher(dispatcher::Request::WorkerHeartbeat(worker));
        let call = CallId::new(1);
        let input = Input::Request { call, request, entropy: 7 };
        node.step(Time::ZERO, input, &mut Effects::new());
        assert_eq!(invariant::check_all(&node), Ok(()));
        node
    }

    fn violated(node: &Node) -> &'static str {
        invariant::check_all(node).expect_err("a planted violation").number
    }

    #[test]
    fn n1_sees_a_reply_that_waits_for_nothing() {
        let mut node = node();
        let status = Status::new(Code::Unavailable, "later");
        let held = Held::Reply(CallId::new(2), Err(status));
        node.held.insert((Lsn::NONE, 9), held);
        assert_eq!(violated(&node), "N1");
    }

    #[test]
    fn n2_sees_memory_that_waits_for_a_journal() {
        let mut node = node();
        node.durability = Durability::MemoryOnly;
        assert_eq!(violated(&node), "N2");
    }

    #[test]
    fn n3_sees_a_log_that_refuses_while_the_node_serves() {
        let mut node = node();
        node.log.refuse(Some("full".into()));
        assert_eq!(violated(&node), "N3");
    }

    #[test]
    fn n5_sees_a_reply_that_no_sync_will_let_go() {
        let mut node = node();
        node.sync_asked = Lsn::NONE;
        assert_eq!(violated(&node), "N5");
    }

    #[test]
    fn n4_sees_a_halted_node_that_keeps_calls_waiting() {
        let mut node = node();
        node.health = Health::Halted("stopped".into());
        assert_eq!(violated(&node), "N4");
    }
}
