//! Why a database does not open, and panics of sled's as errors.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::database::LOG_FILE;
use crate::store::disk::{is_full, is_passing};
use crate::store::{AppendError, StoreError};

/// Why a database does not open.
#[derive(Debug)]
pub(super) enum OpenError {
    /// What sled says.
    Sled(sled::Error),
    /// sled's log cannot be opened beside sled.
    Log(io::Error),
    /// An operation on the database that failed before sled could open it, such as "cannot copy", and its
    /// error.
    Io(&'static str, io::Error),
    /// What sled said as it panicked.
    Panicked(String),
}

impl OpenError {
    /// The error of a store that opens what is at `path`.
    pub(super) fn of_store(self, path: &Path) -> StoreError {
        let damaged = |said: &str| StoreError::damaged("cannot open", path, &unreadable(said));
        match self {
            Self::Panicked(said) => damaged(&said),
            Self::Sled(error) if is_damage(&error) => damaged(&error.to_string()),
            Self::Sled(error) => StoreError::new("cannot open", path, &error),
            Self::Io(what, error) => StoreError::new(what, path, &error),
            Self::Log(error) => {
                let reason = format!(
                    "sled's log file {LOG_FILE} cannot be opened ({error}); without syncing it nothing would \
                     be durable. Is this sled 0.34.7?"
                );
                StoreError::new("cannot open", path, &reason)
            }
        }
    }

    /// The error of creating the segment at `path`, which takes `needed_bytes`.
    pub(super) fn of_creation(self, path: &Path, needed_bytes: u64) -> AppendError {
        match self {
            Self::Sled(sled::Error::Io(error)) | Self::Log(error) | Self::Io(_, error)
                if is_full(&error) || is_passing(&error) =>
            {
                AppendError::no_segment(path, needed_bytes, &error)
            }
            lasting => lasting.of_store(path).into(),
        }
    }
}

/// Whether an error of sled's says that bytes are not what sled wrote there.
fn is_damage(error: &sled::Error) -> bool {
    match error {
        sled::Error::Corruption { .. } | sled::Error::ReportableBug(_) => true,
        // A file that ends too early.
        sled::Error::Io(error) => error.kind() == io::ErrorKind::UnexpectedEof,
        _ => false,
    }
}

/// What to do about bytes that sled cannot read.
pub(super) fn unreadable(said: &str) -> String {
    format!(
        "sled cannot read what it wrote there ({said}). If only its own snapshot is damaged (snap.*), sled \
         may do without it: copy the data directory, remove that file from the copy, and try `rondo journal \
         verify` there, which says whether records are missing. Otherwise restore the data directory from a \
         copy"
    )
}

/// Does something that sled panics over when it meets bytes that it did not write.
///
/// # Errors
/// What sled said as it panicked.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // A database that panicked is not used any more.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| text(panic.as_ref()).to_owned())
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for no reason that is known")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_something_passes_while_a_segment_is_created() {
        let created = |error: OpenError| error.of_creation(Path::new("1.sled"), 9);
        let of_number = |number| sled::Error::Io(io::Error::from_raw_os_error(number));
        // EMFILE and ENOSPC.
        assert!(matches!(created(OpenError::Sled(of_number(24))), AppendError::Later { .. }));
        assert!(matches!(created(OpenError::Sled(of_number(28))), AppendError::Full { .. }));
        let log = OpenError::Log(io::Error::from_raw_os_error(24));
        assert!(matches!(created(log), AppendError::Later { .. }));
        let copy = |number| OpenError::Io("cannot copy", io::Error::from_raw_os_error(number));
        assert!(matches!(created(copy(24)), AppendError::Later { .. }));
        assert!(matches!(created(copy(28)), AppendError::Full { .. }));
        for (lasting, is_damage) in [
            (OpenError::Sled(of_number(5)), false),
            (OpenError::Sled(sled::Error::Corruption { at: None, bt: () }), true),
            (OpenError::Panicked("duplicate segment".into()), true),
        ] {
            let AppendError::Failed(error) = created(lasting) else { panic!("it passes") };
            assert_eq!(error.is_damage, is_damage, "{error}");
        }
    }

    #[test]
    fn a_start_without_descriptors_is_no_damage() {
        let lacking = || io::Error::from_raw_os_error(24);
        for error in [OpenError::Sled(sled::Error::Io(lacking())), OpenError::Log(lacking())] {
            let error = error.of_store(Path::new("1.sled"));
            assert!(!error.is_damage && error.to_string().contains("os error 24"), "{error}");
        }
    }

    #[test]
    fn a_panic_is_an_error() {
        let none: [u8; 0] = [];
        let place = none.len() + 3;
        let said = guarded(|| none[place]).unwrap_err();
        assert!(said.contains("index out of bounds"), "{said}");
        assert_eq!(guarded(|| 7), Ok(7));
    }
}
