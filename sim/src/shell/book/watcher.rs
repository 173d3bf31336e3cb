//! The eye on one process of the node.

use std::sync::{Arc, Weak};

use rondo::node::Watch as WatchNode;
use rondo_core::control::{self, Effect, Input, Node, Recovered};
use rondo_core::ids::CallId;
use rondo_core::time::Time;

use super::super::world::World;
use super::{Book, NODE, Pages};
use crate::fault::Fault;
use crate::mark::Mark;
use crate::oracle::Seen;
use crate::trace::LineKind;

/// Watches one process of the node.
pub(in crate::shell) struct Watcher {
    pub(super) book: Arc<Book>,
    pub(super) life: u64,
    pub(super) world: Weak<World>,
}

impl Watcher {
    /// Does something in the book, unless the process is dead.
    fn with(&self, work: impl FnOnce(&Book, &mut Pages)) {
        let mut pages = self.book.pages();
        if pages.life == self.life {
            work(&self.book, &mut pages);
        }
    }
}

impl WatchNode for Watcher {
    fn recovered(&self, now: Time, recovered: &Recovered) {
        let mut lost = false;
        self.with(|book, pages| {
            pages.now = now;
            lost = pages.broke_word && recovered.applied < pages.durable;
            pages.durable = recovered.applied;
            pages.patience.begin(pages.worker_timeout);
            pages.serving = true;
            pages.refusing = false;
            let last = pages.oracles.shadow().last();
            if recovered.applied < last {
                pages.tally.mark(Mark::TailCut);
            }
            pages.note(NODE, LineKind::Effect, recovered.applied.get(), || {
                format!("recovered up to record {}", recovered.applied)
            });
            let disk_lied = pages.broke_word;
            book.judge(pages, now, &Seen::Recovered { state: recovered, disk_lied });
        });
        if let Some(world) = self.world.upgrade() {
            world.served(lost);
        }
    }

    fn submitted(&self, call: CallId, tag: u64) {
        self.with(|_, pages| {
            pages.calls.insert(call, tag);
        });
    }

    fn input(&self, now: Time, input: &Input) {
        self.with(|book, pages| {
            pages.now = now;
            pages.during = None;
            match input {
                Input::Request { call, request: control::Request::Dispatcher(request), .. } => {
                    pages.taken(book, now, *call, request);
                }
                input => pages.other_input(book, now, input),
            }
        });
    }

    fn effect(&self, now: Time, effect: &Effect) {
        let mut dies = false;
        self.with(|book, pages| {
            pages.effect(book, now, effect);
            dies = pages.dies_now();
        });
        if dies {
            self.book.fault(Fault::KillAtEffect);
            if let Some(world) = self.world.upgrade() {
                world.kill_control(false);
            }
        }
    }

    fn stepped(&self, now: Time, node: &Node) {
        self.with(|book, pages| {
            pages.steps = pages.steps.wrapping_add(1);
            if pages.steps.is_multiple_of(pages.look_every) {
                book.judge(pages, now, &Seen::Looked(node));
            }
            if std::mem::take(&mut pages.gone) {
                pages.tally.mark(Mark::NothingLeft);
                book.judge(pages, now, &Seen::GoneLongAgo(node));
                book.alarm.notify_one();
            }
        });
    }
}
