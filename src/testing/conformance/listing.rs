//! Listings, page by page.

use std::time::Duration;

use futures_util::future::join_all;

use super::bench::{Bench, acquire, break_lease, fields, lock, longest, new_id, note, read, write};
use crate::lock::{Container, LockPath};
use crate::store::{BreakPeriod, LeaseStoreExt as _, List, StoredLock};

async fn list_all<B: Bench>(bench: &B, prefix: &str, limit: usize) -> Vec<(LockPath, StoredLock)> {
    let mut request =
        List { container: bench.container(), prefix: prefix.to_owned(), continuation: None, limit };
    let mut all = Vec::new();
    for _ in 0..100 {
        let page = bench.store().list(request.clone()).await.expect("the container is there");
        assert!(page.locks.len() <= limit, "{} locks in a page of {limit}", page.locks.len());
        all.extend(page.locks);
        if page.continuation.is_none() {
            return all;
        }
        request.continuation = page.continuation;
    }
    panic!("the listing does not end");
}

async fn make<B: Bench>(bench: &B, names: &[String]) -> Vec<LockPath> {
    let paths: Vec<LockPath> = names.iter().map(|name| lock(bench, name)).collect();
    for some in paths.chunks(16) {
        join_all(some.iter().map(|path| acquire(bench, path, longest(new_id())))).await;
        // So that the order of making is none of time standing still.
        bench.pass(Duration::from_millis(5)).await;
    }
    paths
}

fn paths(listed: Vec<(LockPath, StoredLock)>) -> Vec<LockPath> {
    listed.into_iter().map(|(path, _)| path).collect()
}

pub(super) async fn a_listing_shows_every_lock_once_in_order<B: Bench>(bench: &B) {
    // Made in another order than that of their names.
    let names: Vec<String> =
        (0..250).map(|number| format!("host/f-{:03}/~/FUNCTION", number * 7 % 250)).collect();
    let mut made = make(bench, &names).await;
    made.sort();
    assert_eq!(paths(list_all(bench, "host/", 100).await), made);
    assert_eq!(paths(list_all(bench, "", 1_000).await), made);
    assert_eq!(paths(list_all(bench, "host/", 125).await), made, "pages that come out even");
}

pub(super) async fn a_listing_shows_only_what_begins_with_the_prefix<B: Bench>(bench: &B) {
    let names = ["a/x", "a/x%", "a/x%25", "a/x.y", "a/x/y", "a/xy", "a/X", "a/y", "ab/x", "b/x"];
    let made = make(bench, &names.map(str::to_owned)).await;
    for prefix in ["", "a/", "a/x", "a/x%", "a/x/", "a", "b/x", "c", "x"] {
        let mut expected: Vec<_> =
            made.iter().filter(|path| path.name().starts_with(prefix)).cloned().collect();
        expected.sort();
        assert_eq!(paths(list_all(bench, prefix, 3).await), expected, "{prefix:?}");
    }
}

pub(super) async fn a_listing_shows_each_lock_as_reading_it_does<B: Bench>(bench: &B) {
    let store = bench.store();
    let names = ["available", "breaking", "broken", "new"].map(|name| format!("host/{name}"));
    make(bench, &names).await;
    let [free, breaking, broken, _] = names.map(|name| lock(bench, &name));
    let leased = lock(bench, "host/leased");
    let a = new_id();
    acquire(bench, &leased, longest(a)).await;
    write(bench, &leased, a, fields([("leasehold_holder", "a"), ("other", "%20 +")])).await;
    break_lease(bench, &broken, note(BreakPeriod::Now, "shown nowhere")).await.unwrap();
    break_lease(bench, &breaking, note(BreakPeriod::RunOut, "shown nowhere")).await.unwrap();
    break_lease(bench, &free, note(BreakPeriod::Now, "and taken and given back")).await.unwrap();
    let b = new_id();
    acquire(bench, &free, longest(b)).await;
    store.release(&free, b, None).await.unwrap();
    store.renew(&leased, a, None).await.unwrap();

    let listed = list_all(bench, "", 2).await;
    assert_eq!(listed.len(), 5, "{listed:?}");
    for (path, shown) in listed {
        let stored = read(bench, &path).await;
        assert_eq!(shown.etag, stored.etag, "{path}");
        assert_eq!(shown.fields, stored.fields, "{path}");
        assert_eq!(shown.lease, stored.lease, "{path}");
        assert_eq!(shown.written_at.seconds(), stored.written_at.seconds(), "{path}");
    }
}

pub(super) async fn a_listing_of_a_container_that_is_not_there_is_empty<B: Bench>(bench: &B) {
    make(bench, &["host/there".to_owned()]).await;
    let nowhere = Container::parse("nobody-made-this").expect("a good name");
    let request = List { container: nowhere, prefix: String::new(), continuation: None, limit: 10 };
    let page = bench.store().list(request).await.unwrap();
    assert!(page.locks.is_empty() && page.continuation.is_none(), "{page:?}");
}
