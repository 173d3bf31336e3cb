//! Whom to ask: what `/etc/resolv.conf` says.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};

use super::super::machine::Machine;

/// Where the name servers stand.
const CONFIGURATION: &str = "/etc/resolv.conf";
/// Name servers and search domains that are heeded, as in the C library.
const SERVERS_MAX: usize = 3;
const DOMAINS_MAX: usize = 6;
const PORT: u16 = 53;

/// Whom to ask, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Configuration {
    pub(super) servers: Vec<SocketAddr>,
    pub(super) domains: Vec<String>,
    /// A name with fewer dots is looked for in the domains first.
    pub(super) dots: usize,
}

impl Configuration {
    /// Reads the machine's `resolv.conf`.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(in super::super) fn read(machine: &Machine) -> Result<Self, String> {
        let text = machine.file(CONFIGURATION).map_err(|why| format!("{CONFIGURATION}: {why}"))?;
        Ok(Self::of(&text.unwrap_or_default(), |zone| interface(machine, zone)))
    }

    /// Reads a `resolv.conf`. Without a name server it is this machine's, as in the C library.
    fn of(text: &str, interface: impl Fn(&str) -> Option<u32>) -> Self {
        let mut found = Self { servers: Vec::new(), domains: Vec::new(), dots: 1 };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let word = words.next().unwrap_or_default();
                    match server(word, &interface) {
                        Some(server) => found.servers.push(server),
                        None => tracing::warn!(
                            "{CONFIGURATION}: the name server {word:?} is no address, or its zone no \
                             interface of this machine: it is not asked"
                        ),
                    }
                }
                Some("search" | "domain") => {
                    found.domains = words.take(DOMAINS_MAX).map(str::to_owned).collect();
                }
                Some("options") => {
                    let mut dots =
                        words.filter_map(|word| word.strip_prefix("ndots:")?.parse().ok());
                    found.dots = dots.next_back().unwrap_or(found.dots);
                }
                _ => {}
            }
        }
        found.servers.truncate(SERVERS_MAX);
        if found.servers.is_empty() {
            found.servers.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        found
    }

    /// The names that a name may stand for, in the order in which they are tried.
    pub(super) fn names(&self, name: &str) -> Vec<String> {
        if let Some(whole) = name.strip_suffix('.') {
            return vec![whole.to_owned()];
        }
        // The root as a domain adds nothing to the name.
        let domains = self.domains.iter().map(|domain| domain.trim_matches('.'));
        let domains = domains.filter(|domain| !domain.is_empty());
        let mut names: Vec<String> = domains.map(|domain| format!("{name}.{domain}")).collect();
        let is_whole = name.matches('.').count() >= self.dots;
        names.insert(if is_whole { 0 } else { names.len() }, name.to_owned());
        names
    }
}

/// A name server's address. One of IPv6 may have a zone, `fe80::1%eth0`: the interface behind which it is.
fn server(word: &str, interface: impl Fn(&str) -> Option<u32>) -> Option<SocketAddr> {
    let Some((ip, zone)) = word.split_once('%') else {
        return Some(SocketAddr::new(word.parse().ok()?, PORT));
    };
    let scope = zone.parse().ok().or_else(|| interface(zone))?;
    Some(SocketAddrV6::new(ip.parse().ok()?, PORT, 0, scope).into())
}

/// The number of an interface.
fn interface(machine: &Machine, name: &str) -> Option<u32> {
    if name.contains(['/', '.']) {
        return None;
    }
    let text = machine.file(&format!("/sys/class/net/{name}/ifindex")).ok()??;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Configuration {
        Configuration::of(text, |zone| (zone == "eth0").then_some(7))
    }

    #[test]
    fn the_configuration_is_read_as_the_c_library_does() {
        let text = "# a\nnameserver 10.0.0.10\nsearch ml.svc.c. svc.c\noptions ndots:5 timeout:1\n";
        let found = of(text);
        assert_eq!(found.servers, ["10.0.0.10:53".parse().unwrap()]);
        assert_eq!(
            found.names("_a._tcp.b"),
            ["_a._tcp.b.ml.svc.c", "_a._tcp.b.svc.c", "_a._tcp.b"]
        );
        assert_eq!(found.names("_a._tcp.b."), ["_a._tcp.b"]);
        assert_eq!(of("").names("a.b"), ["a.b"]);
        assert_eq!(of("").servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn the_root_as_a_search_domain_adds_nothing() {
        let found = of("search . svc.c\noptions ndots:5\n");
        assert_eq!(found.names("_a._tcp.b"), ["_a._tcp.b.svc.c", "_a._tcp.b"]);
    }

    #[test]
    fn a_name_server_may_be_behind_an_interface() {
        let found = of("nameserver fe80::1%eth0\nnameserver fe80::2%3\nnameserver fe80::3%gone\n");
        let zoned = |ip: &str, scope| SocketAddrV6::new(ip.parse().unwrap(), 53, 0, scope).into();
        assert_eq!(found.servers, [zoned("fe80::1", 7), zoned("fe80::2", 3)]);
    }
}
