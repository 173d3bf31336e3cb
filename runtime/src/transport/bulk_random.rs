//! Bulk connections whose other end says anything.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{BULK_PREFACE, BulkCall, encode_bulk_call, encode_bulk_end};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::feed::{Running, SOON, next};
use super::grpc_client::GrpcClient;
use super::grpc_random::wait_for;
use super::{ServerConfig, Transport};

/// What stands in front of a frame: its kind and its length.
fn head(kind: u8, length: u64) -> Vec<u8> {
    [&[kind][..], &length.to_le_bytes()].concat()
}

/// A frame of this kind, whose length is true or not.
fn frame(kind: u8) -> impl Strategy<Value = Vec<u8>> {
    let body = prop::collection::vec(any::<u8>(), 0..40);
    let lie = prop_oneof![
        8 => Just(None::<u64>),
        1 => any::<u64>().prop_map(Some),
        1 => (0..60_u64).prop_map(Some),
    ];
    (body, lie)
        .prop_map(move |(body, lie)| [head(kind, lie.unwrap_or(body.len() as u64)), body].concat())
}

/// What a server may say.
fn said() -> impl Strategy<Value = Vec<u8>> {
    let message = encode_bulk_end(Err(Status::new(Code::NotFound, "none")));
    let refusal = [head(1, message.len() as u64), message.to_vec()].concat();
    prop_oneof![
        12 => frame(0),
        2 => Just(head(1, 0)),
        2 => Just(refusal),
        1 => frame(1),
        1 => (0..=255_u8).prop_flat_map(frame),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

/// What comes of an answer, read without a thought for how it is cut: its messages, and its end.
fn read(mut bytes: &[u8]) -> (Vec<Bytes>, Result<(), Code>) {
    let mut messages = Vec::new();
    loop {
        let Some((head, rest)) = bytes.split_at_checked(9) else {
            return (messages, Err(Code::Unavailable));
        };
        let length = u64::from_le_bytes(head[1..].try_into().unwrap());
        match head[0] {
            0 | 1 | 4 if length > ELEMENT_BYTES_MAX => {
                return (messages, Err(Code::ResourceExhausted));
            }
            0 | 1 => {}
            2 | 3 => return (messages, Err(Code::Internal)),
            // Nothing was lent, but it is looked at how much that would be.
            4 if length == 24 && rest.len() >= 24 => {
                let lent = u64::from_le_bytes(rest[16..24].try_into().unwrap());
                let is_long = lent > ELEMENT_BYTES_MAX;
                let code = if is_long { Code::ResourceExhausted } else { Code::Unavailable };
                return (messages, Err(code));
            }
            _ => return (messages, Err(Code::Unavailable)),
        }
        let Some((body, rest)) = rest.split_at_checked(usize::try_from(length).unwrap()) else {
            return (messages, Err(Code::Unavailable));
        };
        if head[0] == 1 {
            let end = rondo_proto::convert::decode_bulk_end(Bytes::copy_from_slice(body));
            return (messages, end.map_err(|status| status.code));
        }
        messages.push(Bytes::copy_from_slice(body));
        bytes = rest;
    }
}

/// A server that says this in such pieces, and closes the connection.
async fn saying(bytes: Vec<u8>, piece: usize) -> String {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(say(client, bytes.clone(), piece));
        }
    });
    address
}

async fn say(mut client: TcpStream, bytes: Vec<u8>, piece: usize) {
    client.set_nodelay(true).unwrap();
    for piece in bytes.chunks(piece) {
        if client.write_all(piece).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let _ = client.shutdown().await;
    let _ = client.read_to_end(&mut Vec::new()).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_server_says_its_client_has_what_is_whole(
        pieces in prop::collection::vec(said(), 0..8),
        piece in 1..40_usize,
        taken in 0..4_usize,
    ) {
        let answer = pieces.concat();
        let (messages, end) = read(&answer);
        // There is no memory that both have.
        let all = [&BULK_PREFACE[..], &head(3, 0), &answer].concat();
        wait_for(async {
            let address = saying(all, piece).await;
            let client = GrpcClient::of_reader();
            let mut stream = client.streaming(&address, "/rondo.v1.Test/Echo", Bytes::new());
            for message in &messages {
                assert_eq!(next(&mut stream).await, Ok(Some(message.clone())));
            }
            match end {
                Ok(()) => assert_eq!(next(&mut stream).await, Ok(None)),
                Err(code) => assert_eq!(next(&mut stream).await.unwrap_err().code, code),
            }
            // Another caller leaves early, and the connection is read on to where the end should be.
            let mut stream = client.streaming(&address, "/rondo.v1.Test/Echo", Bytes::new());
            for _ in 0..taken {
                let _ = next(&mut stream).await;
            }
            drop(stream);
            tokio::time::sleep(Duration::from_millis(1)).await;
        });
    }

    #[test]
    fn whatever_a_client_says_it_is_answered_in_whole_frames(
        pieces in prop::collection::vec(asked(), 0..8),
        piece in 1..40_usize,
    ) {
        wait_for(async {
            let config = ServerConfig { message_bytes_max: 1000, ..ServerConfig::default() };
            let server = Running::start(config);
            let neighbour = GrpcClient::of_reader();
            let mut waiting = server.stream(&neighbour, "/rondo.v1.Test/Wait", "");
            next(&mut waiting).await.unwrap();
            let (answer, is_whole) = answer_to(&server.address, &pieces.concat(), piece).await;
            let mut rest = answer.strip_prefix(&BULK_PREFACE[..]).unwrap_or_default();
            while let Some((head, behind)) = rest.split_at_checked(9) {
                assert!([0, 1, 3].contains(&head[0]), "a frame of kind {} came", head[0]);
                let length = u64::from_le_bytes(head[1..].try_into().unwrap());
                let Some(next) = behind.get(usize::try_from(length).unwrap()..) else { break };
                rest = next;
            }
            assert!(rest.is_empty() || !is_whole, "half of a frame came: {rest:?}");
            let more = tokio::time::timeout(Duration::from_millis(1), waiting.next()).await;
            assert!(more.is_err(), "its neighbour notices: {more:?}");
        });
    }
}

/// What a client may say.
fn asked() -> impl Strategy<Value = Vec<u8>> {
    let call = |path: &str| {
        let message = Bytes::from_static(b"message");
        let call = encode_bulk_call(BulkCall { path: path.into(), worker: None, message });
        [head(2, call.len() as u64), call.to_vec()].concat()
    };
    prop_oneof![
        6 => Just(call("/rondo.v1.Test/Pieces")),
        2 => Just(call("/rondo.v1.Test/Refuse")),
        1 => Just(call("/rondo.v1.Test/Unary")),
        1 => frame(2),
        1 => Just(head(3, 0)),
        1 => (0..=255_u8).prop_flat_map(frame),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

/// What a server answers to these bytes, in such pieces, before it closes the connection or they end, and
/// whether that is all: a reset takes along what was not read yet.
async fn answer_to(address: &str, bytes: &[u8], piece: usize) -> (Vec<u8>, bool) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut answer = Vec::new();
    let said = async {
        let _ = writer.write_all(&BULK_PREFACE).await;
        for piece in bytes.chunks(piece) {
            let _ = writer.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        let _ = writer.shutdown().await;
    };
    let both = async { tokio::join!(said, reader.read_to_end(&mut answer)).1 };
    let read = tokio::time::timeout(SOON, both).await.expect("it does not close the connection");
    (answer, read.is_ok())
}
