//! Who watches keys sees each change once: an answer has every acknowledged put since the revision the
//! caller knew, in order, and nothing it knew already.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rondo_core::coordination::{Call, Change, ChangeKind, Method, Reply};
use rondo_core::ids::{CallId, ServiceIncarnation};
use rondo_core::time::Time;

use super::{Oracle, Seen, Shadow, Verdict};
use crate::checks::{Check, reached};

/// Puts and answers that are remembered in each life.
const REMEMBERED: usize = 256;

type Life = (Arc<str>, ServiceIncarnation);

/// An answer to a watch.
#[derive(Debug)]
struct Window {
    watched: String,
    from: u64,
    upto: u64,
    revisions: Vec<u64>,
}

#[derive(Debug, Default)]
struct Known {
    /// Acknowledged puts: revision and key.
    puts: VecDeque<(u64, String)>,
    windows: VecDeque<Window>,
}

/// A put or a watch under way.
#[derive(Debug)]
enum Open {
    Put(Life, String),
    Watch(Life, String, Option<u64>),
}

#[derive(Default)]
pub(super) struct Watches {
    lives: BTreeMap<Life, Known>,
    open: BTreeMap<CallId, Open>,
}

fn normal(key: &str) -> String {
    key.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

impl Window {
    /// Whether it should have had a put, and has not.
    fn lacks(&self, (revision, key): &(u64, String)) -> bool {
        let rest = key.strip_prefix(&*self.watched);
        let concerns = self.watched.is_empty()
            || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let within = *revision > self.from && *revision <= self.upto;
        concerns && within && !self.revisions.contains(revision)
    }
}

impl Watches {
    fn asked(&mut self, call: CallId, asked: &Call, shadow: &Shadow) {
        let namespace = shadow.coordination().named(&asked.namespace);
        let Some(life) = namespace.map(|of| (asked.namespace.clone(), of.head().incarnation))
        else {
            return;
        };
        let open = match &asked.method {
            Method::PutKeyValue { key, .. } | Method::IncrementKeyValue { key, .. } => {
                Open::Put(life, normal(key))
            }
            Method::WatchKeys { key, from } => {
                Open::Watch(life, normal(key), from.map(|from| from.get()))
            }
            _ => return,
        };
        self.open.insert(call, open);
    }

    fn told(&mut self, call: CallId, reply: Option<&Reply>) -> Verdict {
        match (self.open.remove(&call), reply) {
            (
                Some(Open::Put(life, key)),
                Some(Reply::Put { revision } | Reply::Value { revision, .. }),
            ) => self.put(life, (revision.get(), key)),
            (Some(Open::Watch(life, key, from)), Some(Reply::Changes { changes, upto })) => {
                self.changed(life, key, from, changes, upto.get())
            }
            _ => Ok(()),
        }
    }

    fn put(&mut self, life: Life, put: (u64, String)) -> Verdict {
        reached(Check::WatchPut);
        let known = self.lives.entry(life).or_default();
        if known.puts.contains(&put) {
            return Ok(());
        }
        if let Some(window) = known.windows.iter().find(|window| window.lacks(&put)) {
            return Err(format!(
                "put {put:?} was told, and an answer to a watch lacks it: {window:?}"
            ));
        }
        known.puts.push_back(put);
        if known.puts.len() > REMEMBERED {
            known.puts.pop_front();
        }
        Ok(())
    }

    fn changed(
        &mut self,
        life: Life,
        watched: String,
        from: Option<u64>,
        changes: &[Change],
        upto: u64,
    ) -> Verdict {
        let Some(from) = from else {
            return Err(format!("changes {changes:?} for one who knew nothing before"));
        };
        reached(Check::WatchChanges);
        let mut last = from;
        for change in changes {
            if change.revision.get() <= last || change.revision.get() > upto {
                return Err(format!(
                    "change {change:?} does not come after revision {last} and up to {upto}"
                ));
            }
            last = change.revision.get();
        }
        let puts = changes.iter().filter(|change| matches!(change.kind, ChangeKind::Put(_)));
        let revisions = puts.map(|change| change.revision.get()).collect();
        let window = Window { watched, from, upto, revisions };
        let known = self.lives.entry(life).or_default();
        if let Some(put) = known.puts.iter().find(|put| window.lacks(put)) {
            return Err(format!("an answer to a watch lacks put {put:?}: {window:?}"));
        }
        known.windows.push_back(window);
        if known.windows.len() > REMEMBERED {
            known.windows.pop_front();
        }
        Ok(())
    }
}

impl Oracle for Watches {
    fn name(&self) -> &'static str {
        "watch"
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Asked { call, asked, .. } => self.asked(*call, asked, shadow),
            Seen::Told { call, answer, .. } => return self.told(*call, answer.as_ref().ok()),
            Seen::Died => self.open.clear(),
            _ => {}
        }
        Ok(())
    }
}
