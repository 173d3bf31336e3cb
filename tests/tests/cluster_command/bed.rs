//! A command in an environment of its own, and servers that speak as APIs do.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rondo_tests::binary;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;
use tempfile::TempDir;

use crate::authority::AUTHORITY;

/// How a command ended.
pub(crate) struct Said {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl Said {
    /// What it printed as JSON.
    pub(crate) fn json(&self) -> Value {
        let read = serde_json::from_str(&self.out);
        read.unwrap_or_else(|error| panic!("{error} in {:?}; {}", self.out, self.err))
    }

    /// What the source told that was chosen.
    pub(crate) fn chosen(&self) -> Value {
        let report = self.json();
        let sources = report["sources"].as_array().unwrap();
        let chosen = sources.iter().find(|source| source["verdict"] == "chosen");
        chosen.unwrap_or_else(|| panic!("nothing was chosen: {report:#}"))["finding"].clone()
    }

    /// Asserts that it ended so and that its last word has all of these.
    pub(crate) fn assert(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{}{}", self.out, self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in {:?}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }
}

/// A machine without a thing on it.
pub(crate) struct Machine {
    root: TempDir,
}

impl Machine {
    pub(crate) fn bare() -> Self {
        Self { root: TempDir::new().unwrap() }
    }

    /// With one more file.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        self.write(path, text);
        self
    }

    /// Writes a file, at once as whoever reads it sees.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let beside = path.with_extension("new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, path).unwrap();
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// `rondo cluster` with these variables and no others.
    pub(crate) fn command(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::rondo());
        command.env_clear().envs(variables.iter().copied());
        command.arg("cluster").arg("--root").arg(self.root()).args(arguments);
        command
    }

    pub(crate) fn run(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
        let mut command = self.command(variables, arguments);
        let began = Instant::now();
        let output = command.output().unwrap();
        Said {
            status: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            took: began.elapsed(),
        }
    }
}

/// What came in.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// By name in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// What goes out.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) after: Duration,
    /// Whether it comes from a metadata server, which says so in a header.
    pub(crate) of_metadata: bool,
    /// Instead of the body: texts as they come, until nobody has any more; `None` breaks the connection.
    pub(crate) stream: Option<Arc<Mutex<Receiver<Option<String>>>>>,
}

impl Reply {
    pub(crate) fn ok(body: impl ToString) -> Self {
        let (body, after) = (body.to_string(), Duration::ZERO);
        Self { status: 200, body, after, of_metadata: false, stream: None }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::ok("{\"message\": \"as was asked for\"}") }
    }

    pub(crate) fn stream(texts: Receiver<Option<String>>) -> Self {
        Self { stream: Some(Arc::new(Mutex::new(texts))), ..Self::ok("") }
    }

    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    pub(crate) fn of_metadata(self) -> Self {
        Self { of_metadata: true, ..self }
    }
}

/// An HTTP server on loopback, as long as the test lasts.
pub(crate) struct Api {
    pub(crate) host: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Api {
    /// Answers each request by its number, from 0.
    pub(crate) fn start(answer: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_within(|stream| stream, answer)
    }

    /// The same over TLS.
    pub(crate) fn start_tls(
        answer: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let tls = Arc::new(tls());
        let wrap = move |stream| {
            let connection = ServerConnection::new(Arc::clone(&tls)).unwrap();
            StreamOwned::new(connection, stream)
        };
        Self::start_within(wrap, answer)
    }

    fn start_within<S: Read + Write>(
        wrap: impl Fn(TcpStream) -> S + Send + Sync + 'static,
        answer: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (both, kept) = (Arc::new((wrap, answer)), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (both, kept) = (Arc::clone(&both), Arc::clone(&kept));
                thread::spawn(move || serve(both.0(stream), &both.1, &kept));
            }
        });
        Self { host, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.host)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn tls() -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let (chain, key) = AUTHORITY.identity();
    builder.with_single_cert(chain, key).unwrap()
}

fn serve<S: Read + Write>(
    mut stream: S,
    answer: &impl Fn(usize, &Request) -> Reply,
    kept: &Mutex<Vec<Request>>,
) {
    let Some(request) = read(&mut BufReader::new(&mut stream)) else { return };
    let number = {
        let mut kept = kept.lock().unwrap();
        kept.push(request.clone());
        kept.len() - 1
    };
    let reply = answer(number, &request);
    thread::sleep(reply.after);
    if let Some(texts) = &reply.stream {
        // Who listened may be gone.
        let _ = send_on(&mut stream, &texts.lock().unwrap());
        return;
    }
    let text = format!(
        "HTTP/1.1 {} as asked\r\n{}content-length: {}\r\nconnection: close\r\n\r\n{}",
        reply.status,
        if reply.of_metadata { "metadata-flavor: Google\r\n" } else { "" },
        reply.body.len(),
        reply.body
    );
    // Who asked may have given up by now.
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

/// Sends texts as they come, a chunk each.
fn send_on(stream: &mut impl Write, texts: &Receiver<Option<String>>) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 as asked\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    stream.flush()?;
    for text in texts {
        let Some(text) = text else { return Ok(()) };
        write!(stream, "{:x}\r\n{text}\r\n", text.len())?;
        stream.flush()?;
    }
    stream.write_all(b"0\r\n\r\n")?;
    stream.flush()
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body).ok()?;
    Some(Request { method, path, headers, body })
}
