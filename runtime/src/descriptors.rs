//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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

#[cfg(test)]
mod tests {
    use super::*;

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
