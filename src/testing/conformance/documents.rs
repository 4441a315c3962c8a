//! Documents: texts beside the locks, with ETags of their own, that need no lease. Plans of schedules (T3,
//! T21), and statuses of .NET timers, which hosts of .NET write too, of no lock (T22).

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::bench::{
    Bench, acquire, break_lease, fields, is_refused, lock, longest, new_id, note, read, state,
    write, written_lock,
};
use crate::lock::{HostId, LockPath, TimerPath};
use crate::store::{
    BreakPeriod, DocumentKind, DocumentPath, DocumentWritten, ETag, LeaseState, LeaseStoreExt as _,
    List, PlanListing, StoreError,
};

const PLAN: &str = r#"{"number": 1}"#;
const STATUS: &str = r#"{"Last":"2026-11-22T02:30:00.1075034+01:00"}"#;
const ROUNDS: usize = 8;

fn plan_of(path: &LockPath) -> DocumentPath {
    DocumentPath::Plan(path.clone())
}

/// The status of a timer of this case.
fn status_of<B: Bench>(bench: &B, name: &str) -> DocumentPath {
    let host_id = HostId::parse("keeper-a").expect("it is one");
    let timer = name.to_owned();
    DocumentPath::TimerStatus(TimerPath { container: bench.container(), host_id, timer })
}

fn has_timers<B: Bench>(bench: &B) -> bool {
    bench.store().features().has_timers
}

async fn put<B: Bench>(
    bench: &B,
    path: &DocumentPath,
    text: &str,
    if_match: Option<ETag>,
) -> DocumentWritten {
    let written = bench.store().write_document(path.clone(), text.to_owned(), if_match).await;
    written.expect("the document is as known")
}

/// The text and the ETag of the document that is there.
async fn document<B: Bench>(bench: &B, path: &DocumentPath) -> Option<(String, ETag)> {
    let read = bench.store().read_document(path.clone()).await.expect("the store can be read");
    read.document.map(|document| (document.text, document.etag))
}

async fn text<B: Bench>(bench: &B, path: &DocumentPath) -> Option<String> {
    document(bench, path).await.map(|(text, _)| text)
}

fn longest_text(kind: DocumentKind) -> String {
    let longest = "日".repeat(kind.max_bytes() / 3) + "x";
    assert_eq!(longest.len(), kind.max_bytes());
    longest
}

/// Writes these texts, one over the other; the ETag of the last.
async fn read_back<B: Bench>(bench: &B, path: &DocumentPath, texts: &[&str]) -> Option<ETag> {
    let mut known = None;
    for wanted in texts {
        let written = put(bench, path, wanted, known).await;
        let read = bench.store().read_document(path.clone()).await.unwrap();
        assert!(read.time >= written.time, "the store's clock went back");
        let stored = read.document.expect("it was written");
        assert!(stored.text == *wanted, "{:?} came back for {wanted:?}", stored.text);
        assert_eq!(stored.etag, written.etag);
        known = Some(written.etag);
    }
    known
}

pub(super) async fn t3_a_plan_reads_back_byte_for_byte<B: Bench>(bench: &B) {
    let path = lock(bench, "host/text/~/FUNCTION");
    let longest = longest_text(DocumentKind::Plan);
    let odd = "{\n  \"zone\": \"Europe/Zürich\",\r\n\t\"note\": \"日本 🦀 ' \\\" %25\"\n}\n";
    read_back(bench, &plan_of(&path), &[PLAN, odd, " ", "", &longest]).await;
}

