//! What machines ask of the store: each becomes a request, and its answer an event. At which rate, and
//! whether the store can be used (S7, S18).

pub(super) mod calls;
pub(super) mod rate_limit;
pub(super) mod readiness;
pub mod understood;

use std::sync::Arc;
use std::time::Duration;

use rate_limit::{RateLimited, RateLimiter, Urgency};
use readiness::{Readiness, Subject};
use understood::failure;

use crate::hold::Failure;
use crate::store::{LeaseStore, StoreError};
use crate::time::Clock;

/// How long a call about records waits for the store: less than clients wait for the call, so that they are
/// told why it failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The same while the store is known not to answer: who looks then wants to know just that.
const OUTAGE_PATIENCE: Duration = Duration::from_secs(2);

/// The store as this sidecar asks it: each request has its turn, and what each answer says of the store is
/// noted.
#[derive(Debug)]
pub(in crate::coordinator) struct StoreIo {
    pub(super) store: Arc<dyn LeaseStore>,
    pub(super) limiter: RateLimiter,
    pub(super) readiness: Readiness,
    clock: Arc<dyn Clock>,
}

impl StoreIo {
    pub(super) fn new(store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>) -> Self {
        let limiter = RateLimiter::new(Arc::clone(&clock));
        Self { store, limiter, readiness: Readiness::default(), clock }
    }

    /// How long a look at records waits for the store.
    pub(super) fn patience(&self) -> Duration {
        if self.readiness.is_out() { OUTAGE_PATIENCE } else { PATIENCE }
    }

    /// Asks the store something about a lock that no machine waits for. No caller of ours waits without end
    /// (S19).
    pub(super) async fn asked<T>(
        &self,
        timeout: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.asked_about(Subject::Lock, timeout, call).await
    }

    pub(super) async fn asked_about<T>(
        &self,
        subject: Subject,
        timeout: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let answer = self.limited(Urgency::Poll, timeout, call).await;
        self.note(subject, answer.as_ref().err());
        answer
    }

    /// Waits for the request's turn while the store throttles, and sends it: both together within `timeout`.
    /// One whose turn comes too late to be answered in time is not sent.
    async fn limited<T>(
        &self,
        urgency: Urgency,
        timeout: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let Some(waiting) = self.limiter.enter(urgency) else {
            return limited(timeout, call).await;
        };
        let given_up = self.clock.now() + timeout;
        let paced = async {
            waiting.turn(timeout * 3 / 4).await?;
            // S3, S13: a timer of the runtime stops while the machine sleeps, and the machine counts on it
            // that nothing is sent later.
            if self.clock.now() >= given_up {
                return Err(RateLimited::error(timeout));
            }
            call.await
        };
        limited(timeout, paced).await
    }

    /// Takes note of whether the store can be used (S18), and how much it takes (S7).
    fn note(&self, subject: Subject, error: Option<&StoreError>) {
        if error.is_some_and(RateLimited::is) {
            return;
        }
        self.limiter.note(error);
        self.readiness.note(subject, error, self.clock.now());
    }

    /// Takes note of the answer, and says what the answer means to the machine.
    fn answer<T>(&self, answer: Result<T, StoreError>) -> Result<T, Failure> {
        self.note(Subject::Lock, answer.as_ref().err());
        answer.map_err(|error| failure(&error))
    }
}

/// S7: a try that is not answered in time is given up; whether it was done is unknown.
async fn limited<T>(
    timeout: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let unanswered = || StoreError::Unavailable {
        sent: true,
        source: format!("no answer within {}", humantime::format_duration(timeout)).into(),
    };
    tokio::time::timeout(timeout, call).await.unwrap_or_else(|_elapsed| Err(unanswered()))
}
