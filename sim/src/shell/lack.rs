//! A lack of descriptors or memory that passes: operations of the disk fail, and change nothing.

use std::io;

use crate::rng::Stream;

/// The system's number for: a signal came first.
const EINTR: i32 = 4;
/// The system's number for: there is no memory.
pub(super) const ENOMEM: i32 = 12;
/// The system's number for: all processes together have as many files open as they may.
pub(super) const ENFILE: i32 = 23;
/// The system's number for: the process has as many files open as it may.
pub(super) const EMFILE: i32 = 24;

/// The system resource that an operation of the disk needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// None, or none whose lack the server promises to live through.
    Nothing,
    /// A descriptor.
    Descriptor,
    /// Memory, and time without a signal.
    Memory,
}

impl Need {
    /// The errors of an operation that does not get it.
    const fn errors(self) -> &'static [i32] {
        match self {
            Self::Nothing => &[],
            Self::Descriptor => &[EMFILE, ENFILE],
            Self::Memory => &[ENOMEM, EINTR],
        }
    }
}

/// The resources that the system lacks at present.
pub(super) struct Lack {
    stream: Stream,
    /// Of a thousand operations that need something, this many fail; 0 while nothing is lacking.
    fails: u32,
    /// Whether an operation of this life has failed.
    has_failed: bool,
}

impl Lack {
    /// Nothing is lacking yet.
    pub(super) const fn new(stream: Stream) -> Self {
        Self { stream, fails: 0, has_failed: false }
    }

    /// From here on, this many of a thousand operations fail.
    pub(super) const fn set(&mut self, fails: u32) {
        self.fails = fails;
    }

    /// Gives an operation its resource, or says why not.
    pub(super) fn supply(&mut self, need: Need) -> io::Result<()> {
        let errors = need.errors();
        if errors.is_empty() || !self.stream.chance(self.fails) {
            return Ok(());
        }
        self.has_failed = true;
        let number = self.stream.pick(errors).copied().unwrap_or(ENOMEM);
        Err(io::Error::from_raw_os_error(number))
    }

    /// Another process has the disk from here on.
    pub(super) const fn begin_life(&mut self) {
        self.has_failed = false;
    }

    /// Whether an operation of this life has failed.
    pub(super) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The stream, for another disk on which nothing is lacking.
    pub(super) fn stream(&self) -> Stream {
        self.stream.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_fail_by_what_they_need_and_only_while_it_is_lacking() {
        let mut lack = Lack::new(Stream::of_seed(7));
        let all = [Need::Nothing, Need::Descriptor, Need::Memory];
        all.iter().for_each(|need| lack.supply(*need).unwrap());
        assert!(!lack.has_failed());
        lack.set(1000);
        for _ in 0..40 {
            lack.supply(Need::Nothing).unwrap();
            for need in [Need::Descriptor, Need::Memory] {
                let number = lack.supply(need).unwrap_err().raw_os_error().unwrap();
                assert!(need.errors().contains(&number), "{need:?}: {number}");
            }
        }
        lack.set(250);
        let failed = (0..1000).filter(|_| lack.supply(Need::Memory).is_err()).count();
        assert!((200..300).contains(&failed), "{failed}");
        lack.set(0);
        all.iter().for_each(|need| lack.supply(*need).unwrap());
        assert!(lack.has_failed());
        lack.begin_life();
        assert!(!lack.has_failed());
    }
}
