//! A certificate authority, and a certificate of its for 127.0.0.1, made anew by each run.

use std::sync::LazyLock;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// What a server of API's and its clients have.
pub(crate) struct Authority {
    /// The authority's certificate, which clients trust.
    pub(crate) certificate: String,
    /// The server's certificate, which is no authority's.
    pub(crate) server: String,
    chain: CertificateDer<'static>,
    key: Vec<u8>,
}

/// The one of this run.
pub(crate) static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let certificate = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap();
    let chain = server.der().clone();
    Authority { certificate, server: server.pem(), chain, key: key.serialize_der() }
});

impl Authority {
    /// What the server proves itself with.
    pub(crate) fn identity(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivatePkcs8KeyDer::from(self.key.clone());
        (vec![self.chain.clone()], PrivateKeyDer::Pkcs8(key))
    }
}
