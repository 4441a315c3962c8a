//! Who calls: by certificate or bearer token over TCP. Who may use the Unix socket was decided when the
//! connection was accepted. What a caller may do then is decided in `permission.rs`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tonic::service::Interceptor;
use tonic::{Request, Status};

use super::caller::{Caller, Identity};
use super::tokens::{self, Tokens};
use crate::access::{CertificateName, Rule, Who};
use crate::coordinator::{Coordinator, LogLimit};
use crate::grpc::serve::connection::peer_of;
use crate::grpc::serve::listen::ListenError;
use crate::grpc::status;
use crate::lobby::{Closed, Limit, Stage};

/// Recognises callers, or says what they lack, to them and in the log.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Guard {
    door: Door,
    coordinator: Coordinator,
    strangers: Arc<LogLimit>,
}

/// Whom a listener is for.
#[derive(Clone, Debug)]
pub(in crate::grpc) enum Door {
    /// Whoever reached the listener.
    Everybody,
    /// Callers over TCP.
    Tcp(Arc<TcpGuard>),
}

impl Guard {
    /// A guard of this door. Its log lines are bounded by the coordinator's clock.
    pub(in crate::grpc) fn new(door: Door, coordinator: Coordinator) -> Self {
        Self { door, coordinator, strangers: Arc::default() }
    }

    /// Says who was not let in: nothing of what the caller sent, which may be nearly a secret (S20).
    fn log(&self, request: &Request<()>, refused: &Status) {
        let Some(more) = self.strangers.line(self.coordinator.clock().now()) else { return };
        let client = peer_of(request).and_then(|peer| peer.address).map(tracing::field::display);
        let reason = refused.message();
        tracing::warn!(client, reason, more, "a caller was not recognised");
    }
}

impl Interceptor for Guard {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let caller = self.door.recognise(&request);
        let caller = caller.inspect_err(|refused| self.log(&request, refused))?;
        let seat = peer_of(&request).and_then(|peer| peer.seat.as_ref());
        if let Some(seat) = seat.filter(|seat| seat.advance(Stage::Serving).is_err()) {
            seat.note(Closed::Full);
            let problem =
                "as many connections make calls at this listener as may (limits.connections)";
            return Err(status::limit_reached(Limit::Connections, problem));
        }
        request.extensions_mut().insert(caller);
        Ok(request)
    }
}

impl Door {
    fn recognise(&self, request: &Request<()>) -> Result<Caller, Status> {
        match self {
            Self::Everybody => Ok(Caller::unlimited(Identity::new(peer_of(request), None))),
            Self::Tcp(guard) => guard.recognise(request),
        }
    }
}

/// What is asked of callers over TCP.
#[derive(Debug)]
pub(in crate::grpc) struct TcpGuard {
    /// Every caller must send one of these, or one of a rule's.
    tokens: Option<Tokens>,
    /// Those in force.
    rules: Mutex<Arc<[KnownRule]>>,
    refusals: Arc<LogLimit>,
}

/// The rules of `access` that a server asks, to be replaced while it runs.
#[derive(Clone, Debug)]
pub struct AccessRules(Arc<TcpGuard>);

impl AccessRules {
    pub(in crate::grpc) fn of(guard: &Arc<TcpGuard>) -> Self {
        Self(Arc::clone(guard))
    }

    /// The rules that are asked now.
    #[must_use]
    pub fn in_force(&self) -> Vec<Rule> {
        self.0.rules().iter().map(|known| known.rule.as_ref().clone()).collect()
    }

    /// Asks `rules` for each call from now on. Calls and streams that are under way go on by those that let
    /// them in.
    ///
    /// # Errors
    /// When a file of tokens cannot be used: then the former rules stay in force.
    pub fn replace(&self, rules: &[Rule]) -> Result<(), ListenError> {
        let known = known_rules(rules).map_err(|(key, path, source)| ListenError::File {
            key,
            path,
            source,
        })?;
        *self.0.rules.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }
}

/// A rule, and the tokens of its file.
#[derive(Debug)]
struct KnownRule {
    rule: Arc<Rule>,
    tokens: Option<Tokens>,
}

