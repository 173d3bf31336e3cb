//! SRV records (RFC 2782), which the system's resolver has no interface for: asked of the name servers in
//! `/etc/resolv.conf`, by UDP, and by TCP where the answer is cut off (RFC 1035).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rondo_core::cluster::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::entropy::Entropy;

/// Where the name servers stand.
pub(super) const CONFIGURATION: &str = "/etc/resolv.conf";
/// Name servers and search domains that are heeded, as in the C library.
const SERVERS_MAX: usize = 3;
const DOMAINS_MAX: usize = 6;
/// How long one name server may take before the next one is asked.
const SERVER_PATIENCE: Duration = Duration::from_secs(1);
const PORT: u16 = 53;
const SRV: u16 = 33;
const INTERNET: u16 = 1;
/// Longest name, in bytes as sent.
const NAME_BYTES_MAX: usize = 255;
/// Longest message by UDP that is taken.
const DATAGRAM_BYTES_MAX: usize = 4096;

/// Whom to ask, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Configuration {
    servers: Vec<SocketAddr>,
    domains: Vec<String>,
    /// A name with fewer dots is looked for in the domains first.
    dots: usize,
}

impl Configuration {
    /// Reads a `resolv.conf`. Without a name server it is this machine's, as in the C library.
    fn of(text: &str) -> Self {
        let mut found = Self { servers: Vec::new(), domains: Vec::new(), dots: 1 };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let server = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    found.servers.extend(server.map(|server| SocketAddr::new(server, PORT)));
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
    fn names(&self, name: &str) -> Vec<String> {
        if let Some(whole) = name.strip_suffix('.') {
            return vec![whole.to_owned()];
        }
        let mut names: Vec<String> = self
            .domains
            .iter()
            .map(|domain| format!("{name}.{}", domain.trim_matches('.')))
            .collect();
        let is_whole = name.matches('.').count() >= self.dots;
        names.insert(if is_whole { 0 } else { names.len() }, name.to_owned());
        names
    }
}

/// The SRV records of a name, none if there is no such name.
///
/// # Errors
/// Why no name server told.
pub(super) async fn services(configuration: &str, name: &str) -> Result<Vec<Service>, String> {
    let configuration = Configuration::of(configuration);
    for name in configuration.names(name) {
        let found = asked(&configuration.servers, &name).await?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Asks one server after the other until one knows.
async fn asked(servers: &[SocketAddr], name: &str) -> Result<Vec<Service>, String> {
    let mut failures = Vec::new();
    for server in servers {
        let answer = timeout(SERVER_PATIENCE, ask(*server, name)).await;
        match answer.unwrap_or_else(|_| Err(format!("no answer within {SERVER_PATIENCE:?}"))) {
            Ok(found) => return Ok(found),
            Err(why) => failures.push(format!("{server}: {why}")),
        }
    }
    Err(format!("no name server told: {}", failures.join("; ")))
}

async fn ask(server: SocketAddr, name: &str) -> Result<Vec<Service>, String> {
    let number = Entropy::from_system().map_err(|error| error.to_string())?.next();
    let query = query(u16::try_from(number & 0xffff).unwrap_or_default(), name)?;
    let answer = match by_udp(server, &query).await.map_err(|error| error.to_string())? {
        answer if is_cut(&answer) => by_tcp(server, &query).await.map_err(|it| it.to_string())?,
        answer => answer,
    };
    read(&query, &answer)
}

async fn by_udp(server: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // Only the server's own datagrams come in then.
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut answer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let length = socket.recv(&mut answer).await?;
        // Another number: an answer to somebody's older question.
        if answer.get(..2) == query.get(..2) {
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

async fn by_tcp(server: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).unwrap_or(u16::MAX);
    stream.write_all(&[&length.to_be_bytes(), query].concat()).await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

fn query(number: u16, name: &str) -> Result<Vec<u8>, String> {
    let mut query = Vec::from(number.to_be_bytes());
    // Recursion is wanted; one question.
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let begin = query.len();
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length));
        query.push(length.ok_or_else(|| format!("{label:?} is no label: 1 to 63 bytes are"))?);
        query.extend(label.as_bytes());
    }
    query.push(0);
    if query.len() - begin > NAME_BYTES_MAX {
        return Err(format!("the name is longer than {NAME_BYTES_MAX} bytes"));
    }
    query.extend([SRV.to_be_bytes(), INTERNET.to_be_bytes()].concat());
    Ok(query)
}

/// Whether the answer did not fit.
fn is_cut(answer: &[u8]) -> bool {
    answer.get(2).is_some_and(|flags| flags & 2 != 0)
}

/// Reads an answer: its records, none if there is no such name.
fn read(query: &[u8], answer: &[u8]) -> Result<Vec<Service>, String> {
    let cut = || "the answer is cut short".to_owned();
    if answer.get(..2) != query.get(..2) || answer.get(2).is_none_or(|flags| flags & 0x80 == 0) {
        return Err("the answer is none to the question".to_owned());
    }
    match answer.get(3).map(|flags| flags & 15).ok_or_else(cut)? {
        0 => {}
        3 => return Ok(Vec::new()),
        code => return Err(format!("the name server answers with code {code}")),
    }
    let mut at = 12;
    for _ in 0..u16_at(answer, 4).ok_or_else(cut)? {
        at = behind_name(answer, at).ok_or_else(cut)? + 4;
    }
    let mut found = Vec::new();
    for _ in 0..u16_at(answer, 6).ok_or_else(cut)? {
        let head = behind_name(answer, at).ok_or_else(cut)?;
        let data = head + 10;
        at = data + usize::from(u16_at(answer, head + 8).ok_or_else(cut)?);
        if answer.len() < at {
            return Err(cut());
        }
        if u16_at(answer, head) == Some(SRV) {
            found.push(service(answer, data).ok_or_else(cut)?);
        }
    }
    Ok(found)
}

fn service(answer: &[u8], at: usize) -> Option<Service> {
    Some(Service {
        priority: u16_at(answer, at)?,
        weight: u16_at(answer, at + 2)?,
        port: u16_at(answer, at + 4)?,
        target: name_at(answer, at + 6)?,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Where a name ends: behind its last label, or behind a pointer.
fn behind_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length if length < 64 => at += 1 + usize::from(length),
            _ => return Some(at + 2),
        }
    }
}

/// A name, its pointers followed. Each has to point further back than the last, so that none leads round.
fn name_at(bytes: &[u8], mut at: usize) -> Option<String> {
    let mut name = String::new();
    let mut begin = at;
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some(name),
            1..64 => {
                let label = bytes.get(at + 1..at + 1 + length)?;
                if !name.is_empty() {
                    name.push('.');
                }
                name.push_str(std::str::from_utf8(label).ok()?);
                if name.len() > NAME_BYTES_MAX {
                    return None;
                }
                at += 1 + length;
            }
            192.. => {
                at = usize::from(u16_at(bytes, at)? & 0x3fff);
                if at >= begin {
                    return None;
                }
                begin = at;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An answer to a question: its flags, and records that point at the question's name.
    fn answer(query: &[u8], flags: [u8; 2], services: &[(u16, &str)]) -> Vec<u8> {
        let mut out = [&query[..2], &flags, &query[4..6]].concat();
        out.extend(u16::try_from(services.len()).unwrap().to_be_bytes());
        out.extend([0, 0, 0, 0]);
        out.extend(&query[12..]);
        for (port, host) in services {
            let host_bytes = u8::try_from(host.len()).unwrap();
            // Name, type, class, seconds to live; then length, priority, weight, port, host and the domain
            // behind the two labels of the question.
            out.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 5, 0, 9 + host_bytes, 0, 7, 0, 8]);
            out.extend(port.to_be_bytes());
            out.push(host_bytes);
            out.extend(host.as_bytes());
            out.extend([0xc0, 12 + 4 + 5]);
        }
        out
    }

    const NAME: &str = "_tf._tcp.train";

    fn named(target: &str, port: u16) -> Service {
        Service { priority: 7, weight: 8, target: target.into(), port }
    }

    #[test]
    fn records_are_read_with_their_pointers() {
        let query = query(7, NAME).unwrap();
        let full = answer(&query, [0x81, 0x80], &[(1, "a"), (2, "b")]);
        let found = read(&query, &full).unwrap();
        assert_eq!(found, [named("a.train", 1), named("b.train", 2)]);
        for length in 0..full.len() {
            assert!(read(&query, &full[..length]).is_err(), "cut to {length} bytes");
        }
        assert_eq!(read(&query, &answer(&query, [0x81, 0x83], &[])), Ok(Vec::new()));
        assert!(read(&query, &answer(&query, [0x81, 0x82], &[])).unwrap_err().contains("code 2"));
    }

    #[test]
    fn a_name_that_leads_round_is_none() {
        let query = query(7, NAME).unwrap();
        let mut bytes = answer(&query, [0x81, 0x80], &[(1, "a")]);
        let pointer = bytes.len() - 2;
        bytes[pointer + 1] = u8::try_from(pointer - 2).unwrap();
        assert!(read(&query, &bytes).is_err());
    }

    #[test]
    fn the_configuration_is_read_as_the_c_library_does() {
        let text = "# a\nnameserver 10.0.0.10\nsearch ml.svc.c. svc.c\noptions ndots:5 timeout:1\n";
        let found = Configuration::of(text);
        assert_eq!(found.servers, ["10.0.0.10:53".parse().unwrap()]);
        assert_eq!(
            found.names("_a._tcp.b"),
            ["_a._tcp.b.ml.svc.c", "_a._tcp.b.svc.c", "_a._tcp.b"]
        );
        assert_eq!(found.names("_a._tcp.b."), ["_a._tcp.b"]);
        assert_eq!(Configuration::of("").names("a.b"), ["a.b"]);
        assert_eq!(Configuration::of("").servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn names_that_cannot_be_asked_for_are_refused() {
        let long =
            ["x".repeat(60) + &".abc".repeat(60), "x".repeat(64), "a..b".into(), String::new()];
        for name in long {
            assert!(query(1, &name).is_err(), "{name}");
        }
    }

    #[tokio::test]
    async fn what_does_not_fit_in_a_datagram_is_asked_for_by_tcp() {
        let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(address).await.unwrap();
        tokio::spawn(async move {
            let mut query = vec![0; 512];
            let (length, from) = udp.recv_from(&mut query).await.unwrap();
            // An old answer with another number first.
            udp.send_to(&[!query[0], query[1], 0x81, 0x80], from).await.unwrap();
            udp.send_to(&answer(&query[..length], [0x83, 0x80], &[]), from).await.unwrap();
            let (mut stream, _) = tcp.accept().await.unwrap();
            let mut query = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut query).await.unwrap();
            let answer = answer(&query, [0x81, 0x80], &[(9, "c")]);
            stream.write_u16(answer.len().try_into().unwrap()).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        });
        assert_eq!(asked(&[address], NAME).await.unwrap(), [named("c.train", 9)]);
        // Nobody is there any more.
        let why = asked(&[address], NAME).await.unwrap_err();
        assert!(why.contains(&address.to_string()), "{why}");
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(flags: [u8; 2], rest: Vec<u8>) {
            let query = query(7, NAME).unwrap();
            let bytes = [&query[..2], &flags, rest.as_slice()].concat();
            // It ends, and finds no more than the bytes can hold.
            let found = read(&query, &bytes).unwrap_or_default();
            prop_assert!(found.len() * 10 <= bytes.len());
        }
    }
}
