//! What the machine gives at best: bytes over a TCP connection of its own loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

/// Bytes written at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Sends so many bytes from one thread to another; answers with bytes a second.
///
/// # Errors
/// When there is no connection.
pub(super) fn bytes_a_second(total: u64) -> std::io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let began = Instant::now();
    let sender = std::thread::spawn(move || send(TcpStream::connect(address)?, total));
    let (mut connection, _) = listener.accept()?;
    let (mut buffer, mut received) = (vec![0; CHUNK_BYTES], 0_u64);
    loop {
        match connection.read(&mut buffer)? {
            0 => break,
            read => received = received.saturating_add(read as u64),
        }
    }
    let sent = sender.join().unwrap_or_else(|_| Err(std::io::Error::other("the sender is gone")));
    sent.map(|()| super::read::rate(received, began.elapsed().as_secs_f64()))
}

fn send(mut connection: TcpStream, total: u64) -> std::io::Result<()> {
    let chunk = vec![7; CHUNK_BYTES];
    let mut left = total;
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        connection.write_all(chunk.get(..size).unwrap_or(&chunk))?;
        left = left.saturating_sub(size as u64);
    }
    Ok(())
}
