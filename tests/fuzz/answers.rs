//! Answers that a store, or something between it and us, may give.

use std::sync::Arc;
use std::time::Duration;

use leasehold::lock::{Container, LeaseId, LockPath};
use leasehold::record::Fields;
use leasehold::store::Secret;
use leasehold::store::azure::{AzureCredential, AzureSettings, AzureStore};
use leasehold::store::{Acquire, LeaseStoreExt as _, Write};
use leasehold::testing::{Reply, ScriptedHttp, SimClock};
use proptest::prelude::*;
use uuid::Uuid;

use crate::fuzz::cases;

const ID: &str = "5b1c6e1a-0b0e-4c7e-9d1c-1f2a3b4c5d6e";

fn header() -> impl Strategy<Value = (String, String)> {
    let name = proptest::sample::select(vec![
        "x-ms-lease-id",
        "x-ms-lease-state",
        "x-ms-lease-status",
        "x-ms-error-code",
        "x-ms-request-id",
        "x-ms-meta-leasehold_token",
        "x-ms-meta-leasehold_holder",
        "retry-after",
        "etag",
        "date",
        "last-modified",
        "location",
        "content-length",
    ]);
    let value = prop_oneof![
        Just(ID.to_owned()),
        Just("leased".to_owned()),
        Just("available".to_owned()),
        Just("LeaseAlreadyPresent".to_owned()),
        Just("Fri, 15 Jan 2027 08:00:00 GMT".to_owned()),
        "[!-~]{0,30}",
        "[0-9]{1,22}",
    ];
    (name.prop_map(str::to_owned), value).prop_filter("the fake has no body", |(name, value)| {
        name != "content-length" || value == "0"
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    let status = prop_oneof![
        proptest::sample::select(vec![
            200_u16, 201, 202, 304, 307, 400, 401, 403, 404, 409, 412, 429, 500, 503
        ]),
        200..600_u16,
    ];
    prop_oneof![
        9 => (status, proptest::collection::vec(header(), 0..8))
            .prop_map(|(status, headers)| Reply::Answer { status, headers, body: String::new() }),
        1 => Just(Reply::Close),
    ]
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn s7_only_the_exact_answer_is_a_success(replies in proptest::collection::vec(reply(), 5)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fake = ScriptedHttp::start(replies.clone()).await;
            let connection = format!(
                "DefaultEndpointsProtocol=http;AccountName=account;AccountKey=c2VjcmV0;BlobEndpoint={}/account",
                fake.endpoint()
            );
            let credential = AzureCredential::ConnectionString(Secret::new(connection));
            let settings =
                AzureSettings::new(credential);
            let store = AzureStore::new(&settings, Arc::new(SimClock::new())).unwrap();
            let path = LockPath::from_parts(&Container::parse("leasehold").unwrap(), "locks/fuzz");
            let lease_id = LeaseId::from_uuid(Uuid::parse_str(ID).unwrap());
            let exact = |status: u16, reply: &Reply| {
                let Reply::Answer { status: given, headers, .. } = reply else { return false };
                *given == status
                    && headers.iter().any(|(name, value)| name == "x-ms-lease-id" && value == ID)
            };
            let renewed = store.renew(&path, lease_id, None).await;
            prop_assert!(renewed.is_err() || exact(200, &replies[0]), "{renewed:?} {replies:?}");
            let request = Acquire { lease_id, duration: Duration::from_secs(15), if_match: None };
            let acquired = store.acquire(&path, request).await;
            prop_assert!(
                acquired.is_err() || fake.asked().len() > 1,
                "{acquired:?} without being asked"
            );
            let write = Write { lease_id, if_match: None, fields: Fields::new() };
            let _ = store.write_record(&path, write).await;
            let _ = store.read_record(&path).await;
            let _ = store.release(&path, lease_id, None).await;
            Ok(())
        })?;
    }
}
