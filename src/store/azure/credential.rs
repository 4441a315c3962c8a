//! Tokens that are there when they are needed: fetched again in the background long before they end, so that
//! a slow or hanging identity endpoint holds up no renewal while the token at hand counts.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
use azure_core::error::ErrorKind;
use azure_core::http::StatusCode;
use tokio::sync::watch;

use crate::store::descriptors::NoDescriptor;
use crate::time::{Clock, Instant};

/// Why there is no token. Shows no secret (S20).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SignInError {
    /// The identity endpoint says no.
    #[error("the sign-in was refused: {reason}")]
    Refused {
        /// In its words.
        reason: String,
    },
    /// Fetching a token needed a file descriptor.
    #[error("no token to sign in with: {0}")]
    NoDescriptor(NoDescriptor),
    /// The identity endpoint does not answer, or not as it does.
    #[error("no token to sign in with: {reason}")]
    Unreachable {
        /// What happened, for people.
        reason: String,
    },
}

/// Where tokens come from.
#[async_trait]
pub(super) trait FetchToken: Send + Sync + fmt::Debug {
    /// Fetches a token, not one from a cache.
    async fn fetch(&self) -> Result<AccessToken, SignInError>;
}

/// A fetch that takes longer has failed.
const FETCH_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a request waits for a token when there is none to send it with: shorter than its own time-out
/// (S7: a try is cut off after 2.5 s at the earliest).
const WAIT: Duration = Duration::from_secs(2);
/// How long after a failed fetch the next one is begun when requests have no token.
const RETRY_WITHOUT_TOKEN: Duration = Duration::from_secs(1);
/// The same while the token at hand still counts.
const RETRY_WITH_TOKEN: Duration = Duration::from_secs(30);
/// How long a token counts at least and at most, and when its successor is fetched at the latest, whatever
/// its end is by the wall clock, which may be wrong (S3): the service is the judge, by 401.
const SHORTEST_LIFE: Duration = Duration::from_secs(5 * 60);
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
const REFRESH_AFTER: Duration = Duration::from_secs(30 * 60);
/// A token that lacks a right is replaced when it is at least this old: another would lack it, too.
const OLD_ENOUGH: Duration = Duration::from_secs(60);

/// The token at hand, handed out at once, and its successor, fetched from half of its life on, or sooner.
#[derive(Clone)]
pub(super) struct CachedCredential {
    shared: Arc<Shared>,
}

struct Shared {
    source: Arc<dyn FetchToken>,
    clock: Arc<dyn Clock>,
    state: Mutex<TokenState>,
    /// Told of each fetch that ends.
    fetched: watch::Sender<()>,
}

#[derive(Default)]
struct TokenState {
    held: Option<Held>,
    fetching: bool,
    /// No fetch is begun before.
    not_before: Instant,
    error: Option<SignInError>,
}

struct Held {
    token: AccessToken,
    since: Instant,
    ends: Instant,
    refresh_from: Instant,
    /// The service did not take it.
    refused: bool,
}

impl Held {
    fn is_in(&self, authorization: &str) -> bool {
        authorization.strip_prefix("Bearer ") == Some(self.token.token.secret())
    }
}

impl fmt::Debug for CachedCredential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CachedCredential").field("source", &self.shared.source).finish()
    }
}

impl CachedCredential {
    pub(super) fn new(source: Arc<dyn FetchToken>, clock: Arc<dyn Clock>) -> Self {
        let shared =
            Shared { source, clock, state: Mutex::default(), fetched: watch::Sender::new(()) };
        Self { shared: Arc::new(shared) }
    }

    /// Begins to fetch a token if it is time to. Needs a tokio runtime.
    pub(super) fn refresh_if_due(&self) {
        let shared = &self.shared;
        let now = shared.clock.now();
        let mut state = shared.state();
        let due = state.held.as_ref().is_none_or(|held| held.refused || now >= held.refresh_from);
        if due && !state.fetching && now >= state.not_before {
            state.fetching = true;
            let shared = Arc::clone(shared);
            tokio::spawn(async move { shared.fetch().await });
        }
    }

    /// The token to sign with now, if there is one that counts and was not refused.
    pub(super) fn at_hand(&self) -> Option<AccessToken> {
        match self.shared.look() {
            Look::Good(token) => Some(token),
            Look::Settled(_) | Look::Wait => None,
        }
    }

    /// Has another token fetched than that in this value of the header `Authorization`, which the service
    /// answered with this status, and waits for it. Whether there is another (S8).
    pub(super) async fn renew(&self, authorization: &str, status: StatusCode) -> bool {
        self.refuse(authorization, status);
        self.settled(|shared| shared.stands_against(authorization)).await.unwrap_or(false)
    }

    /// What `look` finds, waiting for a token that is being fetched. None if that takes too long.
    async fn settled<T>(&self, look: impl Fn(&Shared) -> Option<T> + Send + Sync) -> Option<T> {
        let mut fetched = self.shared.fetched.subscribe();
        self.refresh_if_due();
        let waited = tokio::time::timeout(WAIT, async {
            loop {
                fetched.mark_unchanged();
                if let Some(found) = look(&self.shared) {
                    return found;
                }
                // The sender lives as long as `self`.
                let _ = fetched.changed().await;
            }
        });
        waited.await.ok()
    }

