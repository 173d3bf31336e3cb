//! Object stores behind a network.

use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use url::Url;

use super::Patience;

/// Schemes that are known, for people.
const SCHEMES: &str = "s3, gs, az, http, https, file and memory";

/// The store that a URL names.
pub(super) fn open(
    url: &Url,
    environment: &[(String, String)],
    patience: &Patience,
) -> Result<Arc<dyn ObjectStore>, String> {
    let retry = RetryConfig {
        max_retries: patience.retries,
        retry_timeout: patience.request,
        backoff: BackoffConfig::default(),
    };
    let client = ClientOptions::new()
        .with_timeout(patience.request)
        .with_connect_timeout(patience.request / 4)
        .with_allow_http(true);
    macro_rules! store {
        ($builder:ty) => {{
            let builder = <$builder>::new().with_url(url.as_str());
            let builder = environment.iter().fold(builder, |builder, (name, value)| {
                match name.to_ascii_lowercase().parse() {
                    Ok(key) => builder.with_config(key, value.clone()),
                    Err(_) => builder,
                }
            });
            let store = builder.with_retry(retry).with_client_options(client).build();
            Ok(Arc::new(store.map_err(|error| error.to_string())?))
        }};
    }
    match url.scheme() {
        "s3" | "s3a" => store!(AmazonS3Builder),
        "gs" => store!(GoogleCloudStorageBuilder),
        "az" | "azure" | "abfs" | "abfss" | "adl" => store!(MicrosoftAzureBuilder),
        "http" | "https" => {
            let root = format!("{}://{}", url.scheme(), url.authority());
            let builder = HttpBuilder::new().with_url(root);
            let store = builder.with_retry(retry).with_client_options(client).build();
            Ok(Arc::new(store.map_err(|error| error.to_string())?))
        }
        other => Err(format!("no store has the scheme {other:?}; known are {SCHEMES}")),
    }
}
