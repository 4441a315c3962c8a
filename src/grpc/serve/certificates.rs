//! The files of TLS: read at start, looked at again while the server runs, and replaced together.
//!
//! The whole `ServerConfig` is replaced, not only the certificate: so the authorities of clients are replaced
//! with it, and no session that began under the former ones is resumed. Connections that are open keep what
//! they began with, but for those of clients whose certificates were revoked since.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::listen::{ListenError, unreadable};
use super::subject;
use crate::time::UnixMillis;

/// Files in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The server's certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of clients' certificates; none admits clients without a certificate.
    pub client_ca: Option<PathBuf>,
    /// Lists of clients' certificates that were revoked, by those authorities.
    pub crl: Option<PathBuf>,
    /// How often the files are looked at, to use new ones; by default [`RELOAD_INTERVAL`].
    pub reload_interval: Duration,
}

/// How often the files are looked at: often enough for certificates that are renewed days before they expire.
pub const RELOAD_INTERVAL: Duration = Duration::from_secs(30);

/// gRPC is HTTP/2.
const PROTOCOL: &[u8] = b"h2";

const CERTIFICATE: &str = "listen.tls.certificate";
const KEY: &str = "listen.tls.key";
const CLIENT_CA: &str = "listen.tls.client_ca";
const CRL: &str = "listen.tls.crl";

/// The newest files that could be used.
pub(in crate::grpc) struct Certificates {
    settings: Tls,
    current: Mutex<Current>,
    /// How often the files were replaced.
    generation: AtomicU64,
    not_after: watch::Sender<Option<UnixMillis>>,
}

struct Current {
    loaded: Loaded,
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

/// Reads the files of TLS, as a server does before it listens.
///
/// # Errors
/// What is wrong with one of them, or that the key is not that of the certificate.
pub fn check_certificates(settings: &Tls) -> Result<(), ListenError> {
    Certificates::open(settings).map(drop)
}

impl Certificates {
    /// Reads the files of `settings`.
    pub(in crate::grpc) fn open(settings: &Tls) -> Result<Self, ListenError> {
        let loaded = Loaded::from(Files::read(settings)?, settings)?;
        Ok(Self {
            settings: settings.clone(),
            not_after: watch::Sender::new(loaded.not_after),
            current: Mutex::new(Current { loaded, problem: None }),
            generation: AtomicU64::new(0),
        })
    }

