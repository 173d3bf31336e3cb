//! Workers that have failed are tried again, one after the other. One that is back would serve nothing
//! otherwise while others do; and of those that are gone, each trial costs a split some time.

use crate::reader::shared::Shared;
use crate::reader::types::RpcId;
use crate::time::{Duration, Time};

/// The shortest pause after a trial that failed.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The pause is so many times as long as the trial was: a trial of a host that is switched off takes seconds,
/// and a reader may have one stream.
const PAUSES_PER_TRIAL: u64 = 10;

/// The trial under way, and when the next may begin.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    under_way: Option<(RpcId, Time)>,
    next: Time,
}

impl Trial {
    /// The worker to try now, if there is one: the one that failed longest ago and may be asked again.
    pub(super) fn worker<'a>(&self, now: Time, shared: &'a Shared) -> Option<&'a str> {
        if self.under_way.is_some() || now < self.next {
            return None;
        }
        let is_due = |name: &str| shared.is_doubtful(name) && !shared.is_failing(name, now);
        let names = shared.tasks.iter().map(|task| &*task.worker).filter(|name| is_due(name));
        names.min_by_key(|name| shared.last_failed(name))
    }

    /// A worker that has failed is asked.
    pub(super) const fn begin(&mut self, now: Time, rpc: RpcId) {
        if self.under_way.is_none() {
            self.under_way = Some((rpc, now));
        }
    }

    /// A stream has failed.
    pub(super) fn failed(&mut self, now: Time, rpc: RpcId) {
        if let Some((_, began)) = self.under_way.filter(|(of, _)| *of == rpc) {
            let took = now.since(began).as_nanos().saturating_mul(PAUSES_PER_TRIAL);
            self.next = now.after(Duration::from_nanos(took).max(PAUSE_MIN));
            self.under_way = None;
        }
    }

    /// A stream has brought records, or is closed.
    pub(super) fn ended(&mut self, rpc: RpcId) {
        self.under_way = self.under_way.filter(|(of, _)| *of != rpc);
    }
}
