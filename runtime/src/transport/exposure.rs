//! Addresses that other machines can reach: without TLS they are listened on only if the user says so.

use std::net::SocketAddr;

/// An address that other machines can reach, and that nobody allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} can be reached by other machines, and there is no TLS: whoever reaches it could read and change \
     everything. Listen on a loopback address such as 127.0.0.1, or allow it if the network is trusted: with \
     --insecure (RONDO_INSECURE=true) on the command line, or with `insecure` in a program"
)]
pub(crate) struct Exposed(pub(crate) SocketAddr);

/// Refuses an address that other machines can reach, unless they may.
///
/// # Errors
/// [`Exposed`].
pub(crate) fn check(address: SocketAddr, insecure: bool) -> Result<(), Exposed> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    if !insecure {
        return Err(Exposed(address));
    }
    tracing::warn!(%address, "no TLS: whoever reaches this address can read and change everything");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_address_and_each_way_to_allow_it() {
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            let text = check(address.parse().unwrap(), false).unwrap_err().to_string();
            for word in [address, "--insecure", "`insecure`", "RONDO_INSECURE=true"] {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    }
}
