use super::*;
use crate::lock::{Container, FencingToken};
use crate::record::Fields;
use crate::store::{BreakNote, BreakPeriod, LeaseStoreExt as _, Secret};
use crate::testing::{Asked, Reply, ScriptedHttp, SimClock};
use crate::time::UnixMillis;

pub(super) const ID: &str = "5b1c6e1a-0b0e-4c7e-9d1c-1f2a3b4c5d6e";
pub(super) const OTHER: &str = "00000000-0000-4000-8000-000000000000";
const KEY: &str = "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA==";
const DATE: (&str, &str) = ("date", "Fri, 15 Jan 2027 08:00:00 GMT");

pub(super) fn lease_id() -> LeaseId {
    LeaseId::parse(ID).unwrap()
}

pub(super) fn path() -> LockPath {
    LockPath::from_parts(&Container::parse("leasehold").unwrap(), "locks/h/job/~/FUNCTION")
}

pub(super) fn service(status: u16, more: &[(&str, &str)]) -> Reply {
    let mut headers = vec![("x-ms-request-id", "r-1"), DATE, ("etag", "\"0x1\"")];
    headers.extend(more);
    Reply::new(status, &headers)
}

fn refusal(status: u16, code: &str) -> Reply {
    service(status, &[("x-ms-error-code", code)])
}

pub(super) async fn store_on(replies: Vec<Reply>) -> (AzureStore, ScriptedHttp, Arc<SimClock>) {
    let fake = ScriptedHttp::start(replies).await;
    let clock = Arc::new(SimClock::new());
    let store = store_at(fake.endpoint(), &clock);
    (store, fake, clock)
}

pub(super) fn store_at(endpoint: &str, clock: &Arc<SimClock>) -> AzureStore {
    store_that(endpoint, clock, true)
}

fn store_that(endpoint: &str, clock: &Arc<SimClock>, create_container: bool) -> AzureStore {
    let connection = format!(
        "DefaultEndpointsProtocol=http;AccountName=account;AccountKey={KEY};BlobEndpoint={endpoint}/account"
    );
    let credential = AzureCredential::ConnectionString(Secret::new(connection));
    let settings = AzureSettings { create_container, ..AzureSettings::new(credential) };
    AzureStore::new(&settings, Arc::clone(clock) as _).unwrap()
}

pub(super) fn acquire() -> Acquire {
    Acquire { lease_id: lease_id(), duration: std::time::Duration::from_secs(60), if_match: None }
}

fn actions(asked: &[Asked]) -> Vec<(&str, &str)> {
    asked
        .iter()
        .map(|asked| (asked.method.as_str(), asked.header("x-ms-lease-action").unwrap_or_default()))
        .collect()
}

#[tokio::test]
async fn s7_each_lease_operation_is_one_request() {
    let own = ("x-ms-lease-id", ID);
    let replies =
        vec![service(201, &[own]), service(200, &[]), service(200, &[own]), service(200, &[])];
    let (store, fake, _) = store_on(replies).await;
    let acquired = store.acquire(&path(), acquire()).await.unwrap();
    assert!(!acquired.created);
    let write =
        Write { lease_id: lease_id(), if_match: Some(acquired.etag), fields: Fields::new() };
    store.write_record(&path(), write).await.unwrap();
    store.renew(&path(), lease_id(), None).await.unwrap();
    store.release(&path(), lease_id(), None).await.unwrap();
    let asked = fake.asked();
    let expected = [("PUT", "acquire"), ("PUT", ""), ("PUT", "renew"), ("PUT", "release")];
    assert_eq!(actions(&asked), expected);
    assert_eq!(asked[0].header("x-ms-lease-duration"), Some("60"));
    assert_eq!(asked[0].header("x-ms-proposed-lease-id"), Some(ID));
    assert_eq!(asked[1].header("if-match"), Some("\"0x1\""));
    assert_eq!(asked[1].header("x-ms-lease-id"), Some(ID));
    assert!(asked[0].target.starts_with("/account/leasehold/locks"), "{}", asked[0].target);
    for asked in &asked {
        let signed = asked.header("authorization").unwrap();
        assert!(signed.starts_with("SharedKey account:"), "{signed}");
        assert!(asked.target.contains("timeout=5"), "{}", asked.target);
    }
}