/// A file of tokens that cannot be used: the setting that names it, the file, and why.
pub(in crate::grpc) type UnreadableTokens = (&'static str, PathBuf, io::Error);

impl TcpGuard {
    /// Opens the files of tokens.
    pub(in crate::grpc) fn new(
        token_file: Option<&Path>,
        rules: &[Rule],
    ) -> Result<Self, UnreadableTokens> {
        let tokens = token_file.map(|path| open("listen.token_file", path)).transpose()?;
        Ok(Self { tokens, rules: Mutex::new(known_rules(rules)?), refusals: Arc::default() })
    }

    fn rules(&self) -> Arc<[KnownRule]> {
        Arc::clone(&self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn recognise<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let rules = self.rules();
        let sent = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let digest = sent.and_then(|value| value.strip_prefix("Bearer "));
        let digest = digest.filter(|token| !token.is_empty()).map(tokens::digest);
        let certificate = peer_of(request).and_then(|peer| peer.certificate.clone());
        let with_token = digest.map(|digest| {
            let of_rules = rules.iter().filter(move |known| known.has_token(&digest));
            of_rules.map(|known| &known.rule).collect::<Vec<_>>()
        });
        let is_known = match (&with_token, &digest) {
            (Some(of_rules), Some(digest)) => {
                let in_file = self.tokens.as_ref().is_some_and(|tokens| tokens.contain(digest));
                in_file || !of_rules.is_empty()
            }
            (None, _) | (_, None) => false,
        };
        if self.tokens.is_some() && !is_known {
            return Err(status::unauthenticated(if digest.is_none() {
                "send a token of listen.token_file as metadata: authorization: Bearer TOKEN"
            } else {
                "the bearer token is unknown: it is neither in listen.token_file nor in a rule of access"
            }));
        }
        let identity = Identity::new(peer_of(request), digest.filter(|_| is_known));
        if rules.is_empty() {
            return Ok(Caller::unlimited(identity));
        }
        if digest.is_some() && !is_known {
            return Err(status::unauthenticated("the bearer token is in no rule of access"));
        }
        if digest.is_none() && certificate.is_none() {
            return Err(status::unauthenticated(
                "the sidecar has rules of access: send a bearer token (metadata: authorization: Bearer TOKEN), or use a \
                 client certificate",
            ));
        }
        let of_certificate = rules.iter().map(|known| &known.rule).filter(|rule| {
            let names = certificate.iter().flat_map(|names| names.iter());
            is_for(rule, names, certificate.is_some())
        });
        let rules =
            of_certificate.chain(with_token.into_iter().flatten()).map(Arc::clone).collect();
        Ok(Caller::limited(identity, rules, Arc::clone(&self.refusals)))
    }
}

/// Opens the files of tokens that rules name.
fn known_rules(rules: &[Rule]) -> Result<Arc<[KnownRule]>, UnreadableTokens> {
    let known = |rule: &Rule| {
        let tokens = match &rule.who {
            Who::TokenFile(path) => Some(open("access.token_file", path)?),
            Who::Certificate(_) | Who::TokenDigest(_) => None,
        };
        Ok(KnownRule { rule: Arc::new(rule.clone()), tokens })
    };
    rules.iter().map(known).collect()
}

fn open(setting: &'static str, path: &Path) -> Result<Tokens, UnreadableTokens> {
    Tokens::open(path).map_err(|error| (setting, path.to_owned(), error))
}

impl KnownRule {
    fn has_token(&self, digest: &[u8; 32]) -> bool {
        match &self.rule.who {
            Who::TokenDigest(known) => known == digest,
            Who::TokenFile(_) => self.tokens.as_ref().is_some_and(|tokens| tokens.contain(digest)),
            Who::Certificate(_) => false,
        }
    }
}

/// Whether the rule is for a caller whose certificate has these names.
fn is_for<'a>(
    rule: &Rule,
    mut names: impl Iterator<Item = &'a CertificateName>,
    shown: bool,
) -> bool {
    match &rule.who {
        Who::Certificate(CertificateName::Any) => shown,
        Who::Certificate(name) => names.any(|one| one == name),
        Who::TokenDigest(_) | Who::TokenFile(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(door: &Door, authorization: Option<&str>) -> Result<(), tonic::Code> {
        let mut request = Request::new(());
        if let Some(value) = authorization {
            request.metadata_mut().insert("authorization", value.parse().unwrap());
        }
        door.recognise(&request).map(drop).map_err(|status| status.code())
    }

    #[test]
    fn s20_a_caller_needs_one_of_the_tokens() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first-token\n").unwrap();
        let door = Door::Tcp(Arc::new(TcpGuard::new(Some(file.path()), &[]).unwrap()));
        let refused = Err(tonic::Code::Unauthenticated);
        assert_eq!(ask(&door, None), refused);
        assert_eq!(ask(&door, Some("Bearer first")), refused);
        assert_eq!(ask(&door, Some("first-token")), refused);
        assert_eq!(ask(&door, Some("Bearer ")), refused);
        assert_eq!(ask(&door, Some("Bearer first-token")), Ok(()));
    }

    #[test]
    fn without_tokens_and_rules_everybody_is_let_in_whatever_token_is_sent() {
        let door = Door::Tcp(Arc::new(TcpGuard::new(None, &[]).unwrap()));
        assert_eq!(ask(&door, None), Ok(()));
        assert_eq!(ask(&door, Some("Bearer of-a-mesh")), Ok(()));
    }
}
