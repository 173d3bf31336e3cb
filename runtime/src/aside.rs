//! Work that takes milliseconds, beside the threads that serve connections: decoding, decompressing, encoding
//! and hashing of what is long. A few pieces of it run at a time, so that they leave processors to the node's
//! loop, and take turns in order of arrival.

use rondo_core::status::Status;

/// Does the work on a thread that may block, when there is a place for it.
///
/// # Errors
/// INTERNAL when the work panics. `what` says what was done.
#[cfg(not(madsim))]
pub(crate) async fn aside<T, F>(what: &str, work: F) -> Result<T, Status>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    // The semaphore is never closed. The work keeps its place to its end, also when the caller has left.
    let place = std::sync::Arc::clone(&PLACES).acquire_owned().await.ok();
    let work = move || {
        let _place = place;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        Status::new(rondo_core::status::Code::Internal, format!("{what}: {error}"))
    })
}

/// Pieces of work that may run at a time: for half of the processors, two at least.
#[cfg(not(madsim))]
static PLACES: std::sync::LazyLock<std::sync::Arc<tokio::sync::Semaphore>> =
    std::sync::LazyLock::new(|| {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        std::sync::Arc::new(tokio::sync::Semaphore::new((processors / 2).max(2)))
    });

/// Does the work where it stands: simulation has no threads.
///
/// # Errors
/// Never.
#[cfg(madsim)]
pub(crate) async fn aside<T, F>(_what: &str, work: F) -> Result<T, Status>
where
    F: FnOnce() -> T,
{
    std::future::ready(Ok(work())).await
}