#[tokio::test]
async fn s18_a_lock_that_is_not_there_is_made_once_and_never_overwritten() {
    let replies = vec![
        refusal(404, "BlobNotFound"),
        service(201, &[]),
        service(201, &[("x-ms-lease-id", ID)]),
    ];
    let (store, fake, _) = store_on(replies).await;
    assert!(store.acquire(&path(), acquire()).await.unwrap().created);
    let asked = fake.asked();
    assert_eq!(actions(&asked), [("PUT", "acquire"), ("PUT", ""), ("PUT", "acquire")]);
    assert_eq!(asked[1].header("if-none-match"), Some("*"));
}

#[tokio::test]
async fn s7_an_answer_counts_only_with_our_lease_id_and_from_the_service_itself() {
    let foreign = Reply::new(200, &[DATE, ("x-ms-lease-id", ID)]);
    for reply in [service(200, &[("x-ms-lease-id", OTHER)]), service(200, &[]), foreign] {
        let (store, _fake, _) = store_on(vec![reply.clone()]).await;
        let renewed = store.renew(&path(), lease_id(), None).await;
        let unknown = matches!(renewed, Err(StoreError::Unavailable { sent: true, .. }));
        assert!(unknown, "{reply:?} gave {renewed:?}");
    }
}

#[tokio::test]
async fn s8_what_is_final_and_what_is_tried_again() {
    let table = [
        (refusal(409, "LeaseIdMismatchWithLeaseOperation"), "lease_lost"),
        (refusal(409, "LeaseNotPresentWithLeaseOperation"), "lease_lost"),
        (refusal(409, "LeaseIsBrokenAndCannotBeRenewed"), "lease_lost"),
        (refusal(412, "LeaseLost"), "lease_lost"),
        (refusal(404, "BlobNotFound"), "not_found"),
        (refusal(404, "ContainerNotFound"), "not_found"),
        (refusal(401, "InvalidAuthenticationInfo"), "denied"),
        (refusal(403, "AuthenticationFailed"), "denied"),
        (refusal(429, "TooManyRequests"), "throttled"),
        (refusal(503, "ServerBusy"), "throttled"),
        (refusal(500, "InternalError"), "unavailable"),
        (refusal(408, "RequestTimeout"), "unavailable"),
        (service(302, &[("location", "http://127.0.0.1:1/")]), "unavailable"),
        (Reply::Close, "unavailable"),
    ];
    for (reply, kind) in table {
        let (store, fake, _) = store_on(vec![reply.clone(), reply.clone()]).await;
        let error = store.renew(&path(), lease_id(), None).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{reply:?} gave {error:?}");
        let tries = if kind == "denied" { 2 } else { 1 };
        assert_eq!(fake.asked().len(), tries, "S7: the SDK neither retries nor follows: {reply:?}");
    }
}

#[tokio::test]
async fn a_busy_lock_and_a_changed_one_are_told_apart() {
    let (store, _fake, _) = store_on(vec![refusal(409, "LeaseAlreadyPresent")]).await;
    let busy = store.acquire(&path(), acquire()).await.unwrap_err();
    assert!(matches!(busy, StoreError::Contended), "{busy:?}");
    let (store, _fake, _) = store_on(vec![refusal(412, "ConditionNotMet")]).await;
    let changed = store.acquire(&path(), acquire()).await.unwrap_err();
    assert!(matches!(changed, StoreError::Changed), "{changed:?}");
}

#[tokio::test]
async fn a_throttling_service_says_for_how_long() {
    let busy = service(503, &[("x-ms-error-code", "ServerBusy"), ("retry-after", "7")]);
    let (store, _fake, _) = store_on(vec![busy]).await;
    let error = store.renew(&path(), lease_id(), None).await.unwrap_err();
    let StoreError::Throttled { retry_after, .. } = error else { panic!("{error:?}") };
    assert_eq!(retry_after, Some(std::time::Duration::from_secs(7)));
}