    /// A token that counts for nothing (401) is handed out no more. One that counts, but lacks a right (403),
    /// may be older than a right that was given since; it still serves where it has the rights.
    fn refuse(&self, authorization: &str, status: StatusCode) {
        let now = self.shared.clock.now();
        let mut state = self.shared.state();
        if let Some(held) = state.held.as_mut().filter(|held| held.is_in(authorization)) {
            if status == StatusCode::Unauthorized {
                held.refused = true;
                // A fetch that failed while it still counted is not waited for any more.
                state.not_before = state.not_before.min(now + RETRY_WITHOUT_TOKEN);
            } else if now - held.since >= OLD_ENOUGH {
                held.refresh_from = now;
            }
        }
    }

    async fn token(&self) -> Result<AccessToken, SignInError> {
        let settled = self.settled(|shared| match shared.look() {
            Look::Good(token) => Some(Ok(token)),
            Look::Settled(answer) => Some(answer),
            Look::Wait => None,
        });
        settled.await.or_else(|| self.shared.last_resort()).unwrap_or_else(|| {
            Err(SignInError::Unreachable {
                reason: "the identity endpoint has not answered yet".to_owned(),
            })
        })
    }
}

/// What there is for a request.
enum Look {
    Good(AccessToken),
    /// Nothing better will come soon.
    Settled(Result<AccessToken, SignInError>),
    /// One is being fetched.
    Wait,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, TokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) -> Look {
        let now = self.clock.now();
        let state = self.state();
        match &state.held {
            Some(held) if now < held.ends && !held.refused => Look::Good(held.token.clone()),
            _ if state.fetching => Look::Wait,
            Some(held) if now < held.ends => Look::Settled(Ok(held.token.clone())),
            _ => Look::Settled(Err(state.error.clone().unwrap_or_else(|| {
                SignInError::Unreachable { reason: "the token has expired".to_owned() }
            }))),
        }
    }

    /// Whether there is another token than the one that was refused; `None` while one is being fetched.
    fn stands_against(&self, authorization: &str) -> Option<bool> {
        let now = self.clock.now();
        let state = self.state();
        let another = |held: &Held| now < held.ends && !held.is_in(authorization);
        match state.held.as_ref().is_some_and(another) {
            true => Some(true),
            false if state.fetching => None,
            false => Some(false),
        }
    }

    /// A token that was refused once is still better than none.
    fn last_resort(&self) -> Option<Result<AccessToken, SignInError>> {
        let now = self.clock.now();
        let state = self.state();
        state.held.as_ref().filter(|held| now < held.ends).map(|held| Ok(held.token.clone()))
    }

    async fn fetch(self: Arc<Self>) {
        let source = Arc::clone(&self.source);
        // In a task of its own, so that a panic inside does not end all fetching.
        let task = tokio::spawn(async move { source.fetch().await });
        let unreachable = |reason: &str| SignInError::Unreachable { reason: reason.to_owned() };
        let answer = match tokio::time::timeout(FETCH_TIMEOUT, task).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(unreachable("the sign-in failed with an internal error")),
            Err(_) => Err(unreachable("the identity endpoint does not answer")),
        };
        self.take(answer);
        self.fetched.send_replace(());
    }

    fn take(&self, answer: Result<AccessToken, SignInError>) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut state = self.state();
        state.fetching = false;
        match answer {
            Ok(token) => {
                let ends_at = u64::try_from(token.expires_on.unix_timestamp()).unwrap_or_default();
                let life = Duration::from_secs(ends_at.saturating_sub(wall.seconds()))
                    .clamp(SHORTEST_LIFE, LONGEST_LIFE);
                // It was issued later than the one before, and ends no sooner.
                let former = state.held.as_ref().filter(|held| !held.refused);
                let ends = former.map_or(now + life, |held| held.ends.max(now + life));
                state.not_before = now + RETRY_WITHOUT_TOKEN;
                state.error = None;
                state.held = Some(Held {
                    token,
                    since: now,
                    ends,
                    refresh_from: now + (life / 2).min(REFRESH_AFTER),
                    refused: false,
                });
            }
            Err(error) => {
                let usable =
                    state.held.as_ref().is_some_and(|held| now < held.ends && !held.refused);
                tracing::warn!(%error, usable, "could not fetch a token for the store");
                state.not_before =
                    now + if usable { RETRY_WITH_TOKEN } else { RETRY_WITHOUT_TOKEN };
                state.error = Some(error);
            }
        }
    }
}

#[async_trait]
impl TokenCredential for CachedCredential {
    async fn get_token(
        &self,
        _scopes: &[&str],
        _options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        self.token().await.map_err(|error| azure_core::Error::new(ErrorKind::Credential, error))
    }
}

#[cfg(test)]
#[path = "credential_tests.rs"]
mod tests;
