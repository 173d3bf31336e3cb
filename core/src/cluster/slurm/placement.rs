//! Which rank runs where.

use alloc::format;
use alloc::vec::Vec;

use super::super::asking::Seen;
use super::super::error::{Error, Fault, quoted};
use super::super::options::whole;

pub(super) const DISTRIBUTION: &str = "SLURM_DISTRIBUTION";
const PLANE_SIZE: &str = "SLURM_DIST_PLANESIZE";

/// How ranks are dealt to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Each host is filled before the next.
    Block,
    /// One to each host in turn.
    Cyclic,
    /// So many to each host in turn.
    Plane(u32),
    /// As the user said in a file that no task sees.
    Arbitrary,
}

impl Layout {
    pub(super) fn of(seen: &Seen) -> Result<Self, Error> {
        let text = seen.filled(DISTRIBUTION).unwrap_or("block");
        let nodes = text.split([':', ',']).next().unwrap_or_default();
        let (kind, size) =
            nodes.split_once('=').map_or((nodes, None), |(kind, size)| (kind, Some(size)));
        match kind.to_ascii_lowercase().as_str() {
            "block" | "*" => Ok(Self::Block),
            "cyclic" => Ok(Self::Cyclic),
            "arbitrary" => Ok(Self::Arbitrary),
            "plane" => {
                let size = size.or_else(|| seen.filled(PLANE_SIZE));
                let size = size.map(|size| whole(PLANE_SIZE, size)).transpose()?;
                size.filter(|size| *size > 0).map(Self::Plane).ok_or_else(|| {
                    Error::missing(PLANE_SIZE, "ranks are laid out in planes, of a size not told")
                })
            }
            _ => {
                let text = format!("{} is no layout that is known here", quoted(text));
                Err(Error::new(Fault::PlacementUnknown, DISTRIBUTION, text))
            }
        }
    }
}

/// A rank's place: its host, as an index, and its number on that host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The host's index.
    pub host: usize,
    /// The task's number there.
    pub local: u32,
}

/// Places of all ranks in order, hosts having so many tasks each; `None` where the layout does not tell.
pub fn places(counts: &[u32], layout: Layout) -> Option<Vec<Place>> {
    let turn = match layout {
        Layout::Block => u32::MAX,
        Layout::Cyclic => 1,
        Layout::Plane(size) => size.max(1),
        Layout::Arbitrary if counts.iter().filter(|count| **count > 0).count() <= 1 => u32::MAX,
        Layout::Arbitrary => return None,
    };
    let mut places = Vec::new();
    let mut open: Vec<(usize, u32)> = counts.iter().map(|_| 0).enumerate().collect();
    while !open.is_empty() {
        open.retain_mut(|(host, given)| {
            let count = counts.get(*host).copied().unwrap_or_default();
            let upto = given.saturating_add(turn).min(count);
            places.extend((*given..upto).map(|local| Place { host: *host, local }));
            *given = upto;
            upto < count
        });
    }
    Some(places)
}
