//! Whom a certificate names, and until when: read for the rules of `access` and for a metric, never to trust
//! it. Trust is decided by the handshake.

use std::fmt;

use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::access::CertificateName;
use crate::time::UnixMillis;

/// The names in a certificate's subject (CN) and in its alternative names (DNS, URI).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::grpc) struct Names {
    names: Vec<CertificateName>,
    digest: [u8; 32],
}

impl Names {
    /// The names in a certificate; none if it cannot be read.
    pub(in crate::grpc) fn of(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        let mut names: Vec<CertificateName> =
            common.map(|name| CertificateName::Common(name.to_owned())).collect();
        if let Ok(Some(alternative)) = certificate.subject_alternative_name() {
            names.extend(alternative.value.general_names.iter().filter_map(named));
        }
        let mut digest = Sha256::new();
        for name in &names {
            let name = name.to_string();
            digest.update((name.len() as u64).to_be_bytes());
            digest.update(name);
        }
        if names.is_empty() {
            digest.update(der);
        }
        Some(Self { names, digest: digest.finalize().into() })
    }

    /// Tells callers apart: the same for two certificates with the same names, or for one without any.
    pub(in crate::grpc) const fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Each name that the certificate has.
    pub(in crate::grpc) fn iter(&self) -> impl Iterator<Item = &CertificateName> {
        self.names.iter()
    }

    /// The first DNS name that is no wildcard.
    pub(in crate::grpc) fn first_dns(&self) -> Option<String> {
        self.names.iter().find_map(|name| match name {
            CertificateName::Dns(name) if !name.contains('*') => Some(name.clone()),
            CertificateName::Dns(_)
            | CertificateName::Common(_)
            | CertificateName::Uri(_)
            | CertificateName::Any => None,
        })
    }
}

impl fmt::Display for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() {
            return formatter.write_str("a certificate without CN, DNS or URI names");
        }
        formatter.write_str("certificate")?;
        self.names.iter().try_for_each(|name| write!(formatter, " {name}"))
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of names, rules know these")]
fn named(name: &GeneralName<'_>) -> Option<CertificateName> {
    match name {
        GeneralName::DNSName(name) => Some(CertificateName::Dns(name.to_ascii_lowercase())),
        GeneralName::URI(uri) => Some(CertificateName::Uri((*uri).to_owned())),
        _ => None,
    }
}

/// When the certificate expires; none if it cannot be read.
pub(in crate::grpc) fn not_after(certificate: &[u8]) -> Option<UnixMillis> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    Some(UnixMillis(seconds.saturating_mul(1_000)))
}
