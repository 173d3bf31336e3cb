//! Requests to metadata servers and APIs.

use std::error::Error as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, Client, ClientBuilder, Method, Response, Url, redirect};
use rondo_core::cluster::{Credentials, Http, HttpAnswer, METADATA_FLAVOR, Seen, gce, kubernetes};
use rondo_core::limits::CLUSTER_DOCUMENT_BYTES_MAX;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::machine::Machine;

/// The variable by which users of Google's own tools give a token of theirs.
const GOOGLE_TOKEN: &str = "CLOUDSDK_AUTH_ACCESS_TOKEN";
/// A token is not used for the last of its time: clocks differ.
const TOKEN_MARGIN: Duration = Duration::from_secs(60);

/// How often a silent connection is probed.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Sends the requests of one call.
#[derive(Debug)]
pub(super) struct Requests {
    machine: Machine,
    /// For URLs without TLS: metadata servers and proxies of this machine, so no way around.
    plain: OnceLock<Client>,
    /// Trusts whom the system trusts, and goes by the environment's proxy.
    public: Mutex<Option<Client>>,
    /// Trusts the certificate authority of the pod's service account.
    pod: Mutex<Option<Client>>,
    google_token: Mutex<Option<(String, Instant)>>,
    bytes_max: usize,
    bytes: AtomicUsize,
}

impl Requests {
    pub(super) fn new(machine: Machine, bytes_max: usize) -> Self {
        Self {
            machine,
            plain: OnceLock::new(),
            public: Mutex::new(None),
            pod: Mutex::new(None),
            google_token: Mutex::new(None),
            bytes_max,
            bytes: AtomicUsize::new(0),
        }
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// Why there is none. No secret is in the text.
    pub(super) async fn ask(&self, request: &Http) -> Result<HttpAnswer, String> {
        self.read(self.open(request).await?).await
    }

    /// Sends a request, of which the answer is yet to be read.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(super) async fn open(&self, request: &Http) -> Result<Response, String> {
        let url = Url::parse(&request.url).map_err(|error| format!("is no URL: {error}"))?;
        let token = match request.credentials {
            Credentials::None => None,
            Credentials::ServiceAccount => self.pod_token().await?,
            Credentials::Google => Some(self.google_token().await?),
        };
        if token.is_some() && !is_safe(&url) {
            return Err(
                "a token is not sent over http:// to another host: https:// is wanted".into()
            );
        }
        let client = self.client(&url, request.credentials).await?;
        self.send(&client, url, request, token).await
    }

    async fn send(
        &self,
        client: &Client,
        url: Url,
        request: &Http,
        token: Option<String>,
    ) -> Result<Response, String> {
        let method = if request.body.is_some() { Method::POST } else { Method::GET };
        let mut sending = client.request(method, url);
        for (name, value) in &request.headers {
            sending = sending.header(name, value);
        }
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| "the token has characters that no header may have")?;
            value.set_sensitive(true);
            sending = sending.header(AUTHORIZATION, value);
        }
        if let Some(body) = &request.body {
            sending = sending.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let response = sending.send().await.map_err(because)?;
        check_flavor(request, &response)?;
        Ok(response)
    }

    /// Reads an answer to its end.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(super) async fn read(&self, response: Response) -> Result<HttpAnswer, String> {
        let status = response.status().as_u16();
        Ok(HttpAnswer { status, body: self.body(response).await? })
    }

    /// The body; of one that is too long so much that it shows.
    async fn body(&self, mut response: Response) -> Result<String, String> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(because)? {
            let before = self.bytes.fetch_add(chunk.len(), Ordering::Relaxed);
            if before.saturating_add(chunk.len()) > self.bytes_max {
                return Err(format!(
                    "the answers of one call are more than {} bytes together",
                    self.bytes_max
                ));
            }
            bytes.extend_from_slice(&chunk);
            if bytes.len() > CLUSTER_DOCUMENT_BYTES_MAX {
                break;
            }
        }
        String::from_utf8(bytes)
            .map_err(|error| format!("no UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
    }

    async fn client(&self, url: &Url, credentials: Credentials) -> Result<Client, String> {
        if url.scheme() == "http" {
            if let Some(client) = self.plain.get() {
                return Ok(client.clone());
            }
            let client = built(builder().no_proxy().tls_built_in_root_certs(false))?;
            return Ok(self.plain.get_or_init(|| client).clone());
        }
        let kept =
            if credentials == Credentials::ServiceAccount { &self.pod } else { &self.public };
        let mut kept = kept.lock().await;
        if let Some(client) = &*kept {
            return Ok(client.clone());
        }
        let machine = self.machine.clone();
        let is_pod = credentials == Credentials::ServiceAccount;
        let made = spawn_blocking(move || if is_pod { of_pod(&machine) } else { built(builder()) });
        let client = made.await.map_err(|error| error.to_string())??;
        *kept = Some(client.clone());
        Ok(client)
    }

    /// The token of the pod's service account, read anew since it changes; none if the pod has none.
    async fn pod_token(&self) -> Result<Option<String>, String> {
        let machine = self.machine.clone();
        let read = spawn_blocking(move || machine.file(kubernetes::TOKEN_PATH));
        let text = read.await.map_err(|error| error.to_string())?;
        let text = text.map_err(|why| format!("{}: {why}", kubernetes::TOKEN_PATH))?;
        Ok(text.map(|text| text.trim().to_owned()).filter(|token| !token.is_empty()))
    }

    async fn google_token(&self) -> Result<String, String> {
        let given = self.machine.environment.get(GOOGLE_TOKEN).map(|token| token.trim());
        if let Some(token) = given.filter(|token| !token.is_empty()) {
            return Ok(token.to_owned());
        }
        // Held while it is asked for, so that it is asked for once.
        let mut kept = self.google_token.lock().await;
        if let Some((token, until)) = &*kept
            && Instant::now() < *until
        {
            return Ok(token.clone());
        }
        let request = gce::token_request(&Seen::new(self.machine.environment.clone()));
        let no_token = |why: String| {
            format!("no access token: {}: {why}; {GOOGLE_TOKEN} may hold one", request.url)
        };
        let url = Url::parse(&request.url).map_err(|error| no_token(error.to_string()))?;
        let client = self.client(&url, Credentials::None).await?;
        let response = self.send(&client, url, &request, None).await.map_err(no_token)?;
        let answer = self.read(response).await.map_err(no_token)?;
        if answer.status != 200 {
            return Err(no_token(format!("answers with status {}", answer.status)));
        }
        let (token, expires_s) =
            gce::read_token(&answer.body).map_err(|error| no_token(error.to_string()))?;
        let lives = Duration::from_secs(expires_s.into()).saturating_sub(TOKEN_MARGIN);
        *kept = Some((token.clone(), Instant::now() + lives));
        Ok(token)
    }
}

