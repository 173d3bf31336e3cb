//! How many GPUs the host has, as NVIDIA's management library (NVML) counts them: those that the driver can
//! use at the moment. It is built in with the feature `nvml` and loaded when it is asked, so a program with
//! it starts where there is no driver.

use std::fmt::Debug;
use std::sync::Arc;

/// A library that knows the host's GPUs.
pub(super) trait Library: Debug + Send + Sync {
    /// How many there are.
    ///
    /// # Errors
    /// Why it cannot tell: there is no library, no driver, or none that it can talk to.
    fn count(&self) -> Result<u32, String>;
}

/// The library that this build can ask; it may turn out not to be on this machine.
#[cfg(feature = "nvml")]
pub(super) fn library() -> Option<Arc<dyn Library>> {
    Some(Arc::new(Nvml))
}

/// This build can ask none.
#[cfg(not(feature = "nvml"))]
pub(super) fn library() -> Option<Arc<dyn Library>> {
    None
}

#[cfg(feature = "nvml")]
#[derive(Debug)]
struct Nvml;

#[cfg(feature = "nvml")]
impl Library for Nvml {
    fn count(&self) -> Result<u32, String> {
        // Loaded for the one question: it is asked once a look, and holds the driver's memory while open.
        let library = nvml_wrapper::Nvml::init().map_err(|error| error.to_string())?;
        library.device_count().map_err(|error| error.to_string())
    }
}

#[cfg(all(test, feature = "nvml"))]
mod tests {
    use super::*;

    /// With a driver it counts what its device files count, without one it says that it cannot.
    #[test]
    fn the_real_library_agrees_with_the_drivers_files_or_is_not_there() {
        let files = std::fs::read_dir("/proc/driver/nvidia/gpus").map(Iterator::count);
        match (library().unwrap().count(), files) {
            (Ok(count), Ok(files)) => assert_eq!(count as usize, files),
            (Ok(count), Err(_)) => assert_eq!(count, 0),
            (Err(why), files) => {
                assert!(files.is_err(), "{why}");
                assert!(!why.is_empty());
            }
        }
    }
}
