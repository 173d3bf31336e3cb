//! Streams over real loopback connections: our server against our clients, and tonic's.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use rondo_core::status::{Code, Status};
use tonic::codec::CompressionEncoding;

use super::feed::{COUNTED_BYTES, Running, SOON, clients, mixed, next};
use super::grpc_client::{BytesCodec, GrpcClient};
use super::{MessageStream, ServerConfig, Transport, is_unreached};

#[tokio::test]
async fn messages_of_any_size_come_in_order_before_the_end() {
    let message: Bytes = (0..3_000_000_u32).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
    // With memory that both ends have, and without.
    for (shared_memory_bytes_max, client) in
        [1 << 30, 0].into_iter().flat_map(|bytes| clients().map(|client| (bytes, client)))
    {
        let config = ServerConfig { shared_memory_bytes_max, ..ServerConfig::default() };
        let server = Running::start(config);
        let mut stream = server.stream(&client, "/rondo.v1.Test/Pieces", message.clone());
        for length in [0, 1, 5000, message.len()] {
            let found = next(&mut stream).await.unwrap().unwrap();
            assert!(found == message.slice(..length), "{length}");
        }
        assert_eq!(next(&mut stream).await, Ok(None));
        server.until_open(0).await;
    }
}

#[tokio::test]
async fn a_message_in_pieces_is_one_to_any_client() {
    let server = Running::start(ServerConfig::default());
    let long = Bytes::from((0..200_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    let wanted = [mixed(&long).join(), mixed(&Bytes::from_static(b"short")).join()];
    for client in clients() {
        let mut stream = client.streaming(&server.address, "/rondo.v1.Test/Mixed", long.clone());
        for message in &wanted {
            assert!(next(&mut stream).await.unwrap().unwrap() == message);
        }
        assert_eq!(next(&mut stream).await, Ok(None));
    }
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address));
    let mut client = tonic::client::Grpc::new(channel.unwrap().connect().await.unwrap())
        .max_decoding_message_size(usize::MAX);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/rondo.v1.Test/Mixed");
    let answer = client.server_streaming(tonic::Request::new(long), path, BytesCodec).await;
    let mut messages = answer.unwrap().into_inner();
    for message in &wanted {
        assert!(messages.message().await.unwrap().unwrap() == message);
    }
    assert!(messages.message().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_made_than_a_slow_client_has_room_for() {
    // Not one fits its window, and the next is asked for when the last has gone.
    const ROOM: usize = 3;
    let server = Running::start(ServerConfig::default());
    let mut stream = server.stream(&GrpcClient::new(), "/rondo.v1.Test/Count", "");
    next(&mut stream).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let made = server.service.made.load(Ordering::SeqCst);
    assert!(made <= ROOM, "{made} messages of 1 MiB were made");
    for number in 1..100_u8 {
        let message = next(&mut stream).await.unwrap().unwrap();
        assert!(message.len() == COUNTED_BYTES && message[0] == number, "{number}");
    }
}

/// Streams whose messages nobody takes hold up neither calls nor other streams to the same server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_streams_hold_up_nobody() {
    let server = Running::start(ServerConfig::default());
    let client = GrpcClient::new();
    let count = || client.streaming(&server.address, "/rondo.v1.Test/Count", Bytes::new());
    let mut full: Vec<MessageStream> = (0..300).map(|_| count()).collect();
    for stream in &mut full {
        next(stream).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let message = Bytes::from(vec![9; 8 << 20]);
    let call = client.unary(&server.address, "/rondo.v1.Test/Echo", message.clone(), SOON).await;
    assert!(call.unwrap() == message);
    let mut other = count();
    for _ in 0..5 {
        next(&mut other).await.unwrap().unwrap();
    }
    for stream in &mut full {
        next(stream).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_refusal_or_a_panic_stands_behind_the_messages() {
    let server = Running::start(ServerConfig::default());
    for client in clients() {
        let mut stream = server.stream(&client, "/rondo.v1.Test/Refuse", "first");
        assert_eq!(next(&mut stream).await, Ok(Some(Bytes::from_static(b"first"))));
        let refused = next(&mut stream).await.unwrap_err();
        assert_eq!(refused, Status::new(Code::NotFound, "key – not found"));
        let mut stream = server.stream(&client, "/rondo.v1.Test/Panic", "");
        let panicked = next(&mut stream).await.unwrap_err();
        assert_eq!(panicked.code, Code::Internal);
        assert!(panicked.message.contains("/rondo.v1.Test/Panic"), "{panicked}");
    }
}

#[tokio::test]
async fn an_oversized_request_is_refused_with_size_and_bound() {
    let config = ServerConfig { message_bytes_max: 1000, ..ServerConfig::default() };
    let server = Running::start(config);
    for client in clients() {
        let mut stream = server.stream(&client, "/rondo.v1.Test/Pieces", vec![7; 2001]);
        let status = next(&mut stream).await.unwrap_err();
        assert_eq!(status.code, Code::ResourceExhausted);
        assert!(status.message.contains("bytes exceeds the bound of 1000"), "{status}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_stream() {
    let server = Running::start(ServerConfig::default());
    for client in clients() {
        let mut streams = [(); 2].map(|()| server.stream(&client, "/rondo.v1.Test/Wait", ""));
        for stream in &mut streams {
            next(stream).await.unwrap();
        }
        server.until_open(2).await;
        let [leaving, mut staying] = streams;
        drop(leaving);
        server.until_open(1).await;
        let more = tokio::time::timeout(Duration::from_millis(50), staying.next()).await;
        assert!(more.is_err(), "the other goes on: {more:?}");
        drop(client);
        drop(staying);
        server.until_open(0).await;
    }
}

#[tokio::test]
async fn a_slow_client_that_leaves_ends_its_stream() {
    let server = Running::start(ServerConfig::default());
    for client in clients() {
        let mut stream = server.stream(&client, "/rondo.v1.Test/Count", "");
        next(&mut stream).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(stream);
        server.until_open(0).await;
    }
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams_at_once() {
    let grace = Duration::from_secs(600);
    for client in clients() {
        let mut server =
            Running::start(ServerConfig { shutdown_grace: grace, ..ServerConfig::default() });
        let mut stream = server.stream(&client, "/rondo.v1.Test/Wait", "");
        next(&mut stream).await.unwrap();
        server.stop();
        let status = next(&mut stream).await.unwrap_err();
        assert_eq!(status, Status::new(Code::Unavailable, "the server is shutting down"));
        tokio::time::timeout(SOON, &mut server.served).await.expect("it goes on").unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable_by_name() {
    for client in clients() {
        let server = Running::start(ServerConfig::default());
        let mut stream = server.stream(&client, "/rondo.v1.Test/Wait", "");
        next(&mut stream).await.unwrap();
        server.served.abort();
        let status = next(&mut stream).await.unwrap_err();
        assert_eq!(status.code, Code::Unavailable, "{status}");
        assert!(status.message.contains(&server.address), "{status}");
        assert!(!is_unreached(&status), "{status}");
        let mut again = server.stream(&client, "/rondo.v1.Test/Wait", "");
        let status = next(&mut again).await.unwrap_err();
        assert_eq!(status.code, Code::Unavailable, "{status}");
        assert!(status.message.contains(&server.address), "{status}");
        assert!(is_unreached(&status), "{status}");
    }
}

#[tokio::test]
async fn streams_count_as_calls_of_their_connection() {
    let config = ServerConfig { calls_per_connection_max: 2, ..ServerConfig::default() };
    let server = Running::start(config);
    let client = GrpcClient::new();
    let wait = || client.streaming(&server.address, "/rondo.v1.Test/Wait", Bytes::new());
    let mut streams = [wait(), wait()];
    for stream in &mut streams {
        next(stream).await.unwrap();
    }
    let mut third = wait();
    assert!(tokio::time::timeout(Duration::from_millis(100), third.next()).await.is_err());
    drop(streams);
    assert_eq!(next(&mut third).await, Ok(Some(Bytes::new())));
}

/// Tonic's own client, with a compressed request and a deadline, which ours does not send.
#[tokio::test]
async fn a_compressed_request_and_a_deadline_are_kept() {
    let server = Running::start(ServerConfig::default());
    let uri = format!("http://{}", server.address);
    let channel = tonic::transport::Endpoint::from_shared(uri).unwrap().connect().await.unwrap();
    let mut grpc = tonic::client::Grpc::new(channel)
        .send_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Gzip);
    let message = Bytes::from(vec![5; 100_000]);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/rondo.v1.Test/Refuse");
    let request = tonic::Request::new(message.clone());
    let mut stream = grpc.server_streaming(request, path, BytesCodec).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().unwrap() == message);
    assert_eq!(stream.message().await.unwrap_err().code(), tonic::Code::NotFound);

    let mut request = tonic::Request::new(Bytes::new());
    request.metadata_mut().insert("grpc-timeout", "80m".parse().unwrap());
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/rondo.v1.Test/Wait");
    let mut stream = grpc.server_streaming(request, path, BytesCodec).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap(), Some(Bytes::new()));
    let status = stream.message().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status}");
    server.until_open(0).await;
}
