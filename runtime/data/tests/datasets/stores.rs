//! Files that are not on this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use rondo_core::status::Code;
use rondo_data::{Pipeline, Stores, plan};

use super::world::{World, all_numbers, numbered, write_parquet};

#[tokio::test]
async fn objects_are_listed_and_read_in_the_version_that_was_planned() {
    let world = World::new();
    let memory = world.stores.memory();
    let put = async |name: &str, text: &str| {
        memory.put(&Path::from(name), PutPayload::from(text.to_owned())).await.unwrap();
    };
    put("logs/b/2.csv", "number\n3\n4\n").await;
    put("logs/a/1.csv", "number\n1\n2\n").await;
    put("logs/a/1.txt", "no numbers").await;
    put("other/1.csv", "number\n7\n").await;
    for (pattern, wanted) in [
        ("memory:///logs/*/*.csv", &[1, 2, 3, 4][..]),
        ("memory:///logs/**/*.csv", &[1, 2, 3, 4]),
        ("memory:///logs/?/1.csv", &[1, 2]),
        ("memory:///other/1.csv", &[7]),
    ] {
        let dataset = world.plan(&Pipeline::csv([pattern])).await;
        assert_eq!(all_numbers(&world.read_splits(&dataset, 1).await), wanted, "{pattern}");
    }
    let error = world.refusal(&Pipeline::csv(["memory:///logs/*.csv"])).await;
    assert_eq!(error.to_string(), "no file fits memory:///logs/*.csv");

    let dataset = world.plan(&Pipeline::csv(["memory:///logs/a/1.csv"])).await;
    put("logs/a/1.csv", "number\n1\n9\n").await;
    let error = world.try_read(&dataset, 0, 0).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "the same size, another version");
    assert!(error.to_string().contains("memory:///logs/a/1.csv has changed"), "{error}");
}

/// Serves one file over HTTP; what `broken` says is answered with 503 first.
fn serve(content: Vec<u8>, broken: Arc<Mutex<u32>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (content, broken) = (content.clone(), Arc::clone(&broken));
            std::thread::spawn(
                move || while answer(stream.as_ref().unwrap(), &content, &broken) {},
            );
        }
    });
    format!("http://{address}/data/a.parquet")
}

/// Answers one request; whether there was one.
fn answer(mut stream: &TcpStream, content: &[u8], broken: &Mutex<u32>) -> bool {
    let mut lines = BufReader::new(stream).lines();
    let Some(Ok(request)) = lines.next() else { return false };
    let headers: Vec<String> =
        lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let mut left = broken.lock().unwrap();
    if *left > 0 {
        *left -= 1;
        write!(stream, "HTTP/1.1 503 Not Now\r\ncontent-length: 0\r\n\r\n").unwrap();
        return true;
    }
    let range: Option<(usize, usize)> = headers.iter().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
        name.eq_ignore_ascii_case("range").then(|| (from.parse().unwrap(), to.parse().unwrap()))
    });
    let common = "etag: \"one\"\r\nlast-modified: Sat, 21 Nov 2026 16:00:00 GMT\r\n";
    let size = content.len();
    let body = match range {
        Some((from, to)) => {
            let body: &[u8] = &content[from..(to + 1).min(size)];
            let (length, last) = (body.len(), from + body.len() - 1);
            write!(
                stream,
                "HTTP/1.1 206 Partial Content\r\n{common}content-length: {length}\r\n\
                 content-range: bytes {from}-{last}/{size}\r\n\r\n"
            )
            .unwrap();
            body
        }
        None => {
            write!(stream, "HTTP/1.1 200 OK\r\n{common}content-length: {size}\r\n\r\n").unwrap();
            content
        }
    };
    if !request.starts_with("HEAD") {
        stream.write_all(body).unwrap();
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_behind_http_is_read_by_ranges_and_again_when_that_fails() {
    let world = World::new();
    write_parquet(&world.path("a.parquet"), &numbered(0..3000), 500);
    let broken = Arc::new(Mutex::new(0));
    let url = serve(std::fs::read(world.path("a.parquet")).unwrap(), Arc::clone(&broken));
    let stores = Stores::from_env();
    let pipeline = Pipeline::parquet([&url]).with_split_records(500);
    let dataset = plan(&pipeline, &stores).await.unwrap();
    assert_eq!(dataset.splits(), 6);
    *broken.lock().unwrap() = 2;
    let far = World { stores, ..World::new() };
    let splits = far.read_splits(&dataset, 1).await;
    assert_eq!(all_numbers(&splits), (0..3000).collect::<Vec<_>>());
    assert_eq!(*broken.lock().unwrap(), 0, "both failures were met, and passed");
}
