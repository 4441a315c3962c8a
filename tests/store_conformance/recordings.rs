//! Answers of which there is no recording of the real service (`src/store/azure/lease_vectors.tsv` has those
//! that there are). They are asked for here, of a real account if one is named and else of the emulator, and
//! shown as rows for that table: `LEASEHOLD_TEST_AZURE_CONNECTION_STRING=… cargo test --test integration
//! store_conformance::recordings -- --nocapture`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use leasehold::lock::{Container, LeaseId, LockPath};
use leasehold::record::Fields;
use leasehold::store::azure::{AzureCredential, AzureSettings, AzureStore};
use leasehold::store::{
    Acquire, BreakNote, BreakPeriod, ETag, LeaseEnd, LeaseStoreExt as _, Secret, StoreError, Write,
};
use leasehold::testing::{Asked, Azurite, Carried, Wire};
use leasehold::time::{BootClock, UnixMillis};
use uuid::Uuid;

use crate::store_conformance::azure::real_account;

/// The network, with the status and the error code of each answer.
#[derive(Debug)]
struct Recorder {
    http: reqwest::Client,
    endpoint: String,
    answers: Mutex<Vec<(u16, String)>>,
}

#[async_trait]
impl Wire for Recorder {
    async fn carry(&self, asked: Asked) -> Carried {
        let method = asked.method.parse().unwrap();
        let mut request = self.http.request(method, format!("{}{}", self.endpoint, asked.target));
        for (name, value) in asked.headers.iter().filter(|(name, _)| name != "host") {
            request = request.header(name, value);
        }
        let answer = match request.body(asked.body).send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return Carried::NotSent,
            Err(_) => return Carried::Broken,
        };
        let status = answer.status().as_u16();
        let named = answer.headers().iter();
        let headers: Vec<(String, String)> = named
            .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
            .collect();
        let code = headers.iter().find(|(name, _)| name == "x-ms-error-code");
        let code = code.map_or("-", |(_, code)| code).to_owned();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((status, code));
        let Ok(body) = answer.text().await else { return Carried::Broken };
        Carried::Answer { status, headers, body }
    }
}

/// A lock of its own in the account, and what was answered about it.
struct Account {
    recorder: Arc<Recorder>,
    store: AzureStore,
    path: LockPath,
}

impl Account {
    fn open() -> Self {
        let real = real_account();
        let connection = real.clone().unwrap_or_else(|| Azurite::shared().connection_string());
        let credential = AzureCredential::ConnectionString(Secret::new(connection));
        let settings = AzureSettings { create_container: true, ..AzureSettings::new(credential) };
        let clock: Arc<BootClock> = Arc::new(BootClock::new());
        let plain = AzureStore::new(&settings, Arc::clone(&clock) as _).unwrap();
        let endpoint = match real {
            Some(_) => format!("https://{}", plain.host()),
            None => Azurite::shared().endpoint().rsplit_once('/').unwrap().0.to_owned(),
        };
        let http = reqwest::Client::new();
        let recorder = Arc::new(Recorder { http, endpoint, answers: Mutex::default() });
        let wire = Arc::clone(&recorder) as Arc<dyn Wire>;
        let store = AzureStore::over(wire, &settings, clock).unwrap();
        let container = format!("leasehold-test-{}", Uuid::new_v4().simple());
        let container = Container::parse(&container).unwrap();
        Self { recorder, store, path: LockPath::from_parts(&container, "locks/h/job") }
    }

    /// Shows the answer that came last.
    fn show(&self, operation: &str, before: &str, sent: &str) {
        let answers = self.recorder.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (status, code) = answers.last().unwrap();
        let whose = if real_account().is_some() { "the service" } else { "Azurite" };
        println!("{operation}\t{before}\t{sent}\t{status}\t{code}\t-\t-\t{whose}");
    }

    async fn acquire(&self, lease_id: LeaseId) -> Result<ETag, StoreError> {
        let acquire = Acquire { lease_id, duration: Duration::from_secs(60), if_match: None };
        self.store.acquire(&self.path, acquire).await.map(|acquired| acquired.etag)
    }

    async fn write(&self, lease_id: LeaseId, if_match: Option<&ETag>) -> Result<ETag, StoreError> {
        let fields = Fields::from([("written".to_owned(), Uuid::new_v4().to_string())]);
        let write = Write { lease_id, if_match: if_match.cloned(), fields };
        self.store.write_record(&self.path, write).await.map(|written| written.etag)
    }

    async fn break_lease(&self, period: BreakPeriod) {
        let note = BreakNote {
            period,
            reason: String::new(),
            by: String::new(),
            token: None,
            at: UnixMillis(0),
            for_priority: None,
        };
        let seen = self.store.read_record(&self.path).await.unwrap().etag;
        self.store.break_lease(&self.path, note, seen).await.unwrap();
    }
}

fn is_broken<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::LeaseLost { how: LeaseEnd::Broken }))
}

#[tokio::test]
async fn s5_s8_what_has_no_recording_means_what_the_contract_says() {
    let account = Account::open();
    let (own, other) = (LeaseId::from_uuid(Uuid::new_v4()), LeaseId::from_uuid(Uuid::new_v4()));
    let created = account.acquire(own).await.unwrap();
    account.write(own, Some(&created)).await.unwrap();

    let stale = account.write(own, Some(&created)).await;
    account.show("set metadata", "leased by A", "x-ms-lease-id=A, If-Match=a former ETag");
    assert!(matches!(stale, Err(StoreError::Changed)), "S5: {stale:?}");
    let stale = account.store.renew(&account.path, own, Some(created.clone())).await;
    account.show("renew A", "leased by A", "If-Match=a former ETag");
    assert!(matches!(stale, Err(StoreError::Changed)), "S16: {stale:?}");
    let foreign = account.write(other, None).await;
    account.show("set metadata", "leased by A", "x-ms-lease-id=B");
    assert!(matches!(foreign, Err(StoreError::LeaseLost { .. })), "{foreign:?}");

    account.break_lease(BreakPeriod::RunOut).await;
    let renewed = account.store.renew(&account.path, own, None).await;
    account.show("renew A", "breaking", "-");
    assert!(is_broken(&renewed), "S8: {renewed:?}");
    let again = account.acquire(own).await;
    account.show("acquire A", "breaking", "same proposed id");
    assert!(matches!(again, Err(StoreError::Contended)), "{again:?}");
    account.write(own, None).await.unwrap();
    account.show("set metadata", "breaking (A)", "x-ms-lease-id=A");

    account.break_lease(BreakPeriod::Now).await;
    let renewed = account.store.renew(&account.path, own, None).await;
    account.show("renew A", "broken", "-");
    assert!(is_broken(&renewed), "S8: {renewed:?}");
    let late = account.write(own, None).await;
    account.show("set metadata", "broken (A)", "x-ms-lease-id=A");
    assert!(matches!(late, Err(StoreError::LeaseLost { .. })), "S24: {late:?}");
}
