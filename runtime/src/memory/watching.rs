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
const GIVE_BACK_INTERVAL: Duration = Duration::from_millis(500);

/// Time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Watches the process for the ceiling, as long as anybody has that.
///
/// # Errors
/// When the system does not show the process's memory, or gives no thread.
pub fn watch(ceiling: &Ceiling) -> io::Result<()> {
    let mut look = Look::new()?;
    ceiling.see(look.resident()?);
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
    page_bytes: u64,
    /// When the allocator was asked last.
    gave_back: Option<Instant>,
    /// When the last warning was written.
    warned: Option<Instant>,
}

impl Look {
    fn new() -> io::Result<Self> {
        Ok(Self {
            shown: File::open("/proc/self/statm")?,
            page_bytes: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
            gave_back: None,
            warned: None,
        })
    }

    /// The bytes that the process has resident.
    fn resident(&self) -> io::Result<u64> {
        let mut text = [0; 128];
        let length = self.shown.read_at(&mut text, 0)?;
        let text = text.get(..length).and_then(|text| std::str::from_utf8(text).ok());
        let pages = text.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        let pages =
            pages.ok_or_else(|| io::Error::other("/proc/self/statm has no second number"))?;
        Ok(pages.saturating_mul(self.page_bytes))
    }

    /// Looks, and tells the ceiling. How long to wait until the next look; `None` when nobody has the ceiling
    /// any more.
    fn once(&mut self, ceiling: &Weak<super::ceiling::Memory>) -> Option<Duration> {
        let ceiling = Ceiling::upgrade(ceiling)?;
        let (mut resident, most) = (self.resident_of(&ceiling), ceiling.bytes_max());
        // The allocator may keep free memory for want of which the server refuses keys or work.
        let is_short = || resident >= ceiling.state_bytes_max() || ceiling.has_refused();
        if is_due(self.gave_back, GIVE_BACK_INTERVAL) && is_short() {
            allocator::give_back();
            self.gave_back = Some(Instant::now());
            resident = self.resident_of(&ceiling);
        }
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

    /// The bytes that the process has resident. Where the system does not tell now, those of the last look.
    fn resident_of(&self, ceiling: &Ceiling) -> u64 {
        self.resident().unwrap_or_else(|error| {
            tracing::debug!(%error, "the process's memory cannot be read");
            ceiling.resident_bytes()
        })
    }
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
