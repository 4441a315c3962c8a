//! Who sent a request, as far as the sidecar knows: what the rules of `access` are asked with, and what the
//! log shows.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tonic::{Request, Status};

use crate::access::Rule;
use crate::coordinator::LogLimit;
use crate::grpc::serve::connection::{Origin, Peer};
use crate::grpc::serve::subject::Names;

/// Who sent a request. Each request that a guard let through carries one.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Caller {
    identity: Identity,
    limits: Option<Arc<Limited>>,
}

/// What a caller may do.
#[derive(Debug)]
pub(in crate::grpc) struct Limited {
    pub(in crate::grpc) rules: Vec<Arc<Rule>>,
    pub(in crate::grpc) refusals: Arc<LogLimit>,
}

/// What is known of a caller.
#[derive(Clone, Debug, Default)]
pub(in crate::grpc) struct Identity {
    certificate: Option<Arc<Names>>,
    /// The digest of a bearer token that is known to the sidecar.
    token: Option<[u8; 32]>,
    /// The user of its process, on a Unix socket.
    user: Option<u32>,
    /// Its address, on TCP.
    address: Option<SocketAddr>,
    origin: Option<Origin>,
}

impl Identity {
    /// Who is at the other end of a connection, and has sent a token with this digest, if any.
    pub(in crate::grpc) fn new(peer: Option<&Peer>, token: Option<[u8; 32]>) -> Self {
        Self {
            certificate: peer.and_then(|peer| peer.certificate.clone()),
            token,
            user: peer.and_then(|peer| peer.user),
            address: peer.and_then(|peer| peer.address),
            origin: peer.map(|peer| peer.origin),
        }
    }

    /// Tells callers apart: by the names in the certificate, which its successor has too, and by the token.
    fn digest(&self) -> String {
        let mut digest = Sha256::new();
        let names = self.certificate.as_ref().map(|names| names.digest());
        for part in [names, self.token] {
            digest.update([u8::from(part.is_some())]);
            digest.update(part.unwrap_or_default());
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.certificate, &self.token, self.user, self.origin) {
            (Some(names), ..) => names.fmt(formatter),
            (None, Some(_), ..) => formatter.write_str("bearer token"),
            (None, None, Some(user), _) => write!(formatter, "user id {user}"),
            (None, None, None, Some(Origin::Loopback | Origin::Network)) => {
                formatter.write_str("no certificate or known token")
            }
            (None, None, None, Some(Origin::Socket) | None) => {
                formatter.write_str("in this process")
            }
        }
    }
}

impl Caller {
    /// A caller to whom no rules apply.
    pub(in crate::grpc) const fn unlimited(identity: Identity) -> Self {
        Self { identity, limits: None }
    }

    /// A caller who may do what `rules` allow.
    pub(in crate::grpc) fn limited(
        identity: Identity,
        rules: Vec<Arc<Rule>>,
        refusals: Arc<LogLimit>,
    ) -> Self {
        Self { identity, limits: Some(Arc::new(Limited { rules, refusals })) }
    }

    /// Who sent `request`.
    ///
    /// # Errors
    /// When no guard has seen it, which is a mistake in this program: then it is not served.
    pub(in crate::grpc) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let found = request.extensions().get::<Self>().cloned();
        found.ok_or_else(|| Status::internal("nobody asked who sent this request"))
    }

    /// What it may do; none where it may do everything.
    pub(in crate::grpc) fn limits(&self) -> Option<&Limited> {
        self.limits.as_deref()
    }

    /// Where it is, on TCP.
    pub(in crate::grpc) const fn address(&self) -> Option<SocketAddr> {
        self.identity.address
    }

    /// Who and where it is, for the log.
    pub(in crate::grpc) fn with_address(&self) -> String {
        match self.address() {
            Some(address) => format!("{self} at {address}"),
            None => self.to_string(),
        }
    }

    /// A request id that no caller of another identity can send: callers to whom rules apply need not trust
    /// each other. The separator is a character that `from_proto.rs` refuses in what callers send.
    pub(in crate::grpc) fn request_id(&self, sent: String) -> String {
        match self.limits {
            Some(_) if !sent.is_empty() => format!("{}\n{sent}", self.identity.digest()),
            Some(_) | None => sent,
        }
    }
}

impl Limited {
    pub(in crate::grpc) fn rules(&self) -> impl Iterator<Item = &Rule> + Clone {
        self.rules.iter().map(AsRef::as_ref)
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.identity.fmt(formatter)?;
        let rules = self.limits().into_iter().flat_map(Limited::rules);
        let mut named = rules.filter(|rule| !rule.name.is_empty());
        named.try_for_each(|rule| write!(formatter, " ({:?} in access)", rule.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(token: Option<[u8; 32]>) -> Caller {
        let identity = Identity { token, ..Identity::default() };
        Caller::limited(identity, Vec::new(), Arc::default())
    }

    #[test]
    fn request_ids_of_two_identities_never_meet() {
        let id = |caller: &Caller| caller.request_id("r".to_owned());
        let (one, other) = (limited(Some([1; 32])), limited(Some([2; 32])));
        assert_eq!(id(&one), id(&limited(Some([1; 32]))));
        assert_ne!(id(&one), id(&other));
        assert_ne!(id(&one), id(&limited(None)));
        assert_ne!(id(&limited(Some([0; 32]))), id(&limited(None)));
        assert_eq!(id(&Caller::unlimited(Identity::default())), "r");
        assert!(id(&one).contains('\n'), "which no caller may send");
        assert_eq!(one.request_id(String::new()), "", "none stays none");
    }
}
