//! Locks in Azure Blob Storage: each is an empty block blob, its lease a blob lease, its record the blob's
//! metadata.
//!
//! Rules: S3 (the service's dates go to the clock), S6 (proposed ids, If-Match), S7 (one try, exact status,
//! own lease id), S8 (what is final), S18 (containers), S20 (no secret gets out). May import: lock, time (an
//! injected `Clock`), the SDK; no type of the SDK leaves this folder. To add a sign-in: a variant of
//! `AzureCredential`, an arm in `token_source.rs`.

mod access_denied;
mod answer;
mod auth_retry;
mod blob_names;
mod break_note;
mod certificate;
mod client;
mod connection_string;
mod connections;
mod containers;
mod credential;
mod documents;
mod error;
mod history;
mod listing;
mod namespace;
mod renewed_sign_in;
mod route;
mod sas;
mod services_time;
mod settings;
mod shared_key;
mod token_source;
mod transport;
#[cfg(feature = "testing")]
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use azure_core::http::RequestContent;
use azure_storage_blob::BlobClient;
use azure_storage_blob::models::{
    BlobClientAcquireLeaseOptions, BlobClientDeleteOptions, BlobClientReleaseLeaseOptions,
    BlobClientRenewLeaseOptions, BlobClientSetMetadataOptions, BlockBlobClientUploadOptions,
};
use tokio::sync::watch;

use self::client::{Clients, SignedIn};
use self::containers::{Containers, Watch};
use self::error::{Account, Failure, Request};
use self::settings::AccountAccess;
use self::transport::Network;
use super::lease::check_duration;
use super::{
    Acquire, Acquired, ETag, Features, LeaseStore, List, Listing, PlanListing, Renewed,
    StoreAnswer, StoreError, StoreRequest, StoreTime, StoredLock, Write, Written,
};
use crate::lock::{LeaseId, LockPath};
use crate::time::{Clock, UnixMillis};

#[cfg(feature = "testing")]
pub(crate) use connection_string::{EMULATOR_ACCOUNT, EMULATOR_KEY};
pub use history::BlobHistory;
pub use route::{Proxy, Route};
pub use sas::Signature;
pub use settings::{AzureCredential, AzureSettings, AzureSettingsError, DEFAULT_API_VERSION};
#[cfg(feature = "testing")]
pub use wire::{Asked, Carried, Wire};

/// After how many seconds the service gives up what it was asked about a lease: a try is cut off after a
/// sixth of the lease's duration, and after 5 s at the latest (S7). A lease that is given later is had by
/// nobody until it runs out.
const SERVICE_SECONDS: i32 = 5;

/// A storage account as a [`LeaseStore`].
///
/// Its time is that of the service's `Date` headers, to the second, and every one of them is shown to the
/// clock (S3). Names of fields come back in lower case, but for WebJobs' `FunctionInstance`. Must be used in
/// a tokio runtime.
#[derive(Debug)]
pub struct AzureStore {
    /// Replaced when other credentials are used.
    clients: RwLock<Arc<Clients>>,
    /// The host of the account's blob service, and the path below it where the account is not in the host's
    /// name.
    account: (String, String),
    network: Network,
    signature_end: watch::Sender<Option<UnixMillis>>,
    create_container: bool,
    containers: Containers,
    clock: Arc<dyn Clock>,
}

