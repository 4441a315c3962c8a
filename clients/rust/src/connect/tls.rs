//! Certificates, read anew for each connection, and why a sidecar refuses one.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What a connection by `https` is made with, as PEM.
#[derive(Clone, Default)]
pub struct Tls {
    ca: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Trusts the certificate authorities in `ca_pem`. The system's are not trusted.
    #[must_use]
    pub fn new(ca_pem: impl AsRef<[u8]>) -> Self {
        Self { ca: ca_pem.as_ref().to_vec(), identity: None }
    }

    /// Shows this certificate to a sidecar that asks for one.
    #[must_use]
    pub fn with_certificate(self, pem: impl AsRef<[u8]>, key_pem: impl AsRef<[u8]>) -> Self {
        let identity = Some((pem.as_ref().to_vec(), key_pem.as_ref().to_vec()));
        Self { identity, ..self }
    }
}

impl fmt::Debug for Tls {
    // S20: keys stay unseen.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Where certificates come from, asked for each new connection.
pub(crate) type TlsSource = Arc<dyn Fn() -> io::Result<Tls> + Send + Sync>;

/// How rustls is to connect with `tls`.
///
/// # Errors
/// What is wrong with the certificates, for people.
pub(crate) fn client_config(tls: &Tls) -> Result<Arc<ClientConfig>, String> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certificates(&tls.ca, "the certificate authorities")? {
        roots.add(certificate).map_err(|error| format!("the certificate authorities: {error}"))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some((pem, key)) => {
            let chain = certificates(pem, "the client certificate")?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| format!("the client certificate's key: {error}"))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("the client certificate: {error}"))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| format!("{what}: {error}"))?;
    if all.is_empty() {
        return Err(format!("{what}: no certificate in PEM form"));
    }
    Ok(all)
}
