//! A barrier lets its tasks go only when all who must come have come, each in that instance: never one
//! short. So do the service's own: registering together, and leaving together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::coordination::{self, BarrierKey, Call, Method, Namespace, Reply, TaskName};
use rondo_core::ids::{CallId, NamespaceId, ServiceIncarnation};
use rondo_core::time::Time;

use super::{Oracle, Seen, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::swarm::{CoordinationShape, NamespaceShape, namespace_name};

type Life = (Arc<str>, ServiceIncarnation);

/// What is known of one life of a namespace.
#[derive(Debug, Default)]
struct Known {
    registered: BTreeSet<i32>,
    leaving: BTreeSet<i32>,
    /// Who has come to which instance of which barrier, as they count.
    came: BTreeMap<(Arc<str>, i64), BTreeSet<i32>>,
    /// How many tasks there were when an instance ended: where nobody says it they may become more.
    ended: BTreeMap<(Arc<str>, i64), u32>,
    /// Who must come to an instance, as the call listed them that opened it.
    opened: BTreeMap<(Arc<str>, i64), Vec<TaskName>>,
}

#[derive(Debug)]
struct Open {
    life: Option<Life>,
    call: Call,
}

pub(super) struct Barriers {
    shapes: BTreeMap<String, NamespaceShape>,
    lives: BTreeMap<Life, Known>,
    open: BTreeMap<CallId, Open>,
}

impl Barriers {
    pub(super) fn new(coordination: Option<&CoordinationShape>) -> Self {
        let shapes = coordination.into_iter().flat_map(|shape| &shape.namespaces);
        let shapes =
            (0..).zip(shapes).map(|(number, shape)| (namespace_name(number), shape.clone()));
        Self { shapes: shapes.collect(), lives: BTreeMap::new(), open: BTreeMap::new() }
    }

    fn asked(&mut self, call: CallId, asked: &Call, shadow: &Shadow) {
        let waits = matches!(
            asked.method,
            Method::RegisterTask { .. } | Method::ShutdownTask { .. } | Method::Barrier { .. }
        );
        if !waits {
            return;
        }
        let namespace = shadow.coordination().named(&asked.namespace);
        let life = namespace.map(|of| (asked.namespace.clone(), of.head().incarnation));
        if let Some(life) = &life {
            note(self.lives.entry(life.clone()).or_default(), &asked.method);
        }
        self.open.insert(call, Open { life, call: asked.clone() });
    }

    /// A registration may begin a life, and is one of it then.
    fn begun(&mut self, name: &Arc<str>, life: ServiceIncarnation, during: Option<CallId>) {
        let life = (name.clone(), life);
        let known = self.lives.entry(life.clone()).or_default();
        if let Some(open) = during.and_then(|call| self.open.get_mut(&call)) {
            note(known, &open.call.method);
            open.life = Some(life);
        }
    }

    /// A call opened an instance, perhaps another one than it counted to.
    fn opened(&mut self, counter: i64, during: Option<CallId>) {
        if let Some(Open { life: Some(life), call }) = during.and_then(|call| self.open.get(&call))
            && let Method::Barrier { id, tasks, .. } = &call.method
        {
            let known = self.lives.entry(life.clone()).or_default();
            known.opened.insert((id.clone(), counter), tasks.clone());
        }
    }

    fn ended(
        &mut self,
        namespace: NamespaceId,
        barrier: &BarrierKey,
        counter: i64,
        shadow: &Shadow,
    ) {
        let head = shadow.coordination().namespaces().get(&namespace).map(Namespace::head);
        if let (Some(head), BarrierKey::Named(id)) = (head, barrier)
            && let Some(size) = head.size
        {
            let known = self.lives.entry((head.name.clone(), head.incarnation)).or_default();
            known.ended.entry((id.clone(), counter)).or_insert(size);
        }
    }

    fn told(&mut self, call: CallId, reply: Option<&Reply>, shadow: &Shadow) -> Verdict {
        let Some(Open { life: Some(life), call: asked }) = self.open.remove(&call) else {
            return Ok(());
        };
        let (Some(known), Some(shape)) = (self.lives.get(&life), self.shapes.get(&*life.0)) else {
            return Ok(());
        };
        let namespace = shadow.coordination().named(&life.0);
        let size = namespace.filter(|of| of.head().incarnation == life.1);
        let Some(size) = size.and_then(|of| of.head().size) else {
            return Ok(());
        };
        let all = 0..i32::try_from(size).unwrap_or(0);
        match (reply, &asked.method) {
            (Some(Reply::Registered(told)), _) if *told == life.1 => {
                reached(Check::BarrierRegistered);
                missing(all, &known.registered, "registered")
            }
            (Some(Reply::ShutDown), _) if !shape.recoverable && shape.shutdown_ms > 0 => {
                reached(Check::BarrierLeft);
                missing(all, &known.leaving, "wanted to leave")
            }
            (Some(Reply::BarrierPassed { counter }), Method::Barrier { id, tasks, .. }) => {
                reached(Check::BarrierPassed);
                let mut came = known.came.get(&(id.clone(), *counter)).cloned().unwrap_or_default();
                if shape.recoverable {
                    // Whoever has restarted counts anew.
                    came.extend(known.came.get(&(id.clone(), 0)).into_iter().flatten());
                }
                let size = known.ended.get(&(id.clone(), *counter)).copied().unwrap_or(size);
                let all = 0..i32::try_from(size).unwrap_or(0);
                let tasks = known.opened.get(&(id.clone(), *counter)).unwrap_or(tasks);
                let listed = tasks.iter().map(|task| task.index.get());
                match tasks.is_empty() {
                    true => missing(all, &came, &format!("came to {id}::{counter}")),
                    false => missing(listed, &came, &format!("came to {id}::{counter}")),
                }
            }
            _ => Ok(()),
        }
    }
}

fn note(known: &mut Known, method: &Method) {
    let number = |task: &TaskName| task.index.get();
    match method {
        Method::RegisterTask { task, .. } => {
            known.registered.insert(number(task));
        }
        Method::ShutdownTask { task } => {
            known.leaving.insert(number(task));
        }
        Method::Barrier { id, counter, source, .. } => {
            known.came.entry((id.clone(), *counter)).or_default().insert(number(source));
        }
        _ => {}
    }
}

fn missing(of: impl Iterator<Item = i32>, came: &BTreeSet<i32>, did: &str) -> Verdict {
    match of.into_iter().find(|task| !came.contains(task)) {
        Some(task) => Err(format!("somebody was let go, and task {task} has never {did}")),
        None => Ok(()),
    }
}

impl Oracle for Barriers {
    fn name(&self) -> &'static str {
        "barrier"
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Asked { call, asked, .. } => self.asked(*call, asked, shadow),
            Seen::Told { call, answer, .. } => {
                return self.told(*call, answer.as_ref().ok(), shadow);
            }
            Seen::Recorded {
                record:
                    Record::Coordination(coordination::Record::BeginLife { name, incarnation, .. }),
                during,
                ..
            } => self.begun(name, *incarnation, *during),
            Seen::Recorded {
                record:
                    Record::Coordination(coordination::Record::ArriveAtBarrier {
                        counter,
                        opening: Some(_),
                        ..
                    }),
                during,
                ..
            } => self.opened(*counter, *during),
            Seen::Recorded {
                record:
                    Record::Coordination(coordination::Record::EndBarrier {
                        namespace,
                        barrier,
                        counter,
                        ..
                    }),
                ..
            } => self.ended(*namespace, barrier, *counter, shadow),
            Seen::Died => self.open.clear(),
            _ => {}
        }
        Ok(())
    }
}
