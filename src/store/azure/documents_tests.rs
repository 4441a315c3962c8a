use super::super::tests::{service, store_on};
use super::*;
use crate::lock::Container;
use crate::store::LeaseStoreExt as _;
use crate::testing::{Asked, Reply};

fn path() -> LockPath {
    LockPath::from_parts(&Container::parse("leasehold").unwrap(), "locks/h/job/~/FUNCTION")
}

fn plan() -> DocumentPath {
    DocumentPath::Plan(path())
}

fn refusal(status: u16, code: &str) -> Reply {
    service(status, &[("x-ms-error-code", code)])
}

fn known() -> ETag {
    ETag("\"0x7\"".into())
}

/// The methods of the requests, each with whether it is about the plan.
fn methods(asked: &[Asked]) -> Vec<(&str, bool)> {
    let is_plan = |asked: &Asked| asked.target.contains("leasehold-plans");
    asked.iter().map(|asked| (asked.method.as_str(), is_plan(asked))).collect()
}

#[tokio::test]
async fn t3_a_plan_is_written_in_one_request_under_its_condition_and_as_json() {
    let (store, fake, _) = store_on(vec![service(201, &[]), service(201, &[])]).await;
    store.write_document(plan(), "{}".to_owned(), None).await.unwrap();
    let written = store.write_document(plan(), "{}".to_owned(), Some(known())).await.unwrap();
    assert_eq!(written.etag, ETag("\"0x1\"".into()));
    let asked = fake.asked();
    assert_eq!(methods(&asked), [("PUT", true), ("PUT", true)]);
    for (asked, condition) in asked.iter().zip([(Some("*"), None), (None, Some("\"0x7\""))]) {
        assert_eq!((asked.header("if-none-match"), asked.header("if-match")), condition);
        assert_eq!(asked.header("x-ms-blob-content-type"), Some("application/json"));
        assert_eq!(asked.header("x-ms-lease-id"), None);
    }
}

#[tokio::test]
async fn t3_what_is_refused_to_a_plan_is_told_in_the_contracts_words() {
    for (condition, status, code, kind) in [
        (None, 409, "BlobAlreadyExists", "changed"),
        (None, 412, "ConditionNotMet", "changed"),
        (Some(known()), 412, "ConditionNotMet", "changed"),
        (Some(known()), 404, "BlobNotFound", "changed"),
        (Some(known()), 404, "ContainerNotFound", "changed"),
        (Some(known()), 412, "LeaseIdMissing", "fatal"),
        (None, 409, "ContainerBeingDeleted", "unavailable"),
        (None, 503, "ServerBusy", "throttled"),
    ] {
        let (store, fake, _) = store_on(vec![refusal(status, code)]).await;
        let error = store.write_document(plan(), "{}".to_owned(), condition).await.unwrap_err();
        assert_eq!((error.kind(), fake.asked().len()), (kind, 1), "{code}: {}", error.chain());
    }
}

#[tokio::test]
async fn s18_the_first_plan_makes_the_container_as_a_lock_does() {
    let replies = vec![refusal(404, "ContainerNotFound"), service(201, &[]), service(201, &[])];
    let (store, fake, _) = store_on(replies).await;
    store.write_document(plan(), "{}".to_owned(), None).await.unwrap();
    let asked = fake.asked();
    assert_eq!(methods(&asked), [("PUT", true), ("PUT", false), ("PUT", true)]);
    assert!(asked[1].target.contains("restype=container"), "{}", asked[1].target);
}

/// Locks that were held in it may be believed in, whoever makes it again.
#[tokio::test]
async fn s18_a_container_that_is_made_again_for_a_plan_grants_nothing_for_a_minute() {
    let there = service(202, &[]);
    let gone = refusal(404, "ContainerNotFound");
    let replies = vec![there, gone, service(201, &[]), service(201, &[])];
    let (store, fake, clock) = store_on(replies).await;
    store.delete_plan(&path(), known()).await.unwrap();
    store.write_document(plan(), "{}".to_owned(), None).await.unwrap();
    clock.advance(std::time::Duration::from_secs(59));
    let lease_id = crate::lock::LeaseId::from_uuid(uuid::Uuid::from_u128(1));
    let duration = crate::store::MIN_LEASE_DURATION;
    let acquire = crate::store::Acquire { lease_id, duration, if_match: None };
    let refused = store.acquire(&path(), acquire).await.unwrap_err();
    assert_eq!((refused.kind(), fake.asked().len()), ("recreated", 4), "{refused:?}");
}

#[tokio::test]
async fn t21_a_plan_is_deleted_after_its_lock_and_only_as_it_was() {
    let plan = service(200, &[("etag", "\"0x7\"")]);
    let gone = || service(202, &[]);
    let (store, fake, _) = store_on(vec![plan.clone(), gone(), gone(), gone()]).await;
    store.delete(&path(), ETag("\"0x1\"".into())).await.unwrap();
    let asked = fake.asked();
    let order = [("HEAD", true), ("DELETE", false), ("DELETE", false), ("DELETE", true)];
    assert_eq!(methods(&asked), order);
    assert!(!asked[1].target.contains("leasehold-breaks"), "{}", asked[1].target);
    assert_eq!(asked[3].header("if-match"), Some("\"0x7\""));
    let (store, fake, _) = store_on(vec![plan, refusal(412, "LeaseIdMissing")]).await;
    let refused = store.delete(&path(), ETag("\"0x1\"".into())).await.unwrap_err();
    assert_eq!((refused.kind(), fake.asked().len()), ("contended", 2), "{refused:?}");
}
