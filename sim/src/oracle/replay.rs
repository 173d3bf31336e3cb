//! Replay equals live: the state in memory is the one that the records make, and so is the one
//! that the stored bytes make.

use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

pub(super) struct Replay;

impl Oracle for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Looked, SeenKind::Reread]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Looked(node) => {
                reached(Check::ReplayMemory);
                let (last, written) = (node.last(), shadow.last());
                if last != written {
                    return Err(format!("the node is at record {last}, {written} was written"));
                }
                let same = node.dispatcher().state() == shadow.state()
                    && node.coordination().state() == shadow.coordination();
                match same {
                    true => Ok(()),
                    false => Err(format!("at record {last} memory differs from the records")),
                }
            }
            Seen::Reread(Err(reason)) => Err(format!("stored bytes cannot be read: {reason}")),
            Seen::Reread(Ok(recovered)) => {
                reached(Check::ReplayStored);
                let same = recovered.dispatcher == *shadow.state()
                    && recovered.coordination == *shadow.coordination();
                let last = recovered.applied;
                match same {
                    true => Ok(()),
                    false => Err(format!("at record {last} stored bytes differ from the records")),
                }
            }
            _ => Ok(()),
        }
    }
}
