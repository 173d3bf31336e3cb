//! Stores that were given no credentials: they ask the metadata service of a cloud's machine for some, and
//! elsewhere its error says nothing to people.

/// How a failed request shows that it went to a metadata service.
const MARKS: [&str; 5] = [
    "169.254.169.254",
    "metadata.google.internal",
    "/latest/api/token",
    "/latest/meta-data/iam",
    "/metadata/identity/oauth2/token",
];

/// What to tell of a failure for want of credentials, if `what` is one: that there are none, and where they
/// are looked for. `store` is the store's scheme and host.
pub(super) fn missing(store: &str, what: &str) -> Option<String> {
    MARKS.iter().any(|mark| what.contains(mark)).then_some(())?;
    let (places, service) = match store.split("://").next()? {
        "s3" | "s3a" => (
            "AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, AWS_WEB_IDENTITY_TOKEN_FILE with \
             AWS_ROLE_ARN, AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or \
             AWS_CONTAINER_CREDENTIALS_FULL_URI (AWS_SKIP_SIGNATURE=true reads a public bucket)",
            "EC2's",
        ),
        "gs" => (
            "GOOGLE_SERVICE_ACCOUNT, GOOGLE_SERVICE_ACCOUNT_KEY or GOOGLE_APPLICATION_CREDENTIALS \
             (GOOGLE_SKIP_SIGNATURE=true reads a public bucket)",
            "Google's",
        ),
        _ => (
            "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_CLIENT_ID with \
             AZURE_STORAGE_CLIENT_SECRET and AZURE_STORAGE_TENANT_ID, or AZURE_FEDERATED_TOKEN_FILE \
             (AZURE_SKIP_SIGNATURE=true reads a public container)",
            "Azure's",
        ),
    };
    Some(format!(
        "no credentials were found. They are taken from the environment of the process that reads: \
         {places}; else from {service} metadata service, which gave none: {what}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::{Patience, Stores};
    use super::*;
    use crate::error::DataError;
    use crate::limits::Limits;

    #[test]
    fn a_failure_of_a_metadata_service_names_where_credentials_belong() {
        for (store, service, name) in [
            ("s3://bucket", "http://169.254.169.254/latest/api/token", "AWS_ACCESS_KEY_ID"),
            ("gs://bucket", "http://metadata.google.internal/x", "GOOGLE_SERVICE_ACCOUNT"),
            ("az://box", "http://169.254.169.254/metadata/identity", "AZURE_STORAGE_ACCOUNT_KEY"),
        ] {
            let told = missing(store, &format!("error sending request for url ({service})"));
            let told = told.unwrap();
            assert!(told.starts_with("no credentials were found"), "{told}");
            assert!(told.contains(name), "{told}");
        }
        assert_eq!(missing("s3://bucket", "connection refused"), None);
    }

    #[tokio::test]
    async fn s3_without_credentials_says_so() {
        let environment = [
            ("AWS_METADATA_ENDPOINT".to_owned(), "http://127.0.0.1:1".to_owned()),
            ("AWS_REGION".to_owned(), "eu-north-1".to_owned()),
        ];
        let patience = Patience { retries: 0, ..Patience::default() };
        let stores = Stores::new(Limits::default(), patience, environment);
        let error = stores.look("s3://bucket/a.parquet").await.unwrap_err();
        let DataError::Unavailable { what, .. } = &error else { panic!("{error}") };
        assert!(what.starts_with("no credentials were found"), "{what}");
        assert!(what.contains("AWS_SECRET_ACCESS_KEY"), "{what}");
    }
}
