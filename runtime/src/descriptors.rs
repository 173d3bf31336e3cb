//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::transport::turned_away::TURNED_AWAY_MAX;

/// Raises the number of descriptors that the process may have open to the most that the system allows it.
/// A login or a unit of systemd begins with 1,024, which fewer workers than that use up. Returns the number.
pub fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, limit = limit.current, "the limit on open files stays as it is");
            limit.current
        }
    }
}

/// Descriptors that connections leave free, at least: for the journal, files that are read, and connections
/// that the server makes itself.
const RESERVED_MIN: u64 = 64;

/// How many connections each of `listeners` may have open, where each wants `wanted`, and `refused` more that
/// it turns away. The listeners share what `limit` leaves evenly, so that one cannot take all.
fn connections(limit: Option<u64>, listeners: usize, wanted: usize, refused: usize) -> usize {
    let Some(limit) = limit else { return wanted };
    let left = limit.saturating_sub(RESERVED_MIN.max(limit / 8));
    let each = left / u64::try_from(listeners.max(1)).unwrap_or(u64::MAX);
    let each = each.saturating_sub(u64::try_from(refused).unwrap_or(u64::MAX));
    usize::try_from(each).unwrap_or(usize::MAX).clamp(1, wanted.max(1))
}

/// How many connections each of `listeners` may have open, as far as this process may open files. `wanted` of
/// each are wanted, as a setting of this name says; fewer are told of.
pub fn allowed(listeners: usize, wanted: usize, setting: &str) -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let each = connections(limit, listeners, wanted, TURNED_AWAY_MAX);
    if each < wanted {
        tracing::warn!(
            connections = each,
            wanted,
            "the limit on open files (ulimit -n) allows each listener fewer connections than {setting}"
        );
    }
    each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        assert_eq!(connections(None, 3, 10_000, 16), 10_000);
        assert_eq!(connections(Some(1 << 20), 3, 10_000, 16), 10_000);
        assert_eq!(connections(Some(1024), 1, 10_000, 16), 880);
        assert_eq!(connections(Some(1024), 4, 10_000, 16), 208);
        assert_eq!(connections(Some(128), 1, 10_000, 16), 48);
        assert_eq!(connections(Some(10), 1, 10_000, 16), 1);
        assert_eq!(connections(Some(1024), 1, 7, 16), 7);
    }

    #[test]
    fn as_many_descriptors_may_be_open_as_the_system_allows() {
        let Rlimit { maximum: most, .. } = getrlimit(Resource::Nofile);
        // One less than allowed, so that there is something to raise; other tests do not notice.
        let less = most.map_or(Some(1 << 20), |most| Some(most - 1));
        setrlimit(Resource::Nofile, Rlimit { current: less, maximum: most }).unwrap();
        assert_eq!(raise(), most);
        assert_eq!(getrlimit(Resource::Nofile).current, most);
        assert_eq!(raise(), most);
    }
}
