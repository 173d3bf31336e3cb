//! A node starts unless what was acknowledged is damaged, and stops by itself only when the disk
//! has failed.

use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

pub(super) struct Start;

impl Oracle for Start {
    fn name(&self) -> &'static str {
        "start"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Halted, SeenKind::Recovered, SeenKind::NoteIgnored, SeenKind::StartRefused]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        if let Seen::StartRefused { .. } | Seen::Recovered { .. } = seen {
            reached(Check::Start);
        }
        match seen {
            Seen::StartRefused { reason, damaged: false } => {
                Err(format!("nothing was damaged, and the node refused to start: {reason}"))
            }
            Seen::NoteIgnored => {
                Err("acknowledged records are missing by the note, and the node serves".to_owned())
            }
            Seen::Halted { reason, disk_failed: false } => {
                Err(format!("no disk had failed, and the node halted: {reason}"))
            }
            _ => Ok(()),
        }
    }
}