pub(super) async fn t3_a_plan_that_is_too_long_is_refused<B: Bench>(bench: &B) {
    let (path, store) = (lock(bench, "host/long/~/FUNCTION"), bench.store());
    let too_long = "x".repeat(DocumentKind::Plan.max_bytes() + 1);
    let refused = store.write_document(plan_of(&path), too_long.clone(), None).await;
    assert!(matches!(refused, Err(StoreError::Fatal { .. })), "{refused:?}");
    assert_eq!(text(bench, &plan_of(&path)).await, None);
    let known = put(bench, &plan_of(&path), PLAN, None).await.etag;
    let refused = store.write_document(plan_of(&path), too_long, Some(known.clone())).await;
    assert!(matches!(refused, Err(StoreError::Fatal { .. })), "{refused:?}");
    assert_eq!(document(bench, &plan_of(&path)).await, Some((PLAN.to_owned(), known)));
}

pub(super) async fn t3_a_plan_is_replaced_only_by_who_knows_it<B: Bench>(bench: &B) {
    let (path, store) = (lock(bench, "host/known/~/FUNCTION"), bench.store());
    let first = put(bench, &plan_of(&path), PLAN, None).await.etag;
    let second = put(bench, &plan_of(&path), "second", Some(first.clone())).await.etag;
    for known in [None, Some(first.clone()), Some(ETag("\"never\"".into()))] {
        let refused = store.write_document(plan_of(&path), "other".to_owned(), known.clone()).await;
        assert!(is_refused(&refused), "{known:?}: {refused:?}");
    }
    assert!(is_refused(&store.delete_plan(&path, first).await));
    assert_eq!(document(bench, &plan_of(&path)).await, Some(("second".to_owned(), second)));
}

pub(super) async fn t3_a_plan_that_is_gone_has_changed<B: Bench>(bench: &B) {
    let (path, store) = (lock(bench, "host/gone/~/FUNCTION"), bench.store());
    let first = put(bench, &plan_of(&path), PLAN, None).await.etag;
    store.delete_plan(&path, first.clone()).await.unwrap();
    assert_eq!(text(bench, &plan_of(&path)).await, None);
    let refused =
        store.write_document(plan_of(&path), "other".to_owned(), Some(first.clone())).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert!(is_refused(&store.delete_plan(&path, first.clone()).await));
    assert_eq!(text(bench, &plan_of(&path)).await, None);
    let again = put(bench, &plan_of(&path), PLAN, None).await.etag;
    assert_ne!(again, first, "an ETag was given twice");
}

pub(super) async fn s18_the_first_plan_makes_its_container<B: Bench>(bench: &B) {
    let (path, store) = (lock(bench, "host/first/~/FUNCTION"), bench.store());
    let never = ETag("\"never\"".into());
    let nothing = store.read_document(plan_of(&path)).await.unwrap();
    assert_eq!(nothing.document, None);
    let refused = store.write_document(plan_of(&path), PLAN.to_owned(), Some(never.clone())).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert!(is_refused(&store.delete_plan(&path, never).await));
    let written = put(bench, &plan_of(&path), PLAN, None).await;
    assert!(written.time >= nothing.time, "the store's clock went back");
    assert_eq!(document(bench, &plan_of(&path)).await, Some((PLAN.to_owned(), written.etag)));
    // Nothing was granted in it that anybody could still believe in.
    assert!(acquire(bench, &path, longest(new_id())).await.created);
}

pub(super) async fn t3_a_plan_may_be_there_before_its_lock<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/before/~/FUNCTION"), bench.store(), new_id());
    let known = put(bench, &plan_of(&path), PLAN, None).await.etag;
    assert!(matches!(store.read_record(&path).await, Err(StoreError::NotFound)));
    assert!(matches!(store.renew(&path, a, None).await, Err(StoreError::NotFound)));
    assert_eq!(store.read_break_note(&path).await.unwrap(), None);
    for prefix in ["", "host/", "leasehold-"] {
        let (container, prefix) = (bench.container(), prefix.to_owned());
        let list = List { container, prefix, continuation: None, limit: 1 };
        let listing = store.list(list).await.unwrap();
        assert!(listing.locks.is_empty(), "{:?}", listing.locks);
    }
    let made = acquire(bench, &path, longest(a)).await;
    assert!(made.created, "the lock was not there");
    assert!(read(bench, &path).await.fields.is_empty());
    assert_eq!(document(bench, &plan_of(&path)).await, Some((PLAN.to_owned(), known)));
}

