//! TLS below the watched connection, so that what ends a connection is seen as its client did it (S14).

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::Connection;
use super::listen::ListenError;
use super::server::{Tls, unreadable};

/// How long a client may take over its part of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// gRPC is HTTP/2.
const PROTOCOL: &[u8] = b"h2";

/// What handshakes are done with.
#[derive(Clone)]
pub(super) struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

/// Reads the files of `settings`.
pub(super) fn acceptor(settings: &Tls) -> Result<Acceptor, ListenError> {
    let chain = certificates("listen.tls.certificate", &settings.certificate)?;
    let key = read("listen.tls.key", &settings.key)?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| useless("listen.tls.key", &settings.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| useless("listen.tls.certificate", &settings.certificate, &error))?;
    let config = match &settings.client_ca {
        None => config.with_no_client_auth(),
        Some(path) => {
            let problem =
                |error: &dyn std::fmt::Display| useless("listen.tls.client_ca", path, error);
            let mut authorities = RootCertStore::empty();
            for authority in certificates("listen.tls.client_ca", path)? {
                authorities.add(authority).map_err(|error| problem(&error))?;
            }
            let clients =
                WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
                    .build()
                    .map_err(|error| problem(&error))?;
            config.with_client_cert_verifier(clients)
        }
    };
    let mut config = config
        .with_single_cert(chain, key)
        .map_err(|error| useless("listen.tls.certificate", &settings.certificate, &error))?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
}

fn certificates(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, ListenError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(key, path)?).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err(useless(key, path, &"there is no certificate in it")),
        Ok(chain) => Ok(chain),
        Err(error) => Err(useless(key, path, &error)),
    }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, ListenError> {
    fs::read(path).map_err(unreadable(key, path))
}

fn useless(key: &'static str, path: &Path, problem: &dyn std::fmt::Display) -> ListenError {
    ListenError::Certificates { key, path: path.to_owned(), problem: problem.to_string() }
}

/// Those of `connections` that came through the handshake, of which `at_once` may be under way.
pub(super) fn encrypted<S>(
    connections: impl Stream<Item = io::Result<Connection<S>>>,
    acceptor: Acceptor,
    at_once: usize,
) -> impl Stream<Item = io::Result<Connection<TlsStream<S>>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    connections
        .map_ok(move |connection| {
            let acceptor = acceptor.clone();
            async move {
                let shaken = connection.wrapped(|stream| acceptor.0.accept(stream));
                match tokio::time::timeout(HANDSHAKE, shaken).await {
                    Ok(Ok(connection)) => Ok(Some(connection)),
                    Ok(Err(error)) => {
                        tracing::debug!(%error, "a TLS handshake failed");
                        Ok(None)
                    }
                    Err(_) => Ok(None),
                }
            }
        })
        .try_buffer_unordered(at_once)
        .try_filter_map(|connection| std::future::ready(Ok(connection)))
}