    /// What the next handshake is done with.
    pub(in crate::grpc) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().loaded.config)
    }

    /// Changes when other files are used.
    pub(in crate::grpc) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether the certificate of a client, with the chain that it has shown, was revoked.
    pub(in crate::grpc) fn is_revoked(
        &self,
        chain: &[CertificateDer<'static>],
        now: UnixMillis,
    ) -> bool {
        let clients = self.current().loaded.clients.clone();
        let Some((clients, (leaf, others))) = clients.zip(chain.split_first()) else {
            return false;
        };
        let now = UnixTime::since_unix_epoch(Duration::from_millis(now.0));
        let checked = clients.verify_client_cert(leaf, others, now);
        matches!(checked, Err(Error::InvalidCertificate(CertificateError::Revoked)))
    }

    /// A name by which clients may reach the server, if its certificate has one.
    pub(in crate::grpc) fn name(&self) -> Option<String> {
        self.current().loaded.name.clone()
    }

    /// When the certificate that is served expires: of its chain, the first that does. None if that cannot be
    /// read.
    pub(in crate::grpc) fn not_after(&self) -> watch::Receiver<Option<UnixMillis>> {
        self.not_after.subscribe()
    }

    /// Looks at the files again and again, and uses what has changed. Ends never.
    pub(in crate::grpc) async fn keep_current(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.settings.reload_interval).await;
            let own = Arc::clone(&self);
            // A failed look logs nothing of its own and is followed by the next one.
            let _ = tokio::task::spawn_blocking(move || own.look()).await;
        }
    }

    /// Uses the files if they have changed. If they cannot be used, the former ones stay in use: a file that
    /// is being written, or a certificate without its key, is right again at a later look.
    fn look(&self) {
        let files = match Files::read(&self.settings) {
            Ok(files) if files.version == self.current().loaded.version => {
                self.current().problem = None;
                return;
            }
            Ok(files) => files,
            Err(error) => return self.note(&error),
        };
        match Loaded::from(files, &self.settings) {
            Err(error) => self.note(&error),
            Ok(loaded) => {
                let not_after = loaded.not_after;
                *self.current() = Current { loaded, problem: None };
                self.generation.fetch_add(1, Ordering::Release);
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
    crl: Option<Vec<u8>>,
    /// The digest of all: Kubernetes swaps symbolic links, so neither names nor times tell.
    version: [u8; 32],
}

impl Files {
    fn read(settings: &Tls) -> Result<Self, ListenError> {
        let certificate = read(CERTIFICATE, &settings.certificate)?;
        let key = read(KEY, &settings.key)?;
        let client_ca =
            settings.client_ca.as_ref().map(|path| read(CLIENT_CA, path)).transpose()?;
        let crl = settings.crl.as_ref().map(|path| read(CRL, path)).transpose()?;
        let mut digest = Sha256::new();
        // Which of the last two are there does not change.
        for file in [&certificate, &key].into_iter().chain(&client_ca).chain(&crl) {
            digest.update((file.len() as u64).to_be_bytes());
            digest.update(file);
        }
        Ok(Self { certificate, key, client_ca, crl, version: digest.finalize().into() })
    }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, ListenError> {
    fs::read(path).map_err(unreadable(key, path))
}

/// Files that can be used.
struct Loaded {
    version: [u8; 32],
    config: Arc<ServerConfig>,
    /// Checks the certificates of clients, where they show one.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    /// The first DNS name of the server's certificate.
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
        let clients = clients(&files, settings, provider)?;
        let config = match &clients {
            None => config.with_no_client_auth(),
            Some(clients) => config.with_client_cert_verifier(Arc::clone(clients)),
        };
        let config = config.with_single_cert(chain, key);
        let mut config = config.map_err(|error| {
            if !matches!(error, Error::InconsistentKeys(_)) {
                return invalid_certificate(&error);
            }
            let certificate = settings.certificate.display();
            invalid(
                KEY,
                &settings.key,
                &format!("it is not the key of the certificate {certificate}"),
            )
        })?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        if settings.client_ca.is_some() {
            // Who resumes a session shows no certificate, and the one that it showed may have expired.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self { version: files.version, config: Arc::new(config), clients, name, not_after })
    }
}

/// What checks the certificates of clients: none where they need none. With lists of what was revoked, each
/// authority in a client's chain must have one: of what no list is about, nobody knows whether it was
/// revoked. A list that is out of date counts on, since its authority may only be late.
fn clients(
    files: &Files,
    settings: &Tls,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, ListenError> {
    let Some((path, pem)) = settings.client_ca.as_ref().zip(files.client_ca.as_ref()) else {
        return Ok(None);
    };
    let problem = |error: &dyn fmt::Display| invalid(CLIENT_CA, path, error);
    let mut authorities = RootCertStore::empty();
    for authority in certificates(CLIENT_CA, path, pem)? {
        authorities.add(authority).map_err(|error| problem(&error))?;
    }
    let authorities = Arc::new(authorities);
    let mut clients = WebPkiClientVerifier::builder_with_provider(authorities, provider);
    if let Some((path, pem)) = settings.crl.as_ref().zip(files.crl.as_ref()) {
        let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
        let lists = lists.map_err(|error| invalid(CRL, path, &error))?;
        if lists.is_empty() {
            return Err(invalid(CRL, path, &"it contains no certificate revocation list"));
        }
        clients = clients.with_crls(lists);
    }
    clients.build().map(Some).map_err(|error| {
        let is_of_lists = matches!(error, VerifierBuilderError::InvalidCrl(_));
        match settings.crl.as_ref().filter(|_| is_of_lists) {
            Some(path) => invalid(CRL, path, &error),
            None => problem(&error),
        }
    })
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