pub(super) async fn t3_a_plan_is_written_and_deleted_without_the_lease<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/leased/~/FUNCTION"), bench.store(), new_id());
    acquire(bench, &path, longest(a)).await;
    let record = write(bench, &path, a, fields([("leasehold_holder", "a")])).await.etag;
    let first = put(bench, &plan_of(&path), PLAN, None).await.etag;
    let second = put(bench, &plan_of(&path), "second", Some(first)).await.etag;
    for deleted in [false, true] {
        if deleted {
            store.delete_plan(&path, second.clone()).await.unwrap();
        }
        let lock = read(bench, &path).await;
        assert_eq!((lock.lease, &lock.etag), (LeaseState::Leased, &record));
        assert_eq!(lock.fields, fields([("leasehold_holder", "a")]));
        store.renew(&path, a, Some(record.clone())).await.unwrap();
    }
}

pub(super) async fn t3_no_operation_on_the_lock_changes_the_plan<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/apart/~/FUNCTION"), bench.store(), new_id());
    let known = put(bench, &plan_of(&path), PLAN, None).await.etag;
    let kept = Some((PLAN.to_owned(), known));
    acquire(bench, &path, longest(a)).await;
    assert_eq!(document(bench, &plan_of(&path)).await, kept, "acquire");
    write(bench, &path, a, fields([("leasehold_holder", "a")])).await;
    assert_eq!(document(bench, &plan_of(&path)).await, kept, "write");
    store.renew(&path, a, None).await.unwrap();
    assert_eq!(document(bench, &plan_of(&path)).await, kept, "renew");
    break_lease(bench, &path, note(BreakPeriod::Now, "tried")).await.unwrap();
    assert_eq!(document(bench, &plan_of(&path)).await, kept, "break");
    store.release(&path, a, None).await.unwrap();
    assert_eq!(document(bench, &plan_of(&path)).await, kept, "release");
}

pub(super) async fn t3_every_lock_has_a_plan_of_its_own<B: Bench>(bench: &B) {
    let names = [
        "host/f/~/FUNCTION".to_owned(),
        "host/F/~/FUNCTION".to_owned(),
        "host/f/~/LISTENER".to_owned(),
        "host/Zürich 100%/~日本 🦀/FUNCTION".to_owned(),
        "host/".to_owned() + &"x".repeat(1_010),
        "host/".to_owned() + &"x".repeat(1_009) + "y",
    ];
    let paths = names.clone().map(|name| lock(bench, &name));
    for (path, name) in paths.iter().zip(&names) {
        put(bench, &plan_of(path), name, None).await;
        acquire(bench, path, longest(new_id())).await;
    }
    for (path, name) in paths.iter().zip(&names) {
        assert_eq!(text(bench, &plan_of(path)).await.as_ref(), Some(name));
    }
    let (container, prefix) = (bench.container(), String::new());
    let list = List { container, prefix, continuation: None, limit: 100 };
    let listed: BTreeSet<_> =
        bench.store().list(list).await.unwrap().locks.into_iter().map(|(path, _)| path).collect();
    assert_eq!(listed, paths.into_iter().collect(), "plans are not listed");
}

