//! The files of TLS: read at start, looked at again while the server runs, and replaced together.
//!
//! The whole `ServerConfig` is replaced, not only the certificate: so the authorities of clients are replaced with it,
//! and no session that began under the former ones is resumed. Connections that are open keep what they began with.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::listen::ListenError;
use super::server::{Tls, unreadable};
use super::subject;
use crate::time::UnixMillis;

/// How often the files are looked at: often enough for certificates that are renewed days before they expire.
pub const RELOAD_INTERVAL: Duration = Duration::from_secs(30);

/// gRPC is HTTP/2.
const PROTOCOL: &[u8] = b"h2";

const CERTIFICATE: &str = "listen.tls.certificate";
const KEY: &str = "listen.tls.key";
const CLIENT_CA: &str = "listen.tls.client_ca";

/// The newest files that could be used.
pub(super) struct Certificates {
    settings: Tls,
    current: Mutex<Current>,
    not_after: watch::Sender<Option<UnixMillis>>,
}

struct Current {
    /// The digest of the contents of all files: Kubernetes swaps symbolic links, so neither names nor times tell.
    version: [u8; 32],
    config: Arc<ServerConfig>,
    /// The first DNS name of the server's certificate.
    name: Option<String>,
    /// Why the files cannot be used that are there now, so that it is logged once.
    problem: Option<String>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Certificates")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Certificates {
    /// Reads the files of `settings`.
    pub(super) fn open(settings: &Tls) -> Result<Self, ListenError> {
        let loaded = Loaded::from(Files::read(settings)?, settings)?;
        Ok(Self {
            settings: settings.clone(),
            not_after: watch::Sender::new(loaded.not_after),
            current: Mutex::new(Current {
                version: loaded.version,
                config: loaded.config,
                name: loaded.name,
                problem: None,
            }),
        })
    }

    /// What the next handshake is done with.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().config)
    }

    /// A name by which clients may reach the server, if its certificate has one.
    pub(super) fn name(&self) -> Option<String> {
        self.current().name.clone()
    }

    /// When the certificate that is served expires: of its chain, the first that does. None if that cannot be read.
    pub(super) fn not_after(&self) -> watch::Receiver<Option<UnixMillis>> {
        self.not_after.subscribe()
    }

    /// Looks at the files again and again, and uses what has changed. Ends never.
    pub(super) async fn keep_current(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.settings.reload_interval).await;
            let own = Arc::clone(&self);
            // A failed look logs nothing of its own and is followed by the next one.
            let _ = tokio::task::spawn_blocking(move || own.look()).await;
        }
    }

    /// Uses the files if they have changed. If they cannot be used, the former ones stay in use: a file that is being
    /// written, or a certificate without its key, is right again at a later look.
    fn look(&self) {
        let files = match Files::read(&self.settings) {
            Ok(files) if files.version == self.current().version => {
                self.current().problem = None;
                return;
            }
            Ok(files) => files,
            Err(error) => return self.note(&error),
        };
        match Loaded::from(files, &self.settings) {
            Err(error) => self.note(&error),
            Ok(Loaded { version, config, name, not_after }) => {
                *self.current() = Current { version, config, name, problem: None };
                self.not_after.send_replace(not_after);
                tracing::info!(
                    certificate = %self.settings.certificate.display(),
                    not_after = not_after.map(shown),
                    "the TLS files have changed and are used for new connections"
                );
            }
        }
    }

    fn note(&self, error: &ListenError) {
        let problem = error.to_string();
        let mut current = self.current();
        if current.problem.as_ref() != Some(&problem) {
            tracing::error!(
                %error,
                "the TLS files have changed and cannot be used: the former ones stay in use; correct the files"
            );
            current.problem = Some(problem);
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A moment for people: `2026-11-22T03:40:00Z`.
fn shown(moment: UnixMillis) -> String {
    let since_epoch = Duration::from_secs(moment.seconds());
    humantime::format_rfc3339_seconds(std::time::SystemTime::UNIX_EPOCH + since_epoch).to_string()
}

/// The contents of the files.
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
    version: [u8; 32],
}

impl Files {
    fn read(settings: &Tls) -> Result<Self, ListenError> {
        let certificate = read(CERTIFICATE, &settings.certificate)?;
        let key = read(KEY, &settings.key)?;
        let client_ca =
            settings.client_ca.as_ref().map(|path| read(CLIENT_CA, path)).transpose()?;
        let mut digest = Sha256::new();
        for file in [&certificate, &key].into_iter().chain(&client_ca) {
            digest.update((file.len() as u64).to_be_bytes());
            digest.update(file);
        }
        Ok(Self { certificate, key, client_ca, version: digest.finalize().into() })
    }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, ListenError> {
    fs::read(path).map_err(unreadable(key, path))
}

/// Files that can be used.
struct Loaded {
    version: [u8; 32],
    config: Arc<ServerConfig>,
    name: Option<String>,
    not_after: Option<UnixMillis>,
}

impl Loaded {
    fn from(files: Files, settings: &Tls) -> Result<Self, ListenError> {
        let invalid_certificate =
            |error: &dyn fmt::Display| invalid(CERTIFICATE, &settings.certificate, error);
        let chain = certificates(CERTIFICATE, &settings.certificate, &files.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&files.key)
            .map_err(|error| invalid(KEY, &settings.key, &error))?;
        let name = chain
            .first()
            .and_then(|leaf| subject::Names::of(leaf))
            .and_then(|names| names.first_dns());
        let not_after = chain.iter().filter_map(|one| subject::not_after(one)).min();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid_certificate(&error))?;
        let config = match settings.client_ca.as_ref().zip(files.client_ca.as_ref()) {
            None => config.with_no_client_auth(),
            Some((path, pem)) => {
                let problem = |error: &dyn fmt::Display| invalid(CLIENT_CA, path, error);
                let mut authorities = RootCertStore::empty();
                for authority in certificates(CLIENT_CA, path, pem)? {
                    authorities.add(authority).map_err(|error| problem(&error))?;
                }
                let clients =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
                        .build()
                        .map_err(|error| problem(&error))?;
                config.with_client_cert_verifier(clients)
            }
        };
        let mut config =
            config.with_single_cert(chain, key).map_err(|error| invalid_certificate(&error))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        if settings.client_ca.is_some() {
            // Who resumes a session shows no certificate, and the one that it showed may have expired.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self { version: files.version, config: Arc::new(config), name, not_after })
    }
}

fn certificates(
    key: &'static str,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, ListenError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err(invalid(key, path, &"it contains no certificate")),
        Ok(chain) => Ok(chain),
        Err(error) => Err(invalid(key, path, &error)),
    }
}

fn invalid(key: &'static str, path: &Path, problem: &dyn fmt::Display) -> ListenError {
    ListenError::Certificates { key, path: path.to_owned(), problem: problem.to_string() }
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
