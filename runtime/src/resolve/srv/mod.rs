//! SRV records (RFC 2782), which the system's resolver has no interface for: asked of the name servers in
//! `/etc/resolv.conf`, by UDP, and by TCP where the answer is cut off (RFC 1035).

mod configuration;
mod message;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rondo_core::cluster::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

pub(super) use configuration::Configuration;
use message::{answers, is_cut, query, read};

use crate::entropy::Entropy;

/// How long one name server may take before the next one is asked.
const SERVER_PATIENCE: Duration = Duration::from_secs(1);
/// How long one datagram is waited for before the next one is sent.
const SEND_AGAIN_AFTER: Duration = Duration::from_millis(400);
/// Longest message by UDP that is taken.
const DATAGRAM_BYTES_MAX: usize = 4096;

/// Why a name is not known.
#[derive(Debug)]
struct Unknown {
    why: String,
    /// Whether a server answered: others of the names may be known to it.
    is_answered: bool,
}

/// The SRV records of a name, none if there is no such name.
///
/// # Errors
/// Why no name server told.
pub(super) async fn services(
    mut configuration: Configuration,
    name: &str,
) -> Result<Vec<Service>, String> {
    let mut failed = None;
    for name in configuration.names(name) {
        match asked(&mut configuration.servers, &name).await {
            Ok(found) if found.is_empty() => {}
            Ok(found) => return Ok(found),
            Err(unknown) if unknown.is_answered => failed = Some(unknown.why),
            Err(unknown) => return Err(unknown.why),
        }
    }
    failed.map_or(Ok(Vec::new()), Err)
}

/// Asks one server after the other until one knows. One that does not answer is asked last from then on.
async fn asked(servers: &mut Vec<SocketAddr>, name: &str) -> Result<Vec<Service>, Unknown> {
    let mut failures = Vec::new();
    let mut is_answered = false;
    for server in servers.clone() {
        match timeout(SERVER_PATIENCE, ask(server, name)).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(Failure::Answered(why))) => {
                is_answered = true;
                failures.push(format!("{server}: {why}"));
            }
            Ok(Err(Failure::Silent(why))) => failures.push(format!("{server}: {why}")),
            Err(_) => {
                servers.retain(|known| *known != server);
                servers.push(server);
                failures.push(format!("{server}: no answer within {SERVER_PATIENCE:?}"));
            }
        }
    }
    let why = format!("no name server told of {name}: {}", failures.join("; "));
    Err(Unknown { why, is_answered })
}

/// Why one server did not tell.
#[derive(Debug)]
enum Failure {
    Silent(String),
    Answered(String),
}

async fn ask(server: SocketAddr, name: &str) -> Result<Vec<Service>, Failure> {
    let silent = |why: &dyn std::fmt::Display| Failure::Silent(why.to_string());
    let number = Entropy::from_system().map_err(|error| silent(&error))?.next();
    let number = u16::try_from(number & 0xffff).unwrap_or_default();
    // A name that cannot be asked for is no server's failure: the next one may be.
    let query = query(number, name).map_err(Failure::Answered)?;
    let mut answer = by_udp(server, &query).await.map_err(|error| silent(&error))?;
    if is_cut(&answer) {
        answer = by_tcp(server, &query).await.map_err(|error| silent(&error))?;
        if is_cut(&answer) {
            let why = "the answer is cut off over TCP too: some of the records are missing";
            return Err(Failure::Answered(why.into()));
        }
    }
    read(&query, &answer).map_err(Failure::Answered)
}

/// Sends the query again whenever the answer is late, since datagrams get lost. The caller limits the time.
async fn by_udp(server: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // Only the server's own datagrams come in then.
    socket.connect(server).await?;
    loop {
        socket.send(query).await?;
        if let Ok(answer) = timeout(SEND_AGAIN_AFTER, answer_to(&socket, query)).await {
            return answer;
        }
    }
}

