//! Running a closure on each occurrence.

use std::fmt::Display;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use super::{Run, Runs};
use crate::client::Client;
use crate::errors::Error;
use crate::hold::lead::{passes, pause_after};
use crate::messages::{Completion, Subscription};

impl Client {
    /// Takes part in a schedule, and runs `work` on each occurrence that falls to this caller. Goes on until
    /// it fails or is dropped; see [`every_until`](Self::every_until).
    ///
    /// What `work` gives is the run's outcome: `Ok(())` has succeeded, `Ok` with a [`Completion`] is that,
    /// and `Err` has failed, with its text as the detail. `work` is dropped, which ends it at its next
    /// `.await`, when the run is lost, and is returned, or its deadline comes, and has failed. When the lock
    /// is broken, or the sidecar shuts down, it goes on: let it look at [`Run::revoked`] if it can finish
    /// early.
    ///
    /// Each occurrence is granted until one run of it is recorded, never after, and never two at once. So a
    /// run whose process dies is repeated: key its effect on [`Run::scheduled_at`], or let the resource check
    /// [`Run::fencing_token`] (T2).
    ///
    /// ```no_run
    /// # use leasehold_client::{Client, Error, ScheduleSpec, Subscription};
    /// # async fn report(_of: std::time::SystemTime) -> std::io::Result<()> { Ok(()) }
    /// # async fn sample(client: Client) -> Result<(), Error> {
    /// let spec = ScheduleSpec::cron("30 2 * * *").in_zone("Europe/Copenhagen");
    /// let nightly = Subscription::new("nightly", spec);
    /// client.every(nightly, async |run| report(run.scheduled_at()).await).await
    /// # }
    /// ```
    ///
    /// Where the sidecar or its store cannot be reached, this asks again, after a pause of 0.1 s to 1 s that
    /// grows to 10 s.
    ///
    /// # Errors
    /// What [`Runs::next`] and [`Run::complete`] give, if trying again does not help.
    pub async fn every<F, B, T, E>(&self, subscription: Subscription, work: F) -> Result<(), Error>
    where
        F: FnMut(Arc<Run>) -> B,
        B: Future<Output = Result<T, E>>,
        T: Into<Completion>,
        E: Display,
    {
        self.every_until(subscription, std::future::pending::<()>(), work).await
    }

    /// The same until `stop` completes. Then `work` is dropped, its run is returned for another replica to
    /// run, and this gives `Ok`.
    ///
    /// # Errors
    /// As [`every`](Self::every).
    pub async fn every_until<F, B, T, E>(
        &self,
        subscription: Subscription,
        stop: impl Future,
        work: F,
    ) -> Result<(), Error>
    where
        F: FnMut(Arc<Run>) -> B,
        B: Future<Output = Result<T, E>>,
        T: Into<Completion>,
        E: Display,
    {
        let runs = self.runs(subscription);
        Every { client: self, runs, work }.run(pin!(stop)).await
    }
}

/// A caller that runs what falls to it.
struct Every<'a, W> {
    client: &'a Client,
    runs: Runs,
    work: W,
}

impl<W> Every<'_, W> {
    /// Goes on until `stop` completes.
    async fn run<B, T, E, S>(mut self, mut stop: Pin<&mut S>) -> Result<(), Error>
    where
        W: FnMut(Arc<Run>) -> B,
        B: Future<Output = Result<T, E>>,
        T: Into<Completion>,
        E: Display,
        S: Future,
    {
        let mut failures = 0_u32;
        loop {
            let next = tokio::select! {
                biased;
                _ = &mut stop => return Ok(()),
                next = self.runs.next() => next,
            };
            let error = match next {
                Ok(run) => {
                    failures = 0;
                    if self.work_on(run, stop.as_mut()).await? {
                        return Ok(());
                    }
                    continue;
                }
                Err(error) => error,
            };
            if !passes(&error) {
                return Err(error);
            }
            tokio::select! {
                biased;
                _ = &mut stop => return Ok(()),
                () = pause_after(failures) => {}
            }
            failures = failures.saturating_add(1);
        }
    }

    /// One run; whether it was stopped.
    async fn work_on<B, T, E, S>(&mut self, run: Run, mut stop: Pin<&mut S>) -> Result<bool, Error>
    where
        W: FnMut(Arc<Run>) -> B,
        B: Future<Output = Result<T, E>>,
        T: Into<Completion>,
        E: Display,
        S: Future,
    {
        let run = Arc::new(run);
        let lost = run.lost();
        let completion = tokio::select! {
            biased;
            // Said nevertheless: its sidecar gives nothing to who does not speak (T24).
            _loss = lost => Some(Completion::returned()),
            () = run.timed_out() => Some(Completion::failed_final("stopped at its deadline")),
            _ = &mut stop => None,
            output = (self.work)(Arc::clone(&run)) => Some(match output {
                Ok(done) => done.into(),
                Err(error) => Completion::failed(error.to_string()),
            }),
        };
        let is_stopped = completion.is_none();
        let finishing = run.finish(completion.unwrap_or_else(Completion::returned));
        if is_stopped {
            // What is not answered by then expires.
            let timeout = self.client.settings.release_timeout;
            let _completed = tokio::time::timeout(timeout, finishing).await;
            return Ok(true);
        }
        tokio::select! {
            biased;
            completed = finishing => completed.map(|_completed| false),
            _ = stop => Ok(true),
        }
    }
}
