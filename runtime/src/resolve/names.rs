//! Names of hosts and of services.

use std::net::IpAddr;

use rondo_core::cluster::Service;

/// Addresses of a host, as the system's resolver gives them.
///
/// # Errors
/// Why there are none, in its words.
pub(super) async fn addresses(name: &str) -> Result<Vec<IpAddr>, String> {
    // The port plays no part: addresses alone are wanted.
    let found = tokio::net::lookup_host((name, 0)).await.map_err(|error| error.to_string())?;
    Ok(found.map(|address| address.ip()).collect())
}

/// SRV records.
///
/// # Errors
/// Always: the system's resolver has no interface for them.
pub(super) fn services(name: &str) -> Result<Vec<Service>, String> {
    Err(format!(
        "unsupported: SRV records of {name:?} cannot be looked up in this build; give the dns resolver a \
         host's name and a port, or use kubernetes_service"
    ))
}
