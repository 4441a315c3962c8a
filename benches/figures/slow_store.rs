//! A store that takes its time, as one over a network does, and keeps nearly nothing: what it kept would be
//! measured with the sidecar.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use leasehold::lock::LockPath;
use leasehold::record::ETag;
use leasehold::store::{
    Acquired, Features, LeaseStore, Renewed, StoreAnswer, StoreError, StoreRequest, Written,
};
use leasehold::time::{BootClock, Clock as _};

/// The time of each call.
const CALL: Duration = Duration::from_millis(20);

/// Knows of each lock how often it was written, and believes every lease: each lock has one taker here.
#[derive(Debug)]
pub(crate) struct SlowStore {
    versions: Mutex<HashMap<u64, u32>>,
    clock: BootClock,
}

impl SlowStore {
    pub(crate) fn new() -> Self {
        Self { versions: Mutex::default(), clock: BootClock::new() }
    }

    fn change(&self, path: &LockPath, by: u32) -> u32 {
        let mut hasher = DefaultHasher::new();
        path.as_str().hash(&mut hasher);
        let mut versions = self.versions.lock().unwrap();
        let version = versions.entry(hasher.finish()).or_default();
        *version += by;
        *version
    }

    fn etag(version: u32) -> ETag {
        ETag(version.to_string().into())
    }
}

#[async_trait]
impl LeaseStore for SlowStore {
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        if let StoreRequest::Check(_) = request {
            return Ok(self.clock.wall().into());
        }
        tokio::time::sleep(CALL).await;
        let time = self.clock.wall();
        Ok(match request {
            StoreRequest::Acquire(path, _) => {
                let version = self.change(&path, 0);
                let etag = Self::etag(version);
                Acquired { etag, time, created: version == 0, found: None }.into()
            }
            StoreRequest::Renew { .. } => Renewed { time }.into(),
            StoreRequest::Release { .. } => ().into(),
            StoreRequest::WriteRecord(path, _) => {
                Written { etag: Self::etag(self.change(&path, 1)) }.into()
            }
            StoreRequest::ReadBreakNote(_) => None.into(),
            _ => return Err(StoreError::NotFound),
        })
    }

    fn features(&self) -> Features {
        Features { kind: "slow", tells_record: false, has_timers: false }
    }
}