pub(super) async fn t3_plans_are_listed_whether_or_not_their_locks_are_there<B: Bench>(bench: &B) {
    let request = |prefix: &str| List {
        container: bench.container(),
        prefix: prefix.to_owned(),
        continuation: None,
        limit: 2,
    };
    assert_eq!(bench.store().list_plans(request("")).await.unwrap(), PlanListing::default());
    let names = ["a/f/~/FUNCTION", "b/e/~/FUNCTION", "b/f/~/FUNCTION", "b/f/~x/FUNCTION", "bb/f"];
    let mut paths = names.map(|name| lock(bench, name));
    paths.sort();
    for (number, path) in paths.iter().enumerate() {
        put(bench, &plan_of(path), PLAN, None).await;
        if number % 2 == 0 {
            acquire(bench, path, longest(new_id())).await;
        }
    }
    acquire(bench, &lock(bench, "b/a/~/FUNCTION"), longest(new_id())).await;
    for prefix in ["", "a/", "b/", "b", "b/f/~", "c", "leasehold-"] {
        let (mut request, mut listed) = (request(prefix), Vec::new());
        loop {
            let page = bench.store().list_plans(request.clone()).await.unwrap();
            assert!(page.paths.len() <= 2, "{page:?}");
            listed.extend(page.paths);
            if page.continuation.is_none() {
                break;
            }
            request.continuation = page.continuation;
        }
        let mut expected = paths.to_vec();
        expected.retain(|path| path.name().starts_with(prefix));
        assert_eq!(listed, expected, "{prefix:?}");
    }
}

pub(super) async fn t21_a_lock_that_is_deleted_takes_its_plan_along<B: Bench>(bench: &B) {
    let (path, store) = (lock(bench, "host/deleted/~/FUNCTION"), bench.store());
    let known = put(bench, &plan_of(&path), PLAN, None).await.etag;
    let etag = written_lock(bench, &path).await;
    store.delete(&path, etag).await.unwrap();
    assert_eq!(text(bench, &plan_of(&path)).await, None);
    let refused = store.write_document(plan_of(&path), "other".to_owned(), Some(known)).await;
    assert!(is_refused(&refused), "{refused:?}");
}

pub(super) async fn t21_a_lock_that_is_not_deleted_keeps_its_plan<B: Bench>(bench: &B) {
    let (path, store, a) = (lock(bench, "host/kept/~/FUNCTION"), bench.store(), new_id());
    let known = put(bench, &plan_of(&path), PLAN, None).await.etag;
    let kept = Some((PLAN.to_owned(), known));
    let never = ETag("\"never\"".into());
    assert!(matches!(store.delete(&path, never).await, Err(StoreError::NotFound)));
    assert_eq!(document(bench, &plan_of(&path)).await, kept, "there is no lock yet");
    let etag = acquire(bench, &path, longest(a)).await.etag;
    assert!(matches!(store.delete(&path, etag.clone()).await, Err(StoreError::Contended)));
    assert_eq!(document(bench, &plan_of(&path)).await, kept, "leased");
    write(bench, &path, a, fields([("leasehold_holder", "a")])).await;
    store.release(&path, a, None).await.unwrap();
    assert!(is_refused(&store.delete(&path, etag).await));
    assert_eq!(document(bench, &plan_of(&path)).await, kept, "changed");
    assert_eq!(state(bench, &path).await, LeaseState::Available);
}

/// Eight writers at once, of one version; the ETag that the one of them got.
async fn one_of_eight<B: Bench>(
    bench: &B,
    path: &DocumentPath,
    round: usize,
    known: Option<ETag>,
) -> ETag {
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (store, path, known) = (Arc::clone(&bench.store()), path.clone(), known.clone());
        let text = format!("{round}-{writer}");
        writers.spawn(async move { (text.clone(), store.write_document(path, text, known).await) });
    }
    let mut done = Vec::new();
    for (text, answer) in writers.join_all().await {
        match answer {
            Ok(written) => done.push((text, written.etag)),
            Err(error) => assert!(matches!(error, StoreError::Changed), "{}", error.chain()),
        }
    }
    assert_eq!(done.len(), 1, "written at once: {done:?}");
    assert_eq!(document(bench, path).await.as_ref(), done.first());
    done.remove(0).1
}

pub(super) async fn t3_of_eight_writes_of_one_plan_one_is_done<B: Bench>(bench: &B) {
    let path = lock(bench, "host/writes/~/FUNCTION");
    let mut known = put(bench, &plan_of(&path), PLAN, None).await.etag;
    for round in 0..ROUNDS {
        known = one_of_eight(bench, &plan_of(&path), round, Some(known)).await;
    }
}

