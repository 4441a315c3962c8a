//! Running for as long as this caller leads: one term after the other.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::constants::{FIRST_TERM_PAUSE, LONGEST_TERM_PAUSE, SHORTEST_TERM_PAUSE};
use crate::errors::Error;
use crate::hold::Hold;
use crate::messages::{Code, LeaseSpec};

impl Client {
    /// Runs `work` for as long as this caller leads: takes the lock, waiting without end, runs `work` for one
    /// term, and when the term ends by a loss, takes the lock again. The spec's `wait` is not used. Dropped,
    /// this drops `work`, and releases in the background; see [`lead_until`](Self::lead_until).
    ///
    /// When the lock is lost, `work` is dropped, which ends it at its next `.await`, and another term
    /// follows. What `work` gives decides otherwise:
    ///
    /// - `Ok` in a term that was [revoked](Hold::revoked): the lock is released, and another term
    ///   follows;
    /// - any other `Ok`: the lock is released, and this gives the value;
    /// - `Err`: the lock is released, and this fails with it.
    ///
    /// Where the sidecar or its store cannot be reached, or the sidecar is busy, the lock is asked for again,
    /// after a pause of 0.1 s to 1 s that grows to 10 s.
    ///
    /// ```no_run
    /// # use leasehold_client::{Client, Error, LeaseSpec};
    /// # async fn work() {}
    /// # async fn sample(client: Client) -> Result<(), Error> {
    /// client
    ///     .lead(LeaseSpec::new("scheduler"), async |term| {
    ///         println!("leading with token {}", term.fencing_token());
    ///         tokio::select! {
    ///             () = work() => {}
    ///             notice = term.revoked() => println!("{notice}"),
    ///         }
    ///         Ok::<_, Error>(())
    ///     })
    ///     .await
    /// # }
    /// ```
    ///
    /// # Errors
    /// That of `work`. What [`hold`](Self::hold) gives, if trying again does not help: [`Error::Refused`] for
    /// an invalid spec or a missing permission. [`Error::Lost`] and [`Error::ReleaseUnconfirmed`] from
    /// the release of the last term.
    pub async fn lead<F, B, T, E>(&self, spec: LeaseSpec, work: F) -> Result<T, E>
    where
        F: FnMut(Arc<Hold>) -> B,
        B: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        match self.lead_until(spec, std::future::pending::<()>(), work).await? {
            Some(value) => Ok(value),
            // Not reached: nothing stops it.
            None => std::future::pending().await,
        }
    }

    /// The same until `stop` completes. Then `work` is dropped, the lock is released, and this gives `None`.
    ///
    /// # Errors
    /// As [`lead`](Self::lead).
    pub async fn lead_until<F, B, T, E>(
        &self,
        spec: LeaseSpec,
        stop: impl Future,
        work: F,
    ) -> Result<Option<T>, E>
    where
        F: FnMut(Arc<Hold>) -> B,
        B: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        Leading { client: self, spec, work }.run(pin!(stop)).await
    }
}

/// The pause after so many failures in a row; `random` is from 0 to 1.
fn pause(failures: u32, random: f64) -> Duration {
    let longest =
        FIRST_TERM_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_TERM_PAUSE);
    SHORTEST_TERM_PAUSE + (longest - SHORTEST_TERM_PAUSE).mul_f64(random)
}

/// Pauses after so many failures in a row: at random, so that contenders spread.
pub(crate) async fn pause_after(failures: u32) {
    let [a, b, c, d, ..] = uuid::Uuid::new_v4().into_bytes();
    let random = f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX);
    tokio::time::sleep(pause(failures, random)).await;
}

/// A caller that leads, or waits for that.
struct Leading<'a, W> {
    client: &'a Client,
    spec: LeaseSpec,
    work: W,
}

/// How a term ended.
enum Ended<T> {
    /// From outside: another one follows.
    Over,
    /// By what stops the leader.
    Stopped,
    /// By its work.
    Done(T),
}

impl<W> Leading<'_, W> {
    /// Leads until `stop` completes, or the work ends it.
    async fn run<B, T, E, S>(mut self, mut stop: Pin<&mut S>) -> Result<Option<T>, E>
    where
        W: FnMut(Arc<Hold>) -> B,
        B: Future<Output = Result<T, E>>,
        E: From<Error>,
        S: Future,
    {
        let mut failures = 0_u32;
        loop {
            let holding = self.client.hold(self.spec.clone()).until_granted();
            let held = tokio::select! {
                biased;
                _ = &mut stop => return Ok(None),
                held = holding => held,
            };
            let is_failure = held.is_err();
            match held {
                Ok(hold) => match self.term(hold, stop.as_mut()).await? {
                    Ended::Over => failures = 0,
                    Ended::Stopped => return Ok(None),
                    Ended::Done(value) => return Ok(Some(value)),
                },
                Err(error) if passes(&error) => {}
                Err(error) => return Err(error.into()),
            }
            tokio::select! {
                biased;
                _ = &mut stop => return Ok(None),
                () = pause_after(failures) => {}
            }
            failures = failures.saturating_add(u32::from(is_failure));
        }
    }

    /// One term: the work, and the release.
    async fn term<B, T, E, S>(&mut self, hold: Hold, stop: Pin<&mut S>) -> Result<Ended<T>, E>
    where
        W: FnMut(Arc<Hold>) -> B,
        B: Future<Output = Result<T, E>>,
        E: From<Error>,
        S: Future,
    {
        let hold = Arc::new(hold);
        let lost = hold.lost();
        let output = tokio::select! {
            biased;
            _loss = lost => return Ok(Ended::Over),
            _ = stop => None,
            output = (self.work)(Arc::clone(&hold)) => Some(output),
        };
        let is_over = hold.loss().is_some() || hold.notice().is_some();
        let released = hold.end_and_release(None, None).await;
        match (output, released) {
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(_)), _) if is_over => Ok(Ended::Over),
            // One that was lost meanwhile would only have been followed by another.
            (None, Ok(_) | Err(Error::Lost(_))) => Ok(Ended::Stopped),
            (Some(Ok(value)), Ok(_)) => Ok(Ended::Done(value)),
            (_, Err(error)) => Err(error.into()),
        }
    }
}

/// Whether what keeps the lock from being held may be over soon.
pub(crate) fn passes(error: &Error) -> bool {
    let is_busy = matches!(
        error.code(),
        Some(Code::ResourceExhausted | Code::Aborted | Code::DeadlineExceeded)
    );
    is_busy || error.is_transient() || matches!(error, Error::Lost(_))
}

#[cfg(test)]
#[path = "lead_tests.rs"]
mod tests;