/// The first datagram that answers the query: others are rubbish, or answers to somebody's older one.
async fn answer_to(socket: &UdpSocket, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut answer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let length = socket.recv(&mut answer).await?;
        let received = answer.get(..length).unwrap_or_default();
        if answers(query, received) {
            return Ok(received.to_vec());
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

#[cfg(test)]
mod tests {
    use super::message::tests::{NAME, answer, named};
    use super::*;

    /// A name server that sends these datagrams to the first query, and answers one more over TCP.
    async fn name_server_with_tcp(
        datagrams: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static,
        flags: [u8; 2],
    ) -> SocketAddr {
        let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(address).await.unwrap();
        tokio::spawn(async move {
            let mut query = vec![0; 512];
            let (length, from) = udp.recv_from(&mut query).await.unwrap();
            for datagram in datagrams(&query[..length]) {
                udp.send_to(&datagram, from).await.unwrap();
            }
            let (mut stream, _) = tcp.accept().await.unwrap();
            let mut query = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut query).await.unwrap();
            let answer = answer(&query, flags, &[(9, "c")]);
            stream.write_u16(answer.len().try_into().unwrap()).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        });
        address
    }

    #[tokio::test]
    async fn what_does_not_fit_in_a_datagram_is_asked_for_by_tcp() {
        let datagrams = |query: &[u8]| {
            let mut other = answer(query, [0x81, 0x80], &[(8, "d")]);
            other[13] = b'x';
            vec![
                // Rubbish first, an old answer with another number, and one to another question.
                query[..2].to_vec(),
                vec![!query[0], query[1], 0x81, 0x80],
                other,
                answer(query, [0x83, 0x80], &[]),
            ]
        };
        let address = name_server_with_tcp(datagrams, [0x81, 0x80]).await;
        assert_eq!(asked(&mut vec![address], NAME).await.unwrap(), [named("c.train", 9)]);
        // Nobody is there any more.
        let unknown = asked(&mut vec![address], NAME).await.unwrap_err();
        assert!(unknown.why.contains(&address.to_string()), "{unknown:?}");
        assert!(!unknown.is_answered);
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_off_over_tcp_too_is_not_taken_for_the_whole() {
        let datagrams = |query: &[u8]| vec![answer(query, [0x83, 0x80], &[])];
        let address = name_server_with_tcp(datagrams, [0x83, 0x80]).await;
        let unknown = asked(&mut vec![address], NAME).await.unwrap_err();
        assert!(unknown.why.contains("cut off over TCP too"), "{unknown:?}");
    }

    /// A name server that answers each query with these flags and records, but leaves out the first ones.
    async fn name_server(
        lost: usize,
        reply: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
    ) -> SocketAddr {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = udp.local_addr().unwrap();
        tokio::spawn(async move {
            let mut count = 0;
            let mut query = vec![0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut query).await {
                count += 1;
                if count > lost {
                    udp.send_to(&reply(&query[..length]), from).await.unwrap();
                }
            }
        });
        address
    }

    fn configured(servers: &[SocketAddr], domains: &[&str]) -> Configuration {
        let domains = domains.iter().map(|domain| (*domain).to_owned()).collect();
        Configuration { servers: servers.to_vec(), domains, dots: 5 }
    }

    #[tokio::test]
    async fn a_lost_datagram_is_sent_again() {
        let known = name_server(1, |query| answer(query, [0x81, 0x80], &[(9, "c")])).await;
        let found = services(configured(&[known], &[]), NAME).await;
        assert_eq!(found, Ok(vec![named("c.train", 9)]));
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_waited_for_once_and_not_for_each_name() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let dead = silent.local_addr().unwrap();
        let known = name_server(0, |query| match query.windows(4).any(|it| it == b"none") {
            true => answer(query, [0x81, 0x83], &[]),
            false => answer(query, [0x81, 0x80], &[(9, "c")]),
        });
        let mut servers = vec![dead, known.await];
        for domain in ["a.none", "b.none"] {
            let found = asked(&mut servers, &format!("{NAME}.{domain}")).await.unwrap();
            assert_eq!(found, []);
            assert_eq!(servers[1], dead, "it is asked last");
        }
        let found = services(configured(&servers, &["a.none", "b.none"]), NAME).await;
        assert_eq!(found, Ok(vec![named("c.train", 9)]));
        let why = services(configured(&[dead], &["a.none", "b.none"]), NAME).await.unwrap_err();
        assert!(why.contains("a.none") && !why.contains("b.none"), "{why}");
    }

    #[tokio::test]
    async fn a_name_that_a_server_fails_at_does_not_end_the_search() {
        let known = name_server(0, |query| match query.windows(6).any(|it| it == b"broken") {
            true => answer(query, [0x81, 0x82], &[]),
            false => answer(query, [0x81, 0x80], &[(9, "c")]),
        });
        let known = known.await;
        let found = services(configured(&[known], &["broken"]), NAME).await;
        assert_eq!(found, Ok(vec![named("c.train", 9)]));
        // Where no other name is known either, the failure is told, and not that there is no such name.
        let why =
            services(configured(&[known], &[]), &format!("{NAME}.broken.")).await.unwrap_err();
        assert!(why.contains("code 2"), "{why}");
    }
}