/// In the first round the container is made too.
pub(super) async fn t3_of_eight_first_plans_one_is_written<B: Bench>(bench: &B) {
    for round in 0..ROUNDS {
        let path = lock(bench, &format!("host/new-{round}/~/FUNCTION"));
        one_of_eight(bench, &plan_of(&path), round, None).await;
    }
}

pub(super) async fn t22_a_store_that_dotnet_cannot_share_says_so<B: Bench>(bench: &B) {
    let (store, status) = (bench.store(), status_of(bench, "f"));
    if has_timers(bench) {
        return;
    }
    let read = store.read_document(status.clone()).await;
    assert!(matches!(read, Err(StoreError::Fatal { .. })), "{read:?}");
    let written = store.write_document(status, STATUS.to_owned(), None).await;
    assert!(matches!(written, Err(StoreError::Fatal { .. })), "{written:?}");
}

pub(super) async fn t22_a_status_reads_back_byte_for_byte<B: Bench>(bench: &B) {
    if !has_timers(bench) {
        return;
    }
    let status = status_of(bench, "Host.Functions.Zürich+Nested");
    let longest = longest_text(DocumentKind::TimerStatus);
    let known = read_back(bench, &status, &[STATUS, "{\r\n}", "", &longest]).await;
    let refused = bench.store().write_document(status, longest + "x日", known).await;
    assert!(matches!(refused, Err(StoreError::Fatal { .. })), "{refused:?}");
}

pub(super) async fn t22_a_status_is_replaced_only_by_who_knows_it<B: Bench>(bench: &B) {
    if !has_timers(bench) {
        return;
    }
    let status = status_of(bench, "known");
    let store = bench.store();
    let never = ETag("\"never\"".into());
    let refused =
        store.write_document(status.clone(), "other".to_owned(), Some(never.clone())).await;
    assert!(is_refused(&refused), "{refused:?}");
    assert_eq!(document(bench, &status).await, None);
    let first = put(bench, &status, STATUS, None).await.etag;
    // The same text makes another version: who knew the first one knows that somebody wrote.
    let second = put(bench, &status, STATUS, Some(first.clone())).await.etag;
    assert_ne!(first, second);
    for known in [None, Some(first), Some(never)] {
        let refused = store.write_document(status.clone(), "other".to_owned(), known.clone()).await;
        assert!(is_refused(&refused), "{known:?}: {refused:?}");
    }
    assert_eq!(document(bench, &status).await, Some((STATUS.to_owned(), second)));
}

pub(super) async fn t22_a_status_belongs_to_no_lock<B: Bench>(bench: &B) {
    if !has_timers(bench) {
        return;
    }
    let status = status_of(bench, "apart");
    let (store, path) = (bench.store(), lock(bench, "locks/keeper-a/apart.Listener"));
    let known = put(bench, &status, STATUS, None).await.etag;
    let kept = Some((STATUS.to_owned(), known.clone()));
    let a = new_id();
    let made = acquire(bench, &path, longest(a)).await;
    assert!(made.created, "the lock was not there");
    store.release(&path, a, None).await.unwrap();
    store.delete(&path, made.etag).await.unwrap();
    assert_eq!(document(bench, &status).await, kept);
    let (container, prefix) = (bench.container(), "locks/".to_owned());
    let list = List { container, prefix, continuation: None, limit: 10 };
    assert!(store.list(list).await.unwrap().locks.is_empty());
    assert_eq!(document(bench, &status_of(bench, "Apart")).await, None);
}

pub(super) async fn t22_of_eight_writes_of_one_status_one_is_done<B: Bench>(bench: &B) {
    if !has_timers(bench) {
        return;
    }
    let status = status_of(bench, "writes");
    let mut known = None;
    for round in 0..4 {
        known = Some(one_of_eight(bench, &status, round, known).await);
    }
}
