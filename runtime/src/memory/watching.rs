//! A thread that looks at how much memory the process has resident, and tells the ceiling.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Weak;
use std::thread;
use std::time::{Duration, Instant};

use super::Ceiling;
use crate::allocator;

/// Time between two looks while much memory is free, and while more than half of it is used. A process that
/// fills half of 256 MiB between two looks would have to take 2.5 GiB a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const LOOK_INTERVAL_NEAR: Duration = Duration::from_millis(10);

/// Time between two requests to the allocator to give back what is free.
const GIVE_BACK_PAUSE: Duration = Duration::from_millis(500);
/// The same when it has had little to give back for some time, and nothing is refused.
const GIVE_BACK_PAUSE_MAX: Duration = Duration::from_secs(10);
/// The longest time between two while something is refused.
const GIVE_BACK_PAUSE_MAX_REFUSING: Duration = Duration::from_secs(2);
/// A request holds up threads that allocate. So the time between two is this many times as long as the last
/// one took.
const GIVE_BACK_PARTS: u32 = 20;

/// Time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Watches the process for the ceiling, as long as anybody has that.
///
/// # Errors
/// When the system does not show the process's memory, or gives no thread.
pub fn watch(ceiling: &Ceiling) -> io::Result<()> {
    let mut look = Look::new()?;
    ceiling.begin_with(look.resident()?);
    let weak = ceiling.downgrade();
    let watching = move || {
        while let Some(pause) = look.once(&weak) {
            thread::sleep(pause)
        }
    };
    thread::Builder::new().name("rondo-memory".to_owned()).spawn(watching).map(drop)
}

/// The bytes that the process has resident.
///
/// # Errors
/// When the system does not show them.
pub fn resident_bytes() -> io::Result<u64> {
    Look::new()?.resident()
}

struct Look {
    shown: File,
    /// When the allocator was asked last.
    gave_back: Option<Instant>,
    /// How long to wait until it is asked again: longer after each time at which it gave back little.
    give_back_pause: Duration,
    /// How long to wait at least, by the time that the last request took.
    give_back_pause_min: Duration,
    /// When the last warning was written.
    warned: Option<Instant>,
}

impl Look {
    fn new() -> io::Result<Self> {
        Ok(Self {
            shown: File::open("/proc/self/status")?,
            gave_back: None,
            give_back_pause: GIVE_BACK_PAUSE,
            give_back_pause_min: Duration::ZERO,
            warned: None,
        })
    }

    /// The bytes that the process has resident.
    fn resident(&self) -> io::Result<u64> {
        let mut text = [0; 4096];
        let length = self.shown.read_at(&mut text, 0)?;
        let text = text.get(..length).and_then(|text| std::str::from_utf8(text).ok());
        let bytes = text.and_then(own_bytes);
        bytes.ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))
    }

    /// Looks, and tells the ceiling. How long to wait until the next look; `None` when nobody has the ceiling
    /// any more.
    fn once(&mut self, ceiling: &Weak<super::ceiling::Memory>) -> Option<Duration> {
        let ceiling = Ceiling::upgrade(ceiling)?;
        let most = ceiling.bytes_max();
        let resident = self.give_back(&ceiling, self.resident_of(&ceiling));
        ceiling.see(resident);
        if ceiling.is_reached() && is_due(self.warned, WARNING_INTERVAL) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                resident,
                bound = most,
                "memory is at its bound (--memory-max): new work is refused"
            );
        }
        Some(if resident >= most / 2 { LOOK_INTERVAL_NEAR } else { LOOK_INTERVAL })
    }

    /// Has the allocator give back free memory, if it is time: the server may refuse keys or work for want of
    /// that. Returns how many bytes are resident then.
    fn give_back(&mut self, ceiling: &Ceiling, resident: u64) -> u64 {
        let refuses = ceiling.refuses_state() || ceiling.has_refused();
        let is_wanted = refuses || resident >= ceiling.bytes_max() / 2;
        let (pause, most) = match refuses {
            true => (GIVE_BACK_PAUSE, GIVE_BACK_PAUSE_MAX_REFUSING),
            false => (self.give_back_pause, GIVE_BACK_PAUSE_MAX),
        };
        let pause = pause.max(self.give_back_pause_min).min(most);
        if !is_wanted || !is_due(self.gave_back, pause) {
            return resident;
        }
        let began = Instant::now();
        allocator::give_back();
        self.gave_back = Some(Instant::now());
        self.give_back_pause_min = began.elapsed().saturating_mul(GIVE_BACK_PARTS);
        let left = self.resident_of(ceiling);
        let is_much = resident.saturating_sub(left) >= ceiling.bytes_max() / 64;
        self.give_back_pause = match is_much {
            true => GIVE_BACK_PAUSE,
            false => self.give_back_pause.saturating_mul(2).min(GIVE_BACK_PAUSE_MAX),
        };
        left
    }

    /// The bytes that the process has resident. Where the system does not tell now, those of the last look.
    fn resident_of(&self, ceiling: &Ceiling) -> u64 {
        self.resident().unwrap_or_else(|error| {
            tracing::debug!(%error, "the process's memory cannot be read");
            ceiling.resident_bytes()
        })
    }
}

/// The resident bytes that are not shared memory, as the system shows a process.
fn own_bytes(status: &str) -> Option<u64> {
    let kib = |name: &str| -> Option<u64> {
        let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_ascii_whitespace().next()?.parse().ok()
    };
    // Old systems do not tell the second number.
    Some(kib("VmRSS:")?.saturating_sub(kib("RssShmem:").unwrap_or(0)).saturating_mul(1 << 10))
}

fn is_due(last: Option<Instant>, interval: Duration) -> bool {
    last.is_none_or(|last| last.elapsed() >= interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn wait_until(what: impl Fn() -> bool) {
        let began = Instant::now();
        while !what() {
            assert!(began.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Others may take and free memory in this process meanwhile, but less than this test does.
    #[test]
    fn the_ceiling_hears_of_what_becomes_resident() {
        let ceiling = Ceiling::new(u64::MAX);
        watch(&ceiling).unwrap();
        let before = ceiling.resident_bytes();
        assert!(before > MIB, "{before}");
        let much = vec![1_u8; 256 * MIB as usize];
        wait_until(|| ceiling.resident_bytes() > before + 192 * MIB);
        drop(std::hint::black_box(much));
        wait_until(|| ceiling.resident_bytes() < before + 128 * MIB);
    }

    #[test]
    fn shared_memory_does_not_count() {
        let status = "Name:\trondo\nVmHWM:\t 9000 kB\nVmRSS:\t  5000 kB\nRssAnon:\t 3000 kB\n\
                      RssFile:\t 1000 kB\nRssShmem:\t 1000 kB\nVmData:\t 1 kB\n";
        assert_eq!(own_bytes(status), Some(4000 << 10));
        assert_eq!(own_bytes("VmRSS:\t 1 kB\n"), Some(1 << 10));
        assert_eq!(own_bytes("RssShmem:\t 1 kB\n"), None);
    }

    #[test]
    fn a_process_at_its_ceiling_is_told_so() {
        let ceiling = Ceiling::new(MIB);
        watch(&ceiling).unwrap();
        assert!(ceiling.is_reached());
    }

    #[test]
    fn the_thread_ends_with_the_ceiling() {
        let ceiling = Ceiling::new(u64::MAX);
        watch(&ceiling).unwrap();
        let weak = ceiling.downgrade();
        drop(ceiling);
        wait_until(|| weak.strong_count() == 0);
    }
}