/// The simulated wall clock stands at 15 January 2027, 08:00; the service's is an hour ahead.
#[tokio::test]
async fn s18_requests_are_signed_by_the_services_clock_when_ours_is_an_hour_off() {
    let ahead = ("date", "Fri, 15 Jan 2027 09:00:00 GMT");
    let refused = Reply::new(
        403,
        &[("x-ms-request-id", "r"), ahead, ("x-ms-error-code", "AuthenticationFailed")],
    );
    let taken = Reply::new(
        200,
        &[("x-ms-request-id", "r"), ahead, ("etag", "\"0x1\""), ("x-ms-lease-id", ID)],
    );
    let (store, fake, clock) = store_on(vec![refused, taken]).await;
    store.renew(&path(), lease_id(), None).await.unwrap();
    let asked = fake.asked();
    assert_eq!(asked[0].header("x-ms-date"), Some("Fri, 15 Jan 2027 08:00:00 GMT"));
    assert_eq!(asked[1].header("x-ms-date"), Some("Fri, 15 Jan 2027 09:00:00 GMT"));
    clock.set_wall(UnixMillis(0));
    clock.observe_store_date(UnixMillis(1_800_003_600_000));
    assert_eq!(clock.suspected_pauses(), 0, "S3: the clock has heard of the store's");
}

#[tokio::test]
async fn s20_no_failure_shows_the_key_or_the_lease_id() {
    let denied = refusal(403, "AuthenticationFailed");
    let (store, _fake, _) = store_on(vec![denied.clone(), denied, Reply::Close]).await;
    for _ in 0..2 {
        let error = store.renew(&path(), lease_id(), None).await.unwrap_err();
        for text in [error.chain(), format!("{error:?}"), format!("{store:?}")] {
            assert!(!text.contains(KEY) && !text.contains(ID), "{text}");
        }
    }
}

fn store_of_sas(fake: &ScriptedHttp) -> (AzureStore, AzureSettings) {
    let url =
        format!("{}/account?sv=2025-11-05&se=2020-01-01T00:00:00Z&sig=c2VjcmV0", fake.endpoint());
    let settings = AzureSettings::new(AzureCredential::SasUrl(Secret::new(url)));
    let store = AzureStore::new(&settings, Arc::new(SimClock::new())).unwrap();
    (store, settings)
}

#[tokio::test]
async fn s20_a_sas_is_sent_and_never_shown() {
    let fake = ScriptedHttp::start(vec![Reply::Close]).await;
    let (store, settings) = store_of_sas(&fake);
    let error = store.renew(&path(), lease_id(), None).await.unwrap_err();
    assert!(fake.asked()[0].target.contains("sig=c2VjcmV0"), "{:?}", fake.asked());
    for text in [error.chain(), format!("{error:?}"), format!("{store:?}"), format!("{settings:?}")]
    {
        assert!(!text.contains("c2VjcmV0"), "{text}");
    }
}

#[tokio::test]
async fn an_expired_sas_is_told_as_one() {
    let denied = refusal(403, "AuthenticationFailed");
    let fake = ScriptedHttp::start(vec![denied.clone(), denied]).await;
    let (store, _) = store_of_sas(&fake);
    let error = store.renew(&path(), lease_id(), None).await.unwrap_err();
    assert_eq!(error.kind(), "denied");
    assert!(
        error.chain().contains("expired at 2020-01-01T00:00:00Z; create a new one"),
        "{}",
        error.chain()
    );
}

/// The note is there before the break, and names this grant: it must not make a notice of a break by somebody
/// else, whose period may be shorter.
#[tokio::test]
async fn s22_a_break_that_is_refused_leaves_no_note_of_it() {
    let note = BreakNote { token: FencingToken::from_u64(65_537), ..note(BreakPeriod::RunOut) };
    let leased = [
        ("x-ms-lease-state", "leased"),
        ("x-ms-lease-status", "locked"),
        ("last-modified", "Fri, 15 Jan 2027 08:00:00 GMT"),
    ];
    let denied = refusal(403, "AuthorizationPermissionMismatch");
    let former = ("x-ms-meta-token", "131074");
    for (found, kept) in
        [(refusal(404, "BlobNotFound"), None), (service(200, &[former]), Some("131074"))]
    {
        let replies = vec![
            found,
            service(200, &leased),
            service(201, &[]),
            service(200, &leased),
            denied.clone(),
            denied.clone(),
            service(201, &[]),
        ];
        let (store, fake, _) = store_on(replies).await;
        let error = store.break_lease(&path(), note.clone(), looked_at()).await.unwrap_err();
        assert_eq!(error.kind(), "denied", "{error:?}");
        let asked = fake.asked();
        assert_eq!(asked.len(), 7, "{asked:?}");
        assert_eq!(asked[2].header("x-ms-meta-token"), Some("65537"));
        assert_eq!((asked[6].method.as_str(), &asked[6].target), ("PUT", &asked[2].target));
        assert_eq!(asked[6].header("x-ms-meta-token"), kept);
    }
}

