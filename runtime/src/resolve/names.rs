//! Names of hosts.

use std::net::IpAddr;

/// Addresses of a host, as the system's resolver gives them.
///
/// # Errors
/// Why there are none, in its words.
pub(super) async fn addresses(name: &str) -> Result<Vec<IpAddr>, String> {
    // The port plays no part: addresses alone are wanted.
    let found = tokio::net::lookup_host((name, 0)).await.map_err(|error| error.to_string())?;
    Ok(found.map(|address| address.ip()).collect())
}
