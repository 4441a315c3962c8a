//! The Azure store against Azurite, signed in by connection string; and against a real account, if one is
//! named.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::lock::{Container, LockPath, MAX_PLAN_BYTES};
use leasehold::record::Fields;
use leasehold::store::azure::{AzureCredential, AzureSettings, AzureStore};
use leasehold::store::{DocumentPath, LeaseStore, LeaseStoreExt as _, Secret, StoreError};
use leasehold::testing::Azurite;
use leasehold::testing::conformance::{Bench, Deviations};
use leasehold::time::BootClock;
use uuid::Uuid;

/// Names a storage account for a run against the real service, as a connection string: all cases then run
/// there instead of in the emulator, each in a container of its own, which stays.
const REAL_ACCOUNT: &str = "LEASEHOLD_TEST_AZURE_CONNECTION_STRING";

/// Its connection string, if one is named.
pub(crate) fn real_account() -> Option<String> {
    std::env::var(REAL_ACCOUNT).ok()
}

struct AzureBench {
    store: Arc<AzureStore>,
    container: Container,
    real: bool,
}

/// Azure's documented table has a conflict there. The store notices by the lease id in the answer, and does
/// not take it for a success.
const ANY_ID: &str = "Azurite renews an expired lease under any id, and answers with the id it had";

/// The harness makes one from the emulator's well-known key.
const NO_SAS: &str = "writing from outside needs a SAS, which is made for the emulator only";

impl Bench for AzureBench {
    async fn open(_case: &'static str) -> Self {
        static CASES: AtomicU32 = AtomicU32::new(0);
        let real = real_account();
        let container = match &real {
            Some(_) => format!("leasehold-test-{}", Uuid::new_v4().simple()),
            None => format!("case-{}", CASES.fetch_add(1, Ordering::Relaxed)),
        };
        let real_account = real.is_some();
        let connection = real.unwrap_or_else(|| Azurite::shared().connection_string());
        let credential = AzureCredential::ConnectionString(Secret::new(connection));
        let settings = AzureSettings { create_container: true, ..AzureSettings::new(credential) };
        let store = AzureStore::new(&settings, Arc::new(BootClock::new()));
        Self {
            store: Arc::new(store.unwrap()),
            container: Container::parse(&container).unwrap(),
            real: real_account,
        }
    }

    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.store) as _
    }

    fn container(&self) -> Container {
        self.container.clone()
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    fn deviations(&self) -> Deviations {
        Deviations {
            renews_expired_under_any_id: (!self.real).then_some(ANY_ID),
            no_writes_from_outside: self.real.then_some(NO_SAS),
            ..Deviations::default()
        }
    }

    async fn write_without_lease(&self, path: &LockPath, fields: Fields) {
        let sas_url = Azurite::shared().sas_url();
        let (endpoint, sas) = sas_url.split_once('?').unwrap();
        let mut request = reqwest::Client::new()
            .put(format!("{endpoint}/{path}?comp=metadata&{sas}"))
            .header("x-ms-version", "2025-11-05")
            .header("content-length", "0");
        for (name, value) in fields {
            request = request.header(format!("x-ms-meta-{name}"), value);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200, "{}", answer.text().await.unwrap());
    }
}

impl Drop for AzureBench {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.real {
            println!("the emulator wrote last:\n{}", Azurite::shared().log());
        }
    }
}

leasehold::store_conformance!(AzureBench);

/// Where the plan of the lock is, with a signature of the emulator's.
fn plan_url(path: &LockPath) -> String {
    let sas_url = Azurite::shared().sas_url();
    let (endpoint, sas) = sas_url.split_once('?').unwrap();
    format!("{endpoint}/{}/leasehold-plans/{}?{sas}", path.container(), path.name())
}

#[tokio::test]
async fn t3_a_plan_is_a_blob_of_json_that_people_can_read() {
    let bench = AzureBench::open("").await;
    let path = LockPath::from_parts(&bench.container, "locks/h/job/FUNCTION");
    let text = "{\n  \"time_zone\": \"Europe/Zürich\"\n}";
    bench
        .store
        .write_document(DocumentPath::Plan(path.clone()), text.to_owned(), None)
        .await
        .unwrap();
    if bench.real {
        return;
    }
    let blob = reqwest::get(plan_url(&path)).await.unwrap();
    assert_eq!(blob.headers()["content-type"], "application/json");
    assert_eq!(blob.text().await.unwrap(), text);
}

#[tokio::test]
async fn t3_a_blob_in_a_plans_place_that_is_none_is_told_and_kept_until_its_lock_is_deleted() {
    let bench = AzureBench::open("").await;
    if bench.real {
        return;
    }
    let path = LockPath::from_parts(&bench.container, "locks/h/job/FUNCTION");
    let plan = DocumentPath::Plan(path.clone());
    bench.store.write_document(plan.clone(), "{}".to_owned(), None).await.unwrap();
    let long = vec![b'x'; MAX_PLAN_BYTES + 1];
    for (content, said) in [
        (vec![b'x'; 100_000], "longer than 16384"),
        (long, "longer than 16384"),
        (vec![0xff], "utf-8"),
    ] {
        let put = reqwest::Client::new().put(plan_url(&path)).body(content);
        let put = put.header("x-ms-blob-type", "BlockBlob").header("x-ms-version", "2025-11-05");
        assert_eq!(put.send().await.unwrap().status().as_u16(), 201);
        let error = bench.store.read_document(plan.clone()).await.unwrap_err();
        assert!(matches!(error, StoreError::Fatal { .. }), "{error:?}");
        let chain = error.chain();
        assert!(chain.contains(said) && chain.contains("leasehold-plans/locks/h/job"), "{chain}");
    }
    let id = leasehold::lock::LeaseId::from_uuid(Uuid::new_v4());
    let duration = Duration::from_secs(15);
    let acquire = leasehold::store::Acquire { lease_id: id, duration, if_match: None };
    let etag = bench.store.acquire(&path, acquire).await.unwrap().etag;
    bench.store.release(&path, id, None).await.unwrap();
    bench.store.delete(&path, etag).await.unwrap();
    assert_eq!(bench.store.read_document(plan).await.unwrap().document, None);
}
