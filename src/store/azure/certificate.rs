//! Signing in with a certificate: an assertion signed here, since the SDK's own needs OpenSSL.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::ClientMethodOptions;
use azure_identity::ClientAssertion;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::services_time::ServicesTime;
use super::settings::AzureSettingsError;
use crate::time::UnixMillis;

/// A certificate with its RSA private key.
pub(super) struct Certificate {
    key: RsaKeyPair,
    /// The certificate's SHA-256, in base64: tells Entra ID which one it is.
    thumbprint: String,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Certificate")
            .field("thumbprint", &self.thumbprint)
            .finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads both from PEM; the first certificate is the one that signs in.
    pub(super) fn parse(pem: &str) -> Result<Self, AzureSettingsError> {
        let malformed = |problem: &str| AzureSettingsError::Malformed {
            setting: "the client certificate",
            problem: problem.to_owned(),
        };
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| malformed("it contains no PEM section CERTIFICATE"))?;
        if pem.contains("ENCRYPTED") {
            return Err(malformed("its private key is encrypted; give it without a password"));
        }
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| malformed("it contains no PEM section PRIVATE KEY"))?;
        let key = match &key {
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Sec1(_) | _ => {
                return Err(malformed("its private key is not an RSA key"));
            }
        };
        let key =
            key.map_err(|_| malformed("its private key is not an RSA key of 2048 to 4096 bits"))?;
        Ok(Self { key, thumbprint: URL_SAFE_NO_PAD.encode(Sha256::digest(&certificate)) })
    }

    fn sign(&self, text: &str) -> Option<String> {
        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .ok()?;
        Some(URL_SAFE_NO_PAD.encode(signature))
    }
}

/// What proves to Entra ID that this is the application: a token signed with the certificate's key.
#[derive(Clone, Debug)]
pub(super) struct Assertion {
    pub(super) certificate: Arc<Certificate>,
    pub(super) client_id: String,
    /// The URL that it will be sent to.
    pub(super) audience: String,
    pub(super) time: Arc<ServicesTime>,
}

/// How long an assertion counts.
const LIFETIME_SECONDS: u64 = 600;

impl Assertion {
    fn token(&self, now: UnixMillis, id: Uuid) -> Option<String> {
        let header = serde_json::json!({
            "alg": "RS256", "typ": "JWT", "x5t#S256": self.certificate.thumbprint,
        });
        let claims = serde_json::json!({
            "aud": self.audience,
            "iss": self.client_id,
            "sub": self.client_id,
            "jti": id.to_string(),
            "nbf": now.seconds(),
            "exp": now.seconds() + LIFETIME_SECONDS,
        });
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = self.certificate.sign(&signed)?;
        Some(format!("{signed}.{signature}"))
    }
}

#[async_trait]
impl ClientAssertion for Assertion {
    async fn secret(&self, _: Option<ClientMethodOptions<'_>>) -> azure_core::Result<String> {
        self.token(self.time.now(), Uuid::new_v4()).ok_or_else(|| {
            azure_core::Error::with_message(
                azure_core::error::ErrorKind::Credential,
                "the assertion could not be signed",
            )
        })
    }
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