#[tokio::test]
async fn a_wrong_key_and_a_missing_container_say_what_to_do() {
    let denied = refusal(403, "AuthenticationFailed");
    let (store, _fake, _) = store_on(vec![denied.clone(), denied]).await;
    let error = store.renew(&path(), lease_id(), None).await.unwrap_err();
    assert!(error.chain().contains("key is not a current key of the account"), "{}", error.chain());

    let fake = ScriptedHttp::start(vec![refusal(404, "ContainerNotFound")]).await;
    let connection =
        format!("AccountName=account;AccountKey={KEY};BlobEndpoint={}/account", fake.endpoint());
    let settings = AzureSettings::new(AzureCredential::ConnectionString(Secret::new(connection)));
    let store = AzureStore::new(&settings, Arc::new(SimClock::new())).unwrap();
    let error = store.acquire(&path(), acquire()).await.unwrap_err();
    assert_eq!(error.kind(), "container_missing");
    assert!(error.chain().contains("leasehold"), "{}", error.chain());
}

#[tokio::test]
async fn s8_a_refused_credential_is_tried_once_more_before_it_is_told() {
    for denied in [refusal(401, "InvalidAuthenticationInfo"), refusal(403, "AuthenticationFailed")]
    {
        let taken = service(200, &[("x-ms-lease-id", ID)]);
        let (store, fake, _) = store_on(vec![denied.clone(), taken]).await;
        store.renew(&path(), lease_id(), None).await.unwrap();
        assert_eq!(fake.asked().len(), 2);

        let (store, fake, _) = store_on(vec![denied.clone(), denied.clone(), denied]).await;
        let error = store.renew(&path(), lease_id(), None).await.unwrap_err();
        assert_eq!((error.kind(), fake.asked().len()), ("denied", 2), "once, and no more");
    }
}

#[tokio::test]
async fn s18_a_container_that_was_never_seen_is_made_at_once() {
    let replies = vec![
        refusal(404, "ContainerNotFound"),
        service(201, &[]),
        service(201, &[]),
        service(201, &[("x-ms-lease-id", ID)]),
    ];
    let (store, fake, _) = store_on(replies).await;
    assert!(store.acquire(&path(), acquire()).await.unwrap().created);
    assert_eq!(fake.asked().len(), 4);
}

/// The lock was made in it, and may have been leased by others since: that our own acquire was not answered
/// says nothing.
#[tokio::test]
async fn s18_a_container_in_which_a_lock_was_made_was_seen_though_the_acquire_was_not_answered() {
    let replies = vec![
        refusal(404, "ContainerNotFound"),
        service(201, &[]),
        service(201, &[]),
        Reply::Close,
        refusal(404, "ContainerNotFound"),
        service(201, &[]),
    ];
    let (store, fake, _) = store_on(replies).await;
    store.acquire(&path(), acquire()).await.unwrap_err();
    let error = store.acquire(&path(), acquire()).await.unwrap_err();
    assert_eq!(error.kind(), "recreated", "{error:?}");
    assert_eq!(fake.asked().len(), 6, "it is made again, and nothing is asked of it");
}

#[tokio::test]
async fn s18_a_container_that_was_seen_and_is_made_again_grants_nothing_for_a_minute() {
    let own = ("x-ms-lease-id", ID);
    let replies = vec![
        service(201, &[own]),
        refusal(404, "ContainerNotFound"),
        service(201, &[]),
        refusal(404, "BlobNotFound"),
        service(201, &[]),
        service(201, &[own]),
    ];
    let (store, fake, clock) = store_on(replies).await;
    store.acquire(&path(), acquire()).await.unwrap();
    let error = store.acquire(&path(), acquire()).await.unwrap_err();
    assert_eq!(error.kind(), "recreated", "{error:?}");
    assert_eq!(fake.asked().len(), 3, "it is made again, and nothing is asked of it");
    assert!(error.chain().contains("leasehold") && error.chain().contains("1m"), "{error}");
    clock.advance(std::time::Duration::from_secs(59));
    let error = store.acquire(&path(), acquire()).await.unwrap_err();
    assert!(error.chain().contains("1s"), "{error}");
    clock.advance(std::time::Duration::from_secs(1));
    assert!(store.acquire(&path(), acquire()).await.unwrap().created);
    assert_eq!(fake.asked().len(), 6);
}

