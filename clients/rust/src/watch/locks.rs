//! Many locks as they change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, SystemTime};

use tonic::Streaming;

use crate::client::Client;
use crate::connect::Lane;
use crate::constants::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::errors::Error;
use crate::messages::{LockRecord, LocksUnder, moment};
use crate::proto::watch_locks_request::Under;
use crate::proto::watch_locks_response::Event;
use crate::proto::{self, WatchLocksRequest, WatchLocksResponse};

/// How long a sidecar may be away before a watch fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which locks are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchLocks {
    /// Which locks are watched.
    pub under: LocksUnder,
    /// Only those whose record has all of these labels. Default: all.
    pub labels: BTreeMap<String, String>,
    /// Only those whose holder, or last holder, named this share. Default: empty, all.
    pub share: String,
}

impl WatchLocks {
    /// All locks there.
    #[must_use]
    pub fn under(under: LocksUnder) -> Self {
        Self { under, ..Self::default() }
    }

    /// Only those whose record has this label, and those given before.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Only those whose holder, or last holder, named this share.
    #[must_use]
    pub fn in_share(self, share: impl Into<String>) -> Self {
        Self { share: share.into(), ..self }
    }

    fn into_wire(self) -> WatchLocksRequest {
        let under = match self.under {
            LocksUnder::OwnHostId => None,
            LocksUnder::HostId(host_id) => Some(Under::HostId(host_id)),
            LocksUnder::Prefix(prefix) => Some(Under::Prefix(prefix)),
        };
        WatchLocksRequest { under, labels: self.labels, share: self.share }
    }
}

/// What happens to locks that are watched.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LocksEvent {
    /// A lock's record, when the watch begins and after each change.
    Changed(Box<LockRecord>),
    /// The path of a lock that was deleted, or that does not have the labels or the share any more.
    Gone(String),
    /// Everything that is known has been told. Repeated at least every 30 s.
    Listed {
        /// How many locks there are.
        locks: u32,
        /// When the store was listed, by the wall clock; for people.
        at: Option<SystemTime>,
    },
}

/// Locks as they change; dropped, it stops.
///
/// A watch whose connection breaks, or falls silent for 90 s, is opened again by itself for up to a minute.
/// It tells then what has changed meanwhile, and what is gone since.
#[derive(Debug)]
pub struct LocksWatch {
    client: Client,
    request: WatchLocks,
    stream: Streaming<WatchLocksResponse>,
    lane: Lane,
    /// The records as they were told.
    told: BTreeMap<String, LockRecord>,
    /// After the watch was opened again: of what the sidecar has said nothing yet.
    missing: Option<BTreeSet<String>>,
    ready: VecDeque<LocksEvent>,
}

impl LocksWatch {
    pub(crate) async fn open(client: Client, request: WatchLocks) -> Result<Self, Error> {
        let (lane, stream) = start(&client, &request).await?;
        let (told, missing, ready) = (BTreeMap::new(), None, VecDeque::new());
        Ok(Self { client, request, stream, lane, told, missing, ready })
    }

    /// The next event; `None` when the sidecar has ended the watch for good.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::Unreachable`] when the store cannot be listed, or the sidecar stays
    /// away: watch again.
    pub async fn next(&mut self) -> Result<Option<LocksEvent>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let silence = self.client.settings.silence;
            let error = match tokio::time::timeout(silence, self.stream.message()).await {
                Ok(Ok(None)) => return Ok(None),
                Ok(Ok(Some(message))) => {
                    self.take_in(message.event);
                    continue;
                }
                Ok(Err(status)) => Some(self.client.error(&status)),
                Err(_silent) => None,
            };
            self.reopen(error).await?;
            self.missing = Some(self.told.keys().cloned().collect());
        }
    }

    fn take_in(&mut self, event: Option<Event>) {
        match event {
            Some(Event::Changed(record)) => {
                let record = LockRecord::from_wire(record);
                if let Some(missing) = &mut self.missing {
                    missing.remove(&record.lock_path);
                }
                let before = self.told.insert(record.lock_path.clone(), record.clone());
                if before.as_ref() != Some(&record) {
                    self.ready.push_back(LocksEvent::Changed(Box::new(record)));
                }
            }
            Some(Event::Gone(path)) => self.gone(path),
            Some(Event::Listed(proto::Listed { locks, at })) => {
                for path in self.missing.take().unwrap_or_default() {
                    self.gone(path);
                }
                self.ready.push_back(LocksEvent::Listed { locks, at: moment(at.as_ref()) });
            }
            // An event of a later version.
            None => {}
        }
    }

    /// Tells that a lock is gone, if it was told of.
    fn gone(&mut self, path: String) {
        if let Some(missing) = &mut self.missing {
            missing.remove(&path);
        }
        if self.told.remove(&path).is_some() {
            self.ready.push_back(LocksEvent::Gone(path));
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
            match start(&self.client, &self.request).await {
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
    request: &WatchLocks,
) -> Result<(Lane, Streaming<WatchLocksResponse>), Error> {
    let mut lane = client.watching_lane();
    let asking = lane.calls.leases.watch_locks(request.clone().into_wire());
    let asked = tokio::time::timeout(client.settings.silence, asking).await;
    let silent = || tonic::Status::unavailable("the sidecar has sent nothing for a long time");
    let Ok(answer) = asked else { return Err(Error::refused(&silent())) };
    let stream = client.answer(answer)?;
    Ok((lane, stream))
}
