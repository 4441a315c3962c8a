//! A lock's record as it changes.

use std::time::Duration;

use tonic::Streaming;

use crate::client::Client;
use crate::connect::Lane;
use crate::constants::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::errors::Error;
use crate::messages::{LockRecord, LockSelector};
use crate::proto::{WatchLockRequest, WatchLockResponse};

/// How long a sidecar may be away before a watch fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The records of a lock as they change; dropped, it stops.
///
/// A watch whose connection breaks, or falls silent for 90 s, is opened again by itself for up to a minute.
#[derive(Debug)]
pub struct LockWatch {
    client: Client,
    lock: LockSelector,
    stream: Streaming<WatchLockResponse>,
    lane: Lane,
    newest: Option<LockRecord>,
}

impl LockWatch {
    pub(crate) async fn open(client: Client, lock: LockSelector) -> Result<Self, Error> {
        let (lane, stream) = start(&client, &lock).await?;
        Ok(Self { client, lock, stream, lane, newest: None })
    }

    /// The next record that differs from the one before; `None` when the sidecar has ended the watch for
    /// good.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::Unreachable`] when the store cannot be read, or the sidecar stays
    /// away: watch again.
    pub async fn next(&mut self) -> Result<Option<LockRecord>, Error> {
        loop {
            let silence = self.client.settings.silence;
            let error = match tokio::time::timeout(silence, self.stream.message()).await {
                Ok(Ok(None)) => return Ok(None),
                Ok(Ok(Some(message))) => {
                    let record = message.record.map(LockRecord::from_wire);
                    // The sidecar repeats itself, so that a silent connection is found out.
                    if record.is_some() && record != self.newest {
                        self.newest.clone_from(&record);
                        return Ok(record);
                    }
                    continue;
                }
                Ok(Err(status)) => Some(self.client.error(&status)),
                Err(_silent) => None,
            };
            self.reopen(error).await?;
        }
    }

    /// Watches again; `error` is why, unless it is silence.
    async fn reopen(&mut self, mut error: Option<Error>) -> Result<(), Error> {
        let end = self.client.clock.now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let given_up = self.client.clock.now() >= end;
            if let Some(error) = error.take_if(|error| given_up || !error.is_break()) {
                return Err(error);
            }
            match start(&self.client, &self.lock).await {
                Ok((lane, stream)) => {
                    (self.lane, self.stream) = (lane, stream);
                    return Ok(());
                }
                Err(again) => error = Some(again),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

async fn start(
    client: &Client,
    lock: &LockSelector,
) -> Result<(Lane, Streaming<WatchLockResponse>), Error> {
    let request = WatchLockRequest { lock: Some(lock.clone().into_wire()) };
    let mut lane = client.watching_lane();
    let asked =
        tokio::time::timeout(client.settings.silence, lane.calls.leases.watch_lock(request)).await;
    let Ok(answer) = asked else { return Err(Error::refused(&silent())) };
    let stream = client.answer(answer)?;
    Ok((lane, stream))
}

fn silent() -> tonic::Status {
    tonic::Status::unavailable("the sidecar has sent nothing for a long time")
}