#[tokio::test]
async fn s18_a_container_that_is_gone_and_may_not_be_made_is_looked_for() {
    let own = ("x-ms-lease-id", ID);
    let gone = || refusal(404, "ContainerNotFound");
    let there = refusal(404, "BlobNotFound");
    let replies = vec![service(201, &[own]), gone(), gone(), gone(), there, service(201, &[own])];
    let fake = ScriptedHttp::start(replies).await;
    let clock = Arc::new(SimClock::new());
    let store = store_that(fake.endpoint(), &clock, false);
    store.acquire(&path(), acquire()).await.unwrap();
    let again = Acquire { if_match: Some(looked_at()), ..acquire() };
    for (request, kind) in
        [(acquire(), "container_missing"), (acquire(), "container_missing"), (again, "changed")]
    {
        let error = store.acquire(&path(), request).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
    }
    // An operator has made it; a minute ago it was not there.
    clock.advance(std::time::Duration::from_secs(60));
    store.acquire(&path(), acquire()).await.unwrap();
    assert_eq!(fake.asked().len(), 6);
}

/// Somebody else may make it again before this sidecar acquires there.
#[tokio::test]
async fn s18_a_renewal_that_finds_the_container_gone_starts_the_minute() {
    let own = ("x-ms-lease-id", ID);
    for (status, code) in [(404, "ContainerNotFound"), (409, "ContainerBeingDeleted")] {
        let made = service(201, &[]);
        let replies = vec![service(201, &[own]), refusal(status, code), made, service(201, &[own])];
        let (store, fake, clock) = store_on(replies).await;
        store.acquire(&path(), acquire()).await.unwrap();
        store.renew(&path(), lease_id(), None).await.unwrap_err();
        let error = store.acquire(&path(), acquire()).await.unwrap_err();
        assert_eq!((error.kind(), fake.asked().len()), ("recreated", 3), "{error:?}");
        assert!(fake.asked()[2].target.contains("restype=container"), "it is made again at once");
        clock.advance(std::time::Duration::from_secs(60));
        store.acquire(&path(), acquire()).await.unwrap();
    }
}

/// The version of the record that [`service`] shows.
fn looked_at() -> ETag {
    ETag("\"0x1\"".into())
}

fn note(period: BreakPeriod) -> BreakNote {
    let token = FencingToken::from_u64(4_096);
    BreakNote {
        period,
        reason: "hangs".to_owned(),
        by: "ann".to_owned(),
        token,
        at: UnixMillis(1_800_000_000_123),
        for_priority: None,
    }
}

/// S8: a 503 does not say that nothing was done.
#[tokio::test]
async fn s22_a_break_that_is_throttled_leaves_no_note_of_its_own_but_where_it_was_sent() {
    let leased = ("x-ms-lease-state", "leased");
    let lock = service(200, &[leased, ("last-modified", "Fri, 15 Jan 2027 07:00:00 GMT")]);
    let earlier = service(200, &[("x-ms-meta-period", "run-out"), ("x-ms-meta-token", "4096")]);
    for (former, mended) in [(refusal(404, "BlobNotFound"), "DELETE"), (earlier, "PUT")] {
        let throttled = refusal(503, "ServerBusy");
        // The break, or the read before it.
        for read in [Some(lock.clone()), None] {
            let is_sent = read.is_some();
            let noted = [former.clone(), lock.clone(), service(201, &[])];
            let then = [throttled.clone(), service(202, &[])];
            let replies: Vec<_> = noted.into_iter().chain(read).chain(then).collect();
            let asks = replies.len() - usize::from(is_sent);
            let (store, fake, _) = store_on(replies).await;
            let broken = store.break_lease(&path(), note(BreakPeriod::Now), looked_at()).await;
            assert!(matches!(broken, Err(StoreError::Throttled { .. })), "{broken:?}");
            let asked = fake.asked();
            assert_eq!(asked.len(), asks, "{asked:?}");
            if !is_sent {
                let last = asked.last().unwrap();
                assert_eq!(last.method.as_str(), mended, "{asked:?}");
                let period = last.header("x-ms-meta-period");
                let stands = (mended == "PUT").then_some("run-out");
                assert_eq!(period, stands, "the earlier break stands");
            }
        }
    }
}