fn builder() -> ClientBuilder {
    let agent = concat!("rondo/", env!("CARGO_PKG_VERSION"));
    // Who is sent elsewhere would take the token there.
    let builder = Client::builder().user_agent(agent).redirect(redirect::Policy::none());
    // A watch is silent for minutes: only this tells that the other side is gone.
    builder.tcp_keepalive(KEEP_ALIVE)
}

fn built(builder: ClientBuilder) -> Result<Client, String> {
    builder.build().map_err(because)
}

fn of_pod(machine: &Machine) -> Result<Client, String> {
    let about = |why: String| format!("{}: {why}", kubernetes::CA_PATH);
    let builder = builder().no_proxy();
    let Some(authority) = machine.file(kubernetes::CA_PATH).map_err(about)? else {
        let why = "there is no such file, so nothing tells the API server from another host: the token \
                   of the service account is not sent";
        return Err(about(why.into()));
    };
    let certificates = Certificate::from_pem_bundle(authority.as_bytes())
        .map_err(|error| about(because(error)))?;
    let builder = builder.tls_built_in_root_certs(false);
    built(certificates.into_iter().fold(builder, ClientBuilder::add_root_certificate))
}

/// Checks that a metadata server answers, and not a host that took its name or address.
fn check_flavor(request: &Http, response: &Response) -> Result<(), String> {
    let wanted = request.headers.iter().find(|(name, _)| name == METADATA_FLAVOR);
    let Some((_, wanted)) = wanted else { return Ok(()) };
    let told = response.headers().get(METADATA_FLAVOR).map(HeaderValue::as_bytes);
    if told == Some(wanted.as_bytes()) {
        return Ok(());
    }
    let status = response.status().as_u16();
    Err(format!(
        "answers with status {status} and without {METADATA_FLAVOR}: {wanted}: this is no metadata server"
    ))
}

/// Whether a token may go there: by TLS, or to this machine.
fn is_safe(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback =
        host.parse::<std::net::IpAddr>().map_or(host == "localhost", |ip| ip.is_loopback());
    url.scheme() == "https" || is_loopback
}

/// An error with what caused it, without the URL, which the reader has already.
fn because(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_by_tls_or_nowhere_else() {
        for (url, safe) in [
            ("https://10.0.0.1:443/api", true),
            ("http://10.0.0.1/api", false),
            ("http://api.example/", false),
            ("http://localhost:8001/", true),
            ("http://127.0.0.1:8001/", true),
            ("http://[::1]:8001/", true),
        ] {
            assert_eq!(is_safe(&Url::parse(url).unwrap()), safe, "{url}");
        }
    }
}