impl AzureStore {
    /// Checks the settings; asks nobody yet, so that a store that is down is no error (S18).
    ///
    /// # Errors
    /// What is wrong with the settings, without secrets (S20).
    pub fn new(
        settings: &AzureSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AzureSettingsError> {
        Self::on(&Network::System, settings, clock)
    }

    /// The same, with all requests carried by `wire`, those for tokens too; none is tried again by the SDK.
    ///
    /// # Errors
    /// What is wrong with the settings, without secrets (S20).
    #[cfg(feature = "testing")]
    pub fn over(
        wire: Arc<dyn Wire>,
        settings: &AzureSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AzureSettingsError> {
        Self::on(&Network::Wire(wire), settings, clock)
    }

    fn on(
        network: &Network,
        settings: &AzureSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AzureSettingsError> {
        let access = AccountAccess::from_settings(settings, &clock, network)?;
        let account = access.account();
        let signature_end = watch::Sender::new(access.signature_end());
        let clients = Clients::new(access, &settings.api_version, &clock, network)?;
        Ok(Self {
            clients: RwLock::new(Arc::new(clients)),
            account,
            network: network.clone(),
            signature_end,
            create_container: settings.create_container,
            containers: Containers::default(),
            clock,
        })
    }

    /// The host of the account's blob service, to show to people.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.account.0
    }

    /// The way to the account, as this process takes it.
    #[must_use]
    pub fn route(&self) -> Route {
        Route::to(self.clients().admin.url())
    }

    /// What the shared access signature in use says of itself, if there is one.
    #[must_use]
    pub fn signature(&self) -> Option<Signature> {
        match &self.clients().sign_in {
            SignedIn::Sas(sas) => Some(sas.described()),
            SignedIn::Key { .. } | SignedIn::Token => None,
        }
    }

    fn clients(&self) -> Arc<Clients> {
        Arc::clone(&self.clients.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn blob(&self, path: &LockPath) -> BlobClient {
        self.clients().lease.blob_client(path.container(), path.name())
    }

    fn error(&self, request: Request, failure: impl Into<Failure>) -> StoreError {
        let clients = self.clients();
        let account =
            Account { host: self.host(), sign_in: &clients.sign_in, wall: self.clock.wall() };
        failure.into().into_store_error(request, &account)
    }

    /// The answer to a request about a lock, as the caller has it.
    fn answer<T>(
        &self,
        watch: Watch<'_>,
        request: Request,
        answer: Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.note(watch, &answer);
        answer.map_err(|failure| self.error(request, failure))
    }

    fn note<T>(&self, watch: Watch<'_>, answer: &Result<T, Failure>) {
        self.containers.note(watch, answer.as_ref().err().map(Failure::code), self.clock.now());
    }

    /// One acquire of a lock that is there.
    async fn lease(
        &self,
        path: &LockPath,
        request: &Acquire,
    ) -> Result<(ETag, StoreTime), Failure> {
        let mut options = BlobClientAcquireLeaseOptions {
            if_match: request.if_match.as_ref().map(answer::condition),
            proposed_lease_id: Some(request.lease_id.to_string()),
            ..BlobClientAcquireLeaseOptions::default()
        };
        // At most 60, as was checked.
        let seconds = i32::try_from(request.duration.as_secs()).unwrap_or(i32::MAX);
        options.timeout = Some(((seconds + 5) / 6).min(SERVICE_SECONDS));
        let answer = self.blob(path).acquire_lease(seconds, Some(options)).await?;
        answer::check_lease_id(answer.headers(), request.lease_id)?;
        Ok((answer::etag(answer.headers())?, answer::time(answer.headers())?))
    }

    /// Makes the lock; `None` if it is there already. Never overwrites one (S18).
    async fn create(&self, path: &LockPath) -> Result<Option<ETag>, StoreError> {
        let options = BlockBlobClientUploadOptions {
            if_none_match: Some("*".into()),
            ..BlockBlobClientUploadOptions::default()
        };
        let blob = self.blob(path).block_blob_client();
        match blob.upload(RequestContent::from(Vec::new()), Some(options)).await {
            Ok(made) => Ok(made.etag.map(|etag| ETag(etag.to_string().into()))),
            Err(failure) => {
                let failure = Failure::from(failure);
                match failure.code() {
                    // It is there: not leased, or leased in the words of the real service.
                    "BlobAlreadyExists" | "LeaseIdMissing" | "ConditionNotMet" => Ok(None),
                    _ => Err(self.error(Request::Create, failure)),
                }
            }
        }
    }
}

#[async_trait]
impl LeaseStore for AzureStore {
    async fn call(&self, request: StoreRequest) -> Result<StoreAnswer, StoreError> {
        // What takes several requests is boxed: a renewal would have the size of the largest, and many are
        // under way when the service does not answer.
        Ok(match request {
            StoreRequest::Acquire(path, request) => {
                Box::pin(self.take_lease(&path, request)).await?.into()
            }
            StoreRequest::Renew { path, lease_id, if_match } => {
                self.renew_lease(&path, lease_id, if_match).await?.into()
            }
            StoreRequest::Release { path, lease_id, if_match } => {
                self.release_lease(&path, lease_id, if_match).await?.into()
            }
            StoreRequest::BreakLease { path, note, if_match } => {
                Box::pin(self.break_noting(&path, note, if_match)).await?.into()
            }
            StoreRequest::WriteRecord(path, write) => self.set_record(&path, write).await?.into(),
            StoreRequest::ReadRecord(path) => self.get_record(&path).await?.into(),
            StoreRequest::ReadBreakNote(path) => {
                self.read_note(&path).await?.map(|(note, _)| note).into()
            }
            StoreRequest::ReadDocument(document) => {
                Box::pin(self.get_document(&document)).await?.into()
            }
            StoreRequest::WriteDocument { document, text, if_match } => {
                Box::pin(self.put_document(&document, text, if_match)).await?.into()
            }
            StoreRequest::DeletePlan { path, if_match } => {
                self.remove_plan(path, &if_match).await?.into()
            }
            StoreRequest::ListPlans(request) => Box::pin(self.page_of_plans(request)).await?.into(),
            StoreRequest::List(request) => Box::pin(self.page_of_locks(request)).await?.into(),
            StoreRequest::Delete { path, if_match } => {
                Box::pin(self.delete_lock(&path, if_match)).await?.into()
            }
            StoreRequest::Check(container) => {
                self.look_for_container(container.as_str()).await?.into()
            }
        })
    }

    fn features(&self) -> Features {
        Features { kind: "azure", tells_record: false, has_timers: true }
    }
}

impl AzureStore {
    async fn take_lease(&self, path: &LockPath, request: Acquire) -> Result<Acquired, StoreError> {
        check_duration(request.duration)?;
        blob_names::check_name(path)?;
        if self.containers.is_gone(path.container()) {
            self.find_or_make(path.container(), request.if_match.is_some()).await?;
        }
        self.containers.check(path.container(), self.clock.now())?;
        let watch = self.containers.watch(path.container());
        let leased = self.lease(path, &request).await;
        self.note(watch, &leased);
        let failure = match leased {
            Ok((etag, time)) => return Ok(Acquired { etag, time, created: false, found: None }),
            Err(failure) => failure,
        };
        match (failure.code(), &request.if_match) {
            ("BlobNotFound" | "ContainerNotFound", Some(_)) => return Err(StoreError::Changed),
            ("BlobNotFound", None) => {}
            ("ContainerNotFound", None) => self.make_missed(watch).await?,
            _ => return Err(self.error(Request::Acquire, failure)),
        }
        // Others may lease there from now on, whatever becomes of our own acquire.
        self.containers.saw(path.container());
        self.containers.check(path.container(), self.clock.now())?;
        let made = self.create(path).await?;
        let watch = self.containers.watch(path.container());
        let leased = self.lease(path, &request).await;
        let (etag, time) = self.answer(watch, Request::Acquire, leased)?;
        // Somebody may have leased, written and given back the lock between the two: then it has a record
        // (S5).
        Ok(Acquired { created: made.as_ref() == Some(&etag), etag, time, found: None })
    }

    async fn renew_lease(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<Renewed, StoreError> {
        let renewed = async {
            let options = BlobClientRenewLeaseOptions {
                if_match: if_match.as_ref().map(answer::condition),
                timeout: Some(SERVICE_SECONDS),
                ..BlobClientRenewLeaseOptions::default()
            };
            let answer = self.blob(path).renew_lease(lease_id.to_string(), Some(options)).await?;
            answer::check_lease_id(answer.headers(), lease_id)?;
            Ok(Renewed { time: answer::time(answer.headers())? })
        };
        self.answer(self.containers.watch(path.container()), Request::Renew, renewed.await)
    }

    async fn release_lease(
        &self,
        path: &LockPath,
        lease_id: LeaseId,
        if_match: Option<ETag>,
    ) -> Result<(), StoreError> {
        let options = BlobClientReleaseLeaseOptions {
            if_match: if_match.as_ref().map(answer::condition),
            timeout: Some(SERVICE_SECONDS),
            ..BlobClientReleaseLeaseOptions::default()
        };
        let watch = self.containers.watch(path.container());
        let released = self.blob(path).release_lease(lease_id.to_string(), Some(options)).await;
        self.answer(watch, Request::Release, released.map(drop).map_err(Failure::from))
    }

    async fn set_record(&self, path: &LockPath, write: Write) -> Result<Written, StoreError> {
        let options = BlobClientSetMetadataOptions {
            if_match: write.if_match.as_ref().map(answer::condition),
            lease_id: Some(write.lease_id.to_string()),
            timeout: Some(SERVICE_SECONDS),
            ..BlobClientSetMetadataOptions::default()
        };
        // HTTP knows no case of names: two that differ in it only are one.
        let metadata: HashMap<String, String> = write
            .fields
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        let written = async {
            let answer = self.blob(path).set_metadata(&metadata, Some(options)).await?;
            Ok(Written { etag: answer::etag(answer.headers())? })
        };
        self.answer(self.containers.watch(path.container()), Request::Write, written.await)
    }

    async fn get_record(&self, path: &LockPath) -> Result<StoredLock, StoreError> {
        let read = async {
            let answer = self.blob(path).get_properties(None).await?;
            answer::stored_lock(answer.headers())
        };
        self.answer(self.containers.watch(path.container()), Request::Read, read.await)
    }

    async fn page_of_plans(&self, request: List) -> Result<PlanListing, StoreError> {
        let container = self.clients().admin.blob_container_client(request.container.as_str());
        match listing::list_plans(&container, &request).await {
            Ok(listing) => Ok(listing),
            Err(failure) if failure.code() == "ContainerNotFound" => Ok(PlanListing::default()),
            Err(failure) => Err(self.error(Request::List, failure)),
        }
    }

    async fn page_of_locks(&self, request: List) -> Result<Listing, StoreError> {
        let container = self.clients().admin.blob_container_client(request.container.as_str());
        match listing::list(&container, &request).await {
            Ok(listing) => Ok(listing),
            Err(failure) if failure.code() == "ContainerNotFound" => {
                Ok(Listing { locks: Vec::new(), continuation: None })
            }
            Err(failure) => Err(self.error(Request::List, failure)),
        }
    }

    async fn delete_lock(&self, path: &LockPath, if_match: ETag) -> Result<(), StoreError> {
        let plan = self.find_plan(path).await?;
        let options = BlobClientDeleteOptions {
            if_match: Some(answer::condition(&if_match)),
            ..BlobClientDeleteOptions::default()
        };
        let deleted = self.blob(path).delete(Some(options)).await;
        let mut deleted = deleted.map(drop).map_err(|failure| self.error(Request::Delete, failure));
        // A condition on a blob that is not there may fail as a condition.
        if matches!(deleted, Err(StoreError::Changed))
            && matches!(self.get_record(path).await, Err(StoreError::NotFound))
        {
            deleted = Err(StoreError::NotFound);
        }
        // When the lock is gone already, an earlier delete may have been cut short.
        if matches!(deleted, Ok(()) | Err(StoreError::NotFound)) {
            self.delete_note(path, None).await;
        }
        // T21: never before its lock, and only the one that was there then. Without the lock it may be about
        // to be made.
        if let (Ok(()), Some(etag)) = (&deleted, plan) {
            self.drop_plan(path, &etag).await;
        }
        deleted
    }

    /// Reads a blob that is never there: the answer tells whether its container is.
    pub(super) async fn look_for_container(
        &self,
        container: &str,
    ) -> Result<StoreTime, StoreError> {
        const NOTHING: &str = "leasehold-breaks/check";
        let blob = self.clients().lease.blob_client(container, NOTHING);
        let watch = self.containers.watch(container);
        let answer = blob.get_properties(None).await.map_err(Failure::from);
        self.note(watch, &answer);
        let failure = match answer {
            Ok(answer) => {
                let time = answer::time(answer.headers());
                return time.map_err(|failure| self.error(Request::Check, failure));
            }
            Err(failure) => failure,
        };
        let Failure::Refused(refusal) = &failure else {
            return Err(self.error(Request::Check, failure));
        };
        if refusal.status != 404 {
            return Err(self.error(Request::Check, failure));
        }
        if refusal.code == "ContainerNotFound" && !self.create_container {
            return Err(containers::missing(container));
        }
        let undated = || self.error(Request::Check, Failure::Unbelievable("it has no date"));
        refusal.date.ok_or_else(undated)
    }
}

#[cfg(test)]
mod lease_vectors_tests;
#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
