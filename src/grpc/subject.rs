//! Whom a certificate names, and until when: read for the rules of `access` and for a metric, never to trust it. Trust
//! is decided by the handshake.

use std::fmt;

use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::access::CertificateName;
use crate::time::UnixMillis;

/// The names in a certificate's subject (CN) and in its alternative names (DNS, URI).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names(Vec<CertificateName>);

impl Names {
    /// The names in a certificate; none if it cannot be read.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        let mut names: Vec<CertificateName> =
            common.map(|name| CertificateName::Common(name.to_owned())).collect();
        if let Ok(Some(alternative)) = certificate.subject_alternative_name() {
            names.extend(alternative.value.general_names.iter().filter_map(named));
        }
        Some(Self(names))
    }

    /// Each name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &CertificateName> {
        self.0.iter()
    }

    /// The first DNS name that is no wildcard.
    pub(super) fn first_dns(&self) -> Option<String> {
        self.0.iter().find_map(|name| match name {
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
        if self.0.is_empty() {
            return formatter.write_str("a certificate without CN, DNS or URI names");
        }
        formatter.write_str("certificate")?;
        self.0.iter().try_for_each(|name| write!(formatter, " {name}"))
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
pub(super) fn not_after(certificate: &[u8]) -> Option<UnixMillis> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    Some(UnixMillis(seconds.saturating_mul(1_000)))
}
